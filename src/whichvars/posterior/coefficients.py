"""Coefficients averaged over models: their moments, intervals and signs. Posteriors within a model are in fits.py."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd

from whichvars.errors import DataError
from whichvars.posterior.fits import Fits, Functionals, Refits, along, functionals, held_fits
from whichvars.posterior.models import KeptModels
from whichvars.posterior.t_mixture import TMixture, heaviest, t_cdf, t_variance
from whichvars.problem.families import Family
from whichvars.problem.problem import Problem

INTERCEPT = "(intercept)"


def coefficient_table(
    problem: Problem, kept: KeptModels, pip: np.ndarray, interval: float | None, exact: bool
) -> pd.DataFrame:
    """What ``Posterior.coefficients`` returns."""
    z_index = problem.flat.z_index
    batches = held_fits(problem, kept)
    moments = coefficient_moments(problem, kept, exact, batches)
    names = [INTERCEPT, *(problem.all_columns[i] for i in z_index), *problem.columns_used]
    always, fixed_mean, fixed_sd = np.ones(1 + len(z_index)), moments.fixed_mean, moments.fixed_sd
    table = pd.DataFrame(
        {
            "pip": np.concatenate([always, np.repeat(pip, np.diff(problem.offsets))]),
            "mean": np.concatenate([fixed_mean, moments.mean]),
            "sd": np.concatenate([fixed_sd, moments.sd]),
            "mean_mcse": moments.mean_mcse,
            "sd_mcse": moments.sd_mcse,
            "mean_included": np.concatenate([fixed_mean, moments.mean_included]),
            "sd_included": np.concatenate([fixed_sd, moments.sd_included]),
        },
        index=pd.Index(names, name="coefficient"),
    )
    if interval is None:
        return table
    table["probability_positive"], table["lower"], table["upper"] = _tails(problem, kept, batches, interval)
    return table


def check_ratio(scale: str | None, family: Family) -> None:
    """DataError if coefficients of the family have no such ratio."""
    own = getattr(family, "ratio", None)
    if scale is None or scale == own:
        return
    has = f"scale={own!r}" if own else "no ratios"
    raise DataError(f"scale={scale!r} does not apply to family={family}: it has {has}, besides scale=None")


def ratio_table(table: pd.DataFrame) -> pd.DataFrame:
    """Coefficients as factors by which odds or rates are multiplied when a column increases by 1.

    Columns: `pip`; `ratio`, exp of the mean of β averaged over models, with its Monte Carlo error `ratio_mcse`; `ratio_included`,
    exp of the mean given that the variable is in; `probability_above_one`, given that it is in; `lower` and `upper`, the ends of
    the interval of e^β averaged over models, 1 if the quantile falls on models without the variable.
    """
    with np.errstate(over="ignore"):
        ratio = np.exp(table["mean"])
        new = pd.DataFrame(
            {
                "pip": table["pip"],
                "ratio": ratio,
                "ratio_mcse": ratio * table["mean_mcse"],
                "ratio_included": np.exp(table["mean_included"]),
            }
        )
        if "lower" in table:
            new["probability_above_one"] = table["probability_positive"]
            new["lower"], new["upper"] = np.exp(table["lower"]), np.exp(table["upper"])
    return new


class CoefficientMoments(NamedTuple):
    """Averages over models in the user's units, for the P columns, and for the intercept and always-included columns."""

    mean: np.ndarray
    sd: np.ndarray
    mean_included: np.ndarray
    sd_included: np.ndarray
    fixed_mean: np.ndarray
    fixed_sd: np.ndarray
    # Monte Carlo errors of means and standard deviations, first of the intercept and the always-included columns; NaN
    # if they cannot be estimated
    mean_mcse: np.ndarray
    sd_mcse: np.ndarray


def coefficient_moments(
    problem: Problem, kept: KeptModels, exact: bool, batches: "list[Fits] | Refits | None" = None
) -> CoefficientMoments:
    """Means and standard deviations of all coefficients; NaN if no kept model has the column. `batches` are the
    models' posteriors, if they have been computed already."""
    moments = _moments(
        problem, kept, exact, held_fits(problem, kept) if batches is None else batches, _fixed(problem)
    )
    factor = problem._y_scale / problem.column_units
    units = np.concatenate([np.full(len(moments.fixed_mean), problem._y_scale), factor])
    return moments._replace(
        **{name: factor * getattr(moments, name) for name in ("mean", "sd", "mean_included", "sd_included")},
        mean_mcse=units * moments.mean_mcse,
        sd_mcse=units * moments.sd_mcse,
    )


