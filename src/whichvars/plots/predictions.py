"""Plots of how good predictions are, and of whether the model fits."""

from typing import TYPE_CHECKING, Any

import numpy as np

from whichvars.errors import DataError
from whichvars.plots.drawing import (
    BLUE,
    GREY,
    INK,
    ORANGE,
    PALE,
    NothingToDrawError,
    legend_above,
    new_axes,
    tidy,
)
from whichvars.plots.questions import check_count, check_posterior, doubt
from whichvars.plots.residuals import draw_bands
from whichvars.posterior.accuracy import area_under_curve, calibration_table, predicted_rows, roc_curve
from whichvars.posterior.family_words import outcome
from whichvars.posterior.posterior import Posterior
from whichvars.posterior.predictive_checks import bands_of, coverage_table, observed_responses
from whichvars.problem.families import is_linear

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# fewest rows of a bin, if their number is not given
ROWS_OF_BIN = 10


def plot_roc(
    posterior: Posterior,
    ax: "Axes | None" = None,
    *,
    X: Any = None,
    y: Any = None,
    offset: Any = None,
    trials: Any = None,
) -> "Axes":
    """Plot the receiver operating characteristic of predicted probabilities: for every threshold, the share of the responses of the
    second value that lie above it, against the share of those of the first value.

    The further the curve is above the diagonal, the better predictions distinguish the two values. The area below the curve is the `auc` of
    ``Posterior.scores``.

    Parameters
    ----------
    posterior : Posterior
        Of a response with two values, or of successes among trials.
    ax : Axes
        Axes to draw on. The default is a new figure.
    X, y, offset, trials
        New data, as for ``Posterior.scores``. The default are the problem's own rows, each predicted from all others.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import whichvars as wv
    >>> data = wv.datasets.load_uscrime()
    >>> posterior = wv.exact(wv.Problem(data.X[["M", "Ed", "Po1"]], data.y > data.y.median(), family="logistic"))
    >>> wv.plot_roc(posterior).get_xlabel()
    'share of False above the threshold'
    """
    check_posterior(posterior)
    problem = posterior.problem
    if problem.family.name not in ("logistic", "probit"):
        raise NothingToDrawError(
            "a ROC curve needs a response with two values; plot_calibration shows how good rates are"
        )
    rows = predicted_rows(posterior, X, y, offset, trials)
    failures = rows.trials - rows.y
    if not (rows.y.any() and failures.any()):
        raise DataError("y has only one value, and a ROC curve needs both")
    area = area_under_curve(rows.mean, rows.weight * rows.y, rows.weight * failures)
    ax = new_axes(ax, 4.8, 4.6)
    ax.plot([0, 1], [0, 1], color=GREY, linewidth=0.8, label="guessing")
    ax.plot(*roc_curve(rows), color=BLUE, linewidth=1.8, label=f"{_which(X)}, area {area:.3f}")
    first = str(problem.classes[0]) if problem.classes else "the failures"
    second = outcome(problem) if problem.classes else "the successes"
    ax.set(xlabel=f"share of {first} above the threshold", ylabel=f"share of {second} above the threshold")
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    ax.set_aspect("equal")
    tidy(ax, "both")
    legend_above(ax, ncols=2, doubt=doubt(posterior))
    return ax


