"""Plots of inclusion probabilities, of the best models, and of the model size."""

from typing import TYPE_CHECKING

import numpy as np

from whichvars.plots.drawing import (
    BLUE,
    ERROR_BAR,
    ERRORS,
    GREEN,
    GREY,
    INK,
    MANY_POINTS,
    ORANGE,
    PALE,
    NothingToDrawError,
    add_boxes,
    in_lines,
    legend_above,
    long_enough,
    name_points,
    name_rows,
    new_axes,
    thousands,
    tidy,
    whole_numbers,
)
from whichvars.plots.questions import (
    check_count,
    check_posterior,
    doubt,
    most_probable,
    one_blas_thread,
    percent,
    quantile,
)
from whichvars.posterior.conditions import prior_sizes
from whichvars.posterior.fits import fits
from whichvars.posterior.models import KeptModels
from whichvars.posterior.posterior import Models, Posterior
from whichvars.posterior.tables import shown_models
from whichvars.problem.model_priors import mean_of_sizes
from whichvars.problem.problem import Problem

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# most variables in a plot with a row for each
MOST_ROWS = 50
# number of variables that are named if there are too many to name all
NAMED = 20
# least inclusion probability of a highlighted point
NOTABLE = 0.1
# width of the label of a model in inches
LABEL_INCHES = 0.2
# least width of the column of a model, relative to columns of equal widths
NARROWEST = 0.4
# height of the strip of model probabilities below the columns, in rows
STRIP_ROWS = 2.2
# error bars are shown in the strip if they would be visible on an axis this many times as long, as the strip is low
STRIP = 10.0
BAR = "#B3B3B3"
PIP = "posterior inclusion probability"


def plot_inclusion(posterior: Posterior, ax: "Axes | None" = None, *, top: int | None = None) -> "Axes":
    """Plot inclusion probabilities with their errors.

    Up to 50 variables have a row each, the most probable on top, with a tick at their prior probability. If there are more,
    they are side by side in the order of X, and the most probable ones are named.

    Parameters
    ----------
    posterior : Posterior
    ax : Axes
        Axes to draw on. The default is a new figure.
    top : int
        Show only this many variables, the most probable ones, in rows.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import whichvars as wv
    >>> data = wv.datasets.load_uscrime()
    >>> posterior = wv.exact(wv.Problem(data.X, data.y, slab=wv.GPrior(47)))
    >>> ax = wv.plot_inclusion(posterior, top=5)
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['Ineq', 'Ed', 'Prob', 'M', 'Po1']
    """
    check_posterior(posterior)
    p = posterior.problem.p
    if top is not None:
        return _inclusion_rows(posterior, ax, min(check_count(top, "top"), p))
    return _inclusion_rows(posterior, ax, p) if p <= MOST_ROWS else _inclusion_skyline(posterior, ax)


def _inclusion_rows(posterior: Posterior, ax: "Axes | None", rows: int) -> "Axes":
    ax = new_axes(ax, 6.4, 1.0 + 0.25 * rows)
    chosen = most_probable(posterior)[:rows]
    pip, place = posterior.pip[chosen], np.arange(rows)
    prior = posterior.problem.model_prior.inclusion(posterior.problem.p)[chosen]
    ax.hlines(place, 0, pip, color=PALE, linewidth=3, zorder=1)
    _points_with_errors(ax, place, chosen, posterior, upright=False)
    ax.plot(prior, place, "|", color=INK, markersize=7, markeredgewidth=1.2, label="prior", zorder=2)
    tidy(ax, "x")
    name_rows(ax, [posterior.problem.names[j] for j in chosen], fontsize=9)
    ax.set(xlim=(-0.015, 1.015), ylim=(rows - 0.4, -0.6), xlabel=PIP)
    legend_above(ax, "right", doubt=doubt(posterior))
    return ax


def _inclusion_skyline(posterior: Posterior, ax: "Axes | None") -> "Axes":
    ax = new_axes(ax, 8.0, 4.2)
    pip, p = posterior.pip, posterior.problem.p
    low = np.flatnonzero(pip < NOTABLE)
    notable = most_probable(posterior)[: int((pip >= NOTABLE).sum())]
    ax.plot(low + 1, pip[low], ".", color=GREY, markersize=3, rasterized=p > MANY_POINTS, zorder=1)
    ax.vlines(notable + 1, 0, pip[notable], color=PALE, linewidth=1.2, zorder=1)
    _points_with_errors(ax, notable + 1, notable, posterior, upright=True)
    prior = posterior.problem.model_prior.inclusion(p)
    if np.ptp(prior) == 0:
        ax.axhline(prior[0], color=INK, linewidth=0.9, linestyle=(0, (4, 3)), label="prior")
    ax.set(xlim=(1 - 0.01 * p, 1.01 * p), ylim=(-0.02, 1.13), ylabel=PIP)
    ax.set_xlabel(f"variable, in the order of X (1 to {p:,})")
    ax.set_yticks(np.linspace(0, 1, 6))
    thousands(ax)
    tidy(ax)
    legend_above(ax, doubt=doubt(posterior))
    named = notable[:NAMED]
    error = 2 * np.nan_to_num(posterior.mcse[notable])
    bars = np.column_stack(
        [notable + 1.0, np.clip(pip[notable] - error, 0, 1), np.clip(pip[notable] + error, 0, 1)]
    )
    name_points(ax, named + 1.0, pip[named], [posterior.problem.names[j] for j in named], bars)
    return ax


