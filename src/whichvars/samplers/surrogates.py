r"""The reference at which the Gaussian surrogate of a posterior is made (``problem/surrogate.py``): near where the posterior's mass is.

The first reference is the null model's linear predictor. Modes of the surrogate are looked for (``finding.py``), the best of them is
fitted, and its linear predictor is the next reference, as long as its posterior probability, by the fit, is higher than that of the one before, or
until ROUNDS are over. (Far from its reference, a surrogate may have modes that the posterior does not have. The posterior mean of the
linear predictor was tried as a reference too. Flips were accepted as often as at the best mode, within .01.) An unknown dispersion
or scale, or the g of a mixture of g-priors, is that of the posterior of the best mode, on average over its logarithm.

Where the response is Gaussian and the g of the independent slab is unknown, the surrogate has a known g (``_surrogate_of_unknown_g``). Where a problem
is `corrected` (``problem/for_kernels.py``), it is what there would be without the correction, or a normal slab if the slab is non-local
(``_surrogate_of_moment_prior``).

All this depends on the problem alone, and is done once for each. So a surrogate is fixed while a sampler runs, and is the same in
every replicate, thread and process.
"""

import threading
from weakref import WeakKeyDictionary

import numpy as np

from whichvars._kernels import likelihood as kernels
from whichvars._kernels.averaging import LOG_WEIGHT, RIDGE_FACTOR
from whichvars._kernels.chain import LOG_MARGINAL, SURROGATE, new_chain
from whichvars._kernels.count.model_table import new_memo
from whichvars._kernels.evidence import BY_FIT, MIXTURE
from whichvars._kernels.family_evidence import fit_family_models
from whichvars.errors import DataError
from whichvars.problem.columns import ColumnsOfModels
from whichvars.problem.correlated_prior import CorrelatedNormal
from whichvars.problem.evaluating import averages_over_g, log_formulas_of, log_marginals_of, log_priors_of
from whichvars.problem.fitting import candidates_at, widest
from whichvars.problem.moment_factors import log_factors_near
from whichvars.problem.moment_priors import MomentPrior
from whichvars.problem.problem import Problem
from whichvars.problem.surrogate import bounded_reference, null_predictor, with_surrogate_at
from whichvars.samplers.contract import place_chain
from whichvars.samplers.finding import find_modes, forward_selection

ROUNDS = 5
# most variables whose flips are all evaluated
MOST_FLIPS = 5000

_known: "WeakKeyDictionary[Problem, Problem]" = WeakKeyDictionary()
_by_fits: "WeakKeyDictionary[Problem, Problem]" = WeakKeyDictionary()
_lock = threading.Lock()


def problem_for(problem: Problem, sampler: object) -> Problem:
    """The problem as this sampler sees it: with a surrogate, if the response is not Gaussian (or the problem is `corrected`) and the sampler needs
    scans."""
    if not getattr(sampler, "for_families", False):
        return scanned(problem)
    if not problem.corrected:
        return problem
    with _lock:
        if problem not in _by_fits:
            _by_fits[problem] = problem.seen("by fits")
        return _by_fits[problem]


def scanned(problem: Problem) -> Problem:
    """The problem, with a surrogate where it needs one and has none."""
    if not problem.one_by_one or problem.target(0).slab.surrogate:
        return problem
    with _lock:
        if problem not in _known:
            _known[problem] = find_surrogate(problem)
        return _known[problem]


def find_surrogate(problem: Problem) -> Problem:
    """The problem with a surrogate at a good reference."""
    if problem.corrected:
        whole = problem.seen("whole")
        if isinstance(problem.slab, MomentPrior):
            return _surrogate_of_moment_prior(whole)
        if isinstance(problem.slab, CorrelatedNormal):
            return _surrogate_of_correlated_slab(whole)
        return (_find_surrogate(whole) if whole.target(0).slab.code == BY_FIT else whole).seen("by scans")
    return _find_surrogate(problem)


