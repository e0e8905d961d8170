r"""Missing cells drawn from chained Bayesian models.

One sweep visits every column with missing cells. The column is regressed on all others, as they are filled in at this moment, in the
rows where it was observed; the parameters of this regression are drawn from their posterior, once; then the missing cells are drawn
given these parameters. The models are:

- numbers: :math:`x = a + Z\beta + \varepsilon` with :math:`\beta \sim N(0, \sigma^2\tau^2 I)` on standardised columns Z. σ² and β are
  drawn together, and τ² given them from one sweep to the next, so that it adapts to how much the others say;
- counts, whole numbers that are not negative: the same for log(1 + x), and then the value of one of the five observed rows
  whose predictions are nearest (predictive mean matching), so that only values that occur are drawn;
- 0/1: logistic regression with a normal prior; the parameters are drawn from its Laplace approximation;
- categories: the log odds of every level against the most frequent one by such a regression of the rows that have one of the two
  (Begg and Gray, 1984), which together are a multinomial regression.

The response is in a column's regression only with the posterior probability that it belongs there, drawn once per sweep: in normal models the
response has a coefficient in the regression of a column on all others if and only if the column has one in the regression of the response.
Otherwise columns without an effect would be given a little of one by their imputed values, and their inclusion probabilities would be too high.
Its prior probability is that of a column in ``Problem``, min(5, p/2)/p, and its Bayes factor is approximated by BIC.

Sums and cross-products of all columns are kept from column to column, and brought up to date where cells were drawn: a linear regression then
costs as much as the column has missing cells, not as much as the table has rows. Logistic regressions begin at the mode that the last sweep
found, with its Hessian (``logistic.py``).

Missing at random is assumed: given what was observed, whether a cell is missing does not depend on its value.
"""

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from whichvars.data.logistic import Mode, Outcomes, Predictors, hessian_factor, logistic_modes

NUMBER, COUNT, BINARY, CATEGORY = "number", "count", "binary", "category"
# rows among whose values one is drawn for a count
DONORS = 5
# most columns that a column is regressed on; if there are more, those most correlated with it
MOST_PREDICTORS = 200
# Logistic regressions visit all columns of the table if there are at most this many times more of them than predictors. Otherwise they make a table
# of the predictors.
ALL_COLUMNS = 1.5
# standard deviations, as shares of the largest value, that are due to rounding
ROUNDING = 1e-12
# standard deviation in the rows in which a column was observed, as a share of that in all rows, below which kept sums are not accurate
LEAST_SPREAD = 1e-3