def positive_probabilities(
    problem: Problem, kept: KeptModels, batches: "list[Fits] | Refits | None" = None
) -> np.ndarray:
    """P(β > 0 | in) of each column, (P,); NaN if no kept model has it. If ĝ = 0, β is 0, which counts as one half."""
    P = len(problem.columns_used)
    positive, mass = np.zeros(P), np.zeros(P)
    for fit in Refits(problem, kept) if batches is None else batches:
        if not fit.b.shape[1]:
            continue
        with np.errstate(invalid="ignore", divide="ignore"):
            rate = np.where(fit.q > 0, fit.q / np.sqrt(fit.s * fit.t), 0.0)  # (m, J)
        z = fit.b / np.sqrt(np.einsum("mkk->mk", fit.V))
        above = np.zeros_like(z)
        for j in range(rate.shape[1]):  # one g at a time: (m, k) stays small
            above += fit.node_weight[:, j : j + 1] * t_cdf(
                fit.degrees, (rate[:, j : j + 1] * z).ravel()
            ).reshape(z.shape)
        at, share = fit.columns.ravel(), np.broadcast_to(fit.weight[:, None], z.shape)
        positive += np.bincount(at, (share * above).ravel(), P)
        mass += np.bincount(at, share.ravel(), P)
    with np.errstate(invalid="ignore", divide="ignore"):
        return positive / mass


def _fixed(problem: Problem) -> Functionals:
    """The intercept and the always-included coefficients."""
    flat = problem.flat
    q, P = len(flat.z_index), len(problem.columns_used)
    ends = np.vstack([-flat.z_mean, np.eye(q)]) if q else np.zeros((1, 0))
    return functionals(problem, np.eye(1 + q)[0], ends, np.vstack([-flat.x_mean[None], np.zeros((q, P))]))


class _Sums:
    """Sums over models of weight · value by column, with the weights of all replicates together and with those that errors are
    estimated by."""

    def __init__(self, kept: KeptModels, columns: int) -> None:
        self.weights = np.vstack([kept.weight, kept.other_weights])
        self.values = np.zeros((len(self.weights), columns))

    def add(self, fit: Fits, value: np.ndarray) -> None:
        """Add a `value` for each column of each model, (m, k)."""
        at, columns = fit.columns.ravel(), self.values.shape[1]
        if fit.share is not None:
            value = fit.share[:, None] * value
        # variances are infinite if there are two degrees of freedom
        infinite = bool(np.isinf(value).any())
        for weight, values in zip(self.weights, self.values):
            own = weight[fit.models][:, None]
            with np.errstate(invalid="ignore"):
                product = own * value
            if infinite:
                product = np.where(own > 0, product, 0.0)
            values += np.bincount(at, product.ravel(), columns)

    def add_lines(self, fit: Fits, value: np.ndarray) -> None:
        """Add a `value` for each functional in each model, (R, m)."""
        value = value if fit.share is None else fit.share * value
        with np.errstate(invalid="ignore"):
            sums = self.weights[:, fit.models] @ value.T
        infinite = np.isnan(sums) & ~np.isnan(value).any(axis=1)
        self.values += np.where(infinite, np.inf, sums)


