"""Scores, leave-one-out, draws and new responses if the family is not Gaussian, against plain numpy and scipy."""

import functools
import itertools
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import integrate, special, stats

import whichvars as wv
from support import family_oracle as oracle
from support.family_posteriors import FAMILIES, INVERSE, R, case, components
from whichvars.errors import ConvergenceWarning, DataError, DataWarning
from whichvars.posterior import accuracy, family_scores
from whichvars.posterior.dispersion import dispersion_values
from whichvars.posterior.family_density import log_predictive_density, observed
from whichvars.posterior.marginals import log_marginals
from whichvars.posterior.models import KeptModels

OFFSET = np.linspace(-0.5, 0.5, 50)
# nodes and weights of a standard normal distribution
NODE, WEIGHT = np.polynomial.legendre.leggauss(400)
NODE, WEIGHT = 12 * NODE, 12 * WEIGHT * stats.norm.pdf(12 * NODE)


@functools.lru_cache
def example(name):
    return case(name, wv.IndependentNormal(2.0), offset=OFFSET)


def new_rows(name):
    """New rows, responses, and weights, means and variances of η over models."""
    frame, _, posterior, data = example(name)
    new = frame.iloc[:6].add([0.5, 4.0, -0.1, 1.0])
    rows = np.column_stack([np.ones(6), new["z"], new[["a", "b", "c"]]])
    weight, means, variances = components(posterior, data, rows)
    y = np.array([0, 1, 1, 0, 0, 1]) if name in ("logistic", "probit") else np.array([0, 1, 3, 40, 2, 0])
    return posterior, new, y, weight, means + 0.3, variances


def predictive(name, y, weight, means, variances):
    """p(y) of each row by quadrature."""
    eta = means[:, :, None] + np.sqrt(variances)[:, :, None] * NODE
    return weight @ (np.exp(oracle.log_density(name, y[:, None], 1.0, R, eta)) @ WEIGHT)


@pytest.mark.parametrize("name", FAMILIES)
def test_log_score(name):
    posterior, new, y, weight, means, variances = new_rows(name)
    want = np.log(predictive(name, y, weight, means, variances))
    assert posterior.log_score(new, y, offset=0.3) == pytest.approx(want.mean(), rel=1e-5)
    one = posterior.log_score(new.iloc[3:4], y[3:4], offset=0.3)
    assert one == pytest.approx(want[3], rel=1e-5)


def test_log_score_with_trials_and_labels():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(40, 2))
    trials = rng.integers(1, 9, 40)
    y = rng.binomial(trials, special.expit(X[:, 0]))
    posterior = wv.exact(wv.Problem(X, y, family=wv.Logistic(trials=trials)), progress=False)
    with pytest.raises(DataError, match="new rows need trials="):
        posterior.log_score(X, y)
    with pytest.raises(DataError, match="more than its 1 trials"):
        posterior.log_score(X, y, trials=1)
    # all possible numbers of successes of a row have probabilities that sum to one
    row = np.repeat(X[:1], 6, axis=0)
    total = sum(np.exp(posterior.log_score(row[:1], [k], trials=5)) for k in range(6))
    assert total == pytest.approx(1, abs=1e-9)
    mean, std, ends = posterior.predict(X, kind="response", trials=trials, return_std=True, interval=0.9)
    np.testing.assert_allclose(mean, trials * posterior.predict(X))
    assert ((ends[:, 0] >= 0) & (ends[:, 1] <= trials)).all()
    assert std == pytest.approx(
        [np.sqrt(_variance(posterior, X[i : i + 1], trials[i])) for i in range(40)], rel=1e-6
    )
    words = np.where(X[:, 0] + rng.normal(size=40) > 0, "yes", "no")
    two = wv.exact(wv.Problem(X, words, family="logistic"), progress=False)
    assert two.log_score(X, words) == pytest.approx(two.log_score(pd.DataFrame(X), pd.Series(words)))
    assert np.exp(two.log_score(X[:1], ["yes"])) + np.exp(two.log_score(X[:1], ["no"])) == pytest.approx(1)
    with pytest.raises(
        DataError, match="y is 'maybe' in row 0, but the problem's response has the values 'no' and 'yes'"
    ):
        two.log_score(X[:1], ["maybe"])
    with pytest.raises(DataError, match="trials is for problems made with Logistic"):
        two.log_score(X, words, trials=2)


