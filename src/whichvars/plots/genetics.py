"""Plots of variants along a chromosome or the genome."""

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from whichvars.data.frames import find_columns
from whichvars.errors import ArgumentTypeError, DataError
from whichvars.plots.drawing import (
    BLUE,
    GREY,
    INK,
    MANY_POINTS,
    PALE,
    SERIES,
    SKY,
    NothingToDrawError,
    legend_above,
    name_points,
    new_axes,
    thousands,
    tidy,
)
from whichvars.plots.questions import check_posterior, doubt, most_probable
from whichvars.posterior.clusters import correlations
from whichvars.posterior.posterior import Posterior
from whichvars.problem.families import Gaussian, Logistic, Probit
from whichvars.problem.prior_width import steps_from_null
from whichvars.problem.priors import KnownVariance
from whichvars.problem.problem import Problem

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# upper ends of the classes of r², and their colours, from pale to strong
CLASSES = (0.2, 0.4, 0.6, 0.8, 1.0)
LD_COLOURS = ("#B8C4D0", "#56B4E9", "#009E73", "#E69F00", "#D55E00")
# the usual threshold of genome-wide significance
SIGNIFICANT = 5e-8
# least inclusion probability of variants that are named, and most of them
NAMED_FROM, MOST_NAMED = 0.5, 20


def plot_region(
    posterior: Posterior,
    variants: pd.DataFrame | None = None,
    ax: "Axes | None" = None,
    *,
    lead: str | None = None,
    level: float = 0.95,
    signal: float | None = None,
) -> "Axes":
    """Plot a region. The upper half shows the association of single variants, coloured by their LD with a leading variant; the lower half shows
    inclusion probabilities with credible sets.

    Parameters
    ----------
    posterior : Posterior
        Of a problem whose variables are single columns, with the linear model or a response of two values (p-values are then those of score tests).
    variants : DataFrame
        The positions of the variants, in a column `position`, by name: ``Genotypes.variants``. The default is their order.
    ax : Axes
        Axes of the upper half. The default is a new figure. The lower half is ``ax.child_axes[0]``.
    lead : str
        The variant whose LD is shown by colours. The default is the most probable one.
    level, signal : float
        Which credible sets are shown, as in ``Posterior.credible_sets``. Those that are not `reached` have open circles.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import numpy as np, whichvars as wv
    >>> place = np.arange(30)
    >>> R = 0.9 ** np.abs(place[:, None] - place)
    >>> posterior = wv.sample(wv.from_summary(z=7 * R[12], R=R, n=2000), draws=2000, seed=0, progress=False)
    >>> ax = wv.plot_region(posterior)
    >>> ax.get_ylabel(), ax.child_axes[0].get_ylabel()
    ('−log₁₀ p', 'inclusion probability')
    """
    check_posterior(posterior)
    problem = posterior.problem
    if not isinstance(problem.family, (Gaussian, Logistic, Probit)) or len(problem.columns_used) != problem.p:
        raise NothingToDrawError(
            "plot_region draws p-values of single columns in linear models and models of two values, and this problem has none; plot_manhattan "
            "draws inclusion probabilities alone"
        )
    chosen = int(most_probable(posterior)[0])
    if lead is not None:
        (chosen,) = find_columns(lead, problem.names, "lead")
    x, label = _positions(problem, variants)
    strength = _association(problem)
    squares = correlations(problem, chosen) ** 2
    new = ax is None
    ax = new_axes(ax, 8.0, 5.4)
    if new:  # the layout does not know about the lower half
        figure = ax.get_figure(root=True)
        assert figure is not None
        figure.set_layout_engine("none")
        ax.set_position((0.09, 0.55, 0.89, 0.37))
    many = problem.p > MANY_POINTS
    kinds = np.minimum(np.searchsorted(CLASSES, squares, side="left"), len(CLASSES) - 1)
    for kind, (colour, end) in enumerate(zip(LD_COLOURS, CLASSES)):
        there = np.flatnonzero((kinds == kind) & (np.arange(problem.p) != chosen))
        there = there[np.argsort(squares[there])]
        ax.plot(x[there], strength[there], "o", color=colour, markersize=4, markeredgewidth=0, rasterized=many, zorder=2 + kind, label=f"r² ≤ {end:g}")  # fmt: skip
    name = problem.names[chosen]
    ax.plot(x[chosen], strength[chosen], "D", color=INK, markersize=6, zorder=9, label=name)
    ax.axhline(-np.log10(SIGNIFICANT), color=GREY, linewidth=0.8, linestyle=(0, (4, 3)), zorder=1)
    ax.set(ylabel="−log₁₀ p", ylim=(0, 1.08 * max(float(strength.max()), -np.log10(SIGNIFICANT))))
    ax.tick_params(labelbottom=False)
    tidy(ax)
    legend_above(ax, doubt=doubt(posterior), ncols=6)
    _pip_track(posterior, ax, x, label, level, signal, many)
    return ax


