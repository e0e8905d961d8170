"""What counts: inclusion counts by batch, sizes, the best models visited, and a thinned record of the chain.

Counts are added up late: the time of a variable in the model when it leaves or when its batch ends, and the time of a
model and of its size when the chain moves on. An iteration that changes nothing costs one comparison.

*Batches* are runs of iterations of equal length, whatever the chunks in which the chain was advanced. When
there are as many as there is room for, neighbours are merged and the length doubles; so between half and all
of the rows are in use, for a run of any length.

*Best models*: a bounded table of the visited models with the highest posterior. When it is full the worse
half goes and the threshold rises to just above the best that went: a model's value differs in its last bits
from visit to visit, and one that went must not come back. The threshold never falls, so whatever is in the
table at the end has been there since its first visit: its count is exact.

*Weights*: how probable two models of that table are relative to one another is known exactly, and need not be
estimated by how often each was counted. Counting goes in *stages*, each as long as all before it together. Models that
were in the table when a stage began share its draws of such models in proportion to their posteriors; others get as
many draws as were counted of them. There are stages because what is known must not depend on the draws that are shared
out; ``known.py`` says why.

*Thinned record*: every T-th model; when it is full every second one goes and T doubles.

*Rao–Blackwell sums*: see ``averages``.
"""

import math
from typing import NamedTuple

import numpy as np

from whichvars._kernels.chain import INVERSE_TEMPERATURE, LOG_MARGINAL, LOG_PRIOR, SCANNED, SIZE, Chain
from whichvars._kernels.count.averages import (
    NEXT_SCAN,
    SCAN_INTERVAL,
    Averages,
    add_scan,
    grow_averages,
    no_averages,
)
from whichvars._kernels.jit import by_reference, entry, inlined, kernel, routine
from whichvars._kernels.target import Target

# places in Tally.ints
COUNTING = 0  # 0 during warm-up; 1: iterations; BY_DRAWS
NOW = 1  # iterations counted
BATCH = 2  # the current batch
BATCH_LENGTH = 3
BATCH_END = 4  # iteration at which it ends
THIN = 5  # T
NEXT_RECORD = 6
NEXT_EVENT = 7  # the earliest of BATCH_END, NEXT_RECORD, STAGE_END and NEXT_SCAN
RECORDS = 8
MODEL_SINCE = 9  # iteration at which the current model was entered
MODELS = 10  # entries in the table of best models
POOL = 11  # words of the pool in use
STAGE = 12  # the current stage of weights
STAGE_START = 13  # iteration at which it began
STAGE_END = 14  # and at which it ends
N_INTS = 15

BY_DRAWS = 2
FIRST_STAGE_OF_WEIGHTS = 32  # iterations
MOST_STAGES = 64
# far above what the order of a factor's columns makes in a log posterior: relative, and at most in all
ROUNDING, MOST_ROUNDING = 1e-8, 1e-4

# columns of Tally.stages
LOG_MASS, HELD, STAGE_LENGTH = range(3)


@by_reference
class Tally(NamedTuple):
    ints: np.ndarray
    batch_counts: np.ndarray  # (batches, p) uint32: iterations of the batch in which the variable was in
    entered: np.ndarray  # (p,) uint32: iteration of the batch at which a variable now in the model came in
    sizes: np.ndarray  # (p + 1,) int64: iterations by model size
    record_size: np.ndarray  # (records,) int64
    record_values: np.ndarray  # (records, 2): log marginal, log prior
    record_models: np.ndarray  # (records, capacity) int32
    threshold: np.ndarray  # (1,): log posterior below which a model is not kept
    lookup: np.ndarray  # (2·models or more, a power of two, at least 4) int32: hash to entry + 1
    model_key: np.ndarray  # (models,) uint64
    model_values: np.ndarray  # (models, 2): log marginal, log prior
    model_count: np.ndarray  # (models,) int64
    model_before: np.ndarray  # (models,) int64: its count when the current stage began
    model_first_stage: np.ndarray  # (models,) int64: the stage in which it was first counted
    # (1,): t of the chain that is counted, whose models have the law p(y | γ)^t p(γ)
    inverse_temperature: np.ndarray
    model_weight: np.ndarray  # (models,): its share of the draws of all complete stages, by the best weights
    # (MOST_STAGES, 3), complete stages: log of the posterior mass of the models known when it began, how many draws were
    # of them, and how many there were in all
    stages: np.ndarray
    model_start: np.ndarray  # (models + 1,) int64: where its variables stand in the pool
    pool: np.ndarray  # (16·models + capacity,) int32: the variables of one model after the other
    scratch: np.ndarray  # (models,)
    averages: Averages  # Rao–Blackwell sums