def _points_with_errors(
    ax: "Axes", place: np.ndarray, chosen: np.ndarray, posterior: Posterior, upright: bool
) -> None:
    """Draw points, filled if the error is known, and hollow if the variable never moved."""
    pip, mcse = posterior.pip[chosen], posterior.mcse[chosen]
    known = np.isfinite(mcse)
    for which, label, fill in (
        (known, ERRORS if posterior.mcse.any() else "exact", BLUE),
        (~known, "never moved", "white"),
    ):
        if not which.any():
            continue
        at, value = place[which], pip[which]
        error = 2 * np.nan_to_num(mcse[which])
        ends = np.abs(np.clip(value + error * [[-1], [1]], 0, 1) - value)  # probabilities stay in 0 … 1
        drawn = ends if error.any() else None
        x, y, xerr, yerr = (at, value, None, drawn) if upright else (value, at, drawn, None)
        ax.errorbar(
            x, y, yerr, xerr, fmt="o", markersize=5, color=BLUE, markerfacecolor=fill, elinewidth=1.2, capsize=2.5,
            label=label, zorder=3,
        )  # fmt: skip


def plot_models(
    posterior: Posterior, ax: "Axes | None" = None, *, models: int = 20, variables: int = 25
) -> "Axes":
    """Plot the variables in the best models: a row for each variable, a column for each model.

    The widths of columns are proportional to the probabilities of the models, but never too narrow to see. The colour is
    the sign of the coefficient in that model; variables of several columns have no sign. If the Monte Carlo
    errors of the probabilities are large enough to be seen, bars beneath the columns show them.

    Parameters
    ----------
    posterior : Posterior
    ax : Axes
        Axes to draw on. The default is a new figure.
    models, variables : int
        Largest number of models, of which the best are shown, and of variables, of which the most probable in these models are shown.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import whichvars as wv
    >>> data = wv.datasets.load_uscrime()
    >>> posterior = wv.exact(wv.Problem(data.X, data.y, slab=wv.GPrior(47)))
    >>> wv.plot_models(posterior, models=10).get_xlabel()
    'the 10 best models, 13 % in all; the wider, the more probable'
    """
    check_posterior(posterior)
    best = shown_models(posterior, check_count(models, "models"))
    members = best.members
    rows = [j for j in most_probable(posterior) if any(j in m for m in members)][
        : check_count(variables, "variables")
    ]
    if not rows:
        raise NothingToDrawError("there is nothing to draw: the best models have no variables")
    probability = best.frequency
    width = np.maximum(probability / probability.sum(), NARROWEST / len(members))
    edges = np.concatenate([[0], np.cumsum(width / width.sum())])
    signs = _signs(posterior.problem, members)
    image = np.array([[signs.get((m, j), 0) for m in range(len(members))] for j in rows])

    ax = new_axes(ax, 8.0, 1.4 + 0.22 * len(rows))
    for value, colour, label in (
        (1, BLUE, "in, positive"),
        (-1, ORANGE, "in, negative"),
        (2, GREEN, "in, several columns"),
    ):
        if (image == value).any():
            row, model = np.nonzero(image == value)
            add_boxes(
                ax, edges[model], edges[model + 1], row - 0.43, row + 0.43, color=colour, label=label,
                edgecolor="white", linewidth=0.4,
            )  # fmt: skip
    tidy(ax, "")
    name_rows(ax, [posterior.problem.names[j] for j in rows], fontsize=9)
    inches = ax.get_window_extent().width / ax.get_figure(root=True).dpi  # type: ignore[union-attr]
    wide = np.flatnonzero(np.diff(edges) > LABEL_INCHES / inches)
    ax.set_xticks((edges[:-1] + edges[1:])[wide] / 2, [str(m + 1) for m in wide])
    held = percent(probability.sum())
    ax.set_xlabel(
        in_lines(ax, f"the {len(members)} best models, {held} in all;", "the wider, the more probable")
    )
    foot = _draw_probabilities(ax, best, edges, len(rows) - 0.5)
    ax.set(xlim=(0, 1), ylim=(foot, -0.5))
    ax.hlines(np.arange(len(rows) - 1) + 0.5, 0, 1, color=PALE, linewidth=0.5, zorder=0)
    legend_above(ax, "right", ncols=4, doubt=doubt(posterior))
    return ax


