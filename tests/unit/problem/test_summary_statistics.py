"""Problems from z-scores and LD: the posterior of the individual data, LD of other people, and what does not belong together."""

import itertools
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import whichvars as wv
from whichvars.errors import DataError, DataWarning
from whichvars.problem.genetics import wide_enough
from whichvars.problem.ld_consistency import CLEAR_RATIO, FLIP_RATIO, _turn_round

RNG = np.random.default_rng(3)
N, P = 200, 8
NAMES = [f"rs{j}" for j in range(P)]
SLABS: list[Any] = [
    wv.IndependentNormal(0.01), wv.IndependentNormal([0.1 * (j + 1) for j in range(P)]), wv.GPrior("n"), wv.GPrior("bric"), wv.HyperG(),
    wv.HyperGN(), wv.ZellnerSiow(), wv.CCH(1, 30), wv.BetaPrime(), wv.Robust(), wv.Intrinsic(), wv.LocalEmpiricalBayes(), wv.BIC(),
    wv.IndependentNormal("estimate"), wv.ProductMoment(0.1), wv.ExponentialMoment(0.1), wv.CorrelatedNormal(0.3 * np.eye(P) + 0.1),
]  # fmt: skip


def ar(p: int, r: float) -> np.ndarray:
    place = np.arange(p)
    return r ** np.abs(place[:, None] - place)


def people(n: int, R: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=(n, len(R))) @ np.linalg.cholesky(R).T


