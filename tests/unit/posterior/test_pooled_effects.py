"""Odds ratios, rate ratios and stand-ins of imputed fits: the same as those of the table itself if nothing is missing, and in the report, the files and
the words."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import whichvars as wv
from support.kinds import mainly
from whichvars.cli import main
from whichvars.errors import DataError
from whichvars.posterior import coefficients, fits
from whichvars.posterior.family_words import standard_effects
from whichvars.posterior.fits import held_fits
from whichvars.posterior.pooled_effects import pooled_standard_effects, spread_draws

N = 160
RNG = np.random.default_rng(5)
X = pd.DataFrame(RNG.normal(size=(N, 4)), columns=["age", "copy", "dose", "noise"])
X["copy"] = X["age"] + 0.05 * RNG.normal(size=N)
ETA = 1.4 * X["age"] - 0.9 * X["dose"]
ILL = np.where(RNG.uniform(size=N) < 1 / (1 + np.exp(-ETA)), "ill", "well")
VISITS = RNG.poisson(np.exp(0.5 * ETA))
HOLES = X.mask(RNG.uniform(size=X.shape) < [0.0, 0.1, 0.2, 0.1])


def fit(frame: pd.DataFrame, y: np.ndarray, family: str) -> wv.Posterior:
    # few variables, so that one of two copies is enough
    prior = wv.FixedInclusion(h=0.05)
    slab = wv.IndependentNormal(4.0)
    return wv.exact(wv.Problem(frame, y, family=family, slab=slab, model_prior=prior), progress=False)


def pooled(y: np.ndarray, family: str) -> wv.PooledPosterior:
    imputations = wv.impute(HOLES, y, m=4, seed=3)
    return wv.pool([fit(table, y, family) for table in imputations], imputations)


PARTS = pooled(ILL, "logistic")


@pytest.mark.parametrize("family", ["logistic", "poisson"])
def test_copies_of_one_table_are_the_table(family: str) -> None:
    one = fit(X, ILL if family == "logistic" else VISITS, family)
    same = wv.pool([one, one, one])
    expected = standard_effects(one, 0.95)
    # a normal distribution with the same mean and variance, given that the variable is in
    np.testing.assert_allclose(pooled_standard_effects(same, 0.95), expected, rtol=1e-9)
    ratio = "odds_ratio" if family == "logistic" else "rate_ratio"
    table, own = same.coefficients(scale=ratio), one.coefficients(scale=ratio)  # type: ignore[arg-type]
    np.testing.assert_allclose(table["ratio"], own["ratio"])
    np.testing.assert_allclose(table["ratio_included"].iloc[1:], own["ratio_included"].iloc[1:])
    np.testing.assert_allclose(table[["lower", "upper"]], own[["lower", "upper"]], rtol=0.1)
    clusters, alone = same.clusters(), one.clusters()
    assert clusters["variables"].tolist() == alone["variables"].tolist()
    names = ["probability", "expected", "purity"]
    np.testing.assert_allclose(clusters[names], alone[names], atol=1e-12)
    np.testing.assert_allclose(clusters["imputation_error"], 0, atol=1e-12)


def test_sets_are_averages_over_imputations() -> None:
    found = PARTS.clusters()
    pair = found[found["size"] > 1]
    assert [set(names) for names in pair["variables"]] == [{"age", "copy"}]
    each = [
        sum(part.kept.weight[i] for i in range(len(part.kept)) if {0, 1} & set(part.kept.model(i)))
        for part in PARTS.parts
    ]
    assert pair["probability"].iloc[0] == pytest.approx(np.mean(each))
    assert pair["imputation_error"].iloc[0] == pytest.approx(np.std(each, ddof=1) / 2)
    tables = wv.impute(HOLES, ILL, m=4, seed=3)
    sizes = [np.corrcoef(table["age"], table["copy"])[0, 1] for table in tables]
    assert pair["purity"].iloc[0] == pytest.approx(np.mean(sizes))


def test_words() -> None:
    first = PARTS.explain().splitlines()[0]
    assert "age and copy stand in for one another" in first
    assert "one standard deviation more of" in first
    assert "dose multiplies the odds of well by" in first or "dose by" in first
    effect = np.exp(pooled_standard_effects(PARTS).loc["dose"])
    assert f"{effect['effect']:.3g} ({effect['lower']:.3g} to {effect['upper']:.3g}" in first
    with pytest.raises(DataError, match="does not apply"):
        PARTS.coefficients(scale="rate_ratio")


def test_models_are_fitted_once_for_all_coefficients(monkeypatch: pytest.MonkeyPatch) -> None:
    """With thousands of models of a family, each further round of fits takes minutes."""
    calls = []

    def counted(problem, kept):  # type: ignore[no-untyped-def]
        calls.append(problem)
        return held_fits(problem, kept)

    monkeypatch.setattr(coefficients, "held_fits", counted)
    pooled = wv.PooledPosterior(PARTS.parts, PARTS.imputations)
    pooled.summary()
    pooled.explain()
    pooled.coefficients()
    assert len(calls) == len(pooled.parts)


@pytest.mark.parametrize("family", ["logistic", "poisson"])
def test_completions_of_new_rows_are_predicted_at_once(monkeypatch: pytest.MonkeyPatch, family: str) -> None:
    """Each prediction fits all models again. The result is that of predicting one completion after the other."""
    posterior = pooled(ILL if family == "logistic" else VISITS, family)
    rows, offset = HOLES.head(12), np.linspace(-0.2, 0.3, 12)
    assert rows.isna().any(axis=None)
    calls = []
    predict = wv.Posterior.predict

    def counted(self: wv.Posterior, X: pd.DataFrame, *given: object, **settings: object) -> object:
        calls.append(len(X))
        return predict(self, X, *given, **settings)

    monkeypatch.setattr(wv.Posterior, "predict", counted)
    mean, std, ends = posterior.predict(rows, return_std=True, interval=0.9, offset=offset)
    assert calls == [12 * 20] * (2 * len(posterior.parts))
    assert posterior.imputations is not None
    each = [
        [predict(part, table, offset=offset) for table in posterior.imputations.complete_new(rows, i, 0)]
        for i, part in enumerate(posterior.parts)
    ]
    np.testing.assert_allclose(mean, np.mean(each, axis=(0, 1)), rtol=1e-12)
    assert ((ends[:, 0] < mean) & (mean < ends[:, 1])).all()
    assert (std > 0).all()
    with pytest.raises(DataError, match="offset"):
        posterior.predict(rows, offset=offset[:5])


def test_room_for_fits_goes_by_the_columns_that_models_have(monkeypatch: pytest.MonkeyPatch) -> None:
    """A group of many columns takes room only in the models that have it."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(60, 30)), columns=[f"x{j}" for j in range(30)])
    groups = {"wide": [f"x{j}" for j in range(6, 30)]}
    posterior = wv.exact(
        wv.Problem(X, X["x0"] + rng.normal(size=60), groups=groups, model_prior=wv.FixedInclusion(h=0.01))
    )
    widths = np.array([24 if j == posterior.problem.names.index("wide") else 1 for j in range(7)])
    k = np.array([widths[list(posterior.kept.model(i))].sum() for i in range(len(posterior.kept))])
    need = 8 * (k * k + 3 * k + 4).sum()
    monkeypatch.setattr(fits, "HELD_BYTES", need)
    assert isinstance(held_fits(posterior.problem, posterior.kept), list)
    monkeypatch.setattr(fits, "HELD_BYTES", need - 1)
    assert not isinstance(held_fits(posterior.problem, posterior.kept), list)


