r"""Which variables are in the model together, and which exclude one another.

For a pair of variables let p₁₁ be the posterior probability that both are in, p₁₀ and p₀₁ that one of them alone is in, and p₀₀ that
neither is. Four published measures of jointness:

================= ============================================================================= ====================================
`jointness`       p₁₁/(p₁₁ + p₁₀ + p₀₁), from 0 (never together) to 1 (never apart)               Ley and Steel (2007)
`jointness_odds`  p₁₁/(p₁₀ + p₀₁), above 1 if they are together more often than one is alone       Ley and Steel (2007)
`log_odds_ratio`  log(p₁₁ p₀₀/(p₁₀ p₀₁)), 0 if they are independent                               Doppelhofer and Weeks (2009)
`yule_q`          the modified Yule's Q below, from −1 to 1                                       Hofmarcher et al. (2018)
================= ============================================================================= ====================================

.. math:: Q = \frac{(p_{11} + \frac12)(p_{00} + \frac12) - (p_{10} + \frac12)(p_{01} + \frac12)}
                   {(p_{11} + \frac12)(p_{00} + \frac12) + (p_{10} + \frac12)(p_{01} + \frac12) - \frac12}.

Q is 1 if both are always in or always out together, −1 if exactly one of them is always in, and it exists where other measures do not,
because a probability is 0. Negative values mean that variables stand in for one another, positive ones that they need one another.

**Errors.** To first order each measure is a linear function of the four probabilities, with the measure's derivatives as coefficients. Their
differences between replicates give the Monte Carlo error.

References: Ley and Steel (2007), Journal of Macroeconomics 29, 476–493; Doppelhofer and Weeks (2009), Journal of Applied Econometrics 24,
209–244; Hofmarcher, Crespo Cuaresma, Grün, Humer and Moser (2018), Journal of
Macroeconomics 57, 150–165.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from whichvars.posterior.models import KeptModels

CELLS = ("both", "first_only", "second_only", "neither")
MEASURES = ("jointness", "jointness_odds", "log_odds_ratio", "yule_q")


def pair_table(
    kept: KeptModels, first: Sequence[int], second: Sequence[int], names: list[str], exact: bool
) -> pd.DataFrame:
    """The probabilities and measures of pairs of variables, and the Monte Carlo error of each of them under its name with ``_mcse``, one
    row for each pair."""
    chosen = np.unique([*first, *second])
    inside = np.column_stack([kept.having(int(j)) for j in chosen]).astype(float)
    i, j = np.searchsorted(chosen, first), np.searchsorted(chosen, second)
    cells = _cells(kept.weight, inside, i, j)
    others = np.array([_cells(w, inside, i, j) for w in kept.other_weights]).reshape(-1, *cells.shape)
    values, errors = dict(zip(CELLS, cells)), {}
    with np.errstate(divide="ignore", invalid="ignore"):
        derivatives = dict(zip(CELLS, np.broadcast_to(np.eye(4)[:, :, None], (4, *cells.shape))))
        for name, (value, slopes) in _measures(*cells).items():
            values[name], derivatives[name] = value, np.array(slopes)
        for name, slopes in derivatives.items():
            errors[f"{name}_mcse"] = kept.error_of(np.einsum("rcp,cp->rp", others, slopes), exact)
    index = pd.MultiIndex.from_arrays(
        [[names[v] for v in first], [names[v] for v in second]], names=["first", "second"]
    )
    return pd.DataFrame(values | errors, index=index)


def _cells(weight: np.ndarray, inside: np.ndarray, i: np.ndarray, j: np.ndarray) -> np.ndarray:
    """p₁₁, p₁₀, p₀₁ and p₀₀ of pairs of columns of `inside`, (models, variables), under these weights: (4, pairs)."""
    both, single = (inside.T @ (weight[:, None] * inside))[i, j], weight @ inside
    # subtracting leaves rounding errors where a probability is 0
    rounding = 4 * np.finfo(float).eps
    others = [single[i] - both, single[j] - both, weight.sum() - single[i] - single[j] + both]
    return np.array([both, *(np.where(np.abs(v) < rounding, 0.0, v) for v in others)])


def _measures(
    a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray
) -> dict[str, tuple[np.ndarray, list[np.ndarray]]]:
    """Each measure at p₁₁, p₁₀, p₀₁ and p₀₀, and its derivatives with respect to them."""
    none, some = np.zeros_like(a), a + b + c
    log_odds = np.log(a) + np.log(d) - np.log(b) - np.log(c)
    above, below = a * d - b * c + (a + d - b - c) / 2, a * d + b * c + 0.5
    return {
        "jointness": (a / some, [(b + c) / some**2, -a / some**2, -a / some**2, none]),
        "jointness_odds": (a / (b + c), [1 / (b + c), -a / (b + c) ** 2, -a / (b + c) ** 2, none]),
        "log_odds_ratio": (log_odds, [1 / a, -1 / b, -1 / c, 1 / d]),
        "yule_q": (
            above / below,
            [
                (d + 0.5) / below - above * d / below**2,
                -(c + 0.5) / below - above * c / below**2,
                -(b + 0.5) / below - above * b / below**2,
                (a + 0.5) / below - above * a / below**2,
            ],
        ),
    }
