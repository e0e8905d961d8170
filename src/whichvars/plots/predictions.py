"""Plots of how good predictions are, if the family is not Gaussian."""

from typing import TYPE_CHECKING, Any

import numpy as np

from whichvars.errors import DataError
from whichvars.plots.drawing import BLUE, GREY, INK, PALE, NothingToDrawError, legend_above, new_axes, tidy
from whichvars.plots.questions import check_posterior, doubt
from whichvars.posterior.accuracy import area_under_curve, calibration_table, predicted_rows, roc_curve
from whichvars.posterior.family_words import outcome
from whichvars.posterior.posterior import Posterior
from whichvars.problem.families import Gaussian

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

    The further the curve is above the diagonal, the better the two are told apart; the area below it is the `auc` of
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
        raise DataError("y has a single value, and a ROC curve needs both")
    area = area_under_curve(rows.mean, rows.weight * rows.y, rows.weight * failures)
    ax = new_axes(ax, 4.8, 4.6)
    ax.plot([0, 1], [0, 1], color=GREY, linewidth=0.8, label="worth nothing")
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
        Of a family that is not Gaussian.
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
    if isinstance(problem.family, Gaussian):
        raise NothingToDrawError(
            "calibration is that of probabilities and rates; a Gaussian response has loo(X, y)['pit']"
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


def _which(X: Any) -> str:
    return "each row from the others" if X is None else "new rows"
