"""``impute``: completed copies of a table with missing values, and new rows completed in the same way."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from whichvars.data.categories import OTHER, Categories, read_categories
from whichvars.data.chained import CATEGORY, COUNT, NUMBER, Chain, Kinds, kind_of
from whichvars.data.encoding import Encoded, Encoding, encode_columns, numbered, refuse
from whichvars.data.expanding import Expansion, read_dates, read_expansions, to_dates
from whichvars.data.frames import not_finite
from whichvars.data.gaps import cost_of_gaps, empty_columns
from whichvars.data.kinds import FRAME, Advice, labels_of, to_floats
from whichvars.data.tables import is_table
from whichvars.errors import DataError

# suffix of the columns that say where a value was missing
INDICATOR = " missing"
# draws of the missing cells of new rows, and sweeps before the first of them
NEW_DRAWS, NEW_WARMUP = 20, 5


class Completed(Sequence[np.ndarray]):
    """Completed tables. The cells that were observed are kept once for all of them."""

    def __init__(self, observed: np.ndarray, gaps: np.ndarray, cells: Iterable[np.ndarray] = ()) -> None:
        """Of a table, (n, columns), whose missing cells are the `gaps`, (n, columns) bool; `cells` has them for each completed table."""
        self.observed, self.gaps, self.cells = observed, gaps, list(cells)

    def append(self, table: np.ndarray) -> None:
        self.cells.append(table[self.gaps])

    def __len__(self) -> int:
        return len(self.cells)

    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, slice):
            return [self[k] for k in range(*i.indices(len(self)))]
        table = self.observed.copy()
        table[self.gaps] = self.cells[i]
        return table


@dataclass(frozen=True, repr=False)
class Imputations:
    """Completed copies of one table, made by ``impute``. Iterate over it to get them as frames."""

    kinds: Kinds
    values: Sequence[np.ndarray]  # the completed tables, (n, columns) each
    y: Any  # (n,): the response of the same rows
    rows: np.ndarray  # (n,): the places of these rows in the table
    gaps: np.ndarray  # (n, columns) bool: the cells that were missing
    notes: tuple[str, ...]
    indicators: list[str] = field(default_factory=list)  # columns that have an indicator beside them

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        rows, columns = self.gaps.shape
        tables, cells = len(self.values), int(self.gaps.sum())
        return (
            f"Imputations({tables:,} table{'s' * (tables != 1)} of {rows:,} rows and {columns:,} column{'s' * (columns != 1)}, "
            f"{cells:,} cell{'s' * (cells != 1)} filled in)"
        )

    def __iter__(self) -> Iterator[pd.DataFrame]:
        return (self.frame(self.values[i], self.gaps) for i in range(len(self)))

    def frame(self, values: np.ndarray, gaps: np.ndarray) -> pd.DataFrame:
        """A completed table as a frame, with its categories as such."""
        columns: dict[str, Any] = {}
        for j, name in enumerate(self.kinds.names):
            column = values[:, j]
            if self.kinds.kinds[j] == CATEGORY:
                levels = self.kinds.levels[name]
                columns[name] = pd.Categorical.from_codes(column.astype(int), levels, ordered=True)
            elif name in self.kinds.dates:
                columns[name] = to_dates(column)
            else:
                columns[name] = column
        for name in self.indicators:
            columns[name + INDICATOR] = gaps[:, self.kinds.names.index(name)].astype(float)
        return pd.DataFrame(columns)

    def complete_new(self, X: Any, which: int, seed: int) -> list[pd.DataFrame]:
        """New rows, completed several times without knowing their responses; models are learnt from one completed table."""
        frame, _ = numbered(X)
        new = self.read(frame, FRAME)
        if not np.isnan(new).any():
            return [self.frame(new, np.zeros(new.shape, bool))]
        old = self.values[which]
        learn = np.arange(len(old) + len(new)) < len(old)
        chain = Chain(
            self.kinds, np.vstack([old, new]), np.zeros((len(learn), 0)), np.random.default_rng([seed, which]), learn
        )  # fmt: skip
        made = []
        with threadpool_limits(limits=1, user_api="blas"):
            for sweep in range(NEW_WARMUP + NEW_DRAWS):
                chain.sweep()
                if sweep >= NEW_WARMUP:
                    made.append(self.frame(chain.values[len(old) :], np.isnan(new)))
        return made

    def read(self, frame: pd.DataFrame, advice: Advice) -> np.ndarray:
        """A table as numbers, (n, columns), with NaN where cells are missing."""
        others = {*self.kinds.levels, *self.kinds.dates}
        numeric = [name for name in self.kinds.names if name not in others]
        numbers = Encoding(numeric).encode(frame, advice)
        lacking = [name for name in self.kinds.names if name not in frame.columns]
        if lacking:
            raise DataError(f"X lacks the column {lacking[0]!r}")
        return read_values(frame, numbers, self.kinds, advice)


def read_values(frame: pd.DataFrame, numbers: pd.DataFrame, kinds: Kinds, advice: Advice) -> np.ndarray:
    """The columns as numbers, (n, columns): categories as the places of their levels, NaN where missing."""
    values = np.empty((len(frame), len(kinds.names)))
    for j, name in enumerate(kinds.names):
        if name in kinds.dates:
            days, fault = read_dates(frame[name], advice)
            if days is None:
                raise DataError(f"column {name!r} {fault}")
            values[:, j] = days
            continue
        if name not in kinds.levels:
            values[:, j] = to_floats(numbers[name])
            bad = np.flatnonzero(np.isinf(values[:, j]))
            if bad.size:
                raise not_finite("X", name, np.inf, advice.row(frame, int(bad[0])), bad.size)
            continue
        place = {label: k for k, label in enumerate(kinds.levels[name])}
        codes, found = labels_of(frame[name])
        at = [place.get(label, place.get(OTHER, -1)) for label in found]
        if -1 in at:
            row = advice.row(frame, int((codes == at.index(-1)).argmax()))
            raise DataError(
                f"column {name!r} has {found[at.index(-1)]!r} in row {row}, which the data did not have before"
            )
        values[:, j] = np.append(np.array(at, float), np.nan)[codes]
    return values


def impute(
    X: Any,
    y: Any,
    m: int = 5,
    seed: int = 0,
    sweeps: int = 10,
    categories: Any = None,
    indicators: bool = False,
    expand: Any = None,
) -> Imputations:
    """Completed copies of a table with missing values, drawn from chained Bayesian models that contain the response.

    Every column with missing cells is regressed on all others and on y, the parameters are drawn once per sweep, and then its
    missing cells. The module ``chained`` has the models. Draws of m independent chains differ as much as the missing cells are unknown, so
    that posteriors of the completed tables, mixed by ``pool``, contain this uncertainty. Without y in these models, estimates of the
    effects of the columns would be too small.

    Missing at random is assumed: given what was observed, whether a cell is missing does not depend on its value.

    Parameters
    ----------
    X : DataFrame (pandas or polars), pyarrow table, dict of columns or array, shape (n, columns)
        Numbers, words and categories as for ``Problem``. NaN and None are missing. Columns without any value are left out.
    y : array, shape (n,)
        The response: numbers, or two values of any type. Rows in which it is missing are left out.
    m : int
        How many completed tables; there is only one if no cell is missing.
    seed : int
        The same seed gives the same tables.
    sweeps : int
        Sweeps of each chain.
    categories : names or Categories
        As for ``Problem``.
    indicators : bool
        Add a 0/1 column ``"NAME missing"`` for every column with missing cells, which may explain y if cells are not missing at random.
    expand : list of date and spline
        As for ``Problem``, which has to be given it too. Only dates matter here: they are imputed as numbers of days.

    Returns
    -------
    Imputations
        Iterating over it gives the completed tables as frames; ``y`` is the response of their rows, ``notes`` says what was
        missing.

    Examples
    --------
    >>> import numpy as np, whichvars as wv
    >>> data = wv.datasets.load_uscrime()
    >>> X = data.X.mask(np.random.default_rng(0).random(data.X.shape) < 0.05)
    >>> imputations = wv.impute(X, data.y, m=3)
    >>> imputations
    Imputations(3 tables of 47 rows and 15 columns, 30 cells filled in)
    >>> next(iter(imputations)).isna().any().any()
    np.False_
    >>> posterior = wv.pool([wv.exact(wv.Problem(Xi, imputations.y)) for Xi in imputations], imputations)
    >>> posterior.select()[:2]
    ['Ineq', 'Ed']
    """
    for name, value in (("m", m), ("sweeps", sweeps)):
        if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < 1:
            raise DataError(f"{name} must be a whole number of at least 1, not {value!r}")
    if not is_table(X):
        array = np.asarray(X)
        if array.ndim != 2:
            raise DataError(f"X must be a table of rows and columns, not of shape {array.shape}")
        X = pd.DataFrame(array, columns=[f"x{i}" for i in range(array.shape[1])]).infer_objects()
    frame, _ = numbered(X)
    response = pd.Series(
        np.asarray(y.to_numpy() if hasattr(y, "to_numpy") else y), name=getattr(y, "name", None)
    )
    if len(response) != len(frame):
        raise DataError(
            f"X has {len(frame)} rows but y has {len(response)}; they must be the same observations"
        )
    chosen = read_categories(categories)
    return impute_frame(
        [frame], response, m, seed, sweeps, chosen, indicators, FRAME, expand=read_expansions(expand)
    )


def impute_frame(
    given: list[pd.DataFrame],
    y: pd.Series,
    m: int,
    seed: int,
    sweeps: int,
    categories: Categories,
    indicators: bool,
    advice: Advice,
    decimal_comma: bool = False,
    expand: Sequence[Expansion] = (),
) -> Imputations:
    """The same for a table whose index counts its rows, the only one of a list, which is taken from it so that its memory can be used again."""
    frame, y = given[0], y.set_axis(given[0].index)
    given.clear()
    lost = y.isna().to_numpy()
    if lost.all():
        raise DataError("the response is missing in every row")
    gaps = frame.isna()
    notes = cost_of_gaps(gaps, lost)
    if lost.any():
        frame, gaps = frame.loc[~lost], gaps[~lost]
    y = y[~lost].infer_objects()
    empty = empty_columns(gaps)
    if len(empty) == frame.shape[1]:
        raise DataError("no column of X has any value; there is nothing to learn from")
    if empty:
        notes.insert(0, f"Left out columns without any value: {', '.join(map(repr, empty))}.")
        frame = frame.drop(columns=empty)
    faults: list[str] = []
    encoded = encode_columns(frame, categories, faults, advice, decimal_comma, expand)
    refuse(faults)
    notes += encoded.notes + encoded.remarks
    encoding = encoded.encoding
    frame = frame[encoding.columns]
    dates = encoding.dates
    kinds = [
        CATEGORY if n in encoding.levels else NUMBER if n in dates else kind_of(to_floats(encoded.X[n]))
        for n in encoding.columns
    ]
    described = Kinds(encoding.columns, kinds, encoding.levels, dates)
    values = read_values(frame, encoded.X, described, advice)
    del encoded, frame  # as large as the table, and no longer needed
    marked = (
        [n for n, holed in zip(encoding.columns, np.isnan(values).any(axis=0)) if holed] if indicators else []
    )
    beside = _as_predictors(y)
    gaps_of_values = np.isnan(values)
    made = Completed(values, gaps_of_values)
    everything = np.ones(len(values), bool)
    holed = bool(gaps_of_values.any())
    with threadpool_limits(limits=1, user_api="blas"):
        for i in range(m if holed else 1):
            chain = Chain(described, values, beside, np.random.default_rng([seed, i]), everything)
            for _ in range(sweeps if holed else 0):
                chain.sweep()
            made.append(chain.values)
            del chain  # before the next one is made, as each has all columns
    if holed:
        cells = int(gaps_of_values.sum())
        times = "once" if m == 1 else f"{m} times"
        notes.append(
            f"1 missing cell is imputed, {times}, assuming that it is missing at random."
            if cells == 1
            else f"{cells:,} missing cells are imputed, {times}, assuming that they are missing at random."
        )
    return Imputations(
        described, made, y.reset_index(drop=True).rename(y.name), np.flatnonzero(~lost), gaps_of_values, tuple(notes), marked
    )  # fmt: skip


def encode_alike(
    tables: Iterable[pd.DataFrame], categories: Categories, expand: Sequence[Expansion]
) -> Iterator[Encoded]:
    """Completed tables as columns of numbers, all by the conversion of the first, so that knots and levels are the same."""
    first: Encoded | None = None
    for table in tables:
        if first is None:
            faults: list[str] = []
            # rare levels have been merged
            first = encode_columns(table, replace(categories, lump=None), faults, FRAME, expand=expand)
            refuse(faults)
            # what there was to remark was remarked of the table with holes
            first = first._replace(remarks=[])
            yield first
            first = first._replace(X=first.X.iloc[:0].copy())  # without the memory of the others
        else:
            X = first.encoding.encode(table, FRAME)
            del table
            yield first._replace(X=X)
            del X


def to_stored(made: Imputations) -> list[Any]:
    """What is kept of imputations in a file: all but the response."""
    values = made.values
    assert isinstance(values, Completed)
    return [
        made.kinds,
        values.observed,
        values.cells,
        made.gaps,
        made.rows,
        list(made.notes),
        made.indicators,
    ]


def from_stored(kept: list[Any]) -> Imputations:
    """Imputations from what ``to_stored`` made of them."""
    kinds, observed, cells, gaps, rows, notes, indicators = kept
    values = Completed(observed, gaps, cells)
    return Imputations(kinds, values, None, rows, gaps, tuple(notes), indicators)


def seed_of_part(seed: int | None, i: int) -> int | None:
    """The seed with which the i-th completed table is sampled: different ones, so that sampling errors are independent; the first is
    that of an ordinary run."""
    if seed is None or i == 0:
        return seed
    return int(np.random.SeedSequence([seed, i]).generate_state(1)[0])


def _as_predictors(y: pd.Series) -> np.ndarray:
    """The response as columns that others are regressed on, (n, 1 or 2): two classes as 0 and 1, counts with their logs beside them."""
    values = list(dict.fromkeys(y.tolist()))
    if len(values) == 2 or not pd.api.types.is_numeric_dtype(y.dtype):
        if len(values) > 2:
            raise DataError(
                f"y contains words of {len(values)} kinds, such as {values[0]!r}; it must be numbers or two classes"
            )
        return (y == max(values, key=str)).to_numpy(dtype=float)[:, None]
    numbers = y.to_numpy(dtype=float)
    if not np.isfinite(numbers).all():
        raise DataError("y is infinite in some rows; leave these rows out")
    both = [numbers, np.log1p(numbers)] if kind_of(numbers) == COUNT else [numbers]
    return np.column_stack(both)
