"""Priors that are too narrow for the effects in the data: they are remarked upon, and genetics' default is widened."""

import warnings

import numpy as np
import pytest

import whichvars as wv
from whichvars.problem.genetics import default_slab, wide_enough
from whichvars.problem.prior_width import distances, narrow_prior


def _data(effect: float, n: int = 2000) -> tuple[np.ndarray, np.ndarray]:
    """The second of ten columns is a copy of the first, which has the effect."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, 10))
    X[:, 1] = X[:, 0]
    return X, effect * X[:, 0] + 0.2 * X[:, 5] + rng.normal(size=n)


def _problem(effect: float, **settings: object) -> wv.Problem:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return wv.Problem(*_data(effect), **settings)


@pytest.mark.parametrize("scale", ["unit", "none"])
def test_distances_are_those_of_simple_regressions(scale):
    X, y = _data(3.0)
    X = X * np.arange(1, 11)
    problem = wv.Problem(X, y, slab=wv.IndependentNormal(0.3), scale=scale)
    for j in (0, 5):
        x = X[:, j] / (X[:, j].std(ddof=1) if scale == "unit" else 1.0)
        slope = np.polyfit(x, y, 1)
        spread = np.std(y - np.polyval(slope, x), ddof=1)
        assert distances(problem)[j] == pytest.approx(abs(slope[0]) / (spread * np.sqrt(0.3)), rel=1e-3)


def test_distances_with_a_known_variance_and_with_one_g_for_each_variable():
    X, y = _data(3.0)
    x = X[:, 0] / X[:, 0].std(ddof=1)
    slope = abs(np.polyfit(x, y, 1)[0])
    g = [0.5] + [2.0] * 9
    problem = _problem(3.0, slab=wv.IndependentNormal(g), noise=wv.KnownVariance(4.0))
    far = distances(problem)
    assert far[0] == pytest.approx(slope / np.sqrt(4.0 * 0.5), rel=1e-9)
    assert far[1] == pytest.approx(slope / np.sqrt(4.0 * 2.0), rel=1e-9)


def test_distances_for_two_values_are_steps_of_fisher_scoring_from_the_null_model():
    rng = np.random.default_rng(5)
    X, C = rng.normal(size=(3000, 3)) * [1.0, 2.0, 0.5], rng.normal(size=(3000, 1))
    weights = rng.integers(1, 4, 3000).astype(float)
    chance = 1 / (1 + np.exp(1 - 0.4 * X[:, 1] - 0.5 * C[:, 0]))
    y = (rng.random(3000) < chance).astype(float)
    problem = wv.Problem(X, y, family="logistic", covariates=C, weights=weights, slab=wv.IndependentNormal(0.01))  # fmt: skip
    Z, delta = np.column_stack([np.ones(3000), C]), np.zeros(2)
    for _ in range(20):
        p = 1 / (1 + np.exp(-Z @ delta))
        delta += np.linalg.solve((Z.T * (weights * p * (1 - p))) @ Z, Z.T @ (weights * (y - p)))
    W = weights * p * (1 - p)
    spread = np.sqrt(weights @ (X - weights @ X / weights.sum()) ** 2 / weights.sum())
    for j in range(3):
        x = X[:, j] / spread[j]
        x = x - Z @ np.linalg.solve((Z.T * W) @ Z, Z.T @ (W * x))
        step = x @ (weights * (y - p)) / (W @ x**2)
        # rows with more information about the null model do not have much more about x
        assert distances(problem)[j] == pytest.approx(abs(step) / 0.1, rel=0.05)


def test_distances_under_student_noise_are_in_units_of_its_scale():
    rng = np.random.default_rng(6)
    X = rng.normal(size=(4000, 3))
    y = 0.3 * X[:, 0] + rng.standard_t(4, 4000)
    near, far = (wv.Problem(X, unit * y, family="student", slab=wv.IndependentNormal(0.01)) for unit in (1, 70))  # fmt: skip
    assert distances(near)[0] == pytest.approx(3.0, rel=0.15)
    assert distances(far) == pytest.approx(distances(near), rel=1e-6)


@pytest.mark.parametrize("slab", [wv.GPrior(100), wv.HyperG(), wv.IndependentNormal("estimate")])
def test_priors_without_a_fixed_width_are_not_remarked_upon(slab):
    assert narrow_prior(_problem(50.0, slab=slab)) == []


def test_a_perfect_fit_is_remarked_upon_without_a_number():
    X = np.random.default_rng(0).normal(size=(30, 3))
    (remark,) = narrow_prior(wv.Problem(X, X[:, 1]))
    assert "the effect of x1 alone is more than a million prior standard deviations" in remark


def test_a_narrow_prior_is_remarked_upon_wherever_a_result_is_read(tmp_path):
    problem = _problem(20.0, slab=wv.IndependentNormal(0.01))
    with pytest.warns(wv.DataWarning, match="the effect of x0 alone is 197 prior standard deviations"):
        posterior = wv.sample(problem, progress=False)
    with pytest.warns(wv.DataWarning, match="prior standard deviations"):
        wv.sample(problem, wv.AddDeleteSwap(), draws=2000, progress=False)
    assert "IndependentNormal(390) would be wide enough" in posterior.explain()
    posterior.report(tmp_path / "r.html")
    assert "prior standard deviations" in (tmp_path / "r.html").read_text()


def test_a_prior_that_is_wide_enough_is_not_remarked_upon():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        posterior = wv.sample(_problem(3.0), progress=False)
    assert "prior standard deviations" not in posterior.explain()


@pytest.mark.parametrize("effect", [0.1, 1.0, 20.0])
def test_the_default_of_genetics_takes_copies_in_turn_however_strong_they_are(effect):
    # at an effect of 20 noise standard deviations, t is 900 and IndependentNormal(0.01) has both copies in
    X, y = _data(effect)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        many = wv.sample_many(X, {"y": y}, progress=False)
    sets = many.sets.groupby("set")["variable"].agg(list)
    assert sorted(sets.tolist()) == [["x0", "x1"], ["x5"]]
    copies = many.variables.set_index("variable")["pip"][["x0", "x1"]]
    assert ((copies > 0.5) & (copies < 0.6)).all()


def test_the_default_of_genetics_takes_copies_in_turn_also_for_cases_and_controls():
    X = _data(0.0)[0]
    eta = 0.8 * X[:, 0] + 0.3 * X[:, 5]
    y = (np.random.default_rng(8).random(len(X)) < 1 / (1 + np.exp(-eta))).astype(float)
    problem = wv.Problem(X, y, family="logistic", slab=default_slab(), model_prior=wv.BetaBinomial(size=1))
    wide = wide_enough(problem)
    assert distances(problem).max() > 5
    assert distances(wide).max() == pytest.approx(1.0, rel=0.02)
    narrow, posterior = wv.exact(problem), wv.exact(wide)
    # both copies were in under the narrow prior
    assert narrow.pip[:2].sum() > 1.4
    assert posterior.pip[:2] == pytest.approx(0.54, abs=0.03)


def test_a_small_effect_leaves_the_default_of_genetics_as_it_is():
    X = _data(0.0)[0][:, 2:]
    y = 0.05 * X[:, 0] + np.random.default_rng(4).normal(size=len(X))
    small = wv.Problem(X, y, slab=default_slab())
    assert 0.3 < distances(small).max() < 1
    assert wide_enough(small) is small
    large = wide_enough(_problem(20.0, slab=default_slab()))
    assert distances(large).max() == pytest.approx(1.0, rel=0.02)
    assert wide_enough(_problem(20.0, slab=wv.HyperG())).slab == wv.HyperG()


def test_a_narrow_slab_that_was_asked_for_is_kept_and_named():
    X, y = _data(20.0)
    with pytest.warns(
        wv.DataWarning, match="too narrow for the largest effect on 'strong': it is more than 5"
    ):
        many = wv.sample_many(
            X, {"strong": y, "weak": X[:, 5] / 5 + 3 * np.cos(np.arange(2000))}, slab=wv.IndependentNormal(0.01), progress=False
        )  # fmt: skip
    assert (many.summary["mean_size"] > 0).all()


@pytest.mark.parametrize("n", [None, 10**7])
def test_summary_statistics_have_the_same_default(n):
    R = np.corrcoef(_data(1.0)[0].T)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # nothing but the first variant has an effect
        shares = np.array([7.0, 2000.0]) / np.sqrt(10**7)
        r = R[0] * (shares / np.sqrt(1 + shares**2))[:, None]
        scores = np.sqrt(10**7 - 2) * r / np.sqrt(1 - r**2) if n else R[0] * [[7.0], [2000.0]]
        weak, strong = (wv.from_summary(z=z, R=R, n=n, regularise=0, check="none") for z in scores)
        assert weak.slab == wv.IndependentNormal(50 if n is None else 0.01)
        assert distances(strong).max() == pytest.approx(1.0, rel=0.02)
        assert wv.exact(strong).pip[:2] == pytest.approx(0.54, abs=0.03)


def test_priors_that_none_of_the_models_is_possible_under_are_shown_as_not_known():
    # both copies are in under the narrow prior; a g-prior has no model with both
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        posterior = wv.exact(_problem(20.0, slab=wv.IndependentNormal(0.01)))
        table = wv.compare_priors(posterior, [wv.GPrior(100), wv.IndependentNormal(1)], runs="none")
    g_prior = table.xs("GPrior(g=100.0)", level="slab")
    assert (g_prior["how"] == "not known").all()
    assert g_prior[["mean_size", "x0"]].isna().all(axis=None)
    assert not g_prior["reliable"].any()
    assert (table.loc[table["how"] != "not known", "x0"] > 0.9).all()
    labels = [text.get_text() for text in wv.plot_priors(table).get_legend().get_texts()]
    assert not any("GPrior" in label for label in labels)