def _variance(posterior, row, trials):
    """Of the number of successes, from the probabilities of all of them."""
    p = np.array([np.exp(posterior.log_score(row, [k], trials=trials)) for k in range(trials + 1)])
    return p @ np.arange(trials + 1) ** 2 - (p @ np.arange(trials + 1)) ** 2


@pytest.mark.parametrize(
    ("family", "y", "trials", "m", "v"),
    [
        (wv.Poisson(), 5000.0, 1.0, 8.0, 0.5),
        (wv.Poisson(), 0.0, 1.0, 6.0, 4.0),
        (wv.Poisson(), 1000.0, 1.0, 0.0, 0.01),
        (wv.Logistic(), 1.0, 1.0, 15.0, 100.0),
        (wv.Logistic(), 0.0, 1.0, 40.0, 25.0),
        (wv.Logistic(trials=3000), 1500.0, 3000.0, 3.0, 2.0),
        (wv.Probit(), 0.0, 1.0, 9.0, 3.0),
        (wv.NegativeBinomial(0.3), 900.0, 1.0, 2.0, 1.0),
    ],
)
def test_predictive_densities_of_extreme_responses(family, y, trials, m, v):
    """A large count, a response that contradicts its prediction, an η of which little is known."""
    data = observed(family, np.array([y]), np.array([trials]), getattr(family, "dispersion", None))
    log = log_predictive_density(data, np.array([[m]]), np.array([[v]]))[0, 0]

    def integrand(eta):
        return oracle.log_density(family.name, y, trials, getattr(family, "dispersion", 1.0), eta) - (
            eta - m
        ) ** 2 / (2 * v)

    grid = np.linspace(m - 100 * np.sqrt(v), m + 100 * np.sqrt(v), 400_001)
    with np.errstate(over="ignore"):
        values = integrand(grid)
    top, peak = np.nanmax(values), grid[np.nanargmax(values)]
    near = grid[values > top - 45]
    total = integrate.quad(
        lambda e: np.exp(integrand(e) - top),
        near[0],
        near[-1],
        points=[peak],
        limit=2000,
        epsabs=0,
        epsrel=1e-12,
    )[0]
    assert log == pytest.approx(top + np.log(total) - 0.5 * np.log(2 * np.pi * v), rel=1e-9, abs=1e-8)


@pytest.mark.parametrize("name", FAMILIES)
def test_intervals_of_new_responses(name):
    posterior, new, _, weight, means, variances = new_rows(name)
    mean, std, ends = posterior.predict(new, kind="response", offset=0.3, return_std=True, interval=0.8)
    np.testing.assert_allclose(mean, posterior.predict(new, offset=0.3))
    mu = INVERSE[name](means[:, :, None] + np.sqrt(variances)[:, :, None] * NODE)
    first, second = weight @ (mu @ WEIGHT), weight @ (mu**2 @ WEIGHT)
    inner = {"poisson": first, "negative-binomial": first + second / R}.get(name, first - second)
    np.testing.assert_allclose(std, np.sqrt(inner + second - first**2), rtol=1e-4)
    for row in range(6):
        below = [
            predictive(name, np.full(6, k), weight, means, variances)[row]
            for k in range(2 if name in ("logistic", "probit") else 60)
        ]
        cdf = np.concatenate([[0.0], np.cumsum(below)])
        for end, level in zip(ends[row].astype(int), (0.1, 0.9)):
            assert cdf[end] < level + 1e-4
            assert cdf[end + 1] > level - 1e-4


