"""``sample_many()``: many responses on the same columns, one posterior each, of which only a summary is kept."""

import os
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from os import cpu_count
from typing import Any

import numpy as np
import pandas as pd

from whichvars.data.frames import check_share, check_unique, read_columns
from whichvars.data.rows import check_same_rows
from whichvars.errors import ArgumentTypeError, DataError, DataWarning, WhichvarsError
from whichvars.problem.arguments import listed
from whichvars.problem.families import Gaussian
from whichvars.problem.genetics import default_region_prior, default_slab
from whichvars.problem.model_priors import ModelPrior
from whichvars.problem.prior_width import FAR
from whichvars.problem.priors import Slab
from whichvars.problem.reading import missing_code
from whichvars.sampling.executors import DaskExecutor
from whichvars.sampling.many_checkpoint import ManyCheckpoint
from whichvars.sampling.many_cluster import fit_on_cluster
from whichvars.sampling.many_fits import Fit, Fits, Work, fit_in_threads, without_warnings
from whichvars.sampling.progress import CountedProgress, Report
from whichvars.sampling.sample import executor_of


@dataclass(frozen=True)
class ManyPosteriors:
    """What ``sample_many`` found, as three tables.

    Attributes
    ----------
    summary : DataFrame, one row for each response
        `rows`, the number of rows in which the response is observed; `variables`, the number of variables that are not constant in these rows;
        `mean_size`, the expected number of variables in the model; `sets`, the number of credible sets that are `reached`; `lead`, the most
        probable variable, with `pip`; `largest_mcse`, the largest Monte Carlo error of an inclusion probability; `converged`; `cpu_seconds`;
        `not_fitted`, the reason why there is no posterior, empty if there is one.
    sets : DataFrame, one row for each member of each credible set
        `response`, and the columns of ``Posterior.credible_sets(long=True)``; also `signal` if that was given.
    variables : DataFrame, one row for each response and variable with an inclusion probability of at least 0.01
        `response`, `variable`, `pip`, `mcse`, and the `mean` and `sd` of the coefficient averaged over models.
    """

    summary: pd.DataFrame
    sets: pd.DataFrame
    variables: pd.DataFrame

    def __repr__(self) -> str:
        found, failed = int((self.summary["sets"] > 0).sum()), int((self.summary["not_fitted"] != "").sum())
        rest = f", {failed:,} not fitted" if failed else ""
        number = f"{len(self.summary):,} response{'s' * (len(self.summary) != 1)}"
        return f"ManyPosteriors({number}, {found:,} with a credible set{rest})"

    def colocalisation(self, first: str, second: str) -> pd.DataFrame:
        r"""Is the same variable in for two responses?

        The two posteriors are independent, as is the prior: a variable is in for both with probability :math:`P_1(j) P_2(j)`, the CLPP of
        eCAVIAR. The sum is the expected number of shared variables. Responses that are likely to share variables a priori share more than this
        says; noise that the responses have in common, as those of the same people do, is not taken into account.

        Parameters
        ----------
        first, second : str
            Two responses.

        Returns
        -------
        DataFrame, one row for each variable with an inclusion probability of at least 0.01 for both, the most probable first
            `first` and `second`, its inclusion probabilities; `both`, their product.

        Examples
        --------
        >>> import numpy as np, whichvars as wv
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(300, 5))
        >>> Y = {"a": 0.5 * X[:, 1] + rng.normal(size=300), "b": -0.4 * X[:, 1] + rng.normal(size=300)}
        >>> many = wv.sample_many(X, Y)
        >>> many.colocalisation("a", "b").round(2).loc[["x1"]]
                  first  second  both
        variable
        x1          1.0     1.0   1.0
        """
        columns = {}
        for which, name in (("first", first), ("second", second)):
            if name not in self.summary.index:
                raise DataError(f"{which}: there is no response {name!r}")
            reason = self.summary.loc[name, "not_fitted"]
            if reason:
                raise DataError(f"{which}: there is no posterior of {name!r}, because {reason}")
            own = self.variables[self.variables["response"] == name]
            columns[which] = own.set_index("variable")["pip"]
        table = pd.DataFrame(columns).dropna()
        table["both"] = table["first"] * table["second"]
        return table.sort_values("both", ascending=False, kind="stable")


