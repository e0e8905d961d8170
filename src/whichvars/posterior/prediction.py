r"""Prediction of new observations, and draws from the posterior.

At new values of the columns, y has a t distribution in each model for each g (the module ``fits`` defines b, V, q, t, s and
the degrees of freedom d). With x̃ the centred new row minus its regression on the always-included columns, and h the
variance due to the intercept and the always-included columns,

.. math:: y \mid \gamma, g \sim t_d\big(\hat\alpha + z^T\hat\delta + q\,\tilde x_\gamma^T b,\;
          s\,(1 + h + t\, \tilde x_\gamma^T V \tilde x_\gamma)\big),

Averaged over models and g this is a mixture of t distributions, whose mean, standard deviation and quantiles are computed
exactly.
"""

import warnings
from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from whichvars.data.frames import read_columns
from whichvars.data.tables import plain_table
from whichvars.errors import DataError, DataWarning, TooLargeError
from whichvars.posterior.coefficients import INTERCEPT
from whichvars.posterior.fits import (
    Fits,
    Functionals,
    Refits,
    along,
    fits,
    functionals,
    held_fits,
    own_lines,
    shares_of_values,
)
from whichvars.posterior.models import KeptModels, columns_of
from whichvars.posterior.t_mixture import TMixture, heaviest, t_variance
from whichvars.problem.columns import columns_at, products_with_all
from whichvars.problem.problem import Problem
from whichvars.problem.stored_columns import open_columns

if TYPE_CHECKING:
    from whichvars.posterior.posterior import Posterior


NOISE = "(noise variance)"
# bytes of what is computed together
ROWS_BYTES = 32 << 20
# largest size of a table of draws in bytes
DRAWS_BYTES = 4 << 30


class Prediction(NamedTuple):
    mean: np.ndarray  # (n,)
    std: np.ndarray  # (n,)
    interval: np.ndarray | None  # (n, 2)
    mcse: np.ndarray | None = None  # (n,) Monte Carlo errors of the means


