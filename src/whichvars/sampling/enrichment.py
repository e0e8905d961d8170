"""``estimate_enrichment()``: how much annotations change prior inclusion probabilities, estimated by empirical Bayes."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import sparse
from scipy.special import expit, logit, pdtrc

from whichvars.errors import ArgumentTypeError, ConvergenceWarning, DataError
from whichvars.posterior.posterior import Posterior
from whichvars.problem.annotations import Places, annotated_prior, inclusion, read_annotations
from whichvars.problem.heredity import ConditionalPrior
from whichvars.problem.model_priors import FixedInclusion
from whichvars.problem.problem import Problem
from whichvars.sampling.choosing import choose
from whichvars.sampling.sample import sample

# draws of each replicate, if models are not enumerated
DRAWS = 20_000
# the EM algorithm ends if it is this many standard errors away from the maximum
CLOSE = 0.1
# largest prior probability of more than max_size variables
BEYOND = 1e-3


@dataclass(frozen=True)
class Enrichment:
    r"""What ``estimate_enrichment`` found.

    Attributes
    ----------
    table : DataFrame, one row for each annotation
        `coefficient`, the estimate of :math:`\alpha_k`; `se`, its standard error; `odds_ratio`, :math:`e^{\alpha_k}`, the factor by which
        the prior odds of a variable are multiplied if the annotation is larger by 1.
    intercept : float
        The estimate of :math:`\alpha_0`, the log odds of a variable whose annotations are all 0.
    history : DataFrame, one row for each step
        The `intercept` and the coefficients.
    converged : bool
        Whether the maximum was found: a tenth of a standard error away from it, a step of Newton's method replaces the slow last steps of
        the EM algorithm.
    """

    table: pd.DataFrame
    intercept: float
    history: pd.DataFrame
    converged: bool

    def __repr__(self) -> str:
        found = ", ".join(
            f"{name} {row['coefficient']:.2f} ± {row['se']:.2f}" for name, row in self.table.iterrows()
        )
        return f"Enrichment({found}; {'converged' if self.converged else 'not converged'})"

    def prior(self, annotations: Any) -> FixedInclusion:
        """The prior of variables with these annotations: ``annotated_prior`` with the estimates."""
        return annotated_prior(annotations, self.table["coefficient"], intercept=self.intercept)


class _Region(NamedTuple):
    problem: Problem
    design: np.ndarray  # (p, 1 + m): a column of ones, and the annotations


class _Expected(NamedTuple):
    """What the posterior under some coefficients says of them; sums over regions."""

    pips: np.ndarray  # (p of all regions,)
    covariance: (
        np.ndarray
    )  # (1 + m, 1 + m): posterior covariance of the sums of the design over the variables that are in
    accurate: bool


def estimate_enrichment(
    problem: Problem | Sequence[Problem],
    annotations: Any,
    *,
    size: float = 1.0,
    spread: float = 2.0,
    steps: int = 50,
    draws: int | None = None,
    seed: int = 0,
    threads: int | None = None,
) -> Enrichment:
    r"""Estimate by how much annotations change the prior inclusion probabilities of variables.

    The prior is that of ``annotated_prior``, :math:`\log h_j/(1 - h_j) = \alpha_0 + \sum_k a_{jk}\alpha_k`, and replaces the prior
    on models that the problem has. The coefficients maximise the marginal likelihood of the data, times a wide normal density that keeps them finite:

    .. math:: \log \sum_\gamma p(y \mid \gamma)\, p(\gamma \mid \alpha) - \frac{1}{2s^2} \Big((\alpha_0 - c)^2 + \sum_k \alpha_k^2\Big)

    where c is the log odds under which `size` variables of each problem are in, and s is `spread`. The EM algorithm alternates between the
    inclusion probabilities of the data under the present coefficients and a logistic regression of these probabilities on the
    annotations. Standard errors are from the curvature at the maximum, by the formula of Louis (1982), which uses the joint posterior of variables.

    One region with one or two signals says little: give several regions, or one with many signals. The data are used twice if the
    posterior under the estimated prior is from the same data. This matters little if there are many more signals than annotations.

    Parameters
    ----------
    problem : Problem, or sequence of Problem
        One region or several, for which the coefficients are the same.
    annotations : DataFrame or array, shape (p, m), or a sequence of them
        One for each problem, with a row for each variable; labels that are names of variables are used to find the rows. Annotations
        should be 0 and 1, or have a standard deviation of that order.
    size : float
        Number of variables that are expected to be in the model of each problem, where the estimate starts.
    spread : float
        Standard deviation s of the normal density. 2 allows odds ratios of up to about 50.
    steps : int
        Largest number of steps.
    draws : int
        Draws of each replicate in each step. The default is to enumerate all models of small problems, and 20,000.
    seed, threads
        As in ``sample``.

    Returns
    -------
    Enrichment

    References
    ----------
    Louis (1982), Finding the observed information matrix when using the EM algorithm.

    Examples
    --------
    Variables with the annotation are in with probability 0.4, the others with probability 0.05: a log odds ratio of 2.5.

    >>> import numpy as np, whichvars as wv
    >>> rng = np.random.default_rng(0)
    >>> problems, annotations = [], []
    >>> for _ in range(60):
    ...     X, annotated = rng.normal(size=(300, 8)), rng.integers(0, 2, size=8)
    ...     causal = rng.random(8) < np.where(annotated == 1, 0.4, 0.05)
    ...     y = X @ np.where(causal, 0.4, 0.0) + rng.normal(size=300)
    ...     problems.append(wv.Problem(X, y, slab=wv.IndependentNormal(0.1)))
    ...     annotations.append({"open": annotated})
    >>> found = wv.estimate_enrichment(problems, annotations)
    >>> found
    Enrichment(open 2.90 ± 0.36; converged)
    >>> posterior = wv.exact(problems[0].with_priors(model_prior=found.prior(annotations[0])))
    """
    regions, names = _regions(problem, annotations)
    _check_numbers(size, spread, steps)
    design = np.vstack([region.design for region in regions])
    if size * len(regions) >= len(design):
        raise DataError(f"size is {size:g}, but there are only {len(design):,} variables in all problems")
    start = np.zeros(design.shape[1])
    start[0] = logit(size * len(regions) / len(design))
    ridge = np.full(len(start), spread**-2.0)
    coefficients, history, close = start, [start], False
    for _ in range(steps):
        expected = _expected(regions, coefficients, draws, seed, threads)
        score, information = _derivatives(design, coefficients, expected, start, ridge)
        errors = _standard_errors(information)
        if errors is not None:
            away = np.linalg.solve(information, score)
            close = bool((np.abs(away) <= CLOSE * errors).all())
        if close:  # the rest of the way is a step of Newton's method
            coefficients = coefficients + away
        else:
            coefficients = _logistic_fit(design, expected.pips, coefficients, start, ridge)
        history.append(coefficients)
        if close:
            break
    if not close or not expected.accurate:
        why = "more steps" if not close else "more draws"
        said = "has not converged" if not close else "is based on posteriors that have not converged"
        warnings.warn(f"the enrichment {said}; use {why}", ConvergenceWarning, stacklevel=2)
    values = coefficients[1:]
    spreads = np.full(len(names), np.nan) if errors is None else errors[1:]
    table = pd.DataFrame(
        {"coefficient": values, "se": spreads, "odds_ratio": np.exp(values)},
        pd.Index(names, name="annotation"),
    )
    return Enrichment(
        table, float(coefficients[0]), pd.DataFrame(history, columns=["intercept", *names]), close
    )


def _expected(
    regions: list[_Region], coefficients: np.ndarray, draws: int | None, seed: int, threads: int | None
) -> _Expected:
    """The posterior of every region under these coefficients."""
    pips, covariance, accurate = [], np.zeros((len(coefficients), len(coefficients))), True
    for problem, design in regions:
        h = inclusion(design @ coefficients)
        if problem.max_size < problem.p and pdtrc(problem.max_size, h.sum()) > BEYOND:
            raise DataError(
                f"max_size is {problem.max_size}, but {h.sum():.2g} variables are expected under the estimated prior; allow more"
            )
        posterior = _posterior(
            problem.with_priors(model_prior=FixedInclusion(h=h.tolist())), draws, seed, threads
        )
        kept = posterior.kept
        models = sparse.csr_array(
            (np.ones(len(kept.members)), kept.members, kept.start), (len(kept), len(design))
        )
        sums = models @ design
        sums = sums - kept.weight @ sums
        covariance += (sums * kept.weight[:, None]).T @ sums
        pips.append(posterior.pip)
        accurate &= posterior.converged
    return _Expected(np.concatenate(pips), covariance, accurate)


def _posterior(problem: Problem, draws: int | None, seed: int, threads: int | None) -> Posterior:
    if draws is None and choose(problem, None, None).sampler is not None:
        draws = DRAWS
    with warnings.catch_warnings():
        # what matters is whether the posteriors of the last step have converged
        warnings.simplefilter("ignore")
        return sample(problem, draws=draws, seed=seed, threads=threads, progress=False)


def _derivatives(
    design: np.ndarray, coefficients: np.ndarray, expected: _Expected, start: np.ndarray, ridge: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The gradient of the objective, and minus its second derivatives (Louis 1982)."""
    h = inclusion(design @ coefficients)
    score = design.T @ (expected.pips - h) - ridge * (coefficients - start)
    complete = (design * (h * (1 - h))[:, None]).T @ design
    return score, complete - expected.covariance + np.diag(ridge)