def sample_many(
    X: Any,
    Y: Any,
    *,
    covariates: Any = None,
    slab: Slab | None = None,
    model_prior: ModelPrior | Callable[[int], ModelPrior] | None = None,
    max_size: int | None = None,
    names: Sequence[str] | None = None,
    level: float = 0.95,
    signal: float | None = None,
    target_mcse: float = 0.02,
    draws: int | None = None,
    replicates: int = 4,
    threads: int | None = None,
    seed: int = 0,
    progress: bool | Callable[[Report], None] = True,
    checkpoint: str | os.PathLike[str] | None = None,
    executor: DaskExecutor | None = None,
) -> ManyPosteriors:
    """One posterior for each of many responses on the same columns, such as the expression of genes on the variants near them.

    The matrix of products XᵀX is computed once and shared, if it has at most 512 MB (8,192 columns). Of each posterior only a summary is
    kept, so that memory does not grow with the number of responses but for the tables. Each response has the random numbers of
    ``sample(…, draws=…, seed=seed)``: the same results as alone, whatever the number of threads.

    A response is fitted to the rows in which it is observed. Responses that are observed in the same rows share XᵀX; there are at most as
    many such matrices at a time as threads. A response that cannot be fitted does not stop the others: `not_fitted` says why, for instance
    because it is constant, or because too few rows are observed. If none can be fitted, this is an error.

    Parameters
    ----------
    X : array, DataFrame, Genotypes, …
        As in ``Problem``, without statistics.
    Y : array, DataFrame or mapping from names to columns, shape (n, r)
        The responses, which are Gaussian. Missing values (NaN, None) are allowed; X and the covariates must be complete.
    covariates : array or DataFrame, shape (n, q)
        Columns that are in every model.
    slab, model_prior
        Priors. The defaults are those of ``from_summary``: ``IndependentNormal(0.01)``, wider for responses with a large effect,
        and ``BetaBinomial(size=1)``. `model_prior` may also be a function that returns a prior for p variables: p differs between responses
        if columns are constant in the rows of one.
    max_size, names
        As in ``Problem``.
    level, signal
        Which credible sets are meant, as in ``Posterior.credible_sets``.
    target_mcse : float
        Largest Monte Carlo error of an inclusion probability. If 2,500 draws are not enough for it, or do not converge, the response is
        sampled again with four times as many, up to 320,000. Responses of few columns are enumerated.
    draws : int
        That many draws of each replicate instead.
    replicates, seed
        As in ``sample``, for each response.
    threads : int
        Responses that are sampled at the same time. The default is one for each core.
    progress : bool or callable
        Show a progress bar in a terminal or notebook, or call a function with a ``Report`` after each response.
    checkpoint : path
        Directory in which what was found of each response is kept as soon as it is done. If a run is killed, the same call with the same directory
        continues it: responses that are done are read, and the tables are those of a run that was not interrupted. A directory that
        belongs to other data, other settings or another version of whichvars is refused.
    executor : DaskExecutor
        Fit the responses on the workers of a cluster, ``executor=DaskExecutor("tcp://ADDRESS:8786")``. X and Y are sent to each worker once,
        and workers compute XᵀX themselves. The results are the same.

    Returns
    -------
    ManyPosteriors

    Examples
    --------
    >>> import numpy as np, whichvars as wv
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 6))
    >>> Y = np.column_stack([0.6 * X[:, 2], np.zeros(200), 0.5 * X[:, 4]]) + rng.normal(size=(200, 3))
    >>> many = wv.sample_many(X, Y)
    >>> many
    ManyPosteriors(3 responses, 2 with a credible set)
    >>> many.summary["lead"].tolist()[::2]
    ['x2', 'x4']

    The first response is not observed in 20 rows:

    >>> Y[:20, 0] = np.nan
    >>> wv.sample_many(X, Y).summary["rows"].tolist()
    [180, 200, 200]
    """
    check_share(level, "level")
    if signal is not None:
        check_share(signal, "signal")
    if threads is not None and not (isinstance(threads, (int, np.integer)) and threads >= 1):
        raise DataError(f"threads must be a whole number of at least 1, not {threads!r}")
    executor_of(executor, threads)  # checks them
    if executor is not None and not isinstance(executor, DaskExecutor):
        raise ArgumentTypeError(f"executor must be a DaskExecutor, not {executor!r}")
    Y = pd.DataFrame(Y) if isinstance(Y, dict) else Y
    check_same_rows(None, X, Y=Y, covariates=covariates)
    table = read_columns(Y, "Y", gaps=True)
    responses = table.names if table.has_names else [f"y{i}" for i in range(len(table.names))]
    check_unique(responses, "names of responses")
    if not responses:
        raise DataError("Y has no columns; there is nothing to explain")
    _remark_on(table.values, responses)
    beside = None if covariates is None else read_columns(covariates, "covariates").values
    settings = {"slab": default_slab() if slab is None else slab, "max_size": max_size, "names": names}
    prior = default_region_prior if model_prior is None else model_prior
    work = Work(
        X, beside, table.values, list(responses), settings, prior, slab is None, level, signal, target_mcse, draws, replicates, seed
    )  # fmt: skip
    fits = Fits(work)
    # outside the block in which they are not given, so that warnings about columns are given once
    with suppress(WhichvarsError):
        fits.sharing.prepare(fits.sharing.order[0])
    found: dict[int, Fit] = {}
    with nullcontext() if checkpoint is None else ManyCheckpoint(checkpoint, work) as saver:
        if saver is not None:
            found = saver.read()
        pending = [i for i in fits.sharing.order if i not in found]
        with without_warnings(), CountedProgress(progress, len(responses), "responses", len(found)) as bar:
            each = (
                fit_in_threads(fits, pending, threads or cpu_count() or 1)
                if executor is None
                else fit_on_cluster(executor.cluster, fits, pending)
            )
            for i, fit in each:
                found[i] = fit
                if saver is not None:
                    saver.keep(i, fit)
                bar.update(len(found))
    return _tables([found[i] for i in range(len(responses))])


