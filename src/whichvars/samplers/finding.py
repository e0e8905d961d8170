"""Modes of a posterior, found before sampling: models that no flip and no swap of variables makes more probable.

Three searches (``_kernels/search.py``), all by scans of all one-variable flips:

1. *forward selection*, and a climb from where it ends;
2. *sequential replacement*: at sizes 1, 2, …, K add the best variable, even where that lowers the posterior, and swap until nothing
   changes; then climb from each of these models. It finds modes behind a descent, where every search that only climbs ends at the null
   model;
3. *iterated local search* from the best mode so far: add a variable and let the others adapt to it, or change some at random; climb,
   and stay if it is not much worse. As long as this finds new modes that are nearly as good as the best one, it goes on for twice as
   long.

Where p is large, most of this is done among some hundreds of variables: those of the models met, those correlated with them, and those
that explain most by themselves. There is a fourth search then: models of a fixed size are *rebuilt* by sequential replacement
from some of their variables, and reduced to half their size in the same way, again and again, and only then climbed from. A few
scans of all variables tell which of them would stand best in the places of the best of these models; the search goes on among
those, and climbs from the modes found there look at all variables.

Their cost is bounded by a number of scans, so that it is a small share of a run and the same modes are found every time. They are
searches: a posterior may have other modes, and where it is spread over very many models its modes have little of its mass.
"""

import threading
from dataclasses import dataclass, replace
from weakref import WeakKeyDictionary

import numpy as np

from whichvars._kernels.chain import LOG_MARGINAL, LOG_PRIOR, NEEDED, SCANNED, grow, new_chain
from whichvars._kernels.count.averages import scan_cost
from whichvars._kernels.count.model_table import new_memo
from whichvars._kernels.evaluate import set_model
from whichvars._kernels.propose.mode_jumps import ModeJumps, Slot, new_mode_jumps, no_mode_jumps
from whichvars._kernels.propose.stand_ins import ALIKE, MOST_EACH, fill_products
from whichvars._kernels.scan.scan_work import new_scan
from whichvars._kernels.search import (
    ADD_WHILE_BETTER,
    CLIMB,
    DISTURB_AND_CLIMB,
    DONE,
    KICKS_LEFT,
    N_FOUND,
    NOTE_BY_SIZE,
    REBUILD,
    REPLACE_SEQUENTIALLY,
    ROOM,
    SCAN_ONLY,
    SCANS_LEFT,
    Found,
    nothing_found,
    search,
    select_forward,
)
from whichvars._kernels.target import Design, Target
from whichvars.problem.problem import Problem
from whichvars.problem.target import as_compiled

LARGEST = 15  # K
MOST_MODES = 8
# nanoseconds that all scans together may take, roughly: the second number for each variable
NANOSECONDS, NANOSECONDS_EACH = 1.1e6, 2.5e3
MOST_SCANS, FEWEST_SCANS = 1500, 60
LONGEST_SCAN = 3e7  # nanoseconds: where one takes longer, nothing is looked for
MOST_KICKS = 150
# rounds of iterated local search, each with twice as many scans and kicks as the one before: another one only where the last
# found a mode whose log posterior is at most so far below the best one's
MOST_ROUNDS, NEAR = 5, 5.0
LEAST_SHARE = 1e-3  # of the best one's mass, of a variable that can stand in the place of another
LEAST_LOG_MASS = -9.0  # of a mode that chains jump to, relative to the best one's
LARGE = 1000  # variables from which most of the search is among a part of them only
STRONGEST = 400  # variables of that part, at first
FITTING = 20  # variables that join it for each place in a good model
ASKED = (3, 5, 8)  # sizes of these models
REBUILT = 150  # models that a search in such a part rebuilds
SCANS_TO_REBUILD = 2000
# where the best mode's log posterior is not that far above the null model's, the search in parts is made again and again
FAINT, MOST_PARTS = 12.0, 3
# but not where the neighbours of that mode have so much more mass than it has itself (on the log scale) that chains leave it at once: the
# mass is then spread over many larger models, and modes matter little
SPREAD_OUT = 1.5
KEPT_BACK = 0.4  # of the scans then, for climbs among all variables afterwards
SCANS_IN_PART, KICKS_IN_PART = 4000, 50
LONGEST = 512  # variables of a mode that can be noted
Z_BYTES, ROW_BYTES, CACHE_BYTES = 32 << 20, 32 << 20, 16 << 20
SEED = 20_260  # of the disturbances: the same modes whatever the seed of the run