@pytest.mark.parametrize("name", FAMILIES)
def test_draws_have_the_moments_of_coefficients(name):
    _, _, posterior, _ = example(name)
    n = 40_000
    draws, table = posterior.draw(n, seed=1), posterior.coefficients(interval=None)
    assert list(draws.columns) == list(table.index)
    np.testing.assert_array_less(np.abs(draws.mean() - table["mean"]), 4.5 * table["sd"] / np.sqrt(n) + 1e-12)
    np.testing.assert_allclose(draws.std(), table["sd"], rtol=0.05)
    share = (draws[["a", "b", "c"]] != 0).mean().to_numpy()
    np.testing.assert_array_less(
        np.abs(share - posterior.pip), 4.5 * np.sqrt(posterior.pip * (1 - posterior.pip) / n) + 1e-9
    )
    # a linear predictor needs all of a draw: its mean and its variance are those of predict
    rows = example(name)[0].iloc[:3]
    eta = (
        draws["(intercept)"].to_numpy()
        + rows[["z", "a", "b", "c"]].to_numpy() @ draws[["z", "a", "b", "c"]].T.to_numpy()
    )
    link, std = posterior.predict(rows, kind="link", offset=0.0, return_std=True)
    np.testing.assert_array_less(np.abs(eta.mean(axis=1) - link), 4.5 * std / np.sqrt(n))
    np.testing.assert_allclose(eta.std(axis=1), std, rtol=0.05)


def left_out(name, i, posterior, data, frame):
    """log p(y_i | y₋ᵢ) and the mean, all models fitted without row i by the oracle; the scale of the columns stays."""
    data = oracle.Data(name, data.X, data.y, data.slab, Z=data.F[:, 1:], r=R, offset=OFFSET)
    full = np.array([oracle.log_marginal(data, posterior.kept.model(k)) for k in range(len(posterior.kept))])
    data.weights = np.where(np.arange(len(data.y)) == i, 0.0, data.weights)
    part = np.array([oracle.log_marginal(data, posterior.kept.model(k)) for k in range(len(posterior.kept))])
    weight = special.softmax(np.log(posterior.kept.weight) + part - full)
    row = np.concatenate([[1.0, frame["z"].iloc[i]], frame[["a", "b", "c"]].iloc[i]])
    _, means, variances = components(posterior, data, row[None])
    means = means + OFFSET[i]
    p = predictive(name, data.y[i : i + 1], weight, means, variances)[0]
    mu = INVERSE[name](means[:, 0, None] + np.sqrt(variances[:, 0])[:, None] * NODE)
    return np.log(p), weight @ (mu @ WEIGHT)


@pytest.mark.parametrize("name", FAMILIES)
def test_leaving_one_out(name, monkeypatch):
    frame, _, posterior, data = example(name)
    near = posterior.loo()
    chosen = [0, 7, 23, int(near["log_density"].argmin()), int(near["pareto_k"].argmax())]
    want = np.array([left_out(name, i, posterior, data, frame) for i in chosen])
    # the approximation, and what fitting again gives
    np.testing.assert_allclose(near["log_density"].iloc[chosen], want[:, 0], atol=0.03)
    monkeypatch.setattr(family_scores, "DOUBTFUL_K", -np.inf)
    again = family_scores.leave_one_out_of_family(posterior.problem, posterior.kept)
    assert again["refitted"].all()
    np.testing.assert_allclose(again["log_density"].iloc[chosen], want[:, 0], atol=1e-4)
    np.testing.assert_allclose(again["mean"].iloc[chosen], want[:, 1], rtol=1e-4)
    np.testing.assert_allclose(again["share"], near["share"], atol=0.05)


