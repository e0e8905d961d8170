r"""A prior on models that takes prior probability from models with correlated columns (George 2010).

.. math:: p(\gamma) \propto p_0(\gamma)\, d(\gamma)^a, \qquad d(\gamma) = |R_\gamma| \Big/ \prod_{j \in \gamma} |R_j|

:math:`R_\gamma` is the correlation matrix of the columns of γ, all of them residuals on the always-included columns, and :math:`R_j` that of the
columns of variable j alone, which is 1 if there is one. So d is 1 if variables are uncorrelated, whatever the columns of one group are, and 0 if their
columns are linearly dependent.

d depends on all of γ, and kernels know priors that are sums over variables, sizes and edges. For them the prior is :math:`p_0`, and
:math:`d^a` is a factor of the marginal likelihood (``problem/evaluating.py``). What is known of the prior as a whole, its normalising constant
above all, is a mean over :math:`p_0`: over all models if these are few, else over draws.
"""

from dataclasses import dataclass, field, replace
from math import comb
from typing import Any

import numpy as np
from scipy.special import logsumexp

from whichvars._kernels.evidence import SMALLEST_TOLERANCE
from whichvars._kernels.target import Design
from whichvars.errors import DataError
from whichvars.problem.columns import ColumnsOfModels, gram_of
from whichvars.problem.prior_numbers import positive

# most models that are enumerated for what is known of the prior, and how many are drawn if there are more
MOST_ENUMERATED, DRAWN = 1 << 14, 4000
MOST_IN_MASKS = 20
# numbers of the correlation matrices that are made at a time, and roughly the operations that all draws may take
AT_ONCE, OPERATIONS = 1 << 21, 4e9


@dataclass(frozen=True)
class OfColumns:
    """What is known of a dilution prior on the columns of one problem."""

    log_mean: float  # log of the mean of dᵃ over the base prior
    error: float  # its standard error: 0 if all models were enumerated
    inclusion: np.ndarray  # (p,)
    sizes: np.ndarray  # (p + 1,)


@dataclass(frozen=True, repr=False)
class Dilution:
    r"""Dilution prior (George 2010): :math:`p(\gamma) \propto p_0(\gamma)\,|R_\gamma|^a`, with :math:`R_\gamma` the correlation matrix of the columns in the
    model.

    Models whose columns are nearly the same have little prior probability, and those with linearly dependent columns have none. So ten measurements of
    one cause do not get ten times the prior probability of one measurement of another: models with several of them are given up to others. Columns that are uncorrelated
    are not affected. Of columns in `groups`, only correlations between groups count.

    Parameters
    ----------
    base : FixedInclusion, BetaBinomial, PoissonSize, Complexity, SizeDistribution or MarkovRandomField
        The prior :math:`p_0` that is diluted. The default is ``BetaBinomial(size=min(5, p/2))``.
    power : float
        a; 1 is usual. Larger values dilute more, and for a → 0 the prior becomes its base.

    Examples
    --------
    Two columns that are nearly the same, and one of its own:

    >>> import numpy as np, whichvars as wv
    >>> rng = np.random.default_rng(1)
    >>> a, b, c, y = rng.normal(size=(4, 100))
    >>> problem = wv.Problem(np.column_stack([a, a + 0.1 * b, c]), y, model_prior=Dilution(wv.FixedInclusion(h=0.5)))
    >>> problem.model_prior
    Dilution(FixedInclusion(h=0.5), power=1.0)
    >>> problem.model_prior.inclusion(3).round(2)
    array([0.34, 0.34, 0.5 ])
    """

    base: Any = None
    power: float = 1.0
    of_columns: OfColumns | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "power", positive(self.power, "power", self))
        if isinstance(self.base, Dilution):
            raise DataError(
                f"Dilution: base is diluted itself; give power={self.power + self.base.power:g} once instead"
            )

    def __repr__(self) -> str:
        return f"Dilution({'' if self.base is None else f'{self.base!r}, '}power={self.power})"

    def __str__(self) -> str:
        return f"Dilution({'' if self.base is None else f'{self.base}, '}power={self.power})"

    def known(self) -> OfColumns:
        """What is known of the prior, which depends on columns."""
        if self.of_columns is None:
            raise DataError(
                "Dilution depends on the columns: make a Problem with it, and ask its model_prior instead"
            )
        return self.of_columns

    def log_terms(self, p: int) -> tuple[np.ndarray, np.ndarray]:
        """Those of the base prior."""
        return self.base.log_terms(p)

    def log_constant(self, p: int, max_size: int | None = None) -> float:
        """What must be added to the sum of the terms and a log d to give the log of a probability."""
        return self.base.log_constant(p, max_size) - self.known().log_mean

    def inclusion(self, p: int) -> np.ndarray:
        """Prior inclusion probability of each of p variables, shape (p,); from simulated draws if there are more than 16,384 models."""
        return self.known().inclusion.copy()

    def size_distribution(self, p: int, max_size: int | None = None) -> np.ndarray:
        """Prior probability of each model size 0 … p, shape (p + 1,), from simulated draws in the same case."""
        return self.known().sizes.copy()


