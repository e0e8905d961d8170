"""Single models by name, with their log marginal likelihoods and log prior probabilities."""

from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from whichvars._kernels.averaging import average_models, new_averaging
from whichvars._kernels.enumerate import evaluate_models
from whichvars._kernels.likelihood import LOG_MARGINAL, SAMPLING_ERROR
from whichvars._kernels.linalg import factor_arrays
from whichvars._kernels.products.gram_cache import new_gram_cache
from whichvars.data.frames import find_columns
from whichvars.errors import DataError
from whichvars.problem.correlated_prior import CorrelatedNormal, log_correlated_marginals
from whichvars.problem.dilution import Dilution, log_dilutions, sums_of_terms
from whichvars.problem.families import Gaussian
from whichvars.problem.fitting import answers, widest
from whichvars.problem.for_kernels import ForKernels
from whichvars.problem.moment_factors import log_moment_factors
from whichvars.problem.moment_priors import MomentPrior

if TYPE_CHECKING:
    from whichvars.data.encoding import Encoding
    from whichvars.problem.heredity import ConditionalPrior
    from whichvars.problem.model_priors import ModelPrior
    from whichvars.problem.priors import Slab
    from whichvars.problem.problem import Problem


# size of the cache for products of columns
CACHE_BYTES = 64 << 20
# what it costs to ask Python what one model is worth, and each of many, in nanoseconds, roughly
WORTH_COST, WORTH_COST_OF_MANY = 2e5, 4e4


def find_model(problem: "Problem", variables: Any, what: str = "variables") -> tuple[int, ...]:
    """The indices of the variables of a model, sorted. Always-included columns may be named too, as they are in every model."""
    wanted = [variables] if isinstance(variables, (str, int, np.integer)) else variables
    if isinstance(wanted, (list, tuple, set, frozenset)) or hasattr(wanted, "__iter__"):
        wanted = list(wanted)
        owner = dict(zip(problem.columns_used, np.repeat(problem.names, np.diff(problem.offsets)).tolist()))
        for name in [name for name in wanted if isinstance(name, str) and name not in problem.names]:
            if name in problem.excluded:
                raise DataError(
                    f"{what}: {name!r} is in no model; it was left out because it is {problem.excluded[name]}"
                )
            if name in owner:
                raise DataError(
                    f"{what}: {name!r} is a column of the group {owner[name]!r}, which is in the model as a whole or not at all; "
                    f"name the group"
                )
        always = set(problem.always_names) - set(problem.names)
        wanted = [name for name in wanted if not (isinstance(name, str) and name in always)]
    return tuple(find_columns(wanted, problem.names, what))


def log_priors_of(problem: "Problem", members: np.ndarray, start: np.ndarray) -> np.ndarray:
    """log p(γ) of each model, including the constant, (models,); −∞ if the model is too large or lacks a parent. The variables
    of all models are one after the other in `members`, and `start` says where each begins, (models + 1,)."""
    prior, terms = problem.model_prior, problem.target(0).prior
    sizes = np.diff(start)
    constant = prior.log_constant(problem.p, problem.max_size)
    extra = log_dilutions_of(problem, members, start)
    prior = prior.base if isinstance(prior, Dilution) else prior
    value = sums_of_terms(prior, terms.log_odds, terms.log_size, members, start)
    return np.where(sizes <= terms.max_size, value + constant + extra, -np.inf)


def log_dilutions_of(problem: "Problem", members: np.ndarray, start: np.ndarray) -> np.ndarray | float:
    """What the correlations of the columns of each model add to its log prior, (models,); 0 if they add nothing."""
    prior = problem.model_prior
    if not isinstance(prior, Dilution):
        return 0.0
    return log_dilutions(problem.formula(0).design, problem.offsets, members, start, prior.power)


def log_worths_of(problem: "Problem", members: np.ndarray, start: np.ndarray) -> np.ndarray:
    """What kernels are told that models are worth, beside the prior that they know, if the problem is `corrected`, (models,)."""
    extra = log_dilutions_of(problem, members, start)
    return log_marginals_of(problem, members, start) + extra


def log_marginals_of(problem: "Problem", members: np.ndarray, start: np.ndarray) -> np.ndarray:
    """log p(y | γ) − log p(y | null model) of each model, (models,); −∞ if the slab needs full rank and the model does
    not have it. Models are given as for ``log_priors_of``."""
    if isinstance(problem.slab, CorrelatedNormal):
        return log_correlated_marginals(
            problem.formula(0), problem.offsets, members, start, problem.slab, problem._y_scale
        )
    if not isinstance(problem.family, Gaussian):
        return answers(problem, members, start)[0][:, LOG_MARGINAL]
    if problem.unknown_g:
        return averages_over_g(problem, members, start)[0]
    out = log_formulas_of(problem, members, start)
    if isinstance(problem.slab, MomentPrior):
        out += log_moment_factors(problem.formula(0), problem.offsets, members, start, problem.slab)
    return out