@pytest.mark.parametrize("name", FAMILIES)
def test_the_approximation_divides_the_likelihood_out(name):
    frame, _, posterior, data = example(name)
    near = posterior.loo()
    rows = np.column_stack([np.ones(50), frame["z"], frame[["a", "b", "c"]]])
    weight, means, variances = components(posterior, data, rows)
    means = means + OFFSET
    p, mu = np.zeros((2, *means.shape))
    for k in range(len(weight)):
        _, score, minus = data.derivatives(means[k])[:3]
        v = 1 / (1 / variances[k] + minus)
        eta = (means[k] - v * score)[:, None] + np.sqrt(v)[:, None] * NODE
        p[k] = np.exp(oracle.log_density(name, data.y[:, None], 1.0, R, eta)) @ WEIGHT
        mu[k] = INVERSE[name](eta) @ WEIGHT
    ratio = weight[:, None] / p
    rest = ~near["refitted"].to_numpy()
    assert rest.sum() > 40
    np.testing.assert_allclose(
        near["log_density"][rest], -np.log(ratio.sum(axis=0))[rest], rtol=1e-4, atol=1e-6
    )
    np.testing.assert_allclose(
        near["mean"][rest], ((ratio * mu).sum(axis=0) / ratio.sum(axis=0))[rest], rtol=1e-4
    )
    share = ratio.sum(axis=0) ** 2 / (ratio**2 / weight[:, None]).sum(axis=0)
    np.testing.assert_allclose(near["share"][rest], share[rest], rtol=1e-4)


@pytest.mark.parametrize("family", ["poisson", "negative-binomial"])
def test_a_problem_without_a_row_is_that_of_the_other_rows(family):
    X, y = oracle.simulate("negative-binomial", 40, 2, 7)
    models = KeptModels.listed([(), (0,), (0, 1)])
    others = np.arange(40) != 5
    # without scaling, the prior does not depend on the rows
    whole, part = (
        wv.Problem(X[rows], y[rows], family=family, scale="none") for rows in (np.full(40, True), others)
    )
    got, want = (log_marginals(problem, models) for problem in (whole.without_row(5), part))
    np.testing.assert_allclose(np.diff(got), np.diff(want), atol=2e-4)
    np.testing.assert_allclose(log_marginals(whole, models)[0], 0.0, atol=1e-12)


def test_rows_that_matter_much_are_left_out_indeed(monkeypatch):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(60, 2))
    y = rng.random(60) < special.expit(2 * X[:, 0])
    X[0], y[0] = [9.0, 0.0], False  # far out, and on the wrong side
    posterior = wv.exact(wv.Problem(X, y, family="logistic", slab=wv.IndependentNormal(10.0)), progress=False)
    found = posterior.loo()
    assert found["refitted"].tolist() == [True] + [False] * 59
    assert found["pareto_k"].iloc[0] > 0.7 > found["pareto_k"].iloc[1:].max()
    rest = wv.exact(
        wv.Problem(X[1:] * X[1:].std(axis=0) / X.std(axis=0), y[1:], family="logistic", slab=wv.IndependentNormal(10.0)), progress=False
    )  # fmt: skip
    assert found["log_density"].iloc[0] == pytest.approx(rest.log_score(X[:1] * X[1:].std(axis=0) / X.std(axis=0), y[:1]), rel=0.05)  # fmt: skip
    monkeypatch.setattr(family_scores, "MOST_FITS", 0)
    with pytest.warns(ConvergenceWarning, match=r"leaving out 1 of 60 rows .* rows 0\)"):
        family_scores.leave_one_out_of_family(posterior.problem, posterior.kept)


def test_loo_checks_its_data_and_names_rows():
    frame, y, posterior, _ = example("poisson")
    named = frame.set_axis([f"r{i}" for i in range(50)])
    assert list(posterior.loo(named, pd.Series(y, named.index)).index[:2]) == ["r0", "r1"]
    for other in (frame.iloc[:40], frame + 1.0 * (np.arange(50) == 3)[:, None]):
        with pytest.raises(DataError, match="not those the problem was made with"):
            posterior.loo(other, y[: len(other)])
    with pytest.raises(DataError, match="not those the problem was made with"):
        posterior.loo(frame, y + 1)
    gaussian = wv.exact(wv.Problem(frame, np.sqrt(y) + frame["a"]), progress=False)
    with pytest.raises(DataError, match="keeps no copy of the rows"):
        gaussian.loo()


