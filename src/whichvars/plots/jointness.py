"""A plot of the joint inclusion of pairs of variables."""

from typing import TYPE_CHECKING

import numpy as np

from whichvars.plots.drawing import NothingToDrawError, legend_above
from whichvars.plots.effects import draw_matrix, side_by_side
from whichvars.plots.questions import check_count, check_posterior, doubt, most_probable
from whichvars.posterior.posterior import Posterior

if TYPE_CHECKING:
    from matplotlib.axes import Axes


MEANINGS = {
    "probability": "probability that both are in",
    "jointness": "share of the models with one of them that have both",
    "jointness_odds": "both in, over one alone in",
    "log_odds_ratio": "log odds ratio of inclusion",
    "yule_q": "modified Yule's Q",
}
SIGNED = ("log_odds_ratio", "yule_q")


def plot_jointness(
    posterior: Posterior, ax: "Axes | None" = None, *, measure: str = "yule_q", top: int = 15
) -> "Axes":
    """Plot which variables are in the model together (red) and which exclude one another (blue), for all pairs.

    Parameters
    ----------
    posterior : Posterior
    ax : Axes
        Axes to draw on. The default is a new figure.
    measure : str
        One of the measures of ``Posterior.joint_inclusion``; "probability" is the probability that both are in.
    top : int
        Number of most probable variables to show.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import whichvars as wv
    >>> data = wv.datasets.load_uscrime()
    >>> posterior = wv.exact(wv.Problem(data.X, data.y, slab=wv.GPrior(47)))
    >>> ax = wv.plot_jointness(posterior)
    >>> len(ax.get_yticklabels())
    15
    """
    check_posterior(posterior)
    chosen = most_probable(posterior)[: check_count(top, "top")]
    if len(chosen) < 2:
        raise NothingToDrawError("a single variable has no pairs to draw")
    names = posterior.problem.names
    values = posterior.joint_inclusion([names[j] for j in chosen], measure)
    matrix = values.to_numpy()
    shown = np.where(np.isfinite(matrix), matrix, 0.0)
    finite = np.abs(matrix[np.isfinite(matrix) & ~np.eye(len(matrix), dtype=bool)])
    limit = (
        1.0
        if measure in ("probability", "jointness", "yule_q")
        else max(float(finite.max(initial=0.0)), 1e-6)
    )
    order = side_by_side(np.clip(shown / limit, -1, 1), [])
    labels = [str(values.index[k]) for k in order]
    ax = draw_matrix(ax, matrix[np.ix_(order, order)], labels, MEANINGS[measure], limit, measure in SIGNED)
    legend_above(ax, doubt=doubt(posterior))
    return ax