def _remark_on(Y: np.ndarray, names: list[str]) -> None:
    """Warn of responses for which a linear model is only an approximation."""
    found, coded = list[str](), list[str]()
    for y, name in zip(Y.T, names):
        seen = y[~np.isnan(y)]
        # a constant response cannot be fitted, and there is nothing else to say of it
        if not len(seen) or np.ptp(seen) == 0:
            continue
        if missing_code(seen):
            coded.append(repr(name))
        elif Gaussian().remark(seen) is not None:
            found.append(repr(name))
    if coded:
        warnings.warn(
            f"some responses have values of -9 or another code for missing ones, far from all others: {listed(coded, 5, ', ')}. If these are missing, "
            "write NaN instead",
            DataWarning,
            stacklevel=3,
        )
    if found:
        warnings.warn(
            f"some responses have two values only or are small whole numbers, such as counts: {listed(found, 5, ', ')}. sample_many fits the "
            "linear model to them, so that their inclusion probabilities are approximate; fit other families one by one with "
            "Problem(…, family=…)",
            DataWarning,
            stacklevel=3,
        )


def _tables(found: list[Fit]) -> ManyPosteriors:
    """The tables of all responses; an error if none could be fitted, and a warning if some could not."""
    failed = [item for item in found if item.error is not None]
    if len(failed) == len(found):
        # the reason that counts is that of the response with most rows
        worst = max(failed, key=lambda item: item.row["rows"])
        assert worst.error is not None
        raise type(worst.error)(f"response {worst.row['response']!r}: {worst.error}") from worst.error
    if failed:
        names = listed([repr(item.row["response"]) for item in failed], 5, ", ")
        warnings.warn(
            f"{len(failed):,} of {len(found):,} responses could not be fitted, {names}; the column not_fitted of the summary says why",
            DataWarning,
            stacklevel=3,
        )
    if narrow := [repr(item.row["response"]) for item in found if item.narrow]:
        warnings.warn(
            f"the prior on effects is too narrow for the largest effect on {listed(narrow, 5, ', ')}: it is more than {FAR:g} prior standard "
            "deviations, so that copies of one variable may all seem certain. Leave out slab, or choose a larger g",
            DataWarning,
            stacklevel=3,
        )
    summary = pd.DataFrame([item.row for item in found]).set_index("response")
    return ManyPosteriors(
        summary.astype({"variables": "Int64", "sets": "Int64"}),
        pd.concat([item.sets for item in found if item.sets is not None], ignore_index=True),
        pd.concat([item.variables for item in found if item.variables is not None], ignore_index=True),
    )
