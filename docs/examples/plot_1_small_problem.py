"""
A small problem, exactly
========================

Crime rates of 47 US states in 1960 and 15 variables that may explain them: 32,768 models, which are all enumerated.
"""

import whichvars as wv

data = wv.datasets.load_uscrime()
problem = wv.Problem(data.X, data.y, slab=wv.GPrior("n"), model_prior=wv.FixedInclusion(h=0.5))
posterior = wv.sample(problem)
print(posterior.explain())

# %%
# The inclusion probabilities; the vertical strokes are the prior probabilities, one half each.

wv.plot_inclusion(posterior)

# %%
# The best models are columns, whose widths show their probabilities. ``Po1`` and ``Po2``, police spending in two years, fill
# each other's gaps: one of them is needed, and the data hardly say which.

wv.plot_models(posterior, models=25)

# %%
print(posterior.clusters()[["probability", "variables"]].to_string())

# %%
# Coefficients are averaged over all models: a spike at zero for the models without the variable, and a hump.

wv.plot_coefficients(posterior, top=6)
