"""The models that a posterior keeps, with their weights, and the products of their columns."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, pairwise
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import hadamard

from whichvars._kernels import evidence as codes
from whichvars._kernels.evidence import SMALLEST_TOLERANCE
from whichvars.problem.columns import gram_of
from whichvars.problem.problem import Problem

# bytes of Gram matrices or columns that are processed together
BATCH_BYTES = 64 << 20
# weights by which the noise of importance sampling is measured: as many as a Hadamard matrix has rows
NOISY_WEIGHTS = 64


@dataclass(frozen=True)
class KeptModels:
    """A sample of the posterior over models: each model once, with its weight."""

    members: np.ndarray  # int32: the variables of all models, one model after the other, sorted within each
    start: np.ndarray  # (models + 1,) int64: where each begins
    weight: np.ndarray  # (models,); sum to one
    # (replicates, models): the weights that each replicate gives them, whose mean is `weight`; None if exact, or not known
    by_replicate: np.ndarray | None = None
    # (models,): relative standard errors of marginal likelihoods that were computed by importance sampling; None if none was
    noise: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.weight)

    def model(self, i: int) -> tuple[int, ...]:
        """The variables of one model."""
        return tuple(self.members[self.start[i] : self.start[i + 1]].tolist())

    def models(self) -> list[tuple[int, ...]]:
        """The variables of all of them. Asking for one after the other takes ten times as long."""
        members, start = self.members.tolist(), self.start.tolist()
        return [tuple(members[first:end]) for first, end in pairwise(start)]

    def some(self, index: np.ndarray) -> "KeptModels":
        """The models at these places, with their weights as they are."""
        sizes = np.diff(self.start)[index]
        start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        places = np.repeat(self.start[index] - start[:-1], sizes) + np.arange(start[-1])
        noise = None if self.noise is None else self.noise[index]
        return KeptModels(self.members[places], start, self.weight[index], noise=noise)

    def having(self, variable: int) -> np.ndarray:
        """Which models have the variable, (models,) bool."""
        places = np.flatnonzero(self.members == variable)
        having = np.zeros(len(self), bool)
        having[np.searchsorted(self.start, places, side="right") - 1] = True
        return having

    @cached_property
    def noisy_weights(self) -> np.ndarray:
        r"""Weights that other points of importance sampling might have given, (NOISY_WEIGHTS, models); none if there is no noise.

        With c_γ the noise of a model and signs s_bγ = ±1, row b is proportional to w_γ(1 + c_γ s_bγ). The signs of a model are a
        column of a Hadamard matrix. Columns of different models are orthogonal, so that the variance of an average Σ w v between the
        rows is to first order Σ_γ w_γ² c_γ² (v_γ − v̄)², which is what independent noise does to it. Where there are more
        models than columns, these are used again with random signs, in the order of w c: this adds nothing on average.
        """
        if self.noise is None:
            return np.zeros((0, len(self)))
        order = np.argsort(-self.weight * self.noise, kind="stable")
        signs = np.random.default_rng(0).choice((-1.0, 1.0), len(self))
        rows = np.empty((NOISY_WEIGHTS, len(self)))
        rows[:, order] = hadamard(NOISY_WEIGHTS)[:, 1 + np.arange(len(self)) % (NOISY_WEIGHTS - 1)] * signs
        rows *= np.minimum(self.noise, 1.0)
        rows += 1.0
        rows *= self.weight
        return rows / rows.sum(axis=1, keepdims=True)

    @property
    def other_weights(self) -> np.ndarray:
        """The weights by which errors of averages are estimated, (rows, models): those of each replicate, then ``noisy_weights``."""
        parts = [] if self.by_replicate is None else [self.by_replicate]
        return np.vstack([*parts, self.noisy_weights])

    def error_of(self, means: np.ndarray, exact: bool) -> Any:
        """Standard error of an average, from its values under ``other_weights``, (rows, …): from differences between replicates,
        of which there are none if `exact`, and from the noise of importance sampling. NaN with fewer than two replicates.
        """
        replicates = 0 if self.by_replicate is None else len(self.by_replicate)
        drawn = np.zeros(means.shape[1:])[()] if exact else standard_error(means[:replicates])
        return drawn if self.noise is None else np.hypot(drawn, means[replicates:].std(axis=0))

    def error(self, values: np.ndarray, exact: bool) -> Any:
        """``error_of`` Σ weight · values. Shapes (models,) → a number, (models, q) → (q,)."""
        return self.error_of(self.other_weights @ values, exact)

    def noise_of_models(self, models: list[tuple[int, ...]]) -> np.ndarray:
        """What the noise of importance sampling does to the probabilities of models, (models,); 0 for models that are not kept."""
        out = np.zeros(len(models))
        if self.noise is not None:
            place = {model: i for i, model in enumerate(self.models())}
            index = np.array([place.get(tuple(sorted(m)), -1) for m in models], np.int64)
            out[index >= 0] = self.noisy_weights[:, index[index >= 0]].std(axis=0)
        return out

    def noise_of_pips(self, p: int) -> np.ndarray:
        """What it does to inclusion probabilities, (p,)."""
        if self.noise is None:
            return np.zeros(p)
        sizes = np.diff(self.start)
        pips = [np.bincount(self.members, np.repeat(w, sizes), p) for w in self.noisy_weights]
        return np.std(pips, axis=0)

    @classmethod
    def listed(cls, models: list[tuple[int, ...]]) -> "KeptModels":
        """Models in the order given, all with the same weight."""
        sizes = np.fromiter(map(len, models), np.int64, len(models))
        start = np.concatenate([[0], np.cumsum(sizes)])
        members = np.fromiter(chain.from_iterable(models), np.int32, int(start[-1]))
        return cls(members, start, np.full(len(models), 1 / max(len(models), 1)))

    @classmethod
    def of_rows(cls, rows: sparse.csr_array) -> "KeptModels":
        """The rows of a sparse matrix of booleans, (models, p), all with the same weight; a model may occur repeatedly."""
        n = rows.shape[0]
        return cls(rows.indices.astype(np.int32), rows.indptr.astype(np.int64), np.full(n, 1 / max(n, 1)))

    @classmethod
    def of(cls, weights: dict[tuple[int, ...], float]) -> "KeptModels":
        """From a mapping of models to weights; sorted by descending weight."""
        return cls._ordered({m: np.array([w], float) for m, w in weights.items()})._without_replicates()

    @classmethod
    def of_replicates(cls, weights: Mapping[tuple[int, ...], Sequence[float] | np.ndarray]) -> "KeptModels":
        """From a mapping of models to their weights in each replicate, (replicates,); sorted by descending mean weight."""
        return cls._ordered(weights)

    @classmethod
    def _ordered(cls, weights: Mapping[tuple[int, ...], Sequence[float] | np.ndarray]) -> "KeptModels":
        models, table = list(weights), np.array(list(weights.values()), float)
        order = sorted_models(models, -table.sum(axis=1))
        by_replicate = table[order].T
        by_replicate = by_replicate[by_replicate.sum(axis=1) > 0]  # leave out replicates without draws
        by_replicate /= by_replicate.sum(axis=1, keepdims=True)
        ordered = [models[i] for i in order.tolist()]
        sizes = np.fromiter(map(len, ordered), np.int64, len(ordered))
        members = np.fromiter(chain.from_iterable(map(sorted, ordered)), np.int32, int(sizes.sum()))
        start = np.concatenate([[0], np.cumsum(sizes)])
        return cls(members, start, by_replicate.mean(axis=0), np.ascontiguousarray(by_replicate))

    def _without_replicates(self) -> "KeptModels":
        return replace(self, by_replicate=None)

    def reweighted(self, ratio: np.ndarray) -> "KeptModels":
        """The models with weights in proportion to weight · ratio, (models,); those without any are left out.

        An average under the new weights is a ratio of two sums, whose error is that of the sum of values less their average. So that
        weights by replicate show this error for any values, each replicate's are completed to sum to one by the new weights themselves.
        """
        left = np.flatnonzero((ratio > 0) & (self.weight > 0))
        sizes = np.diff(self.start)
        inside = np.zeros(len(self), bool)
        inside[left] = True
        start = np.concatenate([[0], np.cumsum(sizes[left])])
        weight = self.weight[left] * ratio[left]
        total = weight.sum()
        new = None
        if self.by_replicate is not None:
            new = self.by_replicate[:, left] * ratio[left] / total
            new += (1 - new.sum(axis=1, keepdims=True)) * weight / total
        noise = None if self.noise is None else self.noise[left]
        return KeptModels(self.members[np.repeat(inside, sizes)], start, weight / total, new, noise)


def sorted_models(models: Sequence[tuple[int, ...]], *keys: np.ndarray) -> np.ndarray:
    """The order of models by the first of these keys, (models,), by the next where that is the same, and by their variables where all are.

    As ``sorted`` has it, which takes as long as a short run if it compares tuples.
    """
    order = np.lexsort(keys[::-1])
    same = np.ones(max(len(order) - 1, 0), bool)
    for key in keys:
        same &= key[order[1:]] == key[order[:-1]]
    ends = np.flatnonzero(np.diff(np.concatenate([[False], same, [False]]).astype(np.int8)))
    for first, last in ends.reshape(-1, 2).tolist():
        order[first : last + 1] = sorted(order[first : last + 1].tolist(), key=lambda i: models[i])
    return order


def standard_error(means: np.ndarray) -> Any:
    """Standard error of the mean of independent runs, from their means, (replicates, …); NaN with fewer than two."""
    if len(means) < 2:
        return np.full(means.shape[1:], np.nan)[()]
    return means.std(axis=0, ddof=1) / np.sqrt(len(means))


def columns_of(problem: Problem, members: np.ndarray) -> np.ndarray:
    """The columns of the variables."""
    widths = np.diff(problem.offsets)[members]
    ends = np.cumsum(widths)
    return np.repeat(problem.offsets[:-1][members] - ends + widths, widths) + np.arange(widths.sum())


def batches(problem: Problem, kept: KeptModels) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Batches of models with the same number of columns, of at most BATCH_BYTES: their indices (m,) and columns (m, k)."""
    widths = np.diff(problem.offsets)
    cumulated = np.concatenate([[0], np.cumsum(widths[kept.members])])
    n_columns = cumulated[kept.start[1:]] - cumulated[kept.start[:-1]]
    if (widths == 1).all():
        flat_columns, begin = kept.members.astype(np.int64), kept.start[:-1]
    else:
        flat_columns, begin = columns_of(problem, kept.members), cumulated[kept.start[:-1]]
    long = 1 if problem.engine == "gram" else problem.n
    for k in np.unique(n_columns):
        chosen = np.flatnonzero(n_columns == k)
        room = max(1, int(BATCH_BYTES // (8 * max(k * max(3 * k, long), 1000))))
        for first in range(0, len(chosen), room):
            index = chosen[first : first + room]
            yield index, flat_columns[begin[index][:, None] + np.arange(k)]


def precisions(problem: Problem, columns: np.ndarray, ridge: np.ndarray | None = None) -> np.ndarray:
    """XᵀX of each model's columns (m, k), plus the ridge for the independent slab: (m, k, k). For Gaussian responses only. `ridge`, (P,), is
    that of the slab if it is left out."""
    assert problem.fit_data is None
    design, slab = problem.target(0).design, problem.target(0).slab
    gram = gram_of(design, columns)
    if slab.code == codes.INDEPENDENT or ridge is not None:
        places = np.arange(columns.shape[1])
        gram[:, places, places] += (slab.ridge if ridge is None else ridge)[columns]
    return gram


def full_rank(problem: Problem, inverse: np.ndarray) -> np.ndarray:
    """Whether the models with these (XᵀX)⁻¹, (m, k, k), have full rank if the slab needs it, (m,)."""
    if problem.target(0).slab.code == codes.INDEPENDENT:
        return np.ones(len(inverse), bool)
    diagonal = np.einsum("mkk->mk", inverse)  # columns have unit length: 1/(1 − R² of one on the others)
    return ((diagonal > 0) & (diagonal < 10 / SMALLEST_TOLERANCE)).all(axis=1)