def new_tally(p: int, capacity: int, models: int, records: int, batches: int, batch_length: int = 1) -> Tally:
    """An empty tally that keeps between models/2 and models models, records/2 and records records, batches/2
    and batches batches, and no Rao–Blackwell sums."""
    cells = 4
    while cells < 2 * models:
        cells *= 2
    ints = np.zeros(N_INTS, np.int64)
    ints[BATCH_LENGTH] = batch_length
    ints[THIN] = 1
    return Tally(
        ints=ints,
        batch_counts=np.zeros((batches, p), np.uint32),
        entered=np.zeros(p, np.uint32),
        sizes=np.zeros(p + 1, np.int64),
        record_size=np.zeros(records, np.int64),
        record_values=np.zeros((records, 2)),
        record_models=np.zeros((records, capacity), np.int32),
        threshold=np.full(1, -np.inf),
        lookup=np.zeros(cells, np.int32),
        model_key=np.zeros(models, np.uint64),
        model_values=np.zeros((models, 2)),
        model_count=np.zeros(models, np.int64),
        model_before=np.zeros(models, np.int64),
        model_first_stage=np.zeros(models, np.int64),
        inverse_temperature=np.ones(1),
        model_weight=np.zeros(models),
        stages=np.zeros((MOST_STAGES, 3)),
        model_start=np.zeros(models + 1, np.int64),
        pool=np.zeros(models * 16 + capacity, np.int32),
        scratch=np.zeros(models),
        averages=no_averages(),
    )


def grow_tally(tally: Tally, target: Target, capacity: int) -> Tally:
    """The same tally with room for models of `capacity` columns; the chain's ``SCANNED`` is to be set to 0."""
    records, old = tally.record_models.shape
    larger = np.zeros((records, capacity), np.int32)
    larger[:, :old] = tally.record_models
    pool = np.zeros(len(tally.model_key) * 16 + capacity, np.int32)
    pool[: len(tally.pool)] = tally.pool
    averages = grow_averages(tally.averages, target, capacity)
    return tally._replace(record_models=larger, pool=pool, averages=averages)


@entry
def start_counting(chain, tally):
    """Warm-up is over: count from the current model on."""
    ints = tally.ints
    ints[COUNTING] = 1
    tally.inverse_temperature[0] = chain.floats[INVERSE_TEMPERATURE]
    ints[BATCH_END] = ints[BATCH_LENGTH]
    ints[NEXT_RECORD] = ints[THIN]
    ints[STAGE_END] = FIRST_STAGE_OF_WEIGHTS
    ints[NEXT_EVENT] = min(
        ints[BATCH_END], ints[NEXT_RECORD], ints[STAGE_END], tally.averages.ints[NEXT_SCAN]
    )
    for i in range(chain.ints[SIZE]):
        tally.entered[chain.order[i]] = 0


def start_counting_draws(tally: Tally, chains: list[Chain]) -> None:
    """Warm-up is over: count draws from now on, the chains' current models being the first."""
    ints = tally.ints
    ints[COUNTING] = BY_DRAWS
    ints[BATCH_END] = ints[BATCH_LENGTH]
    ints[NEXT_RECORD] = ints[THIN]
    ints[STAGE_END] = FIRST_STAGE_OF_WEIGHTS
    for chain in chains:
        note_draw(chain, tally)


