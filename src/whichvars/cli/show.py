"""Output in a terminal: tables, words for probabilities, and notes."""

import math
import re
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from whichvars.posterior.pooling import PooledPosterior
    from whichvars.posterior.posterior import Posterior

# columns; longer lines are hard to read
WIDEST = 100
# least error of a probability in per cent that its first decimal shows
SEEN = 0.0005
# Python expressions in warnings, and the corresponding options of the command line
IN_OPTIONS = {
    "ParallelTempering()": "--sampler tempering",
    "replicates=4": "--replicates 4",
    "posterior.explain() says more": "The report says more",
    'Problem(…, family="logistic")': "--family logistic",
    'Problem(…, family="poisson")': "--family poisson",
    'family="negative-binomial"': "--family negative-binomial",
    'Problem(…, family="student")': "--family student",
    "always_include": "--always",
    "More imputations (m)": "More imputations (--imputations)",
    "Use IndependentNormal()": "Use --slab independent",
    "sample_many fits": "--responses fits",
    "with Problem(…, family=…)": "with --response and --family",
    "the column not_fitted of the summary": "the column not_fitted of responses.csv",
}


def new_console() -> "Console":
    """Standard output, not too wide."""
    from rich.console import Console

    console = Console(highlight=False)
    return Console(highlight=False, width=min(console.width, WIDEST))


def say(message: str, quiet: bool = False) -> None:
    """A line on standard error, where it does not mix with results."""
    if not quiet:
        click.echo(wrapped(printable(message), sys.stderr), err=True)


def wrapped(message: str, stream: Any) -> str:
    """In a terminal, lines that end between words. Elsewhere, as in a pipe, lines are left as they are."""
    import shutil
    import textwrap

    if not stream.isatty():
        return message
    width = min(shutil.get_terminal_size().columns, WIDEST)
    lines = (
        textwrap.fill(line, width, break_long_words=False, break_on_hyphens=False)
        for line in message.split("\n")
    )
    return "\n".join(lines)


@contextmanager
def notes(quiet: bool) -> Iterator[list[str]]:
    """Collect the warnings inside this context, and print each of them once at its end."""
    messages: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yield messages
        finally:
            messages += dict.fromkeys(str(w.message) for w in caught)
    for message in messages:
        say(f"Note: {sentence(in_options(message))}", quiet)


def sentence(message: str) -> str:
    """A warning as a sentence: warnings begin with a small letter and have no full stop.

    >>> sentence("left out 2 variants"), sentence("y is constant."), sentence("Half of the cells are missing")
    ('Left out 2 variants.', 'y is constant.', 'Half of the cells are missing.')
    """
    first = re.match(r"[a-z]{2,}\b", message)
    start = message[0].upper() if first else message[:1]
    return f"{start}{message[1:]}{'' if message.endswith(('.', '!', '?')) else '.'}"


def in_options(message: str) -> str:
    """A message with options of the command line in place of Python expressions.

    >>> in_options("use ParallelTempering()")
    'use --sampler tempering'
    """
    for call, option in IN_OPTIONS.items():
        message = message.replace(call, option)
    return re.sub(r"evidence=[\"']([a-z-]+)[\"']", r"--evidence \1", message)


def printable(text: str) -> str:
    """Text from a file without control characters for the terminal.

    >>> printable("dose\\x1b[31m")
    'dose�[31m'
    """
    return "".join(c if c.isprintable() or c == "\n" else "�" for c in text)


def plain(text: str) -> "Text":
    """Text for a table, in which brackets are not markup."""
    from rich.text import Text

    return Text(printable(text))


def shortened(prior: object) -> str:
    """A prior as it is written, with at most four digits of each number.

    >>> shortened("BetaBinomial(a=1.0, b=0.9362291495737205)")
    'BetaBinomial(a=1.0, b=0.9362)'
    """
    return re.sub(r"\d+\.\d{5,}", lambda match: f"{float(match[0]):.4g}", str(prior))


def in_time(seconds: float) -> str:
    """A duration in readable units.

    >>> in_time(0.4), in_time(42), in_time(600), in_time(9000)
    ('less than a second', '42 s', '10 min', '2.5 h')
    """
    if seconds < 1:
        return "less than a second"
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def in_memory(size: float) -> str:
    """A size in readable units.

    >>> in_memory(3e6), in_memory(2.5e9)
    ('3 MB', '2.5 GB')
    """
    return f"{max(size, 1e6) / 1e6:.0f} MB" if size < 1e9 else f"{size / 1e9:.1f} GB"


def inclusion_table(
    console: "Console", posterior: "Posterior", rows: int, meaning: dict[str, str] | None = None
) -> "Table":
    """The most probable variables, with bars and errors."""
    from whichvars.posterior.tables import in_words

    table = new_table()
    table.add_column("variable", no_wrap=True, max_width=30)
    if meaning is not None:
        table.add_column("meaning", no_wrap=True, style="dim")
    table.add_column("probability it matters", no_wrap=True)
    table.add_column("in words", no_wrap=True)
    ratios = included_ratios(posterior)
    if ratios is not None:
        table.add_column(str(ratios.name).replace("_", " "), no_wrap=True, justify="right")
    frame = posterior.summary()
    shares = percents(console, posterior, frame["pip"][:rows], frame["mcse"][:rows])
    for name, pip, percent in zip(frame.index, frame["pip"], shares):
        middle = [] if meaning is None else [plain(meaning[name])]
        last = [] if ratios is None else [in_ratio(ratios[name])]
        share = f"{bar(console, pip)} {percent}"
        table.add_row(plain(name), *middle, share, in_words(pip), *last)
    if rows < posterior.problem.p:
        left = frame["pip"].iloc[rows:]
        rest = f"[dim]{len(left):,} more, each at most {at_most(left.iloc[0])}[/]"
        table.add_row("...", rest)
    return table


