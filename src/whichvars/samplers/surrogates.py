r"""The reference at which the Gaussian surrogate of a posterior is made (``problem/surrogate.py``): near where the posterior's mass is.

The first reference is the null model's linear predictor. Modes of the surrogate are looked for (``finding.py``), the best of them is
fitted, and its linear predictor is the next reference, until the mode stays the same or ROUNDS are over. (The posterior mean of the
linear predictor was tried as a reference too. Flips were accepted as often as at the best mode, within .01.)

All this depends on the problem alone, and is done once for each. So a surrogate is fixed while a sampler runs, and is the same in
every replicate, thread and process.
"""

import threading
from weakref import WeakKeyDictionary

import numpy as np

from whichvars._kernels.chain import LOG_MARGINAL, SURROGATE, new_chain
from whichvars._kernels.count.model_table import new_memo
from whichvars._kernels.evidence import BY_FIT
from whichvars._kernels.family_evidence import fit_family_models
from whichvars.errors import DataError
from whichvars.problem.fitting import widest
from whichvars.problem.problem import Problem
from whichvars.problem.surrogate import bounded_reference, null_predictor, with_surrogate_at
from whichvars.samplers.contract import place_chain
from whichvars.samplers.finding import find_modes, forward_selection

ROUNDS = 5

_known: "WeakKeyDictionary[Problem, Problem]" = WeakKeyDictionary()
_lock = threading.Lock()


def problem_for(problem: Problem, sampler: object) -> Problem:
    """The problem as this sampler sees it: with a surrogate, if the response is not Gaussian and the sampler needs scans."""
    return problem if getattr(sampler, "for_families", False) else scanned(problem)


def scanned(problem: Problem) -> Problem:
    """The problem, with a surrogate where the response is not Gaussian and it has none."""
    if problem.target(0).slab.code != BY_FIT:
        return problem
    with _lock:
        if problem not in _known:
            _known[problem] = find_surrogate(problem)
        return _known[problem]


def find_surrogate(problem: Problem) -> Problem:
    """The problem with a surrogate at a good reference."""
    new = with_surrogate_at(problem, null_predictor(problem))
    seen: list[tuple[int, ...]] = []
    for _ in range(ROUNDS):
        members = _best_mode(new)
        if tuple(members) in seen or len(members) == 0:
            break
        seen.append(tuple(members))
        eta = fitted_predictor(problem, members)
        if eta is None:
            break
        new = with_surrogate_at(problem, bounded_reference(problem, eta))
    return new


def _best_mode(problem: Problem) -> np.ndarray:
    modes = find_modes(problem, 1)
    return modes[0].members if modes else forward_selection(problem)


def fitted_predictor(problem: Problem, members: np.ndarray) -> np.ndarray | None:
    """The linear predictor at the mode of a model, (n,), with the offset; None if it has none."""
    likelihood = problem.likelihood()
    members = np.require(np.sort(members), np.int32, ["C", "W"])
    start = np.array([0, len(members)])
    columns = np.concatenate(
        [np.arange(0), *(np.arange(problem.offsets[j], problem.offsets[j + 1]) for j in members)]
    )
    d = likelihood.flat + len(columns)
    modes, covariances = np.zeros((1, d)), np.zeros((1, d, d))
    with problem.works.borrow(likelihood, widest(problem, members, start)) as work:
        if fit_family_models(likelihood, work, members, start, modes, covariances) < 1:
            return None
    rows = np.concatenate([np.arange(likelihood.flat), likelihood.flat + columns])
    return likelihood.offset + modes[0] @ likelihood.columns[rows]


def found_neighbourhoods(problem: Problem) -> list[tuple[float, tuple[int, ...]]]:
    """The modes that were found, with the log mass of each and its one-variable flips together. Where there is a surrogate, the mass
    is the surrogate's, corrected by the ratio of the marginal likelihoods of the mode itself."""
    view = scanned(problem)
    modes = find_modes(view)
    if view is problem:
        return [(mode.log_mass, tuple(mode.members.tolist())) for mode in modes]
    found = []
    capacity, memo = view.first_capacity(), new_memo(0)
    for mode in modes:
        try:
            chain = place_chain(view, new_chain(view.target(capacity), capacity, 0), memo, mode.members)
        except DataError:  # it has no mass
            continue
        correction = float(chain.floats[LOG_MARGINAL] - chain.floats[SURROGATE])
        found.append((mode.log_mass + correction, tuple(mode.members.tolist())))
    return sorted(found, reverse=True)
