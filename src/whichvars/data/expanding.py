"""Columns of a table that become several variables on request: dates, and numbers with a curved effect.

``date`` and ``spline`` say what is wanted. ``DateParts`` and ``NaturalSpline`` are what was learnt from the data, such as knots, so that
new rows are converted in the same way.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from whichvars.data.kinds import Advice, is_date, short, text_codes, to_floats
from whichvars.errors import ArgumentTypeError, DataError

MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
WEEKDAYS = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
YEAR = 365.2425  # days
# months that the dates must have if a yearly cycle is to be told from a trend
FEWEST_MONTHS = 4
# notations of dates besides ISO 8601; those of a pair differ in which of the first two numbers is the day
NOTATIONS = (
    ("%d.%m.%Y",),
    ("%d/%m/%Y", "%m/%d/%Y"),
    ("%d-%m-%Y", "%m-%d-%Y"),
    ("%Y/%m/%d",),
    ("%Y%m%d",),
    ("%d-%b-%Y",),
    ("%d-%b-%y",),
    ("%d %b %Y",),
)
# quantiles of the outermost knots of a spline
OUTER = 0.05, 0.95
LEAST_DF, MOST_DF = 2, 20


@dataclass(frozen=True)
class Expansion:
    """A column that becomes several variables, as users ask for it."""

    column: str
    kind: Literal["date", "spline"]
    df: int = 0  # of a spline


def date(column: str) -> Expansion:
    r"""A column of dates, which becomes up to four variables; for the argument `expand` of ``Problem`` and the estimators.

    With d the days since the first date of the data, the variables of a column ``when`` are

    - ``when days``: d, a linear trend;
    - ``when month`` and ``when weekday``: categories with one 0/1 column for each month or day except the first that occurs;
    - ``when season``: :math:`\cos(2\pi t/365.2425)` and :math:`\sin(2\pi t/365.2425)`, where t counts days since 1 January 1970: a smooth
      yearly cycle. It is made if there are dates in at least four months of the year.

    Dates are of a date type, or text such as 2024-05-31, 31.5.2024 or 5/31/2024, all in one notation.

    Parameters
    ----------
    column : str

    Examples
    --------
    >>> import numpy as np, pandas as pd, whichvars as wv
    >>> rng = np.random.default_rng(0)
    >>> table = pd.DataFrame({"when": pd.date_range("2024-01-01", periods=200, freq="3D"), "x": rng.normal(size=200)})
    >>> y = (table["when"].dt.day_of_week == 6) + 0.3 * rng.normal(size=200)
    >>> problem = wv.Problem(table, y, expand=[wv.date("when")])
    >>> problem.names
    ['when days', 'when month', 'when weekday', 'when season', 'x']
    >>> wv.exact(problem).select()
    ['when weekday']
    """
    return Expansion(_name(column, "date"), "date")


def spline(column: str, df: int = 4) -> Expansion:
    r"""A column with an effect that may be curved; for the argument `expand` of ``Problem`` and the estimators.

    The effect is a natural cubic spline: cubic polynomials between df + 1 knots at quantiles of the data, from 5 % to 95 %, and straight lines
    outside. It is divided into two variables: the column itself, ``age``, whose effect is a straight line, and ``age curve``, a
    group of df − 1 columns that are orthogonal to it and to the intercept, of variance 1. The curve can be in the model only together
    with the straight line, so that the probability of ``age curve`` says how likely the effect is to be curved.

    Parameters
    ----------
    column : str
    df : int
        Degrees of freedom, from 2 to 20: the number of columns, the straight line included.

    Examples
    --------
    >>> import numpy as np, pandas as pd, whichvars as wv
    >>> rng = np.random.default_rng(0)
    >>> table = pd.DataFrame(rng.normal(size=(200, 2)), columns=["age", "dose"])
    >>> y = table["age"] ** 2 + table["dose"] + rng.normal(size=200)
    >>> problem = wv.Problem(table, y, expand=[wv.spline("age"), wv.spline("dose", df=3)])
    >>> problem.names, problem.columns_used
    (['age', 'age curve', 'dose', 'dose curve'], ['age', 'age curve 1', 'age curve 2', 'age curve 3', 'dose', 'dose curve 1', 'dose curve 2'])
    >>> sorted(wv.exact(problem).select())
    ['age', 'age curve', 'dose']

    In a formula it is written without quotation marks: ``"y ~ spline(age, df=4) + dose"``.
    """
    whole = isinstance(df, (int, np.integer)) and not isinstance(df, bool)
    if not (whole and LEAST_DF <= df <= MOST_DF):
        raise DataError(
            f"spline({column!r}): df must be a whole number from {LEAST_DF} to {MOST_DF}, not {df!r}"
        )
    return Expansion(_name(column, "spline"), "spline", int(df))


def _name(column: object, what: str) -> str:
    if not isinstance(column, str):
        raise ArgumentTypeError(f"{what} takes the name of a column, not {column!r}")
    return column


def read_expansions(expand: Any) -> tuple[Expansion, ...]:
    """What users give as `expand`: nothing, one expansion or several."""
    given: tuple[Any, ...] = (expand,)
    if expand is None or (isinstance(expand, Iterable) and not isinstance(expand, str)):
        given = tuple(expand or ())
    if not all(isinstance(e, Expansion) for e in given):
        raise ArgumentTypeError(
            f'expand takes columns such as [wv.spline("age"), wv.date("when")], not {expand!r}'
        )
    names = [e.column for e in given]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise DataError(f"expand: column {twice[0]!r} is named twice")
    return given


# --- dates


def read_dates(column: pd.Series, advice: Advice) -> tuple[np.ndarray | None, str]:
    """Dates as days since 1 January 1970, (n,), NaN where missing; or None with what is wrong."""
    if pd.api.types.is_timedelta64_dtype(column.dtype):
        return (
            None,
            "contains durations, not dates; divide them by pd.Timedelta('1D') to have numbers of days",
        )
    if is_date(column):
        return _days(pd.DatetimeIndex(column)), ""
    whole = pd.api.types.is_numeric_dtype(column.dtype)
    if whole:
        # such as 20240531
        column = column.astype(object).map(lambda v: str(int(v)) if pd.notna(v) and v == v // 1 else v)
    codes, text = text_codes(column)
    found = [(f, _parsed(text, f)) for f in ("ISO8601",) if not whole] + [
        (f, _parsed(text, f)) for pair in NOTATIONS for f in pair
    ]
    whole_columns = {f: dates for f, dates in found if dates.notna().all()}
    for pair in NOTATIONS:
        both = [whole_columns[f] for f in pair if f in whole_columns]
        if len(both) == 2 and not both[0].equals(both[1]):
            row = advice.row(column, int((codes == int((both[0] != both[1]).to_numpy().argmax())).argmax()))
            cell = text[int((both[0] != both[1]).to_numpy().argmax())]
            return None, (
                f"has {cell!r} in row {row}, of which it cannot be told whether the day or the month comes first; write dates as 2024-05-31"
            )
    if whole_columns:
        days = _days(pd.DatetimeIndex(next(iter(whole_columns.values()))))
        return np.append(days, np.nan)[codes], ""
    best = max((dates for _, dates in found), key=lambda dates: int(dates.notna().sum()))
    wrong = int(best.isna().to_numpy().argmax())
    row = advice.row(column, int((codes == wrong).argmax()))
    count = int(np.isin(codes, np.flatnonzero(best.isna())).sum())
    more = f" (and {count - 1} more such cell{'s' * (count > 2)})" if count > 1 else ""
    return None, (
        f"has {short(text[wrong])} in row {row}{more}, which is not a date; write dates as 2024-05-31, all in one notation, and leave "
        "the cell empty if the date is missing"
    )


def _parsed(text: pd.Series, notation: str) -> pd.Series:
    """Text as dates, NaT where the notation is another one."""
    return pd.to_datetime(text, format=notation, errors="coerce", utc=True)


def _days(dates: pd.DatetimeIndex) -> np.ndarray:
    plain = dates.tz_convert("UTC").tz_localize(None) if dates.tz is not None else dates
    days = (plain - pd.Timestamp("1970-01-01")) / pd.Timedelta("1D")
    return np.asarray(days, dtype=float)


def to_dates(days: np.ndarray) -> pd.Series:
    """Days since 1 January 1970 as dates."""
    return pd.Series(pd.Timestamp("1970-01-01") + pd.to_timedelta(days, unit="D"))


@dataclass(frozen=True)
class DateParts:
    """What was learnt of a column of dates."""

    first: float  # days since 1 January 1970
    last: float
    months: list[int]  # that occur, from 1
    weekdays: list[int]  # that occur, 0 is Monday

    def variables(self, name: str) -> dict[str, list[str]]:
        """The variables, and their columns."""
        out = {f"{name} days": [f"{name} days"]}
        for what, labels in self._labels().items():
            if len(labels) > 1:
                out[f"{name} {what}"] = [f"{name} {what}={label}" for label in labels[1:]]
        if len(self.months) >= FEWEST_MONTHS:
            out[f"{name} season"] = [f"{name} season cos", f"{name} season sin"]
        return out

    def parents(self, name: str) -> dict[str, list[str]]:
        """Variables that need others."""
        return {}

    def references(self, name: str) -> dict[str, str]:
        """The levels with which others are compared."""
        return {f"{name} {what}": labels[0] for what, labels in self._labels().items() if len(labels) > 1}

    def _labels(self) -> dict[str, list[str]]:
        return {
            "month": [MONTHS[i - 1] for i in self.months],
            "weekday": [WEEKDAYS[i] for i in self.weekdays],
        }

    def values(self, cells: pd.Series, advice: Advice) -> np.ndarray:
        """The columns of some cells, (n, columns); NaN where a cell is missing."""
        days, fault = read_dates(cells, advice)
        if days is None:
            raise DataError(f"column {str(cells.name)!r} {fault}")
        known = ~np.isnan(days)
        dates = pd.DatetimeIndex(to_dates(np.where(known, days, 0.0)))
        columns = [days - self.first]
        for what, codes, levels, labels in (
            ("month", dates.month.to_numpy(), self.months, MONTHS),
            ("weekday", dates.day_of_week.to_numpy(), self.weekdays, WEEKDAYS),
        ):
            new = np.flatnonzero(known & ~np.isin(codes, levels))
            if new.size and len(levels) > 1:
                label = labels[codes[new[0]] - (what == "month")]
                raise DataError(
                    f"column {str(cells.name)!r} has the {what} {label} in row {advice.row(cells, int(new[0]))}, which the data of the run did not have"
                )
            columns += [(codes == level).astype(float) for level in levels[1:]]
        if len(self.months) >= FEWEST_MONTHS:
            angle = 2 * np.pi * days / YEAR
            columns += [np.cos(angle), np.sin(angle)]
        out = np.column_stack(columns)
        out[~known] = np.nan
        return out

    def about(self, name: str) -> str:
        """What is said of the column."""
        ends = [to_dates(np.array([d]))[0].date().isoformat() for d in (self.first, self.last)]
        made = ", ".join(repr(v) for v in self.variables(name))
        return f"Column {name!r} has dates from {ends[0]} to {ends[1]}, which become {made}."


def learn_dates(column: pd.Series, advice: Advice) -> tuple[DateParts | None, str]:
    """What is to be learnt of a column of dates; or None with what is wrong."""
    days, fault = read_dates(column, advice)
    if days is None:
        return None, fault
    days = days[~np.isnan(days)]
    if not len(days):
        return None, f"contains no date; {advice.to('drop', column.name)}"
    dates = pd.DatetimeIndex(to_dates(days))
    months, weekdays = (sorted(set(v.tolist())) for v in (dates.month, dates.day_of_week))
    return DateParts(float(days.min()), float(days.max()), months, weekdays), ""


# --- splines


@dataclass(frozen=True)
class NaturalSpline:
    """A natural cubic spline whose columns are orthogonal to the intercept and the column itself.

    With z = (x − centre)/unit and knots ξ₁ < … < ξ_K, the basis is 1, z and, for k = 1, …, K − 2, d_k(z) − d_{K−1}(z) with
    d_k(z) = ((z − ξ_k)₊³ − (z − ξ_K)₊³)/(ξ_K − ξ_k) (Hastie, Tibshirani and Friedman, The Elements of Statistical Learning, section
    5.2.1). `mixing` turns it into the columns.
    """

    centre: float
    unit: float
    knots: list[float]  # of z
    mixing: list[list[float]]  # K rows, K − 2 columns
    low: float  # ends of the data
    high: float

    def variables(self, name: str) -> dict[str, list[str]]:
        """The variables, and their columns."""
        return {
            name: [name],
            curve_of(name): [f"{curve_of(name)} {k + 1}" for k in range(len(self.knots) - 2)],
        }

    def parents(self, name: str) -> dict[str, list[str]]:
        """Variables that need others."""
        return {curve_of(name): [name]}

    def references(self, name: str) -> dict[str, str]:
        """There are none."""
        return {}

    def values(self, cells: pd.Series, advice: Advice | None = None) -> np.ndarray:
        """The columns of some cells, which are numbers, (n, columns)."""
        x = to_floats(cells)
        with threadpool_limits(limits=1, user_api="blas"):
            curve = natural_basis((x - self.centre) / self.unit, np.array(self.knots)) @ np.array(self.mixing)
        return np.column_stack([x, curve])

    def about(self, name: str) -> str:
        """What is said of the column."""
        return f"Column {name!r} may have a curved effect: {curve_of(name)!r}, with {len(self.knots)} knots, only together with {name!r}."


def curve_of(name: str) -> str:
    """The name of the variable that is the curved part of an effect."""
    return f"{name} curve"


def natural_basis(z: np.ndarray, knots: np.ndarray) -> np.ndarray:
    """The basis of natural cubic splines, (n, knots): 1, z and the rest."""
    last = knots[-1]

    def d(k: int) -> np.ndarray:
        cubes = np.maximum(z - knots[k], 0) ** 3 - np.maximum(z - last, 0) ** 3
        return np.asarray(cubes / (last - knots[k]))

    end = d(len(knots) - 2)
    out = np.column_stack([np.ones(len(z)), z, *(d(k) - end for k in range(len(knots) - 2))])
    out[np.isnan(z)] = np.nan
    return out


def learn_spline(column: pd.Series, df: int) -> tuple[NaturalSpline | None, str]:
    """The spline of a column of numbers; or None with what is wrong."""
    x = to_floats(column)
    x = x[np.isfinite(x)]
    knots = np.quantile(x, np.linspace(*OUTER, df + 1)) if len(x) else np.zeros(0)
    if len(np.unique(knots)) < df + 1:
        distinct = len(np.unique(x))
        what = (
            f"only {distinct} different value{'s' * (distinct != 1)}"
            if distinct <= 2 * df
            else "too many equal values"
        )
        return (
            None,
            f"has {what} for a spline with {df} degrees of freedom; choose a smaller df, or a category",
        )
    centre, unit = float(x.mean()), float(x.std())
    knots = (knots - centre) / unit
    with threadpool_limits(limits=1, user_api="blas"):
        basis = natural_basis((x - centre) / unit, knots)
        straight, curved = basis[:, :2], basis[:, 2:]
        line = np.linalg.lstsq(straight, curved)[0]
        _, R = np.linalg.qr(curved - straight @ line)
        size = np.abs(np.diagonal(R))
        if size.min() <= 1e-10 * np.abs(curved).max() * np.sqrt(len(x)):
            return None, "has too few different values between its knots for a spline; choose a smaller df"
        scaled = np.linalg.inv(R) * np.sign(np.diagonal(R)) * np.sqrt(len(x) - 1)
        mixing = np.vstack([-line @ scaled, scaled])
    return NaturalSpline(centre, unit, knots.tolist(), mixing.tolist(), float(x.min()), float(x.max())), ""


Learnt = DateParts | NaturalSpline


def learn(wanted: Expansion, column: pd.Series, advice: Advice) -> tuple[Learnt | None, str]:
    """What is learnt of a column of dates, or of numbers; or None with what is wrong."""
    return learn_dates(column, advice) if wanted.kind == "date" else learn_spline(column, wanted.df)


def dates_in(expand: Sequence[Expansion]) -> list[str]:
    """The columns of dates."""
    return [e.column for e in expand if e.kind == "date"]
