"""Fits of single models for families that are not Gaussian: the null model, and the kernels' ``Likelihood``.

The coefficients of the intercept and of the always-included columns have flat priors. So these columns may be replaced by any
basis F of their span, and the candidates by residuals of a regression on them, without a change of a marginal likelihood relative
to the null model's. F is orthonormal in the metric of the weights, and the candidates are residuals in that metric, as they are in
the Gaussian stand-in.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import expit, log_ndtr, logsumexp

from whichvars._kernels import densities, evidence
from whichvars._kernels import likelihood as kernels
from whichvars._kernels.family_evidence import evaluate_family_models, fit_null_model
from whichvars._kernels.likelihood import FitWork, Likelihood
from whichvars._kernels.newton import FOUND
from whichvars._kernels.products.stored import NOT_STORED, new_stored
from whichvars._kernels.target import Target
from whichvars.errors import DataError
from whichvars.problem.columns import stored_columns_at
from whichvars.problem.families import (
    EVIDENCE,
    MIXTURES_OF_G,
    Counted,
    Gaussian,
    NegativeBinomial,
    Student,
    weighted_median,
)
from whichvars.problem.mixtures import grid_of_g, shrinkage_grid
from whichvars.problem.priors import BIC, GPrior, IndependentNormal
from whichvars.problem.reading import Response

if TYPE_CHECKING:
    from whichvars.problem.for_kernels import ForKernels


class FitData(NamedTuple):
    """The rows of positive weight, and the null model's fit."""

    y: np.ndarray  # (n,)
    trials: np.ndarray  # (n,), of a Student response the degrees of freedom
    weights: np.ndarray  # (n,)
    offset: np.ndarray  # (n,), with the family's own shift
    given: np.ndarray  # (n,) the user's offset, or (0,) if there is none
    constant: float  # of the log likelihood: terms without η
    # r of the negative binomial distribution, or s of a Student response; where it is unknown, that of the null model's fit; else 0
    dispersion: float
    flat: np.ndarray  # (q, n) F
    start: np.ndarray  # (q,) δ̂ of the null model
    score: np.ndarray  # (n,) ℓ' there
    information: np.ndarray  # (n,) w E[−ℓ''] there; of a Student response, times s²
    # (1 + columns of Z, q): A with F = [1, Z − means]·A, Z the always-included columns of ``FlatPart``
    coordinates: np.ndarray = np.zeros((0, 0))
    # of the prior of log r or log s, where it is unknown: mean and standard deviation; otherwise 0
    log_mean: float = 0.0
    log_sd: float = 0.0


def fit_null(
    family: Counted,
    response: Response,
    offset: np.ndarray | None,
    weights: np.ndarray,
    basis: np.ndarray,
    always: np.ndarray,
    always_names: list[str],
) -> FitData:
    """Fit the intercept and the always-included columns, of which `basis` (n, q) spans √w times theirs.

    There is no finite fit if these columns separate the classes; the error names the column.
    """
    n = len(weights)
    flat = np.ascontiguousarray((basis / np.sqrt(weights / weights.max())[:, None]).T * np.sqrt(n))
    given = np.zeros(0) if offset is None else offset
    moved = np.zeros(n) + response.shift if offset is None else offset + response.shift
    data = FitData(
        response.y, response.trials, weights, moved, given, float(weights @ response.constant),
        float(getattr(family, "start", 0.0)), flat, np.zeros(len(flat)), np.zeros(n), np.zeros(n),
    )  # fmt: skip
    if isinstance(family, NegativeBinomial) and family.dispersion is None:
        data = data._replace(log_mean=float(np.log(family.prior_median)), log_sd=family.prior_sd)
    if isinstance(family, Student):
        unit = family.unit(data.y - data.offset, weights)
        data = data._replace(dispersion=unit, log_mean=float(np.log(unit)), log_sd=family.prior_sd)
    level = _intercept_alone(family.code, data)
    start = np.linalg.lstsq(flat.T, np.full(n, level), rcond=None)[0]
    fitted = _climb(family.code, data._replace(start=start))
    # of what is left, nothing but rounding error
    perfect = (
        fitted is not None and isinstance(family, Student) and fitted.dispersion < 1e-6 * data.dispersion
    )
    if fitted is None or perfect:
        raise DataError(_why_infinite(family, data, always, always_names))
    return fitted