def simple_regressions(X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Effects and standard errors, one column at a time."""
    fits = [stats.linregress(x, y) for x in X.T]
    return np.array([fit.slope for fit in fits]), np.array([fit.stderr for fit in fits])


X = people(N, ar(P, 0.7), RNG) * np.arange(1, P + 1)
Y = 0.3 * X[:, 2] - 0.1 * X[:, 5] + 2 * RNG.normal(size=N)
BETA, SE = simple_regressions(X, Y)
LD = np.corrcoef(X.T)
PRIOR = wv.BetaBinomial(size=1.0)


@pytest.mark.parametrize("slab", SLABS, ids=repr)
def test_in_sample_ld_gives_the_posterior_of_the_individual_data(slab: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        problem = wv.from_summary(
            beta=BETA, se=SE, R=LD, n=N, slab=slab, y_sd=Y.std(ddof=1), names=NAMES, model_prior=PRIOR
        )
    found, want = wv.exact(problem), wv.exact(wv.Problem(X, Y, slab=slab, names=NAMES, model_prior=PRIOR))
    assert found.pip == pytest.approx(want.pip, abs=1e-10)
    assert found.log_evidence == pytest.approx(want.log_evidence, abs=1e-9)
    columns = ["mean", "sd", "lower", "upper"]
    ours, theirs = (posterior.coefficients().loc[NAMES, columns] for posterior in (found, want))
    assert ours.to_numpy() == pytest.approx(theirs.to_numpy(), rel=1e-7, abs=1e-9)


def test_z_is_beta_divided_by_se_and_the_default_slab_is_that_of_genotypes() -> None:
    problem = wv.from_summary(z=BETA / SE, R=LD, n=N)
    alone = wide_enough(wv.Problem(X, Y, slab=wv.IndependentNormal(0.01), model_prior=PRIOR))
    assert problem.slab == alone.slab
    assert problem.model_prior == PRIOR
    want = wv.exact(alone)
    assert wv.exact(problem).pip == pytest.approx(want.pip, abs=1e-10)


def test_covariates_count_as_people_less() -> None:
    age = RNG.normal(size=(N, 3))
    A = np.column_stack([np.ones(N), age])
    inner = np.eye(N) - A @ np.linalg.pinv(A)
    x, y = inner @ X, inner @ Y
    rho = (x.T @ y) / np.sqrt((x**2).sum(axis=0) * (y**2).sum())
    z = rho * np.sqrt((N - 5) / (1 - rho**2))
    problem = wv.from_summary(z=z, R=np.corrcoef(x.T), n=N - 3, slab=wv.GPrior(100))
    want = wv.exact(wv.Problem(X, Y, covariates=age, slab=wv.GPrior(100), model_prior=PRIOR))
    assert wv.exact(problem).pip == pytest.approx(want.pip, abs=1e-10)


def by_hand(z: np.ndarray, R: np.ndarray, variance: float, h: float) -> np.ndarray:
    """Inclusion probabilities if z ~ N(Rb, R) and b ~ N(0, variance) independently."""
    p, models, logs = len(z), [], []
    for bits in itertools.product((0, 1), repeat=p):
        chosen = np.flatnonzero(bits)
        K = R[np.ix_(chosen, chosen)]
        inner = K + np.eye(len(chosen)) / variance
        part = (
            0.5 * z[chosen] @ np.linalg.solve(inner, z[chosen]) - 0.5 * np.linalg.slogdet(variance * inner)[1]
        )
        models.append(bits)
        logs.append(part + sum(bits) * np.log(h) + (p - sum(bits)) * np.log(1 - h))
    weight = np.exp(np.array(logs) - max(logs))
    return weight @ np.array(models) / weight.sum()


@pytest.mark.parametrize("variance", [50.0, 3.0])
def test_without_n_the_noise_is_known(variance: float) -> None:
    z = BETA / SE
    slab = None if variance == 50 else wv.IndependentNormal(variance)
    problem = wv.from_summary(z=z, R=LD, slab=slab, model_prior=wv.FixedInclusion(0.2))
    assert wv.exact(problem).pip == pytest.approx(by_hand(z, LD, variance, 0.2), abs=1e-8)


def test_many_people_are_as_good_as_known_noise() -> None:
    n = 10**7
    ours = wv.from_summary(z=BETA / SE, R=LD, n=n, slab=wv.IndependentNormal(50 / n))
    without = wv.from_summary(z=BETA / SE, R=LD)
    assert wv.exact(ours).pip == pytest.approx(wv.exact(without).pip, abs=1e-4)


def test_series_and_frames_are_matched_by_name() -> None:
    frame, z = pd.DataFrame(LD, NAMES, NAMES), pd.Series(BETA / SE, NAMES)
    problem = wv.from_summary(z=z[::-1], R=frame, n=N)
    want = wv.from_summary(z=BETA / SE, R=LD, n=N, names=NAMES)
    assert problem.names == NAMES
    assert wv.exact(problem).pip == pytest.approx(wv.exact(want).pip, abs=1e-12)
    with pytest.raises(DataError, match="variants are in R but not in z, such as 'rs0'"):
        wv.from_summary(z=z.rename({"rs0": "rs99"}), R=frame, n=N)


@pytest.mark.parametrize("kind", [str, int])
def test_effects_and_errors_are_matched_by_name_even_if_r_has_no_names(kind: type) -> None:
    index = [kind(name[2:]) for name in NAMES]
    beta, se = pd.Series(BETA, index), pd.Series(SE, index)
    problem = wv.from_summary(beta=beta, se=se[::-1], R=LD, n=N)
    want = wv.from_summary(beta=BETA, se=SE, R=LD, n=N)
    # labels of rows that are numbers are no names of variants
    assert problem.names == (index if kind is str else want.names)
    ours, theirs = wv.exact(problem), wv.exact(want)
    assert ours.pip == pytest.approx(theirs.pip, abs=1e-12)
    assert ours.coefficients()["mean"].to_numpy() == pytest.approx(theirs.coefficients()["mean"].to_numpy(), abs=1e-12)  # fmt: skip


@pytest.mark.parametrize(("n", "z"), [(10, 1.5), (10**7, 400.0), (10**5, 400.0), (1000, 38.0)])
def test_few_and_very_many_people_and_strong_signals(n: int, z: float) -> None:
    r = ar(P, 0.8)[3] * z / np.sqrt(z**2 + n - 2)
    scores = r * np.sqrt((n - 2) / (1 - r**2))
    problem = wv.from_summary(z=scores, R=ar(P, 0.8), n=n)
    posterior = wv.exact(problem)
    assert np.isfinite(posterior.pip).all()
    assert posterior.pip.argmax() == 3
    assert (posterior.pip[3] > 0.99) == (z > 10)


def test_perfect_ld_shares_the_probability() -> None:
    copies = np.column_stack([X[:, :4], X[:, 2], -X[:, 2]])
    beta, se = simple_regressions(copies, Y)
    with pytest.warns(DataWarning, match="perfectly correlated"):
        problem = wv.from_summary(z=np.round(beta / se, 3), R=np.corrcoef(copies.T), n=N)
    with pytest.warns(DataWarning, match="perfectly correlated"):
        want = wv.exact(wv.Problem(copies, Y, slab=problem.slab, model_prior=PRIOR))
    assert wv.exact(problem).pip == pytest.approx(want.pip, abs=1e-3)


def test_more_variants_than_people_in_sample() -> None:
    rng = np.random.default_rng(1)
    wide = people(40, ar(60, 0.9), rng)
    y = wide[:, 7] + rng.normal(size=40)
    beta, se = simple_regressions(wide, y)
    slab, prior = wv.IndependentNormal(0.1), wv.BetaBinomial(size=1.0)
    for digits, tolerance in ((15, 1e-8), (4, 0.02)):
        z = np.round(beta / se, digits)
        problem = wv.from_summary(z=z, R=np.corrcoef(wide.T), n=40, slab=slab, model_prior=prior, max_size=2)
        want = wv.exact(wv.Problem(wide, y, slab=slab, model_prior=prior, max_size=2))
        assert wv.exact(problem).pip == pytest.approx(want.pip, abs=tolerance)


# --- LD of other people


def region(seed: int, n: int = 2000, p: int = 60) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
    """z-scores of a region with one strong effect, and LD of the same people."""
    rng = np.random.default_rng(seed)
    G = people(n, ar(p, 0.92), rng)
    y = 0.25 * G[:, p // 2] + rng.normal(size=n)
    beta, se = simple_regressions(G, y)
    return beta / se, np.corrcoef(G.T), rng


@pytest.mark.parametrize("seed", range(5))
def test_ld_of_the_same_people_is_left_alone(seed: int) -> None:
    z, R, _ = region(seed)
    check = wv.check_summary(z=z, R=R, n=2000)
    assert check.s == 0
    assert check.flipped == []


@pytest.mark.parametrize("seed", range(5))
def test_a_panel_of_other_people_is_regularised_by_a_stated_amount(seed: int) -> None:
    z, _, rng = region(seed)
    panel = np.corrcoef(people(40, ar(60, 0.92), rng).T)  # of rank 39
    with pytest.warns(DataWarning, match=r"R was replaced by \(1 - s\) R \+ s I with s = 0\.\d+"):
        problem = wv.from_summary(z=z, R=panel, n=2000)
    check = wv.check_summary(z=z, R=panel, n=2000)
    assert 0.01 < check.s < 0.4
    gram = problem.target(0).design.gram
    ratio = gram[0, 1] / gram[0, 0]
    assert ratio == pytest.approx((1 - check.s) * panel[0, 1], rel=1e-6)


def test_false_signals_that_strong_effects_and_a_small_panel_make_are_announced() -> None:
    rng = np.random.default_rng(6)
    G = people(20_000, ar(60, 0.92), rng)
    beta, se = simple_regressions(G, 0.4 * G[:, 30] + rng.normal(size=20_000))
    panel = np.corrcoef(people(300, ar(60, 0.92), rng).T)
    with pytest.warns(DataWarning, match=r"largest score is 5\d, .*scores of up to about three times 5\d/√m"):
        wv.from_summary(z=beta / se, R=panel, n=20_000)


def test_a_matrix_that_is_not_positive_semi_definite() -> None:
    R = np.array([[1, 0.9, -0.5], [0.9, 1, 0.5], [-0.5, 0.5, 1]])
    least = np.linalg.eigvalsh(R)[0]
    assert least < -0.1
    check = wv.check_summary(z=[1.0, 1.1, -0.2], R=R, n=500)
    assert check.least_eigenvalue == pytest.approx(least)
    assert (1 - check.s) * least + check.s >= 0
    with pytest.raises(DataError, match=r"not positive semi-definite: its smallest eigenvalue is -0\.288"):
        wv.from_summary(z=[1.0, 1.1, -0.2], R=R, n=500, regularise=0)


@pytest.mark.filterwarnings("ignore:R was replaced:whichvars.DataWarning")
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("of_a_panel", [False, True])
def test_planted_flips_are_named(seed: int, of_a_panel: bool) -> None:
    z, R, rng = region(seed)
    if of_a_panel:
        R = np.corrcoef(people(500, ar(60, 0.92), rng).T)
    strong = np.flatnonzero((np.abs(z) > 4) & ((np.abs(R) > 0.6).sum(axis=1) > 1))
    j = int(rng.choice(strong))
    z[j] = -z[j]
    with pytest.raises(DataError, match=f"sign of the z-score contradicts.*'x{j}'|signs of .*'x{j}'"):
        wv.from_summary(z=z, R=R, n=2000)
    with pytest.warns(DataWarning, match=f"'x{j}'"):
        wv.from_summary(z=z, R=R, n=2000, check="warn")
    assert len(wv.check_summary(z=z, R=R, n=2000).flipped) <= 2


@pytest.mark.parametrize("seed", range(5))
def test_wrong_signs_of_smaller_scores_are_named_with_ld_of_the_same_people(seed: int) -> None:
    z, R, rng = region(seed)
    j = int(rng.choice(np.flatnonzero((np.abs(z) > 1.5) & (np.abs(z) < 3.5))))
    z[j] = -z[j]
    with pytest.raises(DataError, match=f"contradicts R and the other z-scores: 'x{j}'"):
        wv.from_summary(z=z, R=R, n=2000)


def test_ld_of_other_people_must_contradict_small_scores_more_clearly() -> None:
    R = np.eye(9)
    R[0, 1] = R[1, 0] = 0.8
    z = np.array([-2.0, 3.0, *np.full(7, 0.1)])
    # the log likelihood ratio is 2 · 2 · 0.8 · 3/(1 − 0.8²) = 26.7
    assert _turn_round(z, np.linalg.inv(R), FLIP_RATIO) == [0]
    assert _turn_round(z, np.linalg.inv(R), CLEAR_RATIO) == []


@pytest.mark.parametrize("seed", range(5))
def test_small_scores_of_another_sign_than_a_small_panel_says_are_not_called_swapped(seed: int) -> None:
    z, _, rng = region(seed)
    panel = np.corrcoef(people(150, ar(60, 0.92), rng).T)
    assert wv.check_summary(z=z, R=panel, n=2000).flipped == []


@pytest.mark.parametrize("times", [0.4, 1.7])
def test_a_score_that_no_effect_explains_is_named(times: float) -> None:
    """The neighbours' correlations with it are so close that its effect would have to be many times as large as any."""
    rng = np.random.default_rng(8)
    G = people(2000, ar(60, 0.995), rng)
    beta, se = simple_regressions(G, 0.2 * G[:, 30] + rng.normal(size=2000))
    z, R = beta / se, np.corrcoef(G.T)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wv.from_summary(z=z, R=R, n=2000)
    z[25] *= times
    with pytest.warns(DataWarning, match="'x25'.* differs? much from what R and the other scores"):
        wv.from_summary(z=z, R=R, n=2000)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wv.from_summary(z=z, R=R, n=2000, check="none")


def test_a_causal_variant_without_a_proxy_does_not_contradict_the_others() -> None:
    rng = np.random.default_rng(9)
    G = people(2000, ar(60, 0.3), rng)
    beta, se = simple_regressions(G, 0.6 * G[:, 30] + rng.normal(size=2000))
    assert wv.check_summary(z=beta / se, R=np.corrcoef(G.T), n=2000).variants["verdict"]["x30"] == "outlier"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wv.from_summary(z=beta / se, R=np.corrcoef(G.T), n=2000)


def test_one_score_because_of_which_z_and_r_do_not_belong_together_is_named() -> None:
    z, R, _ = region(3)
    for wrong in ([20], [20, 41]):
        spoilt = z.copy()
        spoilt[wrong] = 400.0
        names = ", ".join(f"'x{j}'" for j in wrong)
        with pytest.raises(
            DataError,
            match=rf"contradict each other most at {names}.*: (is its score|are their scores) right",
        ):
            wv.from_summary(z=spoilt, R=R, n=2000)
    with pytest.raises(DataError, match="do not belong together") as error:
        wv.from_summary(z=z, R=R[::-1, ::-1] * np.where(np.arange(60) % 2, 1, -1) * np.where(np.arange(60) % 2, 1, -1)[:, None], n=2000)  # fmt: skip
    assert "most at" not in str(error.value)


def test_squares_of_correlations_are_noticed() -> None:
    rng = np.random.default_rng(4)
    G = people(500, ar(40, 0.6), rng)
    beta, se = simple_regressions(G, 0.3 * G[:, 20] + rng.normal(size=500))
    R = np.corrcoef(G.T)
    with pytest.warns(DataWarning, match="are these their squares"):
        wv.from_summary(z=beta / se, R=R**2, n=500)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wv.from_summary(z=beta / se, R=R, n=500)
    with warnings.catch_warnings():
        # small correlations that were left out are no squares
        warnings.filterwarnings("error", message="none of the")
        wv.from_summary(z=beta / se, R=np.where(np.abs(R) < 0.05, 0.0, np.abs(R)), n=500, check="warn")


@pytest.mark.filterwarnings("ignore::whichvars.DataWarning")
def test_scores_that_no_data_can_have_are_refused_without_the_check_too() -> None:
    z, R, _ = region(3)
    z[20] = 4000.0
    with pytest.raises(
        DataError, match="no n people can have these z, whatever R is: the largest, of 'x20', is 4e"
    ):
        wv.from_summary(z=z, R=R, n=2000, check="warn")


def test_several_flips_in_one_region_are_all_found() -> None:
    z, R, _ = region(11)
    strong = np.flatnonzero(np.abs(z) > 4)
    turned = z.copy()
    turned[strong[::5]] *= -1
    assert len(strong[::5]) >= 5
    assert set(wv.check_summary(z=turned, R=R, n=2000).flipped) == {f"x{j}" for j in strong[::5]}
    turned[strong[::3]] *= -1
    with pytest.raises(DataError, match=r"do not belong together|contradict"):
        wv.from_summary(z=turned, R=R, n=2000)


def test_scores_in_another_order_are_refused() -> None:
    z, R, rng = region(2)
    with pytest.raises(DataError, match=r"do not belong together|contradict"):
        wv.from_summary(z=rng.permutation(z), R=R, n=2000)


def test_the_check_of_flips_can_be_switched_off() -> None:
    z, R, _ = region(0)
    z[np.abs(z).argmax()] *= -1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wv.from_summary(z=z, R=R, n=2000, check="none")


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": ({}, "give z, or beta and se"),
    "both": ({"z": [1, 1], "beta": [1, 1], "se": [1, 1]}, "give z, or beta and se"),
    "no se": ({"beta": [1, 1]}, "give z, or beta and se"),
    "se of 0": ({"beta": [1, 1], "se": [1, 0]}, "se is 0 in row 1"),
    "all 0": ({"z": [0, 0.0]}, "all z are 0"),
    "NaN in z": ({"z": [1, np.nan]}, "z is missing .* row 1|z .*row 1"),
    "length": ({"z": [1, 2, 3]}, "z has 3 numbers but R has 2 variants"),
    "asymmetric": ({"z": [1, 1], "R": [[1, 0.5], [0.4, 1]]}, "R is not symmetric: 0.5 of 'x0' with 'x1', 0.4"),
    "triangle": ({"z": [1, 1], "R": [[1, 0.5], [0, 1]]}, "add its transpose"),
    "covariance": ({"z": [1, 1], "R": [[2, 0.5], [0.5, 1]]}, "the correlation of 'x0' with itself is 2"),
    "large": ({"z": [1, 1], "R": [[1, 1.5], [1.5, 1]]}, "is 1.5; it must lie"),
    "NaN in R": ({"z": [1, 1], "R": [[1, np.nan], [np.nan, 1]]}, "R.*x[01].*missing|R.*missing"),
    "no variance": (
        {"z": [1, 1, 1], "R": [[1, np.nan, 0.2], [np.nan, np.nan, np.nan], [0.2, np.nan, 1]], "names": ["a", "b", "c"]},
        r"R has no correlations of 1 variant \('b'\), probably because it does not vary",
    ),
    "not square": ({"z": [1, 1], "R": [[1, 0.5]]}, "square"),
    "names": ({"z": [1, 1], "names": ["a", "a"]}, "'a' more than once"),
    "NaN in z by name": ({"z": pd.Series([np.nan, 1], ["b", "a"]), "names": ["a", "b"]}, "z is missing .* of 'b', row 1 of R"),
    "se of 0 by name": ({"beta": pd.Series([1, 1], ["a", "b"]), "se": pd.Series([0, 1.0], ["b", "a"])}, "se is 0 of 'b', row 1 of R"),
    "n": ({"z": [1, 1], "n": 2}, "n must be a whole number of at least 3"),
    "fraction of n": ({"z": [1, 1], "n": 99.5}, "n must be a whole number, not 99.5; round it"),
    "n of each": ({"z": [1, 1], "n": [99, 98]}, "n must be one number for all variants"),
    "y_sd": ({"beta": [1, 1], "se": [1, 1], "y_sd": 0}, "y_sd must be a positive number.* not 0"),
    "slab": ({"z": [1, 1], "n": None, "slab": wv.GPrior("n")}, "without n the slab must be IndependentNormal"),
    "share": ({"z": [1, 1], "regularise": 2}, "between 0 and 1"),
    "check": ({"z": [1, 1], "check": "no"}, "check must be"),
    "impossible": ({"z": [400, 400], "R": np.eye(2), "n": 1000, "regularise": 0}, "more than all of the variance"),
}  # fmt: skip