def _moments(
    problem: Problem, kept: KeptModels, exact: bool, batches: list[Fits] | Refits, fixed: Functionals
) -> CoefficientMoments:
    """Means and standard deviations of the columns, also given inclusion, (P,) each, in the problem's units; and of the
    functionals in the user's units. Monte Carlo errors are in the problem's units. Means are computed first, so that
    nothing cancels in the variances.

    Monte Carlo errors are estimated by the kept models' other weights. A variance E(β − m)² is an average over models
    too; to first order, its error does not depend on the estimation of m.
    """
    P, unit = len(problem.columns_used), problem._y_scale
    masses, totals = _Sums(kept, P), _Sums(kept, P)
    for fit in batches:
        location = np.einsum("mj,mj->m", fit.node_weight, fit.q)[:, None] * fit.b
        masses.add(fit, np.ones(fit.b.shape))
        totals.add(fit, location)
    mass, total = np.minimum(masses.values[0], 1.0), totals.values[0]
    along_total = fixed.row @ total  # the functionals are linear
    flat = _Sums(kept, fixed.flat.shape[1])  # of families that are not Gaussian
    for fit in batches if fixed.flat.shape[1] else ():
        assert fit.flat_b is not None
        flat.add_lines(fit, fit.flat_b.T)
    along_total += fixed.flat @ flat.values[0]
    with np.errstate(invalid="ignore", divide="ignore"):
        mean_in = total / mass
    squares, along_squares = _Sums(kept, P), _Sums(kept, len(fixed.centre))
    for fit in batches:
        variance = t_variance(fit.degrees)
        q1, s1 = (np.einsum("mj,mj->m", fit.node_weight, v) for v in (fit.q, fit.s))  # averages over g
        q_variance = np.einsum("mj,mj->m", fit.node_weight, (fit.q - q1[:, None]) ** 2)
        st = np.einsum("mj,mj,mj->m", fit.node_weight, fit.s, fit.t)
        inner = (q1[:, None] * fit.b - mean_in[fit.columns]) ** 2 + q_variance[:, None] * fit.b**2
        inner += _times(variance, st[:, None] * np.einsum("mkk->mk", fit.V))
        squares.add(fit, inner)
        b, v = along(fit, fixed)
        spread = (q1 * b - along_total[:, None]) ** 2 + q_variance * b**2
        spread += _times(variance, fixed.variance[:, None] * s1 + st * v)
        along_squares.add_lines(fit, spread)
    square, along_sd = squares.values[0], np.sqrt(along_squares.values[0])
    with np.errstate(invalid="ignore", divide="ignore"):
        sd_in = np.sqrt(square / mass)
        sd = np.sqrt(square + np.where(mass > 0, mass * (1 - mass) * mean_in**2, 0.0))
        # E(β − m)² under each of the other weights: of models with the column, about their mean, and of those without it
        centre = np.where(mass > 0, mean_in, 0.0)
        shift = centre - total
        about = squares.values[1:] + masses.values[1:] * shift**2 + (1 - masses.values[1:]) * total**2
        about += 2 * shift * (totals.values[1:] - masses.values[1:] * centre)
        along_others = totals.values[1:] @ fixed.row.T + flat.values[1:] @ fixed.flat.T
        means = np.hstack([along_others, totals.values[1:]])
        variances = np.hstack([along_squares.values[1:], about])
        sds = np.concatenate([along_sd, sd])
        mean_mcse, sd_mcse = kept.error_of(means, exact), kept.error_of(variances, exact) / (2 * sds)
        sd_mcse = np.where(sds > 0, sd_mcse, mean_mcse)
    return CoefficientMoments(
        total, sd, mean_in, sd_in, fixed.centre + unit * along_total, unit * along_sd, mean_mcse, sd_mcse
    )


def _tails(problem: Problem, kept: KeptModels, batches: list[Fits] | Refits, interval: float) -> np.ndarray:
    """P(β > 0 | in) and both ends of the interval, (3, functionals + P), in the user's units."""
    fixed, n_fixed = _fixed(problem), len(problem.flat.z_index) + 1
    columns, always = _Components(), [_Components() for _ in fixed.centre]
    for fit in batches:
        columns.add(fit, fit.columns.ravel(), fit.b, np.einsum("mkk->mk", fit.V))
        b, v = along(fit, fixed)
        for r, components in enumerate(always):
            components.add(fit, np.zeros(len(fit.weight), np.int64), b[r][:, None], v[r][:, None])
    positive = positive_probabilities(problem, kept, batches)
    factor = problem._y_scale / problem.column_units
    out = np.zeros((3, n_fixed + len(factor)))
    out[0, n_fixed:] = positive
    levels = ((1 - interval) / 2, (1 + interval) / 2)
    for r, components in enumerate(always):
        for _, rows in components.by_quantity():
            weight, location, scale, degrees = components.mixture(rows, fixed.variance[r], problem._y_scale)
            mixture = TMixture(weight, location + fixed.centre[r], scale, degrees)
            out[0, r] = 1 - mixture.cdf(0.0)
            out[1:, r] = [mixture.quantile(level) for level in levels]
    for c, rows in columns.by_quantity():
        weight, location, scale, degrees = columns.mixture(rows, 0.0, factor[c])
        inside = weight.sum()
        spread = scale > 0  # if ĝ = 0, β is 0
        weight, location, scale, degrees = (v[spread] for v in (weight, location, scale, degrees))
        stuck, atom = inside - weight.sum(), max(0.0, 1 - weight.sum())
        below = inside * (1 - positive[c]) - stuck / 2
        if len(weight):
            mixture = TMixture(weight, location, scale, degrees)
            out[1:, n_fixed + c] = [_with_atom(mixture, level, atom, below) for level in levels]
    return out


