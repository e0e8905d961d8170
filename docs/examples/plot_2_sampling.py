"""
A larger problem, by sampling
=============================

Which of 41 variables explain the economic growth of 72 countries? There are 2·10¹² models, which are too many to enumerate, so they are
sampled. Sampling stops when every inclusion probability has a Monte Carlo error of at most .01.
"""

import whichvars as wv

data = wv.datasets.load_growth()
problem = wv.Problem(data.X, data.y, slab=wv.GPrior("bric"), model_prior=wv.BetaBinomial(size=7))
posterior = wv.sample(problem, target_mcse=0.01, seed=1, progress=False)
posterior

# %%
# ``explain`` says in words what was found, and whether to trust it:

print(posterior.explain())

# %%
# There were four independent runs. If their points are on the line, they agree.

wv.plot_agreement(posterior)

# %%
# This is the distribution of the number of variables in the model, before and after seeing the data.

wv.plot_model_size(posterior)

# %%
# The error bars of the inclusion probabilities are ± 2 Monte Carlo standard errors; most are too short to be seen.

wv.plot_inclusion(posterior, top=15)
