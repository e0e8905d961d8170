"""From the columns of a table to columns of numbers, for files and for frames alike.

Columns with few distinct words, pandas Categoricals and columns that are said to be categories become one variable each, of
several columns (``categories.py``). Dates, free text and cells that are not numbers are errors, whose messages name the
column and row and say what to do (``kinds.py``). Missing cells become NaN.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from whichvars.data.categories import (
    Categories,
    Levels,
    make_levels,
    read_categories,
    remarks_on_codes,
    remarks_on_labels,
    seems_a_code,
)
from whichvars.data.expanding import DateParts, Expansion, Learnt, dates_in, learn, read_expansions
from whichvars.data.files import Table
from whichvars.data.frames import check_unique, find_columns, read_names
from whichvars.data.gaps import refuse_gaps
from whichvars.data.kinds import FILE, FRAME, Advice, classify, is_date, is_text, some
from whichvars.data.records import Record
from whichvars.data.tables import as_pandas, is_table
from whichvars.errors import ArgumentTypeError, DataError


@dataclass(frozen=True)
class Encoding:
    """The conversion of the columns of a table to columns of X, kept so that new rows can be converted in the same way."""

    columns: list[str]  # of the table, in order
    levels: dict[str, list[str]] = field(default_factory=dict)  # of categories, the reference level first
    codings: dict[str, str] = field(
        default_factory=dict
    )  # "scores" or "differences", of categories that have them
    # of dates and of columns with a curved effect
    expansions: dict[str, Learnt] = field(default_factory=dict)

    def category(self, name: str) -> Levels:
        return Levels(self.levels[name], self.codings.get(name, "levels"))

    def columns_of(self, name: str) -> list[str]:
        """The columns of X that stand for a column of the table."""
        if name in self.expansions:
            return [c for columns in self.expansions[name].variables(name).values() for c in columns]
        return self.category(name).columns(name) if name in self.levels else [name]

    @property
    def groups(self) -> dict[str, list[str]]:
        """The variables that are not a column of the same name: categories, and parts of dates and curves; with their columns of X."""
        parts = {
            variable: columns
            for name, learnt in self.expansions.items()
            for variable, columns in learnt.variables(name).items()
            if columns != [variable]
        }
        return {name: self.columns_of(name) for name in self.levels} | parts

    @property
    def parents(self) -> dict[str, list[str]]:
        """Variables that can be in the model only together with others."""
        return {c: p for name, learnt in self.expansions.items() for c, p in learnt.parents(name).items()}

    @property
    def references(self) -> dict[str, str]:
        """The categories whose levels are compared with one of them, and this reference level."""
        found = {
            name: labels[0] for name, labels in self.levels.items() if self.codings.get(name) != "scores"
        }
        for name, learnt in self.expansions.items():
            found |= learnt.references(name)
        return found

    @property
    def dates(self) -> list[str]:
        """The columns of dates."""
        return [name for name, learnt in self.expansions.items() if isinstance(learnt, DateParts)]

    def apply(self, table: Table) -> pd.DataFrame:
        """The columns of X for the rows of a new file; other columns are ignored."""
        present = [name for name in self.columns if name in table.frame.columns]
        refuse_gaps(table.frame[present], FILE, "remove such rows from the file")
        return self.encode(table.frame, FILE, table.decimal_comma).reset_index(drop=True)

    def apply_to_new(self, X: Any) -> Any:
        """The columns of X for new rows in Python: a frame, or an array with the columns of the table or of X."""
        if not is_table(X):
            array = np.asarray(X)
            if array.ndim != 2 or array.shape[1] != len(self.columns) or array.dtype.kind in "biuf":
                return X
            X = pd.DataFrame(array, columns=self.columns).infer_objects()
        else:
            names, made = {str(name) for name in X.columns}, set(self.columns_in_X)
            new = bool(made.difference(self.columns))
            if new and names.issuperset(made) and not names.intersection(set(self.columns) - made):
                return X  # it has been converted already
        frame, labels = numbered(X)
        return self.encode(frame, FRAME).set_axis(labels)

    @property
    def columns_in_X(self) -> list[str]:
        return [column for name in self.columns for column in self.columns_of(name)]

    def encode(self, frame: pd.DataFrame, advice: Advice, decimal_comma: bool = False) -> pd.DataFrame:
        """The columns of X, with NaN where cells are missing."""
        lacking = [name for name in self.columns if name not in frame.columns]
        if lacking:
            rest = f" and {len(lacking) - 3} more" if len(lacking) > 3 else ""
            what = "the file" if advice is FILE else "X"
            raise DataError(
                f"{what} lacks the column{'s' * (len(lacking) > 1)} {', '.join(map(repr, lacking[:3]))}{rest}"
            )
        numeric = [name for name in self.columns if name not in self.levels and name not in self.dates]
        faults: list[str] = []
        numbers = convert(frame[numeric], faults, advice, decimal_comma, set())[0]
        refuse(faults)
        return self.assemble(frame, numbers, advice)

    def assemble(self, frame: pd.DataFrame, numbers: pd.DataFrame, advice: Advice) -> pd.DataFrame:
        """Columns of numbers, and those of categories, in the order of the table."""
        if not self.levels and not self.expansions:
            return numbers[self.columns]
        dates, parts = self.dates, dict[str, pd.DataFrame]()
        for name in [*self.levels, *self.expansions]:
            if name in self.levels:
                values = self.category(name).values(frame[name], advice)
            else:
                values = self.expansions[name].values(frame[name] if name in dates else numbers[name], advice)
            parts[name] = pd.DataFrame(values, columns=self.columns_of(name), index=frame.index)
        # by place, all at once: one column after another takes as long as all of them, again and again
        place = {name: [j] for j, name in enumerate(numbers.columns)}
        end = len(numbers.columns)
        for name, columns in parts.items():
            place[name] = list(range(end, end + columns.shape[1]))
            end += columns.shape[1]
        order = [j for name in self.columns for j in place[name]]
        return pd.concat([numbers, *parts.values()], axis=1).iloc[:, order]


class Encoded(NamedTuple):
    """A table whose columns are numbers, with the conversion that made them. ``Problem`` takes it in place of X."""

    X: pd.DataFrame
    encoding: Encoding
    notes: list[str]  # what was done
    remarks: list[str]  # what may be a mistake
    constant: list[str]  # categories of one level, which are left out
    record: Record | None = None  # of the file that it was read from

    def columns_of(self, wanted: Any, what: str) -> Any:
        """The columns of X that stand for columns of the table, given by name or index."""
        if wanted is None:
            return None
        names = self.encoding.columns
        every = [
            *names,
            *self.constant,
            *(c for c in self.encoding.columns_in_X if c not in names),
        ]
        found = [every[i] for i in find_columns(wanted, every, what) if every[i] not in self.constant]
        expanded = [
            column
            for name in found
            for column in (self.encoding.columns_of(name) if name in names else [name])
        ]
        return list(dict.fromkeys(expanded))

    def groups_with(self, groups: Any, always: list[str] | None) -> Any:
        """The groups of columns of X: those given, of columns of the table, and each category that is in none of them and not
        `always` included."""
        encoding = self.encoding
        if groups is None or isinstance(groups, Mapping):
            given: dict[str, list[str]] = {
                str(name): self.columns_of(members, f"groups[{name!r}]")
                for name, members in (groups or {}).items()
            }
            inside = {column for members in given.values() for column in members}.union(always or [])
            return given | {
                name: columns for name, columns in encoding.groups.items() if not inside.intersection(columns)
            }
        if isinstance(groups, str) or not hasattr(groups, "__iter__"):
            raise ArgumentTypeError(
                f"groups must be a mapping from names to columns, or a list with one label per column, not {groups!r}"
            )
        labels = [str(label) for label in groups]
        if len(labels) != len(encoding.columns):
            raise DataError(
                f"groups has {len(labels)} labels but X has {len(encoding.columns)} columns; give one label per column"
            )
        return [label for label, name in zip(labels, encoding.columns) for _ in encoding.columns_of(name)]

    def heredity_with(self, heredity: Any, groups: Any) -> Any:
        """The parents of variables: those given, and those of curves that are variables of their own."""
        own = {child: parents for child, parents in self.encoding.parents.items() if child in groups}
        if not own:
            return heredity
        return own | dict(heredity) if isinstance(heredity, Mapping) else heredity or own


def encode_frame(X: Any, names: Any, categories: Any, expand: Any = None) -> Encoded | None:
    """A frame of any library whose columns are numbers; None if X is no frame, or has neither words, categories nor columns to expand."""
    options, wanted = read_categories(categories), read_expansions(expand)
    if isinstance(X, Encoded):
        return X
    if not is_table(X):
        for what, named in (("categories", options.all_names), ("expand", [e.column for e in wanted])):
            if named:
                raise DataError(
                    f"{what}: X has no named columns, so that {named[0]!r} cannot be one of them; give a frame"
                )
        return None
    frame, labels = numbered(X)
    if names is not None:
        frame = frame.set_axis(read_names(names, frame.shape[1], "X"), axis=1)
    if (
        not wanted
        and not options.all_names
        and not any(is_text(frame.iloc[:, i]) for i in range(frame.shape[1]))
    ):
        return None
    check_unique(list(frame.columns), "column names of X" if names is None else "names")
    faults: list[str] = []
    encoded = encode_columns(frame, options, faults, FRAME, expand=wanted)
    refuse(faults)
    return encoded._replace(X=encoded.X.set_axis(labels))


def without_commas(table: Table) -> pd.DataFrame:
    """The frame of a file, with numbers where it has decimal commas, which frames in Python do not have."""
    frame = table.frame
    if not table.decimal_comma:
        return frame
    readings = {name: classify(frame[name], True, True) for name in frame.columns if is_text(frame[name])}
    return frame.assign(**{name: r.values for name, r in readings.items() if r.kind == "comma"})


def numbered(X: Any) -> tuple[pd.DataFrame, pd.Index]:
    """A frame of any library as one of pandas with text for names, whose index counts the rows; and its own index."""
    frame = as_pandas(X)
    labels = frame.index
    frame = frame.set_axis(pd.RangeIndex(len(frame)))
    return frame.set_axis([str(name) for name in frame.columns], axis=1), labels


def remarks_on_numbers(X: Any) -> list[str]:
    """Remarks on the columns of a frame without words that seem to be codes."""
    if isinstance(X, Encoded) or not is_table(X):
        return []
    likely = [name for name in X.columns if seems_a_code(name)]
    frame = as_pandas(X[likely]) if likely else pd.DataFrame()
    return [remark for name in frame.columns for remark in remarks_on_codes(frame[name], False, FRAME)]


def encode_columns(
    frame: pd.DataFrame,
    options: Categories,
    faults: list[str],
    advice: Advice,
    decimal_comma: bool = False,
    expand: Sequence[Expansion] = (),
) -> Encoded:
    """Find out what each column contains and convert it; what cannot be used is appended to `faults`."""
    names = list(frame.columns)
    find_columns(options.all_names, names, "categories" if advice is FRAME else "--category")
    forced = set(options.all_names)
    for wanted in expand:
        find_columns([wanted.column], names, "expand" if advice is FRAME else f"--{wanted.kind}")
        if wanted.column in forced:
            raise DataError(
                f"column {wanted.column!r} is said to be a category and a {wanted.kind}; choose one"
            )
    plain = frame.drop(columns=dates_in(expand))
    numbers, readings, notes, remarks = convert(plain, faults, advice, decimal_comma, forced, True)
    learnt: dict[str, Learnt] = {}
    for wanted in expand:
        name = wanted.column
        if wanted.kind == "spline" and name not in numbers.columns:
            if name in readings:
                faults.append(
                    f"column {name!r} contains words, and a spline needs numbers; leave out the spline"
                )
            continue
        result, fault = learn(wanted, frame[name] if wanted.kind == "date" else numbers[name], advice)
        if result is None:
            faults.append(f"column {name!r} {fault}")
        else:
            learnt[name] = result
            notes.append(result.about(name))
    found: dict[str, Levels] = {}
    for name, reading in readings.items():
        levels, fault = make_levels(frame[name], reading, options, advice)
        if levels is None:
            faults.append(f"column {name!r} {fault}")
        else:
            found[name] = levels
    constant = [name for name, levels in found.items() if len(levels.labels) == 1]
    notes += [f"Column {name!r} contains only one word and is left out." for name in constant]
    for name in constant:
        del found[name]
    kept = [name for name in names if name in numbers.columns or name in found or name in learnt]
    encoding = Encoding(
        kept,
        {name: levels.labels for name, levels in found.items()},
        {name: levels.coding for name, levels in found.items() if levels.coding != "levels"},
        learnt,
    )
    for name, levels in found.items():
        notes.append(_about(name, levels))
        remarks += remarks_on_labels(name, levels.labels)
    X = encoding.assemble(frame, numbers, advice) if not faults else numbers
    check_unique(list(X.columns), "names of columns and levels")
    return Encoded(X, encoding, notes, remarks, constant)


def _about(name: str, levels: Levels) -> str:
    labels = levels.labels
    start = f"Column {name!r} is a category with {len(labels)} levels ({some(labels)})"
    if levels.coding == "scores":
        return f"{start}; they count as 0, 1, 2, … in this order."
    if levels.coding == "differences":
        return f"{start}; they enter together, each compared with the one before."
    return f"{start}; they enter together, compared with {labels[0]!r}."


def convert(
    frame: pd.DataFrame,
    faults: list[str],
    advice: Advice,
    decimal_comma: bool,
    forced: set[str],
    categories: bool = False,
) -> tuple[pd.DataFrame, dict[str, Any], list[str], list[str]]:
    """The columns of numbers, what the categories contain, notes and remarks."""
    commas: list[str] = []
    notes: list[str] = []
    remarks: list[str] = []
    types = list(frame.dtypes)
    plain = np.array([isinstance(d, np.dtype) and d.kind in "biuf" for d in types], bool)
    read: dict[str, np.ndarray | pd.Series] = {}
    levels: dict[str, Any] = {}
    for i, name in enumerate(frame.columns):
        if plain[i] and name not in forced:
            continue
        column = frame.iloc[:, i]
        text = is_text(column)
        if advice is FRAME and not text and name not in forced and not is_date(column):
            read[name] = column  # anything else is for the reader of numbers
            remarks += remarks_on_codes(column, False, advice) if categories else []
            continue
        reading = classify(column, decimal_comma, categories, advice, name in forced)
        if reading.kind == "fault":
            faults.append(f"column {name!r} {reading.words}")
        elif reading.kind == "levels":
            levels[name] = reading
        else:
            assert reading.values is not None
            read[name] = reading.values
            commas += [name] * (reading.kind == "comma")
            if reading.kind == "amount":
                notes.append(f"Column {name!r} is read as numbers in {reading.words}.")
            if categories and reading.kind == "number":
                remarks += remarks_on_codes(column, text, advice)
    if categories:
        for i in np.flatnonzero(plain).tolist():
            name = frame.columns[i]
            if name not in forced and seems_a_code(name):
                remarks += remarks_on_codes(frame.iloc[:, i], False, advice)
    if commas:
        notes.insert(0, f"Commas are read as decimal commas in column {some(commas)}.")
    usual = [i for i in np.flatnonzero(plain).tolist() if frame.columns[i] not in forced]
    if len(usual) == frame.shape[1]:
        return frame, levels, notes, remarks
    together = {frame.columns[i] for i in usual} | set(read)
    kept = [name for name in frame.columns if name in together]
    converted = pd.concat([frame.iloc[:, usual], pd.DataFrame(read, index=frame.index)], axis=1)
    return converted[kept], levels, notes, remarks


def refuse(faults: list[str]) -> None:
    """DataError for all columns that cannot be used."""
    if len(faults) == 1:
        raise DataError(faults[0])
    if faults:
        shown = "".join(f"\n- {fault}" for fault in faults[:10])
        raise DataError(f"{len(faults)} columns cannot be used:{shown}" + "\n- …" * (len(faults) > 10))
