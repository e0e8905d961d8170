"""
Variables that stand in for one another
=======================================

One hundred columns in blocks of ten that are almost copies; two columns have effects. No single column is certain to be in
the model, but one of each of the two blocks is.
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
print(posterior.summary().head(6).round(3))

# %%
# Sets of which one is needed, with 95 % probability:

print(posterior.clusters()[["probability", "expected", "purity", "variables"]].to_string())

# %%
# The frames are these sets.

wv.plot_correlation(posterior, top=16)

# %%
# The probability that any column of a block is in the model is clear.

block = [name for name in names if name.startswith("block1_")]
print(
    f"P(any of block 1) = {posterior.probability_any(block):.3f}, largest single one "
    f"{posterior.inclusion_probabilities[block].max():.3f}"
)
