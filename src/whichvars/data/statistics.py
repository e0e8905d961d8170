"""``SufficientStatistics`` of data with too many rows for memory, read once in portions, also on a Dask cluster."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from whichvars.data import storage
from whichvars.data.frames import read_columns, read_vector
from whichvars.data.moments import CELLS, Accumulator, Moments, add_all, no_rows
from whichvars.data.row_sums import add_rows, check_weights, dask_parts, placed, sum_part, sum_rows
from whichvars.data.rows import check_same_rows
from whichvars.data.streaming import find_sources, read_portions, split_columns
from whichvars.errors import ArgumentTypeError, DataError, MissingPackageError

# `kind` of the file
KIND = "table of sufficient statistics"
# statistics that one task of a cluster adds up
MERGED_AT_ONCE = 8
# smallest eigenvalue that a correlation matrix may have by rounding
LEAST_EIGENVALUE = -1e-10


@dataclass(frozen=True, eq=False, repr=False)
class SufficientStatistics(Moments):
    r"""All that a ``Problem`` needs of its rows: n, Σw, means, and XᵀWX, XᵀWy, yᵀWy about the means.

    Create them with ``from_arrays``, ``from_chunks``, ``from_files``, ``from_dask`` or ``from_correlations``; add those of
    other rows with ``+``; then use ``Problem(statistics, "y")``. Rows are read once and not kept. Memory is of the order of
    p² for any n. The result is as accurate as that of two passes over the rows, even if the mean of a column is 10⁸
    times its standard deviation.

    Attributes
    ----------
    names : list of str
        Columns of X.
    responses : list of str
        One or more responses, which share XᵀX. A ``Problem`` uses one of them.
    n : int
        Rows of positive weight.
    total_weight : float
        Σw; n without weights.

    Examples
    --------
    >>> import numpy as np, whichvars as wv
    >>> rng = np.random.default_rng(0)
    >>> def portions():  # as they would come from a data base
    ...     for _ in range(100):
    ...         X = rng.normal(size=(1000, 4))
    ...         yield X, 0.05 * X[:, 2] + rng.normal(size=1000)
    >>> statistics = wv.SufficientStatistics.from_chunks(portions(), names=["a", "b", "c", "d"])
    >>> statistics
    SufficientStatistics(4 columns, 1 response, 100,000 rows)
    >>> wv.exact(wv.Problem(statistics)).inclusion_probabilities.round(2).to_dict()
    {'a': 0.01, 'b': 0.0, 'c': 1.0, 'd': 0.0}
    """

    # --- constructors

    @classmethod
    def from_arrays(
        cls,
        X: Any,
        y: Any,
        weights: Any = None,
        *,
        names: Sequence[str] | None = None,
        responses: Sequence[str] | None = None,
    ) -> "SufficientStatistics":
        """From arrays or frames, which may be memory-mapped: a few thousand rows are read at a time.

        Parameters
        ----------
        X : array, DataFrame or scipy sparse matrix, shape (n, P)
        y : array, Series or DataFrame, shape (n,) or (n, r)
            One or several responses.
        weights : array, shape (n,)
            Precision weights, as in ``Problem``.
        names, responses : sequence of str
            Names of the columns of X and of y; they replace those of X and y themselves.

        Examples
        --------
        >>> import whichvars as wv
        >>> data = wv.datasets.load_uscrime()
        >>> statistics = wv.SufficientStatistics.from_arrays(data.X, data.y)
        >>> wv.Problem(statistics, slab=wv.GPrior("n"))
        Problem(15 variables, 47 rows; GPrior(g='n'), BetaBinomial(size=5.0), Gram engine)
        """
        check_same_rows(None, X, y=y, weights=weights)
        return _not_empty(sum_rows(cls, X, y, weights, names, responses))

    @classmethod
    def from_chunks(
        cls,
        chunks: Iterable[Any],
        *,
        names: Sequence[str] | None = None,
        responses: Sequence[str] | None = None,
    ) -> "SufficientStatistics":
        """From an iterable, such as a generator, of ``(X, y)`` or ``(X, y, weights)``.

        Parameters
        ----------
        chunks : iterable
            Each item is what ``from_arrays`` takes. All must have the same columns. Their numbers of rows may differ;
            the result does not depend on them, to the last bit.
        names, responses : sequence of str
            As in ``from_arrays``.
        """
        total: Accumulator | None = None
        for i, chunk in enumerate(chunks):
            if not (isinstance(chunk, (tuple, list)) and len(chunk) in (2, 3)):
                raise ArgumentTypeError(f"chunk {i} must be (X, y) or (X, y, weights), not {_kind(chunk)}")
            X, y, *rest = chunk
            with placed(f"chunk {i}"):
                weights = rest[0] if rest else None
                check_same_rows(None, X, part=True, y=y, weights=weights)
                total = add_rows(cls, total, X, y, weights, names, responses)
        if total is None:
            raise DataError("there are no chunks")
        return _not_empty(total.total())

    @classmethod
    def from_files(
        cls,
        paths: Any,
        response: str | Sequence[str],
        *,
        weights: str | None = None,
        drop: str | Sequence[str] = (),
        rows: int | None = None,
    ) -> "SufficientStatistics":
        """From a CSV (also gzipped) or Parquet file, a folder of them, or a list of files and folders.

        All columns must be numeric. Files are read in the order of their names and must have the same columns. In a folder,
        files whose names begin with ``.`` or ``_`` are skipped.

        Parameters
        ----------
        paths : path or list of paths
        response : str or list of str
            Column of the response, or several.
        weights : str
            Column of precision weights.
        drop : names
            Columns to leave out.
        rows : int
            Rows to read at a time. The default is as many as contain about a million numbers.

        Examples
        --------
        >>> import pathlib, tempfile, whichvars as wv
        >>> folder = tempfile.TemporaryDirectory()
        >>> for year in ("2019", "2020"):
        ...     path = pathlib.Path(folder.name) / f"{year}.csv"
        ...     _ = path.write_text("dose,age,outcome\\n1.5,30,2.5\\n2,41,3\\n3,29,3.5\\n")
        >>> wv.SufficientStatistics.from_files(folder.name, "outcome")
        SufficientStatistics(2 columns, 1 response, 6 rows)
        >>> folder.cleanup()
        """
        sources = find_sources(paths)
        names, responses = split_columns(sources[0].columns, response, weights, drop)
        if rows is not None and not (isinstance(rows, (int, np.integer)) and rows >= 1):
            raise DataError(f"rows must be a whole number of at least 1, not {rows!r}")
        wanted = [*names, *responses, *([] if weights is None else [weights])]
        total = Accumulator(no_rows(cls, names, responses, True))
        for portion in read_portions(sources, wanted, rows or max(1, CELLS // len(wanted))):
            columns, precision = portion.columns, None
            if weights is not None:
                columns, precision = columns[:-1], np.asarray(columns[-1], dtype=float)
                with placed(str(portion.path)):
                    check_weights(precision, portion.first_row)
            total.add(columns, precision)
        return _not_empty(total.total())

    @classmethod
    def from_dask(
        cls,
        X: Any,
        y: Any,
        weights: Any = None,
        *,
        names: Sequence[str] | None = None,
        responses: Sequence[str] | None = None,
    ) -> "SufficientStatistics":
        """From a Dask array or data frame. Each part is summed where it is, and only p × p matrices are sent.

        The computation uses Dask's current scheduler (a ``distributed`` client, if there is one). Sums are added in a tree
        of fixed shape. Needs the extra ``dask``.

        Parameters
        ----------
        X : Dask array, shape (n, P), or Dask data frame
        y : Dask array or series; or names of columns, if X is a data frame
        weights : Dask array or series; or the name of a column
        names, responses : sequence of str
            As in ``from_arrays``; not if X is a data frame.

        Examples
        --------
        >>> import dask.array as da, whichvars as wv
        >>> X = da.random.default_rng(0).normal(size=(100_000, 3), chunks=(25_000, 3))
        >>> wv.SufficientStatistics.from_dask(X, X[:, 0] + X[:, 1] ** 2)
        SufficientStatistics(3 columns, 1 response, 100,000 rows)
        """
        try:
            import dask
        except ImportError:
            raise MissingPackageError(
                "from_dask needs the package dask: pip install 'whichvars[dask]'"
            ) from None
        one = dask.delayed(sum_part, pure=False)
        parts = [one(cls, *part, names, responses) for part in dask_parts(X, y, weights)]
        while len(parts) > 1:
            parts = [
                dask.delayed(add_all, pure=False)(parts[i : i + MERGED_AT_ONCE])
                for i in range(0, len(parts), MERGED_AT_ONCE)
            ]
        return _not_empty(dask.compute(parts[0])[0])

    @classmethod
    def from_correlations(
        cls,
        correlations: Any,
        y_correlations: Any,
        n: int,
        *,
        sd: Any = None,
        y_sd: float = 1.0,
        means: Any = None,
        y_mean: float = 0.0,
        names: Sequence[str] | None = None,
        response: str = "y",
    ) -> "SufficientStatistics":
        """From published summaries: correlations, standard deviations and n.

        Parameters
        ----------
        correlations : array or DataFrame, shape (P, P)
            Correlations of the columns of X.
        y_correlations : array or Series, shape (P,)
            Correlations of the columns of X with y.
        n : int
            Number of rows from which all correlations were computed.
        sd, y_sd : array of shape (P,), float
            Standard deviations (ddof 1). The default is 1: coefficients are then in standard deviations.
        means, y_mean : array of shape (P,), float
            The default is 0: predictions are then for centred columns and a centred y.
        names : sequence of str
            Names of the columns of X, if `correlations` is not a frame with names.
        response : str
            Name of y.

        Examples
        --------
        >>> import whichvars as wv
        >>> published = [[1, 0.5, 0.2], [0.5, 1, 0.1], [0.2, 0.1, 1]]
        >>> statistics = wv.SufficientStatistics.from_correlations(
        ...     published, [0.6, 0.35, 0.1], n=80, names=["income", "age", "height"])
        >>> wv.exact(wv.Problem(statistics, slab=wv.GPrior("n"))).inclusion_probabilities.round(2).to_dict()
        {'income': 1.0, 'age': 0.14, 'height': 0.12}
        """
        table, labels, has_names = read_columns(correlations, "correlations", names)
        k = len(labels)
        if table.shape != (k, k) or k == 0:
            raise DataError(f"correlations must be a square table, not of shape {table.shape}")
        _check_row_names(correlations, labels)
        if not (isinstance(n, (int, np.integer)) and not isinstance(n, bool) and n >= 3):
            raise DataError(f"n must be a whole number of at least 3, not {n!r}")
        joint = np.ones((k + 1, k + 1))
        joint[:k, :k] = table
        joint[:k, k] = joint[k, :k] = _vector(y_correlations, labels, "y_correlations")
        _check_correlations(joint, [*labels, response])
        scale = np.append(_vector(1.0 if sd is None else sd, labels, "sd"), _number(y_sd, "y_sd"))
        bad = np.flatnonzero(scale <= 0)
        if bad.size:
            raise DataError(
                f"the standard deviation of {[*labels, response][bad[0]]!r} is {scale[bad[0]]:g}; it must be positive"
            )
        mean = np.append(_vector(0.0 if means is None else means, labels, "means"), _number(y_mean, "y_mean"))
        with np.errstate(all="ignore"):
            scatter = joint * scale * scale[:, None] * (n - 1)
        if not (np.isfinite(scatter).all() and (np.diagonal(scatter) > 1e-290).all()):
            raise DataError("sd: too large or too small to be squared; choose other units")
        return cls(
            labels, [str(response)], int(n), float(n), (1.0, 1.0), mean, np.zeros(k + 1), scatter, has_names
        )

    # --- saving

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the statistics to an .npz file with a checksum and without pickles, which ``numpy.load`` can read.

        Examples
        --------
        >>> import pathlib, tempfile, whichvars as wv
        >>> data = wv.datasets.load_uscrime()
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder) / "crime.npz"
        ...     wv.SufficientStatistics.from_arrays(data.X, data.y).save(path)
        ...     wv.SufficientStatistics.load(path)
        SufficientStatistics(15 columns, 1 response, 47 rows)
        """
        storage.save(path, KIND, self, (SufficientStatistics,))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "SufficientStatistics":
        """Read statistics that ``save`` wrote; they are the same to the last bit."""
        statistics = storage.load(path, KIND, (SufficientStatistics,))
        k, shapes = (
            len(statistics.names) + len(statistics.responses),
            (statistics.origin.shape, statistics.offset.shape),
        )
        if shapes != ((k,), (k,)) or statistics.scatter.shape != (k, k):
            raise DataError(f"{path} cannot be read: its arrays do not fit together; create it again")
        return statistics

    # --- properties

    @property
    def means(self) -> pd.Series:
        """Weighted means of the columns and the responses."""
        return pd.Series(self.mean, index=[*self.names, *self.responses], name="mean")

    @property
    def standard_deviations(self) -> pd.Series:
        """Weighted standard deviations (ddof 1) of the columns and the responses."""
        variance = np.diagonal(self.scatter) / (self.total_weight * (self.n - 1) / self.n)
        return pd.Series(np.sqrt(variance), index=[*self.names, *self.responses], name="sd")

    @property
    def xtx(self) -> np.ndarray:
        """XᵀWX of the centred columns, (P, P)."""
        return self.scatter[: len(self.names), : len(self.names)]

    @property
    def xty(self) -> np.ndarray:
        """XᵀWY of the centred columns and responses, (P, r)."""
        return self.scatter[: len(self.names), len(self.names) :]

    @property
    def yty(self) -> np.ndarray:
        """YᵀWY of the centred responses, (r, r)."""
        return self.scatter[len(self.names) :, len(self.names) :]

    def __repr__(self) -> str:
        columns, responses = len(self.names), len(self.responses)
        return (
            f"SufficientStatistics({columns:,} column{'s' * (columns != 1)}, "
            f"{responses} response{'s' * (responses != 1)}, {self.n:,} rows)"
        )


