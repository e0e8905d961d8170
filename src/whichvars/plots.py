"""Plots of a posterior, one function each: it takes a ``Posterior`` and, if wanted, the ``Axes`` to draw on, and
returns the ``Axes``.

They are made to be read for ten variables and for twenty thousand: from some number on, only the most probable
variables are named. Error bars are ± 2 Monte Carlo standard errors.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.cluster import hierarchy
from scipy.spatial.distance import squareform
from scipy.special import gammaln

from whichvars.coefficients import KeptModels, fits
from whichvars.drawing import (
    BLUE,
    GREEN,
    GREY,
    INK,
    LABEL_SIZE,
    MANY_POINTS,
    ORANGE,
    PALE,
    SERIES,
    NothingToDrawError,
    legend_above,
    name_points,
    name_rows,
    new_axes,
    tidy,
    whole_numbers,
)
from whichvars.errors import ArgumentTypeError, DataError
from whichvars.inputs import find_columns
from whichvars.posterior import Posterior
from whichvars.problem import Problem

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_ROWS = 50  # variables that a chart with a row for each can hold
NAMED = 20  # variables named where there are too many to name all
NOTABLE = 0.1  # inclusion probability from which a point stands out
NARROWEST = 0.4  # column of a model, of the width it would have were all as probable
MOST_DENSITY_MODELS = 3000  # models a density is averaged over: the heaviest
ERRORS = "± 2 Monte Carlo standard errors"
PIP = "posterior inclusion probability"


# --- which variables


def plot_inclusion(posterior: Posterior, ax: "Axes | None" = None, *, top: int | None = None) -> "Axes":
    """Inclusion probabilities with their errors.

    Up to 50 variables have a row each, the most probable on top, with a tick at their prior probability. More
    variables stand side by side in their order in X, like towers of a skyline, and the most probable are named.

    Parameters
    ----------
    posterior : Posterior
    ax : Axes
        Where to draw; a new figure if not given.
    top : int
        Show only that many variables, the most probable, in rows.

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
    _check(posterior)
    p = posterior.problem.p
    if top is not None:
        return _inclusion_rows(posterior, ax, min(_count(top, "top"), p))
    return _inclusion_rows(posterior, ax, p) if p <= MOST_ROWS else _inclusion_skyline(posterior, ax)


def _inclusion_rows(posterior: Posterior, ax: "Axes | None", rows: int) -> "Axes":
    ax = new_axes(ax, 6.4, 1.0 + 0.25 * rows)
    chosen = _most_probable(posterior)[:rows]
    pip, place = posterior.pip[chosen], np.arange(rows)
    prior = posterior.problem.model_prior.inclusion(posterior.problem.p)[chosen]
    ax.hlines(place, 0, pip, color=PALE, linewidth=3, zorder=1)
    _points_with_errors(ax, place, chosen, posterior, upright=False)
    ax.plot(prior, place, "|", color=INK, markersize=7, markeredgewidth=1.2, label="prior", zorder=2)
    name_rows(ax, [posterior.problem.names[j] for j in chosen], fontsize=9)
    ax.set(xlim=(-0.015, 1.015), ylim=(rows - 0.4, -0.6), xlabel=PIP)
    tidy(ax, "x")
    ax.tick_params(axis="y", length=0)
    legend_above(ax, "right")
    return ax


