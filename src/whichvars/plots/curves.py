"""Plots of effects that may be curved."""

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from whichvars.data.expanding import NaturalSpline, curve_of
from whichvars.data.frames import check_level
from whichvars.errors import DataError
from whichvars.plots.drawing import BLUE, GREY, INK, legend_above, new_axes, short, tidy
from whichvars.plots.questions import check_count, check_posterior, doubt
from whichvars.posterior.pooling import PooledPosterior
from whichvars.posterior.posterior import Posterior
from whichvars.problem.families import Gaussian
from whichvars.problem.problem import Problem

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# points at which a curve is computed
GRID = 201


def plot_effect(
    posterior: Posterior | PooledPosterior,
    name: str,
    ax: "Axes | None" = None,
    *,
    interval: float = 0.9,
    draws: int = 2000,
    seed: int = 0,
) -> "Axes":
    r"""Plot the effect of a column that may be curved, with its interval.

    The line is the mean of :math:`f(x) - f(\bar x)` over models and coefficients, where f is the straight line plus the curve of a
    ``spline``, both 0 in models without them, and :math:`\bar x` is the mean of the column with an average curve. The band has the
    given probability at each x. Small marks below are the knots.

    Parameters
    ----------
    posterior : Posterior or PooledPosterior
    name : str
        A column of ``expand=[spline(name)]``, or of ``spline(name)`` in a formula.
    ax : Axes
        Axes to draw on. The default is a new figure.
    interval : float
        Probability of the band.
    draws, seed : int
        Number of draws of coefficients that the band is made from, and their seed.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import numpy as np, pandas as pd, whichvars as wv
    >>> rng = np.random.default_rng(0)
    >>> table = pd.DataFrame({"age": rng.uniform(20, 80, 200)})
    >>> y = ((table["age"] - 50) / 10) ** 2 + rng.normal(size=200)
    >>> posterior = wv.exact(wv.Problem(table, y, expand=[wv.spline("age")]))
    >>> wv.plot_effect(posterior, "age").get_xlabel()
    'age'
    """
    parts = posterior.parts if isinstance(posterior, PooledPosterior) else (posterior,)
    for part in parts:
        check_posterior(part)
    check_level(interval)
    count = check_count(draws, "draws")
    learnt = splines_of(parts[0].problem)
    if name not in learnt:
        known = f"those that have one: {', '.join(map(repr, learnt))}" if learnt else "there is none"
        raise DataError(
            f"plot_effect: {name!r} has no spline ({known}); make the problem with expand=[wv.spline({name!r})]"
        )
    x = np.linspace(learnt[name].low, learnt[name].high, GRID)
    curves = np.vstack([_curves(part, name, x, count, seed + i) for i, part in enumerate(parts)])
    low, high = np.quantile(curves, [(1 - interval) / 2, (1 + interval) / 2], axis=0)
    ax = new_axes(ax, 6.0, 3.8)
    ax.axhline(0, color=GREY, linewidth=0.8, zorder=1)
    ax.fill_between(x, low, high, color=BLUE, alpha=0.2, linewidth=0, label=f"{100 * interval:g} % interval")
    ax.plot(x, curves.mean(axis=0), color=BLUE, linewidth=2, label=_with_probabilities(posterior, name))
    knots = learnt[name].centre + learnt[name].unit * np.array(learnt[name].knots)
    ax.plot(knots, np.zeros(len(knots)), "|", color=INK, markersize=8, transform=ax.get_xaxis_transform())
    ax.set_xlabel(short(name))
    family = parts[0].problem.family
    ax.set_ylabel(
        "effect on the response" if isinstance(family, Gaussian) else f"effect on the {family.link}"
    )
    ax.margins(x=0)
    tidy(ax, "both")
    legend_above(ax, ncols=2, doubt=doubt(posterior))
    return ax


def splines_of(problem: Problem) -> dict[str, NaturalSpline]:
    """The columns of a problem that have a spline."""
    found = {} if problem.encoding is None else problem.encoding.expansions
    return {name: learnt for name, learnt in found.items() if isinstance(learnt, NaturalSpline)}


def _curves(posterior: Posterior, name: str, x: np.ndarray, draws: int, seed: int) -> np.ndarray:
    """Draws of the effect at some places, (draws, places)."""
    learnt = splines_of(posterior.problem)[name]
    values = learnt.values(pd.Series(x, name=name))
    values[:, 0] -= learnt.centre
    columns = [column for group in learnt.variables(name).values() for column in group]
    drawn = posterior.draw(draws, seed=seed)
    # a column that was left out has no coefficient
    return sum(
        (np.outer(drawn[c].to_numpy(), values[:, j]) for j, c in enumerate(columns) if c in drawn.columns),
        np.zeros((draws, len(x))),
    )


def _with_probabilities(posterior: Posterior | PooledPosterior, name: str) -> str:
    """The label of the line, with the probabilities that there is an effect and that it is curved."""
    pip = dict(zip(posterior.problem.names, posterior.pip.tolist()))
    said = [
        f"{what} with probability {pip[variable]:.2f}"
        for what, variable in (("in", name), ("curved", curve_of(name)))
        if variable in pip
    ]
    return f"mean effect ({', '.join(said)})" if said else "mean effect"
