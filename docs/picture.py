"""The picture on the first page: growth of 72 countries. Run again when plots change: python docs/picture.py"""

from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

import whichvars as wv

data = wv.datasets.load_growth()
problem = wv.Problem(data.X, data.y, slab=wv.GPrior("bric"), model_prior=wv.BetaBinomial(size=7))
posterior = wv.sample(problem, draws=500_000, seed=1, progress=False)
plt.rcParams.update(
    {
        "svg.fonttype": "none",
        "svg.hashsalt": "whichvars",
        "font.sans-serif": ["DejaVu Sans", "Verdana", "sans-serif"],
    }
)
fig, (left, right) = plt.subplots(1, 2, figsize=(10.5, 3.9), layout="constrained", width_ratios=(1, 1.25))
wv.plot_inclusion(posterior, left, top=12)
wv.plot_models(posterior, right, models=20, variables=12)
fig.savefig(Path(__file__).parent / "_static" / "first.svg", metadata={"Date": None, "Creator": None})