def _inclusion_skyline(posterior: Posterior, ax: "Axes | None") -> "Axes":
    ax = new_axes(ax, 8.0, 4.2)
    pip, p = posterior.pip, posterior.problem.p
    low = np.flatnonzero(pip < NOTABLE)
    notable = _most_probable(posterior)[: int((pip >= NOTABLE).sum())]
    ax.plot(low + 1, pip[low], ".", color=GREY, markersize=3, rasterized=p > MANY_POINTS, zorder=1)
    ax.vlines(notable + 1, 0, pip[notable], color=PALE, linewidth=1.2, zorder=1)
    _points_with_errors(ax, notable + 1, notable, posterior, upright=True)
    prior = posterior.problem.model_prior.inclusion(p)
    if np.ptp(prior) == 0:
        ax.axhline(prior[0], color=INK, linewidth=0.9, linestyle=(0, (4, 3)), label="prior")
    ax.set(xlim=(1 - 0.01 * p, 1.01 * p), ylim=(-0.02, 1.13), ylabel=PIP)
    ax.set_xlabel(f"variable, in the order of X (1 to {p:,})")
    ax.set_yticks(np.linspace(0, 1, 6))
    _thousands(ax, "x")
    tidy(ax)
    legend_above(ax)
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
    """Filled where the error is known, hollow where the variable never moved."""
    pip, mcse = posterior.pip[chosen], posterior.mcse[chosen]
    known = np.isfinite(mcse)
    for which, label, fill in (
        (known, "exact" if posterior.models.exact else ERRORS, BLUE),
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
    """Which variables the best models hold: a row for each variable, a column for each model.

    Columns are as wide as the models are probable, relative to one another, but never too narrow to see. The colour is the sign of the
    coefficient in that model; variables of several columns have no sign.

    Parameters
    ----------
    posterior : Posterior
    ax : Axes
        Where to draw; a new figure if not given.
    models, variables : int
        At most so many models, the best, and variables, the most probable among those in them.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import whichvars as wv
    >>> data = wv.datasets.load_uscrime()
    >>> posterior = wv.exact(wv.Problem(data.X, data.y, slab=wv.GPrior(47)))
    >>> wv.plot_models(posterior, models=10).get_xlabel()
    'the 10 best models, 13 % of the probability; the wider, the more probable'
    """
    _check(posterior)
    members = posterior.models.members[: _count(models, "models")]
    rows = [j for j in _most_probable(posterior) if any(j in m for m in members)][
        : _count(variables, "variables")
    ]
    if not rows:
        raise NothingToDrawError("the best models have no variables in them: there is nothing to draw")
    log_posterior = posterior.models.log_posterior[: len(members)]
    weight = np.exp(log_posterior - log_posterior[0])
    width = np.maximum(weight / weight.sum(), NARROWEST / len(members))
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
            ax.bar(
                edges[model], 0.86, np.diff(edges)[model], row - 0.43, align="edge", color=colour, label=label,
                edgecolor="white", linewidth=0.4,
            )  # fmt: skip
    name_rows(ax, [posterior.problem.names[j] for j in rows], fontsize=9)
    wide = np.flatnonzero(np.diff(edges) > 0.025)
    ax.set_xticks((edges[:-1] + edges[1:])[wide] / 2, [str(m + 1) for m in wide])
    held = posterior.models.frequency[: len(members)].sum()
    kind = "probability" if posterior.models.exact else "draws"
    ax.set_xlabel(
        f"the {len(members)} best models, {_percent(held)} of the {kind}; the wider, the more probable"
    )
    ax.set(xlim=(0, 1), ylim=(len(rows) - 0.5, -0.5))
    tidy(ax, "")
    ax.tick_params(axis="y", length=0)
    ax.hlines(np.arange(len(rows) - 1) + 0.5, 0, 1, color=PALE, linewidth=0.5, zorder=0)
    legend_above(ax, "right")
    return ax


def _signs(problem: Problem, members: list[tuple[int, ...]]) -> dict[tuple[int, int], int]:
    """(model, variable) → sign of its coefficient there, 2 for a variable of several columns."""
    widths = np.diff(problem.offsets)
    owner = np.repeat(np.arange(problem.p), widths)
    # weights that fall, so that models keep their order
    kept = KeptModels.of({m: float(len(members) - i) for i, m in enumerate(members)})
    found = {}
    for fit in fits(problem, kept):
        for model, columns, b in zip(fit.models.tolist(), fit.columns, fit.b):
            for column, value in zip(columns, b):
                j = int(owner[column])
                found[model, j] = 2 if widths[j] > 1 else (1 if value >= 0 else -1)
    return found


def plot_model_size(posterior: Posterior, ax: "Axes | None" = None) -> "Axes":
    """The number of variables in the model: posterior against prior.

    Examples
    --------
    >>> import whichvars as wv
    >>> data = wv.datasets.load_uscrime()
    >>> posterior = wv.exact(wv.Problem(data.X, data.y, slab=wv.GPrior(47)))
    >>> wv.plot_model_size(posterior).get_xlabel()
    'number of variables in the model'
    """
    _check(posterior)
    ax = new_axes(ax, 6.4, 3.6)
    posterior_mass = posterior.sizes
    prior = posterior.problem.model_prior.size_distribution(posterior.problem.p, posterior.problem.max_size)
    last = _quantile(posterior_mass, 0.9995)
    first = min(_quantile(posterior_mass, 0.0005), _quantile(prior, 0.005))
    last = max(last, min(_quantile(prior, 0.995), 2 * last + 10))  # a prior may reach far
    size = np.arange(first, last + 1)
    ax.bar(
        size,
        posterior_mass[size],
        0.8 if len(size) <= 60 else 1.0,
        color=BLUE,
        label=f"posterior, mean {posterior.mean_size:.2f}",
    )
    mean = float(prior @ np.arange(len(prior)))
    marks = "o" if len(size) <= 60 else ""
    ax.plot(
        size,
        prior[size],
        color=ORANGE,
        linewidth=1.5,
        marker=marks,
        markersize=4,
        label=f"prior, mean {mean:.2f}",
    )
    ax.set(xlabel="number of variables in the model", ylabel="probability", xlim=(first - 0.7, last + 0.7))
    ax.set_ylim(bottom=0)
    whole_numbers(ax)
    tidy(ax)
    legend_above(ax)
    return ax


# --- coefficients


def plot_coefficients(
    posterior: Posterior, ax: "Axes | None" = None, *, names: Any = None, top: int = 10
) -> "Axes":
    r"""Coefficients: a row for each, with a spike at 0 and a density.

    The spike is as high as the probability that the coefficient is 0, the variable being out; the hump, the
    density of the coefficient if it is in, as high as the probability that it is in. Coefficients are
    standardised, :math:`\beta_j\, s_j / s_y`: how many standard deviations y changes with one standard deviation
    of the column, both after the always-included columns. Densities are averages over the 3,000 heaviest models.

    Parameters
    ----------
    posterior : Posterior
    ax : Axes
        Where to draw; a new figure if not given.
    names : names or indices
        Variables to show; the `top` most probable if not given.
    top : int
        How many, where no names are given; but three at most of those less probable than .05.

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
    _check(posterior)
    problem = posterior.problem
    if names is None:
        first = _most_probable(posterior)[: _count(top, "top")]
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
    for row, (column, density) in enumerate(zip(columns, densities)):
        pip = posterior.pip[owner[column]]
        ax.axhline(row, color=PALE, linewidth=0.6, zorder=1)
        ax.vlines(0, row, row - 0.85 * (1 - pip), color=INK, linewidth=2.5, zorder=3)
        if density.any():
            height = row - 0.85 * pip * density / density.max()
            seen = density > 0.003 * density.max()
            ax.fill_between(grid[seen], row, height[seen], color=BLUE, alpha=0.35, linewidth=0, zorder=2)
            ax.plot(grid[seen], height[seen], color=BLUE, linewidth=1.1, zorder=2)
    ax.plot([], [], color=INK, linewidth=2.5, label="probability of being 0 (out)")
    ax.plot([], [], color=BLUE, linewidth=6, alpha=0.5, label="density if in, as high as its probability")
    name_rows(ax, [problem.columns_used[c] for c in columns], fontsize=9)
    ax.set_ylim(len(columns) - 0.75, -1.0)
    ax.set_xlim(_where_dense(grid, densities))
    ax.set_xlabel("standardised coefficient")
    tidy(ax, "x")
    ax.tick_params(axis="y", length=0)
    legend_above(ax, "right", ncols=2)
    return ax


def _standardised_components(posterior: Posterior, columns: list[int]) -> dict[int, list[np.ndarray]]:
    """Column → weights, locations, scales and degrees of freedom of the t components of its coefficient."""
    kept = posterior.kept
    if len(kept) > MOST_DENSITY_MODELS:  # the heaviest come first
        n = MOST_DENSITY_MODELS
        kept = KeptModels(
            kept.members[: kept.start[n]], kept.start[: n + 1], kept.weight[:n] / kept.weight[:n].sum()
        )
    length = np.sqrt(posterior.problem.target(0).design.diagonal)
    found: dict[int, list[list[np.ndarray]]] = {c: [] for c in columns}
    for fit in fits(posterior.problem, kept):
        for c in columns:
            model, place = np.nonzero(fit.columns == c)
            if len(model):
                scale = np.sqrt(fit.s[model] * fit.t[model] * fit.V[model, place, place][:, None])
                location = fit.q[model] * fit.b[model, place][:, None]
                weight = fit.weight[model][:, None] * fit.node_weight[model]
                spread = scale > 0  # at ĝ = 0 there is only the spike
                degrees = np.full(spread.sum(), fit.degrees)
                found[c].append(
                    [weight[spread], length[c] * location[spread], length[c] * scale[spread], degrees]
                )
    empty = [np.zeros(0)] * 4
    return {c: [np.concatenate(x) for x in zip(*parts)] if parts else empty for c, parts in found.items()}


def _grid(parts: dict[int, list[np.ndarray]]) -> np.ndarray:
    """Even steps over what the densities cover, 0 included."""
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
    return np.linspace(low, high, 500)


def _where_dense(grid: np.ndarray, densities: list[np.ndarray]) -> tuple[float, float]:
    """The part of the grid worth showing: without long thin tails, 0 included."""
    dense = np.logical_or.reduce([d > 0.02 * d.max() for d in densities])
    shown = np.append(grid[dense], 0.0)
    margin = 0.04 * (np.ptp(shown) or 1.0)
    return float(shown.min() - margin), float(shown.max() + margin)


def _t_density(
    x: np.ndarray, weight: np.ndarray, location: np.ndarray, scale: np.ndarray, degrees: np.ndarray
) -> np.ndarray:
    """Density of a mixture of t distributions, up to its weight."""
    log_constant = (
        gammaln((degrees + 1) / 2) - gammaln(degrees / 2) - 0.5 * np.log(degrees * np.pi) - np.log(scale)
    )
    total = np.zeros_like(x)
    for part in np.array_split(np.arange(len(weight)), max(1, len(weight) // 500)):  # to keep the table small
        z = (x - location[part, None]) / scale[part, None]
        d = degrees[part, None]
        total += weight[part] @ np.exp(log_constant[part, None] - (d + 1) / 2 * np.log1p(z**2 / d))
    return total


def plot_correlation(posterior: Posterior, ax: "Axes | None" = None, *, top: int = 20) -> "Axes":
    """Correlation among the most probable variables, those alike side by side.

    Variables that are strongly correlated stand in for one another and share their probability. The correlations
    are those left after the always-included columns; between variables of several columns it is the largest
    correlation of any combination of theirs, which has no sign. The order is that of an average-linkage
    clustering by one minus the absolute correlation.

    Examples
    --------
    >>> import whichvars as wv
    >>> data = wv.datasets.load_uscrime()
    >>> posterior = wv.exact(wv.Problem(data.X, data.y, slab=wv.GPrior(47)))
    >>> labels = [label.get_text() for label in wv.plot_correlation(posterior).get_yticklabels()]
    >>> abs(labels.index("Po1") - labels.index("Po2"))
    1
    """
    _check(posterior)
    problem = posterior.problem
    chosen = _most_probable(posterior)[: _count(top, "top")]
    correlation = _correlation(problem, chosen)
    if len(chosen) > 2:
        distance = squareform(np.clip(1 - np.abs(correlation), 0, None), checks=False)
        tree = hierarchy.linkage(distance, "average", optimal_ordering=True)
        order = hierarchy.leaves_list(tree)
        chosen, correlation = chosen[order], correlation[np.ix_(order, order)]
    n = len(chosen)
    ax = new_axes(ax, 2.8 + 0.3 * n, 1.6 + 0.3 * n)
    # the diagonal says nothing: grey, so that the rest is seen
    ax.set_facecolor(PALE)
    image = ax.imshow(np.ma.masked_array(correlation, np.eye(n, dtype=bool)), cmap="RdBu_r", vmin=-1, vmax=1)
    for i in range(n):
        for j in range(n):
            if i != j and (n <= 12 or abs(correlation[i, j]) >= 0.5):
                colour = "white" if abs(correlation[i, j]) > 0.6 else INK
                text = f"{correlation[i, j]:.2f}".replace("0.", ".").replace("1.00", "1")
                ax.text(j, i, text, ha="center", va="center", fontsize=7, color=colour)
    labels = [problem.names[j] for j in chosen]
    name_rows(ax, labels, fontsize=LABEL_SIZE)
    name_rows(ax, labels, "x", fontsize=LABEL_SIZE, rotation=90)
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)
    figure = ax.get_figure(root=False)
    assert figure is not None
    bar = figure.colorbar(image, ax=ax, shrink=0.7, pad=0.02)
    bar.outline.set_visible(False)
    bar.set_label("correlation")
    return ax


def _correlation(problem: Problem, chosen: np.ndarray) -> np.ndarray:
    """Of variables, (k, k): of their columns, or the largest canonical correlation."""
    spans = [np.arange(problem.offsets[j], problem.offsets[j + 1]) for j in chosen]
    columns = np.concatenate(spans)
    design = problem.target(0).design
    if problem.engine == "gram":
        gram = design.gram[np.ix_(columns, columns)]
    else:
        gram = design.columns[columns] @ design.columns[columns].T
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


# --- how far to trust it


def plot_trace(
    posterior: Posterior, ax: "Axes | None" = None, *, show: Literal["size", "log_posterior"] = "size"
) -> "Axes":
    """Model size, or log posterior, along the run, by replicate.

    Thin lines are the thinned record of every chain, thick lines running means over a fiftieth of the run. Once
    a sampler has found its way, all replicates wander about the same level.

    Parameters
    ----------
    posterior : Posterior
    ax : Axes
        Where to draw; a new figure if not given.
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
    _check(posterior)
    _choice(show, ("size", "log_posterior"), "show")
    if posterior.trace is None or posterior.trace.empty:
        raise NothingToDrawError(f"there is nothing to draw: {_why_none(posterior, 'trace')}")
    if _particles(posterior):
        raise NothingToDrawError(
            "there is nothing to draw: SequentialMonteCarlo has particles, which have no order in time; "
            "plot_ladder shows its steps"
        )
    ax = new_axes(ax, 8.0, 3.4)
    for number, (_, part) in enumerate(posterior.trace.groupby("replicate")):
        colour = SERIES[number % len(SERIES)]
        for _, chain in part.groupby("chain"):
            ax.plot(chain["iteration"], chain[show], color=colour, linewidth=0.5, alpha=0.25, zorder=1)
        mean = part.groupby("iteration")[show].mean()
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
    ax.set_rasterization_zorder(1.5)  # the thin lines as one image, also in vector files
    ax.set_xlabel("iteration of each chain, after warm-up")
    words = {"size": "number of variables in the model", "log_posterior": "log posterior, up to a constant"}
    ax.set_ylabel(words[show])
    ax.margins(x=0.01)
    _thousands(ax, "x")
    tidy(ax)
    legend_above(ax, ncols=6)
    return ax


def plot_agreement(posterior: Posterior, ax: "Axes | None" = None) -> "Axes":
    """Inclusion probabilities by replicate against their mean: points on the diagonal agree.

    A grey line joins the replicates' values of a variable. The variables on which they differ most are named.

    Examples
    --------
    >>> import whichvars as wv
    >>> data = wv.datasets.load_uscrime()
    >>> posterior = wv.sample(wv.Problem(data.X, data.y, slab=wv.GPrior(47)), draws=5000, progress=False)
    >>> wv.plot_agreement(posterior).get_ylabel()
    'inclusion probability in each replicate'
    """
    _check(posterior)
    pips = posterior.replicate_pips
    if pips is None:
        raise NothingToDrawError(f"there is nothing to draw: {_why_none(posterior, 'replicates')}")
    if len(pips) < 2:
        raise NothingToDrawError("a single replicate has nothing to agree with; sample with replicates=4")
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
            alpha=0.8, markeredgewidth=0, label=f"replicate {number + 1}", rasterized=len(moved) > MANY_POINTS, zorder=2,
        )  # fmt: skip
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), xlabel="mean of all replicates")
    ax.set_ylabel("inclusion probability in each replicate")
    ax.set_aspect("equal")
    tidy(ax, "both")
    legend_above(ax, ncols=4 if len(pips) % 4 == 0 else 3, columnspacing=1.0, handletextpad=0.1)
    worst = apart[np.argsort(low[apart] - high[apart], kind="stable")][:5]
    end = np.where(high[worst] - mean[worst] > mean[worst] - low[worst], high[worst], low[worst])
    bars = np.column_stack([mean, low, high])[apart]
    name_points(ax, mean[worst], end, [posterior.problem.names[j] for j in worst], bars)
    return ax