def with_coordinates(data: FitData, z: np.ndarray, z_mean: np.ndarray) -> FitData:
    """The data with A, from the columns Z (n, columns) and their means."""
    centred = z - z_mean
    lengths = np.sqrt(data.weights @ centred**2 / data.weights.sum())
    parts = np.column_stack([np.ones(len(z)), centred / lengths])
    root = np.sqrt(data.weights)[:, None]
    A = np.linalg.lstsq(root * parts, root * data.flat.T, rcond=None)[0]
    return data._replace(coordinates=A / np.concatenate([[1.0], lengths])[:, None])


def _intercept_alone(code: int, data: FitData) -> float:
    """The intercept of the model with nothing else: where the sum of the scores, which falls, is 0. Of a Student response, a number near it."""
    y, t, w, o = data.y, data.trials, data.weights, data.offset
    if code == densities.POISSON:
        return float(np.log(w @ y) - logsumexp(o, b=w))
    if code == densities.STUDENT:
        return weighted_median(y - o, w)

    def slope(level: float) -> float:
        eta = o + level
        if code == densities.BINOMIAL:
            return float(w @ (y - t * expit(eta)))
        sign = 2 * y - 1
        with np.errstate(over="ignore"):
            return float(w @ (sign * np.exp(np.clip(-eta * eta / 2 - log_ndtr(sign * eta), -700, 700))))

    low, high = -float(o.max()) - 1.0, -float(o.min()) + 1.0
    while slope(low) < 0:
        low -= 2 * (high - low)
    while slope(high) > 0:
        high += 2 * (high - low)
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if slope(middle) > 0 else (low, middle)
    return (low + high) / 2


def _climb(code: int, data: FitData) -> FitData | None:
    """The data with the fit of the null model; None if there is none that is finite."""
    likelihood = _new_likelihood(
        code, evidence.BIC, kernels.LAPLACE, data, np.zeros(1, np.int64), np.zeros(0, np.uint64)
    )
    work = kernels.new_fit_work(likelihood, 0)
    how = fit_null_model(likelihood, work)
    if how != FOUND:
        return None
    if data.log_sd > 0:
        r, old = float(np.exp(work.outer[kernels.OUTER])), data.dispersion
        data = data._replace(dispersion=r)
        if code != densities.STUDENT:
            offset = data.offset + (np.log(old) - work.outer[kernels.OUTER])
            data = data._replace(trials=data.y + r, offset=offset)
    return data._replace(
        start=work.vectors[kernels.THETA].copy(),
        score=work.rows[kernels.SCORE] / data.weights,
        information=data.weights * _expected_information(code, data, work.rows[kernels.ETA]),
    )


def _expected_information(code: int, data: FitData, eta: np.ndarray) -> np.ndarray:
    """E[−ℓ''] of each row at this η, which includes the offset, (n,); of a Student response, times s². It is that of the response's distribution and does not depend
    on the response itself, as befits a prior."""
    if code == densities.POISSON:
        return np.exp(eta)
    if code == densities.STUDENT:
        return (data.trials + 1) / (data.trials + 3)
    if code == densities.PROBIT:
        with np.errstate(over="ignore"):
            return np.exp(-eta * eta - np.log(2 * np.pi) - log_ndtr(eta) - log_ndtr(-eta))
    share = expit(eta)
    if data.dispersion > 0:  # negative binomial: the expected number of trials is that of the expected count
        return data.dispersion * share
    return data.trials * share * expit(-eta)


