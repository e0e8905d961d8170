"""Searches for models of high posterior probability: forward selection, sequential replacement upwards and downwards, climbs by flips and
swaps, and both of the latter again and again, from models that were disturbed or are rebuilt from a few of their variables.

Everything rests on scans of all one-variable flips (``scan/scan.py``). A scan of the model without variable i gives all swaps of i as
well. A search stops where no step raises the log posterior by more than ``LEAST_GAIN``, so that exact copies of a variable are not
exchanged for one another for ever; and its cost is bounded by a number of scans, not by a clock, so that results repeat.

Where a chain has no room for a model, a search returns ``ROOM`` and is called again when there is room. It goes on from the model that
the chain is at.
"""

from typing import NamedTuple

import numpy as np

from whichvars._kernels.chain import LOG_MARGINAL, LOG_PRIOR, NEEDED, SIZE, accept, change, clear
from whichvars._kernels.evaluate import evaluate, go_to_model
from whichvars._kernels.jit import by_reference, entry, inlined, kernel
from whichvars._kernels.scan.scan import scan

LEAST_GAIN = 1e-7  # in log posterior
# of the disturbances: those that add a variable to which the others adapt, and those that exchange all variables
HELD_SHARE, ALL_SHARE = 0.5, 0.2
# how a search ended: with its work done; with no scan left; waiting for room
DONE, SPENT, ROOM = range(3)
# the searches
CLIMB, ADD_WHILE_BETTER, REPLACE_SEQUENTIALLY, DISTURB_AND_CLIMB, SCAN_ONLY, REBUILD, NOTE_BY_SIZE = range(7)
FROM_BEST = (
    0.7  # of the models that are rebuilt, those that begin with variables of the best one of their size
)

# places in Found.ints
N_FOUND = 0
SCANS_LEFT = 1
KICKS_LEFT = 2


@by_reference
class Found(NamedTuple):
    """Distinct models that a search has found. Where there is no room for one more, the worst of them is given up. Searches by size
    have a place for each: that of size k, if there is one, is at k − 1."""

    ints: np.ndarray  # (3,)
    values: np.ndarray  # (most,): log posterior
    sizes: np.ndarray  # (most,) int64
    members: np.ndarray  # (most, longest) int64


def nothing_found(most: int, longest: int) -> Found:
    return Found(
        np.zeros(3, np.int64), np.zeros(most), np.zeros(most, np.int64),
        np.zeros((most, longest), np.int64),
    )  # fmt: skip


# --- one step


@kernel
def log_posterior_of(chain):
    return chain.floats[LOG_MARGINAL] + chain.floats[LOG_PRIOR]


@kernel
def _propose(target, chain, memo, j):
    clear(chain)
    change(target, chain, j)
    return evaluate(target, chain, memo)


@kernel
def _flip(target, chain, memo, j):
    """Flip j, whatever it does to the posterior. False where the model has no mass, or the chain no room for it."""
    if _propose(target, chain, memo, j) == -np.inf:
        return False
    accept(target, chain)
    return True


@kernel
def _scan(target, chain, work, found):
    """A scan that is counted; False where the chain needs more room for it."""
    needed = scan(target, chain, work)
    if needed > 0:
        chain.ints[NEEDED] = needed
        return False
    found.ints[SCANS_LEFT] -= 1
    return True


@inlined
def _best_addition(chain, log_odds):
    best = -1
    highest = -np.inf
    for j in range(log_odds.shape[0]):
        if chain.position[j] < 0 and highest < log_odds[j] < np.inf:
            best = j
            highest = log_odds[j]
    return best


@inlined
def _worst_member(chain, log_odds):
    """The variable of the model that is missed least."""
    worst = chain.order[0]
    for i in range(1, chain.ints[SIZE]):
        if log_odds[chain.order[i]] < log_odds[worst]:
            worst = chain.order[i]
    return worst


@inlined
def _best_flip(chain, log_odds):
    """The flip that raises the log posterior most; −1 if none does."""
    best = -1
    highest = LEAST_GAIN
    for j in range(log_odds.shape[0]):
        gain = log_odds[j] if chain.position[j] < 0 else -log_odds[j]
        if highest < gain < np.inf:
            best = j
            highest = gain
    return best