# --- what the sampler learned


def plot_adaptation(
    posterior: Posterior,
    ax: "Axes | None" = None,
    *,
    show: Literal["odds", "probabilities", "mutation_rate"] = "odds",
) -> "Axes":
    r"""What an individually adapting sampler learned, every replicate.

    Parameters
    ----------
    posterior : Posterior
    ax : Axes
        Where to draw; a new figure if not given.
    show : "odds", "probabilities" or "mutation_rate"
        "odds": A_j/D_j against the posterior odds π_j/(1 − π_j), on which they settle in theory: the line.
        "probabilities": the probabilities of proposing to add, A_j, and to delete, D_j, against π_j.
        "mutation_rate": the share of iterations that changed the model, along the run, warm-up included.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import whichvars as wv
    >>> data = wv.datasets.load_uscrime()
    >>> problem = wv.Problem(data.X, data.y, slab=wv.GPrior(47))
    >>> posterior = wv.sample(problem, wv.IndividualAdaptation(), draws=5000, progress=False)
    >>> wv.plot_adaptation(posterior).get_xscale()
    'log'
    """
    _check(posterior)
    _choice(show, ("odds", "probabilities", "mutation_rate"), "show")
    if show == "mutation_rate":
        return _mutation_rate(posterior, ax)
    learned = _learned(posterior, "add_probability", "IndividualAdaptation()")
    add, delete = (
        np.array([np.atleast_2d(part[key])[-1] for part in learned])  # of the rung at the target, the last
        for key in ("add_probability", "delete_probability")
    )
    return (
        _learned_odds(posterior, ax, add, delete)
        if show == "odds"
        else _learned_probabilities(posterior, ax, add, delete)
    )


