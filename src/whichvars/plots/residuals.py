"""Plots of residuals, from what ``Posterior.residual_check`` returns."""

from typing import TYPE_CHECKING, Literal

import numpy as np
import pandas as pd

from whichvars.errors import ArgumentTypeError
from whichvars.plots.drawing import (
    BLUE,
    GREY,
    INK,
    MANY_POINTS,
    ORANGE,
    PALE,
    SKY,
    NothingToDrawError,
    legend_above,
    new_axes,
    tidy,
)
from whichvars.plots.questions import check_choice
from whichvars.posterior.predictive_checks import Bands
from whichvars.posterior.residual_checks import ResidualCheck

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# share of the rows that a running mean is taken over, and the fewest rows for one
WINDOW, FEWEST = 0.2, 30
# up to this many rows, points are drawn larger
FEW_POINTS = 300


def plot_residuals(
    check: ResidualCheck,
    ax: "Axes | None" = None,
    *,
    show: Literal["fitted", "quantiles", "predictive"] = "fitted",
) -> "Axes":
    r"""Plot residuals against fitted values or against quantiles of the normal distribution, or plot responses beside those that the model produces.

    - "fitted": standardised residuals against fitted values, with a running mean, which should stay near 0, and a running standard deviation about
      it, which should stay near 1. Outliers are marked.
    - "quantiles": sorted standardised residuals against :math:`\Phi^{-1}((i - 1/2)/n)`. If residuals are normal, each
      point is in the band with 90 % probability.
    - "predictive": the share of the responses below each value, over the same for responses drawn from the fitted model.

    Parameters
    ----------
    check : ResidualCheck
        What ``Posterior.residual_check(X, y)`` returns.
    ax : Axes
        Axes to draw on. The default is a new figure.
    show : "fitted", "quantiles" or "predictive"

    Returns
    -------
    Axes

    Examples
    --------
    >>> import whichvars as wv
    >>> data = wv.datasets.load_uscrime()
    >>> check = wv.exact(wv.Problem(data.X, data.y, slab=wv.GPrior(47))).residual_check(data.X, data.y)
    >>> wv.plot_residuals(check).get_xlabel(), wv.plot_residuals(check, show="quantiles").get_xlabel()
    ('fitted value', 'quantile of the normal distribution')
    """
    if not isinstance(check, ResidualCheck):
        raise ArgumentTypeError(
            f"plot_residuals takes what posterior.residual_check(X, y) returns, not {type(check).__name__}"
        )
    check_choice(show, ("fitted", "quantiles", "predictive"), "show")
    kept = {"fitted": check.points, "quantiles": check.quantiles, "predictive": check.bands}
    if kept[show] is None:
        raise NothingToDrawError("there is nothing to draw: this check did not keep it")
    ax = new_axes(ax, 6.0, 3.8)
    if show == "fitted" and check.points is not None:
        _against_fitted(ax, check.points)
    elif show == "quantiles" and check.quantiles is not None:
        _against_quantiles(ax, check.quantiles)
    elif check.bands is not None:
        draw_bands(ax, check.bands)
    tidy(ax, "both")
    legend_above(ax, ncols=3)
    return ax


def _against_fitted(ax: "Axes", points: np.ndarray) -> None:
    fitted, residual, outlier = points
    far = outlier > 0
    many, size = len(fitted) > MANY_POINTS, 3 if len(fitted) > FEW_POINTS else 5
    ax.axhline(0, color=GREY, linewidth=0.8, zorder=1)
    ax.plot(
        fitted[~far], residual[~far], "o", color=BLUE, markersize=size, alpha=0.6, markeredgewidth=0, rasterized=many
    )  # fmt: skip
    if far.any():
        ax.plot(fitted[far], residual[far], "o", color=ORANGE, markersize=5, label="outliers")
    if len(fitted) >= FEWEST:
        order = np.argsort(fitted, kind="stable")
        window = int(WINDOW * len(order))
        rolling = pd.Series(residual[order]).rolling(window, center=True, min_periods=max(window // 5, 3))
        mean, spread = rolling.mean().to_numpy(), rolling.std().to_numpy()
        ax.plot(fitted[order], mean, color=INK, linewidth=1.5, label="running mean")
        for sign, label in ((1, "± running sd"), (-1, None)):
            ax.plot(
                fitted[order], mean + sign * spread, color=INK, linewidth=0.8, linestyle="--", label=label
            )
    ax.set(xlabel="fitted value", ylabel="standardised residual")


def _against_quantiles(ax: "Axes", quantiles: np.ndarray) -> None:
    expected, residual, low, high = quantiles
    ax.fill_between(expected, low, high, color=PALE, linewidth=0, label="90 % if normal")
    ax.plot(expected, expected, color=GREY, linewidth=0.8)
    ax.plot(expected, residual, "o", color=BLUE, markersize=3, markeredgewidth=0, label="residuals")
    ax.set(xlabel="quantile of the normal distribution", ylabel="standardised residual")


def draw_bands(ax: "Axes", bands: Bands) -> None:
    """Shares of responses below each value, observed and drawn."""
    step: Literal["post"] | None = "post" if bands.whole else None
    for low, high, share, colour in (
        (bands.low90, bands.high90, 90, PALE),
        (bands.low50, bands.high50, 50, SKY),
    ):
        label = f"{share} % of {bands.draws} draws"
        ax.fill_between(bands.grid, low, high, color=colour, step=step, linewidth=0, label=label)
    style = "steps-post" if bands.whole else "default"
    ax.plot(bands.grid, bands.observed, color=INK, linewidth=1.4, drawstyle=style, label="observed")
    ax.set(xlabel="response", ylabel="share of the rows below", ylim=(-0.02, 1.02))