# --- searches


@kernel
def _swap(target, chain, memo, work, found, held):
    """Give every variable's place, but that of `held`, to the one that fits best, given the others, until nothing changes.

    A variable that was looked at goes to the end of the order, so that the scan of the next one finds most of its rows as they were.
    """
    settled = 0
    while settled < chain.ints[SIZE]:
        if found.ints[SCANS_LEFT] <= 0:
            return SPENT
        i = chain.order[chain.ints[SIZE] - 1 - settled]
        size = chain.ints[SIZE]
        # heredity may keep it, or the model without it have no mass
        if i == held or not _flip(target, chain, memo, i):
            if settled + 1 >= size:
                return DONE
            settled += 1
            continue
        if not _scan(target, chain, work, found):
            return ROOM
        best = _best_addition(chain, work.log_odds)
        changes = best >= 0 and work.log_odds[best] > work.log_odds[i] + LEAST_GAIN
        if changes and _flip(target, chain, memo, best):
            settled = 1
        elif _flip(target, chain, memo, i):
            settled += 1
        else:
            settled = 0  # rounding allows the model in one order of its columns and not in another
        if chain.ints[NEEDED] > 0:
            return ROOM
    return DONE


@kernel
def _is_found(chain, found):
    """Whether the chain's model is among those found; one of the same size and probability counts as the same, as copies of a variable
    would otherwise take all the places."""
    value, size = log_posterior_of(chain), chain.ints[SIZE]
    for a in range(found.ints[N_FOUND]):
        if found.sizes[a] == size and abs(found.values[a] - value) <= LEAST_GAIN:
            return True
    return False


@kernel
def _climb(target, chain, memo, work, found):
    """Flips and swaps until none raises the log posterior: the chain is then at a mode."""
    while True:
        changed = True
        while changed:
            if found.ints[SCANS_LEFT] <= 0:
                return SPENT
            if not _scan(target, chain, work, found):
                return ROOM
            best = _best_flip(chain, work.log_odds)
            changed = best >= 0 and _flip(target, chain, memo, best)
            if chain.ints[NEEDED] > 0:
                return ROOM
        if _is_found(chain, found):
            return DONE
        before = log_posterior_of(chain)
        ended = _swap(target, chain, memo, work, found, -1)
        if ended != DONE or log_posterior_of(chain) <= before + LEAST_GAIN:
            return ended


@kernel
def note_found(chain, found):
    """Note the chain's model, if it is new and good enough."""
    n = found.ints[N_FOUND]
    value = log_posterior_of(chain)
    size = chain.ints[SIZE]
    if size > found.members.shape[1]:
        return
    if _is_found(chain, found):
        return
    place = n
    if n == found.values.shape[0]:
        place = 0
        for a in range(n):
            if found.values[a] < found.values[place]:
                place = a
        if found.values[place] >= value:
            return
    else:
        found.ints[N_FOUND] += 1
    found.values[place] = value
    found.sizes[place] = size
    for i in range(size):
        found.members[place, i] = chain.order[i]


@kernel
def note_best_of_size(chain, found):
    """Note the chain's model at the place of its size, if it is better than the one there."""
    size, value = chain.ints[SIZE], log_posterior_of(chain)
    place = size - 1
    if size == 0 or size > found.values.shape[0] or size > found.members.shape[1]:
        return
    if found.sizes[place] == size and found.values[place] >= value:
        return
    found.values[place] = value
    found.sizes[place] = size
    for i in range(size):
        found.members[place, i] = chain.order[i]


@kernel
def _climb_and_note(target, chain, memo, work, found):
    """Go to a mode from the chain's model, and note it."""
    ended = _climb(target, chain, memo, work, found)
    if ended == DONE:
        note_found(chain, found)
    return ended


