"""Rao–Blackwell sums: the conditional inclusion probabilities p_j(γ) of all variables, summed along a chain.

Their mean estimates the same PIPs as the shares of iterations do, with less noise: a variable that is never
in the model still has its small probability counted. They come from a scan of all p variables, so one is made
only now and then: as often as a scan is worth iterations, by its number of products and not by a clock, so
that results repeat. The interval is fixed when counting begins: one that followed the size of the model would
favour some models over others.

*Groups* are runs of equally many scans; when there is no more room, neighbours are merged and the length
doubles (as the batches of ``tally``). The spread of their means is the Monte Carlo error.
"""

from typing import NamedTuple

import numpy as np

from whichvars._kernels.jit import by_reference, kernel
from whichvars._kernels.products.gram_cache import dot_length
from whichvars._kernels.products.stored import NOT_STORED
from whichvars._kernels.scan.scan import tempered_scan
from whichvars._kernels.scan.scan_work import Scan, new_scan, no_scan, probability
from whichvars._kernels.target import Target

NEVER = np.iinfo(np.int64).max
# memory for the rows of Z that scans keep. It is small, as most of a large model may have changed between two scans
AVERAGES_Z_BYTES = 1 << 20

# places in Averages.ints
NEXT_SCAN = 0  # iteration after which the next scan is made
GROUP = 1  # the current group
GROUP_LENGTH = 2  # scans in a group
IN_GROUP = 3  # scans in the current group
SCANS = 4
SCAN_INTERVAL = 5  # iterations from one scan to the next
N_INTS = 6


@by_reference
class Averages(NamedTuple):
    ints: np.ndarray
    running: np.ndarray  # (p,) sum over the current group
    groups: np.ndarray  # (groups, p) float32: sum of each complete group
    scan: Scan


def new_averages(target: Target, capacity: int, groups: int, columns: int, nanoseconds: float) -> Averages:
    """Empty sums, in `groups`/2 to `groups` groups.

    A scan is made each time that iterations have taken about as long as a scan takes. `columns` is the size of the model
    that is scanned, and `nanoseconds` is the time of one iteration.
    """
    p = len(target.design.offsets) - 1
    ints = np.zeros(N_INTS, np.int64)
    ints[GROUP_LENGTH] = 1
    ints[SCAN_INTERVAL] = ints[NEXT_SCAN] = 1 + int(scan_cost(target, columns, columns) / nanoseconds)
    work = new_scan(target, capacity, AVERAGES_Z_BYTES)
    return Averages(ints, np.zeros(p), np.zeros((groups, p), np.float32), work)


def no_averages() -> Averages:
    """Sums of the same type for which no scan is ever made."""
    ints = np.zeros(N_INTS, np.int64)
    ints[NEXT_SCAN] = NEVER
    return Averages(ints, np.zeros(0), np.zeros((0, 0), np.float32), no_scan())


def scan_cost(target: Target, columns: float, rows: float) -> float:
    """Roughly the nanoseconds that a scan takes of a model with so many columns, if `rows` rows of Z must be made."""
    n_columns = int(target.design.offsets[-1])
    n = dot_length(target.design)
    each_row = 0.1 + 0.06 * columns + n / (5 if target.design.stored.code == NOT_STORED else 3)
    return 600.0 + columns * (20.0 + 2.0 * columns) + n_columns * (6.0 + 0.3 * columns + rows * each_row)


def grow_averages(averages: Averages, target: Target, capacity: int) -> Averages:
    """The same sums with room for models of `capacity` columns; the chain's ``SCANNED`` is to be set to 0."""
    if not len(averages.groups):
        return averages
    return averages._replace(scan=new_scan(target, capacity, AVERAGES_Z_BYTES))


@kernel
def add_scan(target, chain, averages):
    """Scan the chain's model, at its temperature, and add its conditional probabilities. Returns what ``scan`` does: 0
    if done."""
    needed = tempered_scan(target, chain, averages.scan)
    if needed == 0:
        add_probabilities(averages, averages.scan.log_odds)
    return needed


@kernel
def add_probabilities(averages, log_odds):
    ints, running = averages.ints, averages.running
    for j in range(running.shape[0]):
        running[j] += probability(log_odds[j])
    ints[SCANS] += 1
    ints[IN_GROUP] += 1
    if ints[IN_GROUP] == ints[GROUP_LENGTH]:
        groups = averages.groups
        for j in range(running.shape[0]):
            groups[ints[GROUP], j] = running[j]
            running[j] = 0.0
        ints[IN_GROUP] = 0
        ints[GROUP] += 1
        if ints[GROUP] == groups.shape[0]:
            _merge_groups(averages)


@kernel
def _merge_groups(averages):
    groups = averages.groups
    half = groups.shape[0] // 2
    for g in range(half):
        for j in range(groups.shape[1]):
            groups[g, j] = groups[2 * g, j] + groups[2 * g + 1, j]
    averages.ints[GROUP] = half
    averages.ints[GROUP_LENGTH] *= 2