@pytest.mark.parametrize("which", list(BAD))
def test_what_cannot_be_used_is_named(which: str) -> None:
    arguments, message = BAD[which]
    with pytest.raises(wv.WhichvarsError, match=message):
        wv.from_summary(**{"R": [[1, 0.5], [0.5, 1]], "n": 100, **arguments})


def test_scores_that_explain_too_much_are_refused_too() -> None:
    with pytest.raises(DataError, match=r"more than all of the variance of n people\. Is n right\?"):
        wv.from_summary(z=[400, 400], R=np.eye(2), n=1000)


def small_panel() -> tuple[np.ndarray, np.ndarray]:
    """z-scores of 200 variants in 100 people, and LD of 120 others."""
    rng = np.random.default_rng(5)
    G = people(100, ar(200, 0.8), rng)
    beta, se = simple_regressions(G, 0.5 * G[:, 40] + rng.normal(size=100))
    return beta / se, np.corrcoef(people(120, ar(200, 0.8), rng).T)


@pytest.mark.filterwarnings("ignore:R was replaced:whichvars.DataWarning")
@pytest.mark.parametrize("y_sd", [None, 3.0])
def test_with_a_small_panel_for_many_variants_the_noise_variance_counts_as_known(y_sd: float | None) -> None:
    """All variants together would explain more than all of the variance. The posterior is that of z ~ N(Rb, R)."""
    z, panel = small_panel()
    with pytest.warns(DataWarning, match=r"counts as known, .* multiply values of R² by [1-9]"):
        problem = wv.from_summary(z=z, R=panel, n=100, y_sd=y_sd, max_size=1)
    assert problem.noise == wv.KnownVariance(1.0 if y_sd is None else y_sd**2)
    s = wv.check_summary(z=z, R=panel, n=100).s
    assert 0.01 < s < 0.4
    mixed = (1 - s) * panel + s * np.eye(200)
    scores = z / np.sqrt(z**2 + 98) * np.sqrt(99)
    assert isinstance(problem.slab, wv.IndependentNormal)
    assert isinstance(problem.slab.g, float)
    slab = wv.IndependentNormal(problem.slab.g * 99)
    same = wv.from_summary(z=scores, R=mixed, slab=slab, regularise=0, max_size=1)
    ours, theirs = wv.exact(problem), wv.exact(same)
    assert ours.pip == pytest.approx(theirs.pip, abs=1e-7)
    effects = ours.coefficients()["mean"].drop("(Intercept)", errors="ignore") / (y_sd or 1.0)
    assert effects.to_numpy()[-200:] == pytest.approx(theirs.coefficients()["mean"].to_numpy()[-200:] / np.sqrt(99), rel=1e-5, abs=1e-9)  # fmt: skip
    # R² of all variants is R² as it is stated, times the factor that the warning names
    assert wv.from_summary(z=z, R=panel).p == 200


def test_slabs_for_an_unknown_noise_variance_still_need_a_larger_panel() -> None:
    z, panel = small_panel()
    with pytest.raises(DataError, match=r"R and n contradict each other.*use slab=IndependentNormal\(g\)"):
        wv.from_summary(z=z, R=panel, n=100, slab=wv.HyperG())


def test_a_wrong_n_is_not_taken_for_a_small_panel() -> None:
    """Eight variants without LD explain a fifth each if n is 30, and nothing much if n is 3000."""
    with pytest.raises(DataError, match=r"R and n contradict each other.*Is n right\?"):
        wv.from_summary(z=np.full(8, 2.7), R=np.eye(8), n=30)
    assert wv.from_summary(z=np.full(8, 2.7), R=np.eye(8), n=3000).noise == wv.Jeffreys()