@entry
def select_forward(target, chain, memo, max_size):
    """Add the variable that raises the log posterior most, again and again, until none raises it."""
    p = chain.position.shape[0]
    while chain.ints[SIZE] < max_size:
        best = -1
        gain = 0.0
        for j in range(p):
            if chain.position[j] < 0:
                ratio = _propose(target, chain, memo, j)
                if ratio > gain:
                    best = j
                    gain = ratio
        if best < 0:
            return
        _propose(target, chain, memo, best)
        accept(target, chain)


@kernel
def _add_while_better(target, chain, memo, work, found):
    """``select_forward`` by scans."""
    while found.ints[SCANS_LEFT] > 0:
        if not _scan(target, chain, work, found):
            return ROOM
        best = _best_addition(chain, work.log_odds)
        if best < 0 or work.log_odds[best] <= LEAST_GAIN or not _flip(target, chain, memo, best):
            return ROOM if chain.ints[NEEDED] > 0 else DONE
    return SPENT


@kernel
def _replace_sequentially(target, chain, memo, work, found, largest):
    """At each size up to `largest`: add the best variable, *even where that lowers the posterior*, swap until nothing changes, and
    note the model if it is the best of its size so far."""
    while chain.ints[SIZE] < largest:
        if found.ints[SCANS_LEFT] <= 0:
            return SPENT
        if not _scan(target, chain, work, found):
            return ROOM
        best = _best_addition(chain, work.log_odds)
        if best < 0 or not _flip(target, chain, memo, best):
            return ROOM if chain.ints[NEEDED] > 0 else DONE
        size = chain.ints[SIZE]
        ended = _swap(target, chain, memo, work, found, -1)
        if ended != DONE:
            return ended
        note_best_of_size(chain, found)
        if chain.ints[SIZE] < size:
            return DONE
    return DONE


@kernel
def _reduce_sequentially(target, chain, memo, work, found, smallest):
    """At each size down to `smallest`: delete the variable that is missed least, swap until nothing changes, and note the model if it is
    the best of its size so far."""
    while chain.ints[SIZE] > smallest:
        if found.ints[SCANS_LEFT] <= 0:
            return SPENT
        if not _scan(target, chain, work, found):
            return ROOM
        worst = _worst_member(chain, work.log_odds)
        if not _flip(target, chain, memo, worst):
            return ROOM if chain.ints[NEEDED] > 0 else DONE
        ended = _swap(target, chain, memo, work, found, -1)
        if ended != DONE:
            return ended
        note_best_of_size(chain, found)
    return DONE


@kernel
def _begin_again(target, chain, memo, found, rng, largest):
    """Draw a size up to `largest`, and go to some of the variables of the best model of that size, or to others at random. Returns
    the size."""
    p = chain.position.shape[0]
    size = min(2 + int(rng.random() * (largest - 1)), largest)
    for _ in range(chain.ints[SIZE]):
        if chain.ints[SIZE] > 0:
            _flip(target, chain, memo, chain.order[chain.ints[SIZE] - 1])
    remaining = int(rng.random() * (size - 1))
    from_best = found.sizes[size - 1] == size and rng.random() < FROM_BEST
    for i in range(size):
        if from_best:
            # each of the variables with the same chance
            if rng.random() * (size - i) < remaining:
                remaining -= 1
                _flip(target, chain, memo, found.members[size - 1, i])
        elif i <= remaining:
            j = int(rng.random() * p)
            if chain.position[j] < 0:
                _flip(target, chain, memo, j)
    return size


