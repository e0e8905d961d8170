"""Predictions from several completions of the same new rows."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd

from whichvars.posterior.posterior import Posterior
from whichvars.problem.families import is_linear

# draws of new responses for each completion of new rows
PREDICTIVE_DRAWS = 400


def predictions(
    part: Posterior, tables: Sequence[Any], offset: Any, kind: Literal["mean", "link"] | None
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Means and standard deviations of the rows of each table, (m,) each.

    All tables are predicted at once: models of responses that are not Gaussian have to be fitted again for a prediction, which takes seconds.
    """
    m = len(tables[0]) if len(tables) > 1 else 0
    each = np.ndim(offset) > 0  # an offset for each row
    if m == 0 or (each and len(offset) != m):  # the latter is an error, which names the two lengths
        return [part.predict(rows, return_std=True, offset=offset, kind=kind) for rows in tables]
    offsets = np.tile(np.asarray(offset), len(tables)) if each else offset
    rows = pd.concat(tables, ignore_index=True)
    mean, std = part.predict(rows, return_std=True, offset=offsets, kind=kind)
    return list(zip(mean.reshape(-1, m), std.reshape(-1, m), strict=True))


def draws_of(part: Posterior, tables: Sequence[Any], offset: Any, seed: int) -> list[np.ndarray]:
    """Draws of new responses of the rows of each table, (draws, m) each; if the family is neither Gaussian nor Student, of linear predictors,
    by a normal distribution."""
    if is_linear(part.problem.family):
        return [
            part.draw_response(rows, PREDICTIVE_DRAWS, seed + j, offset=offset)
            for j, rows in enumerate(tables)
        ]
    return [
        mean + std * np.random.default_rng(seed + j).normal(size=(PREDICTIVE_DRAWS, len(mean)))
        for j, (mean, std) in enumerate(predictions(part, tables, offset, "link"))
    ]