@dataclass(frozen=True)
class Mode:
    """A model that no flip and no swap makes more probable."""

    members: np.ndarray  # its variables, in increasing order
    log_posterior: float  # relative to the null model's marginal likelihood, with the log prior
    log_mass: float  # of the model and all its one-variable flips together
    # for each variable v of the mode: those that can stand in its place, and π(mode − v + j) of each as a share of their sum
    slots: tuple[Slot, ...] = ()
    # of all models with one variable from each slot, if what stands in one does not matter to the others
    log_cluster: float = -np.inf


_known: "WeakKeyDictionary[Problem, list[Mode]]" = WeakKeyDictionary()
_lock = threading.Lock()


def find_modes(problem: Problem, most: int = MOST_MODES) -> list[Mode]:
    """At most `most` modes of the posterior, by the mass of their neighbourhoods, the largest first.

    They are looked for once for each problem. The list may be empty where p is so large that a single scan takes long. Where there is a
    surrogate, they are the modes of the surrogate.
    """
    with _lock:
        if problem not in _known:
            _known[problem] = _search(problem)
        return _known[problem][:most]


def without_second_stage(target: Target) -> Target:
    """The target; a surrogate as a posterior of its own."""
    return target._replace(slab=target.slab._replace(surrogate=False))


class _Searcher:
    """A chain that goes from model to model, with all that scans need."""

    def __init__(self, problem: Problem, part: Target | None = None, seed: int = SEED) -> None:
        """With a `part` of the posterior (``part_of``), variables are numbered by their places in it."""
        self.problem, self.seed = problem, seed
        capacity = problem.first_capacity()
        self.target = without_second_stage(problem.target(capacity)) if part is None else part
        self.chain = new_chain(self.target, capacity, CACHE_BYTES)
        self.work = new_scan(self.target, capacity, Z_BYTES, ROW_BYTES)
        self.memo = new_memo(0)
        self.looking = nothing_found(1, 1)  # for scans that belong to no search

    def make_room(self) -> None:
        capacity = max(2 * len(self.chain.slot), int(self.chain.ints[NEEDED]))
        self.chain = grow(self.chain, capacity)
        self.chain.ints[SCANNED] = 0
        table = self.problem.target(capacity).slab.table
        self.target = self.target._replace(slab=self.target.slab._replace(table=table))
        self.work = new_scan(self.target, capacity, Z_BYTES, ROW_BYTES)

    def go_to(self, members: np.ndarray) -> bool:
        members = np.ascontiguousarray(members, np.int64)
        while not set_model(self.target, self.chain, self.memo, members, len(members)):
            if not self.chain.ints[NEEDED]:
                return False
            self.make_room()
        return True

    def search(self, kind: int, found: Found, largest: int = 0, home: np.ndarray | None = None) -> int:
        rng = np.random.Generator(np.random.PCG64(self.seed))
        model = np.zeros(1, np.int64) if home is None else home
        while True:
            ended = search(self.target, self.chain, self.memo, self.work, found, kind, largest, rng, model)
            if ended != ROOM:
                return int(ended)
            self.make_room()

    def log_mass(self) -> float:
        """Of the chain's model, which has mass, and its flips, relative to the model."""
        self.scan()
        odds = self.work.log_odds
        gains = np.where(self.chain.position < 0, odds, -odds)
        return float(np.logaddexp.reduce(gains[np.isfinite(gains)], initial=0.0))

    def log_swaps(self, members: np.ndarray, v: int) -> tuple[np.ndarray, np.ndarray]:
        """The variables that can stand in the place of v, v among them, and log π of each such model relative to that of `members`.
        Those that have less than a thousandth of the best one's mass are left out."""
        if not self.go_to(members[members != v]):  # heredity, or the model without v has no mass
            return np.array([v]), np.zeros(1)
        self.scan()
        odds = np.where(self.chain.position < 0, self.work.log_odds, -np.inf)
        if not np.isfinite(odds[v]):
            return np.array([v]), np.zeros(1)
        best = np.flatnonzero((odds > odds.max() + np.log(LEAST_SHARE)) | (np.arange(len(odds)) == v))
        return best, odds[best] - odds[v]

    def value(self) -> float:
        """The log posterior of the chain's model."""
        return float(self.chain.floats[LOG_MARGINAL] + self.chain.floats[LOG_PRIOR])

    def scan(self) -> None:
        self.search(SCAN_ONLY, self.looking)


