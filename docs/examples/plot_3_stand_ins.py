"""
Variables that stand in for one another
=======================================

One hundred columns form blocks of ten that are almost copies of one another, and two of the columns have effects. No single
column is certain to be in the model, but it is certain that each of the two blocks has a column in it.
"""

import numpy as np

import whichvars as wv

rng = np.random.default_rng(3)
common = np.repeat(rng.normal(size=(120, 10)), 10, axis=1)
X = common + 0.25 * rng.normal(size=(120, 100))
y = 0.9 * X[:, 12] - 0.9 * X[:, 57] + rng.normal(size=120)
names = [f"block{j // 10}_{j % 10}" for j in range(100)]

problem = wv.Problem(X, y, names=names, model_prior=wv.BetaBinomial(size=3))
posterior = wv.sample(problem, target_mcse=0.01, seed=1, progress=False)
posterior.summary().head(6).drop(columns="ess").round(3)

# %%
# ``clusters`` finds sets of columns of which at least one is in the model, with a probability of at least 95 %:

posterior.clusters()[["probability", "expected", "purity", "variables"]]

# %%
# These sets are outlined among the correlations of the most probable columns.

wv.plot_correlation(posterior, top=16)

# %%
# The data say clearly that some column of a block is in the model, but not which one.

block = [name for name in names if name.startswith("block1_")]
print(
    f"P(any of block 1) = {posterior.probability_any(block):.3f}, largest single one "
    f"{posterior.inclusion_probabilities[block].max():.3f}"
)
