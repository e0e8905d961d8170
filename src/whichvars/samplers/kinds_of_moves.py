"""The kinds of moves that the hybrid makes, and how often it makes each, as far as it learns that in warm-up."""

from typing import Protocol

import numpy as np

GIBBS_FLIP, SCALED, SINGLE, STAND_IN, MODE_JUMP, RESIZE = range(6)
# places in HybridState.scaled
SHARE, CHANGES = range(2)
# places in HybridState.resize
RESIZE_SHARE, STEP = range(2)

# of the moves, those that change many variables at once, at first
SCALED_SHARE = 0.2
LEAST_SCALED = 0.01
JUMP_SHARE = 1.0 / 64.0  # of the moves, those from mode to mode, where at least two are known
# moves of one variable are so often accepted that sizes are worth changing by several; and of changes by d, the acceptance rates from
# which on d is doubled, and below which it is halved
EASY, DOUBLE, HALVE = 0.7, 0.5, 0.3
LARGEST_STEP = 8  # d: what the inverse of a model takes at once
FEWEST_TRIED = 20  # moves of a kind, below which their acceptance rate says nothing


class Learned(Protocol):
    """What of a ``HybridState`` is read and set here."""

    @property
    def counts(self) -> np.ndarray: ...
    @property
    def accepted(self) -> np.ndarray: ...
    @property
    def scaled(self) -> np.ndarray: ...
    @property
    def resize(self) -> np.ndarray: ...


def choose_scaled(own: Learned) -> None:
    """The share of scaled moves, which cost about as much as they propose changes: at most half of the time of all moves,
    and less where a move of one variable makes more changes in the same time."""
    scaled, single = int(own.counts[SCALED]), int(own.counts[SINGLE])
    if min(scaled, single) > 0:
        changes = own.scaled[CHANGES] / scaled
        made = own.accepted[SCALED] / scaled * changes / (1.0 + changes)
        made_singly = max(own.accepted[SINGLE] / single, 1e-3)
        share = min(1.0, made / made_singly) / (2.0 + changes)
        own.scaled[SHARE] = min(max(share, LEAST_SCALED), SCALED_SHARE)


def choose_step(own: Learned, swaps: float) -> None:
    """d, by how often changes of the size by d were accepted in the stage that ends. As they take d times as long as a move of one
    variable, they get half of the time of both; and at most half of the moves that are of neither of the other kinds."""
    step, tried = int(own.resize[STEP]), int(own.counts[RESIZE])
    rate = own.accepted[RESIZE] / max(tried, 1)
    if step == 0:
        single = int(own.counts[SINGLE])
        step = 2 if single >= FEWEST_TRIED and own.accepted[SINGLE] > EASY * single else 0
    elif tried >= FEWEST_TRIED and rate > DOUBLE:
        step = min(2 * step, LARGEST_STEP)
    elif tried >= FEWEST_TRIED and rate < HALVE:
        step = step // 2 if step > 2 else 0
    others = SCALED_SHARE + JUMP_SHARE + swaps
    own.resize[:] = min(1.0 / (1.0 + step), 0.5 * (1.0 - others)) if step > 0 else 0.0, step
    own.counts[RESIZE], own.accepted[RESIZE] = 0, 0.0
