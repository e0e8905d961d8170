"""From one seed to independent random streams: one per replicate, and within it one per chain."""

import numpy as np

from whichvars.errors import ArgumentTypeError, DataError


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
    if isinstance(seed, (int, np.integer)) and seed < 0:
        raise DataError(f"seed must be at least 0, not {seed}")
    root = (
        seed
        if isinstance(seed, np.random.SeedSequence)
        else np.random.SeedSequence(None if seed is None else int(seed))
    )
    return [np.random.SeedSequence(root.entropy, spawn_key=(*root.spawn_key, i)) for i in range(replicates)]


def stream(seed: np.random.SeedSequence, *path: int) -> np.random.Generator:
    """The generator at `path` below a replicate's seed."""
    return np.random.Generator(
        np.random.PCG64DXSM(np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, *path)))
    )