def read_new(problem: Problem, kept: KeptModels, X: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The always-included columns z (n, q) and the candidate columns x (n, C) of new data, minus the means of the old; and
    the indices of the C columns, which are those of the kept models. Columns are matched by name if both have names, and
    by position otherwise. Missing genotypes are replaced by the mean."""
    columns = columns_of(problem, np.unique(kept.members))
    means = np.concatenate([problem.flat.z_mean, problem.flat.x_mean[columns]])
    X, covariates = _beside(problem, X)
    X = plain_table(X)
    if problem.encoding is not None:
        X = problem.encoding.apply_to_new(X)
    held = open_columns(X, None)
    table = read_columns(X) if held is None else None
    names, has_names = (table.names, table.has_names) if table else (held.names, held.has_names)  # type: ignore[union-attr]
    of_X = len(problem.all_columns) - len(problem.covariate_names)
    needed = [i for i in problem.flat.z_index if covariates is None or i < of_X]
    wanted = [*needed, *(problem._column_index[i] for i in columns)]
    by_name = has_names and problem.has_names
    if by_name:
        place = {name: i for i, name in enumerate(names)}
        missing = [problem.all_columns[i] for i in [*needed, *problem._column_index] if problem.all_columns[i] not in place]  # fmt: skip
        if missing:
            rest = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
            pair = "; give (X, covariates)" if set(missing) & set(problem.covariate_names) else ""
            raise DataError(
                f"X lacks columns the problem was made with: {', '.join(map(repr, missing[:3]))}{rest}{pair}"
            )
        wanted = [place[problem.all_columns[i]] for i in wanted]
    elif len(names) != of_X + (0 if covariates is not None else len(problem.covariate_names)):
        beside = " and covariates; give (X, covariates)" if problem.covariate_names else ""
        raise DataError(
            f"X has {len(names)} columns but the problem was made with {of_X}{beside}; "
            "give the same columns in the same order, or frames with names"
        )
    values = table.values[:, wanted] if table else held.raw(wanted)  # type: ignore[union-attr]
    del table  # as large as X
    if covariates is not None:
        if len(covariates) != len(values):
            raise DataError(f"X has {len(values)} rows but covariates has {len(covariates)}")
        z = covariates[:, [i - of_X for i in problem.flat.z_index if i >= of_X]]
        values = np.column_stack([values[:, : len(needed)], z, values[:, len(needed) :]])
    values -= means
    if held is not None:
        unseen = np.isnan(values)
        if unseen.any():
            warnings.warn(
                f"{int(unseen.sum()):,} genotype{'s of X are' if unseen.sum() > 1 else ' of X is'} missing; each counts as the mean of its column in the data "
                "the problem was made with",
                DataWarning,
                stacklevel=4,
            )
        values[unseen] = 0.0
    q = len(problem.flat.z_index)
    return values[:, :q], values[:, q:], columns


def _beside(problem: Problem, X: Any) -> tuple[Any, np.ndarray | None]:
    """X and the values of the covariates, in the problem's order, of ``(X, covariates)``; None if X is not such a pair."""
    if not (problem.covariate_names and isinstance(X, tuple) and len(X) == 2):
        return X, None
    table = read_columns(X[1], "covariates")
    expected = list(problem.covariate_names)
    missing = [name for name in expected if name not in table.names]
    if not missing:
        return X[0], table.values[:, [table.names.index(name) for name in expected]]
    if table.has_names:
        raise DataError(
            f"covariates lacks columns the problem was made with: {', '.join(map(repr, missing))}"
        )
    if len(table.names) != len(expected):
        raise DataError(
            f"covariates has {len(table.names)} columns but the problem was made with {len(expected)}; give the same columns "
            "in the same order, or a frame with names"
        )
    return X[0], table.values


def predict(
    problem: Problem, kept: KeptModels, X: Any, interval: float | None, spread: bool, errors: bool = False
) -> Prediction:
    """Mean, standard deviation and interval of new observations under a weighted set of models. Without `spread` only means
    are computed; with `errors` their Monte Carlo errors too."""
    z, x, columns = read_new(problem, kept, X)
    n = len(x)
    lines = functionals(problem, np.ones(n), z, x, columns)
    batches = held_fits(problem, kept)
    mcse = None
    if errors:
        slopes = [mean_coefficients(problem, batches, weight)[columns] for weight in kept.other_weights]
        means = problem._y_scale * np.reshape(slopes, (len(slopes), len(columns))) @ lines.row.T
        mcse = kept.error_of(means, exact=False)
    if not spread:
        slope = mean_coefficients(problem, batches)[columns]
        mean = lines.centre + problem._y_scale * (lines.row @ slope)
        return Prediction(mean, np.full(n, np.nan), None, mcse)
    mean, std, ends = np.zeros(n), np.zeros(n), np.zeros((n, 2))
    components = sum(fit.q.size for fit in batches)
    widest = max(fit.columns.size for fit in batches)
    step = max(1, ROWS_BYTES // (8 * max(2 * components, 3 * widest, 1)))
    for first in range(0, n, step):
        rows = slice(first, first + step)
        weight, location, scale, degrees = _components(problem, batches, lines.some(rows))
        mean[rows] = location @ weight
        factor = np.array([t_variance(d) for d in np.unique(degrees)])
        variance = scale**2 * factor[np.unique(degrees, return_inverse=True)[1]]
        std[rows] = np.sqrt((variance + (location - mean[rows, None]) ** 2) @ weight)
        mean[rows] += lines.centre[rows]
        if interval is not None:
            heavy = heaviest(weight)
            weight, degrees = weight[heavy] / weight[heavy].sum(), degrees[heavy]
            for r in range(len(location)):
                mixture = TMixture(weight, location[r, heavy], scale[r, heavy], degrees)
                tails = [mixture.quantile(level) for level in ((1 - interval) / 2, (1 + interval) / 2)]
                ends[first + r] = lines.centre[first + r] + np.array(tails)
    return Prediction(mean, std, None if interval is None else ends, mcse)


def _components(
    problem: Problem, batches: list[Fits] | Refits, lines: Functionals
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """All models and values of g: weights (C,), locations minus the centre and scales (R, C), degrees of freedom (C,)."""
    unit = problem._y_scale
    weights, locations, scales, degrees = [], [], [], []
    for fit in batches:
        b, v = along(fit, lines)  # (R, m)
        heavy = fit.node_weight * fit.weight[:, None] > 1e-15
        weights.append((fit.node_weight * fit.weight[:, None])[heavy])
        locations.append((unit * fit.q * b[:, :, None])[:, heavy])
        inner = 1 + lines.variance[:, None, None] + fit.t * v[:, :, None]
        scales.append((unit * np.sqrt(fit.s * inner))[:, heavy])
        degrees.append(np.full(int(heavy.sum()), fit.degrees))
    weight = np.concatenate(weights)
    return (
        weight / weight.sum(),
        np.concatenate(locations, axis=1),
        np.concatenate(scales, axis=1),
        np.concatenate(degrees),
    )


def _model_means(batches: list[Fits] | Refits) -> Iterator[tuple[Fits, np.ndarray]]:
    """E[β | γ] of every model, (m, k), in the problem's units. Batches of the same models at other values of an unknown g, which follow one
    another, are averaged."""
    for _, same in groupby(batches, key=lambda fit: (fit.columns.shape[1], int(fit.models[0]))):
        total: tuple[Fits, np.ndarray] | None = None
        for fit in same:
            mean = np.einsum("mj,mj->m", fit.node_weight, fit.q)[:, None] * fit.b
            if fit.share is None:
                yield fit, mean
                continue
            mean *= fit.share[:, None]
            if total is not None:
                fit, mean = fit._replace(weight=total[0].weight + fit.weight), total[1] + mean
            total = fit, mean
        if total is not None:
            yield total


def mean_coefficients(
    problem: Problem, batches: list[Fits] | Refits, weights: np.ndarray | None = None
) -> np.ndarray:
    """E[β] averaged over models, (P,), in the problem's units; under other weights if given, (models,)."""
    total = np.zeros(len(problem.columns_used))
    for fit, mean in _model_means(batches):
        weight = fit.weight if weights is None else weights[fit.models]
        total += np.bincount(fit.columns.ravel(), (weight[:, None] * mean).ravel(), len(total))
    return total


def models_of(estimator: str, posterior: "Posterior") -> KeptModels:
    """The models that an estimator of ``Posterior.predict`` averages over."""
    if estimator == "BMA":
        return posterior.kept
    if estimator == "HPM":
        if not posterior.models.members:
            raise DataError("estimator='HPM': the run was too short to record any model; use more draws")
        return KeptModels.of({posterior.models.members[0]: 1.0})
    if estimator == "MPM":
        return KeptModels.of({tuple(np.flatnonzero(posterior.pip >= 0.5).tolist()): 1.0})
    if estimator == "BPM":
        return KeptModels.of({best_predictive(posterior.problem, posterior.kept): 1.0})
    raise DataError(f"estimator must be 'BMA', 'HPM', 'MPM' or 'BPM', not {estimator!r}")


def best_predictive(problem: Problem, kept: KeptModels) -> tuple[int, ...]:
    """The kept model whose fitted values are nearest to the averaged ones, by (weighted) squared distance; if the family is not
    Gaussian, of linear predictors, with the information of the null model as weights."""
    batches = held_fits(problem, kept)
    if problem.fit_data is not None:
        return kept.model(_nearest_predictor(problem, kept, batches))
    average = mean_coefficients(problem, batches)
    design = problem.target(0).design
    if problem.engine == "gram":
        fitted = design.gram @ average
    else:
        some = np.flatnonzero(average)
        fitted = products_with_all(design, (average[some] @ columns_at(design, some))[None])[0]
    constant = float(average @ fitted)
    best, least = 0, np.inf
    for fit, mean in _model_means(batches):
        if problem.engine == "gram":
            gram = design.gram[fit.columns[:, :, None], fit.columns[:, None, :]]
            square = np.einsum("mk,mkl,ml->m", mean, gram, mean)
        else:
            square = (np.einsum("mk,mkn->mn", mean, columns_at(design, fit.columns)) ** 2).sum(axis=1)
        distance = square - 2 * np.einsum("mk,mk->m", mean, fitted[fit.columns]) + constant
        i = int(distance.argmin())
        if distance[i] < least:
            best, least = int(fit.models[i]), float(distance[i])
    return kept.model(best)


def _nearest_predictor(problem: Problem, kept: KeptModels, batches: list[Fits] | Refits) -> int:
    assert problem.fit_data is not None
    lines, weight = own_lines(problem, kept)[0], problem.fit_data.information
    average = np.zeros(problem.n)
    for fit in batches:
        average += along(fit, lines)[0] @ fit.weight
    best, least = 0, np.inf
    for fit in batches:
        distance = weight @ (along(fit, lines)[0] - average[:, None]) ** 2
        i = int(distance.argmin())
        if distance[i] < least:
            best, least = int(fit.models[i]), float(distance[i])
    return best


def draw_models(
    problem: Problem, kept: KeptModels, n: int, rng: np.random.Generator
) -> tuple[KeptModels, np.ndarray]:
    """The models of n draws, each once, and how often each was drawn, (models,)."""
    P = len(problem.columns_used)
    if 16 * n * P > DRAWS_BYTES:
        raise TooLargeError(
            f"{n:,} draws of {P:,} coefficients would take {16e-9 * n * P:,.1f} GB; draw fewer: {DRAWS_BYTES // (16 * P):,} are possible"
        )
    chosen = np.sort(rng.choice(len(kept), size=n, p=kept.weight))
    distinct, counts = np.unique(chosen, return_counts=True)
    some = KeptModels.of({kept.model(i): float(c) for i, c in zip(distinct, counts)})
    return some, np.round(some.weight * n).astype(int)


def draw(problem: Problem, kept: KeptModels, n: int, rng: np.random.Generator) -> pd.DataFrame:
    """What ``Posterior.draw`` returns."""
    flat, P = problem.flat, len(problem.columns_used)
    q, unit = len(flat.z_index), problem._y_scale
    some, counts_of = draw_models(problem, kept, n, rng)
    beta, noise, done = np.zeros((n, P)), np.zeros(n), 0
    by_value = None  # how often each value of an unknown g was drawn with each model, (models, values)
    if problem.unknown_g:
        by_value = rng.multinomial(counts_of, shares_of_values(problem, some))
    for fit in fits(problem, some):
        root = np.linalg.cholesky(fit.V)
        for i in range(len(fit.weight)):
            times = counts_of[fit.models[i]] if by_value is None else by_value[fit.models[i], fit.value]
            rows = slice(done, done + times)
            node = rng.choice(fit.q.shape[1], size=times, p=fit.node_weight[i])
            noise[rows] = fit.s[i, node]
            if fit.degrees < np.inf:
                noise[rows] = noise[rows] * fit.degrees / rng.chisquare(fit.degrees, size=times)
            noisy = np.sqrt(noise[rows] * fit.t[i, node])[:, None] * (
                rng.standard_normal((times, fit.b.shape[1])) @ root[i].T
            )
            beta[rows, fit.columns[i]] = fit.q[i, node][:, None] * fit.b[i] + noisy
            done += times
    beta *= unit / problem.column_units
    noise *= unit**2
    level = flat.y_mean + np.sqrt(noise * flat.mean_variance) * rng.standard_normal(n)
    delta = flat.y_on_z - beta @ flat.x_on_z.T
    delta += np.sqrt(noise)[:, None] * (rng.standard_normal((n, q)) @ flat.z_root.T)
    intercept = level - beta @ flat.x_mean - delta @ flat.z_mean
    names = [INTERCEPT, *(problem.all_columns[i] for i in flat.z_index), *problem.columns_used, NOISE]
    table = np.column_stack([intercept, delta, beta, noise])[rng.permutation(n)]
    return pd.DataFrame(table, columns=names, index=pd.RangeIndex(n, name="draw"))
