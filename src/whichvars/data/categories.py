"""Categories: which columns are categories, and the 0/1 columns, scores or differences that stand for their levels."""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from whichvars.data.kinds import LEADING_ZERO, Advice, Reading, labels_of, short, some, to_floats
from whichvars.errors import ArgumentTypeError, DataError

# the level that rare levels become
OTHER = "(other)"
# money or percentages in any notation
LIKE_AMOUNT = re.compile(r"(?=.*[$€£¥%])\(?[+-]?[$€£¥]?\s*[+-]?[\d.,']*\d\s*[$€£¥%]?\)?")
# names of columns whose numbers are usually codes
CODE_NAMES = re.compile(
    r"(?:^|[\W_])(?:zip(?:code)?|post_?code|postal(?:_?code)?|plz|fips|icd|codes?)(?:$|[\W_\d])",
    re.IGNORECASE,
)
ID_NAMES = re.compile(r"(?:[\W_][iI][dD]|[a-z]I[dD])$")


@dataclass(frozen=True)
class Categories:
    """Which columns of a table are categories, and how their levels become columns.

    A category is one variable. By default it has one 0/1 column for each level except the first, its reference level, so
    that coefficients are differences from the reference level.

    Parameters
    ----------
    names : names of columns
        Columns that are categories whatever they contain: codes such as postcodes, or words with very many levels. Columns
        of words with few levels and pandas Categoricals are categories anyway.
    lump : float
        Levels that fewer than this share of the rows have are merged into one level, "(other)". Levels of new rows that the data
        did not have count as "(other)" too.
    scores : names, or a mapping from names to their levels in order
        Ordered categories that become one column 0, 1, 2, …, which assumes that steps between levels have the same effect.
        Without levels the order is that of a pandas Categorical.
    differences : names, or a mapping from names to their levels in order
        Ordered categories with one column for each level except the first, which is 1 for this level and all above it: its
        coefficient is the difference between a level and the one before.

    Examples
    --------
    >>> import numpy as np, pandas as pd, whichvars as wv
    >>> rng = np.random.default_rng(0)
    >>> table = pd.DataFrame({"size": rng.choice(["S", "M", "L"], 50), "code": rng.integers(1, 4, 50)})
    >>> y = (table["size"] == "L") + rng.normal(size=50)
    >>> choice = wv.Categories(["code"], differences={"size": ["S", "M", "L"]})
    >>> problem = wv.Problem(table, y, categories=choice)
    >>> problem.names, problem.columns_used
    (['size', 'code'], ['size≥M', 'size≥L', 'code=2', 'code=3'])
    """

    names: Iterable[str] = ()
    lump: float | None = None
    scores: Mapping[str, Iterable[str]] | Iterable[str] = field(default_factory=dict)
    differences: Mapping[str, Iterable[str]] | Iterable[str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", _names(self.names, "names"))
        for what in ("scores", "differences"):
            object.__setattr__(self, what, _orders(getattr(self, what), what))
        both = sorted(set(self.orders("scores")) & set(self.orders("differences")))
        if both:
            raise DataError(f"Categories: {both[0]!r} is in both scores and differences; choose one")
        lump = self.lump
        number = isinstance(lump, (int, float, np.number)) and not isinstance(lump, bool)
        if lump is not None and not (number and 0 < lump < 1):
            raise DataError(f"lump must be a share of the rows between 0 and 1, such as 0.01, not {lump!r}")

    def orders(self, what: str) -> dict[str, tuple[str, ...]]:
        """The ordered categories with scores or with differences, with their levels; empty levels are those of the data."""
        return getattr(self, what)

    @property
    def all_names(self) -> list[str]:
        """All columns that are said to be categories."""
        named: tuple[str, ...] = tuple(self.names)
        return list(dict.fromkeys([*named, *self.orders("scores"), *self.orders("differences")]))


def read_categories(categories: Any) -> Categories:
    """``Categories`` from what users may give in their place: names, or nothing."""
    if isinstance(categories, Categories):
        return categories
    return Categories() if categories is None else Categories(_names(categories, "categories"))


def _names(names: Any, what: str) -> tuple[str, ...]:
    if isinstance(names, str):
        names = [names]
    if not isinstance(names, Iterable):
        raise ArgumentTypeError(f"{what} must be names of columns, not {names!r}")
    return tuple(str(name) for name in names)


def _orders(given: Any, what: str) -> dict[str, tuple[str, ...]]:
    if not isinstance(given, Mapping):
        return {name: () for name in _names(given, what)}
    orders = {str(name): tuple(str(level) for level in levels) for name, levels in given.items()}
    for name, levels in orders.items():
        if len(set(levels)) != len(levels):
            raise DataError(f"Categories: {what}[{name!r}] names a level twice")
    return orders


@dataclass(frozen=True)
class Levels:
    """The levels of one category, the reference level first, and how they become columns."""

    labels: list[str]
    coding: str = "levels"  # or "scores" or "differences"

    def columns(self, name: str) -> list[str]:
        """The names of the columns."""
        if self.coding == "scores":
            return [f"{name} score"]
        sign = "≥" if self.coding == "differences" else "="
        return [f"{name}{sign}{label}" for label in self.labels[1:]]

    def values(self, column: pd.Series, advice: Advice) -> np.ndarray:
        """The columns of some cells, (n, columns); NaN where a cell is missing."""
        codes, found = labels_of(column)
        place = {label: i for i, label in enumerate(self.labels)}
        unknown = [i for i, label in enumerate(found) if label not in place]
        if unknown and OTHER not in place:
            row = advice.row(column, int(np.isin(codes, unknown).argmax()))
            label = found[codes[int(np.isin(codes, unknown).argmax())]]
            raise DataError(
                f"column {column.name!r} has {short(label)} in row {row}, which the data of the run did not have; its levels "
                f"are {some(self.labels)}"
            )
        at = np.array([place.get(label, place.get(OTHER, -1)) for label in found] + [-1])[codes]
        if self.coding == "scores":
            out = at[:, None].astype(float)
        elif self.coding == "differences":
            out = (at[:, None] >= np.arange(1, len(self.labels))).astype(float)
        else:
            out = (at[:, None] == np.arange(1, len(self.labels))).astype(float)
        out[at < 0] = np.nan
        return out


def make_levels(
    column: pd.Series, reading: Reading, options: Categories, advice: Advice
) -> tuple[Levels | None, str]:
    """The levels of a category, or None with what is wrong."""
    name, labels = str(column.name), list(reading.labels or [])
    coding = next((what for what in ("scores", "differences") if name in options.orders(what)), "levels")
    if coding != "levels":
        order = options.orders(coding)[name]
        if order:
            unknown = [label for label in labels if label not in order]
            if unknown:
                return (
                    None,
                    f"has the level {short(unknown[0])}, which is not among those given: {some(list(order))}",
                )
            return Levels([label for label in order if label in labels], coding), ""
        if not (isinstance(column.dtype, pd.CategoricalDtype) and column.cat.ordered) and not (
            pd.api.types.is_numeric_dtype(column.dtype)
        ):
            return None, f"has no order; say which, as in {advice.order(coding, name, labels[:3])}"
        return Levels(labels, coding), ""
    if options.lump is not None:
        codes, _ = labels_of(column)
        counts = np.bincount(codes[codes >= 0], minlength=len(labels))
        rare = counts < options.lump * counts.sum()
        if rare.any():
            kept = [label for label, few in zip(labels, rare) if not few]
            if not kept:
                return None, (
                    f"has {len(labels)} levels, all of which are rarer than {options.lump:g} of the rows; choose a smaller share"
                )
            labels = [*kept, OTHER]
    return Levels(labels), ""


def remarks_on_labels(name: str, labels: list[str]) -> list[str]:
    """Labels that differ only in capitals, accents, blanks or punctuation, and may be meant to be the same; and amounts that are not all
    alike."""
    alike = defaultdict(list)
    for label in labels:
        alike[_essence(label)].append(label)
    amounts = [label for label in labels if LIKE_AMOUNT.fullmatch(label)]
    if len(amounts) > len(labels) / 2:
        return [
            f"Column {name!r} has amounts ({some(amounts)}) but is read as a category, as its cells do not all have the same sign and notation; "
            "if they are numbers, write them all alike."
        ]
    pairs = [" and ".join(map(repr, group)) for group in alike.values() if len(group) > 1]
    if not pairs:
        return []
    return [
        f"Column {name!r} has levels that differ only in capitals, accents or punctuation: {some(pairs)}; "
        "if they are the same, write them the same."
    ]


def _essence(label: str) -> str:
    """A label without capitals, accents, blanks and such punctuation as may be forgotten; signs with a meaning, as in A+ or 1.5, stay.

    >>> [_essence(label) for label in ("New-York", "new york.", "Köln", "A+", "1.5", "0-10")]
    ['newyork', 'newyork', 'koln', 'a+', '1.5', '0-10']
    """
    plain = "".join(
        c for c in unicodedata.normalize("NFKD", label) if not unicodedata.combining(c)
    ).casefold()
    plain = re.sub(r"[\s_'’`\"]|(?<!\d)[.,]|[.,](?!\d)|(?<=[^\W\d_])[-–](?=[^\W\d_])", "", plain)
    return plain or label


def seems_a_code(name: object) -> bool:
    """Whether a column has the name of a code, such as a postcode, or of an identifier; zipCode is read as zip_Code."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", str(name))
    return CODE_NAMES.search(words) is not None or ID_NAMES.search(str(name)) is not None


def remarks_on_codes(column: pd.Series, text: bool, advice: Advice) -> list[str]:
    """A remark on numbers that seem to be codes: by the name of their column, or by zeros before them."""
    name = str(column.name)
    zeros = text and column.dropna().astype(str).str.strip().str.fullmatch(LEADING_ZERO).any()
    if not zeros:
        if not seems_a_code(name) or text or not pd.api.types.is_numeric_dtype(column.dtype):
            return []
        values = to_floats(column)
        values = values[np.isfinite(values)]
        if not len(values) or not (values == np.floor(values)).all() or len(np.unique(values)) < 3:
            return []
        # if hardly any value is there twice, an identifier is not that of a category
        if ID_NAMES.search(name) is not None and len(np.unique(values)) > len(values) / 2:
            return []
    why = "has numbers with zeros before them" if zeros else "has whole numbers and the name of a code"
    return [
        f"Column {name!r} {why}; it is read as a quantity. If it is a category, {advice.to('force', name)}."
    ]
