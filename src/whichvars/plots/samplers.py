"""Plots of the adapted parameters of samplers."""

from typing import TYPE_CHECKING, Literal

import numpy as np

from whichvars.plots.drawing import (
    BLUE,
    GREY,
    INK,
    LABEL_SIZE,
    MANY_POINTS,
    ORANGE,
    PALE,
    SERIES,
    NothingToDrawError,
    legend_above,
    log_ticks,
    new_axes,
    short,
    thousands,
    tidy,
    whole_numbers,
)
from whichvars.plots.questions import (
    check_choice,
    check_count,
    check_posterior,
    doubt,
    has_particles,
    learned_by_replicate,
)
from whichvars.posterior.posterior import Posterior

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PANELS_IN_A_ROW = 4


def plot_adaptation(
    posterior: Posterior,
    ax: "Axes | None" = None,
    *,
    show: Literal["odds", "probabilities", "along_run", "mutation_rate"] = "odds",
    top: int = 12,
) -> "Axes":
    r"""Plot the parameters that a sampler learned for each variable, in every replicate.

    The samplers that do so are ``IndividualAdaptation``, ``ASI`` and tempering with these. Others, such as ``Hybrid``, have no A
    and D.

    Parameters
    ----------
    posterior : Posterior
    ax : Axes
        Axes to draw on. The default is a new figure.
    show : "odds", "probabilities", "along_run" or "mutation_rate"
        "odds": A_j/D_j against the posterior odds π_j/(1 − π_j), to which they converge in theory (the line).
        "probabilities": the probabilities of proposing to add, A_j, and to delete, D_j, against π_j.
        "along_run": A_j and D_j along the run, warm-up included, with a panel for each of the most probable variables and a line for each
        replicate; the panels are the ``child_axes`` of what is returned. ``posterior.adaptation_along_run()`` has the numbers.
        "mutation_rate": the share of iterations that changed the model, along the run, warm-up included.
    top : int
        The largest number of panels with ``show="along_run"``.

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
    check_posterior(posterior)
    check_choice(show, ("odds", "probabilities", "along_run", "mutation_rate"), "show")
    top = check_count(top, "top")
    if show == "mutation_rate":
        return _mutation_rate(posterior, ax)
    if show == "along_run":
        return _along_run(posterior, ax, top)
    learned = learned_by_replicate(posterior, "add_probability", "IndividualAdaptation() or ASI()")
    # the last rung is the one at the target
    add, delete = (
        np.array([np.atleast_2d(replicate[key])[-1] for replicate in learned])
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
        raise NothingToDrawError(
            "there are no odds to draw, because every variable was always in or always out"
        )
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
    legend_above(ax, doubt=doubt(posterior))
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
    ax.set(
        yscale="log",
        xlabel="posterior inclusion probability",
        ylabel="learned probability",
        xlim=(-0.02, 1.02),
    )
    log_ticks(ax, "y", plain=True)
    tidy(ax, "both")
    legend_above(ax, doubt=doubt(posterior))
    return ax


def _along_run(posterior: Posterior, ax: "Axes | None", top: int) -> "Axes":
    """Panels of equal size inside the axes, which themselves show no more than the labels that all panels share."""
    learned = learned_by_replicate(posterior, "add_probability", "IndividualAdaptation() or ASI()")
    if "iterations_along_run" not in learned[0]:
        raise NothingToDrawError(
            "there is nothing to draw: what was learned along this run was not recorded, as it has particles or more than 50,000 variables, or "
            "was made by an earlier version"
        )
    if max(len(replicate["iterations_along_run"]) for replicate in learned) < 3:
        raise NothingToDrawError(
            "there is nothing to draw: the run was too short for a record of what was learned; use more draws"
        )
    kept = learned[0]["variables_along_run"]
    shown = np.argsort(-posterior.pip[kept], kind="stable")[:top]
    columns = min(PANELS_IN_A_ROW, len(shown))
    rows = -(-len(shown) // columns)
    ax = new_axes(ax, 2.2 * columns + 0.6, 1.7 * rows + 0.7)
    values = np.concatenate(
        [
            r[f"{which}_probability_along_run"][:, shown].ravel()
            for r in learned
            for which in ("add", "delete")
        ]
    )
    low, high = 0.7 * values.min(), min(1.4 * values.max(), 1.0)
    last = max(replicate["iterations_along_run"][-1] for replicate in learned)
    for number, place in enumerate(shown):
        row, column = divmod(number, columns)
        width, height = 1 / columns, 1 / rows
        panel = ax.inset_axes(
            (column * width, 1 - (row + 1) * height, 0.92 * width, (0.78 if rows > 1 else 0.86) * height)
        )
        for replicate in learned:
            at = replicate["iterations_along_run"]
            for which, colour in (("add", BLUE), ("delete", ORANGE)):
                values = replicate[f"{which}_probability_along_run"][:, place]
                # iteration 0 has no place on a logarithmic axis
                panel.plot(np.maximum(at, at[1] / 2), values, color=colour, linewidth=1, alpha=0.7)
        panel.set(xscale="log", yscale="log", xlim=(at[1] / 2, last), ylim=(low, high))
        log_ticks(panel, "y", plain=True)
        name, pip = posterior.problem.names[kept[place]], posterior.pip[kept[place]]
        panel.set_title(f"{short(name, 16)}  {pip:.2f}", fontsize=LABEL_SIZE, pad=3, parse_math=False)
        tidy(panel, "both")
        panel.tick_params(labelsize=7, labelleft=column == 0, labelbottom=number + columns >= len(shown))
        panel.minorticks_off()
    ax.set(
        xlabel="iteration of each chain, warm-up included", ylabel="learned probability", xticks=[], yticks=[]
    )
    ax.spines[:].set_visible(False)
    ax.xaxis.labelpad, ax.yaxis.labelpad = 18, 30
    for colour, label in ((BLUE, "A: proposing to add"), (ORANGE, "D: proposing to delete")):
        ax.plot([], [], color=colour, label=label)
    legend_above(ax, doubt=doubt(posterior))
    return ax


def _mutation_rate(posterior: Posterior, ax: "Axes | None") -> "Axes":
    learned = learned_by_replicate(posterior, "mutation_rate_along_run", "IndividualAdaptation() or ASI()")
    if max(len(replicate["mutation_rate_along_run"]) for replicate in learned) < 2:
        raise NothingToDrawError("there is nothing to draw: the run was too short for rates; use more draws")
    ax = new_axes(ax, 8.0, 3.2)
    for number, replicate in enumerate(learned):
        rate = replicate["mutation_rate_along_run"]
        at = replicate["block_length"] * (np.arange(len(rate)) + 0.5)
        ax.plot(at, rate, color=SERIES[number % len(SERIES)], linewidth=1.2, label=f"replicate {number + 1}")
    ax.set(xlabel="iteration of each chain, warm-up included", ylabel="mutation rate")
    ax.set_ylim(bottom=0)
    ax.margins(x=0.01)
    thousands(ax)
    tidy(ax)
    legend_above(ax, ncols=6, doubt=doubt(posterior))
    return ax


def plot_changes(posterior: Posterior, ax: "Axes | None" = None) -> "Axes":
    """Plot how many variables the sampler proposed to change at once, and how often that was accepted.

    All replicates are combined; the scale of the shares of iterations is logarithmic.

    Examples
    --------
    >>> import whichvars as wv
    >>> data = wv.datasets.load_uscrime()
    >>> problem = wv.Problem(data.X, data.y, slab=wv.GPrior(47))
    >>> posterior = wv.sample(problem, wv.IndividualAdaptation(), draws=5000, progress=False)
    >>> wv.plot_changes(posterior).get_yscale()
    'log'
    """
    check_posterior(posterior)
    learned = learned_by_replicate(
        posterior, "changes_proposed", "IndividualAdaptation(), ASI(), PARNI() or Lamnisos()"
    )
    counts = []
    for key in ("changes_proposed", "changes_accepted"):
        total = np.zeros(max(len(replicate[key]) for replicate in learned))
        for replicate in learned:
            total[: len(replicate[key])] += replicate[key]
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
    legend_above(ax, doubt=doubt(posterior))
    return ax


def plot_ladder(posterior: Posterior, ax: "Axes | None" = None) -> "Axes":
    """Plot the temperature ladder of a tempered sampler.

    For ``ParallelTempering``: the inverse temperature of each rung, with a line for every replicate, and between rungs the
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
    check_posterior(posterior)
    learned = learned_by_replicate(posterior, "temperatures", "ParallelTempering() or SequentialMonteCarlo()")
    ax = new_axes(ax, 6.4, 3.6)
    particles = has_particles(posterior)
    for number, replicate in enumerate(learned):
        temperature = replicate["temperatures"]
        ax.plot(
            np.arange(1, len(temperature) + 1), temperature, color=BLUE, linewidth=1.2, alpha=0.8, zorder=3,
            marker="" if particles else "o", markersize=5, label="inverse temperature" if number == 0 else None,
        )  # fmt: skip
        if particles:
            distinct = replicate["distinct_particles"]
            share = distinct / distinct[0] if distinct[0] > 1 else distinct
            ax.plot(
                np.arange(1, len(share) + 1), share, color=ORANGE, linewidth=1.2, alpha=0.8, linestyle=(0, (4, 2)),
                label="distinct particles, of those at the start" if number == 0 else None,
            )  # fmt: skip
    if particles:
        ax.set_xlabel("step")
        whole_numbers(ax)
    else:
        rates = np.array([replicate["swap_rates"] for replicate in learned])
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
    legend_above(ax, ncols=2, doubt=doubt(posterior))
    return ax
