"""Make again what is committed but computed: the picture of the first page, and the output that README shows.

Run it after a change of plots, of the default sampler or of what is printed: python docs/refresh.py
"""

import contextlib
import io
import re
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

import whichvars as wv

DOCS = Path(__file__).resolve().parent
README = DOCS.parent / "README.md"
EXAMPLE = re.compile(r"(```python\n)(.*?)(```\n\n```\n)(.*?)(```)", re.DOTALL)  # code, then what it prints
SETTINGS = {
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "whichvars",
    "font.sans-serif": ["DejaVu Sans", "Verdana", "sans-serif"],
}


def refresh_readme() -> wv.Posterior:
    """Run README's example, and put what it prints beneath it."""
    text = README.read_text(encoding="utf-8")
    found = EXAMPLE.search(text)
    assert found is not None
    names: dict[str, object] = {}
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(found[2], names)
    printed = "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines())
    README.write_text(text[: found.start(4)] + printed + text[found.end(4) :], encoding="utf-8")
    posterior = names["posterior"]
    assert isinstance(posterior, wv.Posterior)
    return posterior


def draw_picture(posterior: wv.Posterior) -> None:
    plt.rcParams.update(SETTINGS)
    fig, (left, right) = plt.subplots(1, 2, figsize=(10.5, 3.9), layout="constrained", width_ratios=(1, 1.25))
    wv.plot_inclusion(posterior, left, top=12)
    wv.plot_models(posterior, right, models=20, variables=12)
    fig.savefig(DOCS / "_static" / "first.svg", metadata={"Date": None, "Creator": None})


if __name__ == "__main__":
    draw_picture(refresh_readme())
