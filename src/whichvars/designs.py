"""From the columns of X to what kernels see of them."""

import numpy as np

ZOBRIST_SEED = 20141220  # of the keys of models; fixed, so that a run depends on its own seed alone


def side_by_side(*arrays: np.ndarray) -> list[np.ndarray]:
    """The same vectors as strided views of one table of 32 bytes a row, as long as the longest.

    A kernel that meets a variable for the first time in a while wants all of them: one line of memory instead of four.
    """
    fields = [(str(i), a.dtype) for i, a in enumerate(arrays)] + [
        (f"unused{i}", np.float64) for i in range(4 - len(arrays))
    ]
    table = np.zeros(max(map(len, arrays)), dtype=fields)
    for i, array in enumerate(arrays):
        table[str(i)][: len(array)] = array
    return [table[str(i)] for i in range(len(arrays))]


def find_duplicates(columns: np.ndarray, names: list[str]) -> list[list[str]]:
    """Sets of columns with |correlation| 1, by sorting their products with one random direction."""
    lengths = np.linalg.norm(columns, axis=1)
    direction = np.random.Generator(np.random.PCG64DXSM(ZOBRIST_SEED)).standard_normal(columns.shape[1])
    shadow = np.abs(columns @ direction) / lengths
    order = np.argsort(shadow, kind="stable")
    sets: list[list[int]] = []
    for place in np.flatnonzero(np.diff(shadow[order]) < 1e-8):
        a, b = int(order[place]), int(order[place + 1])
        if abs(columns[a] @ columns[b]) > (1 - 1e-12) * lengths[a] * lengths[b]:
            if sets and sets[-1][-1] == a:
                sets[-1].append(b)
            else:
                sets.append([a, b])
    return [[names[i] for i in sorted(group)] for group in sorted(map(sorted, sets))]
