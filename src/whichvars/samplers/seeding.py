"""From one seed to independent random streams: one per replicate, and within it one per chain."""

from typing import Any

import numpy as np

from whichvars.errors import ArgumentTypeError, DataError

POOL_SIZE = 4  # words of 32 bits: NumPy's default


def replicate_seeds(
    seed: int | np.random.SeedSequence | None, replicates: int
) -> list[np.random.SeedSequence]:
    """One seed sequence per replicate; the first r are the same for any larger number of replicates.

    >>> a, b = replicate_seeds(1, 2), replicate_seeds(1, 3)
    >>> a[1].spawn_key == b[1].spawn_key
    True
    """
    if seed is not None and not isinstance(seed, (int, np.integer, np.random.SeedSequence)):
        raise ArgumentTypeError(f"seed must be a whole number or None, not {seed!r}")
    if isinstance(seed, np.random.SeedSequence) and seed.pool_size != POOL_SIZE:
        raise DataError(
            f"seed: a SeedSequence must have the usual pool_size of {POOL_SIZE}, not {seed.pool_size}"
        )
    if isinstance(seed, (int, np.integer)) and seed < 0:
        raise DataError(f"seed must be at least 0, not {seed}")
    root = (
        seed
        if isinstance(seed, np.random.SeedSequence)
        else np.random.SeedSequence(None if seed is None else int(seed))
    )
    return [np.random.SeedSequence(root.entropy, spawn_key=(*root.spawn_key, i)) for i in range(replicates)]


def plain_entropy(seed: np.random.SeedSequence) -> int | list[int]:
    """The entropy of a seed sequence as numbers of Python, which can be stored."""
    entropy: Any = seed.entropy
    return int(entropy) if isinstance(entropy, (int, np.integer)) else [int(word) for word in entropy]


def plain_seed(seed: Any) -> Any:
    """A seed as it is kept with results: a number, None, or the parts that a seed sequence is made of.

    >>> plain_seed(3), plain_seed(np.random.SeedSequence(5).spawn(2)[1])
    (3, {'entropy': 5, 'spawn_key': [1]})
    """
    if isinstance(seed, np.random.SeedSequence):
        return {"entropy": plain_entropy(seed), "spawn_key": list(seed.spawn_key)}
    return int(seed) if isinstance(seed, np.integer) else seed


def stream(seed: np.random.SeedSequence, *path: int) -> np.random.Generator:
    """The generator at `path` below a replicate's seed."""
    return np.random.Generator(
        np.random.PCG64DXSM(np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, *path)))
    )
