"""What a column contains: numbers in some notation, the levels of a category, or something that cannot be used.

Messages name the row and say what to do about it. What to do depends on where the table comes from, a file on the command
line or a frame in Python, which is what ``Advice`` knows.
"""

import re
import shlex
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

# most levels of a column of words that is not said to be a category
MOST_LEVELS = 50
DECIMAL_COMMA = r"[+-]?\d*,\d+(?:[eE][+-]?\d+)?"
NUMBER_WITH_COMMA = r"[+-]?[\d.]*(?:,[\d.]+)+"
DATE = r"(?:\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}|\d{1,2}[- ][A-Za-z]{3}[- ]\d{2,4})(?:[T ]\d{1,2}:\d{2}.*)?|\d{1,2}:\d{2}(?::\d{2})?"
# an amount with one sign before or after it, and commas between thousands
AMOUNT = re.compile(r"([+-]?)([$€£¥]?)\s*([+-]?(?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d+)?)\s*([$€£¥%]?)")
# a code whose first digits would be lost if it were a number
LEADING_ZERO = r"0\d+"


@dataclass(frozen=True)
class Advice:
    """How to do what a message suggests; `{name}` is the name of the column, quoted as it has to be written."""

    first_row: int  # the number of the first row in messages
    drop: str
    force: str
    lump: str
    gaps: str
    impute: str
    date: str
    quote: Any  # from a name to how it is written

    def to(self, what: str, name: object) -> str:
        """One of the pieces of advice above, for one column."""
        return str(getattr(self, what)).format(name=self.quote(str(name)))

    def order(self, coding: str, name: str, labels: list[str]) -> str:
        """How an order of levels is given."""
        if self.first_row:
            return f"--{coding} {self.quote(name + '=' + ','.join(labels))}"
        return f"{coding}={{{name!r}: {labels!r}}}"

    def row(self, column: Any, position: int) -> int:
        """The number by which users know a row; the index of a table counts its rows from 0."""
        return int(column.index[position]) + self.first_row


FILE = Advice(
    1,
    "leave it out with --drop {name}",
    "make it one with --category {name}",
    "merge its rare values with --category {name} --lump 0.01",
    "leave such rows out with --missing drop",
    "fill them in with --missing impute",
    "use --date {name}",
    shlex.quote,
)
FRAME = Advice(
    0,
    "leave it out with X.drop(columns={name})",
    "make it one with categories=[{name}]",
    "merge its rare values with categories=wv.Categories([{name}], lump=0.01)",
    'leave such rows out with missing="drop"',
    "fill them in with wv.impute(X, y)",
    "use expand=[wv.date({name})]",
    repr,
)


class Reading(NamedTuple):
    """What a column contains."""

    kind: str  # "number", "comma", "amount", "levels" or "fault"
    values: np.ndarray | None = None  # of numbers, (n,); NaN where missing
    labels: list[str] | None = None  # the levels of a category in their order
    # what cannot be used and what to do; for amounts, the sign
    words: str = ""


def is_text(column: pd.Series) -> bool:
    """Whether a column has a type of its own for categories or words, or words among its cells."""
    dtype = column.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        return True
    if dtype.kind == "O" and isinstance(dtype, np.dtype):
        return any(isinstance(value, str) for value in column)
    return bool(pd.api.types.is_string_dtype(dtype))


def is_date(column: pd.Series) -> bool:
    return bool(
        pd.api.types.is_datetime64_any_dtype(column.dtype) or pd.api.types.is_timedelta64_dtype(column.dtype)
    )


def classify(
    column: pd.Series, decimal_comma: bool, categories: bool, advice: Advice = FILE, forced: bool = False
) -> Reading:
    """What a column without a numeric dtype contains; missing cells are ignored.

    decimal_comma : whether commas in numbers can only be decimal commas
    categories : whether the column may be a category
    forced : whether it is one, whatever it contains
    """
    if forced and categories:
        return _levels(column, advice, True)
    if is_date(column):
        return Reading("fault", words=_dates(column, advice))
    if isinstance(column.dtype, pd.CategoricalDtype):
        return _levels(column, advice, True) if categories else _words(column)
    if pd.api.types.is_numeric_dtype(column.dtype):
        return Reading("number", to_floats(column))
    if all(isinstance(value, (bool, int, float, np.number)) for value in column):
        return Reading("number", to_floats(column))
    codes, text = text_codes(column)
    numbers = pd.to_numeric(text, errors="coerce")
    words = text[numbers.isna()]
    if words.empty:
        return Reading("number", _spread(to_floats(numbers), codes))
    if (
        decimal_comma
        and words.str.fullmatch(DECIMAL_COMMA).all()
        and not text.str.contains(".", regex=False).any()
    ):
        return Reading(
            "comma", _spread(to_floats(pd.to_numeric(text.str.replace(",", ".", regex=False))), codes)
        )
    plain = text
    if decimal_comma and text.str.contains(",", regex=False).any():
        plain = text.str.replace(".", "", regex=False).str.replace(",", ".", regex=False)
    amounts, sign = read_amounts(plain)
    if amounts is not None:
        return Reading("amount", _spread(amounts, codes), words=sign)
    counts = np.bincount(codes[codes >= 0], minlength=len(text))

    def place(level: int) -> int:
        return advice.row(column, int((codes == level).argmax()))

    with_commas = words[words.str.fullmatch(NUMBER_WITH_COMMA)]
    if not with_commas.empty:
        return Reading("fault", words=(
            f"has {with_commas.iloc[0]!r} in row {place(int(with_commas.index[0]))}: write numbers with a decimal point and "
            "without commas"
        ))  # fmt: skip
    if words.str.fullmatch(DATE).all():
        return Reading("fault", words=_dates(column, advice))
    cells = int(counts[words.index].sum())
    if cells <= counts.sum() / 2 or not categories:
        more = f" (and {cells - 1} more such cell{'s' * (cells > 2)})" if cells > 1 else ""
        return Reading("fault", words=(
            f"has {short(words.iloc[0])} in row {place(int(words.index[0]))}{more}, which is not a number; correct the cell, "
            "or leave it empty if the value is missing"
        ))  # fmt: skip
    return _levels(column, advice, False)