def _learned_odds(posterior: Posterior, ax: "Axes | None", add: np.ndarray, delete: np.ndarray) -> "Axes":
    ax = new_axes(ax, 5.6, 4.6)
    inner = np.flatnonzero((posterior.pip > 0) & (posterior.pip < 1))
    if not inner.size:
        raise NothingToDrawError("every variable was always in or always out: there are no odds to draw")
    odds = posterior.pip[inner] / (1 - posterior.pip[inner])
    ratio = add[:, inner] / delete[:, inner]
    ax.plot(
        np.broadcast_to(odds, ratio.shape).ravel(), ratio.ravel(), "o", color=BLUE, markersize=3.5, alpha=0.5,
        markeredgewidth=0, label="a variable in a replicate", rasterized=ratio.size > MANY_POINTS,
    )  # fmt: skip
    ends = np.array([odds.min(), odds.max()])
    ax.plot(ends, ends, color=INK, linewidth=0.9, label="equal", zorder=1)
    ax.set(xscale="log", yscale="log", xlabel="posterior odds  π / (1 − π)", ylabel="learned odds  A / D")
    tidy(ax, "both")
    legend_above(ax)
    return ax


def _learned_probabilities(
    posterior: Posterior, ax: "Axes | None", add: np.ndarray, delete: np.ndarray
) -> "Axes":
    ax = new_axes(ax, 5.6, 4.6)
    pip = np.broadcast_to(posterior.pip, add.shape).ravel()
    for values, colour, mark, label in (
        (add, BLUE, "^", "A: proposing to add"),
        (delete, ORANGE, "v", "D: proposing to delete"),
    ):
        ax.plot(
            pip, values.ravel(), mark, color=colour, markersize=4, alpha=0.5, markeredgewidth=0, label=label,
            rasterized=values.size > MANY_POINTS,
        )  # fmt: skip
    ax.set(yscale="log", xlabel=PIP, ylabel="learned probability", xlim=(-0.02, 1.02))
    tidy(ax, "both")
    legend_above(ax)
    return ax


