"""Functions that all plots share: loading matplotlib, colours, and names that do not overlap."""

import importlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from whichvars.errors import ArgumentTypeError, DataError, MissingPackageError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette, which people with the common colour vision deficiencies can distinguish
BLUE, ORANGE, GREEN, PURPLE, SKY, AMBER = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00"
SERIES = (BLUE, ORANGE, GREEN, PURPLE, AMBER, SKY)
INK, GREY, PALE = "#222222", "#767676", "#D9D9D9"
# orange that is dark enough to be read
WARNING = "#B34700"
# characters; the middle of longer names is left out
LONGEST_NAME = 28
# number of points above which they are drawn as pixels even in vector files
MANY_POINTS = 2000
LABEL_SIZE = 8.5
# in units of the width of its axes
WIDEST_LEGEND = 1.2
# shortest error bar that is drawn, as a share of the axis: about two pixels
SHORTEST_BAR = 0.006
ERROR_BAR: dict[str, Any] = {"fmt": "none", "ecolor": INK, "elinewidth": 0.9, "capsize": 2, "capthick": 0.9}
ERRORS = "± 2 Monte Carlo standard errors"
# inches of a figure in which long labels have several lines
NARROW = 6.0
# inches between the drawing and the edge of its figure
MARGIN = 1 / 24
# possible distances from a mark to its name in points, nearest first
REACHES = (7, 15, 26, 40, 56)
DIRECTIONS = ((1, 0), (-1, 0), (0, 1), (0, -1), (0.8, 0.6), (-0.8, 0.6), (0.8, -0.6), (-0.8, -0.6))
# inches that a new figure may be wide, if figures do not belong to pyplot; None if they do
_off_screen: ContextVar[float | None] = ContextVar("off_screen", default=None)


class NothingToDrawError(DataError):
    """The posterior has no data for such a plot."""


def require(package: str, users: str) -> None:
    """MissingPackageError unless the package can be imported."""
    try:
        importlib.import_module(package)
    except ImportError as error:
        raise MissingPackageError(
            f"{users} need {package}, which is not installed: pip install 'whichvars[report]'"
        ) from error


@contextmanager
def off_screen(widest: float = np.inf) -> Iterator[None]:
    """Inside this context new figures do not belong to pyplot: they open no window and need not be closed. None is wider than this
    many inches."""
    token = _off_screen.set(widest)
    try:
        yield
    finally:
        _off_screen.reset(token)


def new_axes(ax: "Axes | None", width: float, height: float, keep_shape: bool = False) -> "Axes":
    """`ax`, or the axes of a new figure of this many inches. If it would be too wide for a report, it is less wide, and also less high if
    its shape is to be kept."""
    require("matplotlib", "plots")
    import matplotlib.axes
    import matplotlib.figure

    widest = _off_screen.get()
    if ax is None and widest is not None:
        from matplotlib.backends.backend_agg import FigureCanvasAgg

        share = min(widest / width, 1.0)
        size = share * width, (share if keep_shape else 1.0) * height
        figure = matplotlib.figure.Figure(figsize=size, layout="constrained")
        FigureCanvasAgg(figure)  # needed to measure text
        return figure.subplots()
    if ax is None:
        from matplotlib import pyplot

        return pyplot.subplots(figsize=(width, height), layout="constrained")[1]
    if not isinstance(ax, matplotlib.axes.Axes):
        raise ArgumentTypeError(f"ax must be matplotlib Axes, such as those of plt.subplots(), not {ax!r}")
    return ax


def fix_layout(figure: "Figure") -> None:
    """Give the axes of a figure with constrained layout their final position.

    That layout measures everything twice. With one axes, once is enough: the space for its labels hardly depends on its
    size.
    """
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    layout = figure.get_layout_engine()
    if not isinstance(layout, ConstrainedLayoutEngine):
        return  # it has been done
    if len(figure.axes) > 1:
        layout.execute(figure)
        figure.set_layout_engine("none")
        return
    figure.set_layout_engine("none")
    (ax,) = figure.axes
    # near its final position, so that its ticks are those that will be drawn
    ax.set_position((0.15, 0.1, 0.83, 0.83))
    ticks = _ticks(ax)
    _leave_room(ax)
    if _ticks(ax) != ticks:  # in the new height or width, others fit better, and their labels may be longer
        _leave_room(ax)


def _ticks(ax: "Axes") -> list[list[float]]:
    """Where the ticks of both axes are."""
    return [list(axis.get_majorticklocs()) for axis in (ax.xaxis, ax.yaxis)]