@dataclass(frozen=True)
class Kinds:
    """What the columns of a table contain; categories are numbers 0, 1, 2, … of their levels."""

    names: list[str]
    kinds: list[str]
    levels: dict[str, list[str]] = field(default_factory=dict)
    dates: list[str] = field(default_factory=list)  # which are numbers of days

    def columns(self, values: np.ndarray, beside: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The columns that others are regressed on, (n, q + C), categories as 0/1 columns, those `beside` the table, (n, q), first; and the column
        of the table each belongs to, (q + C,), −1 for those beside it."""
        q = beside.shape[1]
        counts = [
            len(self.levels[name]) - 1 if kind == CATEGORY else 1
            for name, kind in zip(self.names, self.kinds)
        ]
        owner = np.repeat(np.arange(-1, len(counts)), [q, *counts])
        made = np.empty((len(values), len(owner)))
        made[:, :q] = beside
        for column, j in enumerate(owner[q:].tolist(), start=q):
            if self.kinds[j] == CATEGORY:
                level = 1 + column - int(np.searchsorted(owner, j))
                made[:, column] = values[:, j] == level
            else:
                made[:, column] = values[:, j]
        return made, owner


def kind_of(values: np.ndarray) -> str:
    """What a column of numbers contains, from those that are not missing."""
    seen = values[~np.isnan(values)]
    if len(np.unique(seen)) <= 2 and np.isin(seen, (0.0, 1.0)).all():
        return BINARY
    whole = (seen == np.floor(seen)).all() and (seen >= 0).all()
    return COUNT if whole and len(seen) and seen.max() < 1e6 else NUMBER


# modes of the regressions of one column that the last sweep found, by the level, what it is compared with and the number of predictors
Modes = dict[tuple[Any, Any, int], Mode]


class Chain:
    """One completed table, improved by sweeps.

    Parameters
    ----------
    kinds : Kinds
    values : array, shape (n, columns)
        The table with NaN where cells are missing.
    beside : array, shape (n, q)
        Columns that others are regressed on and that are complete, such as the response.
    rng : Generator
    learn : array, shape (n,) bool
        Rows that parameters are learnt from; the others are only filled in.
    """

    def __init__(
        self,
        kinds: Kinds,
        values: np.ndarray,
        beside: np.ndarray,
        rng: np.random.Generator,
        learn: np.ndarray,
    ) -> None:
        self.kinds, self.rng, self.learn, self.beside = kinds, rng, learn, beside
        self.gaps = np.isnan(values)
        self.values = values.copy()
        self.order = [
            int(j) for j in np.argsort(self.gaps.sum(axis=0), kind="stable") if self.gaps[:, j].any()
        ]
        self.tau2 = dict.fromkeys(self.order, 1.0)
        self.modes: dict[int, Modes] = {j: {} for j in self.order}
        count = len(kinds.names)
        expected = min(5.0, count / 2) / count
        self.log_odds = float(np.log(expected / (1 - expected)))
        for j in self.order:
            seen = values[learn & ~self.gaps[:, j], j]
            self.values[self.gaps[:, j], j] = rng.choice(seen, int(self.gaps[:, j].sum()))
        # the columns that others are regressed on, in units of their standard deviations, those beside the table first
        self.columns, self.owner = kinds.columns(self.values, beside)
        learnt = slice(None) if learn.all() else learn
        known = self.columns[learnt]
        self.centre, spread = known.mean(axis=0), np.array([column.std() for column in known.T])
        self.constant = spread <= ROUNDING * np.array([np.abs(column).max() for column in known.T])
        self.unit = np.where(self.constant, 1.0, spread)
        self.columns -= self.centre
        self.columns /= self.unit
        # their sums and cross-products over the rows that parameters are learnt from
        known = self.columns[learnt]
        self.sums, self.products = known.sum(axis=0), known.T @ known

    def sweep(self) -> None:
        """Draw the parameters of every column with missing cells once, and its missing cells given them."""
        for j in self.order:
            gaps, kind = self.gaps[:, j], self.kinds.kinds[j]
            lost = np.flatnonzero(gaps & self.learn)
            without = self.columns[lost]
            sums, products = self.sums - without.sum(axis=0), self.products - without.T @ without
            seen = self.learn & ~gaps
            x = self.values[seen, j]
            fit = self._regression(j, seen, x, sums, products)
            q = self.beside.shape[1]
            if q:
                gain = fit.gain(q, self.tau2[j], self.modes[j]) - 0.5 * q * np.log(len(x))
                if np.log(1 / max(self.rng.random(), 1e-300) - 1) > gain + self.log_odds:
                    fit = fit.without(q)
            new = fit.predictors.rows(self.columns[gaps])
            if kind in (BINARY, CATEGORY):
                drawn = draw_category(fit, new, self.rng, self.modes[j])
            elif kind == COUNT:
                drawn, self.tau2[j] = draw_count(fit, x, new, self.tau2[j], self.rng)
            else:
                drawn, self.tau2[j] = draw_number(fit.linear, new, self.tau2[j], self.rng)
            self.values[gaps, j] = drawn
            mine = np.flatnonzero(self.owner == j)
            cells = drawn[:, None] == np.arange(1, len(mine) + 1) if kind == CATEGORY else drawn[:, None]
            self.columns[np.ix_(gaps, mine)] = (cells - self.centre[mine]) / self.unit[mine]
            again = self.columns[lost]
            self.sums, self.products = sums + again.sum(axis=0), products + again.T @ again

    def _regression(
        self, j: int, seen: np.ndarray, x: np.ndarray, sums: np.ndarray, products: np.ndarray
    ) -> "Regression":
        """The regression of column j on the others, standardised by the rows where it was observed; `sums` and `products` are those of
        these rows."""
        n, kind = len(x), self.kinds.kinds[j]
        mean = sums / n
        centred = products - n * np.outer(mean, mean)
        spread = np.sqrt(np.maximum(np.diagonal(centred), 0) / n)
        others = (self.owner != j) & (~self.constant | (self.owner < 0))
        mine = np.flatnonzero(self.owner == j)
        linear = kind in (NUMBER, COUNT)
        needed = others & ~self.constant
        needed[mine] |= kind == NUMBER
        exact = 2 * n > len(seen) and not (spread[needed] < LEAST_SPREAD).any()
        if not exact:  # differences of large sums would not be accurate enough
            rows = self.columns[seen]
            mean = rows.mean(axis=0)
            spread = np.array([column.std() for column in rows.T])
            others &= (spread > ROUNDING) | (self.owner < 0)
        unit = np.where(spread > ROUNDING, spread, 1.0)
        chosen = np.flatnonzero(others)
        if len(chosen) > MOST_PREDICTORS:
            strength = np.abs(centred[np.ix_(chosen, mine)]).max(axis=1) / unit[chosen]
            strength[self.owner[chosen] < 0] = np.inf
            chosen = chosen[np.sort(np.argsort(-strength, kind="stable")[:MOST_PREDICTORS])]
        predictors = Predictors(self.columns, chosen, mean[chosen], unit[chosen])
        if not linear:
            if exact and self.columns.shape[1] <= ALL_COLUMNS * len(chosen):
                return Regression(predictors, seen, x, None)
            return Regression(predictors, seen, x, None, predictors.rows(self.columns[seen]))
        if not exact:
            found = sums_of(predictors.rows(rows), np.log1p(x) if kind == COUNT else x)
            return Regression(predictors, seen, x, found)
        gram = centred[np.ix_(chosen, chosen)] / np.outer(unit[chosen], unit[chosen])
        if kind == NUMBER:
            own, scale = mine[0], self.unit[mine[0]]
            cross, total = centred[chosen, own] * scale / unit[chosen], float(centred[own, own]) * scale**2
            return Regression(
                predictors, seen, x, Sums(gram, cross, total, n, float(self.centre[own] + mean[own] * scale))
            )
        response, left = np.log1p(x), np.zeros(len(seen))
        left[seen] = response - response.mean()
        cross = (self.columns.T @ left)[chosen] / unit[chosen]
        return Regression(
            predictors, seen, x, Sums(gram, cross, float(left @ left), n, float(response.mean()))
        )


class Sums(NamedTuple):
    """What a linear regression of x on standardised columns Z needs of the rows."""

    gram: np.ndarray  # (C, C): ZᵀZ
    cross: np.ndarray  # (C,): Zᵀ(x − x̄)
    total: float  # Σ(x − x̄)²
    n: int
    mean: float  # x̄


def sums_of(Z: np.ndarray, x: np.ndarray) -> Sums:
    """These sums from the rows themselves; Z has columns of mean 0."""
    centred = x - x.mean()
    return Sums(Z.T @ Z, Z.T @ centred, float(centred @ centred), len(x), float(x.mean()))


@dataclass(frozen=True)
class Regression:
    """A column that is regressed on others."""

    predictors: Predictors
    seen: np.ndarray  # (n,) bool: rows in which it was observed
    x: np.ndarray  # (seen,)
    found: Sums | None  # if it is linear
    Z: np.ndarray | None = (
        None  # the predictors in the rows in which it was observed, if they are worth a table of their own
    )

    @property
    def linear(self) -> Sums:
        assert self.found is not None
        return self.found

    def predicted(self, beta: np.ndarray) -> np.ndarray:
        """Z β in the rows in which it was observed, without the mean of the column."""
        weight, shift = self.predictors.weights(np.concatenate([[0.0], beta])[:, None])
        return np.asarray((self.predictors.columns @ weight[:, 0])[self.seen] + shift[0])

    def without(self, q: int) -> "Regression":
        """The same without the first q columns."""
        found = self.found
        if found is not None:
            found = found._replace(gram=found.gram[q:, q:], cross=found.cross[q:])
        Z = None if self.Z is None else self.Z[:, q:]
        return replace(self, predictors=self.predictors.without(q), found=found, Z=Z)

    def logistic(self, group: np.ndarray) -> tuple[Predictors, np.ndarray]:
        """The predictors of a logistic regression, and the groups of their rows, from those of the rows in which the column was observed."""
        if self.Z is not None:
            C = self.Z.shape[1]
            return Predictors(self.Z, np.arange(C), np.zeros(C), np.ones(C)), group
        everywhere = np.full(len(self.seen), -1)
        everywhere[self.seen] = group
        return self.predictors, everywhere

    def gain(self, q: int, tau2: float, modes: Modes) -> float:
        """By how much the first q columns improve the log likelihood."""
        if self.found is None:
            # the level that most rows do not have, against the others
            levels = levels_by_frequency(self.x)
            level = levels[:2][-1]
            against = levels[0] if len(levels) == 2 else "the others"
            predictors, group = self.logistic((self.x == level).astype(int))
            keys = [(level, against, len(predictors.chosen) - skipped) for skipped in (0, q)]
            both = logistic_modes(
                predictors, Outcomes(group, (0, q), shared=True), [modes.get(key) for key in keys]
            )
            modes.update(zip(keys, both))
            return both[0].value - both[1].value
        left = []
        for first in (0, q):
            gram, cross = self.found.gram[first:, first:].copy(), self.found.cross[first:]
            gram[np.diag_indices(len(gram))] += 1 / tau2
            # residuals plus the penalty, which is what the marginal likelihood has in their place
            left.append(max(self.found.total - float(cross @ np.linalg.solve(gram, cross)), 1e-300))
        return 0.5 * self.found.n * float(np.log(left[1] / left[0]))


def draw_linear(
    sums: Sums, tau2: float, rng: np.random.Generator
) -> tuple[np.ndarray, float, np.ndarray, float]:
    """Draws of β and σ² given τ², the posterior mean of β, and a new draw of τ²."""
    n, c = sums.n, len(sums.cross)
    gram = sums.gram.copy()
    gram[np.diag_indices(c)] += 1 / tau2
    factor = np.linalg.cholesky(gram)
    half = np.linalg.solve(factor, sums.cross)
    mean = np.linalg.solve(factor.T, half)
    left = max(sums.total - float(half @ half), 1e-12 * max(sums.total, 1e-300))
    # the prior of σ² is 1/σ², that of τ² the inverse gamma distribution with shape and scale one half
    sigma2 = left / rng.chisquare(max(n - 1, 1))
    beta = mean + np.sqrt(sigma2) * np.linalg.solve(factor.T, rng.normal(size=c))
    new = (0.5 + float(beta @ beta) / (2 * sigma2)) / rng.gamma(0.5 + c / 2) if sigma2 > 0 else tau2
    return beta, sigma2, mean, float(np.clip(new, 1e-8, 1e8))


def draw_number(
    sums: Sums, new: np.ndarray, tau2: float, rng: np.random.Generator
) -> tuple[np.ndarray, float]:
    """Missing numbers in the rows `new`, (m, C), and τ² for the next sweep."""
    beta, sigma2, _, tau2 = draw_linear(sums, tau2, rng)
    centre = sums.mean + np.sqrt(sigma2 / sums.n) * rng.normal()
    return centre + new @ beta + np.sqrt(sigma2) * rng.normal(size=len(new)), tau2


def draw_count(
    fit: Regression, x: np.ndarray, new: np.ndarray, tau2: float, rng: np.random.Generator
) -> tuple[np.ndarray, float]:
    """Missing counts: those of observed rows whose prediction is near. The regression is that of log(1 + x)."""
    beta, _, mean, tau2 = draw_linear(fit.linear, tau2, rng)
    predicted = fit.predicted(mean)
    order = np.argsort(predicted, kind="stable")
    known, wanted = predicted[order], new @ beta
    k = min(DONORS, len(x))
    at = np.searchsorted(known, wanted)
    places = np.clip(at[:, None] + np.arange(-k, k), 0, len(x) - 1)
    distance = np.abs(known[places] - wanted[:, None])
    # a place at the end of the list occurs more than once; it counts once
    distance[:, 1:][places[:, 1:] == places[:, :-1]] = np.inf
    nearest = np.argsort(distance, axis=1, kind="stable")[:, :k]
    chosen = nearest[np.arange(len(new)), rng.integers(0, k, len(new))]
    return x[order][places[np.arange(len(new)), chosen]], tau2


def draw_category(fit: Regression, new: np.ndarray, rng: np.random.Generator, modes: Modes) -> np.ndarray:
    """Missing levels in the rows `new`, (m,): the log odds of each level against the most frequent one are linear."""
    levels = levels_by_frequency(fit.x)
    place = np.zeros(1 + max(levels), np.int64)
    place[levels] = np.arange(len(levels))
    predictors, group = fit.logistic(place[fit.x.astype(np.int64)])
    outcomes = Outcomes(group, [0] * (len(levels) - 1))
    logits = np.zeros((len(new), len(levels)))
    keys = [(level, levels[0], len(predictors.chosen)) for level in levels[1:]]
    found = logistic_modes(predictors, outcomes, [modes.get(key) for key in keys])
    for k, (key, mode) in enumerate(zip(keys, found)):
        modes[key] = mode = mode._replace(factor=hessian_factor(predictors, outcomes, k, mode.beta))
        beta = mode.beta + np.linalg.solve(mode.factor.T, rng.normal(size=len(mode.beta)))
        logits[:, 1 + k] = beta[0] + new @ beta[1:]
    weight = np.exp(logits - logits.max(axis=1, keepdims=True))
    below = np.cumsum(weight, axis=1) / weight.sum(axis=1, keepdims=True)
    drawn: np.ndarray = np.array(levels, float)[(rng.random(len(new))[:, None] > below[:, :-1]).sum(axis=1)]
    return drawn


def levels_by_frequency(x: np.ndarray) -> list[int]:
    """The levels that occur, the most frequent one first.

    >>> levels_by_frequency(np.array([3.0, 0.0, 3.0, 1.0]))
    [3, 0, 1]
    """
    counts = np.bincount(x.astype(np.int64))
    order = np.argsort(-counts, kind="stable")
    return [int(level) for level in order[counts[order] > 0]]