def _mutation_rate(posterior: Posterior, ax: "Axes | None") -> "Axes":
    learned = _learned(posterior, "mutation_rate_along_run", "IndividualAdaptation()")
    ax = new_axes(ax, 8.0, 3.2)
    for number, part in enumerate(learned):
        rate = part["mutation_rate_along_run"]
        at = part["block_length"] * (np.arange(len(rate)) + 0.5)
        ax.plot(at, rate, color=SERIES[number % len(SERIES)], linewidth=1.2, label=f"replicate {number + 1}")
    ax.set(xlabel="iteration of each chain, warm-up included", ylabel="mutation rate")
    ax.set_ylim(bottom=0)
    ax.margins(x=0.01)
    _thousands(ax, "x")
    tidy(ax)
    legend_above(ax, ncols=6)
    return ax


def plot_changes(posterior: Posterior, ax: "Axes | None" = None) -> "Axes":
    """How many variables the sampler proposed to change at once, and how often that was accepted.

    All replicates together; shares of the iterations, on a logarithmic scale.

    Examples
    --------
    >>> import whichvars as wv
    >>> data = wv.datasets.load_uscrime()
    >>> problem = wv.Problem(data.X, data.y, slab=wv.GPrior(47))
    >>> posterior = wv.sample(problem, wv.IndividualAdaptation(), draws=5000, progress=False)
    >>> wv.plot_changes(posterior).get_yscale()
    'log'
    """
    _check(posterior)
    learned = _learned(posterior, "changes_proposed", "IndividualAdaptation() or Lamnisos()")
    counts = []
    for key in ("changes_proposed", "changes_accepted"):
        total = np.zeros(max(len(part[key]) for part in learned))
        for part in learned:
            total[: len(part[key])] += part[key]
        counts.append(total)
    iterations = max(counts[0].sum(), 1)
    ax = new_axes(ax, 6.4, 3.6)
    number = np.arange(len(counts[0]))
    for shift, count, colour, label in (
        (-0.2, counts[0], PALE, "proposed"),
        (0.2, counts[1], BLUE, "accepted"),
    ):
        ax.bar(
            number + shift, count / iterations, 0.4, color=colour, edgecolor=GREY if shift < 0 else BLUE, linewidth=0.5,
            label=label,
        )  # fmt: skip
    ax.set(yscale="log", xlabel="variables changed at once", ylabel="share of the iterations")
    ax.set_xlim(-0.7, len(number) - 0.3)
    whole_numbers(ax)
    tidy(ax)
    legend_above(ax)
    return ax


