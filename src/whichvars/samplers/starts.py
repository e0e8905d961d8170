"""Where chains start: the null model, prior draws, marginal screening, forward selection, or the user's own
models."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from whichvars._kernels.chain import new_chain
from whichvars._kernels.count.model_table import new_memo
from whichvars._kernels.evaluate import set_model
from whichvars._kernels.forward import select_forward
from whichvars.data.frames import find_columns
from whichvars.errors import ArgumentTypeError, DataError
from whichvars.problem.heredity import ConditionalPrior
from whichvars.problem.problem import Problem
from whichvars.samplers.seeding import stream

KINDS = ("null", "prior", "screening", "forward", "mixed")
_PATH = 1_000_000  # start draws have streams of their own, away from those of the chains


def starting_models(
    problem: Problem, start: Any, seed: np.random.SeedSequence, chains: int
) -> list[np.ndarray]:
    """One starting model per chain: indices of its variables.

    `start` is "null", "prior", "screening", "forward", "mixed" (alternately a prior draw and a screening
    draw, the default), one model (a list of names or indices), or a list of models, used in turn.
    """
    if start is None:
        start = "mixed"
    if isinstance(start, str):
        if start not in KINDS:
            raise DataError(
                f"start must be one of {', '.join(map(repr, KINDS))}, a model or a list of models; not {start!r}"
            )
        if start == "null":
            return [np.zeros(0, np.int64)] * chains
        if start == "forward":
            return [forward_selection(problem)] * chains
        out = []
        for chain in range(chains):
            rng = stream(seed, _PATH, chain)
            by_prior = start == "prior" or (start == "mixed" and (chain + seed.spawn_key[-1]) % 2 == 0)
            out.append(
                _make_allowed(problem, prior_draw(problem, rng) if by_prior else screening_draw(problem, rng))
            )
        return out
    if not isinstance(start, Sequence) and not isinstance(start, np.ndarray):
        raise ArgumentTypeError(
            f"start must be a word, a model (a list of variables) or a list of models; not {start!r}"
        )
    models = list(start)
    if not models or not isinstance(models[0], (list, tuple, np.ndarray)):
        models = [models]
    read = [np.array(find_columns(model, problem.names, "start"), np.int64) for model in models]
    for model in read:
        _check_parents(problem, model)
    first = seed.spawn_key[-1] * chains
    return [read[(first + chain) % len(read)] for chain in range(chains)]


def prior_draw(problem: Problem, rng: np.random.Generator) -> np.ndarray:
    """A draw from the model prior; under heredity, one that ``_make_allowed`` may still have to cut to max_size."""
    if isinstance(problem.model_prior, ConditionalPrior):
        return problem.model_prior.draw(rng, problem.p)
    return problem.model_prior.draw(rng, problem.p, problem.max_size)


def prior_draws(problem: Problem, rng: np.random.Generator, n: int) -> list[np.ndarray]:
    """n draws from the model prior."""
    prior, p = problem.model_prior, problem.p
    if isinstance(prior, ConditionalPrior):
        return prior.draws(rng, n, problem.max_size)
    if isinstance(getattr(prior, "h", None), tuple):
        return [prior_draw(problem, rng) for _ in range(n)]
    sizes = rng.choice(p + 1, size=n, p=prior.size_distribution(p, problem.max_size))
    return [rng.choice(p, size=size, replace=False, shuffle=False) for size in sizes]


def screening_draw(problem: Problem, rng: np.random.Generator) -> np.ndarray:
    """As many variables as a prior draw has, drawn with weights by how well each explains y on its own.

    Weights are the squared marginal correlation; a group counts its best column.
    """
    design = problem.target(0).design
    score = np.maximum.reduceat(design.xty**2 / design.diagonal, problem.offsets[:-1])
    size = min(len(prior_draw(problem, rng)), int((score > 0).sum()))
    return np.sort(rng.choice(problem.p, size=size, replace=False, p=score / score.sum()))


def _check_parents(problem: Problem, model: np.ndarray) -> None:
    prior, names = problem.model_prior, problem.names
    lack = prior.missing(model) if isinstance(prior, ConditionalPrior) else None
    if lack is not None:
        raise DataError(
            f"start: the model {[names[j] for j in model]} has {names[lack[0]]!r} without its parent {names[lack[1]]!r}, "
            "which heredity forbids; add it"
        )


def _make_allowed(problem: Problem, model: np.ndarray) -> np.ndarray:
    """`model`, with the parents of its variables where there is heredity, and without its last variables where
    it is larger than the slab allows or collinear."""
    width = np.diff(problem.offsets)
    if isinstance(problem.model_prior, ConditionalPrior):
        model = problem.model_prior.complete(model)[: problem.max_size]  # parents first: none loses its own
    while len(model):
        capacity = int(width[model].sum())
        if capacity <= problem.max_columns:
            target = problem.target(capacity)
            chain = new_chain(target, capacity, cache_bytes=0)
            if set_model(target, chain, new_memo(0), model, len(model)):
                break
        model = model[:-1]
    return model


def forward_selection(problem: Problem, max_size: int = 50) -> np.ndarray:
    """Add the variable that raises the posterior most, until none does or there are `max_size`."""
    capacity = int(np.sort(np.diff(problem.offsets))[::-1][: max_size + 1].sum())
    target = problem.target(capacity)
    chain = new_chain(target, capacity)
    select_forward(target, chain, new_memo(0), min(max_size, problem.p))
    return np.flatnonzero(chain.position >= 0)