def _find_surrogate(problem: Problem) -> Problem:
    if problem.unknown_g:
        return _surrogate_of_unknown_g(problem)
    new, best = with_surrogate_at(problem, null_predictor(problem)), -np.inf
    for _ in range(ROUNDS):
        members = _best_mode(new)
        if len(members) == 0 and len(problem.likelihood().shrinkage):
            members = _strongest(new)  # g is a matter of models with a variable
        if len(members) == 0:
            break
        value = _log_posterior(problem, members)
        fitted = fitted_reference(problem, members) if value > best else None
        if fitted is None:
            break
        best, (eta, outer) = value, fitted
        new = with_surrogate_at(problem, bounded_reference(problem, eta), outer)
    return new


def _log_posterior(problem: Problem, members: np.ndarray) -> float:
    """The log of the posterior probability of a model, up to a constant, by its fit."""
    model, start = np.require(np.sort(members), np.int32), np.array([0, len(members)])
    return float(log_marginals_of(problem, model, start)[0] + log_priors_of(problem, model, start)[0])


def _surrogate_of_unknown_g(problem: Problem) -> Problem:
    r"""The problem with the g of its surrogate such that :math:`g^{-1/2} = E[g^{-1/2} \mid y, \gamma]` at the best mode γ, or at the best
    model of one variable if that is the null model.

    A variable without an effect multiplies m(γ | g) by about g^(−1/2), and so m(γ) by the posterior mean of that. With this g it
    multiplies the surrogate's m̃(γ) by the same.
    """
    values = 1 / problem._target.slab.grid[:, RIDGE_FACTOR]
    new = problem.with_surrogate_g(typical(values, np.exp(problem._target.slab.grid[:, LOG_WEIGHT])))
    seen: list[tuple[int, ...]] = []
    for _ in range(ROUNDS):
        members = _best_mode(new)
        if len(members) == 0:
            members = _strongest(new)
        if tuple(members) in seen:
            break
        seen.append(tuple(members))
        _, shares = averages_over_g(problem, np.sort(members), np.array([0, len(members)]))
        new = problem.with_surrogate_g(typical(values, shares[0]))
    return new


def _surrogate_of_moment_prior(problem: Problem) -> Problem:
    """The problem with a normal slab as a surrogate, and for each column the factor that it has at the best mode (``problem/moment_factors.py``)."""
    slab, new = problem.slab, problem.seen("by scans")
    assert isinstance(slab, MomentPrior)
    seen: list[tuple[int, ...]] = []
    for _ in range(ROUNDS):
        members = _best_mode(new)
        if tuple(members) in seen:
            break
        seen.append(tuple(members))
        target = problem.formula(0)
        columns = ColumnsOfModels.of(problem.offsets, np.sort(members), np.array([0, len(members)])).columns
        terms = 0.5 * np.log(slab.tau) - log_factors_near(target, columns, slab)
        new = problem.with_surrogate_terms(terms).seen("by scans")
    return new


def _surrogate_of_correlated_slab(problem: Problem) -> Problem:
    """The problem with an independent slab as a surrogate, with which every flip of one variable at the best mode has the odds that it has in truth."""
    new, width = problem.seen("by scans"), np.diff(problem.offsets)
    seen: list[tuple[int, ...]] = []
    for _ in range(ROUNDS if problem.p <= MOST_FLIPS else 0):
        members = _best_mode(new)
        if tuple(members) in seen:
            break
        seen.append(tuple(members))
        inside = np.isin(np.arange(problem.p), members)
        models = [
            np.sort(members),
            *(np.flatnonzero(inside ^ (np.arange(problem.p) == j)) for j in range(problem.p)),
        ]
        start = np.concatenate([[0], np.cumsum([len(model) for model in models])])
        together = np.concatenate(models)
        log_w = log_marginals_of(problem, together, start) - log_formulas_of(problem, together, start)
        gain = np.where(inside, log_w[0] - log_w[1:], log_w[1:] - log_w[0])
        terms = problem.formula(0).slab.half_log_g[: problem.offsets[-1]] - np.repeat(gain / width, width)
        new = problem.with_surrogate_terms(terms).seen("by scans")
    return new


