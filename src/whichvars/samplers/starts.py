"""Where chains start: modes found by a search, prior draws, marginal screening, forward selection, the null model, or the
user's own models.

By default ("mixed") every replicate has chains of both kinds: chains 0, 2, 4, … start at modes, the others at draws from the prior and
by screening in turn. Replicates begin with different modes, so that they can disagree where one of them does not leave its own. A
sampler with one chain starts at a mode in every second replicate.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from whichvars._kernels.chain import new_chain
from whichvars._kernels.count.model_table import new_memo
from whichvars._kernels.evaluate import set_model
from whichvars.data.frames import find_columns
from whichvars.errors import ArgumentTypeError, DataError
from whichvars.problem.dilution import Dilution
from whichvars.problem.graph_prior import MarkovRandomField
from whichvars.problem.heredity import ConditionalPrior
from whichvars.problem.problem import Problem
from whichvars.samplers.contract import fit_if_asked
from whichvars.samplers.finding import find_modes, forward_selection
from whichvars.samplers.seeding import stream
from whichvars.samplers.surrogates import scanned

KINDS = ("null", "prior", "screening", "forward", "modes", "mixed")
LEAST_MASS = 0.01  # of a mode from which chains start, with its neighbours and relative to the best one's
_PATH = 1_000_000  # start draws have streams of their own, away from those of the chains


def starting_models(
    problem: Problem, start: Any, seed: np.random.SeedSequence, chains: int
) -> list[np.ndarray]:
    """One starting model per chain: indices of its variables.

    `start` is "null", "prior", "screening", "forward", "modes", "mixed" (modes, prior draws and screening draws, the
    default), one model (a list of names or indices), or a list of models, used in turn.
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
            return [_make_allowed(problem, forward_selection(scanned(problem)))] * chains
        modes = leading_modes(problem) if start in ("modes", "mixed") else []
        return [_start(problem, start, seed, chain, chains, modes) for chain in range(chains)]
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


def leading_modes(problem: Problem) -> list[np.ndarray]:
    """The modes that have more than a hundredth of the best one's mass, best first."""
    modes = find_modes(scanned(problem))
    if problem.corrected:  # the surrogate's modes may have no mass
        modes = [mode for mode in modes if len(_make_allowed(problem, mode.members)) == len(mode.members)]
    mass = [max(mode.log_mass, mode.log_cluster) for mode in modes]
    return [mode.members for mode, value in zip(modes, mass) if value > max(mass) + np.log(LEAST_MASS)]


def _start(
    problem: Problem,
    start: str,
    seed: np.random.SeedSequence,
    chain: int,
    chains: int,
    modes: list[np.ndarray],
) -> np.ndarray:
    """The model at which one chain starts."""
    replicate = seed.spawn_key[-1]
    kind, turn = start, chain + replicate
    if start == "mixed":
        # one chain: replicates take turns; several: chains do
        odd, turn = (replicate % 2, replicate // 2) if chains == 1 else (chain % 2, replicate + chain // 2)
        kind = "modes" if not odd else ("screening", "prior")[turn % 2]
    if kind == "modes":
        if modes:
            return modes[turn % len(modes)]
        kind = ("screening", "prior")[(turn + 1) % 2]
    rng = stream(seed, _PATH, chain)
    return _make_allowed(
        problem, prior_draw(problem, rng) if kind == "prior" else screening_draw(problem, rng)
    )


def prior_draw(problem: Problem, rng: np.random.Generator) -> np.ndarray:
    """A draw from the model prior, or from the base of one that is diluted; under heredity, one that ``_make_allowed`` may still have to cut to max_size."""
    if isinstance(problem.model_prior, ConditionalPrior):
        return problem.model_prior.draw(rng, problem.p)
    return _base(problem).draw(rng, problem.p, problem.max_size)


def _base(problem: Problem) -> Any:
    """The prior on models as kernels know it."""
    prior = problem.model_prior
    return prior.base if isinstance(prior, Dilution) else prior


def prior_draws(problem: Problem, rng: np.random.Generator, n: int) -> list[np.ndarray]:
    """n draws from the model prior, or from its base."""
    prior, p = _base(problem), problem.p
    if isinstance(prior, ConditionalPrior):
        return prior.draws(rng, n, problem.max_size)
    if isinstance(prior, MarkovRandomField) or isinstance(getattr(prior, "h", None), tuple):
        return [prior_draw(problem, rng) for _ in range(n)]
    sizes = rng.choice(p + 1, size=n, p=prior.size_distribution(p, problem.max_size))
    return [rng.choice(p, size=size, replace=False, shuffle=False) for size in sizes]


def screening_draw(problem: Problem, rng: np.random.Generator) -> np.ndarray:
    """As many variables as a prior draw has, drawn with weights by how well each explains y on its own.

    Weights are the squared marginal correlation; a group counts its best column. If none explains anything, it is a draw from the prior.
    """
    design = problem.target(0).design
    score = np.maximum.reduceat(design.xty**2 / design.diagonal, problem.offsets[:-1])
    if not score.any():
        return prior_draw(problem, rng)
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
            memo = new_memo(0)
            if set_model(target, chain, memo, model, len(model)):
                break
            if fit_if_asked(problem, chain) and set_model(target, chain, memo, model, len(model)):
                break
        model = model[:-1]
    return model