def _standard_errors(information: np.ndarray) -> np.ndarray | None:
    """Standard errors; None if the matrix is not positive definite, as may be far from the maximum."""
    if np.linalg.eigvalsh(information)[0] <= 0:
        return None
    return np.sqrt(np.diagonal(np.linalg.inv(information)))


def _logistic_fit(
    design: np.ndarray, shares: np.ndarray, first: np.ndarray, start: np.ndarray, ridge: np.ndarray
) -> np.ndarray:
    """The logistic regression of shares between 0 and 1, with a ridge towards `start`, by Newton's method."""

    def loss(values: np.ndarray) -> float:
        eta = design @ values
        return float(np.logaddexp(0, eta).sum() - shares @ eta + ridge @ (values - start) ** 2 / 2)

    values = first
    for _ in range(100):
        h = expit(design @ values)
        score = design.T @ (shares - h) - ridge * (values - start)
        step = np.linalg.solve((design * (h * (1 - h))[:, None]).T @ design + np.diag(ridge), score)
        length = 1.0
        while length > 1e-8 and loss(values + length * step) > loss(values):
            length /= 2
        values = values + length * step
        if np.abs(length * step).max() < 1e-10:
            break
    return values


# --- arguments


def _regions(problem: Any, annotations: Any) -> tuple[list[_Region], list[str]]:
    """The problems with their annotations, and the names of these."""
    single = isinstance(problem, Problem)
    problems, tables = ([problem], [annotations]) if single else (list(problem), list(annotations))
    if not problems:
        raise DataError("there is no problem to estimate the enrichment from")
    if len(problems) != len(tables):
        raise DataError(
            f"there are {len(problems)} problems but {len(tables)} tables of annotations; give one for each"
        )
    regions: list[_Region] = []
    names: list[str] = []
    for i, (one, table) in enumerate(zip(problems, tables)):
        if not isinstance(one, Problem):
            raise ArgumentTypeError(f"problem must be a Problem or a list of them, not {one!r}")
        if isinstance(one.model_prior, ConditionalPrior):
            raise DataError("the enrichment cannot be estimated under heredity")
        read = read_annotations(table, one.names, Places(one._variable_index, one._all_variables))
        if names and read.names != names:
            raise DataError(
                f"the annotations of problem {i} are {', '.join(read.names)}; those of problem 0 are {', '.join(names)}"
            )
        names = read.names
        regions.append(_Region(one, np.column_stack([np.ones(one.p), read.values])))
    everything = np.vstack([region.design for region in regions])
    same = np.flatnonzero(np.ptp(everything[:, 1:], axis=0) == 0)
    if same.size:
        raise DataError(f"the annotation {names[same[0]]!r} is the same for all variables; leave it out")
    return regions, names


def _check_numbers(size: object, spread: object, steps: object) -> None:
    for name, value in (("size", size), ("spread", spread)):
        if not (isinstance(value, (int, float, np.number)) and np.isfinite(value) and value > 0):
            raise DataError(f"{name} must be a positive number, not {value!r}")
    if not (isinstance(steps, (int, np.integer)) and steps >= 1):
        raise DataError(f"steps must be a whole number of at least 1, not {steps!r}")
