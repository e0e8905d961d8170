r"""A Gaussian surrogate of a posterior whose response is not Gaussian, for samplers that need scans.

At a reference :math:`\eta^*` of the linear predictor, the log likelihood is expanded to the second order:

.. math:: \log p(y \mid \eta) \approx \text{const} - \tfrac12 \sum_i W_i (z_i - \eta_i + o_i)^2, \qquad
          W_i = -w_i \ell''_i(\eta^*_i), \quad z_i = \eta^*_i - o_i + w_i \ell'_i(\eta^*_i) / W_i .

That is a linear model for the working response z with weights W and known noise variance 1. Under the problem's own slab its
marginal likelihood m̃ is exact and costs no fit, and the kernels of Gaussian problems run on it as they are. Nothing depends on how
good it is but speed: what samplers return is the posterior itself (``_kernels/decide.py``).

The g-prior has the information of the null model in it and not W, so that its surrogate has g·ΣW/ΣW₀ for g. What the posterior is
averaged over besides coefficients, the dispersion of counts or the g of a mixture of g-priors, has one value in a surrogate.

W of a Student response is the expected information, as its log density is not concave. It is the same for all rows but for their weights, and the
noise variance of the surrogate is unknown, as the scale of the response is: with a known one, models without a strong variable would be far too
improbable, and chains that begin there would not leave them.

Linear predictors include the kernels' offset: that of a Student response has −y in it (``_kernels/densities.py``).
"""

from typing import TYPE_CHECKING

import numpy as np
from threadpoolctl import threadpool_limits

from whichvars._kernels import evidence
from whichvars._kernels.densities import STUDENT
from whichvars._kernels.fits import derivatives_at
from whichvars._kernels.likelihood import BAS, DISPERSION, NOISE_SCALE, SHRINKAGE, Likelihood
from whichvars._kernels.products.stored import (
    NOT_STORED,
    SPARSE,
    Stored,
    new_stored,
    pair_products,
    times_vector,
)
from whichvars._kernels.target import Target
from whichvars.problem.columns import Products
from whichvars.problem.stored_columns import gram_matrix
from whichvars.problem.target import make_target

if TYPE_CHECKING:
    from whichvars.problem.problem import Problem

# Bound of |η* − o| for responses of two values: beyond it W would be so small that z has no digits
LARGEST_REFERENCE = 8.0
# of columns that are made into residuals at a time
BLOCK_BYTES = 16 << 20
# W is at least this share of its mean, for the same reason
LEAST_WEIGHT = 1e-6
# the g of a mixture is not above e to this power: a prior with one larger has no mass anywhere near the data
LARGEST_LOG_G = 60.0


def with_surrogate_at(problem: "Problem", eta: np.ndarray, outer: float | None = None) -> "Problem":
    """The problem with the surrogate at the reference `eta`, (n,), which includes the offset. `outer` is the log of the dispersion, of
    the scale or of g, where these are unknown; where it is left out, the value at which integrals over it begin."""
    if outer is None:
        outer = problem.likelihood().outer_start
    W, z = working_response(problem.likelihood(), eta, outer)
    return problem.with_surrogate(surrogate_target(problem, W, z, outer), np.array([W, W * z]))


def surrogate_target(problem: "Problem", W: np.ndarray, z: np.ndarray, outer: float) -> Target:
    """The surrogate with these weights and this working response, (n,) each."""
    likelihood = problem.likelihood()
    slab = problem.target(0).slab
    with threadpool_limits(limits=1, user_api="blas"):  # so that results are the same on every machine
        root = np.sqrt(W)
        basis = np.linalg.qr((likelihood.flat_columns * root).T)[0]
        response = _without((z * root)[None], basis)[0]
        # slabs that need full rank judge it by columns of unit length
        unit = likelihood.slab != evidence.INDEPENDENT
        make = _products if likelihood.stored.code == NOT_STORED else _stored_products
        products = make(likelihood, root, basis, response, unit, problem.surrogate_gram)
    total = float(response @ response)
    P = len(products.diagonal)
    ridge = np.array(slab.ridge[:P])
    if likelihood.slab == evidence.INDEPENDENT and likelihood.outer == SHRINKAGE:
        ridge *= np.exp(-outer)
    nu = np.inf
    if likelihood.outer == NOISE_SCALE:
        ridge *= np.exp(-2 * outer)
        nu = max(float(likelihood.weights.sum()) - likelihood.flat, 1.0)
    code, g = likelihood.slab, likelihood.g
    if code == evidence.MIXTURE:
        code, g = evidence.G_PRIOR, float(np.exp(min(outer, LARGEST_LOG_G)))
    if code == evidence.G_PRIOR and likelihood.evidence != BAS:
        assert problem.fit_data is not None
        g *= float(W.sum() / problem.fit_data.information.sum())
        if likelihood.outer == NOISE_SCALE:  # the slab is relative to s²
            g *= float(np.exp(2 * outer))
    return make_target(
        products,
        slab._replace(
            code=code,
            ridge=ridge,
            half_log_g=-0.5 * np.log(ridge) if likelihood.slab == evidence.INDEPENDENT else np.zeros(P),
            nu=nu,
            s_null=total,
            half_precision=0.5 * total,
            g=g,
            surrogate=True,
        ),
        problem.target(0).prior._replace(log_odds=np.array(problem.target(0).prior.log_odds)),
        problem.offsets,
    )


