"""Estimated enrichment: the maximum of a marginal likelihood that is summed over all models by other means."""

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp

import whichvars as wv
from support.oracle import OracleSlab, all_masks, enumerate_posterior

NAMES = ["enhancer", "distance"]


def simulate(
    rng: np.random.Generator, n: int, p: int, coefficients: list[float], effect: float
) -> tuple[np.ndarray, np.ndarray, pd.DataFrame]:
    """Correlated columns, effects drawn from the prior, and the annotations that decide where they are."""
    table = pd.DataFrame({"enhancer": rng.integers(0, 2, p).astype(float), "distance": rng.normal(size=p)})
    # both kinds, however few there are
    table.loc[[0, 1], "enhancer"] = [0.0, 1.0]
    odds = np.exp(coefficients[0] + table.to_numpy() @ coefficients[1:])
    causal = rng.random(p) < odds / (1 + odds)
    X = rng.normal(size=(n, p))
    X[:, 1:] += 0.5 * X[:, :-1]
    X = (X - X.mean(axis=0)) / X.std(axis=0, ddof=1)
    y = X @ np.where(causal, effect * rng.normal(size=p), 0.0) + rng.normal(size=n)
    return X, y, table


class Evidence:
    """The objective of the estimate, from the marginal likelihoods of all models."""

    def __init__(self, regions: list[tuple[np.ndarray, np.ndarray, pd.DataFrame]], g: float) -> None:
        self.regions = []
        for X, y, table in regions:
            found = enumerate_posterior(X, y, OracleSlab("independent", g=g), ("fixed", 0.5))
            masks = all_masks(X.shape[1]).astype(float)
            self.regions.append((found.log_marginals, masks, np.column_stack([np.ones(len(table)), table])))

    def __call__(self, values: np.ndarray, centre: float, spread: float) -> float:
        total = 0.0
        for marginals, masks, design in self.regions:
            eta = design @ values
            total += logsumexp(marginals + masks @ eta) - np.logaddexp(0, eta).sum()
        return total - ((values - [centre, 0, 0]) ** 2).sum() / (2 * spread**2)


def second_derivatives(function: object, at: np.ndarray, step: float = 1e-3) -> np.ndarray:
    units = np.eye(len(at)) * step
    return np.array(
        [
            [
                (function(at + a + b) - function(at + a - b) - function(at - a + b) + function(at - a - b))
                / (4 * step**2)
                for b in units
            ]
            for a in units
        ]
    )  # fmt: skip


@pytest.fixture(scope="module")
def small() -> list[tuple[np.ndarray, np.ndarray, pd.DataFrame]]:
    rng = np.random.default_rng(4)
    return [simulate(rng, 60, p, [-1.5, 1.5, 0.5], 0.5) for p in (7, 8, 6)]


