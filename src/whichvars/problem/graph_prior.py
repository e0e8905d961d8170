r"""A prior on models in which variables that are joined by an edge of a graph attract or repel one another (Markov random field, Ising prior).

.. math:: p(\gamma) = \frac1Z \exp\Big(\sum_j a_j\gamma_j + \sum_{(i, j)} b_{ij}\gamma_i\gamma_j\Big), \qquad a_j = \log\frac{h_j}{1 - h_j}

The normalising constant Z is computed by eliminating one variable after the other, always one with the fewest neighbours left: a table over the states
of the neighbours takes its place. This is exact, and possible if no table has more than MOST_NEIGHBOURS variables, as for chains, trees, small groups
and narrow bands. Read backwards, the tables give independent draws from the prior, from which inclusion probabilities and the distribution of the
size are estimated.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from whichvars.data.frames import suggest
from whichvars.errors import ArgumentTypeError, DataError
from whichvars.problem.prior_numbers import numbers, per_variable, written

# most variables in a table
MOST_NEIGHBOURS = 16
# draws for inclusion probabilities and sizes, and the random numbers for them
SIMULATED, NUMBERS = 100_000, 20_000_000
# largest strength of an edge, by its absolute value
STRONGEST = 20.0


@dataclass(frozen=True, repr=False)
class MarkovRandomField:
    r"""Ising prior: variables joined by an edge are in the model together more often (or less often) than independent ones.

    :math:`p(\gamma) \propto \prod_j \big(\frac{h_j}{1 - h_j}\big)^{\gamma_j} \prod_{(i, j)} e^{b_{ij} \gamma_i \gamma_j}`. If a neighbour is in the model,
    the prior odds of a variable are multiplied by e^b. It is for knowledge of which variables act together: genes of a pathway, neighbouring
    places or wavelengths (Li and Zhang 2010). With a negative strength between variables that are nearly the same, it dilutes the prior among
    them. A strength of many edges adds up: from some value on nearly all variables are in, so look at ``size_distribution`` first.

    Parameters
    ----------
    edges : sequence of pairs
        Pairs of variables, by name or by index.
    strength : float or sequence of float
        b, one for all edges or one for each, between −20 and 20.
    h : float or sequence of float
        Prior probability of a variable none of whose neighbours is in: one for all, or one per variable.

    Examples
    --------
    >>> prior = MarkovRandomField([(0, 1), (1, 2)], strength=1.0, h=0.2)
    >>> prior
    MarkovRandomField(edges=((0, 1), (1, 2)), strength=1.0, h=0.2)
    >>> round(float(np.exp(prior.log_constant(3))), 4)  # the probability of the null model
    0.441
    """

    edges: tuple[tuple[Any, Any], ...]
    strength: float | tuple[float, ...] = 1.0
    h: float | tuple[float, ...] = 0.5

    def __post_init__(self) -> None:
        object.__setattr__(self, "edges", _read_edges(self.edges))
        object.__setattr__(self, "h", numbers(self.h, "h", self, below_one=True))
        object.__setattr__(self, "strength", _read_strength(self.strength, len(self.edges)))

    __repr__ = written

    def resolved(
        self, names: Sequence[str], kept: Sequence[int], count: int, left_out: Iterable[str] = ()
    ) -> "MarkovRandomField":
        """The same prior with indices for names, where of `count` variables only those `kept` are left, which have these names. Edges to those
        that were left out are left out too."""
        place, by_index = {name: j for j, name in enumerate(names)}, {i: j for j, i in enumerate(kept)}
        edges: list[tuple[int, int]] = []
        strength = []
        for edge, value in zip(self.edges, self.couplings()):
            ends = []
            for end in edge:
                if isinstance(end, str):
                    if end not in place and end not in left_out:
                        raise DataError(
                            f"MarkovRandomField: edges: there is no variable {end!r}{suggest(end, list(names))}"
                        )
                    ends += [place[end]] if end in place else []
                elif not 0 <= end < count:
                    raise DataError(
                        f"MarkovRandomField: edges: there is no variable {end}; there are {count}, 0 to {count - 1}"
                    )
                else:
                    ends += [by_index[end]] if end in by_index else []
            if len(ends) == 2:
                edges.append((min(ends), max(ends)))
                strength.append(float(value))
        for a, b in edges:
            if a == b:
                raise DataError(f"MarkovRandomField: an edge joins {names[a]!r} with itself")
            if edges.count((a, b)) > 1:
                raise DataError(f"MarkovRandomField: the edge of {names[a]!r} and {names[b]!r} occurs twice")
        if not edges:
            raise DataError(
                "MarkovRandomField: no edge joins two variables that are left; use FixedInclusion(h=…)"
            )
        same = self.strength if isinstance(self.strength, float) else tuple(strength)
        return MarkovRandomField(tuple(edges), same, self.h)

    def couplings(self) -> np.ndarray:
        """The strength of each edge."""
        return np.broadcast_to(np.asarray(self.strength, float), (len(self.edges),)).copy()

    def log_terms(self, p: int) -> tuple[np.ndarray, np.ndarray]:
        """(log odds of each variable, term by size), without the edges. Shapes (p,), (p + 1,)."""
        h = per_variable(self.h, p, "MarkovRandomField: h")
        return np.log(h) - np.log1p(-h), np.zeros(p + 1)

    def log_constant(self, p: int, max_size: int | None = None) -> float:
        """What must be added to the sum of the terms to give the log of a probability."""
        return -_eliminated(self, p).log_sum

    def inclusion(self, p: int) -> np.ndarray:
        """Prior inclusion probability of each of p variables, shape (p,), from simulated draws if it has neighbours."""
        return _simulated(self, p)[0].copy()

    def size_distribution(self, p: int, max_size: int | None = None) -> np.ndarray:
        """Prior probability of each model size 0 … p, shape (p + 1,), from simulated draws."""
        return _simulated(self, p)[1].copy()

    def draw(self, rng: np.random.Generator, p: int, max_size: int | None = None) -> np.ndarray:
        """The variables of one model drawn from the prior, sorted."""
        return np.flatnonzero(_draws(self, p, rng, 1)[0])

    def log_priors(self, members: np.ndarray, start: np.ndarray, p: int) -> np.ndarray:
        """Sums of the terms of models, shape (models,): model i is members[start[i] : start[i + 1]]."""
        sizes = np.diff(start)
        owner = np.repeat(np.arange(len(sizes)), sizes)
        value = np.bincount(owner, self.log_terms(p)[0][members], len(sizes)).astype(float)
        having = {v: np.zeros(len(sizes), bool) for edge in self.edges for v in edge}
        for v, inside in having.items():
            inside[owner[members == v]] = True
        for (a, b), strength in zip(self.edges, self.couplings()):
            value += strength * (having[a] & having[b])
        return value

    def kernel_terms(self, p: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """(log odds, terms by size, links, strengths): see ``ModelPrior`` in _kernels/target.py."""
        neighbours: list[list[tuple[int, float]]] = [[] for _ in range(p)]
        for (a, b), strength in zip(self.edges, self.couplings()):
            neighbours[a].append((b, strength))
            neighbours[b].append((a, strength))
        starts = 2 + p + np.concatenate([[0], np.cumsum([len(some) for some in neighbours])])
        links = np.concatenate(
            [[-1], starts, np.array([v for some in neighbours for v, _ in some], np.int64)]
        )
        terms = np.zeros((len(links) - p - 2, 3))
        terms[:, 0] = [s for some in neighbours for _, s in some]
        log_odds, log_size = self.log_terms(p)
        return log_odds, log_size, np.ascontiguousarray(links, np.int64), terms


def _read_edges(edges: Any) -> tuple[tuple[Any, Any], ...]:
    if isinstance(edges, (str, bytes)) or not isinstance(edges, Iterable):
        raise ArgumentTypeError(f"MarkovRandomField: edges must be pairs of variables, not {edges!r}")
    read: list[tuple[Any, Any]] = []
    for edge in edges:
        pair = () if isinstance(edge, (str, bytes)) or not isinstance(edge, Iterable) else tuple(edge)
        good = all(isinstance(end, (str, int, np.integer)) and not isinstance(end, bool) for end in pair)
        if len(pair) != 2 or not good:
            raise ArgumentTypeError(
                f"MarkovRandomField: an edge must be a pair of names or indices, not {edge!r}"
            )
        first, second = (end if isinstance(end, str) else int(end) for end in pair)
        read.append((first, second))
    if not read:
        raise DataError("MarkovRandomField: edges is empty; use FixedInclusion(h=…)")
    return tuple(read)


def _read_strength(strength: Any, count: int) -> float | tuple[float, ...]:
    values = np.asarray(strength)
    if values.dtype.kind not in "fiu" or values.ndim > 1:
        raise ArgumentTypeError(
            f"MarkovRandomField: strength must be a number, or one for each edge, not {strength!r}"
        )
    if values.ndim == 1 and len(values) != count:
        raise DataError(f"MarkovRandomField: strength has {len(values)} values but there are {count} edges")
    if not (np.abs(values) <= STRONGEST).all():
        raise DataError(
            f"MarkovRandomField: strength must lie between -{STRONGEST:g} and {STRONGEST:g}, not {strength!r}"
        )
    return float(values) if values.ndim == 0 else tuple(float(v) for v in values)


class _Eliminated(NamedTuple):
    log_sum: float  # log Z
    # in the order of elimination: a variable, its neighbours then, and its log odds given their states, (2, 2, …)
    steps: list[tuple[int, tuple[int, ...], np.ndarray]]
    free: np.ndarray  # (p,) bool: variables without neighbours


@lru_cache(maxsize=8)
def _eliminated(prior: MarkovRandomField, p: int) -> _Eliminated:
    log_odds = prior.log_terms(p)[0]
    factors: dict[int, list[tuple[tuple[int, ...], np.ndarray]]] = {}
    near: dict[int, set[int]] = {}
    for (a, b), strength in zip(prior.edges, prior.couplings()):
        table = np.zeros((2, 2))
        table[1, 1] = strength
        for one, other in ((a, b), (b, a)):
            factors.setdefault(one, []).append(((a, b), table))
            near.setdefault(one, set()).add(other)
    free = np.ones(p, bool)
    free[list(near)] = False
    total, steps = float(np.logaddexp(0.0, log_odds[free]).sum()), []
    while near:
        v = min(near, key=lambda j: (len(near[j]), j))
        others = tuple(sorted(near.pop(v)))
        if len(others) > MOST_NEIGHBOURS:
            raise DataError(
                f"MarkovRandomField: the graph is too dense for its normalising constant: a table of {len(others)} variables would be needed, and "
                f"{MOST_NEIGHBOURS} are possible. Use fewer edges, such as those of a chain, a tree or small groups"
            )
        scope = (v, *others)
        table = np.zeros((2,) * len(scope))
        table[1] += log_odds[v]
        for members, values in factors.pop(v):
            axes = [scope.index(m) for m in members]
            shape = [2 if k in axes else 1 for k in range(len(scope))]
            table += np.transpose(values, np.argsort(axes)).reshape(shape)
            for m in members:
                if m != v:
                    factors[m] = [one for one in factors[m] if one[1] is not values]
        steps.append((v, others, table[1] - table[0]))
        message = np.logaddexp(table[0], table[1])
        for m in others:
            near[m] |= {*others} - {m}
            near[m].discard(v)
        if others:
            for m in others:
                factors[m].append((others, message))
        else:
            total += float(message)
    return _Eliminated(total, steps, free)


def _draws(prior: MarkovRandomField, p: int, rng: np.random.Generator, n: int) -> np.ndarray:
    """n models drawn from the prior, (n, p) bool."""
    done, log_odds = _eliminated(prior, p), prior.log_terms(p)[0]
    inside = np.zeros((n, p), bool)
    inside[:, done.free] = rng.random((n, int(done.free.sum()))) < expit(log_odds[done.free])
    for v, others, odds in reversed(done.steps):
        given = odds[tuple(inside[:, m].astype(np.int64) for m in others)]
        inside[:, v] = rng.random(n) < expit(given)
    return inside


@lru_cache(maxsize=8)
def _simulated(prior: MarkovRandomField, p: int) -> tuple[np.ndarray, np.ndarray]:
    """Inclusion probabilities (p,) and the distribution of the size (p + 1,), from draws with a seed of their own."""
    rng, n = np.random.default_rng(20_100_105), max(1000, min(SIMULATED, NUMBERS // p))
    mean, sizes, done = np.zeros(p), np.zeros(p + 1), 0
    while done < n:
        inside = _draws(prior, p, rng, min(n - done, max(1, 4_000_000 // p)))
        mean += inside.sum(axis=0)
        sizes += np.bincount(inside.sum(axis=1), minlength=p + 1)
        done += len(inside)
    free = _eliminated(prior, p).free
    return np.where(free, expit(prior.log_terms(p)[0]), mean / done), sizes / done