@kernel
def _rebuild(target, chain, memo, work, found, largest, rng):
    """Sequential replacement from a few variables up to a size, both drawn at random, and down again to half that size;
    `KICKS_LEFT` times.

    Some of a mode's variables come in by chance on the way up, more of them the larger the models are, and those that belong together
    stay on the way down. This is iterated local search among models of fixed sizes. Climbs in between would lead down to the null model
    where modes lie behind a descent, and every disturbance would begin there.
    """
    while found.ints[KICKS_LEFT] > 0:
        if found.ints[SCANS_LEFT] <= 0:
            return SPENT
        found.ints[KICKS_LEFT] -= 1
        size = _begin_again(target, chain, memo, found, rng, largest)
        if chain.ints[NEEDED] > 0:
            return ROOM
        ended = _replace_sequentially(target, chain, memo, work, found, size)
        if ended != DONE:
            return ended
        ended = _reduce_sequentially(target, chain, memo, work, found, size // 2)
        if ended != DONE:
            return ended
    return DONE


@kernel
def _disturb(target, chain, memo, rng):
    """Exchange all variables for others; or flip one to three; or add one, to which the others have to adapt. Returns the latter, or −1."""
    p, size = chain.position.shape[0], chain.ints[SIZE]
    u = rng.random()
    if u < HELD_SHARE:
        j = int(rng.random() * p)
        return j if chain.position[j] < 0 and _flip(target, chain, memo, j) else -1
    if u < HELD_SHARE + ALL_SHARE:
        for _ in range(size):
            if chain.ints[SIZE] > 0:
                _flip(target, chain, memo, chain.order[chain.ints[SIZE] - 1])
        for _ in range(size):
            j = int(rng.random() * p)
            if chain.position[j] < 0:
                _flip(target, chain, memo, j)
            if chain.ints[NEEDED] > 0:
                return -1
        return -1
    for _ in range(1 + int(3.0 * rng.random())):
        if rng.random() < 0.5 or chain.ints[SIZE] == 0:
            _flip(target, chain, memo, int(rng.random() * p))
        else:
            _flip(target, chain, memo, chain.order[int(rng.random() * chain.ints[SIZE])])
        if chain.ints[NEEDED] > 0:
            return -1
    return -1


@kernel
def _disturb_and_climb(target, chain, memo, work, found, rng, home):
    """From the model `home`, whose last place is its size: change some variables, climb, and stay at the mode found there if it is
    better or little worse; `KICKS_LEFT` times."""
    last = home.shape[0] - 1
    if not go_to_model(target, chain, memo, home, home[last]):
        return ROOM if chain.ints[NEEDED] > 0 else DONE
    value = log_posterior_of(chain)
    while found.ints[KICKS_LEFT] > 0:
        if found.ints[SCANS_LEFT] <= 0:
            return SPENT
        found.ints[KICKS_LEFT] -= 1
        held = _disturb(target, chain, memo, rng)
        if chain.ints[NEEDED] > 0:
            return ROOM
        if held >= 0:
            ended = _swap(target, chain, memo, work, found, held)
            if ended != DONE:
                return ended
        ended = _climb_and_note(target, chain, memo, work, found)
        if ended != DONE:
            return ended
        found_value = log_posterior_of(chain)
        if found_value >= value + np.log(1.0 - rng.random()) and chain.ints[SIZE] < last:
            value = found_value
            home[last] = chain.ints[SIZE]
            for i in range(chain.ints[SIZE]):
                home[i] = chain.order[i]
        elif not go_to_model(target, chain, memo, home, home[last]):
            return ROOM if chain.ints[NEEDED] > 0 else DONE
    return DONE


@entry
def search(target, chain, memo, work, found, kind, largest, rng, home):
    """One of the searches, or a scan alone: one entry, so that they are compiled together. Those that have no use for `largest`, `rng`
    and `home` leave them alone. Returns DONE, SPENT or ROOM."""
    return _search(target, chain, memo, work, found, kind, largest, rng, home)


@kernel
def _search(target, chain, memo, work, found, kind, largest, rng, home):
    if kind == SCAN_ONLY:
        return DONE if _scan(target, chain, work, found) else ROOM
    if kind == ADD_WHILE_BETTER:
        return _add_while_better(target, chain, memo, work, found)
    if kind == REPLACE_SEQUENTIALLY:
        return _replace_sequentially(target, chain, memo, work, found, largest)
    if kind == NOTE_BY_SIZE:
        note_best_of_size(chain, found)
        return DONE
    if kind == REBUILD:
        return _rebuild(target, chain, memo, work, found, largest, rng)
    if kind == DISTURB_AND_CLIMB:
        return _disturb_and_climb(target, chain, memo, work, found, rng, home)
    return _climb_and_note(target, chain, memo, work, found)