def plot_ladder(posterior: Posterior, ax: "Axes | None" = None) -> "Axes":
    """The temperature ladder of a tempered sampler.

    For ``ParallelTempering``: the inverse temperature of each rung, every replicate a line, and between rungs the
    share of exchanges that succeeded. For ``SequentialMonteCarlo``: the inverse temperature at each step and the
    share of particles that were distinct.

    Examples
    --------
    >>> import whichvars as wv
    >>> data = wv.datasets.load_uscrime()
    >>> problem = wv.Problem(data.X, data.y, slab=wv.GPrior(47))
    >>> posterior = wv.sample(problem, wv.ParallelTempering(rungs=3), draws=2000, progress=False)
    >>> [label.get_text() for label in wv.plot_ladder(posterior).get_xticklabels()]
    ['1', '2', '3']
    """
    _check(posterior)
    learned = _learned(posterior, "temperatures", "ParallelTempering() or SequentialMonteCarlo()")
    ax = new_axes(ax, 6.4, 3.6)
    particles = _particles(posterior)
    for number, part in enumerate(learned):
        temperature = part["temperatures"]
        ax.plot(
            np.arange(1, len(temperature) + 1), temperature, color=BLUE, linewidth=1.2, alpha=0.8, zorder=3,
            marker="" if particles else "o", markersize=5, label="inverse temperature" if number == 0 else None,
        )  # fmt: skip
        if particles:
            distinct = part["distinct_particles"]
            share = distinct / distinct[0] if distinct[0] > 1 else distinct
            ax.plot(
                np.arange(1, len(share) + 1), share, color=ORANGE, linewidth=1.2, alpha=0.8, linestyle=(0, (4, 2)),
                label="distinct particles, of those at the start" if number == 0 else None,
            )  # fmt: skip
    if particles:
        ax.set_xlabel("step")
        whole_numbers(ax)
    else:
        rates = np.array([part["swap_rates"] for part in learned])
        middle = np.arange(rates.shape[1]) + 1.5
        ax.bar(
            middle,
            rates.mean(axis=0),
            0.5,
            color=ORANGE,
            alpha=0.45,
            label="exchanges that succeeded",
            zorder=1,
        )
        ax.plot(
            np.broadcast_to(middle, rates.shape).ravel(),
            rates.ravel(),
            "_",
            color=ORANGE,
            markersize=10,
            zorder=2,
        )
        ax.set_xticks(range(1, len(learned[0]["temperatures"]) + 1))
        ax.set_xlabel("rung; the last one samples the posterior")
    ax.set_ylim(0, 1.03)
    ax.set_ylabel("inverse temperature, share")
    tidy(ax)
    legend_above(ax, ncols=2)
    return ax


