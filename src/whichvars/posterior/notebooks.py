"""Tables for notebooks: HTML that can be sorted, and that takes its colours from the page around it, light or dark."""

import hashlib
from collections.abc import Sequence
from html import escape

import numpy as np
import pandas as pd

# rows that are written, of which some are seen at once and the others by scrolling
MOST_ROWS = 200

# colours are those of the page, so that the table suits every theme
STYLE = """
.NAME { color: inherit; }
.NAME .rows { max-height: 28em; overflow: auto; display: inline-block; max-width: 100%; }
.NAME table { border-collapse: collapse; font-variant-numeric: tabular-nums; color: inherit; background: none; margin: 0; }
.NAME th, .NAME td { text-align: right; padding: .2em .7em; border: 0; border-bottom: 1px solid rgb(128 128 128 / .3); color: inherit; white-space: nowrap; }
.NAME th:first-child { text-align: left; }
.NAME thead th { position: sticky; top: 0; backdrop-filter: blur(6px); border-bottom: 2px solid rgb(128 128 128 / .7); }
.NAME button { font: inherit; color: inherit; background: none; border: 0; padding: 0; cursor: pointer; }
.NAME button::after { content: " \\2195"; opacity: .5; }
.NAME [aria-sort=ascending] button::after { content: " \\2191"; opacity: 1; }
.NAME [aria-sort=descending] button::after { content: " \\2193"; opacity: 1; }
.NAME .bar { background-repeat: no-repeat; background-image: linear-gradient(rgb(0 128 200 / .28), rgb(0 128 200 / .28)); }
"""

# Headings become buttons, where scripts are allowed. Numbers are sorted with the largest first, and missing ones go to the end.
SCRIPT = """
document.querySelectorAll(".NAME:not([data-ready])").forEach((box) => {
  box.dataset.ready = "";
  const body = box.querySelector("tbody");
  const heads = [...box.querySelectorAll("thead th")];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const numbers = column > 0;
      const before = head.getAttribute("aria-sort");
      const down = before ? before === "ascending" : numbers;
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const key = (row) => {
        const cell = row.cells[column];
        return numbers ? (cell.dataset.value === undefined ? NaN : Number(cell.dataset.value)) : cell.textContent;
      };
      const order = (a, b) => {
        const [x, y] = [key(a), key(b)];
        if (!numbers) return x.localeCompare(y) * (down ? -1 : 1);
        if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y);
        return x === y ? 0 : (x < y ? -1 : 1) * (down ? -1 : 1);
      };
      body.append(...[...body.rows].sort(order));
    });
  });
});
"""


def notebook_table(
    heading: str, shown: pd.DataFrame, values: pd.DataFrame, more: int, notes: Sequence[str] = ()
) -> str:
    """A table as HTML.

    Parameters
    ----------
    heading : str
    shown : DataFrame of text, one row for each variable
    values : DataFrame of numbers, by which its columns are sorted
        `pip` is drawn as a bar behind its text too.
    more : int
        Variables that are left out.
    notes : sequence of str
        Sentences below the table.
    """
    columns = "".join(f'<th scope="col">{escape(str(name))}</th>' for name in shown.columns)
    rows = "".join(
        f'<tr><th scope="row">{escape(str(name))}</th>{_cells(texts, numbers, shown.columns)}</tr>'
        for name, texts, numbers in zip(shown.index, shown.to_numpy(), values[shown.columns].to_numpy(float))
    )
    table = (
        f'<table><thead><tr><th scope="col">variable</th>{columns}</tr></thead><tbody>{rows}</tbody></table>'
    )
    below = [*([f"… and {more:,} more"] if more > 0 else []), *notes]
    inner = f'<p>{escape(heading)}</p><div class="rows" tabindex="0">{table}</div>'
    inner += "".join(f"<p>{escape(line)}</p>" for line in below)
    # the same table may be in a page more than once, and another one beside it
    name = f"whichvars-{hashlib.sha256(inner.encode('utf-8', 'replace')).hexdigest()[:10]}"
    style, script = STYLE.replace("NAME", name), SCRIPT.replace("NAME", name)
    return f'<div class="{name}"><style>{style}</style>{inner}<script>{script}</script></div>'


def _cells(texts: np.ndarray, numbers: np.ndarray, columns: pd.Index) -> str:
    cells = []
    for name, text, number in zip(columns, texts, numbers):
        value = "" if np.isnan(number) else f' data-value="{float(number)!r}"'
        if np.isinf(number):
            value = f' data-value="{"-" if number < 0 else ""}Infinity"'
        bar = f' class="bar" style="background-size: {100 * number:.1f}% 100%"' if name == "pip" else ""
        cells.append(f"<td{value}{bar}>{escape(str(text))}</td>")
    return "".join(cells)