def _why_infinite(family: Counted, data: FitData, always: np.ndarray, names: list[str]) -> str:
    """Which always-included column separates the response."""
    if family.code == densities.STUDENT:
        return f"the null model of family={family} has no fit: the always-included columns explain the response without any noise"
    root = np.sqrt(data.weights)
    culprit = ""
    for i, name in enumerate(names):
        pair = np.column_stack([np.ones(len(root)), always[:, i] - always[:, i].mean()]) * root[:, None]
        lengths = np.linalg.norm(pair, axis=0)
        if not lengths[1] > 0:
            continue
        left, singular, _ = np.linalg.svd(pair / lengths, full_matrices=False)
        flat = np.ascontiguousarray((left[:, singular > 1e-10] / root[:, None]).T)
        level = _intercept_alone(family.code, data)
        start = np.linalg.lstsq(flat.T, np.full(len(root), level), rcond=None)[0]
        if _climb(family.code, data._replace(flat=flat, start=start)) is None:
            culprit = f"the always-included column {name!r} separates"
            break
    if not culprit and names:
        culprit = f"the always-included columns ({', '.join(map(repr, names))}) together separate"
    if not culprit:
        return (
            f"the null model of family={family} has no finite fit: the offset separates the response; check its units (for an "
            "exposure t it is log t)"
        )
    what = (
        "the two classes"
        if family.code == densities.PROBIT or family.name == "logistic"
        else "rows without any count"
    )
    return (
        f"{culprit} {what}, so that its coefficient would be infinite under the flat prior of columns that are in every model; take it "
        "out of always_include or covariates, so that the slab keeps its coefficient finite if it is in X"
    )


# --- for the kernels


@lru_cache(maxsize=1)
def _sobol_points() -> np.ndarray:
    from scipy.stats import qmc  # slow to import

    points = qmc.Sobol(kernels.SOBOL_DIMENSIONS, scramble=False).random(kernels.POINTS_EACH)
    return (points * 2.0**32).astype(np.uint32)


def _new_likelihood(
    code: int,
    slab: int,
    kind: int,
    data: FitData,
    offsets: np.ndarray,
    keys: np.ndarray,
    **others: Any,
) -> Likelihood:
    n = len(data.y)
    settings: dict[str, Any] = {
        "candidates": np.zeros((0, 0)), "stored": new_stored(), "used": np.zeros(0, np.int64), "root": np.sqrt(data.weights),
        "ridge": np.ones(offsets[-1]), "metric": np.zeros(0), "flat_basis": np.zeros((0, n)), "g": 1.0,
        "sobol": np.zeros((kernels.POINTS_EACH, kernels.SOBOL_DIMENSIONS), np.uint32),
        "outer": kernels.NOTHING, "outer_start": 0.0, "outer_mean": data.log_mean, "outer_sd": data.log_sd,
        "levels": np.zeros((0, 2)), "shrinkage": np.zeros((0, 4)),
    }  # fmt: skip
    y, trials, offset = data.y, data.trials, data.offset
    if code == densities.STUDENT:
        y, trials, offset = data.trials, data.trials * data.dispersion**2, data.offset - data.y
        settings |= {"outer": kernels.NOISE_SCALE, "outer_start": float(np.log(data.dispersion))}
    elif data.log_sd > 0:
        counts, place = np.unique(data.y, return_inverse=True)
        levels = np.column_stack([counts, np.bincount(place, data.weights, len(counts))])
        settings |= {
            "outer": kernels.DISPERSION,
            "outer_start": float(np.log(data.dispersion)),
            "levels": levels,
        }
    return Likelihood(
        code=code,
        evidence=kind,
        slab=slab,
        flat=len(data.flat),
        y=y,
        trials=trials,
        weights=data.weights,
        offset=offset,
        flat_columns=np.ascontiguousarray(data.flat),
        start=data.start,
        offsets=offsets,
        keys=keys,
        log_rows=float(np.log(n)),
        **(settings | others),
    )


def make_likelihood(problem: "ForKernels", target: Target, data: FitData, kind: str) -> Likelihood:
    """The kernels' view of a problem's family, data and slab. The columns of `target` are residuals times √w, and are not copied."""
    slab, design = problem.slab, target.design
    family = problem.family
    assert not isinstance(family, Gaussian)
    P = int(problem.offsets[-1])
    others: dict[str, Any] = {
        "sobol": _sobol_points(), "ridge": np.ascontiguousarray(target.slab.ridge[:P]), "candidates": design.columns,
        "stored": design.stored,
    }  # fmt: skip
    held = design.stored
    if held.code != NOT_STORED and len(held.basis) != len(data.y):
        others["used"] = np.flatnonzero(held.weights)
    if isinstance(slab, IndependentNormal):
        if slab.unknown:
            grid = grid_of_g(problem.n)
            others |= {
                "shrinkage": grid,
                "outer": kernels.SHRINKAGE,
                "outer_start": float(grid[np.argmax(grid[:, 1]), 0]),
            }
    else:
        if isinstance(slab, GPrior):
            others["g"] = slab.value(problem.n, problem.p)
        if isinstance(slab, MIXTURES_OF_G):
            grid = shrinkage_grid(slab, problem.n)
            start = grid[np.argmin(np.abs(grid[:, 0] - np.log(problem.n))), 0]
            others |= {"shrinkage": grid, "outer_start": float(start)}
            if kind != "bas":
                others["outer"] = kernels.SHRINKAGE
        metric = np.sqrt(data.weights if isinstance(slab, BIC) else data.information)
        basis = np.linalg.qr((data.flat * metric).T)[0]
        others |= {"metric": metric, "flat_basis": np.ascontiguousarray(basis.T)}
    return _new_likelihood(
        family.code, slab.code, EVIDENCE[kind], data,
        np.ascontiguousarray(problem.offsets), np.ascontiguousarray(design.keys), **others,
    )  # fmt: skip


