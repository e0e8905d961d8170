"""A picture of the inclusion probabilities of a run that is still going on, for the output of a notebook cell."""

import html
from collections.abc import Sequence

import numpy as np

MOST_ROWS = 10
LONGEST_NAME = 22  # characters
# pixels
WIDTH, ROW, BAR = 520, 20, 12
LEFT, RIGHT = 160, 400  # where the bars of probabilities 0 and 1 end
# Bars are of a blue that can be seen on white and on black. Everything else takes the colour of the text around it, so that
# the picture suits the notebook's theme, whatever the theme of the operating system is.
BLUE = "#2f8ac4"


def picture(names: Sequence[str], pip: np.ndarray, mcse: np.ndarray) -> str:
    """The most probable variables as bars, with error bars of ± 2 Monte Carlo standard errors, as HTML with an SVG.

    Parameters
    ----------
    names : sequence of str, (p,)
    pip : array, (p,)
        Inclusion probabilities by now.
    mcse : array, (p,)
        Their errors; NaN where they are not known, so that there is no error bar.

    >>> print(picture(["a", "b"], np.array([0.25, 0.75]), np.array([0.01, np.nan])).count("<rect"))
    4
    """
    order = np.argsort(-pip, kind="stable")[:MOST_ROWS]
    rows = [_row(k, names[j], float(pip[j]), float(mcse[j])) for k, j in enumerate(order)]
    height = ROW * len(rows)
    some = (
        f"the {len(rows)} most probable of {len(pip):,} variables"
        if len(rows) < len(pip)
        else "all variables"
    )
    error = ", with error bars of ± 2 Monte Carlo standard errors" if np.isfinite(mcse[order]).any() else ""
    caption = f"Inclusion probabilities so far: {some}{error}"
    return (
        f'<div style="max-width: {WIDTH}px; line-height: normal"><svg role="img" aria-label="{caption}" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" font-size="12" fill="currentColor" stroke="none" '
        'style="display: block; max-width: 100%; height: auto; font-variant-numeric: tabular-nums">'
        f'{"".join(rows)}</svg><div style="margin-top: 4px; font-size: 85%; opacity: .75">{caption}.</div></div>'
    )


def _row(row: int, name: str, pip: float, error: float) -> str:
    middle = ROW * row + ROW / 2
    end = _place(pip)
    bars = "".join(
        f'<rect x="{LEFT}" y="{middle - BAR / 2:g}" width="{width:.1f}" height="{BAR}" {style}/>'
        for width, style in ((RIGHT - LEFT, 'opacity=".1"'), (end - LEFT, f'fill="{BLUE}"'))
    )
    number = f"{pip:.3f}"
    if np.isfinite(error):
        low, high = _place(pip - 2 * error), _place(pip + 2 * error)
        bars += f'<path d="M{low:.1f} {middle:g}H{high:.1f}M{low:.1f} {middle - 3:g}v6M{high:.1f} {middle - 3:g}v6" stroke="currentColor" stroke-width="1.5"/>'
        # rounded up, so that no error is written as 0
        number += f" ± {np.ceil(2000 * error) / 1000:.3f}"
    return (
        f"<g><title>{html.escape(name)}</title>"
        f'<text x="{LEFT - 8}" y="{middle + 4:g}" text-anchor="end">{html.escape(_short(name))}</text>'
        f'{bars}<text x="{RIGHT + 10}" y="{middle + 4:g}">{number}</text></g>'
    )


def _place(probability: float) -> float:
    return LEFT + (RIGHT - LEFT) * min(max(probability, 0.0), 1.0)


def _short(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 8]}…{name[-7:]}"