def _not_empty(statistics: Any) -> SufficientStatistics:
    if statistics.n == 0:
        raise DataError("there are no rows of positive weight")
    return statistics


def _kind(value: Any) -> str:
    return (
        f"a {type(value).__name__} of {len(value)}"
        if isinstance(value, (tuple, list))
        else type(value).__name__
    )


# --- correlations


def _number(value: Any, what: str) -> float:
    return float(read_vector(np.atleast_1d(value), None, what)[0])


def _vector(values: Any, names: list[str], what: str) -> np.ndarray:
    """One number for each column; a Series with the names of the columns may have them in any order."""
    if np.ndim(values) == 0:
        return np.full(len(names), _number(values, what))
    if isinstance(values, pd.Series) and set(map(str, values.index)) == set(names):
        values = values.rename(str)[names]
    vector = read_vector(values, None, what)
    if len(vector) != len(names):
        raise DataError(f"{what} has {len(vector)} numbers but there are {len(names)} columns")
    return vector


def _check_row_names(correlations: Any, names: list[str]) -> None:
    """DataError if a frame has the names of its columns as row labels, but in another order."""
    rows = [str(name) for name in getattr(correlations, "index", [])] if hasattr(correlations, "iloc") else []
    if rows and sorted(rows) == sorted(names) and rows != names:
        raise DataError("correlations: rows and columns have the same names in different orders")