def _with_atom(mixture: TMixture, level: float, atom: float, below: float) -> float:
    """Quantile of the components (whose weights sum to 1 − atom) together with a point mass `atom` at 0; `below` is the
    probability of the components below 0."""
    if level > below:
        if level <= below + atom or atom >= 1:
            return 0.0
        level -= atom
    return mixture.quantile(level, total=1 - atom)


class _Components:
    """The t components of many quantities, collected batch by batch and returned one quantity at a time."""

    def __init__(self) -> None:
        self._fits: list[Fits] = []
        self._gathered: list[tuple[np.ndarray, ...]] = []

    def add(self, fit: Fits, at: np.ndarray, b: np.ndarray, v: np.ndarray) -> None:
        """Add components: `at` (m·k,) is the quantity; b, v (m, k) are its location and squared scale without q, s and t."""
        model = np.repeat(np.arange(b.shape[0]), b.shape[1])
        batch = np.full(at.size, len(self._fits))
        self._gathered.append((at, batch, model, b.ravel(), v.ravel()))
        self._fits.append(fit._replace(V=np.zeros((0, 0, 0))))

    def by_quantity(self) -> Iterator[tuple[int, np.ndarray]]:
        """Each quantity that occurs, with the rows of its components."""
        self._at, self._batch, self._model, self._b, self._v = (
            np.concatenate(parts) for parts in zip(*self._gathered)
        )
        order = np.argsort(self._at, kind="stable")
        values, first = np.unique(self._at[order], return_index=True)
        yield from zip(values.tolist(), np.split(order, first[1:]))

    def mixture(
        self, rows: np.ndarray, flat_variance: float, unit: float
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Weights, locations, scales and degrees of freedom of the t components at these rows."""
        batch = self._batch[rows]
        order = np.argsort(batch, kind="stable")
        used, first = np.unique(batch[order], return_index=True)
        groups = [(self._fits[i], here) for i, here in zip(used, np.split(rows[order], first[1:]))]
        shares = []
        for fit, here in groups:
            m = self._model[here]
            shares.append(fit.weight[m][:, None] * np.take(fit.node_weight, m, axis=0))
        weight = np.concatenate([share.ravel() for share in shares])
        heavy = heaviest(weight)
        parts, start = [], 0
        for (fit, here), share in zip(groups, shares):
            stop = start + share.size
            near, far = np.searchsorted(heavy, (start, stop))
            place, node = np.divmod(heavy[near:far] - start, share.shape[1])
            one, start = here[place], stop
            node += self._model[one] * share.shape[1]
            q, t, s = (np.take(value, node) for value in (fit.q, fit.t, fit.s))
            scale = unit * np.sqrt(s * (flat_variance + t * self._v[one]))
            parts.append((unit * q * self._b[one], scale, np.full(len(q), fit.degrees)))
        location, scale, degrees = (np.concatenate(part) for part in zip(*parts))
        return weight[heavy] * (weight.sum() / weight[heavy].sum()), location, scale, degrees


def _times(factor: float, values: np.ndarray) -> np.ndarray:
    """factor·values with ∞·0 = 0."""
    with np.errstate(invalid="ignore"):
        return np.where(values > 0, factor * values, 0.0)