def test_weights_count_as_copies():
    X, y = oracle.simulate("logistic", 40, 2, 4)
    weights = np.ones(40)
    weights[[3, 9]] = [2.0, 0.0]
    left = wv.exact(wv.Problem(X, y, family="logistic", weights=weights), progress=False).loo(X, y, weights)
    assert list(left.index) == [i for i in range(40) if i != 9]
    # a row of weight 2 is twice the same row, of which both are left out
    copies = np.concatenate([np.arange(40)[weights > 0], [3]])
    both = wv.exact(wv.Problem(X[copies], y[copies], family="logistic"), progress=False).loo()
    assert left.loc[3, "log_density"] < both["log_density"].iloc[-1]
    others = [i for i in left.index if i != 3]
    place = {row: k for k, row in enumerate(copies[:-1].tolist())}
    np.testing.assert_allclose(
        left.loc[others, "log_density"], both["log_density"].iloc[[place[i] for i in others]], atol=2e-3
    )


def test_unknown_dispersion():
    X, y = oracle.simulate("negative-binomial", 80, 3, 6)
    posterior = wv.exact(wv.Problem(X, y, family="negative-binomial"), progress=False)
    r, shares = dispersion_values(posterior.problem, posterior.kept)
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    summary = posterior.dispersion()
    assert posterior.kept.weight @ shares @ r == pytest.approx(summary["mean"], rel=5e-3)
    # of one model: all r on a grid, each with its own fit
    grid = np.exp(np.linspace(np.log(0.2), np.log(60), 60))
    model, new = posterior.kept.model(0), np.array([[0.5, -1.0, 0.2]])
    logs, densities = [], []
    for value in grid:
        data = oracle.Data("negative-binomial", X, y, ("independent", 1.0), r=value)
        J, P = data.model(model)
        theta = oracle.mode(data, J, P)
        H = (J * -data.derivatives(J @ theta)[2][:, None]).T @ J + P
        line = np.concatenate([[1.0], ((new - X.mean(axis=0)) / X.std(axis=0, ddof=1))[0, list(model)]])
        eta = line @ theta + np.sqrt(line @ np.linalg.solve(H, line)) * NODE
        densities.append(
            [np.exp(oracle.log_density("negative-binomial", k, 1.0, value, eta)) @ WEIGHT for k in (0, 1, 12)]
        )
        logs.append(oracle.log_marginal(data, model) - (np.log(value) - np.log(5.0)) ** 2 / 8)
    want = special.softmax(logs) @ np.array(densities)
    alone = KeptModels.of({model: 1.0})
    got = [
        family_scores.log_predictive_of_family(posterior.problem, alone, new, [k], None, None)[0]
        for k in (0, 1, 12)
    ]
    np.testing.assert_allclose(np.exp(got), want, rtol=5e-3)
    # without the variables that matter, counts vary more
    two = KeptModels.of({model: 0.5, (): 0.5})
    own = dispersion_values(posterior.problem, two)
    for place, one in enumerate((model, ())):
        mean = dispersion_values(posterior.problem, KeptModels.of({one: 1.0}))
        at = [two.model(k) for k in range(2)].index(one)
        assert own[1][at] @ np.log(own[0]) == pytest.approx(mean[1][0] @ np.log(mean[0]), abs=0.01), place
    assert "(dispersion)" in posterior.draw(10)
    draws = posterior.draw(20_000)["(dispersion)"]
    assert draws.mean() == pytest.approx(summary["mean"], abs=4.5 * draws.std() / np.sqrt(20_000) + 0.002)
    assert np.isfinite(posterior.loo()["log_density"]).all()