def candidates_at(likelihood: Likelihood, index: np.ndarray) -> np.ndarray:
    """The candidates at these indices among the P columns, as they are in J, (…, n)."""
    if likelihood.stored.code == NOT_STORED:
        return likelihood.candidates[index] / likelihood.root
    columns = stored_columns_at(likelihood.stored, index)
    return (columns[..., likelihood.used] if len(likelihood.used) else columns) / likelihood.root


class Works:
    """Memory for fits, handed out to one thread at a time."""

    def __init__(self) -> None:
        self._idle: list[FitWork] = []

    @contextmanager
    def borrow(self, likelihood: Likelihood, columns: int) -> Iterator[FitWork]:
        """Memory for models of up to so many columns."""
        width = likelihood.flat + columns
        try:
            work = self._idle.pop()  # lists are safe to share between threads
        except IndexError:
            work = kernels.new_fit_work(likelihood, max(columns, 24))
        nodes = 1 if likelihood.outer == kernels.NOTHING else kernels.MOST_NODES
        spans = likelihood.slab == evidence.INDEPENDENT or len(work.spanning) > 0
        fits = work.rows.shape[1] == len(likelihood.y) and work.whole.shape[1] == len(likelihood.stored.basis)
        if len(work.column) < width or not (spans and fits) or len(work.nodes) < nodes:
            work = kernels.new_fit_work(likelihood, max(columns, min(2 * columns, len(likelihood.ridge))))
        work.ints[:] = 0
        try:
            yield work
        finally:
            self._idle.append(work)


def answers(
    problem: "ForKernels", members: np.ndarray, start: np.ndarray
) -> tuple[np.ndarray, dict[str, int]]:
    """What the kernels say of a list of models, (models, N_ANSWERS), log marginal likelihoods relative to the null model's; and how
    often fits went wrong."""
    likelihood, null = problem.likelihood(), problem.null_log_marginal
    out, work_ints = _evaluate(problem, likelihood, members, start)
    out[:, [kernels.LOG_MARGINAL, kernels.FIRST_ORDER]] -= null
    return out, {"breakdowns": int(work_ints[kernels.BROKEN]), "diverging": int(work_ints[kernels.DIVERGING])}


def null_answer(problem: "ForKernels", likelihood: Likelihood) -> float:
    """log m of the null model, up to what all models have in common."""
    out, _ = _evaluate(problem, likelihood, np.zeros(0, np.int32), np.zeros(2, np.int64))
    return float(out[0, kernels.LOG_MARGINAL])


def widest(problem: "ForKernels", members: np.ndarray, start: np.ndarray) -> int:
    """The largest number of columns of a model."""
    up_to = np.concatenate([[0], np.cumsum(np.diff(problem.offsets)[members])])[start]
    return int(np.diff(up_to).max(initial=0))


def _evaluate(
    problem: "ForKernels", likelihood: Likelihood, members: np.ndarray, start: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    out = np.zeros((len(start) - 1, kernels.N_ANSWERS))
    members, start = np.require(members, np.int32, ["C", "W"]), np.require(start, np.int64, ["C", "W"])
    with problem.works.borrow(likelihood, widest(problem, members, start)) as work:
        evaluate_family_models(likelihood, work, members, start, out)
        return out, work.ints.copy()
