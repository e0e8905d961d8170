"""Log marginal likelihood and log prior of many models at once: what kernels work out one by one (the formulas
are in ``_kernels/evidence.py``), for the models a posterior keeps."""

import numpy as np

from whichvars._kernels import target as codes
from whichvars._kernels.evidence import SMALLEST_RESIDUAL
from whichvars.posterior.coefficients import KeptModels, batches, full_rank, precisions
from whichvars.problem.heredity import ConditionalPrior
from whichvars.problem.mixtures import read_table
from whichvars.problem.problem import Problem


def log_priors(problem: Problem, kept: KeptModels) -> np.ndarray:
    """log p(γ) of each model, with its constant, (models,); −∞ where it is larger than allowed or lacks a parent."""
    prior, terms = problem.model_prior, problem.target(0).prior
    sizes = np.diff(kept.start)
    if isinstance(prior, ConditionalPrior):
        value = prior.log_priors(kept.members, kept.start, problem.p)
    else:
        owner = np.repeat(np.arange(len(kept)), sizes)
        value = np.bincount(owner, terms.log_odds[kept.members], len(kept)) + terms.log_size[sizes]
    return np.where(sizes <= terms.max_size, value + prior.log_constant(problem.p, problem.max_size), -np.inf)


def log_marginals(problem: Problem, kept: KeptModels) -> np.ndarray:
    """log p(y | γ) − log p(y | null model) of each model, (models,); −∞ where the slab needs full rank and the
    model has not got it."""
    out = np.zeros(len(kept))
    for index, columns in batches(problem, kept):
        if columns.shape[1]:
            out[index] = _batch(problem, columns)
    return out


def _batch(problem: Problem, columns: np.ndarray) -> np.ndarray:
    m, k = columns.shape
    if k > problem.max_columns:
        return np.full(m, -np.inf)
    design, slab = problem.target(k).design, problem.target(k).slab
    gram = precisions(problem, columns)
    good = full_rank(problem, _inverses(gram))
    gram[~good] = np.eye(k)
    right = np.where(good[:, None], design.xty[columns], 0.0)
    explained = np.einsum("mk,mk->m", right, np.linalg.solve(gram, right[:, :, None])[:, :, 0])
    residual = np.clip(1 - explained / slab.s_null, SMALLEST_RESIDUAL, 1.0)
    value = _log_marginal(slab, k, residual)
    if slab.code == codes.INDEPENDENT:
        value -= slab.half_log_g[columns].sum(axis=1) + 0.5 * np.linalg.slogdet(gram)[1]
    return np.where(good, value, -np.inf)


def _inverses(gram: np.ndarray) -> np.ndarray:
    """Inverses, NaN where there is none."""
    try:
        return np.linalg.inv(gram)
    except np.linalg.LinAlgError:
        if len(gram) == 1:
            return np.full_like(gram, np.nan)
        half = len(gram) // 2
        return np.concatenate([_inverses(gram[:half]), _inverses(gram[half:])])


def _log_marginal(slab: codes.Slab, k: int, residual: np.ndarray) -> np.ndarray:
    """The formulas by slab, of S/S₀ (for the R² family 1 − R²); the independent slab's without determinants."""
    nu = slab.nu
    if slab.code == codes.INDEPENDENT:
        return -0.5 * nu * np.log(residual)
    if slab.code == codes.BIC:
        return -0.5 * slab.rows * np.log(residual) - 0.5 * k * np.log(slab.rows)
    if slab.code == codes.MIXTURE:
        return read_table(slab.table, k, -np.log(residual))
    g = np.full(len(residual), slab.g)
    if slab.code == codes.EMPIRICAL_BAYES:
        g = np.maximum((1 - residual) * (nu - k) / (k * residual) - 1, 0.0)
    return 0.5 * (nu - k) * np.log1p(g) - 0.5 * nu * np.log1p(g * residual)