def test_best_predictive_model():
    frame, y, posterior, data = example("logistic")
    rows = np.column_stack([np.ones(50), frame["z"], frame[["a", "b", "c"]]])
    weight, means, _ = components(posterior, data, rows)
    eta = data.offset + data.F @ data.null
    information = data.expected_information(eta)
    distance = ((means - weight @ means) ** 2) @ information
    best = posterior.kept.model(int(distance.argmin()))
    np.testing.assert_allclose(
        posterior.predict(frame, "BPM", kind="link", offset=0.0), means[int(distance.argmin())], atol=1e-6
    )
    assert len(best) <= 3
    assert len(y) == 50


def test_draws_where_nothing_is_left_of_a_coefficient():
    rng = np.random.default_rng(12)
    X = rng.normal(size=(40, 3))
    problem = wv.Problem(
        X, rng.random(40) < 0.5, family="logistic", slab=wv.LocalEmpiricalBayes(), evidence="bas"
    )
    assert np.isfinite(wv.exact(problem, progress=False).draw(100).to_numpy()).all()


def test_averages_over_g_that_say_nothing_are_named():
    x = np.linspace(-1, 1, 40)
    X = np.column_stack([x, np.sin(9 * x)])
    posterior = wv.exact(wv.Problem(X, x > 0.01, family="logistic", slab=wv.HyperGN()), progress=False)
    with pytest.warns(DataWarning, match="they separate the response, and HyperGN.* allows any g"):
        posterior.predict(X)


# --- how good predictions are


def test_scores_of_two_classes():
    frame, y, posterior, _ = example("logistic")
    p = posterior.predict(frame, offset=OFFSET)
    found = posterior.scores(frame, y, offset=OFFSET)
    assert list(found.index) == ["log_score", "brier", "auc"]
    assert found["brier"] == pytest.approx(np.mean((y - p) ** 2))
    assert found["log_score"] == pytest.approx(np.mean(np.where(y == 1, np.log(p), np.log(1 - p))))
    pairs = [(a > b) + (a == b) / 2 for a, b in itertools.product(p[y == 1], p[y == 0])]
    assert found["auc"] == pytest.approx(np.mean(pairs))
    own, left = posterior.scores(), posterior.loo()
    assert own["brier"] == pytest.approx(np.mean((y - left["mean"]) ** 2))
    assert own["log_score"] == pytest.approx(left["log_density"].mean())
    assert own["log_score"] < found["log_score"]  # rows that were fitted are predicted too well
    assert np.isnan(posterior.scores(frame[y == 1], y[y == 1], offset=0.0)["auc"])
    with pytest.raises(DataError, match="give both X and y, or neither"):
        posterior.scores(frame)


def test_calibration():
    rng = np.random.default_rng(8)
    X = rng.normal(size=(400, 2))
    y = rng.random(400) < special.expit(X[:, 0])
    posterior = wv.exact(wv.Problem(X, y, family="logistic"), progress=False)
    table = posterior.calibration(X, y, bins=4)
    p = posterior.predict(X)
    order = np.argsort(p)
    np.testing.assert_allclose(table["predicted"], p[order].reshape(4, 100).mean(axis=1))
    np.testing.assert_allclose(table["observed"], y[order].reshape(4, 100).mean(axis=1))
    reach = 1.645 * np.sqrt((p * (1 - p))[order].reshape(4, 100).sum(axis=1)) / 100
    np.testing.assert_allclose(table["upper"] - table["predicted"], reach, rtol=1e-3)
    assert ((table["lower"] <= table["observed"]) & (table["observed"] <= table["upper"])).all()
    with pytest.raises(DataError, match="bins must be a whole number"):
        posterior.calibration(bins=0)


