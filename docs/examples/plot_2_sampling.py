"""
A larger problem, by sampling
=============================

Economic growth of 72 countries and 41 candidate variables: 2·10¹² models. Sampling stops when every inclusion
probability is known to within .01.
"""

import whichvars as wv

data = wv.datasets.load_growth()
problem = wv.Problem(data.X, data.y, slab=wv.GPrior("bric"), model_prior=wv.BetaBinomial(size=7))
posterior = wv.sample(problem, target_mcse=0.01, seed=1, progress=False)
print(posterior)

# %%
# Whether to believe it, in words:

print(posterior.explain())

# %%
# Four independent runs. Points on the line agree.

wv.plot_agreement(posterior)

# %%
# The number of variables, before and after seeing the data.

wv.plot_model_size(posterior)

# %%
# The error bars are two Monte Carlo standard errors each way.

wv.plot_inclusion(posterior, top=15)