def part_of(target: Target, variables: np.ndarray) -> Target:
    """The posterior given that all variables but these, without parents, are out."""
    design, slab, prior = target
    widths = np.diff(design.offsets)[variables]
    columns = np.concatenate([np.arange(design.offsets[j], design.offsets[j + 1]) for j in variables])
    gram = np.empty((len(columns), len(columns)))
    fill_products(design, columns, columns, gram)
    offsets = np.concatenate([[0], np.cumsum(widths)]).astype(np.int64)
    part = Target(
        Design(
            gram,
            np.zeros((0, 0)),
            design.diagonal[columns],
            design.xty[columns],
            offsets,
            design.keys[variables],
        ),
        slab._replace(ridge=slab.ridge[columns], half_log_g=slab.half_log_g[columns]),
        prior._replace(
            log_odds=prior.log_odds[variables],
            log_size=prior.log_size[: len(variables) + 1].copy(),
            max_size=min(prior.max_size, len(variables)),
        ),
    )
    return as_compiled(part, offsets)


def scans_allowed(problem: Problem) -> int:
    """How many scans may be made: as many as take a given time, within bounds; 0 where one takes too long."""
    cost = scan_cost(problem.target(0), 5.0, 1.0)
    if cost > LONGEST_SCAN:
        return 0
    return int(np.clip((NANOSECONDS + NANOSECONDS_EACH * problem.p) / cost, FEWEST_SCANS, MOST_SCANS))


