"""Draw the picture of the first page and of README again, which is committed.

Run it after a change of plots or of the default sampler: python docs/refresh.py
"""

from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

import whichvars as wv

PICTURE = Path(__file__).resolve().parent / "_static" / "first.svg"
SETTINGS = {
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "whichvars",
    "font.sans-serif": ["DejaVu Sans", "Verdana", "sans-serif"],
}


def growth() -> wv.Posterior:
    """Why some economies grow faster than others, under the priors of the literature on these data."""
    data = wv.datasets.load_growth()
    problem = wv.Problem(data.X, data.y, slab=wv.GPrior("bric"), model_prior=wv.BetaBinomial(size=7))
    return wv.sample(problem, target_mcse=0.005, seed=1)


def draw_picture(posterior: wv.Posterior, path: Path = PICTURE) -> None:
    plt.rcParams.update(SETTINGS)
    fig, (left, right) = plt.subplots(1, 2, figsize=(10.5, 3.9), layout="constrained", width_ratios=(1, 1.25))
    wv.plot_inclusion(posterior, left, top=12)
    wv.plot_models(posterior, right, models=20, variables=12)
    fig.savefig(path, metadata={"Date": None, "Creator": None})


if __name__ == "__main__":
    draw_picture(growth())
