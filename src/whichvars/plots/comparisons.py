"""Plots of tables that compare priors or samplers."""

import re
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from whichvars.errors import ArgumentTypeError
from whichvars.plots.drawing import (
    BLUE,
    GREY,
    INK,
    LABEL_SIZE,
    PALE,
    SERIES,
    NothingToDrawError,
    legend_above,
    log_ticks,
    name_rows,
    new_axes,
    tidy,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


MARKS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*", "p", "h", "d", "H", "8")
# columns of compare_priors that are not variables
OTHERS = ("base", "how", "reliable", "ess", "mcse", "log_evidence", "mean_size")
LONG_NUMBER = re.compile(r"\d+\.\d{5,}(?:e[-+]?\d+)?")


def plot_priors(table: pd.DataFrame, ax: "Axes | None" = None) -> "Axes":
    """Plot how inclusion probabilities depend on the priors: a row for each variable, a point for each combination of priors.

    Colours are priors on models, and marks are slabs. The priors of the posterior that others are compared with have a ring and a line. Hollow
    points are not reliable. Priors for which there is no result, because no run was allowed, are left out.

    Parameters
    ----------
    table : DataFrame
        What ``compare_priors`` returned.
    ax : Axes
        Axes to draw on. The default is a new figure.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import whichvars as wv
    >>> data = wv.datasets.load_uscrime()
    >>> posterior = wv.exact(wv.Problem(data.X, data.y, slab=wv.GPrior(47)))
    >>> wv.plot_priors(wv.compare_priors(posterior, [wv.HyperG(), wv.BIC()])).get_xlabel()
    'inclusion probability'
    """
    if not isinstance(table, pd.DataFrame) or table.index.names != ["slab", "model_prior"]:
        raise ArgumentTypeError("plot_priors takes the table that compare_priors() returns")
    names = [name for name in table.columns if name not in OTHERS]
    if not names:
        raise NothingToDrawError("the table has no variables to draw")
    table = table[table["how"] != "not known"]
    slabs = list(dict.fromkeys(table.index.get_level_values("slab")))
    priors = list(dict.fromkeys(table.index.get_level_values("model_prior")))
    ax = new_axes(ax, 8.5, 2.6 + 0.32 * len(names))
    rows = np.arange(len(names))
    ax.hlines(rows + 0.5, 0, 1, color=PALE, linewidth=0.5, zorder=0)
    offsets = np.linspace(-0.33, 0.33, len(table)) if len(table) > 1 else np.zeros(1)
    for (key, row), offset in zip(table.iterrows(), offsets):
        slab, prior = key
        colour = SERIES[priors.index(prior) % len(SERIES)]
        value = row[names].to_numpy(float)
        mark = MARKS[slabs.index(slab) % len(MARKS)]
        face = colour if row["reliable"] else "white"
        ax.plot(value, rows + offset, mark, color=colour, markerfacecolor=face, markersize=4.5, linestyle="")
        if row["base"]:
            ax.vlines(value, rows - 0.42, rows + 0.42, color=INK, linewidth=1.2, zorder=1)
            ax.plot(value, rows + offset, "o", color=INK, markerfacecolor="none", markersize=9, linestyle="")
    for prior in priors:
        ax.plot(
            [],
            [],
            "-",
            color=SERIES[priors.index(prior) % len(SERIES)],
            linewidth=5,
            solid_capstyle="butt",
            label=with_few_digits(prior),
        )
    for slab in slabs:
        ax.plot(
            [],
            [],
            MARKS[slabs.index(slab) % len(MARKS)],
            color=GREY,
            linestyle="",
            label=with_few_digits(slab),
        )
    ax.plot(
        [],
        [],
        "o",
        color=INK,
        markerfacecolor="none",
        markersize=9,
        linestyle="",
        label="the posterior's own priors",
    )
    if not table["reliable"].all():
        ax.plot([], [], "o", color=BLUE, markerfacecolor="white", linestyle="", label="not reliable")
    tidy(ax, "x")
    name_rows(ax, names, fontsize=LABEL_SIZE)
    ax.set(xlim=(-0.02, 1.02), ylim=(len(names) - 0.5, -0.5), xlabel="inclusion probability")
    legend_above(ax, ncols=3, fontsize=LABEL_SIZE, handlelength=1.2, columnspacing=1.0)
    return ax


def with_few_digits(prior: str) -> str:
    """A prior as it is written, with numbers of four digits.

    >>> with_few_digits("BetaBinomial(a=1.0, b=0.8507810593582126)")
    'BetaBinomial(a=1.0, b=0.8508)'
    """
    return LONG_NUMBER.sub(lambda match: f"{float(match[0]):.4g}", prior)


def plot_samplers(table: pd.DataFrame, ax: "Axes | None" = None) -> "Axes":
    """Plot the work of samplers, which is squared error times CPU seconds. The shorter its bar, the sooner a sampler reaches the same accuracy.

    Parameters
    ----------
    table : DataFrame
        What ``compare_samplers`` returned.
    ax : Axes
        Axes to draw on. The default is a new figure.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import whichvars as wv
    >>> data = wv.datasets.load_uscrime()
    >>> problem = wv.Problem(data.X, data.y, slab=wv.GPrior(47))
    >>> table = wv.compare_samplers(problem, [wv.AddDeleteSwap(), wv.Hybrid()], draws=5_000, seed=1)
    >>> wv.plot_samplers(table).get_xlabel()
    'squared error of inclusion probabilities × CPU seconds'
    """
    if not isinstance(table, pd.DataFrame) or "work" not in table:
        raise ArgumentTypeError("plot_samplers takes the table that compare_samplers() returns")
    work = table["work"].to_numpy(float)
    if not (work > 0).any():
        raise NothingToDrawError("there is no sampler whose work is known and above 0")
    least = 0.3 * work[work > 0].min()
    ax = new_axes(ax, 7.0, 1.4 + 0.4 * len(table))
    rows = np.arange(len(table))
    for trusted, colour, label in ((True, BLUE, "converged"), (False, GREY, "not to be trusted yet")):
        some = (table["converged"].to_numpy(bool) == trusted) & (work > 0)
        if some.any():
            ax.barh(rows[some], work[some] - least, 0.7, least, color=colour, label=label)
    for row, speed, value in zip(rows, table["speed"], work):
        if value > 0:
            words = f" {speed:.2g} × as fast" if row else " 1"
            ax.annotate(words, (value, row), va="center", fontsize=LABEL_SIZE, color=INK)
    ax.set_xscale("log")
    ax.set(xlim=(least, 4 * np.nanmax(work)), ylim=(len(table) - 0.5, -0.5))
    log_ticks(ax, "x")
    ax.set_xlabel("squared error of inclusion probabilities × CPU seconds")
    tidy(ax, "x")
    name_rows(ax, [str(name) for name in table.index], fontsize=LABEL_SIZE)
    legend_above(ax, ncols=2)
    return ax