def at_most(share: float) -> str:
    """A bound in per cent that is short and not too low.

    >>> at_most(0.0213), at_most(0.0031), at_most(0.0)
    ('3%', '0.4%', '0%')
    """
    steps = 100 if share >= 0.01 else 1000
    return f"{math.ceil(share * steps - 1e-9) * 100 / steps:g}%"


def in_ratio(value: float) -> str:
    """An odds ratio or rate ratio with two decimals, so that those of a column align; empty if it is not known.

    >>> in_ratio(1.3), in_ratio(0.877), in_ratio(0.0012), in_ratio(float("nan"))
    ('1.30', '0.88', '0.0012', '')
    """
    if value != value:
        return ""
    return f"{value:.2f}" if 0.01 <= value < 1000 else f"{value:.3g}"


def included_ratios(posterior: "Posterior") -> "pd.Series | None":
    """By variable, the factor by which odds or rates are multiplied by one standard deviation more of its column, given that it is in;
    NaN for groups of columns. None if the family has no ratios."""
    import numpy as np
    import pandas as pd

    from whichvars.posterior.family_words import standard_effects

    problem = posterior.problem
    ratio = getattr(problem.family, "ratio", None)
    if ratio is None:
        return None
    with np.errstate(over="ignore"):
        first = np.exp(standard_effects(posterior)["effect"].to_numpy())[problem.offsets[:-1]]
    single = np.diff(problem.offsets) == 1
    return pd.Series(np.where(single, first, np.nan), problem.names, name=ratio)


def bar(console: "Console", pip: float) -> str:
    """A probability as a bar of ten cells."""
    full, empty, _ = signs(console)
    filled = round(10 * pip)
    return f"[cyan]{full * filled}[/][dim]{empty * (10 - filled)}[/]"


def percents(
    console: "Console",
    posterior: "Posterior | PooledPosterior",
    pips: Iterable[float],
    errors: Iterable[float],
) -> list[str]:
    """Probabilities and their errors, of which one that is not known is a question mark. Errors are left out if none of them would be seen.
    Decimal points stand below one another."""
    if (posterior.mcse < SEEN).all():
        return [f"{pip:6.1%}" for pip in pips]
    written = [tenths(error) for error in errors]
    width, sign = max(map(len, written), default=0), signs(console)[2]
    return [f"{100 * pip:5.1f} {sign} {error:>{width}}%" for pip, error in zip(pips, written)]


def tenths(share: float) -> str:
    """A share in per cent with as many digits as the probability before it; small values are not rounded to zero, and "?" means
    unknown.

    >>> tenths(0.25), tenths(0.0004), tenths(0.0), tenths(float("nan"))
    ('25.0', '<0.1', '<0.1', '?')
    """
    if share != share:
        return "?"
    return f"{100 * share:.1f}" if share >= SEEN else "<0.1"


def hundredths(share: float) -> str:
    """A share in per cent; small values are not rounded to zero, and "?" means unknown.

    >>> hundredths(0.25), hundredths(0.00001), hundredths(0.0), hundredths(float("nan"))
    ('25.00', '<0.01', '<0.01', '?')
    """
    if share != share:
        return "?"
    return f"{100 * share:.2f}" if share >= 0.00005 else "<0.01"


def best_models(console: "Console", posterior: "Posterior", rows: int) -> "Table":
    """The best models."""
    table = new_table()
    table.add_column("best models", justify="right", no_wrap=True)
    table.add_column("variables in the model")
    models = posterior.top_models(rows)
    errors = [
        "" if posterior.models.mcse is None and posterior.models.exact else hundredths(e)
        for e in models["mcse"]
    ]
    width, sign = max(map(len, errors), default=0), signs(console)[2]
    for (_, model), error in zip(models.iterrows(), errors):
        after = f" {sign} {error:>{width}}" if error else ""
        table.add_row(f"{hundredths(model['probability'])}{after}%", plain(model["variables"] or "none"))
    return table


def signs(console: "Console") -> tuple[str, str, str]:
    """Full and empty parts of a bar, and plus-minus, as the terminal can show them."""
    return ("█", "░", "±") if console.encoding.lower().startswith("utf") else ("#", ".", "+-")


def new_table() -> "Table":
    from rich.table import Table

    return Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)


def print_json(content: Any) -> None:
    """Print one JSON document on standard output, with null for numbers that are not finite."""
    import json

    sys.stdout.write(json.dumps(without_nan(content), indent=1, ensure_ascii=False) + "\n")


def without_nan(value: Any) -> Any:
    """The same nested structure in the types of JSON.

    >>> without_nan({"a": [1.0, float("nan")]})
    {'a': [1.0, None]}
    """
    import math

    if isinstance(value, dict):
        return {str(key): without_nan(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_nan(item) for item in value]
    if hasattr(value, "tolist"):
        return without_nan(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