def plot_calibration(
    posterior: Posterior,
    ax: "Axes | None" = None,
    *,
    X: Any = None,
    y: Any = None,
    bins: int | None = None,
    offset: Any = None,
    trials: Any = None,
) -> "Axes":
    """Plot observed shares or mean counts against predicted probabilities or rates, in bins by prediction.

    Points on the diagonal are right on average. A bar is where the point would lie with a probability of about 90 % if predictions were
    right (``Posterior.calibration``).

    Parameters
    ----------
    posterior : Posterior
        Of probabilities or rates.
    ax : Axes
        Axes to draw on. The default is a new figure.
    X, y, offset, trials
        New data, as for ``Posterior.scores``. The default are the problem's own rows, each predicted from all others.
    bins : int
        Number of bins of about equally many rows. The default is 10, or fewer if these would have less than 10 rows.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import whichvars as wv
    >>> data = wv.datasets.load_uscrime()
    >>> posterior = wv.exact(wv.Problem(data.X[["M", "Ed", "Po1"]], data.y > data.y.median(), family="logistic"))
    >>> wv.plot_calibration(posterior).get_xlabel()
    'predicted probability of True'
    """
    check_posterior(posterior)
    problem = posterior.problem
    if is_linear(problem.family):
        raise NothingToDrawError(
            "plot_calibration is for probabilities and rates; use plot_pit for a Gaussian or Student response"
        )
    rows = predicted_rows(posterior, X, y, offset, trials)
    most = int(np.clip(len(rows.mean) // ROWS_OF_BIN, 2, 10))
    table = calibration_table(rows, most if bins is None else bins)
    ax = new_axes(ax, 4.8, 4.6)
    shares = problem.family.name in ("logistic", "probit")
    top = 1.0 if shares else 1.05 * float(table[["predicted", "observed", "upper"]].to_numpy().max())
    ax.plot([0, top], [0, top], color=GREY, linewidth=0.8, label="right on average")
    ax.vlines(
        table["predicted"], table["lower"], table["upper"], color=PALE, linewidth=5, label="90 % if right"
    )
    ax.plot(table["predicted"], table["observed"], "o", color=BLUE, markersize=5, markeredgecolor=INK,
            markeredgewidth=0.4, label=_which(X))  # fmt: skip
    of = f"probability of {outcome(problem)}" if shares else "rate"
    ax.set(xlabel=f"predicted {of}", ylabel="observed share" if shares else "mean of the counts")
    ax.set(xlim=(-0.02 * top, 1.02 * top), ylim=(-0.02 * top, 1.02 * top))
    ax.set_aspect("equal")
    tidy(ax, "both")
    legend_above(ax, ncols=3, doubt=doubt(posterior))
    return ax


def plot_pit(
    posterior: Posterior,
    ax: "Axes | None" = None,
    *,
    X: Any = None,
    y: Any = None,
    weights: Any = None,
    bins: int = 10,
) -> "Axes":
    """Plot a histogram of probability integral transforms, each row predicted from all others.

    It is flat if predictive distributions are right. A hump in the middle means that they are too wide, high ends that they are too narrow, and a
    slope that predictions are too high or too low. If they are right, about 90 % of the bars end between the broken lines.

    Transforms of counts and of responses with two values are randomised (see ``Posterior.loo``). Of two values they say hardly more than whether the
    mean is right; ``plot_calibration`` says more.

    Parameters
    ----------
    posterior : Posterior
    ax : Axes
        Axes to draw on. The default is a new figure.
    X, y, weights
        The data that the problem was made with, as for ``Posterior.loo``; they are needed if the response is Gaussian.
    bins : int
        Number of bars.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import whichvars as wv
    >>> data = wv.datasets.load_uscrime()
    >>> posterior = wv.exact(wv.Problem(data.X, data.y, slab=wv.GPrior(47)))
    >>> wv.plot_pit(posterior, X=data.X, y=data.y).get_ylabel()
    'rows'
    """
    check_posterior(posterior)
    bins = check_count(bins, "bins")
    pit = posterior.loo(X, y, weights)["pit"].to_numpy()
    edges = np.linspace(0, 1, bins + 1)
    n, counts = len(pit), np.histogram(pit, edges)[0]
    band = coverage_table(pit, [1 / bins]) if bins > 1 else None
    ax = new_axes(ax, 5.4, 3.4)
    ax.bar(
        edges[:-1],
        counts,
        1 / bins,
        align="edge",
        color=BLUE,
        edgecolor="white",
        label="predicted from the others",
    )
    if band is not None:
        low, high = n * band["lower"].iloc[0], n * band["upper"].iloc[0]
        for end, label in ((low, "if right, 90 % of bars end between"), (high, None)):
            ax.axhline(end, color=ORANGE, linewidth=1.2, linestyle="--", label=label)
    ax.axhline(n / bins, color=INK, linewidth=0.8)
    ax.set(xlabel="probability of a smaller response", ylabel="rows", xlim=(0, 1))
    tidy(ax)
    legend_above(ax, ncols=2, doubt=doubt(posterior))
    return ax


def plot_predictive_check(
    posterior: Posterior,
    ax: "Axes | None" = None,
    *,
    X: Any,
    y: Any,
    n: int = 200,
    seed: int | None = 0,
    weights: Any = None,
    offset: Any = None,
    trials: Any = None,
) -> "Axes":
    """Plot the distribution of the observed responses over those of responses drawn from the fitted model.

    The line is the share of the responses below each value; the bands have 50 and 90 % of the same shares among the draws.

    Parameters
    ----------
    posterior : Posterior
    ax : Axes
        Axes to draw on. The default is a new figure.
    X, y
        The data, usually those that the problem was made with.
    n : int
        Number of draws.
    seed, weights, offset, trials
        As for ``Posterior.draw_response``.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import whichvars as wv
    >>> data = wv.datasets.load_uscrime()
    >>> posterior = wv.exact(wv.Problem(data.X, data.y, slab=wv.GPrior(47)))
    >>> wv.plot_predictive_check(posterior, X=data.X, y=data.y).get_xlabel()
    'response'
    """
    check_posterior(posterior)
    drawn = posterior.draw_response(X, check_count(n, "n"), seed, weights, offset, trials)
    observed = observed_responses(posterior, X, y, drawn.shape[1], trials)
    ax = new_axes(ax, 6.0, 3.8)
    draw_bands(ax, bands_of(drawn, observed, not is_linear(posterior.problem.family)))
    tidy(ax, "both")
    legend_above(ax, ncols=3, doubt=doubt(posterior))
    return ax


def _which(X: Any) -> str:
    return "predicted from the others" if X is None else "new rows"
