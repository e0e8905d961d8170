r"""Heredity: variables, such as interactions, that can be in a model only if their parents are (Chipman 1996).

A variable is *available* in a model γ if all its parents are in γ; a variable without parents is always available. An
available variable j is in the model with probability h_j, and one that is not available is out:

.. math:: p(\gamma) = \prod_{j \text{ available}} h_j^{\gamma_j} (1 - h_j)^{1 - \gamma_j}, \qquad
          \text{and with } h \sim \mathrm{Beta}(a, b): \quad p(\gamma) = \frac{B(a + k, b + m - k)}{B(a, b)},

with k variables in γ and m available. Both sum to 1 over the models that are allowed: to draw from them, toss a coin for
every variable, then remove all variables that lack a parent.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import groupby
from math import comb
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import betaln, gammaln

from whichvars.data.frames import find_columns
from whichvars.errors import ArgumentTypeError, DataError
from whichvars.problem.model_priors import BetaBinomial, FixedInclusion, ModelPrior

# most sets of parents that are enumerated; if there are more, sizes are simulated
MOST_SETS = 1 << 15
# draws of a simulation, fewer if p is large
SIMULATED = 100_000
# coins that are tossed at once
DRAWN_AT_ONCE = 4_000_000
# above this, differences of log Γ lose too many digits
LARGE = 1e5


@dataclass(frozen=True, repr=False)
class ConditionalPrior:
    """A model prior under heredity; made by ``Problem(heredity=…)``.

    Parameters
    ----------
    prior : FixedInclusion or BetaBinomial
        Prior of the variables that are available.
    parents : tuple of tuples of int
        The parents of each of the p variables.

    Examples
    --------
    >>> conditional = ConditionalPrior(FixedInclusion(h=0.5), ((), (), (0, 1)))
    >>> conditional.inclusion(3)
    array([0.5  , 0.5  , 0.125])
    >>> conditional.size_distribution(3)
    array([0.25 , 0.5  , 0.125, 0.125])
    """

    prior: FixedInclusion | BetaBinomial
    parents: tuple[tuple[int, ...], ...]

    def __repr__(self) -> str:
        children = sum(map(bool, self.parents))
        return f"{self.prior} with heredity of {children} variable{'s' * (children != 1)}"

    # --- the graph

    @cached_property
    def order(self) -> np.ndarray:
        """All variables, parents before their children and otherwise in their own order, shape (p,)."""
        return np.lexsort((np.arange(len(self.parents)), self._depth))

    @cached_property
    def _depth(self) -> np.ndarray:
        """Length of the longest line of ancestors, (p,)."""
        depth = np.zeros(len(self.parents), np.int64)
        while True:  # as many rounds as the graph is deep
            before = depth
            depth = np.array([1 + max(before[list(i)]) if i else 0 for i in self.parents])
            if (depth == before).all():
                return depth

    def ancestors(self, j: int) -> set[int]:
        """The parents of j, their parents, and so on."""
        ancestors: set[int] = set()
        waiting = list(self.parents[j])
        while waiting:
            i = waiting.pop()
            if i not in ancestors:
                ancestors.add(i)
                waiting += self.parents[i]
        return ancestors

    def complete(self, model: np.ndarray) -> np.ndarray:
        """The model with all ancestors of its variables, parents before their children."""
        wanted = set(model.tolist()).union(*(self.ancestors(j) for j in model.tolist()))
        return np.array([j for j in self.order.tolist() if j in wanted], np.int64)

    def missing(self, model: Iterable[int]) -> tuple[int, int] | None:
        """A variable of the model and a parent that it lacks, if there is one."""
        inside = set(map(int, model))
        return next(((j, i) for j in sorted(inside) for i in self.parents[j] if i not in inside), None)

    # --- the probabilities

    def inclusion(self, p: int) -> np.ndarray:
        """Prior inclusion probability of each of p variables: it and all its ancestors must be in. Shape
        (p,)."""
        families = [[j, *self.ancestors(j)] for j in range(p)]
        if isinstance(self.prior, FixedInclusion):
            h = self.prior.inclusion(p)
            return np.array([np.prod(h[family]) for family in families])
        a, b = self.prior.parameters(p)
        return np.array(
            [np.prod((a + np.arange(len(f))) / (a + b + np.arange(len(f)))) for f in families]
        )  # E[hˢ]

    def log_prior(self, model: Sequence[int] | np.ndarray, p: int) -> float:
        """log p(γ) without ``log_constant``; −inf if a parent is missing."""
        return float(self.log_priors(np.array(model, np.int64), np.array([0, len(model)]), p)[0])

    def log_priors(self, members: np.ndarray, start: np.ndarray, p: int) -> np.ndarray:
        """The same for many models, shape (models,): model i is members[start[i] : start[i + 1]]."""
        sizes = np.diff(start)
        owner = np.repeat(np.arange(len(sizes)), sizes)
        table = sparse.csc_array((np.ones(len(owner)), (owner, members)), shape=(len(sizes), p))
        table.sort_indices()
        having = np.split(table.indices, table.indptr[1:-1])  # the models with each variable
        h = None if isinstance(self.prior, BetaBinomial) else self.prior.inclusion(p)
        available = np.full(len(sizes), sum(not parents for parents in self.parents))
        out, allowed = np.zeros(len(sizes)), np.ones(len(sizes), bool)
        for j, parents in enumerate(self.parents):
            free: Any = slice(None)
            if parents:
                free = reduce(np.intersect1d, [having[i] for i in parents])
                available[free] += 1
                allowed[np.setdiff1d(having[j], free)] = False
            if h is not None:
                out[free] += np.log1p(-h[j])
                out[having[j]] += np.log(h[j]) - np.log1p(-h[j])
        if h is None:
            out[allowed] = self._log_probability(sizes[allowed], available[allowed])
        return np.where(allowed, out, -np.inf)

    def _log_probability(self, k: Any, m: Any) -> Any:
        """log p(γ) of models of k variables with m available, if all variables have the same h."""
        p = len(self.parents)
        if isinstance(self.prior, BetaBinomial):
            a, b = self.prior.parameters(p)
            return betaln(a + k, b + m - k) - betaln(a, b)
        h = float(self.prior.inclusion(p)[0])
        return k * np.log(h) + (m - k) * np.log1p(-h)

    def log_constant(self, p: int, max_size: int | None = None) -> float:
        """What must be added to ``log_prior`` if models have at most max_size variables."""
        if max_size is None or max_size >= p:
            return 0.0
        return -float(np.log(self._sizes[: max_size + 1].sum()))

    def size_distribution(self, p: int, max_size: int | None = None) -> np.ndarray:
        """Prior probability of each model size 0 … p, shape (p + 1,); an estimate if `simulated`."""
        out = self._sizes.copy()
        if max_size is not None:
            out[max_size + 1 :] = 0.0
        return out / out.sum()

    @cached_property
    def simulated(self) -> bool:
        """Whether sizes are estimated from prior draws, because there are too many sets of parents to enumerate."""
        return self._parent_sets is None

    def count_models(self, max_size: int) -> int:
        """The number of models with at most max_size variables; an upper bound if `simulated`."""
        p = len(self.parents)
        if self._parent_sets is None:
            return sum(comb(p, k) for k in range(max_size + 1))
        total = 0
        for (s, _, leaves), times in self._shapes(self._parent_sets).items():
            total += times * sum(comb(leaves, k) for k in range(max_size - s + 1))
        return total

    @cached_property
    def _parent_sets(self) -> np.ndarray | None:
        """Every set of variables with children that is allowed, (sets, p) bool; None if there are too many."""
        with_children = {i for parents in self.parents for i in parents}
        sets = np.zeros((1, len(self.parents)), bool)
        for j in self.order.tolist():
            if j in with_children:
                more = sets[sets[:, list(self.parents[j])].all(axis=1)]
                more[:, j] = True
                sets = np.concatenate([sets, more])
                if len(sets) * len(self.parents) > MOST_SETS * 128 or len(sets) > MOST_SETS:
                    return None
        return sets

    def _available(self, sets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """For each set of parents, the variables with children and those without that are available."""
        available = np.stack([sets[:, list(parents)].all(axis=1) for parents in self.parents], axis=1)
        with_children = np.zeros(len(self.parents), bool)
        with_children[[i for parents in self.parents for i in parents]] = True
        return available & with_children, available & ~with_children

    def _shapes(self, sets: np.ndarray) -> dict[tuple[int, int, int], int]:
        """(parents in, parents available, others available) → number of sets."""
        inner, leaves = self._available(sets)
        rows = np.stack([sets.sum(axis=1), inner.sum(axis=1), leaves.sum(axis=1)], axis=1)
        shapes, counts = np.unique(rows, axis=0, return_counts=True)
        return {(int(s), int(m), int(n)): int(c) for (s, m, n), c in zip(shapes, counts)}

    @cached_property
    def _sizes(self) -> np.ndarray:
        """The distribution of sizes without a limit, summed over the sets of parents: given these, all other variables
        are independent."""
        p = len(self.parents)
        out = np.zeros(p + 1)
        sets = self._parent_sets
        if sets is None:
            rng = np.random.Generator(np.random.PCG64DXSM(0))
            for coins in self._coins(rng, max(2000, min(SIMULATED, 60_000_000 // p))):
                out += np.bincount(coins.sum(axis=1), minlength=p + 1)
            return out / out.sum()
        if not isinstance(getattr(self.prior, "h", None), tuple):  # only the numbers of variables matter
            for (s, m, n), times in self._shapes(sets).items():
                k = np.arange(n + 1)
                ways = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
                out[s : s + n + 1] += times * np.exp(ways + self._log_probability(s + k, m + n))
            return out / out.sum()
        h = self.prior.inclusion(p)
        for some in np.array_split(sets, max(1, len(sets) * (p + 1) // DRAWN_AT_ONCE)):
            inner, leaves = self._available(some)
            weight = np.exp(some @ np.log(h) + (inner & ~some) @ np.log1p(-h))
            sizes = np.zeros((len(some), p + 1))
            sizes[np.arange(len(some)), some.sum(axis=1)] = weight
            for j in np.flatnonzero(leaves.any(axis=0)):
                chance = np.where(leaves[:, j], h[j], 0.0)[:, None]
                sizes[:, 1:] = sizes[:, 1:] * (1 - chance) + sizes[:, :-1] * chance
                sizes[:, :1] *= 1 - chance
            out += sizes.sum(axis=0)
        return out / out.sum()

    # --- draws

    def draw(self, rng: np.random.Generator, p: int, max_size: int | None = None) -> np.ndarray:
        """The variables of one model drawn from the prior, sorted."""
        return self.draws(rng, 1, max_size)[0]

    def draws(self, rng: np.random.Generator, n: int, max_size: int | None = None) -> list[np.ndarray]:
        """n models drawn from the prior; models with more than max_size variables are drawn again."""
        p = len(self.parents)
        most = p if max_size is None else max_size
        models: list[np.ndarray] = []
        for coins in self._coins(rng, 100_000 + 100 * n, n):
            models += [np.flatnonzero(row) for row in coins[coins.sum(axis=1) <= most]]
            if len(models) >= n:
                return models[:n]
        raise DataError(
            f"hardly any model drawn from {self!r} has at most max_size = {most} variables; lower the prior's "
            "inclusion probability, or raise max_size"
        )

    def _coins(self, rng: np.random.Generator, n: int, first: int | None = None) -> Iterator[np.ndarray]:
        """n models drawn without a limit on their size, in blocks of rows (…, p) bool of at most `first` rows."""
        p = len(self.parents)
        done = 0
        while done < n:
            rows = max(1, min(n - done, first or n, DRAWN_AT_ONCE // p))
            if isinstance(self.prior, BetaBinomial):
                h = rng.beta(*self.prior.parameters(p), size=(rows, 1))
            else:
                h = self.prior.inclusion(p)
            coins = rng.random((rows, p)) < h
            for children, parents in self._families:
                coins[:, children] &= coins[:, parents].all(axis=2)
            yield coins
            done += rows

    @cached_property
    def _families(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Children (c,) and their parents (c, number), grouped by depth and number of parents, in order of depth."""
        children = [j for j in self.order.tolist() if self.parents[j]]

        def kind(j: int) -> tuple[int, int]:
            return int(self._depth[j]), len(self.parents[j])

        groups = [list(members) for _, members in groupby(sorted(children, key=kind), key=kind)]
        return [(np.array(js), np.array([self.parents[j] for j in js])) for js in groups]

    # --- input of the kernels

    def kernel_terms(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """(log odds, terms by size, links, terms of availability): see ``ModelPrior`` in _kernels/target.py.

        Their sum is ``log_prior``. Shapes (p,), (p + 1,), (…,), (p + 1, 3).
        """
        p = len(self.parents)
        roots = sum(not parents for parents in self.parents)
        children: list[list[int]] = [[] for _ in range(p)]
        for j, parents in enumerate(self.parents):
            for i in parents:
                children[i].append(j)
        lists = [*self.parents, *children]
        first = 1 + len(lists) + 1 + p
        starts = first + np.concatenate([[0], np.cumsum([len(x) for x in lists])])
        links = np.concatenate([[roots], starts, self.order, *(np.array(x, np.int64) for x in lists)])
        terms = np.zeros((p + 1, 3))
        if isinstance(self.prior, BetaBinomial):
            a, b = self.prior.parameters(p)
            number = np.arange(p + 1)
            log_odds, log_size = np.zeros(p), _log_rising(a, number, 0)
            terms[:, 1] = _log_rising(b, number, roots)
            terms[:, 2] = -_log_rising(a + b, number, roots)
        else:
            h = self.prior.inclusion(p)
            log_odds, log_size = np.log(h) - np.log1p(-h), np.zeros(p + 1)
            terms[:p, 0] = np.log1p(-h)
        log_size = log_size + self.log_prior([], p)  # it is 0 for the null model before
        return log_odds, log_size, np.ascontiguousarray(links, np.int64), terms


def _log_rising(x: float, number: np.ndarray, base: int) -> np.ndarray:
    """log Γ(x + number) − log Γ(x + base) for numbers 0, 1, 2, …"""
    if x < LARGE:
        return gammaln(x + number) - gammaln(x + base)
    sums = np.concatenate([[0.0], np.cumsum(np.log(x + number[:-1]))])
    return sums - sums[base]


def given_parents(prior: ModelPrior, parents: tuple[tuple[int, ...], ...]) -> ConditionalPrior:
    """`prior` under heredity. If it is given by an expected `size`, h or Beta(1, b) is chosen such that this remains the
    expected number of variables, although some of them are not always available.

    Examples
    --------
    >>> prior = given_parents(FixedInclusion(size=1), ((), (), (0, 1)))
    >>> round(float(prior.inclusion(3).sum()), 9), prior.prior.h > 1 / 3
    (1.0, True)
    """
    if not isinstance(prior, (FixedInclusion, BetaBinomial)):
        raise DataError(f"heredity needs FixedInclusion or BetaBinomial as model_prior, not {prior}")
    plain = ConditionalPrior(prior, parents)
    p, size = len(parents), prior.size
    if size is None:
        return plain
    prior.inclusion(p)  # an error if `size` is too large
    from scipy.optimize import brentq  # slow to import, and few problems have heredity

    needed, times = np.unique([1 + len(plain.ancestors(j)) for j in range(p)], return_counts=True)
    if isinstance(prior, FixedInclusion):
        log_h = brentq(lambda x: times @ np.exp(needed * x) - size, np.log(size / p / 2), 0.0)
        return ConditionalPrior(FixedInclusion(h=float(np.exp(log_h))), parents)

    def excess(log_b: float) -> float:  # E[hˢ] = s! Γ(1 + b)/Γ(1 + b + s)
        b = np.exp(log_b)
        return float(times @ np.exp(gammaln(needed + 1) + gammaln(1 + b) - gammaln(1 + b + needed)) - size)

    def excess_of_rare(log_b: float) -> float:  # relative to `size`; the same by a product, as b is large
        factors = [np.prod(np.arange(1, s + 1) / (np.exp(log_b) + np.arange(1, s + 1))) for s in needed]
        return float(times @ factors / size - 1)

    if p / size > LARGE:
        log_b = brentq(excess_of_rare, 0.0, np.log(p / size) + 1.0)
    else:
        log_b = brentq(excess, -40.0, 25.0)
    return ConditionalPrior(BetaBinomial(a=1.0, b=float(np.exp(log_b))), parents)


def read_heredity(
    heredity: Any, names: list[str], kept: list[str], always: list[str]
) -> tuple[tuple[int, ...], ...] | None:
    """The parents of each of the variables `kept`; None if none has any.

    names: all variables. A variable that was left out, because it adds nothing to the always-included columns, counts as
    being in every model, and its children inherit its parents. Always-included columns are in every model too.
    """
    if heredity is None:
        return None
    if not isinstance(heredity, Mapping):
        raise ArgumentTypeError(
            f'heredity must be a mapping from a variable to its parents, such as {{"a:b": ["a", "b"]}}; not {heredity!r}'
        )
    parents: dict[str, list[str]] = {}
    known = [*names, *always]
    every, in_every_model = set(known), set(always)
    for child, given in heredity.items():
        (name,) = _find([child], known, every, "heredity")
        if name in in_every_model:
            raise DataError(f"heredity: {name!r} is always included, so it cannot depend on parents")
        named = _find(given, known, every, f"heredity[{name!r}]")
        parents[name] = [i for i in named if i not in in_every_model]
    _check_no_circle(parents)
    place = {name: j for j, name in enumerate(kept)}

    def parents_of(name: str) -> set[int]:
        indices: set[int] = set()
        for parent in parents.get(name, []):
            indices |= {place[parent]} if parent in place else parents_of(parent)
        return indices

    read = tuple(tuple(sorted(parents_of(name))) for name in kept)
    return read if any(read) else None


def _find(wanted: Any, known: list[str], every: set[str], what: str) -> list[str]:
    """Names of variables given by name or index. If all are names they are looked up directly, as there may be many."""
    if not isinstance(wanted, str) and isinstance(wanted, Iterable):
        wanted = list(wanted)
        if all(isinstance(name, str) and name in every for name in wanted):
            return list(dict.fromkeys(wanted))
    return [known[i] for i in find_columns(wanted, known, what)]


def _check_no_circle(parents: dict[str, list[str]]) -> None:
    done: set[str] = set()

    def visit(name: str, path: list[str]) -> None:
        if name in path:
            circle = " needs ".join(map(repr, [*path[path.index(name) :], name]))
            raise DataError(f"heredity is circular: {circle}; none of them could ever be in a model")
        if name not in done:
            for parent in parents.get(name, []):
                visit(parent, [*path, name])
            done.add(name)

    for name in parents:
        visit(name, [])