def _pip_track(
    posterior: Posterior,
    ax: "Axes",
    x: np.ndarray,
    label: str,
    level: float,
    signal: float | None,
    many: bool,
) -> None:
    """Inclusion probabilities below the association, with the members of each credible set in one colour."""
    below = ax.inset_axes((0.0, -1.14, 1.0, 1.0), sharex=ax)
    pip, sets = posterior.pip, posterior.credible_sets(level=level, signal=signal)
    place = {name: j for j, name in enumerate(posterior.problem.names)}
    below.plot(x, pip, "o", color=PALE, markersize=3, markeredgewidth=0, rasterized=many, zorder=1)
    for i, (number, row) in enumerate(sets.head(len(SERIES)).iterrows()):
        members = np.array([place[name] for name in row["variables"]])
        face = SERIES[i] if row["reached"] else "none"
        share = f"{row['probability']:.2f}" if signal is None else f"signal {row['signal']:.2f}"
        what = f"set {number}: {share}, {row['size']} variant{'s' * (row['size'] != 1)}"
        below.vlines(x[members], 0, pip[members], color=SERIES[i], linewidth=0.8, alpha=0.5, zorder=1)
        below.plot(
            x[members],
            pip[members],
            "o",
            color=SERIES[i],
            markerfacecolor=face,
            markersize=5,
            zorder=2,
            label=what,
        )
    below.set(ylabel="inclusion probability", ylim=(-0.03, 1.05), xlabel=label)
    thousands(below)
    tidy(below)
    if len(sets):
        below.legend(fontsize=8, framealpha=0.8, edgecolor="none", loc="best")


def plot_manhattan(
    posterior: Posterior,
    variants: pd.DataFrame | None = None,
    ax: "Axes | None" = None,
    *,
    named: float = NAMED_FROM,
) -> "Axes":
    """Plot inclusion probabilities along the genome, with chromosomes in alternating colours.

    Parameters
    ----------
    posterior : Posterior
    variants : DataFrame
        `chromosome` and `position` of the variants, by name: ``Genotypes.variants``. The default is one chromosome in the order of X.
    ax : Axes
        Axes to draw on. The default is a new figure.
    named : float
        Variants with at least this inclusion probability are named, at most 20 of them.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import numpy as np, pandas as pd, whichvars as wv
    >>> rng = np.random.default_rng(0)
    >>> X = wv.Genotypes(
    ...     rng.integers(0, 3, size=(200, 6)).astype(np.int8), names=[f"rs{j}" for j in range(6)],
    ...     variants=pd.DataFrame({"chromosome": list("111222"), "position": [1000, 2000, 3000] * 2}))
    >>> posterior = wv.exact(wv.Problem(X, X.values[:, 4] + rng.normal(size=200)))
    >>> ax = wv.plot_manhattan(posterior, X.variants)
    >>> [label.get_text() for label in ax.get_xticklabels()]
    ['1', '2']
    """
    check_posterior(posterior)
    problem, pip = posterior.problem, posterior.pip
    ax = new_axes(ax, 9.0, 3.6)
    if variants is None or "chromosome" not in variants.columns:
        chromosomes = np.full(problem.p, "")
        position, _ = _positions(problem, variants)
    else:
        table = _of_problem(problem, variants)
        chromosomes = table["chromosome"].astype(str).to_numpy()
        position = table["position"].to_numpy(float)
    shown = sorted(set(chromosomes), key=_chromosome_order)
    # several chromosomes are drawn side by side, a single one at its positions
    x, ticks, labels, start = np.zeros(problem.p), [], [], 0.0 if len(shown) > 1 else float(position.min())
    gap = 0.01 * sum(np.ptp(position[chromosomes == c]) + 1 for c in shown)
    for i, chromosome in enumerate(shown):
        there = np.flatnonzero(chromosomes == chromosome)
        x[there] = start + position[there] - position[there].min()
        end = float(x[there].max())
        ax.plot(x[there], pip[there], "o", color=(BLUE, SKY)[i % 2], markersize=3.5, markeredgewidth=0, rasterized=problem.p > MANY_POINTS, zorder=2)  # fmt: skip
        ticks.append((start + end) / 2)
        labels.append(str(chromosome))
        start = end + gap
    if len(shown) > 1:
        ax.set_xticks(ticks, labels, fontsize=8)
        ax.set_xlabel("chromosome")
    else:
        ax.set_xlabel(f"position on chromosome {shown[0]}" if shown[0] else "variable, in the order of X")
        thousands(ax)
    ax.set(ylabel="inclusion probability", ylim=(-0.03, 1.1))
    tidy(ax)
    legend_above(ax, doubt=doubt(posterior))
    best = most_probable(posterior)[: min(int((pip >= named).sum()), MOST_NAMED)]
    name_points(ax, x[best], pip[best], [problem.names[j] for j in best])
    return ax