def _leave_room(ax: "Axes") -> None:
    """Make the axes as large as the labels around them allow."""
    figure = ax.get_figure(root=True)
    around = ax.get_tightbbox(for_layout_only=True)
    assert figure is not None
    assert around is not None
    inside, edge = ax.get_window_extent(), MARGIN * figure.dpi
    left, bottom = np.maximum(np.subtract(inside.min, around.min), 0) + edge
    right, top = np.maximum(np.subtract(around.max, inside.max), 0) + edge
    width, height = figure.bbox.size
    ax.set_position((left / width, bottom / height, 1 - (left + right) / width, 1 - (bottom + top) / height))
    ax.apply_aspect()


def tidy(ax: "Axes", grid: str = "y") -> None:
    """Draw light lines and no box."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(GREY)
    ax.tick_params(colors=INK, length=3)
    ax.set_axisbelow(True)
    if grid:
        ax.grid(axis=grid, color=PALE, linewidth=0.6)  # type: ignore[arg-type]


def add_boxes(
    ax: "Axes",
    left: np.ndarray,
    right: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    color: str,
    **settings: Any,
) -> None:
    """Draw rectangles of one kind as one artist, as hundreds of separate bars would take long."""
    from matplotlib.collections import PolyCollection

    corners = np.stack([[left, left, right, right], [low, high, high, low]], axis=-1).swapaxes(0, 1)
    ax.add_collection(PolyCollection(list(corners), facecolor=color, **settings))


def whole_numbers(ax: "Axes") -> None:
    """Ticks of the x axis at whole numbers only."""
    from matplotlib.ticker import MaxNLocator

    ax.xaxis.set_major_locator(MaxNLocator(integer=True))


def thousands(ax: "Axes") -> None:
    """Large whole numbers on the x axis, with commas, and so few of them that they do not touch."""
    from matplotlib.ticker import MaxNLocator

    ax.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10], integer=True))
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")


def legend_above(
    ax: "Axes", side: Literal["left", "right"] = "left", *, doubt: str = "", **settings: Any
) -> None:
    """Put the legend above the axes, where it hides nothing, aligned with their left or right end. A warning about the
    results is put above the legend."""
    handles, labels = ax.get_legend_handles_labels()
    if not labels and not doubt:
        return
    options: dict[str, Any] = {
        "ncols": 3,
        "fontsize": 9,
        "handletextpad": 0.7,
        "columnspacing": 1.4,
    } | settings
    columns = min(options.pop("ncols"), max(len(labels), 1))
    figure, box = ax.get_figure(root=True), ax.get_window_extent()
    if figure is not None and len(figure.axes) == 1 and (engine := figure.get_layout_engine()) is not None:
        engine.execute(figure)  # names beside the axes make them narrower
        box = ax.get_window_extent()
    room = WIDEST_LEGEND * box.width
    if figure is not None:  # what is beyond the edge of the figure would be cut off
        room = min(room, figure.bbox.width - box.x0 if side == "left" else box.x1)
    for ncols in range(columns, 0, -1):  # the layout would shrink the axes for a legend that is too wide
        legend = ax.legend(
            handles,
            labels,
            loc="lower left" if side == "left" else "lower right",
            bbox_to_anchor=(float(side == "right"), 1.0),
            frameon=False,
            borderaxespad=0.2,
            title=doubt or None,
            title_fontsize=LABEL_SIZE,
            alignment=side,
            ncols=ncols,
            **options,
        )
        legend.get_title().set_color(WARNING)
        if legend.get_window_extent().width <= room:
            return


def in_lines(ax: "Axes", *parts: str) -> str:
    """The parts of a label in one line, or below one another in a figure that has not enough room for long names beside it."""
    figure = ax.get_figure(root=True)
    assert figure is not None
    return (" " if figure.get_figwidth() > NARROW else "\n").join(parts)


def log_ticks(ax: "Axes", axis: Literal["x", "y"], plain: bool = False) -> None:
    """Label a logarithmic axis, whose limits are known, at a few multiples of each power of ten, or at the powers alone if there are many, so
    that labels do not overlap; with `plain` as decimal numbers."""
    from matplotlib.ticker import FuncFormatter, LogFormatterSciNotation, LogLocator, NullFormatter

    low, high = ax.get_xlim() if axis == "x" else ax.get_ylim()
    of = ax.xaxis if axis == "x" else ax.yaxis
    few = (1.0, 2.0, 3.0, 5.0, 7.0) if high < 10 * low else (1.0, 2.0, 5.0)
    of.set_major_locator(LogLocator(subs=few if high < 100 * low else (1.0,)))
    powers = LogFormatterSciNotation(minor_thresholds=(np.inf, np.inf))
    of.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}") if plain else powers)
    of.set_minor_formatter(NullFormatter())


def long_enough(length: np.ndarray, whole: float) -> np.ndarray:
    """Whether error bars are known and long enough to be seen on an axis of this length."""
    with np.errstate(invalid="ignore"):
        return np.isfinite(length) & (length > SHORTEST_BAR * whole)


def short(name: str, longest: int = LONGEST_NAME) -> str:
    """A shortened name.

    >>> short("the_average_number_of_rooms_per_dwelling")
    'the_average_nu…_per_dwelling'
    """
    name = " ".join(name.split())  # a line break would run into the next name
    if len(name) <= longest:
        return name
    return f"{name[: longest // 2]}…{name[len(name) - (longest - longest // 2 - 1) :]}"


def name_rows(ax: "Axes", names: Sequence[str], axis: Literal["x", "y"] = "y", **settings: Any) -> None:
    """Put names at 0, 1, 2, … of an axis, without ticks. Dollar signs in names are not mathematics."""
    ax.tick_params(axis=axis, length=0)  # before the names, as it would be repeated for each of them
    put = ax.set_yticks if axis == "y" else ax.set_xticks
    put(range(len(names)), [short(n) for n in names], parse_math=False, **settings)


def name_points(
    ax: "Axes", x: np.ndarray, y: np.ndarray, names: Sequence[str], bars: np.ndarray | None = None
) -> list[str]:
    """Write names next to points, in the given order, where they overlap neither another name, nor one of the points, nor
    one of the vertical bars (x, low, high), shape (bars, 3). A name that fits nowhere is left out. Returns the names
    written."""
    figure = ax.get_figure(root=True)
    assert figure is not None
    if _off_screen.get() is not None:
        fix_layout(figure)
    else:
        figure.draw_without_rendering()  # gives the axes their final position
    pixel = figure.dpi / 72
    marks = ax.transData.transform(np.column_stack([x, y]))
    frame = ax.get_window_extent()
    bounds = np.array([frame.x0, frame.y0, frame.x1, frame.y1]) + pixel * np.array([2, 2, -2, 6])
    taken = [np.array([*(mark - 3 * pixel), *(mark + 3 * pixel)]) for mark in marks]
    if bars is not None:
        low, high = (ax.transData.transform(bars[:, [0, end]]) for end in (1, 2))
        taken += [np.array([*(a - 3 * pixel), *(b + 3 * pixel)]) for a, b in zip(low, high)]
    written = []
    for mark, name in zip(marks, names):
        text = ax.annotate(
            short(name),
            tuple(mark),
            xycoords="figure pixels",
            fontsize=LABEL_SIZE,
            color=INK,
            parse_math=False,
        )
        extent = text.get_window_extent()
        text.remove()
        place = _free_place(mark, np.array([extent.width, extent.height]), pixel, bounds, taken)
        if place is None:
            continue
        reach, (right, up), box = place
        taken.append(box)
        written.append(name)
        line = {"arrowstyle": "-", "color": GREY, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 3}
        ax.annotate(
            short(name),
            tuple(ax.transData.inverted().transform(mark)),
            xytext=(reach * right, reach * up),
            textcoords="offset points",
            ha="center" if right == 0 else "left" if right > 0 else "right",
            va="center" if up == 0 else "bottom" if up > 0 else "top",
            fontsize=LABEL_SIZE,
            color=INK,
            parse_math=False,
            arrowprops=line if reach > REACHES[0] else None,
        )
    return written


def _free_place(
    mark: np.ndarray, extent: np.ndarray, pixel: float, bounds: np.ndarray, taken: list[np.ndarray]
) -> tuple[float, tuple[float, float], np.ndarray] | None:
    """The nearest free position for a box of this size next to a mark: reach, direction and box (x0, y0, x1, y1)."""
    others = np.array(taken)
    for reach in REACHES:
        for right, up in DIRECTIONS:
            corner = mark + pixel * reach * np.array([right, up])
            corner = corner - extent * [(1 - np.sign(right)) / 2, (1 - np.sign(up)) / 2]
            box = np.array([*corner, *(corner + extent)])
            inside = (box[:2] >= bounds[:2]).all() and (box[2:] <= bounds[2:]).all()
            apart = (others[:, :2] > box[2:]).any(axis=1) | (others[:, 2:] < box[:2]).any(axis=1)
            if inside and apart.all():
                return reach, (right, up), box
    return None