def typical(values: np.ndarray, probabilities: np.ndarray) -> float:
    """(E g^(−1/2))^(−2)."""
    return float((probabilities @ values**-0.5) ** -2)


def _best_mode(problem: Problem) -> np.ndarray:
    modes = find_modes(problem, 1)
    return modes[0].members if modes else forward_selection(problem)


def _strongest(problem: Problem) -> np.ndarray:
    """The variable with the column that explains most by itself."""
    design = problem.target(0).design
    explained = np.divide(
        design.xty**2, design.diagonal, out=np.zeros(len(design.xty)), where=design.diagonal > 0
    )
    return np.searchsorted(problem.offsets, [np.argmax(explained)], side="right") - 1


def fitted_reference(problem: Problem, members: np.ndarray) -> tuple[np.ndarray, float] | None:
    """The linear predictor at the mode of a model, (n,), with the offset, and the mean of log r, log s or log g where these are unknown; None
    if the model has no mode."""
    likelihood = problem.likelihood()
    members = np.require(np.sort(members), np.int32, ["C", "W"])
    start = np.array([0, len(members)])
    columns = np.concatenate(
        [np.arange(0), *(np.arange(problem.offsets[j], problem.offsets[j + 1]) for j in members)]
    )
    q = likelihood.flat
    d = q + len(columns)
    modes, covariances = np.zeros((1, d)), np.zeros((1, d, d))
    outer = likelihood.outer_start
    with problem.works.borrow(likelihood, widest(problem, members, start)) as work:
        if fit_family_models(likelihood, work, members, start, modes, covariances) < 1:
            return None
        nodes = work.nodes[: work.ints[kernels.NODES]]
        if len(nodes):
            outer = _mean(nodes[:, kernels.NODE_VALUE], nodes[:, kernels.NODE_LOG])
        elif likelihood.outer in (kernels.DISPERSION, kernels.NOISE_SCALE):
            outer = float(work.outer[kernels.OUTER])
    grid = likelihood.shrinkage
    if likelihood.slab == MIXTURE and likelihood.evidence == kernels.BAS:
        Q = float(modes[0, q:] @ np.linalg.solve(covariances[0, q:, q:], modes[0, q:]))
        outer = _mean(grid[:, 0], grid[:, 1] - 0.5 * (len(columns) * grid[:, 2] + Q * grid[:, 3]))
    eta = likelihood.offset + modes[0, :q] @ likelihood.flat_columns
    return eta + modes[0, q:] @ candidates_at(likelihood, columns), outer


def _mean(values: np.ndarray, logs: np.ndarray) -> float:
    """The mean of values that have these logs of densities at equal distances."""
    weights = np.exp(logs - logs.max())
    return float(weights @ values / weights.sum())


def found_neighbourhoods(problem: Problem) -> list[tuple[float, tuple[int, ...]]]:
    """The modes that were found, with the log mass of each and its one-variable flips together. Where there is a surrogate, the mass
    is the surrogate's, corrected by the ratio of the marginal likelihoods of the mode itself."""
    view = scanned(problem)
    modes = find_modes(view)
    if view is problem:
        return [(mode.log_mass, tuple(mode.members.tolist())) for mode in modes]
    corrected = []
    capacity, memo = view.first_capacity(), new_memo(0)
    for mode in modes:
        try:
            chain = place_chain(view, new_chain(view.target(capacity), capacity, 0), memo, mode.members)
        except DataError:  # it has no mass
            continue
        correction = float(chain.floats[LOG_MARGINAL] - chain.floats[SURROGATE])
        corrected.append((mode.log_mass + correction, tuple(mode.members.tolist())))
    return sorted(corrected, reverse=True)