# --- shared


def _check(posterior: object) -> None:
    if not isinstance(posterior, Posterior):
        hint = "; give its posterior_" if hasattr(posterior, "posterior_") else ""
        raise ArgumentTypeError(
            f"plots take a Posterior, as sample() and exact() return it, not {type(posterior).__name__}{hint}"
        )


def _choice(value: object, choices: tuple[str, ...], name: str) -> None:
    if value not in choices:
        raise DataError(
            f"{name} must be {', '.join(map(repr, choices[:-1]))} or {choices[-1]!r}, not {value!r}"
        )


def _count(value: object, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise ArgumentTypeError(f"{name} must be a whole number, not {value!r}")
    if value < 1:
        raise DataError(f"{name} must be at least 1, not {value}")
    return int(value)


def _most_probable(posterior: Posterior) -> np.ndarray:
    """All variables, the most probable first."""
    return np.argsort(-posterior.pip, kind="stable")


def _quantile(mass: np.ndarray, level: float) -> int:
    return int(np.searchsorted(np.cumsum(mass), level * mass.sum()))


def _percent(share: float) -> str:
    """
    >>> _percent(0.4213), _percent(0.0213), _percent(0.00001)
    ('42 %', '2.1 %', 'under 0.1 %')
    """
    if share < 0.001:
        return "under 0.1 %"
    return f"{100 * share:.0f} %" if share >= 0.1 else f"{100 * share:.1f} %"


def _thousands(ax: "Axes", axis: str) -> None:
    which = ax.xaxis if axis == "x" else ax.yaxis
    which.set_major_formatter(lambda value, _: f"{value:,.0f}")


def _why_none(posterior: Posterior, what: str) -> str:
    if posterior.models.exact:
        return f"an exact posterior was not sampled and has no {what}"
    return f"{posterior.sampler.split('(')[0]} has no {what}"


def _particles(posterior: Posterior) -> bool:
    return bool(posterior.adaptation) and "distinct_particles" in posterior.adaptation[0]


def _learned(posterior: Posterior, key: str, samplers: str) -> list[dict[str, Any]]:
    """What each replicate learned, if the sampler learns `key`."""
    if not posterior.adaptation or key not in posterior.adaptation[0]:
        what = key.replace("_", " ")
        raise NothingToDrawError(
            f"there is nothing to draw: {_why_none(posterior, what)}; {samplers} would give it"
        )
    return posterior.adaptation