def test_models_that_stand_for_many():
    """The heaviest models are the smaller ones here: alone they would be a biased sample."""
    rng = np.random.default_rng(2)
    sizes = rng.integers(1, 9, 6000)
    weights = rng.exponential(size=6000) / sizes**2
    kept = KeptModels.of(
        {(i, *range(6000, 6000 + s)): float(w) for i, (s, w) in enumerate(zip(sizes, weights))}
    )
    some = family_scores.represented(kept, 400)
    assert 300 < len(some) <= 400
    assert some.weight.sum() == pytest.approx(1)
    np.testing.assert_allclose(some.weight[:200], kept.weight[:200])
    truth = kept.weight @ np.diff(kept.start)
    spread = np.sqrt(kept.weight @ (np.diff(kept.start) - truth) ** 2 / 200)
    assert abs(some.weight @ np.diff(some.start) - truth) < 3 * spread
    heaviest = np.diff(kept.start)[:400]
    assert abs(kept.weight[:400] @ heaviest / kept.weight[:400].sum() - truth) > 6 * spread
    assert len(family_scores.represented(kept, 6000)) == 6000


def test_overdispersed_counts_are_named():
    rng = np.random.default_rng(9)
    X = rng.normal(size=(150, 3))
    counts = rng.poisson(np.exp(1 + 0.4 * X[:, 0]) * rng.gamma(1.5, 1 / 1.5, 150))
    problem = wv.Problem(X, counts, family="poisson")
    with pytest.warns(
        DataWarning,
        match=r"the counts vary .* times as much as a Poisson distribution allows.*negative-binomial",
    ):
        posterior = wv.exact(problem, progress=False)
    assert "negative-binomial" in posterior.explain()
    mean = posterior.predict(X)
    size = 1 + posterior.mean_size
    assert posterior.pearson.ratio == pytest.approx(
        np.sum((counts - mean) ** 2 / mean) / (150 - size), rel=1e-3
    )
    row = posterior.diagnostics().loc["(Pearson dispersion)"]
    assert row["estimate"] == posterior.pearson.ratio
    assert "too much" in row["note"]
    assert posterior.scores(X, counts)["pearson"] == pytest.approx(np.mean((counts - mean) ** 2 / mean))


