"""Plots for diagnosing convergence: along the runs, and between them."""

from typing import TYPE_CHECKING, Literal

import numpy as np

from whichvars.plots.drawing import (
    GREY,
    MANY_POINTS,
    PALE,
    SERIES,
    NothingToDrawError,
    legend_above,
    name_points,
    new_axes,
    thousands,
    tidy,
)
from whichvars.plots.questions import check_choice, check_posterior, doubt, has_particles, why_none
from whichvars.posterior.pooling import PooledPosterior
from whichvars.posterior.posterior import Posterior

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# number of steps of a trace above which an image is smaller
MANY_STEPS = 8000


def plot_trace(
    posterior: Posterior, ax: "Axes | None" = None, *, show: Literal["size", "log_posterior"] = "size"
) -> "Axes":
    """Plot the model size, or the log posterior, along the run, by replicate.

    Thin lines are the thinned record of every chain, thick lines are running means over a fiftieth of the run. If the
    sampler has converged, all replicates vary around the same level.

    Parameters
    ----------
    posterior : Posterior
    ax : Axes
        Axes to draw on. The default is a new figure.
    show : "size" or "log_posterior"

    Returns
    -------
    Axes

    Examples
    --------
    >>> import whichvars as wv
    >>> data = wv.datasets.load_uscrime()
    >>> posterior = wv.sample(wv.Problem(data.X, data.y, slab=wv.GPrior(47)), draws=5000, progress=False)
    >>> wv.plot_trace(posterior).get_ylabel()
    'number of variables in the model'
    """
    check_posterior(posterior)
    check_choice(show, ("size", "log_posterior"), "show")
    if posterior.trace is None or posterior.trace.empty:
        raise NothingToDrawError(f"there is nothing to draw: {why_none(posterior, 'trace')}")
    if has_particles(posterior):
        raise NothingToDrawError(
            "there is nothing to draw: the particles of SequentialMonteCarlo have no order in time; "
            "plot_ladder shows its steps"
        )
    if posterior.trace.groupby(["replicate", "chain"]).size().max() < 2:
        raise NothingToDrawError(
            "there is nothing to draw: the run was too short for a trace; use more draws"
        )
    ax = new_axes(ax, 8.0, 3.4)
    for number, (_, replicate) in enumerate(posterior.trace.groupby("replicate")):
        colour = SERIES[number % len(SERIES)]
        for _, chain in replicate.groupby("chain"):
            ax.plot(chain["iteration"], chain[show], color=colour, linewidth=0.5, alpha=0.25, zorder=1)
        mean = replicate.groupby("iteration")[show].mean()
        window = max(1, len(mean) // 50)
        smooth = (
            mean.rolling(window, center=True, min_periods=max(1, window // 2))
            .mean()
            .iloc[:: max(1, window // 4)]
        )
        ax.plot(
            smooth.index,
            smooth,
            color=colour,
            linewidth=1.8,
            label=f"replicate {number + 1}",
            zorder=2,
        )
    if len(posterior.trace) > MANY_STEPS:
        ax.set_rasterization_zorder(1.5)  # the thin lines as one image, also in vector files
    ax.set_xlabel("iteration of each chain, after warm-up")
    words = {"size": "number of variables in the model", "log_posterior": "log posterior, up to a constant"}
    ax.set_ylabel(words[show])
    if show == "size":
        from matplotlib.ticker import MaxNLocator

        ax.yaxis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10], integer=True))
    ax.margins(x=0.01)
    thousands(ax)
    tidy(ax)
    legend_above(ax, ncols=6, doubt=doubt(posterior))
    return ax


def plot_agreement(posterior: Posterior | PooledPosterior, ax: "Axes | None" = None) -> "Axes":
    """Plot inclusion probabilities by replicate, or by imputation, against their mean: points on the diagonal agree.

    A grey line joins the replicates' values of a variable. The variables on which they differ most are named.

    Examples
    --------
    >>> import whichvars as wv
    >>> data = wv.datasets.load_uscrime()
    >>> posterior = wv.sample(wv.Problem(data.X, data.y, slab=wv.GPrior(47)), draws=5000, progress=False)
    >>> wv.plot_agreement(posterior).get_ylabel()
    'inclusion probability in each replicate'
    """
    pips, what = _runs(posterior)
    ax = new_axes(ax, 5.4, 5.2)
    mean, low, high = pips.mean(axis=0), pips.min(axis=0), pips.max(axis=0)
    apart = np.flatnonzero(high - low > 0.005)
    ax.plot([0, 1], [0, 1], color=GREY, linewidth=0.8, zorder=1)
    ax.vlines(mean[apart], low[apart], high[apart], color=PALE, linewidth=1.2, zorder=1)
    moved = np.flatnonzero(high > 0)
    markers = "os^Dvp"
    for number, row in enumerate(pips):
        ax.plot(
            mean[moved], row[moved], markers[number % len(markers)], color=SERIES[number % len(SERIES)], markersize=4,
            alpha=0.8, markeredgewidth=0, label=f"{what} {number + 1}", rasterized=len(moved) > MANY_POINTS, zorder=2,
        )  # fmt: skip
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), xlabel=f"mean of all {what}s")
    ax.set_ylabel(f"inclusion probability in each {what}")
    ax.set_aspect("equal")
    tidy(ax, "both")
    columns = 4 if len(pips) % 4 == 0 else 3
    legend_above(ax, ncols=columns, columnspacing=1.0, handletextpad=0.1, doubt=doubt(posterior))
    worst = apart[np.argsort(low[apart] - high[apart], kind="stable")][:5]
    end = np.where(high[worst] - mean[worst] > mean[worst] - low[worst], high[worst], low[worst])
    bars = np.column_stack([mean, low, high])[apart]
    name_points(ax, mean[worst], end, [posterior.problem.names[j] for j in worst], bars)
    return ax


def _runs(posterior: Posterior | PooledPosterior) -> tuple[np.ndarray, str]:
    """Inclusion probabilities of each replicate or imputation, (runs, p), and which of the two they are of."""
    if isinstance(posterior, PooledPosterior):
        if len(posterior.parts) < 2:
            raise NothingToDrawError("a single imputation cannot be compared with others; impute with m=5")
        return np.array([part.pip for part in posterior.parts]), "imputation"
    check_posterior(posterior)
    pips = posterior.replicate_pips
    if pips is None:
        raise NothingToDrawError(f"there is nothing to draw: {why_none(posterior, 'replicates')}")
    if len(pips) < 2:
        raise NothingToDrawError(
            "a single replicate cannot be compared with others; sample with replicates=4"
        )
    return pips, "replicate"