def _search(problem: Problem) -> list[Mode]:
    scans = scans_allowed(problem)
    largest = min(LARGEST, problem.max_size, problem.p)
    if scans == 0 or largest == 0:
        return []
    one = _Searcher(problem)
    null_value = one.value()
    modes = nothing_found(MOST_MODES, min(problem.p, LONGEST))
    modes.ints[SCANS_LEFT] = scans
    if one.search(ADD_WHILE_BETTER, modes) == DONE:
        one.search(CLIMB, modes)
    one.go_to(np.zeros(0, np.int64))
    path = nothing_found(largest, min(problem.p, LONGEST))
    path.ints[SCANS_LEFT] = modes.ints[SCANS_LEFT] // 2
    modes.ints[SCANS_LEFT] -= path.ints[SCANS_LEFT]
    one.search(REPLACE_SEQUENTIALLY, path, largest)
    modes.ints[SCANS_LEFT] += path.ints[SCANS_LEFT]
    met = _by_size(path)
    if problem.p <= LARGE or len(one.target.prior.links):
        _search_all(one, modes, met, scans)
    else:
        for number in range(MOST_PARTS):
            met = _search_part(problem, one, modes, met, largest, SEED + number)
            if _best_value(modes) > FAINT + null_value or _is_left_at_once(one, modes):
                break
            modes.ints[SCANS_LEFT] = max(int(modes.ints[SCANS_LEFT]), scans // 3)
    found = _read(one, modes)
    return _with_slots(one, found, scans // 4) if len(found) > 1 else found


def _search_all(one: _Searcher, modes: Found, path: list[np.ndarray], scans: int) -> None:
    """Climbs from the models of a path, and iterated local search, which goes on with more and more scans until a round of it finds no
    new mode that matters."""
    for start in [*path[::-1], np.zeros(0, np.int64)]:
        if one.go_to(start):
            one.search(CLIMB, modes)
    kicks = min(MOST_KICKS, 12 * len(one.chain.position))
    for number in range(MOST_ROUNDS):
        before = _leading(modes)
        one.seed = SEED + number
        _disturb(one, modes, kicks << number)
        if _leading(modes) == before:
            return
        modes.ints[SCANS_LEFT] = max(int(modes.ints[SCANS_LEFT]), scans << number)


def _leading(modes: Found) -> set[tuple[int, ...]]:
    """The modes found that may have a share of the mass that matters."""
    n = int(modes.ints[N_FOUND])
    good = modes.values[:n] > _best_value(modes) - NEAR
    return {tuple(np.sort(modes.members[a, : modes.sizes[a]]).tolist()) for a in np.flatnonzero(good)}


def _by_size(path: Found) -> list[np.ndarray]:
    """The best model of each size, the smallest first."""
    return [path.members[a, :size].copy() for a, size in enumerate(path.sizes) if size > 0]


def _disturb(one: _Searcher, modes: Found, kicks: int) -> None:
    """Iterated local search from the best mode."""
    n = int(modes.ints[N_FOUND])
    if n == 0:
        return
    best = int(np.argmax(modes.values[:n]))
    home = np.zeros(modes.members.shape[1] + 1, np.int64)
    home[:-1], home[-1] = modes.members[best], modes.sizes[best]
    modes.ints[KICKS_LEFT] = kicks
    one.search(DISTURB_AND_CLIMB, modes, home=home)


def _best_value(modes: Found) -> float:
    """The log posterior of the best mode so far."""
    return float(modes.values[: modes.ints[N_FOUND]].max(initial=-np.inf))


def _is_left_at_once(one: _Searcher, modes: Found) -> bool:
    """Whether the neighbours of the best mode have several times its mass."""
    n = int(modes.ints[N_FOUND])
    best = int(np.argmax(modes.values[:n])) if n else 0
    return n > 0 and one.go_to(modes.members[best, : modes.sizes[best]]) and one.log_mass() > SPREAD_OUT


def _search_part(
    problem: Problem, one: _Searcher, modes: Found, path: list[np.ndarray], largest: int, seed: int
) -> list[np.ndarray]:
    """All searches where a scan of all variables is dear: among some hundreds, of which a scan takes a few microseconds; then climbs
    among all variables from the modes found there.

    At first these are the variables of the models met so far, those correlated with them, and those that explain most by themselves.
    The best models of some sizes, each without one of its variables, are then asked which of all variables would stand best in
    that place; and the search goes on among those. Returns the best models of each size.
    """
    met = [*(modes.members[a, : modes.sizes[a]].copy() for a in range(modes.ints[N_FOUND])), *path]
    variables = np.unique(np.concatenate([np.zeros(0, np.int64), *met]))
    candidates = np.union1d(_strongest(one.target.design), _alike(one, variables))
    kept_back = int(KEPT_BACK * modes.ints[SCANS_LEFT])
    best = _rebuilt(problem, part_of(one.target, candidates), candidates, met, largest, seed)
    candidates = np.unique(np.concatenate([_fitting(one, modes, best, kept_back), *met, *best]))
    part = part_of(one.target, candidates)
    best = _rebuilt(problem, part, candidates, [*met, *best], largest, seed)
    inner = _Searcher(problem, part, seed)
    found = nothing_found(MOST_MODES, min(len(candidates), LONGEST))
    found.ints[SCANS_LEFT] = SCANS_IN_PART
    for model in [*met, *best]:
        if inner.go_to(np.searchsorted(candidates, np.sort(model))):
            inner.search(CLIMB, found)
    _disturb(inner, found, KICKS_IN_PART)
    for a in np.argsort(-found.values[: found.ints[N_FOUND]], kind="stable"):
        if one.go_to(candidates[found.members[a, : found.sizes[a]]]):
            one.search(CLIMB, modes)
    return best


def _rebuilt(
    problem: Problem, part: Target, candidates: np.ndarray, met: list[np.ndarray], largest: int, seed: int
) -> list[np.ndarray]:
    """The best models of each size up to `largest` that sequential replacement finds among the candidates, from the null model and
    from variables of the best models so far, of which `met` are the first."""
    inner = _Searcher(problem, part, seed)
    largest = min(largest, len(candidates))
    path = nothing_found(largest, largest)
    path.ints[SCANS_LEFT], path.ints[KICKS_LEFT] = SCANS_TO_REBUILD, REBUILT
    for model in met:
        if len(model) <= largest and inner.go_to(np.searchsorted(candidates, np.sort(model))):
            inner.search(NOTE_BY_SIZE, path)
    inner.go_to(np.zeros(0, np.int64))
    inner.search(REPLACE_SEQUENTIALLY, path, largest)
    if largest > 1:
        inner.search(REBUILD, path, largest)
    return [candidates[model] for model in _by_size(path)]


def _strongest(design: Design) -> np.ndarray:
    """The variables that explain most of y by themselves, by the best of their columns."""
    explained = np.divide(
        design.xty**2, design.diagonal, out=np.zeros(len(design.xty)), where=design.diagonal > 0
    )
    score = np.maximum.reduceat(explained, design.offsets[:-1])
    return np.sort(np.argsort(-score, kind="stable")[:STRONGEST])


def _fitting(one: _Searcher, modes: Found, models: list[np.ndarray], kept_back: int) -> np.ndarray:
    """Of all variables, those that would stand best in the place of one of a model's, or beside them all; as far as so
    many scans are left."""
    chosen: set[int] = set()
    for model in models:
        if len(model) not in ASKED or modes.ints[SCANS_LEFT] - len(model) - 1 < kept_back:
            continue
        for rest in [model, *(model[model != v] for v in model)]:
            if one.go_to(rest):
                one.scan()
                modes.ints[SCANS_LEFT] -= 1
                odds = np.where(one.chain.position < 0, one.work.log_odds, -np.inf)
                first = (
                    np.argpartition(-odds, FITTING)[:FITTING] if len(odds) > FITTING else np.arange(len(odds))
                )
                chosen.update(first[np.isfinite(odds[first])].tolist())
    return np.array(sorted(chosen), np.int64)


def _alike(one: _Searcher, variables: np.ndarray) -> np.ndarray:
    """These variables and those that are most correlated with them, in increasing order."""
    design, rows = one.target.design, one.work.rows
    first = design.offsets[:-1]
    chosen = set(variables.tolist())
    for j in variables:
        column = int(first[j])
        if len(design.gram):
            products = design.gram[column]
        elif len(rows.place) and rows.place[column] >= 0:  # a scan has made them
            products = rows.values[rows.place[column]]
        else:
            continue
        alike = products[first] ** 2 / (design.diagonal[column] * np.maximum(design.diagonal[first], 1e-300))
        near = np.flatnonzero(alike > ALIKE)
        chosen.update(near[np.argsort(-alike[near], kind="stable")[:MOST_EACH]].tolist())
    return np.array(sorted(chosen), np.int64)


def _read(one: _Searcher, modes: Found) -> list[Mode]:
    """The modes found, best first."""
    out = []
    for a in range(modes.ints[N_FOUND]):
        members = np.sort(modes.members[a, : modes.sizes[a]])
        if one.go_to(members):
            value = float(modes.values[a])
            out.append(Mode(members, value, value + one.log_mass()))
    return sorted(out, key=lambda mode: -mode.log_mass)


def _with_slots(one: _Searcher, modes: list[Mode], scans: int) -> list[Mode]:
    """The same modes with their slots, as far as so many scans allow."""
    out = []
    for mode in modes:
        if (
            mode.log_mass > modes[0].log_mass + 1.5 * LEAST_LOG_MASS
        ):  # a cluster may have more mass than its mode
            scans -= len(mode.members)
            out.append(_add_slots(one, mode) if scans >= 0 else mode)
        else:
            out.append(mode)
    return out


def _add_slots(one: _Searcher, mode: Mode) -> Mode:
    swaps = [one.log_swaps(mode.members, int(v)) for v in mode.members]
    sums = [np.logaddexp.reduce(values) for _, values in swaps]
    owner: dict[int, tuple[float, int]] = {}  # each variable goes to the slot in which its share is largest
    for number, ((variables, values), total) in enumerate(zip(swaps, sums)):
        for j, value in zip(variables.tolist(), values - total):
            if j not in owner or value > owner[j][0]:
                owner[j] = value, number
    for number, v in enumerate(mode.members.tolist()):
        owner[v] = 0.0, number
    slots = []
    for number, (variables, values) in enumerate(swaps):
        mine = np.array([owner[j][1] == number for j in variables.tolist()])
        weights = np.exp(values[mine] - values[mine].max())
        slots.append((variables[mine], weights / weights.sum()))
    return replace(mode, slots=tuple(slots), log_cluster=mode.log_posterior + float(sum(sums)))


def jumps_between_modes(problem: Problem) -> ModeJumps:
    """Proposals of jumps between the modes that have any mass; none if there are fewer than two."""
    modes = [mode for mode in find_modes(problem) if mode.log_cluster > -np.inf]
    if not modes:
        return no_mode_jumps(problem.p)
    mass = np.array([mode.log_cluster for mode in modes])
    mass -= mass.max()
    chosen = np.flatnonzero(mass > LEAST_LOG_MASS)
    if len(chosen) < 2:
        return no_mode_jumps(problem.p)
    return new_mode_jumps(problem.p, [modes[i].slots for i in chosen], np.exp(0.5 * mass[chosen]))


def forward_selection(problem: Problem, max_size: int = 50) -> np.ndarray:
    """Add the variable that raises the posterior most, until none does or there are `max_size`."""
    capacity = int(np.sort(np.diff(problem.offsets))[::-1][: max_size + 1].sum())
    target = without_second_stage(problem.target(capacity))
    chain = new_chain(target, capacity)
    select_forward(target, chain, new_memo(0), min(max_size, problem.p))
    return np.flatnonzero(chain.position >= 0)