def _chromosome_order(name: str) -> tuple[int, str]:
    """
    >>> sorted(["X", "10", "chr2", "1"], key=_chromosome_order)
    ['1', 'chr2', '10', 'X']
    """
    digits = name.removeprefix("chr")
    return (int(digits), "") if digits.isdigit() else (1000, name)


def _of_problem(problem: Problem, variants: Any) -> pd.DataFrame:
    """The rows of the problem's variables."""
    if not isinstance(variants, pd.DataFrame) or "position" not in variants.columns:
        raise ArgumentTypeError(
            "variants must be a frame with a column 'position' and the names of variants as its index, such as Genotypes.variants"
        )
    lacking = [name for name in problem.names if name not in variants.index]
    if lacking:
        raise DataError(
            f"variants lacks {lacking[0]!r} and {len(lacking) - 1:,} others of the problem's variables; its index must have their names"
        )
    return variants.loc[problem.names]


def _positions(problem: Problem, variants: pd.DataFrame | None) -> tuple[np.ndarray, str]:
    """Where each variable is drawn, and the label of that axis."""
    if variants is None:
        return np.arange(1.0, problem.p + 1), f"variant, in the order of X (1 to {problem.p:,})"
    table = _of_problem(problem, variants)
    several = "chromosome" in table.columns and table["chromosome"].nunique() > 1
    if several:
        raise DataError(
            "the variants are on several chromosomes; plot_manhattan draws these, and plot_region one region"
        )
    return table["position"].to_numpy(float), "position"


def _association(problem: Problem) -> np.ndarray:
    """−log₁₀ p of the regression on each column alone, (p,); of its score test, if the response has two values."""
    from scipy import stats  # takes half a second to import

    if problem.fit_data is not None:
        coefficient, information = steps_from_null(problem)
        return -(np.log(2) + stats.norm.logsf(np.abs(coefficient) * np.sqrt(information))) / np.log(10)
    (design, slab), nu = problem.target(0)[:2], problem.nu
    if isinstance(problem.noise, KnownVariance):
        z = np.abs(design.xty) * np.sqrt(2 * slab.half_precision / design.diagonal)
        return -(np.log(2) + stats.norm.logsf(z)) / np.log(10)
    r = np.clip(design.xty / np.sqrt(design.diagonal), -1 + 1e-15, 1 - 1e-15)
    t = np.abs(r) * np.sqrt((nu - 1) / (1 - r**2))
    return -(np.log(2) + stats.t.logsf(t, nu - 1)) / np.log(10)