@entry
def note_draw(chain, tally):
    """``count_draws`` of one draw, for Python."""
    count_draws(chain, tally, 1)


@inlined
def count_time_in_model(chain, tally):
    """Count the time spent in the current model so far. Call this before ``accept`` of a proposal that changes it."""
    ints = tally.ints
    time = ints[NOW] - ints[MODEL_SINCE]
    ints[MODEL_SINCE] = ints[NOW]
    if time == 0:
        return
    tally.sizes[chain.ints[SIZE]] += time
    marginal, prior = chain.floats[LOG_MARGINAL], chain.floats[LOG_PRIOR]
    if marginal + prior > tally.threshold[0]:
        _count_model(chain, tally, time, marginal, prior)


@inlined
def count_changes(chain, tally, n_added, n_deleted):
    """Count the time that deleted variables were in the model, and note when added ones come in. Call this with
    ``count_time_in_model``, before ``accept``."""
    ints = tally.ints
    time = np.uint32(ints[NOW] - (ints[BATCH_END] - ints[BATCH_LENGTH]))
    counts, entered, batch = tally.batch_counts, tally.entered, ints[BATCH]
    for i in range(n_added):
        entered[chain.added[i]] = time
    for i in range(n_deleted):
        j = chain.deleted[i]
        counts[batch, j] += np.uint32(time - entered[j])


@inlined
def end_iteration(target, chain, tally):
    """One iteration is over; its model is the current one. Call only while counting."""
    ints = tally.ints
    ints[NOW] += 1
    if ints[NOW] < ints[NEXT_EVENT]:
        return
    _handle_event(target, chain, tally)


@routine
def _handle_event(target, chain, tally):
    ints, scans = tally.ints, tally.averages.ints
    if ints[NOW] == scans[NEXT_SCAN]:
        add_scan(target, chain, tally.averages)  # there is always room: it grows with the chain
        scans[NEXT_SCAN] += scans[SCAN_INTERVAL]
    if ints[NOW] == ints[NEXT_RECORD]:
        _record(chain, tally)
    if ints[NOW] == ints[BATCH_END]:
        count_time_in_batch(chain, tally)
        ints[BATCH] += 1
        if ints[BATCH] == tally.batch_counts.shape[0]:
            _merge_batches(tally)
        ints[BATCH_END] = ints[NOW] + ints[BATCH_LENGTH]
        for i in range(chain.ints[SIZE]):
            tally.entered[chain.order[i]] = 0
    if ints[NOW] == ints[STAGE_END]:
        count_time_in_model(chain, tally)
        _end_stage(tally)
    ints[NEXT_EVENT] = min(ints[BATCH_END], ints[NEXT_RECORD], ints[STAGE_END], scans[NEXT_SCAN])


@kernel
def _end_stage(tally):
    """Share out the draws of a stage; models counted so far are known from now on."""
    ints, values, count, before = tally.ints, tally.model_values, tally.model_count, tally.model_before
    stage, n, t = ints[STAGE], ints[MODELS], tally.inverse_temperature[0]
    top = -np.inf
    held = 0
    for e in range(n):
        if tally.model_first_stage[e] < stage:
            held += count[e] - before[e]
            top = max(top, t * values[e, 0] + values[e, 1])
    mass = 0.0
    for e in range(n):
        if tally.model_first_stage[e] < stage:
            mass += math.exp(t * values[e, 0] + values[e, 1] - top)
    for e in range(n):
        if tally.model_first_stage[e] < stage:
            tally.model_weight[e] += held * math.exp(t * values[e, 0] + values[e, 1] - top) / mass
        else:
            tally.model_weight[e] += count[e] - before[e]
        before[e] = count[e]
    if stage < tally.stages.shape[0]:
        tally.stages[stage, LOG_MASS] = top + math.log(mass) if mass > 0.0 else -np.inf
        tally.stages[stage, HELD] = held
        tally.stages[stage, STAGE_LENGTH] = ints[NOW] - ints[STAGE_START]
    ints[STAGE] = stage + 1
    ints[STAGE_START] = ints[NOW]
    ints[STAGE_END] = 2 * ints[NOW]