def test_report(tmp_path: Path) -> None:
    PARTS.report(tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text()
    for words in ("Odds ratio", "by how much the odds of well are multiplied", "<dt>Stand-ins</dt>"):
        assert words in page, words
    shown = np.exp(pooled_standard_effects(PARTS)["effect"]["dose"])
    assert f"{shown:.3g}" in page
    PARTS.report(tmp_path / "b.html", brief=True)
    assert f"odds of well {shown:.3g} times as large" in (tmp_path / "b.html").read_text()


def test_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    HOLES.assign(visits=VISITS).to_csv("a.csv", index=False)
    arguments = "exact a.csv -y visits --family poisson --missing impute --imputations 3 --no-report"
    done = CliRunner().invoke(main, arguments.split(), env={"COLUMNS": "120"})
    assert done.exit_code == 0, done.output
    assert "rate ratio" in done.output
    saved = wv.PooledPosterior.load("a-run/posterior.npz")
    table = pd.read_csv("a-run/summary.csv", index_col="variable")
    expected = np.exp(pooled_standard_effects(saved)["effect"])
    np.testing.assert_allclose(table["rate_ratio_per_sd"], expected[table.index], rtol=1e-6)


# --- few imputations


@pytest.mark.parametrize("m", mainly([2, 3, 5, 20], [2, 5]))
def test_intervals_allow_for_few_imputations(m: int) -> None:
    """Many coefficients at once: given the observed data each is N(0, W + B), and each part has a mean that is drawn from N(0, B)."""
    rng = np.random.default_rng(m)
    cases, W, B = 4000, 1.0, 1.0
    truth = rng.normal(0, np.sqrt(W + B), cases)
    means = rng.normal(0, np.sqrt(B), (m, cases))
    draws = [mean + np.sqrt(W) * rng.normal(size=(1200 // m + 200, cases)) for mean in means]
    spread = spread_draws(draws, means, np.ones((m, cases)), seed=1)
    covered = {}
    for name, values in (("spread", spread), ("plain", np.concatenate(draws))):
        lower, upper = np.quantile(values, (0.05, 0.95), axis=0)
        covered[name] = ((lower < truth) & (truth < upper)).mean()
    # Rubin's intervals are conservative with very few parts
    assert 0.885 < covered["spread"] < (0.935 if m > 3 else 0.975)
    assert m == 20 or covered["plain"] < 0.87


def test_draws_in_which_a_variable_is_out_stay_out() -> None:
    rng = np.random.default_rng(0)
    draws = [
        np.where(rng.random((500, 1)) < 0.4, rng.normal(mean, 1, (500, 1)), 0.0) for mean in (1.0, 2.0, 3.0)
    ]
    means = np.array([[1.0], [2.0], [3.0]])
    spread = spread_draws(draws, means, np.full((3, 1), 0.4), seed=0)
    np.testing.assert_array_equal(spread == 0, np.concatenate(draws) == 0)
    assert spread[spread != 0].mean() == pytest.approx(2, abs=0.3)
    # in a single part, or the same in all, nothing is known of the variance between parts, or there is none
    alone = spread_draws(draws, means, np.array([[0.4], [0.0], [0.0]]), seed=0)
    np.testing.assert_array_equal(alone, np.concatenate(draws))
    same = spread_draws(draws, np.ones((3, 1)), np.full((3, 1), 0.4), seed=0)
    np.testing.assert_array_equal(same, np.concatenate(draws))


def test_predictions_follow_the_same_rule() -> None:
    y = (ETA + RNG.normal(size=N)).to_numpy()
    imputations = wv.impute(HOLES, y, m=4, seed=3)
    parts = [wv.exact(wv.Problem(table, y), progress=False) for table in imputations]
    several = wv.pool(parts, imputations)
    mean, std, ends = several.predict(X, return_std=True, interval=0.9)
    each = [part.predict(X, return_std=True) for part in parts]
    means = np.array([m for m, _ in each])
    np.testing.assert_allclose(mean, means.mean(axis=0))
    within = np.mean([s**2 for _, s in each], axis=0)
    np.testing.assert_allclose(std, np.sqrt(within + 1.25 * means.var(axis=0, ddof=1)))
    # nearly normal
    np.testing.assert_allclose((ends[:, 1] - ends[:, 0]) / 2, 1.66 * std, rtol=0.15)
    probability, inside = PARTS.predict(X, interval=0.9)
    assert (
        (inside[:, 0] > 0) & (inside[:, 0] < probability) & (probability < inside[:, 1]) & (inside[:, 1] < 1)
    ).all()


def test_the_methods_are_those_of_all_tables() -> None:
    assert "all 16 models were enumerated for each completed table" in PARTS.methods()
    imputations = wv.impute(HOLES, X["noise"].to_numpy(), m=2, seed=3)
    parts = [
        wv.sample(wv.Problem(table, X["noise"]), wv.AddDeleteSwap(), draws=2000, seed=seed, progress=False)
        for seed, table in enumerate(imputations, start=7)
    ]
    mixed = wv.pool(parts, imputations)
    words = mixed.methods()
    assert "was sampled for each completed table by" in words
    assert "(seeds 7, 8)" in words
    assert f"with {sum(part.iterations for part in parts):,} iterations in total" in words
    error = np.nanmax(mixed.mcse)
    assert f"of a posterior inclusion probability was {error:.2g}." in words
    assert f"{np.nanmax(parts[0].mcse):.2g}" != f"{error:.2g}", "the numbers tell the two apart"
    alone = parts[0].methods()
    assert "(seed 7)" in alone
    assert "completed table" not in alone


def test_names_with_commas_are_not_taken_apart(tmp_path: Path) -> None:
    """Of a model with nearly all variables, those that it does not have are listed."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(60, 14)), columns=[f"a, {j}" for j in range(14)])
    y = table.iloc[:, :13].sum(axis=1) + 0.3 * rng.normal(size=60)
    table.iloc[:3, 0] = np.nan
    made = wv.impute(table, y, m=2, seed=0)
    page = wv.pool([wv.exact(wv.Problem(X, made.y)) for X in made], made).report(tmp_path / "report.html")
    assert '<td class="members">all except a, 13</td>' in page.read_text(encoding="utf-8")
