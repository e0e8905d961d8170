r"""Independent Bernoulli draws, one per variable, at a cost that depends on the number of successes and not
on p.

Variables stand in *buckets* by the binary exponent of their probability A_j: bucket b holds 2^{−b−1} ≤ A_j <
2^{−b}. Over the members of the buckets, laid end to end, each in a segment of length −log(1 − 2^{−b}), runs a
Poisson process of rate 1: a segment is hit with probability 2^{−b}, independently of the others. A hit is
kept with probability A_j/2^{−b} ≥ ½. So the number of random numbers is about the number of successes,
whatever p is, and the law is exactly that of p independent coins.

Bucket 0 (A_j ≥ ½) has no such segment and is visited one by one.
"""

import math
from typing import NamedTuple

import numpy as np

from whichvars._kernels.jit import by_reference, inlined, kernel

BUCKETS = 48  # down to 2^−48; smaller probabilities stand in the last one

# length of a segment in each bucket
SEGMENT = np.array([np.inf] + [-math.log1p(-(2.0**-b)) for b in range(1, BUCKETS)])


@by_reference
class Buckets(NamedTuple):
    bucket: np.ndarray  # (p,) int8
    place: np.ndarray  # (p,) int32: where a variable stands in `members`
    members: np.ndarray  # (p,) int32: variables, ordered by bucket
    start: np.ndarray  # (BUCKETS + 1,) int64: where each bucket starts in `members`
    segment: np.ndarray  # (BUCKETS,)


def new_buckets(probability: np.ndarray) -> Buckets:
    """Buckets for the given probabilities, shape (p,)."""
    bucket = np.clip(-np.frexp(probability)[1], 0, BUCKETS - 1).astype(np.int8)
    members = np.argsort(bucket, kind="stable").astype(np.int32)
    place = np.empty_like(members)
    place[members] = np.arange(len(members), dtype=np.int32)
    start = np.searchsorted(bucket[members], np.arange(BUCKETS + 1)).astype(np.int64)
    return Buckets(bucket, place, members, start, SEGMENT.copy())


@inlined
def bucket_of(probability):
    """The bucket of a probability."""
    return min(max(-math.frexp(probability)[1], 0), BUCKETS - 1)


@kernel
def move_between_buckets(bucket, place, members, start, j, to):
    """Put variable j into bucket `to`: one exchange at each border it crosses."""
    b = bucket[j]
    while b < to:  # to the end of its bucket, then over the border
        last = start[b + 1] - 1
        other, here = members[last], place[j]
        members[here], members[last] = other, j
        place[other], place[j] = here, last
        start[b + 1] = last
        b += 1
    while b > to:
        first = start[b]
        other, here = members[first], place[j]
        members[here], members[first] = other, j
        place[other], place[j] = here, first
        start[b] = first + 1
        b -= 1
    bucket[j] = to


@kernel
def draw_successes(members, start, segment, values, position, rng, out):
    """Draw all variables with position < 0 (not in the model) with probabilities values[j, 0]; successes into
    `out`.

    Returns their number.
    """
    count = 0
    for i in range(start[0], start[1]):
        j = members[i]
        if rng.random() < values[j, 0] and position[j] < 0:
            out[count] = j
            count += 1
    return draw_by_process(members, start, segment, 1, 1.0, 1.0, values, position, rng, out, count)


@inlined
def draw_by_process(members, start, segment, first, largest, scale, values, position, rng, out, count):
    """The Poisson process over the buckets from number `first` on. Bucket b has segments for the probability `largest`·2^−b, and a
    variable has the probability `scale`·values[j, 0]. `count` successes are in `out` already; returns how many there are then."""
    ahead = -math.log(1.0 - rng.random())  # distance to the next point of the process
    for b in range(first, BUCKETS):
        size = start[b + 1] - start[b]
        length = segment[b] * size
        if ahead < length:
            at = 0.0
            last = -1
            rate = math.ldexp(largest, -b)
            while at + ahead < length:
                at += ahead
                i = min(int(at / segment[b]), size - 1)
                if i > last:  # a second point in one segment counts once
                    last = i
                    j = members[start[b] + i]
                    if rng.random() * rate < scale * values[j, 0] and position[j] < 0:
                        out[count] = j
                        count += 1
                ahead = -math.log(1.0 - rng.random())
            ahead -= length - at
        else:
            ahead -= length
    return count


@kernel
def draw_successes_one_by_one(values, position, rng, out):
    """The same law by p coins."""
    count = 0
    for j in range(values.shape[0]):
        if rng.random() < values[j, 0] and position[j] < 0:
            out[count] = j
            count += 1
    return count