def _check_correlations(joint: np.ndarray, names: list[str]) -> None:
    off = np.argwhere(np.abs(joint - joint.T) > 1e-8)
    if len(off):
        a, b = off[0]
        raise DataError(
            f"correlations are not symmetric: {joint[a, b]:g} of {names[a]!r} with {names[b]!r}, {joint[b, a]:g} the other way"
        )
    wrong = np.flatnonzero(np.abs(np.diagonal(joint) - 1) > 1e-8)
    if wrong.size:
        raise DataError(
            f"the correlation of {names[wrong[0]]!r} with itself is {joint[wrong[0], wrong[0]]:g}, not 1; if these are covariances, "
            "divide them by the standard deviations"
        )
    large = np.argwhere(np.abs(joint) > 1 + 1e-8)
    if len(large):
        a, b = large[0]
        raise DataError(
            f"the correlation of {names[a]!r} with {names[b]!r} is {joint[a, b]:g}; it must lie between -1 and 1"
        )
    least = float(np.linalg.eigvalsh((joint + joint.T) / 2)[0])
    if least < LEAST_EIGENVALUE:
        raise DataError(
            f"the correlations (including those with y) are not positive semi-definite: their smallest eigenvalue is {least:.3g}. No "
            "data can have them; they were rounded, or computed from different rows. Give more digits, or correlations of complete rows"
        )