def test_events_of_survival_data_are_not_judged_as_counts():
    """Each row ends at its event, so that early events have small exposures: Pearson's statistic is large whatever the data are like."""
    rng = np.random.default_rng(4)
    time = rng.exponential(1.0, 300)
    event, exposure = (time < 2).astype(float), np.minimum(time, 2.0)
    X = rng.normal(size=(300, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataWarning)
        posterior = wv.exact(wv.Problem(X, event, family="poisson", offset=np.log(exposure)))
    assert "vary" not in posterior.explain()
    assert posterior.pearson is None


def test_overdispersed_counts_of_a_negative_binomial_distribution():
    """Advice to leave the dispersion unknown is for those who gave it."""
    X, y = np.arange(20.0)[:, None], np.arange(20) % 5
    for dispersion, advice in ((None, "a variable that is missing"), (2.0, "leave the dispersion unknown")):
        problem = wv.Problem(X, y, family=wv.NegativeBinomial(dispersion=dispersion))
        (words,) = accuracy.overdispersion_words(problem, accuracy.Pearson(1.5, 9.0))
        assert "vary 1.5 times as much as this negative binomial" in words
        assert words.endswith(advice) or words.endswith(f"{advice}, NegativeBinomial()")


@pytest.mark.filterwarnings("error::whichvars.errors.DataWarning")
def test_other_counts_are_not():
    rng = np.random.default_rng(10)
    X = rng.normal(size=(150, 3))
    mean = np.exp(1 + 0.4 * X[:, 0])
    for family, counts in (
        ("poisson", rng.poisson(mean)),
        ("poisson", rng.poisson(0.05 * mean)),
        ("negative-binomial", rng.poisson(mean * rng.gamma(1.5, 1 / 1.5, 150))),
        (wv.Logistic(trials=7), rng.binomial(7, special.expit(X[:, 0]))),
    ):
        posterior = wv.exact(wv.Problem(X, counts, family=family), progress=False)
        assert not posterior.pearson.over
        assert 0.5 < posterior.pearson.ratio < 1.5
        assert "Note" not in posterior.explain()
    assert wv.exact(wv.Problem(X, counts > 3, family="logistic"), progress=False).pearson is None


# --- what else is asked of a posterior


def test_how_far_laplace_is_off():
    _, _, posterior, _ = example("logistic")
    change, name = posterior.laplace_change
    first = wv.exact(
        wv.Problem(*example("logistic")[:2], family="logistic", slab=wv.IndependentNormal(2.0), always_include=["z"],
                   offset=OFFSET, evidence="laplace"), progress=False,
    )  # fmt: skip
    differences = np.abs(first.pip - posterior.pip)
    assert change == pytest.approx(differences.max(), rel=1e-6)
    assert name == posterior.problem.names[int(differences.argmax())]
    assert first.laplace_change is None
    assert posterior.diagnostics().loc["(fits)", "estimate"] == 8
    assert "Laplace's approximation" in posterior.explain()
    assert "(fits)" not in wv.exact(wv.Problem(example("logistic")[0], example("poisson")[1] + OFFSET), progress=False).diagnostics().index  # fmt: skip


def test_sampled_posteriors_count_fits_and_second_stages():
    X, y = oracle.simulate("logistic", 60, 6, 3)
    problem = wv.Problem(X, y, family="logistic")
    sampled = wv.sample(problem, wv.Hybrid(), draws=4000, seed=0, progress=False, replicates=2)
    table = sampled.diagnostics()
    assert table.loc["(fits)", "estimate"] >= 30
    assert 0.5 < table.loc["(second stage)", "estimate"] <= 1
    direct = wv.sample(problem, wv.AddDeleteSwap(), draws=4000, seed=0, progress=False, replicates=2)
    assert "(second stage)" not in direct.diagnostics().index


def test_explain_speaks_of_odds_and_rates():
    X, y = oracle.simulate("logistic", 200, 2, 3, effect=1.5)
    frame = pd.DataFrame(X * [10.0, 1.0], columns=["dose", "age"])
    posterior = wv.exact(
        wv.Problem(frame[["dose"]], np.where(y > 0, "yes", "no"), family="logistic"), progress=False
    )
    table = posterior.coefficients(interval=None).loc["dose"]
    sd = frame["dose"].std()
    ratio = np.exp(sd * (table["mean_included"] + np.array([0, -1.645, 1.645]) * table["sd_included"]))
    low = f"multiplies the odds of yes by {ratio[0]:.3g} ({ratio[1]:.2g}"
    assert low in posterior.explain()
    assert "log odds of yes" in posterior.methods()
    counts = wv.exact(
        wv.Problem(frame, np.round(np.exp(0.05 * frame["dose"] + 1)), family="poisson"), progress=False
    )
    assert "multiplies the rate by" in counts.explain()
    probit = wv.exact(wv.Problem(frame, y, family="probit"), progress=False)
    assert "adds to the probit of 1" in probit.explain()


@pytest.mark.parametrize("name", ["logistic", "negative-binomial"])
def test_other_priors_and_files(name, tmp_path):
    frame, _, posterior, _ = example(name)
    other = posterior.reweight(slab=wv.GPrior(50.0), model_prior=wv.FixedInclusion(0.3))
    again = wv.exact(other.problem, progress=False)
    np.testing.assert_allclose(other.pip, again.pip, atol=1e-8)
    np.testing.assert_allclose(
        other.predict(frame, offset=0.0, kind="response"), again.predict(frame, offset=0.0), rtol=1e-6
    )
    np.testing.assert_allclose(other.loo()["log_density"], again.loo()["log_density"], atol=1e-6)
    assert "carried over" in other.explain()
    posterior.save(tmp_path / "posterior.npz")
    loaded = wv.Posterior.load(tmp_path / "posterior.npz")
    pd.testing.assert_frame_equal(loaded.loo(), posterior.loo(), check_exact=True)
    pd.testing.assert_frame_equal(loaded.draw(5), posterior.draw(5), check_exact=True)
    assert loaded.explain() == posterior.explain()
    assert posterior.given(exclude="a").inclusion_probabilities["a"] == 0
    assert len(posterior.sensitivity(g=[1.0, 2.0], prior_size=[1.0])) == 2