def _draw_probabilities(ax: "Axes", models: Models, edges: np.ndarray, foot: float) -> float:
    """Draw the probabilities of the models with their errors below the columns, from `foot` on, if the errors are visible;
    returns the new foot."""
    n = len(edges) - 1
    if models.mcse is None:
        return foot
    probability, error = models.frequency[:n], 2 * models.mcse[:n]
    ends = np.clip(probability + error * [[-1], [1]], 0, 1)
    whole = float(np.nanmax(ends, initial=probability.max()))
    seen = long_enough(error, STRIP * whole)
    if not seen.any():
        return foot
    base, unit = foot + STRIP_ROWS, (STRIP_ROWS - 0.15) / whole
    edge = {"edgecolor": "white", "linewidth": 0.4}
    add_boxes(
        ax,
        edges[:-1],
        edges[1:],
        np.full(n, base),
        base - unit * probability,
        color=BAR,
        label="probability",
        **edge,
    )
    bars = unit * np.abs(ends - probability)[::-1, seen]  # upwards is towards smaller numbers
    middle = (edges[:-1] + edges[1:]) / 2
    ax.errorbar(middle[seen], base - unit * probability[seen], bars, **ERROR_BAR, label=ERRORS)
    return base


def _signs(problem: Problem, members: list[tuple[int, ...]]) -> dict[tuple[int, int], int]:
    """For each (model, variable) the sign of its coefficient, or 2 for a variable of several columns."""
    widths = np.diff(problem.offsets)
    owner = np.repeat(np.arange(problem.p), widths)
    # descending weights, so that models keep their order
    kept = KeptModels.of({m: float(len(members) - i) for i, m in enumerate(members)})
    signs = {}
    with one_blas_thread():
        for fit in fits(problem, kept):
            for model, columns, b in zip(fit.models.tolist(), fit.columns, fit.b):
                for column, value in zip(columns, b):
                    j = int(owner[column])
                    signs[model, j] = 2 if widths[j] > 1 else (1 if value >= 0 else -1)
    return signs


def plot_model_size(posterior: Posterior, ax: "Axes | None" = None) -> "Axes":
    """Plot the distribution of the number of variables in the model: posterior, with its errors, and prior.

    Examples
    --------
    >>> import whichvars as wv
    >>> data = wv.datasets.load_uscrime()
    >>> posterior = wv.exact(wv.Problem(data.X, data.y, slab=wv.GPrior(47)))
    >>> wv.plot_model_size(posterior).get_xlabel()
    'number of variables in the model'
    """
    check_posterior(posterior)
    ax = new_axes(ax, 6.4, 3.6)
    posterior_mass = posterior.sizes
    error = 2 * posterior.mean_size_mcse
    exactly = f" ± {np.ceil(100 * error) / 100:.2f}" if error > 0 else ""
    prior = prior_sizes(posterior)
    known = bool(np.isfinite(prior).all())
    if not known:
        prior = posterior_mass
    last = quantile(posterior_mass, 0.9995)
    first = min(quantile(posterior_mass, 0.0005), quantile(prior, 0.005))
    last = max(last, min(quantile(prior, 0.995), 2 * last + 10))  # the tail of a prior may be long
    size = np.arange(first, last + 1)
    ax.bar(
        size,
        posterior_mass[size],
        0.8 if len(size) <= 60 else 1.0,
        color=BLUE,
        label=f"posterior, mean {posterior.mean_size:.2f}{exactly}",
    )
    _size_errors(ax, posterior, size)
    mean = mean_of_sizes(prior)
    marks = "o" if len(size) <= 60 else ""
    if known:
        label = f"prior, mean {mean:.2f}"
        ax.plot(size, prior[size], color=ORANGE, linewidth=1.5, marker=marks, markersize=4, label=label)
    ax.set(xlabel="number of variables in the model", ylabel="probability", xlim=(first - 0.7, last + 0.7))
    ax.set_ylim(bottom=0)
    whole_numbers(ax)
    tidy(ax)
    legend_above(ax, ncols=2, doubt=doubt(posterior))
    return ax


def _size_errors(ax: "Axes", posterior: Posterior, size: np.ndarray) -> None:
    if posterior.sizes_mcse is None:
        return
    mass, error = posterior.sizes[size], 2 * posterior.sizes_mcse[size]
    seen = long_enough(error, float(mass.max()))
    if seen.any():
        ends = np.abs(np.clip(mass + error * [[-1], [1]], 0, 1) - mass)[:, seen]
        ax.errorbar(size[seen], mass[seen], ends, **ERROR_BAR, label=ERRORS, zorder=3)