@inlined
def count_draws(chain, tally, times):
    """Count the chain's model as `times` draws, at once: for samplers that draw from several chains in turn.

    A tally counts either draws or iterations: ``ints[COUNTING]`` is `BY_DRAWS`, so that nothing is
    counted twice.
    """
    ints, counts = tally.ints, tally.batch_counts
    tally.sizes[chain.ints[SIZE]] += times
    marginal, prior = chain.floats[LOG_MARGINAL], chain.floats[LOG_PRIOR]
    if marginal + prior > tally.threshold[0]:
        _count_model(chain, tally, times, marginal, prior)
    while times > 0:
        times_now = min(times, min(ints[NEXT_RECORD], ints[BATCH_END]) - ints[NOW])
        times -= times_now
        for i in range(chain.ints[SIZE]):
            counts[ints[BATCH], chain.order[i]] += np.uint32(times_now)
        ints[NOW] += times_now
        if ints[NOW] == ints[NEXT_RECORD]:
            _record(chain, tally)
        if ints[NOW] == ints[BATCH_END]:
            ints[BATCH] += 1
            if ints[BATCH] == counts.shape[0]:
                _merge_batches(tally)
            ints[BATCH_END] = ints[NOW] + ints[BATCH_LENGTH]
    if ints[NOW] >= ints[STAGE_END]:
        _end_stage(tally)


@kernel
def count_time_in_batch(chain, tally):
    """Count the time that the variables of the current model have been in it during this batch."""
    ints = tally.ints
    time = np.uint32(ints[NOW] - (ints[BATCH_END] - ints[BATCH_LENGTH]))
    for i in range(chain.ints[SIZE]):
        j = chain.order[i]
        tally.batch_counts[ints[BATCH], j] += np.uint32(time - tally.entered[j])
        tally.entered[j] = time


@entry
def count_up_to_now(chain, tally):
    """Bring all counts up to date, so that they can be read. This does not change what is counted later."""
    if tally.ints[COUNTING] == 1:
        count_time_in_model(chain, tally)
        count_time_in_batch(chain, tally)


@kernel
def change_chain(old, new, tally):
    """From now on another chain's model is counted: the two have exchanged their temperatures."""
    count_time_in_model(old, tally)
    count_time_in_batch(old, tally)
    time = np.uint32(tally.ints[NOW] - (tally.ints[BATCH_END] - tally.ints[BATCH_LENGTH]))
    for i in range(new.ints[SIZE]):
        tally.entered[new.order[i]] = time
    new.ints[SCANNED] = 0  # the last scan was of the other chain


@kernel
def _merge_batches(tally):
    counts = tally.batch_counts
    half = counts.shape[0] // 2
    p = counts.shape[1]
    for b in range(half):
        for j in range(p):
            counts[b, j] = counts[2 * b, j] + counts[2 * b + 1, j]
    for b in range(half, counts.shape[0]):
        for j in range(p):
            counts[b, j] = np.uint32(0)
    tally.ints[BATCH] = half
    tally.ints[BATCH_LENGTH] *= 2


@routine
def _record(chain, tally):
    ints = tally.ints
    place = ints[RECORDS]
    size = chain.ints[SIZE]
    tally.record_size[place] = size
    tally.record_values[place, 0] = chain.floats[LOG_MARGINAL]
    tally.record_values[place, 1] = chain.floats[LOG_PRIOR]
    for i in range(size):
        tally.record_models[place, i] = chain.order[i]
    ints[RECORDS] += 1
    if ints[RECORDS] == tally.record_size.shape[0]:
        # keep the 2nd, 4th, …: iterations 2T, 4T, …
        half = ints[RECORDS] // 2
        for r in range(half):
            source = 2 * r + 1
            tally.record_size[r] = tally.record_size[source]
            tally.record_values[r, 0] = tally.record_values[source, 0]
            tally.record_values[r, 1] = tally.record_values[source, 1]
            for i in range(tally.record_size[r]):
                tally.record_models[r, i] = tally.record_models[source, i]
        ints[RECORDS] = half
        ints[THIN] *= 2
    ints[NEXT_RECORD] += ints[THIN]


