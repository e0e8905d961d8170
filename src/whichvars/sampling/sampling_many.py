"""``sample_many()``: many responses on the same columns, one posterior each, of which only a summary is kept."""

import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from os import cpu_count
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from whichvars.data.frames import check_share, check_unique, read_columns
from whichvars.errors import DataError
from whichvars.posterior.posterior import Posterior
from whichvars.problem.genetics import default_region_prior, default_slab
from whichvars.problem.many_responses import ManyResponses
from whichvars.problem.model_priors import ModelPrior
from whichvars.problem.priors import Slab
from whichvars.problem.problem import Problem
from whichvars.sampling.choosing import choose
from whichvars.sampling.sample import sample

# inclusion probabilities that are kept
LEAST = 0.01
# draws of each replicate, until they are enough
DRAWS = (5_000, 20_000, 80_000, 320_000)


@dataclass(frozen=True)
class ManyPosteriors:
    """What ``sample_many`` found, as three tables.

    Attributes
    ----------
    summary : DataFrame, one row for each response
        `mean_size`, the expected number of variables; `sets`, the number of credible sets that reach the level; `lead`, the most probable
        variable, with `pip`; `largest_mcse`, the largest Monte Carlo error of an inclusion probability; `converged`; `cpu_seconds`.
    sets : DataFrame, one row for each member of each credible set
        `response`, and the columns of ``Posterior.credible_sets(long=True)``.
    variables : DataFrame, one row for each response and variable with an inclusion probability of at least 0.01
        `response`, `variable`, `pip`, `mcse`, and the `mean` and `sd` of the coefficient averaged over models.
    """

    summary: pd.DataFrame
    sets: pd.DataFrame
    variables: pd.DataFrame

    def __repr__(self) -> str:
        found = int((self.summary["sets"] > 0).sum())
        return f"ManyPosteriors({len(self.summary):,} responses, {found:,} with a credible set)"

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
            own = self.variables[self.variables["response"] == name]
            columns[which] = own.set_index("variable")["pip"]
        table = pd.DataFrame(columns).dropna()
        table["both"] = table["first"] * table["second"]
        return table.sort_values("both", ascending=False, kind="stable")


class _Summary(NamedTuple):
    row: dict[str, Any]
    sets: pd.DataFrame
    variables: pd.DataFrame


def sample_many(
    X: Any,
    Y: Any,
    *,
    covariates: Any = None,
    slab: Slab | None = None,
    model_prior: ModelPrior | None = None,
    max_size: int | None = None,
    names: Sequence[str] | None = None,
    level: float = 0.95,
    target_mcse: float = 0.02,
    draws: int | None = None,
    replicates: int = 4,
    threads: int | None = None,
    seed: int = 0,
) -> ManyPosteriors:
    """One posterior for each of many responses on the same columns, such as the expression of genes on the variants near them.

    The matrix of products XᵀX is computed once and shared, if it has at most 512 MB (8,192 columns). Of each posterior only a summary is
    kept, so that memory does not grow with the number of responses but for the tables. Each response has the random numbers of
    ``sample(…, draws=…, seed=seed)``: the same results as alone, whatever the number of threads.

    Parameters
    ----------
    X : array, DataFrame, Genotypes, …
        As in ``Problem``, without statistics.
    Y : array, DataFrame or mapping from names to columns, shape (n, r)
        The responses: Gaussian, and without missing values.
    covariates : array or DataFrame, shape (n, q)
        Columns that are in every model.
    slab, model_prior
        Priors. The defaults are those of ``from_summary``: ``IndependentNormal(0.01)`` and ``BetaBinomial(size=1)``.
    max_size, names
        As in ``Problem``.
    level : float
        Level of credible sets.
    target_mcse : float
        Largest Monte Carlo error of an inclusion probability. If 5,000 draws are not enough for it, or do not converge, the response is
        sampled again with four times as many, up to 320,000. Responses of few columns are enumerated.
    draws : int
        That many draws of each replicate instead.
    replicates, seed
        As in ``sample``, for each response.
    threads : int
        Responses that are sampled at the same time. The default is one for each core.

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
    """
    check_share(level, "level")
    if threads is not None and not (isinstance(threads, (int, np.integer)) and threads >= 1):
        raise DataError(f"threads must be a whole number of at least 1, not {threads!r}")
    table = read_columns(pd.DataFrame(Y) if isinstance(Y, dict) else Y, "Y")
    responses = table.names if table.has_names else [f"y{i}" for i in range(len(table.names))]
    check_unique(responses, "names of responses")
    if not responses:
        raise DataError("Y has no columns; there is nothing to explain")
    beside = None
    settings: dict[str, Any] = {"slab": default_slab() if slab is None else slab, "max_size": max_size}
    if covariates is not None:
        beside = read_columns(covariates, "covariates").values
    many = ManyResponses(X, table.values[:, 0], beside, names=names, model_prior=model_prior, **settings)
    if model_prior is None:
        many.use_prior(default_region_prior)

    def one(i: int) -> _Summary:
        try:
            problem = many.problem(table.values[:, i], responses[i])
        except DataError as error:
            raise DataError(f"response {responses[i]!r}: {error}") from error
        return _summary(_accurate(problem, draws, target_mcse, replicates, seed), responses[i], level)

    with warnings.catch_warnings():
        # every row says whether it has converged
        warnings.simplefilter("ignore")
        found = list(_in_turn(one, len(responses), threads or cpu_count() or 1))
    return ManyPosteriors(
        pd.DataFrame([item.row for item in found]).set_index("response"),
        pd.concat([item.sets for item in found], ignore_index=True),
        pd.concat([item.variables for item in found], ignore_index=True),
    )


def _accurate(problem: Problem, draws: int | None, target: float, replicates: int, seed: int) -> Posterior:
    """A posterior that is accurate enough, by as few draws as seem necessary."""
    settings: dict[str, Any] = {"replicates": replicates, "threads": 1, "seed": seed, "progress": False}
    if draws is not None:
        return sample(problem, draws=draws, **settings)
    if choose(problem, None, None).sampler is None:
        return sample(problem, **settings)
    for count in DRAWS:
        posterior = sample(problem, draws=count, **settings)
        if posterior.converged and np.nanmax(posterior.mcse, initial=0.0) <= target:
            break
    return posterior


def _in_turn(one: Any, count: int, threads: int) -> Iterator[_Summary]:
    """The results in order; the first is made alone, so that kernels are compiled once."""
    yield one(0)
    with ThreadPoolExecutor(threads) as pool:
        yield from pool.map(one, range(1, count))


def _summary(posterior: Posterior, name: str, level: float) -> _Summary:
    sets = posterior.credible_sets(level=level, long=True)
    reached = sets.loc[sets["reached"], "set"].nunique()
    best = int(np.argmax(posterior.pip))
    row = {
        "response": name, "mean_size": posterior.mean_size, "sets": int(reached), "lead": posterior.problem.names[best],
        "pip": float(posterior.pip[best]), "largest_mcse": float(np.nanmax(posterior.mcse, initial=0.0)), "converged": posterior.converged,
        "cpu_seconds": posterior.cpu_seconds,
    }  # fmt: skip
    table = posterior.summary().reset_index()
    table = table.loc[table["pip"] >= LEAST, ["variable", "pip", "mcse", "mean", "sd"]]
    sets.insert(0, "response", name)
    table.insert(0, "response", name)
    return _Summary(row, sets, table)
