"""Plots of the coefficients of variables, and of the correlations among them."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from whichvars.data.frames import find_columns
from whichvars.errors import DataError
from whichvars.plots.drawing import (
    BLUE,
    ERROR_BAR,
    ERRORS,
    INK,
    LABEL_SIZE,
    PALE,
    NothingToDrawError,
    in_lines,
    legend_above,
    long_enough,
    name_rows,
    new_axes,
    tidy,
)
from whichvars.plots.questions import check_count, check_posterior, doubt, most_probable, one_blas_thread
from whichvars.posterior.fits import fits
from whichvars.posterior.models import KeptModels
from whichvars.posterior.posterior import Posterior
from whichvars.posterior.t_mixture import log_t_constant
from whichvars.problem.columns import gram_of
from whichvars.problem.families import Gaussian
from whichvars.problem.problem import Problem

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# points at which a density is computed
GRID = 301
# most models over which a density is averaged: those of largest weight
MOST_DENSITY_MODELS = 3000
# see `fits`: errors of densities are about 1e-8, far below the width of a line
DENSITY_DROP = 20.0
# points times components that are processed together
DENSITY_CELLS = 1 << 15


def plot_coefficients(
    posterior: Posterior, ax: "Axes | None" = None, *, names: Any = None, top: int = 10
) -> "Axes":
    r"""Plot coefficients, each in a row with a spike at 0 and a density.

    The height of the spike is the probability that the variable is out, so that its coefficient is 0, with the error bar of
    that probability. The density is that of the coefficient if the variable is in, and its height is the probability of
    that. Coefficients are standardised, :math:`\beta_j\, s_j / s_y`: by how many standard deviations y changes with one
    standard deviation of the column, both after regression on the always-included columns. If the family is not Gaussian, they are
    changes of the linear predictor, such as log odds, for one standard deviation of the column. Densities are averages over the 3,000
    models with the largest weights.

    Parameters
    ----------
    posterior : Posterior
    ax : Axes
        Axes to draw on. The default is a new figure.
    names : names or indices
        Variables to show. The default is the `top` most probable.
    top : int
        Number of variables if no names are given, of which at most three have a probability below .05.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import whichvars as wv
    >>> data = wv.datasets.load_uscrime()
    >>> posterior = wv.exact(wv.Problem(data.X, data.y, slab=wv.GPrior(47)))
    >>> ax = wv.plot_coefficients(posterior, names=["Ed", "Time"])
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['Ed', 'Time']
    """
    check_posterior(posterior)
    problem = posterior.problem
    if names is None:
        first = most_probable(posterior)[: check_count(top, "top")]
        variables: Sequence[int] = [
            j for i, j in enumerate(first.tolist()) if i < 3 or posterior.pip[j] >= 0.05
        ]
    else:
        variables = find_columns(names, problem.names, "names")
    columns = [c for j in variables for c in range(problem.offsets[j], problem.offsets[j + 1])]
    if not columns:
        raise DataError("names is empty; name at least one variable")
    owner = np.repeat(np.arange(problem.p), np.diff(problem.offsets))
    parts = _standardised_components(posterior, columns)
    grid = _grid(parts)
    densities = [_t_density(grid, *parts[c]) for c in columns]

    ax = new_axes(ax, 7.0, 1.2 + 0.46 * len(columns))
    pip = posterior.pip[owner[columns]]
    place = np.arange(len(columns))
    ax.vlines(np.zeros(len(columns)), place, place - 0.85 * (1 - pip), color=INK, linewidth=2.5, zorder=3)
    _draw_humps(ax, grid, densities, 0.85 * pip)
    error = 2 * posterior.mcse[owner[columns]]
    seen = long_enough(error, len(columns))
    ax.plot([], [], color=INK, linewidth=2.5, label="probability of being 0 (out)")
    ax.plot([], [], color=BLUE, linewidth=6, alpha=0.5, label="density if in, as high as its probability")
    if seen.any():
        ends = np.clip(1 - pip + error * [[-1], [1]], 0, 1)[:, seen]
        ax.errorbar(
            np.zeros(seen.sum()), place[seen] - 0.85 * (1 - pip[seen]), 0.85 * np.abs(ends[::-1] - (1 - pip[seen])),
            **ERROR_BAR, zorder=4, label=f"{ERRORS} of it",
        )  # fmt: skip
    tidy(ax, "both")
    name_rows(ax, [problem.columns_used[c] for c in columns], fontsize=9)
    ax.set_ylim(len(columns) - 0.75, -1.0)
    ax.set_xlim(_where_dense(grid, densities))
    family = problem.family
    ax.set_xlabel(
        "standardised coefficient"
        if isinstance(family, Gaussian)
        else in_lines(ax, f"change of the {family.link}", "for one standard deviation")
    )
    legend_above(ax, "right", ncols=2, doubt=doubt(posterior))
    return ax


def _draw_humps(ax: "Axes", grid: np.ndarray, densities: list[np.ndarray], heights: np.ndarray) -> None:
    """Draw a density on each of the rows 0, 1, 2, …; upwards is towards smaller numbers."""
    from matplotlib.collections import LineCollection, PolyCollection

    curves, areas = [], []
    for row, (density, height) in enumerate(zip(densities, heights)):
        if density.any():
            seen = density > 0.003 * density.max()
            curve = np.column_stack([grid[seen], row - height * density[seen] / density.max()])
            curves.append(curve)
            areas.append(np.concatenate([curve, [[curve[-1, 0], row], [curve[0, 0], row]]]))
    ax.add_collection(PolyCollection(areas, facecolor=BLUE, alpha=0.35, linewidth=0, zorder=2))
    ax.add_collection(LineCollection(curves, color=BLUE, linewidth=1.1, zorder=2))


def _standardised_components(posterior: Posterior, columns: list[int]) -> dict[int, list[np.ndarray]]:
    """For each column, the weights, locations, scales and degrees of freedom of the t components of its coefficient."""
    kept = posterior.kept
    if len(kept) > MOST_DENSITY_MODELS:  # they are sorted by descending weight
        n = MOST_DENSITY_MODELS
        kept = KeptModels(
            kept.members[: kept.start[n]], kept.start[: n + 1], kept.weight[:n] / kept.weight[:n].sum()
        )
    problem = posterior.problem
    length = np.sqrt(problem.target(0).design.diagonal)
    if not isinstance(problem.family, Gaussian):
        length = problem.column_spread / problem.column_units
    curves: dict[int, list[list[np.ndarray]]] = {c: [] for c in columns}
    with one_blas_thread():
        for fit in fits(posterior.problem, kept, drop=DENSITY_DROP):
            for c in columns:
                model, place = np.nonzero(fit.columns == c)
                if len(model):
                    scale = np.sqrt(fit.s[model] * fit.t[model] * fit.V[model, place, place][:, None])
                    location = fit.q[model] * fit.b[model, place][:, None]
                    weight = fit.weight[model][:, None] * fit.node_weight[model]
                    spread = scale > 0  # if ĝ = 0 there is only the spike
                    degrees = np.full(spread.sum(), fit.degrees)
                    curves[c].append(
                        [weight[spread], length[c] * location[spread], length[c] * scale[spread], degrees]
                    )
    empty = [np.zeros(0)] * 4
    return {c: [np.concatenate(x) for x in zip(*parts)] if parts else empty for c, parts in curves.items()}


def _grid(parts: dict[int, list[np.ndarray]]) -> np.ndarray:
    """An equally spaced grid over the range of the densities, including 0."""
    ends = [0.0]
    for weight, location, scale, _ in parts.values():
        if len(weight):
            share = weight / weight.sum()
            mean = share @ location
            reach = 4 * np.sqrt(share @ ((location - mean) ** 2 + scale**2))
            ends += [mean - reach, mean + reach]
    low, high = min(ends), max(ends)
    if low == high:
        low, high = -1.0, 1.0
    return np.linspace(low, high, GRID)


def _where_dense(grid: np.ndarray, densities: list[np.ndarray]) -> tuple[float, float]:
    """The range of the grid to show: without long thin tails, but including 0."""
    dense = np.logical_or.reduce([d > 0.02 * d.max() for d in densities])
    shown = np.append(grid[dense], 0.0)
    margin = 0.04 * (np.ptp(shown) or 1.0)
    return float(shown.min() - margin), float(shown.max() + margin)


def _t_density(
    x: np.ndarray, weight: np.ndarray, location: np.ndarray, scale: np.ndarray, degrees: np.ndarray
) -> np.ndarray:
    """Density of a mixture of t distributions, up to its weight; degrees of freedom are all infinite, or all finite."""
    kinds, kind = np.unique(degrees, return_inverse=True)
    log_constant = np.array([log_t_constant(d) for d in kinds])[kind] - np.log(scale)
    normal = np.isinf(kinds).any()
    total = np.zeros_like(x)
    together = max(1, DENSITY_CELLS // len(x))  # so that the table stays in the processor's cache
    for first in range(0, len(weight), together):
        rows = slice(first, first + together)
        d = degrees[rows, None]
        z = (x - location[rows, None]) * (1 / (scale[rows, None] * np.sqrt(1.0 if normal else d)))
        z *= z  # in place, here and below, as allocating new tables would take half of the time
        if normal:
            z *= -0.5
        else:
            z += 1
            np.log(z, out=z)
            z *= -(d + 1) / 2
        z += log_constant[rows, None]
        total += weight[rows] @ np.exp(z, out=z)
    return total


def plot_correlation(
    posterior: Posterior,
    ax: "Axes | None" = None,
    *,
    top: int = 20,
    clusters: Iterable[Sequence[str]] | None = None,
) -> "Axes":
    """Plot the correlations among the most probable variables, with similar variables next to each other.

    Variables that are strongly correlated can replace one another and share their probability. The correlations
    are partial, given the always-included columns; between variables of several columns they are the largest canonical
    correlations, which have no sign. The order is that of an average-linkage
    clustering by one minus the absolute correlation.

    Parameters
    ----------
    posterior : Posterior
    ax : Axes
        Axes to draw on. The default is a new figure.
    top : int
        Number of most probable variables to show.
    clusters : sequences of names
        Sets of variables that are kept together and outlined. The default is those of ``posterior.clusters()``; none if
        empty.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import whichvars as wv
    >>> data = wv.datasets.load_uscrime()
    >>> posterior = wv.exact(wv.Problem(data.X, data.y, slab=wv.GPrior(47)))
    >>> ax = wv.plot_correlation(posterior)
    >>> labels = [label.get_text() for label in ax.get_yticklabels()]
    >>> abs(labels.index("Po1") - labels.index("Po2"))
    1
    """
    check_posterior(posterior)
    problem = posterior.problem
    chosen = most_probable(posterior)[: check_count(top, "top")]
    if len(chosen) < 2:
        raise NothingToDrawError("a single variable has no correlations to draw")
    correlation = correlations(problem, chosen)
    if clusters is None:
        clusters = posterior.clusters()["variables"]
    sets = [set(find_columns(names, problem.names, "clusters")) for names in clusters]
    order = side_by_side(correlation, [[k for k, j in enumerate(chosen) if j in s] for s in sets])
    chosen, correlation = chosen[order], correlation[np.ix_(order, order)]
    ax = draw_matrix(ax, correlation, [problem.names[j] for j in chosen], "correlation", 1.0)
    for members in sets:
        place = [k for k, j in enumerate(chosen) if j in members]
        if len(place) > 1:
            a, b = place[0] - 0.5, place[-1] + 0.5
            ax.plot([a, b, b, a, a], [a, a, b, b, a], color=INK, linewidth=2)
    legend_above(ax, doubt=doubt(posterior))
    return ax


def draw_matrix(
    ax: "Axes | None", values: np.ndarray, labels: list[str], meaning: str, limit: float, signed: bool = True
) -> "Axes":
    """A symmetric matrix as coloured cells between −`limit` and `limit`, or 0 and `limit` if it is not `signed`. The diagonal has no
    information and is grey."""
    n = len(values)
    width = 2.8 + 0.3 * n
    ax = new_axes(ax, width, width - 1.2, keep_shape=True)
    ax.set_facecolor(PALE)
    image = ax.imshow(
        np.ma.masked_array(values, np.eye(n, dtype=bool) | ~np.isfinite(values)),
        cmap="RdBu_r" if signed else "Blues",
        vmin=-limit if signed else 0.0,
        vmax=limit,
    )
    figure = ax.get_figure(root=False)
    assert figure is not None
    _write_numbers(ax, values, limit, 7 * min(figure.bbox.width / figure.dpi / width, 1.0))
    name_rows(ax, labels, fontsize=LABEL_SIZE)
    name_rows(ax, labels, "x", fontsize=LABEL_SIZE, rotation=90)
    ax.set(xlim=(-0.55, n - 0.45), ylim=(n - 0.45, -0.55))
    ax.spines[:].set_visible(False)
    bar = figure.colorbar(image, cax=ax.inset_axes((1.02, 0.15, 0.045, 0.7)))
    bar.outline.set_visible(False)
    bar.set_label(meaning)
    return ax


def side_by_side(correlation: np.ndarray, clusters: list[list[int]]) -> np.ndarray:
    """An order of the variables in which similar ones, and those of a cluster, are neighbours."""
    from scipy.cluster import hierarchy  # a tenth of a second, for this plot alone
    from scipy.spatial.distance import squareform

    n = len(correlation)
    if n < 3:
        return np.arange(n)
    distance = squareform(np.clip(1 - np.abs(correlation), 0, None), checks=False)
    leaves = hierarchy.leaves_list(hierarchy.linkage(distance, "average", optimal_ordering=True))
    place = np.argsort(leaves).astype(float)
    for members in clusters:
        if members:
            place[members] = place[members].min() + place[members] / (n * n)
    return np.argsort(place)


def _write_numbers(ax: "Axes", values: np.ndarray, limit: float, size: float) -> None:
    """Write numbers in the cells; only the larger ones if there are many."""
    n = len(values)
    for i in range(n):
        for j in range(n):
            value = values[i, j]
            if i != j and np.isfinite(value) and (n <= 12 or abs(value) >= 0.5 * limit):
                nearly_one = limit <= 1 and 0.995 <= abs(value) < 1 - 1e-12  # a near copy is no copy
                value = round(float(value), 2 if limit <= 1 else 1) + 0.0  # no zero has a minus sign
                text = (
                    f"{value:.2f}".replace("0.", ".").replace("1.00", "1") if limit <= 1 else f"{value:.1f}"
                )
                if nearly_one:
                    text = ">.99" if value > 0 else "<-.99"
                colour = "white" if abs(value) > 0.6 * limit else INK
                ax.text(j, i, text.replace("-", "−"), ha="center", va="center", fontsize=size, color=colour)


def correlations(problem: Problem, chosen: np.ndarray) -> np.ndarray:
    """The correlations of variables, (k, k): those of single columns, or the largest canonical correlations."""
    spans = [np.arange(problem.offsets[j], problem.offsets[j + 1]) for j in chosen]
    columns = np.concatenate(spans)
    design = problem.target(0).design
    gram = gram_of(design, columns)
    ends = np.concatenate([[0], np.cumsum([len(s) for s in spans])])
    white = np.zeros_like(gram)  # block diagonal: makes the columns of each variable orthonormal
    for a, b in pairwise(ends):
        values, vectors = np.linalg.eigh(gram[a:b, a:b])
        root = np.where(values > 1e-10 * values[-1], 1 / np.sqrt(np.maximum(values, 1e-300)), 0.0)
        white[a:b, a:b] = vectors * root @ vectors.T
    block = white @ gram @ white
    out = np.eye(len(chosen))
    for i in range(len(chosen)):
        for j in range(i):
            part = block[ends[i] : ends[i + 1], ends[j] : ends[j + 1]]
            value = float(part[0, 0]) if part.size == 1 else float(np.linalg.norm(part, 2))
            out[i, j] = out[j, i] = np.clip(value, -1, 1)
    return out
