"""
A small problem, exactly
========================

The data are the crime rates of 47 US states in 1960, and 15 variables that may explain them. There are 32,768 models, and all of them
are enumerated.
"""

import whichvars as wv

data = wv.datasets.load_uscrime()
problem = wv.Problem(data.X, data.y, slab=wv.GPrior("n"), model_prior=wv.FixedInclusion(h=0.5))
posterior = wv.sample(problem)
print(posterior.explain())

# %%
# These are the inclusion probabilities. The vertical strokes are the prior probabilities, which are one half for each variable.

wv.plot_inclusion(posterior)

# %%
# Each column is one of the best models, and its width is proportional to its probability. ``Po1`` and ``Po2``, police spending in two
# years, fill each other's gaps: one of them is needed, but the data hardly say which.

wv.plot_models(posterior, models=25)

# %%
# ``clusters`` finds such sets of variables, of which at least one is in the model.

posterior.clusters()[["probability", "variables"]]

# %%
# Coefficients are averaged over all models. The spike at zero stands for the models without the variable, and the curve shows where
# the coefficient lies in the others.

wv.plot_coefficients(posterior, top=6)