def log_dilutions(
    design: Design, offsets: np.ndarray, members: np.ndarray, start: np.ndarray, power: float
) -> np.ndarray:
    """a log d(γ) of each model, (models,); −∞ where columns are linearly dependent. The variables of all models are one after the other in
    `members`, and `start` says where each begins."""
    within = np.zeros(len(offsets) - 1)
    wide = np.flatnonzero(np.diff(offsets) > 1)
    if len(wide):
        within[wide] = _log_determinants(design, ColumnsOfModels.of(offsets, wide, np.arange(len(wide) + 1)))
    columns = ColumnsOfModels.of(offsets, members, start)
    sums = np.concatenate([[0.0], np.cumsum(np.where(np.isfinite(within), within, 0.0)[members])])
    # a group that is linearly dependent by itself leaves its models without probability
    return power * (_log_determinants(design, columns) - (sums[start[1:]] - sums[start[:-1]]))


def _log_determinants(design: Design, columns: ColumnsOfModels) -> np.ndarray:
    """log |R| of the columns of each model; −∞ if its smallest eigenvalue is that of rounding."""
    sizes = np.diff(columns.start)
    out = np.zeros(len(sizes))
    length = np.sqrt(design.diagonal)
    for k in np.unique(sizes[sizes > 1]):
        chosen = np.flatnonzero(sizes == k)
        step = max(1, AT_ONCE // int(k * max(k, 1 if len(design.gram) else len(design.columns.T), 1)))
        for first in range(0, len(chosen), step):
            some = chosen[first : first + step]
            index = columns.columns[columns.start[some][:, None] + np.arange(k)]
            scale = length[index]
            values = np.linalg.eigvalsh(gram_of(design, index) / (scale[:, :, None] * scale[:, None, :]))
            sound = values[:, 0] > SMALLEST_TOLERANCE
            with np.errstate(all="ignore"):
                out[some] = np.where(sound, np.log(np.maximum(values, 1e-300)).sum(axis=1), -np.inf)
    return out


def all_models(p: int, max_size: int) -> tuple[np.ndarray, np.ndarray]:
    """The variables of all models of at most max_size of p variables, and where each begins."""
    masks = (np.arange(1 << p)[:, None] >> np.arange(p)) & 1
    masks = masks[masks.sum(axis=1) <= max_size]
    return np.nonzero(masks)[1].astype(np.int64), np.concatenate([[0], np.cumsum(masks.sum(axis=1))])


def on_columns(prior: Any, design: Design, offsets: np.ndarray, max_size: int) -> Any:
    """The prior, with what is known of it on these columns if it is diluted."""
    if not isinstance(prior, Dilution) or prior.of_columns is not None:
        return prior
    return replace(prior, of_columns=_known(prior, design, offsets, max_size))


def _known(prior: Dilution, design: Design, offsets: np.ndarray, max_size: int) -> OfColumns:
    p, base = len(offsets) - 1, prior.base
    few = p <= MOST_IN_MASKS and sum(comb(p, k) for k in range(max_size + 1)) <= MOST_ENUMERATED
    if few:
        members, start = all_models(p, max_size)
        log_odds, log_size = base.log_terms(p)
        logs = sums_of_terms(base, log_odds, log_size, members, start) + base.log_constant(p, max_size)
    else:
        rng = np.random.default_rng(20_100_719)
        models: list[np.ndarray] = []
        cost = 0.0
        while len(models) < DRAWN and cost < OPERATIONS:
            models.append(base.draw(rng, p, max_size))
            cost += 10.0 * len(models[-1]) ** 3 + 1e3
        members = np.concatenate(models).astype(np.int64)
        start = np.concatenate([[0], np.cumsum([len(model) for model in models])])
        logs = np.full(len(models), -np.log(len(models)))
    logs = logs + log_dilutions(design, offsets, members, start, prior.power)
    log_mean = float(logsumexp(logs))
    if not np.isfinite(log_mean):
        raise DataError(
            f"Dilution: no model that was drawn from {base} has linearly independent columns; give a base with fewer variables, or max_size"
        )
    weight, sizes = np.exp(logs - log_mean), np.diff(start)
    error = 0.0 if few else float(np.sqrt(max((weight**2).sum() - 1 / len(weight), 0.0)))
    inclusion = np.bincount(members, np.repeat(weight, sizes), p)
    return OfColumns(log_mean, error, np.minimum(inclusion, 1.0), np.bincount(sizes, weight, p + 1))


def sums_of_terms(
    prior: Any, log_odds: np.ndarray, log_size: np.ndarray, members: np.ndarray, start: np.ndarray
) -> np.ndarray:
    """Log prior probabilities of models without the constant, (models,), under a prior that kernels know: sums of the log odds of the variables, (p,),
    and a term by size, (p + 1,), unless the prior has more than these."""
    if hasattr(prior, "log_priors"):
        return prior.log_priors(members, start, len(log_odds))
    sizes = np.diff(start)
    owner = np.repeat(np.arange(len(sizes)), sizes)
    return np.bincount(owner, log_odds[members], len(sizes)) + log_size[sizes]