def text_codes(column: pd.Series) -> tuple[np.ndarray, pd.Series]:
    """The distinct words of a column without blanks around them, in order of appearance, and the place of each cell's word
    among them, (n,); −1 where it is missing."""
    cells = column.astype(object)
    cells = cells.where(cells.isna(), cells.map(lambda value: str(value).strip()))
    codes, words = pd.factorize(cells, use_na_sentinel=True)
    return codes, pd.Series(np.asarray(words, dtype=object), dtype=object).astype(str)


def read_amounts(text: pd.Series) -> tuple[np.ndarray | None, str]:
    """The numbers in cells such as "$1,200" or "12 %", and the sign; None unless all cells have the same sign."""
    found = [AMOUNT.fullmatch(word) for word in text]
    signs = {(match[2] or match[4]) if match and not (match[2] and match[4]) else "" for match in found}
    if len(signs) != 1 or "" in signs or any(not match[3] or (match[1] and match[3][0] in "+-") for match in found if match):  # fmt: skip
        return None, ""
    numbers = [float((match[1] + match[3]).replace(",", "")) for match in found if match]
    return np.array(numbers), signs.pop()


def _spread(values: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """The values of cells from those of their words; NaN where a cell is missing."""
    return np.append(values, np.nan)[codes]


def to_floats(column: pd.Series) -> np.ndarray:
    """Numbers as floats, NaN where missing. Integers of more than 308 digits become infinite, which is an error later."""
    try:
        return column.to_numpy(dtype=float, na_value=np.nan)
    except OverflowError:
        return np.array([_float(value) for value in column])


def _float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return np.inf if value > 0 else -np.inf


def short(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:39] + "…")


def some(items: list[str]) -> str:
    return ", ".join(items[:4]) + ", …" * (len(items) > 4)


def _dates(column: pd.Series, advice: Advice) -> str:
    first = column.dropna()
    return (
        f"contains dates or times ({first.iloc[0] if len(first) else 'none'}); {advice.to('date', column.name)}, which makes days, months, "
        f"weekdays and seasons of dates, turn times into numbers, or {advice.to('drop', column.name)}"
    )


def _words(column: pd.Series) -> Reading:
    levels = labels_of(column)[1]
    return Reading("fault", words=f"contains words ({some([short(level) for level in levels])}), not numbers")


def _levels(column: pd.Series, advice: Advice, forced: bool) -> Reading:
    levels = labels_of(column)[1]
    rows = int(column.notna().sum())
    if not forced and len(levels) > min(MOST_LEVELS, max(2, rows // 3)):
        return Reading("fault", words=(
            f"contains free text: {len(levels)} different values in {rows} rows, such as {short(levels[0])}; "
            f"{advice.to('drop', column.name)}, or, if it is a category, {advice.to('force', column.name)}, or "
            f"{advice.to('lump', column.name)}"
        ))  # fmt: skip
    return Reading("levels", labels=levels)


def labels_of(column: pd.Series) -> tuple[np.ndarray, list[str]]:
    """The level of each cell, (n,), −1 where it is missing, and the levels that occur: in the order of the categories if the
    column is a pandas Categorical, by size if they are numbers, and otherwise in alphabetical order."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        names = [_label(value) for value in column.cat.categories]
        codes = column.cat.codes.to_numpy().astype(np.int64)
    elif pd.api.types.is_numeric_dtype(column.dtype):
        codes, values = pd.factorize(column.to_numpy(dtype=float, na_value=np.nan), sort=True)
        names = [_label(value) for value in values]
        if pd.api.types.is_bool_dtype(column.dtype):
            names = [str(bool(value)) for value in values]
    else:
        codes, text = text_codes(column)
        names = text.tolist()
        order = np.argsort(np.array(names, dtype=object), kind="stable")
        names, codes = [names[i] for i in order], _renumbered(codes, order)
    used = sorted(set(codes[codes >= 0].tolist()))
    distinct = list(dict.fromkeys(names[i] for i in used))
    place = {name: i for i, name in enumerate(distinct)}
    table = np.full(len(names) + 1, -1)
    for i in used:
        table[i] = place[names[i]]
    return table[codes], distinct


def _renumbered(codes: np.ndarray, order: np.ndarray) -> np.ndarray:
    rank = np.empty(len(order) + 1, np.int64)
    rank[order] = np.arange(len(order))
    rank[-1] = -1
    return rank[codes]


def _label(value: Any) -> str:
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        return str(int(value))
    return str(value).strip()