def test_the_estimate_is_the_maximum_and_its_error_the_curvature(
    small: list[tuple[np.ndarray, np.ndarray, pd.DataFrame]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("whichvars.sampling.enrichment.CLOSE", 1e-8)
    problems = [wv.Problem(X, y, slab=wv.IndependentNormal(0.2)) for X, y, _ in small]
    found = wv.estimate_enrichment(problems, [table for _, _, table in small], size=2, spread=1.5, steps=3000)
    evidence, centre = Evidence(small, 0.2), float(np.log(6 / 21 / (1 - 6 / 21)))

    def objective(values: np.ndarray) -> float:
        return evidence(values, centre, 1.5)

    best = minimize(lambda values: -objective(values), np.array([centre, 0.0, 0.0]), method="BFGS", options={"gtol": 1e-9})  # fmt: skip
    ours = np.array([found.intercept, *found.table["coefficient"]])
    assert found.converged
    assert found.table.index.tolist() == NAMES
    assert ours == pytest.approx(best.x, abs=1e-5)
    # far from the normal density's centre, so that the data had a say
    assert np.abs(ours[1:]).max() > 0.3
    errors = np.sqrt(np.diagonal(np.linalg.inv(-second_derivatives(objective, ours))))
    assert found.table["se"].to_numpy() == pytest.approx(errors[1:], rel=1e-3)
    # every step of the EM algorithm increases the objective
    along = [objective(row) for row in found.history.to_numpy()]
    assert (np.diff(along) > -1e-9).all()
    assert along[-1] - along[0] > 0.1


def test_the_usual_tolerance_is_a_tenth_of_an_error(
    small: list[tuple[np.ndarray, np.ndarray, pd.DataFrame]],
) -> None:
    problems = [wv.Problem(X, y, slab=wv.IndependentNormal(0.2)) for X, y, _ in small]
    found = wv.estimate_enrichment(problems, [table for _, _, table in small], size=2)
    evidence, centre = Evidence(small, 0.2), float(np.log(6 / 21 / (1 - 6 / 21)))
    best = minimize(lambda values: -evidence(values, centre, 2.0), np.array([centre, 0.0, 0.0]), method="BFGS")  # fmt: skip
    away = np.abs(found.table["coefficient"].to_numpy() - best.x[1:])
    assert (away <= 0.2 * found.table["se"]).all()
    assert len(found.history) < 50


def test_draws_give_the_same_estimate_as_enumeration(
    small: list[tuple[np.ndarray, np.ndarray, pd.DataFrame]],
) -> None:
    X, y, table = small[1]
    problem = wv.Problem(X, y, slab=wv.IndependentNormal(0.2))
    by_models = wv.estimate_enrichment(problem, table)
    by_draws = wv.estimate_enrichment(problem, table, draws=4000)
    away = (by_models.table["coefficient"] - by_draws.table["coefficient"]).abs()
    assert (away <= 0.2 * by_models.table["se"]).all()
    assert by_draws.table["se"].to_numpy() == pytest.approx(by_models.table["se"].to_numpy(), rel=0.1)


def test_known_enrichment_is_recovered_over_many_regions() -> None:
    rng, truth = np.random.default_rng(2), [-2.0, 1.5, 0.0]
    regions = [simulate(rng, 200, 8, truth, 0.4) for _ in range(80)]
    problems = [wv.Problem(X, y, slab=wv.IndependentNormal(0.16)) for X, y, _ in regions]
    found = wv.estimate_enrichment(problems, [table for _, _, table in regions])
    apart = (found.table["coefficient"] - truth[1:]) / found.table["se"]
    assert found.converged
    assert (apart.abs() < 3).all()
    assert found.table.loc["enhancer", "coefficient"] > 3 * found.table.loc["enhancer", "se"]
    assert found.table["odds_ratio"].to_numpy() == pytest.approx(np.exp(found.table["coefficient"]))


@pytest.mark.rest
def test_known_enrichment_is_recovered_in_one_large_region() -> None:
    rng, truth = np.random.default_rng(5), [-3.0, 2.0, 0.0]
    X, y, table = simulate(rng, 1500, 250, truth, 0.4)
    problem = wv.Problem(X, y, slab=wv.IndependentNormal(0.16))
    found = wv.estimate_enrichment(problem, table, size=10)
    assert found.converged
    assert ((found.table["coefficient"] - truth[1:]).abs() < 3 * found.table["se"]).all()
    assert found.table.loc["enhancer", "coefficient"] > 2 * found.table.loc["enhancer", "se"]
    prior = found.prior(table)
    assert (
        prior.inclusion(250)[table["enhancer"] == 1].mean()
        > 3 * prior.inclusion(250)[table["enhancer"] == 0].mean()
    )


def test_rows_are_found_by_the_names_of_variables(
    small: list[tuple[np.ndarray, np.ndarray, pd.DataFrame]],
) -> None:
    X, y, table = small[0]
    names = [f"rs{j}" for j in range(7)]
    frame = pd.DataFrame(X, columns=names)
    expected = wv.estimate_enrichment(wv.Problem(frame, y), table)
    shuffled = table.set_axis(names).sample(frac=1, random_state=1)
    by_name = wv.estimate_enrichment(wv.Problem(frame, y), shuffled)
    pd.testing.assert_frame_equal(by_name.table, expected.table)
    # a column that is left out, whose annotation is given all the same
    with pytest.warns(wv.DataWarning, match="left out 1 column"):
        problem = wv.Problem(frame.assign(same=1.0)[["rs0", "same", *names[1:]]], y)
    longer = pd.concat([table.iloc[:1], table.iloc[:1] + 5.0, table.iloc[1:]], ignore_index=True)
    pd.testing.assert_frame_equal(wv.estimate_enrichment(problem, longer).table, expected.table)
    with pytest.raises(wv.DataError, match="annotations has no row for the variable 'rs6'"):
        wv.estimate_enrichment(wv.Problem(frame, y), table.set_axis([*names[:6], "rs9"]))
    with pytest.raises(wv.DataError, match="annotations has 6 rows but there are 7 variables"):
        wv.estimate_enrichment(wv.Problem(frame, y), table.iloc[:6])


def test_what_cannot_be_estimated_is_refused(
    small: list[tuple[np.ndarray, np.ndarray, pd.DataFrame]],
) -> None:
    X, y, table = small[0]
    problem = wv.Problem(X, y)
    with pytest.raises(wv.DataError, match="'enhancer' is the same for all variables"):
        wv.estimate_enrichment(problem, table.assign(enhancer=1.0))
    with pytest.raises(wv.DataError, match="1 problems but 2 tables"):
        wv.estimate_enrichment([problem], [table, table])
    with pytest.raises(wv.DataError, match="annotations of problem 1 are enhancer, near"):
        wv.estimate_enrichment([problem, problem], [table, table.rename(columns={"distance": "near"})])
    with pytest.raises(wv.DataError, match="only 7 variables"):
        wv.estimate_enrichment(problem, table, size=7)
    with pytest.raises(wv.DataError, match="max_size is 1, but 2 variables are expected"):
        wv.estimate_enrichment(wv.Problem(X, y, max_size=1), table, size=2)
    with pytest.raises(wv.DataError, match="heredity"):
        wv.estimate_enrichment(wv.Problem(X, y, heredity={"x1": ["x0"]}), table)
    with pytest.raises(wv.DataError, match="spread must be a positive number"):
        wv.estimate_enrichment(problem, table, spread=0)
    with pytest.warns(wv.ConvergenceWarning, match="has not converged; use more steps"):
        found = wv.estimate_enrichment(problem, table, steps=1)
    assert not found.converged
    assert repr(found).endswith("not converged)")
