"""A random generator that takes every branch: the exact law of a piece of code that draws uniforms.

``law(function)`` calls ``function(rng)`` once for every sequence of outcomes it can have and returns the exact
probability of each result. Uniforms from ``rng.random()`` know the interval they lie in; comparing one with a
number splits the interval, ``int(u * n)`` splits it at the whole numbers. The code under test runs as it is,
with the JIT disabled.

>>> law(lambda rng: rng.random() < 0.25)
{False: 0.75, True: 0.25}
>>> law(lambda rng: int(rng.random() * 4) // 3)
{0: 0.75, 1: 0.25}
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Iterator
from typing import Any

import numpy as np


class Branching:
    """Stands in for ``numpy.random.Generator``."""

    def __init__(self) -> None:
        self.path: list[int] = []  # outcome of each choice
        self.weights: list[list[float]] = []  # probabilities of the outcomes of each choice
        self.depth = 0

    def random(self) -> Uniform:
        return Uniform(self, _Interval())

    def choose(self, probabilities: list[float]) -> int:
        """One of the outcomes, as the path says; the first that is possible where the path ends."""
        if self.depth == len(self.path):
            self.path.append(next(i for i, p in enumerate(probabilities) if p > 0))
            self.weights.append(probabilities)
        outcome = self.path[self.depth]
        if self.weights[self.depth] != probabilities:
            raise RuntimeError("the code under test did something else when it was run again")
        self.depth += 1
        return outcome

    @property
    def probability(self) -> float:
        return math.prod(p[i] for p, i in zip(self.weights, self.path))

    def advance(self) -> bool:
        """On to the next path; False if there is none."""
        self.depth = 0
        while self.path:
            probabilities = self.weights[-1]
            for outcome in range(self.path[-1] + 1, len(probabilities)):
                if probabilities[outcome] > 0:
                    self.path[-1] = outcome
                    return True
            self.path.pop()
            self.weights.pop()
        return False


class _Interval:
    """Where a uniform lies, given the comparisons so far; shared by everything computed from it."""

    def __init__(self) -> None:
        self.low, self.high = 0.0, 1.0


class Uniform:
    """slope · u + shift, u uniform on (0, 1)."""

    __array_ufunc__ = None  # numpy's numbers leave arithmetic and comparisons to this class
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, rng: Branching, interval: _Interval, slope: float = 1.0, shift: float = 0.0) -> None:
        self.rng, self.interval, self.slope, self.shift = rng, interval, slope, shift

    def _affine(self, slope: float, shift: float) -> Uniform:
        return Uniform(self.rng, self.interval, slope, shift)

    def __mul__(self, factor: Any) -> Uniform:
        return self._affine(self.slope * float(factor), self.shift * float(factor))

    def __truediv__(self, divisor: Any) -> Uniform:
        return self._affine(self.slope / float(divisor), self.shift / float(divisor))

    def __add__(self, number: Any) -> Uniform:
        return self._affine(self.slope, self.shift + float(number))

    def __sub__(self, number: Any) -> Uniform:
        return self + -float(number)

    def __neg__(self) -> Uniform:
        return self * -1.0

    def __rsub__(self, number: Any) -> Uniform:
        return -self + number

    __rmul__ = __mul__
    __radd__ = __add__

    def _below(self, number: float) -> bool:
        """Whether slope · u + shift < number."""
        if math.isnan(number):
            raise ValueError("a uniform was compared with NaN")
        if self.slope == 0:
            return self.shift < number
        at = (number - self.shift) / self.slope
        interval = self.interval
        share = min(max((at - interval.low) / (interval.high - interval.low), 0.0), 1.0)
        left = self.rng.choose([1.0 - share, share]) == 1  # u < at
        if left:
            interval.high = min(interval.high, at)
        else:
            interval.low = max(interval.low, at)
        return left == (self.slope > 0)

    def __lt__(self, number: Any) -> bool:
        return self._below(float(number))

    __le__ = __lt__  # equality has probability zero

    def __gt__(self, number: Any) -> bool:
        return not self._below(float(number))

    __ge__ = __gt__

    def __int__(self) -> int:
        if self.slope < 0 or self.shift < 0:
            raise NotImplementedError("int() of a uniform that may be negative")
        low = self.slope * self.interval.low + self.shift
        high = self.slope * self.interval.high + self.shift
        first, last = math.floor(low), math.ceil(high)
        if high - low <= 0:
            return first
        edges = [low, *range(first + 1, last), high]
        shares = [(b - a) / (high - low) for a, b in itertools.pairwise(edges)]
        chosen = self.rng.choose(shares)
        if len(shares) > 1:
            old_low, old_high = self.interval.low, self.interval.high
            self.interval.low = max(old_low, (edges[chosen] - self.shift) / self.slope)
            self.interval.high = min(old_high, (edges[chosen + 1] - self.shift) / self.slope)
        return first + chosen

    __trunc__ = __floor__ = __int__

    def __float__(self) -> float:
        raise NotImplementedError(
            "a uniform can only be compared, shifted, scaled and truncated here; set the sampler under test to a "
            "path without logarithms of uniforms"
        )


def law(function: Callable[[Branching], Hashable], most: int = 1_000_000) -> dict[Any, float]:
    """Exact probability of every result of `function`, which must depend on nothing but its argument."""
    rng = Branching()
    results: dict[Any, list[float]] = {}
    for _ in range(most):
        result = function(rng)
        results.setdefault(result, []).append(rng.probability)
        if not rng.advance():
            return {key: math.fsum(results[key]) for key in sorted(results)}
    raise RuntimeError(f"more than {most:,} paths")


def starting_point(*objects: Any) -> Callable[[], None]:
    """Call what this returns to have the objects as they are now, arrays and all: so that what is run once for every path need not
    be made anew. Their attributes may be replaced in between, and the numbers of arrays in them changed."""
    attributes = [
        (thing, {name: list(v) if isinstance(v, list) else v for name, v in vars(thing).items()})
        for thing in objects
    ]
    arrays = {id(array): array for thing in objects for array in _arrays_in(list(vars(thing).values()))}
    copies = [(array, array.copy()) for array in arrays.values() if array.size]

    def restore() -> None:
        for thing, kept in attributes:
            vars(thing).clear()
            vars(thing).update({name: list(v) if isinstance(v, list) else v for name, v in kept.items()})
        for array, copy in copies:
            array[...] = copy

    return restore


def _arrays_in(thing: Any) -> Iterator[np.ndarray]:
    if isinstance(thing, np.ndarray):
        yield thing
    elif isinstance(thing, (tuple, list)):
        for part in thing:
            yield from _arrays_in(part)
    elif hasattr(thing, "__dict__") and type(thing).__module__.startswith("whichvars"):
        yield from _arrays_in(list(vars(thing).values()))


def draw_additions_by_coins(informed: Any, position: Any, rng: Any, out: Any) -> int:
    """In place of ``_kernels.informed.draw_additions``, which takes logarithms of uniforms: a coin for each variable
    that is out, with the same probability ζ min{1, odds}."""
    zeta, count = informed.floats[0], 0
    for j in range(len(position)):
        if position[j] < 0 and rng.random() < zeta * informed.values[j, 0]:
            out[count] = j
            count += 1
    return count


def draw_entering_by_sums(informed: Any, position: Any, rng: Any) -> int:
    """In place of ``_kernels.informed.draw_entering``, which tries until it finds a variable that is out: the same
    law by running sums."""
    out = [j for j in range(len(position)) if position[j] < 0]
    u = rng.random() * float(sum(informed.values[j, 3] for j in out))
    for j in out[:-1]:
        if u < informed.values[j, 3]:
            return j
        u = u - informed.values[j, 3]
    return out[-1]
