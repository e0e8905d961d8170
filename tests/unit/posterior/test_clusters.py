"""Clusters of variables that stand in for one another."""

import numpy as np
import pytest

import whichvars as wv
from support.paired import make_paired
from whichvars.errors import DataError
from whichvars.posterior.clusters import cluster_table, correlations
from whichvars.posterior.models import KeptModels


def problem_with(correlation, n=400, seed=0, **settings):
    """Columns 0 to 2 stand in for one another; so do 3 and 4, with the opposite sign; 5 to 8 are on their own."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 9))
    for group in ([0, 1, 2], [3, 4]):
        X[:, group] = np.sqrt(correlation) * rng.normal(size=(n, 1)) + np.sqrt(1 - correlation) * X[:, group]
    X[:, 4] *= -1
    y = X[:, 0] + X[:, 3] + X[:, 5] + rng.normal(size=n) * 0.5
    return wv.Problem(X, y, model_prior=wv.FixedInclusion(h=0.05), **settings)


@pytest.mark.parametrize("engine", ["gram", "columns"])
def test_near_copies_are_found(engine):
    posterior = wv.exact(problem_with(0.9999, engine=engine))
    table = posterior.clusters()
    assert sorted(sorted(v) for v in table["variables"]) == [["x0", "x1", "x2"], ["x3", "x4"], ["x5"]]
    for _, row in table.iterrows():
        assert row["probability"] == pytest.approx(posterior.probability_any(row["variables"]), rel=1e-9)
        assert row["probability"] >= 0.95
        assert row["expected"] == pytest.approx(posterior.inclusion_probabilities[row["variables"]].sum())
        assert row["lead"] == row["variables"][0]
        assert row["size"] == len(row["variables"])
    X = posterior.problem.target(0).design
    gram = X.gram if engine == "gram" else X.columns @ X.columns.T
    inside = np.abs(gram / np.sqrt(np.outer(X.diagonal, X.diagonal)))[:3, :3]
    purity = {tuple(sorted(v)): p for v, p in zip(table["variables"], table["purity"])}
    assert purity[("x0", "x1", "x2")] == pytest.approx(inside.min())
    assert purity[("x5",)] == 1


def test_correlated_variables_with_effects_of_their_own_stay_apart():
    """Both are needed: each is a cluster of its own, though their correlation is high."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 4))
    X[:, 1] = 0.8 * X[:, 0] + 0.6 * X[:, 1]
    y = X[:, 0] + X[:, 1] + 0.5 * rng.normal(size=300)
    table = wv.exact(wv.Problem(X, y)).clusters()
    assert sorted(table["variables"]) == [["x0"], ["x1"]]


def kept(weights):
    return KeptModels.of({tuple(m): w for m, w in weights})


def test_both_conditions_count():
    """Three variables share a signal in the models; of them x2 is not correlated enough."""
    problem = problem_with(0.9)
    models = kept([((0,), 0.6), ((1,), 0.3), ((5,), 0.1)])
    size = correlations(problem, 0)
    assert size[1] > 0.8
    assert size[5] < 0.2
    assert cluster_table(problem, models, 0.9, 0.5)["variables"].tolist() == [["x0", "x1"]]
    assert len(cluster_table(problem, models, 0.95, 0.5)) == 0
    assert cluster_table(problem, models, 0.95, 0.0)["variables"].tolist() == [["x0", "x1", "x5"]]
    together = kept([((0, 1), 0.5), ((0,), 0.2), ((2,), 0.3)])  # x1 is only ever beside x0
    assert cluster_table(problem, together, 0.95, 0.5)["variables"].tolist() == [["x0", "x2"]]


def test_clusters_do_not_contradict_inclusion_probabilities():
    """Those of the models and those of the posterior differ by Monte Carlo error."""
    problem = problem_with(0.9)
    models = kept([((0,), 0.6), ((1,), 0.36), ((5,), 0.04)])

    def found(pips, level=0.95):
        table = cluster_table(problem, models, level, 0.5, np.array(pips))
        return [tuple(row) for row in table[["variables", "probability", "expected"]].to_numpy().tolist()]

    near = pytest.approx
    assert found([0.61, 0.36, 0, 0, 0, 0.04, 0, 0, 0]) == [(["x0", "x1"], near(0.96), near(0.97))]
    assert found([0.97, 0.36, 0, 0, 0, 0.04, 0, 0, 0]) == [(["x0"], near(0.97), near(0.97))], (
        "its own probability"
    )
    assert found([0.58, 0.375, 0, 0, 0, 0.04, 0, 0, 0]) == [(["x0", "x1"], near(0.955), near(0.955))], (
        "their sum"
    )
    assert found([0.94, 0.36, 0, 0, 0, 0.04, 0, 0, 0]) == [(["x0", "x1"], near(0.96), near(1.30))]
    assert found([0.35, 0.62, 0, 0, 0, 0.04, 0, 0, 0])[0][0] == ["x1", "x0"], "the most probable one leads"
    assert found([0.55, 0.35, 0, 0, 0, 0.04, 0, 0, 0]) == [], "together they do not reach the level"


def test_a_variable_is_in_one_cluster_at_most():
    posterior = wv.exact(problem_with(0.99))
    names = [n for v in posterior.clusters(level=0.5)["variables"] for n in v]
    assert len(names) == len(set(names))


def test_groups_of_columns_are_judged_by_their_closest_columns():
    case = make_paired("g-prior", columns=6, groups=[[0, 1], [2], [3, 4, 5]])
    problem = case.problem()
    C = np.abs(np.corrcoef(case.X.T))
    assert correlations(problem, 0)[2] == pytest.approx(C[:2, 3:].max())
    assert correlations(problem, 1)[0] == pytest.approx(C[2, :2].max())


def test_nothing_to_find():
    rng = np.random.default_rng(0)
    table = wv.exact(wv.Problem(rng.normal(size=(50, 4)), rng.normal(size=50))).clusters()
    assert list(table.columns) == ["lead", "size", "probability", "mcse", "expected", "purity", "variables"]
    assert len(table) == 0


@pytest.mark.parametrize("bad", [{"level": 95}, {"correlation": -1}, {"level": "high"}])
def test_bounds_are_probabilities(bad):
    posterior = wv.exact(make_paired("g-prior").problem())
    with pytest.raises(DataError, match="must be a number from 0 to 1"):
        posterior.clusters(**bad)