@inlined
def _find_cell(tally, key):
    """The place in the index of `key`, or of the empty cell where it belongs."""
    mask = tally.lookup.shape[0] - 1
    cell = np.int64(key & np.uint64(mask))
    while tally.lookup[cell] > 0 and tally.model_key[tally.lookup[cell] - 1] != key:
        cell = (cell + 1) & mask
    return cell


@inlined
def _count_model(chain, tally, time, marginal, prior):
    key = chain.keys[0]
    cell = _find_cell(tally, key)
    if tally.lookup[cell] > 0:
        tally.model_count[tally.lookup[cell] - 1] += time
        return
    ints = tally.ints
    size = chain.ints[SIZE]
    while ints[MODELS] == tally.model_key.shape[0] or ints[POOL] + size > tally.pool.shape[0]:
        _drop_worse_half(tally)
        if marginal + prior <= tally.threshold[0]:
            return
        cell = _find_cell(tally, key)
    entry = ints[MODELS]
    tally.model_key[entry] = key
    tally.model_values[entry, 0] = marginal
    tally.model_values[entry, 1] = prior
    tally.model_count[entry] = time
    tally.model_before[entry] = 0
    tally.model_first_stage[entry] = ints[STAGE]
    tally.model_weight[entry] = 0.0
    tally.model_start[entry] = ints[POOL]
    for i in range(size):
        tally.pool[ints[POOL] + i] = chain.order[i]
    ints[POOL] += size
    tally.model_start[entry + 1] = ints[POOL]
    tally.lookup[cell] = entry + 1
    ints[MODELS] += 1


@kernel
def _nth_smallest(values, count, nth):
    """The nth smallest (from 0) of values[:count], which it reorders (Hoare's selection)."""
    low, high = 0, count - 1
    while low < high:
        pivot = values[(low + high) // 2]
        i, j = low, high
        while i <= j:
            while values[i] < pivot:
                i += 1
            while values[j] > pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if nth <= j:
            high = j
        elif nth >= i:
            low = i
        else:
            break
    return values[nth]


@kernel
def _drop_worse_half(tally):
    ints = tally.ints
    n = ints[MODELS]
    values, scratch = tally.model_values, tally.scratch
    for e in range(n):
        scratch[e] = values[e, 0] + values[e, 1]
    threshold = _nth_smallest(scratch, n, n // 2)
    threshold += min(ROUNDING * (1.0 + abs(threshold)), MOST_ROUNDING)
    tally.threshold[0] = threshold
    for cell in range(tally.lookup.shape[0]):
        tally.lookup[cell] = 0
    kept = 0
    pool = 0
    for e in range(n):
        if values[e, 0] + values[e, 1] > threshold:
            start, stop = tally.model_start[e], tally.model_start[e + 1]
            tally.model_start[kept] = pool
            for i in range(start, stop):
                tally.pool[pool] = tally.pool[i]
                pool += 1
            tally.model_key[kept] = tally.model_key[e]
            tally.model_values[kept, 0] = tally.model_values[e, 0]
            tally.model_values[kept, 1] = tally.model_values[e, 1]
            tally.model_count[kept] = tally.model_count[e]
            tally.model_before[kept] = tally.model_before[e]
            tally.model_first_stage[kept] = tally.model_first_stage[e]
            tally.model_weight[kept] = tally.model_weight[e]
            tally.lookup[_find_cell(tally, tally.model_key[kept])] = kept + 1
            kept += 1
    tally.model_start[kept] = pool
    ints[MODELS] = kept
    ints[POOL] = pool