def log_formulas_of(problem: "Problem", members: np.ndarray, start: np.ndarray) -> np.ndarray:
    """What the formula of the kernels says of each model, (models,)."""
    most = int(np.diff(start).max(initial=0))
    up_to = np.concatenate([[0], np.cumsum(np.diff(problem.offsets)[members])])[start]
    depth = min(int(np.diff(up_to).max(initial=0)), problem.max_columns)
    target = problem.formula(depth)
    out = np.zeros(len(start) - 1)
    evaluate_models(
        target,
        new_gram_cache(target.design, CACHE_BYTES),
        np.require(members, np.int32, ["C", "W"]),
        np.require(start, np.int64, ["C", "W"]),
        *factor_arrays(depth + 1),
        np.zeros(depth + 1, np.int64),
        np.zeros(most + 1, np.int32),
        np.zeros(most + 1, np.int64),
        np.zeros((2, most + 1)),
        out,
    )
    return out


def averages_over_g(
    problem: "Problem", members: np.ndarray, start: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Where g of the independent slab is unknown: the log marginal likelihood of each model, (models,), and the posterior probabilities of
    the values of g in it, (models, values)."""
    target = problem._target
    values = len(target.slab.grid)
    out, logs = np.zeros(len(start) - 1), np.zeros((len(start) - 1, values))
    average_models(
        target,
        new_gram_cache(target.design, CACHE_BYTES),
        new_averaging(max(widest(problem, members, start), 1), values),
        np.require(members, np.int32, ["C", "W"]),
        np.require(start, np.int64, ["C", "W"]),
        out,
        logs,
    )
    # no posterior where rounding forbids a factor
    shares = np.where(np.isfinite(out)[:, None], np.exp(logs - out[:, None]), 1 / values)
    return out, shares / shares.sum(axis=1, keepdims=True)


def log_marginal_error(problem: "Problem", model: tuple[int, ...]) -> float:
    """Standard error of the log marginal likelihood of one model, if it was computed by importance sampling; otherwise 0."""
    if isinstance(problem.family, Gaussian):
        return 0.0
    members, start = np.array(model, np.int32), np.array([0, len(model)], np.int64)
    return float(answers(problem, members, start)[0][0, SAMPLING_ERROR])


class NamedModels(ForKernels):
    """The methods of a ``Problem`` about single models; it has the attributes named here."""

    names: list[str]
    always_names: list[str]
    columns_used: list[str]
    excluded: dict[str, str]
    max_size: int
    model_prior: "ModelPrior | ConditionalPrior"
    slab: "Slab"
    encoding: "Encoding | None"
    engine: Literal["gram", "columns"]

    def log_marginal(self, variables: Any = ()) -> float:
        r"""Log marginal likelihood of one model, :math:`\log p(y \mid \gamma) - \log p(y \mid \text{null model})`.

        The null model has the intercept and the always-included columns alone, so its own value is 0. The difference between two
        models is the log of their Bayes factor. No run is needed, and the model need not have been visited in one.

        Parameters
        ----------
        variables : names or indices
            The variables in the model; a group of columns is one variable. Always-included columns are in the model in any case and may
            be named or not.

        Returns
        -------
        float
            Exact if the response is Gaussian; for the other families as accurate as `evidence` of the ``Problem`` makes it. It is −∞ for a
            model with collinear columns, or with too many columns for the number of rows, if the slab needs full rank.

        Examples
        --------
        >>> import whichvars as wv
        >>> data = wv.datasets.load_uscrime()
        >>> problem = wv.Problem(data.X, data.y, slab=wv.GPrior(47))
        >>> round(problem.log_marginal(["Ed", "Ineq"]), 4), problem.log_marginal([])
        (-1.2722, 0.0)
        """
        model = find_model(cast("Problem", self), variables)
        members, start = np.array(model, np.int32), np.array([0, len(model)], np.int64)
        return float(log_marginals_of(cast("Problem", self), members, start)[0])

    def log_prior(self, variables: Any = ()) -> float:
        r"""Log prior probability of one model, :math:`\log p(\gamma)`.

        Parameters
        ----------
        variables : names or indices
            The variables in the model, as for ``log_marginal``.

        Returns
        -------
        float
            −∞ if the model has more than `max_size` variables or lacks a parent under heredity.

        Examples
        --------
        >>> import numpy as np, whichvars as wv
        >>> data = wv.datasets.load_uscrime()
        >>> problem = wv.Problem(data.X, data.y, model_prior=wv.FixedInclusion(h=0.5))
        >>> float(np.exp(problem.log_prior(["Ed", "Ineq"])) * 2**15).__round__(9)
        1.0
        """
        model = find_model(cast("Problem", self), variables)
        members, start = np.array(model, np.int32), np.array([0, len(model)], np.int64)
        return float(log_priors_of(cast("Problem", self), members, start)[0])

    # --- what it is

    @property
    def reference_levels(self) -> dict[str, str]:
        return {} if self.encoding is None else self.encoding.references

    def __repr__(self) -> str:
        always = f", {len(self.always_names)} always included" if self.always_names else ""
        start = f"Problem({len(self.names)} variable{'s' * (len(self.names) != 1)}{always}, {self.n} rows; "
        if isinstance(self.family, Gaussian):
            return f"{start}{self.slab}, {self.model_prior}, {'Gram' if self.engine == 'gram' else 'column'} engine)"
        how = "" if self.evidence == "auto" else f", evidence={self.evidence!r}"
        return f"{start}{self.family}, {self.slab}, {self.model_prior}{how})"