def _products(
    likelihood: Likelihood, root: np.ndarray, basis: np.ndarray, response: np.ndarray, unit: bool, gram: bool
) -> Products:
    """The products of the candidates' residuals on the flat columns, weighted by root². `basis`, (n, q), spans the flat columns times
    `root`."""
    P, n = likelihood.candidates.shape
    columns, step = np.zeros((P, n)), max(1, BLOCK_BYTES // (8 * n))
    change = root / likelihood.root
    for first in range(0, P, step):
        block = slice(first, first + step)
        columns[block] = _without(likelihood.candidates[block] * change, basis)
    if unit:
        lengths = np.linalg.norm(columns, axis=1)
        columns /= np.where(lengths > 0, lengths, 1.0)[:, None]
    diagonal, xty = np.einsum("ij,ij->i", columns, columns), columns @ response
    nothing = np.zeros((0, 0))
    return Products(columns @ columns.T if gram else nothing, nothing if gram else columns, diagonal, xty)


def _stored_products(
    likelihood: Likelihood, root: np.ndarray, basis: np.ndarray, response: np.ndarray, unit: bool, gram: bool
) -> Products:
    """The same for columns that stay as they are stored: only means, regressions on the flat columns and scales are other ones."""
    held, P = likelihood.stored, len(likelihood.stored.where)
    used = likelihood.used if len(likelihood.used) else np.arange(len(held.basis))
    weights, whole_basis = np.zeros(len(held.basis)), np.zeros((len(held.basis), basis.shape[1]))
    weights[used], whole_basis[used] = root * root, basis
    scale = held.factor / likelihood.root.max()  # stored weights are relative to the largest
    plain = {"loads": np.zeros((P, 0)), "basis": np.zeros((len(weights), 0)), "factor": np.ones(P)}
    held = new_stored(**held._asdict() | plain | {"weights": weights, "total_weight": weights.sum()})
    # Products of sparse columns are right for columns with mean 0 alone. Other columns may have missing entries, at the old mean.
    if held.code == SPARSE:
        held = new_stored(**held._asdict() | {"centre": np.zeros(P)})
        held = new_stored(**held._asdict() | {"centre": _times(held, weights) / weights.sum()})
    whole = np.sqrt(weights)
    loads = np.column_stack([_times(held, whole * column) for column in whole_basis.T])
    held = new_stored(**held._asdict() | {"loads": loads, "basis": whole_basis})
    diagonal, index = np.zeros(P), np.arange(P)
    pair_products(held, index, index, diagonal)
    if unit:
        scale = 1 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    whole_response = np.zeros(len(weights))
    whole_response[used] = response
    xty = _times(held, whole * whole_response) * scale
    held = new_stored(**held._asdict() | {"factor": scale})
    nothing = np.zeros((0, 0))
    if gram:
        return Products(gram_matrix(held), nothing, diagonal * scale**2, xty)
    return Products(nothing, nothing, diagonal * scale**2, xty, held)


def _times(held: Stored, vector: np.ndarray) -> np.ndarray:
    """The products of all columns, before they are weighted and made residuals, and a vector, (P,)."""
    out = np.zeros(len(held.where))
    times_vector(held, vector, np.zeros(held.loads.shape[1]), out)
    return out


def working_response(likelihood: Likelihood, eta: np.ndarray, outer: float) -> tuple[np.ndarray, np.ndarray]:
    """W and z at a reference that includes the offset, (n,) each."""
    n = len(likelihood.y)
    score, curvature = np.zeros(n), np.zeros(n)
    here = eta
    if likelihood.outer == DISPERSION:  # the same mean with another r: log r is a part of the offset
        here = eta + (likelihood.outer_start - outer)
        likelihood = likelihood._replace(trials=likelihood.y + np.exp(outer))
    if likelihood.outer == NOISE_SCALE:
        likelihood = likelihood._replace(trials=likelihood.y * np.exp(2 * outer))
    derivatives_at(likelihood, np.ascontiguousarray(here), score, curvature)
    if likelihood.code == STUDENT:
        df = likelihood.y
        curvature = likelihood.weights * (df + 1) / (df + 3) * np.exp(-2 * outer)
    W = np.maximum(curvature, LEAST_WEIGHT * curvature.mean())
    return W, eta - likelihood.offset + score / W


def bounded_reference(problem: "Problem", eta: np.ndarray) -> np.ndarray:
    """The reference, no further from the null model's than LARGEST_REFERENCE, unless the response is Student's, whose W is the same everywhere."""
    if problem.likelihood().code == STUDENT:
        return eta
    null = null_predictor(problem)
    return null + np.clip(eta - null, -LARGEST_REFERENCE, LARGEST_REFERENCE)


def null_predictor(problem: "Problem") -> np.ndarray:
    """η of the null model, (n,)."""
    assert problem.fit_data is not None
    return problem.likelihood().offset + problem.fit_data.start @ problem.fit_data.flat


def _without(rows: np.ndarray, basis: np.ndarray) -> np.ndarray:
    """The rows less their projections on the columns of `basis`; twice, for accuracy."""
    for _ in range(2):
        rows = rows - (rows @ basis) @ basis.T
    return rows
