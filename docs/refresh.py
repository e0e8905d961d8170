"""Draw the pictures of the first page and of README again, which are committed.

Run it after a change of plots or of the default sampler: python docs/refresh.py
"""

from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

import whichvars as wv

STATIC = Path(__file__).resolve().parent / "_static"
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


def draw_pictures(posterior: wv.Posterior, folder: Path = STATIC) -> None:
    """Two plots beside one another, and below one another for phones."""
    plt.rcParams.update(SETTINGS)
    beside = plt.subplots(1, 2, figsize=(10.5, 3.9), layout="constrained", width_ratios=(1, 1.25))
    below = plt.subplots(2, 1, figsize=(4.4, 7.4), layout="constrained")
    for name, (figure, (first, second)), models in (("first", beside, 20), ("first_narrow", below, 10)):
        wv.plot_inclusion(posterior, first, top=12)
        wv.plot_models(posterior, second, models=models, variables=12)
        figure.savefig(folder / f"{name}.svg", metadata={"Date": None, "Creator": None})


if __name__ == "__main__":
    draw_pictures(growth())
