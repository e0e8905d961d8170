"""Mixtures of g-priors for responses that are not Gaussian: BAS's formula against closed forms, and integrals over g of the other ways to
the evidence against an oracle on a fine grid."""

import numpy as np
import pytest
from scipy import integrate, special, stats

import whichvars as wv
from support import family_oracle as oracle
from support.kernels import from_python
from whichvars._kernels import family_evidence
from whichvars._kernels import likelihood as kernels
from whichvars.errors import DataError
from whichvars.problem.fitting import answers
from whichvars.problem.mixtures import shrinkage_grid

log_mixture = from_python(family_evidence._log_mixture)
MODELS = [(), (0,), (1,), (2,), (0, 1), (0, 1, 2)]
MIXTURES = {
    "hyper-g": wv.HyperG(3.5),
    "hyper-g/n": wv.HyperGN(),
    "zellner-siow": wv.ZellnerSiow(),
    "cch": wv.CCH(1, 40, 2),
}


def log_prior(name, g, n):
    """log π(g)."""
    if name == "hyper-g":
        return np.log(1.5 / 2) - 1.75 * np.log1p(g)
    if name == "hyper-g/n":
        return np.log(1 / (2 * n)) - 1.5 * np.log1p(g / n)
    if name == "zellner-siow":
        return stats.invgamma.logpdf(g, 0.5, scale=n / 2)
    u = 1 / (1 + g)
    constant = integrate.quad(lambda t: t**-0.5 * (1 - t) ** 19 * np.exp(-t), 0, 1)[0]
    return -0.5 * np.log(u) + 19 * np.log1p(-u) - u - np.log(constant) + 2 * np.log(u)


def listed(models):
    members = np.array([j for m in models for j in m], np.int32)
    return members, np.concatenate([[0], np.cumsum([len(m) for m in models])]).astype(np.int64)


def log_marginals(problem, models=MODELS):
    return answers(problem, *listed(models))[0][:, kernels.LOG_MARGINAL]


@pytest.mark.parametrize("k", [1, 4, 15])
@pytest.mark.parametrize("fit", [0.0, 0.7, 30.0, 5e3, 1e6])
@pytest.mark.parametrize(("a", "b", "s"), [(1, 2, 0), (1, 266, 0), (0.5, 1, 3), (4, 10, -6)])
def test_closed_form(k, fit, a, b, s):
    """B((a + k)/2, b/2) ₁F₁((a + k)/2, (a + b + k)/2, −(s + Q)/2), over the same with k = Q = 0; for large Q its asymptotic form."""

    def log_integral(a, tilt):
        if tilt > 500:
            return special.gammaln(a) - a * np.log(tilt) + np.log1p(-a * (b / 2 - 1) / tilt)
        return special.betaln(a, b / 2) + np.log(special.hyp1f1(b / 2, a + b / 2, tilt)) - tilt

    expected = log_integral((a + k) / 2, (s + fit) / 2) - log_integral(a / 2, s / 2)
    value = log_mixture(shrinkage_grid(wv.CCH(a, b, s), 100), k, fit)
    rest = (k + a) ** 2 * b**2 / (s + fit) ** 2 if fit > 900 else 0  # of the asymptotic form
    assert value == pytest.approx(expected, rel=1e-9, abs=1e-8 + rest)


def test_hyper_g_is_a_cch():
    one, other = (shrinkage_grid(slab, 100) for slab in (wv.HyperG(3.0), wv.CCH(1, 2)))
    np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", MIXTURES)
def test_prior_densities(name):
    grid = shrinkage_grid(MIXTURES[name], 70)
    inside = (grid[:, 0] > -8) & (grid[:, 0] < 12)
    x = grid[inside, 0]
    np.testing.assert_allclose(grid[inside, 1], log_prior(name, np.exp(x), 70) + x, rtol=0, atol=1e-8)


@pytest.mark.parametrize("name", MIXTURES)
@pytest.mark.parametrize("evidence", ["laplace", "second-order", "bas"])
def test_against_the_oracle_on_a_grid(name, evidence):
    X, y = oracle.simulate("logistic", 70, 3, 8)
    problem = wv.Problem(X, y, family="logistic", slab=MIXTURES[name], evidence=evidence)
    x = np.arange(-14, 24, 0.5)
    table = []
    for value in x:
        data = oracle.Data("logistic", X, y, ("g", float(np.exp(value))), evidence=evidence)
        weight = log_prior(name, np.exp(value), 70) + value + np.log(0.5)
        table.append([oracle.log_marginal(data, m) + weight for m in MODELS[1:]])
    null = oracle.log_marginal(data, ())
    truth = special.logsumexp(table, axis=0) - null
    tolerance = (
        1e-6 if evidence == "bas" else 5e-4
    )  # the rule ends where the integrand is e^−10 of its maximum
    np.testing.assert_allclose(log_marginals(problem)[1:], truth, rtol=0, atol=tolerance)


def test_importance_sampling_agrees():
    X, y = oracle.simulate("logistic", 70, 3, 8)
    tables = {
        how: answers(wv.Problem(X, y, family="logistic", slab=wv.HyperGN(), evidence=how), *listed(MODELS))[0]
        for how in ("auto", "importance")
    }
    noise = np.hypot(
        tables["importance"][:, kernels.SAMPLING_ERROR], tables["importance"][0, kernels.SAMPLING_ERROR]
    )
    gap = np.abs(tables["auto"] - tables["importance"])[:, kernels.LOG_MARGINAL]
    assert (noise > 0).all()
    assert (gap < 0.01 + 4 * noise).all()


def test_local_empirical_bayes_does_not_overrate_models_that_explain_nothing():
    """Where Q < k BAS takes the unpenalised maximum: on noise its inclusion probabilities are .6."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = (rng.random(60) < 0.5).astype(float)
    problem = wv.Problem(
        X,
        y,
        family="logistic",
        slab=wv.LocalEmpiricalBayes(),
        evidence="bas",
        model_prior=wv.BetaBinomial(1, 1),
    )
    for model, value in zip(MODELS[1:], log_marginals(problem)[1:]):
        k = len(model)
        g = np.exp(np.linspace(-20, 12, 3000))
        best = -np.inf
        for value_of_g in g[::100]:
            data = oracle.Data("logistic", X, y, ("g", float(value_of_g)), evidence="bas")
            best = max(best, oracle.log_marginal(data, model) - oracle.log_marginal(data, ()))
        assert best - 1e-6 <= value <= best + 0.1 * k
    assert wv.exact(problem, progress=False).pip.max() < 0.55


def test_coefficients_are_averages_over_g():
    X, y = oracle.simulate("logistic", 60, 1, 4)
    posterior = wv.exact(
        wv.Problem(
            X,
            y,
            family="logistic",
            slab=wv.HyperGN(),
            evidence="laplace",
            model_prior=wv.FixedInclusion(0.999),
        ),
        progress=False,
    )
    x = np.arange(-6, 18, 0.2)
    log, mean, square = [], [], []
    for value in x:
        data = oracle.Data("logistic", X, y, ("g", float(np.exp(value))), evidence="laplace")
        log.append(oracle.log_marginal(data, (0,)) + log_prior("hyper-g/n", np.exp(value), 60) + value)
        J, P = data.model([0])
        theta = oracle.mode(data, J, P)
        V = np.linalg.inv((J * -data.derivatives(J @ theta)[2][:, None]).T @ J + P)
        mean.append(theta[1])
        square.append(V[1, 1] + theta[1] ** 2)
    share = special.softmax(log)
    spread, found = X.std(ddof=1), posterior.coefficients(interval=None).iloc[1]
    assert found["mean_included"] == pytest.approx(share @ mean / spread, rel=5e-4)
    variance = share @ square - (share @ mean) ** 2
    assert found["sd_included"] == pytest.approx(np.sqrt(variance) / spread, rel=2e-3)


@pytest.mark.parametrize("slab", [wv.GPrior(7.0), wv.CCH(2, 5), wv.LocalEmpiricalBayes()])
def test_coefficients_under_the_formula_of_bas(slab):
    """At the maximum of the likelihood, shrunk by E[g/(1 + g)]; columns centred in the metric of the information there."""
    X, y = oracle.simulate("logistic", 60, 2, 4)
    problem = wv.Problem(
        X, y, family="logistic", slab=slab, evidence="bas", model_prior=wv.FixedInclusion(0.9999)
    )
    posterior = wv.exact(problem, progress=False)
    data = oracle.Data("logistic", X, y, ("g", 1.0), evidence="bas")
    J = np.column_stack([np.ones(60), X])
    theta = oracle.mode(data, J, np.zeros((3, 3)))
    W = -data.derivatives(J @ theta)[2]
    centred = X - W @ X / W.sum()
    S, level = np.linalg.inv((centred * W[:, None]).T @ centred), theta[0] + W @ X / W.sum() @ theta[1:]
    fit = theta[1:] @ np.linalg.solve(S, theta[1:])
    if isinstance(slab, wv.GPrior):
        draws = np.array([7 / 8])
        weight = np.ones(1)
    elif isinstance(slab, wv.LocalEmpiricalBayes):
        draws, weight = np.array([1 - 2 / fit]), np.ones(1)
    else:
        u = (np.arange(20000) + 0.5) / 20000
        weight = u * (u ** (2 / 2 - 1)) * (1 - u) ** 1.5 * np.exp(-fit * u / 2)
        draws, weight = 1 - u, weight / weight.sum()
    mean, square = weight @ draws, weight @ draws**2
    covariance = mean * S + (square - mean**2) * np.outer(theta[1:], theta[1:])
    new = np.array([[0.3, -0.7], [2.0, 1.0]])
    lines = new - W @ X / W.sum()
    link, std = posterior.predict(new, kind="link", return_std=True)
    np.testing.assert_allclose(link, level + mean * lines @ theta[1:], rtol=1e-3)
    variance = 1 / W.sum() + np.einsum("ra,ab,rb->r", lines, covariance, lines)
    np.testing.assert_allclose(std, np.sqrt(variance), rtol=1e-3)
    assert "x0" in repr(posterior)


def test_refused_by_name():
    X, y = oracle.simulate("poisson", 40, 3, 4)
    for arguments, words in (
        ({"slab": wv.LocalEmpiricalBayes()}, r'LocalEmpiricalBayes\(\) is available for family=Poisson\(\) with evidence="bas" alone'),
        ({"slab": wv.HyperG(), "family": "negative-binomial"}, r"HyperG\(a=3.0\) and an unknown dispersion cannot both"),
        ({"evidence": "bas"}, r"for g-priors, their mixtures and BIC; with slab=IndependentNormal\(g=1.0\)"),
    ):  # fmt: skip
        with pytest.raises(DataError, match=words):
            wv.Problem(
                X,
                y + np.linspace(0, 1, 40) if "gaussian" in arguments.values() else y,
                **{"family": "poisson"} | arguments,
            )
    with pytest.raises(DataError, match="CCH: b must lie between"):
        wv.CCH(1, 0.01)


def test_samplers_see_the_same_function():
    X, y = oracle.simulate("poisson", 40, 4, 4)
    problem = wv.Problem(X, y, family="poisson", slab=wv.ZellnerSiow())
    truth = wv.exact(problem, progress=False)
    sampled = wv.sample(problem, wv.AddDeleteSwap(), draws=4000, seed=1, progress=False)
    assert (np.abs(sampled.pip - truth.pip) < 5 * np.nan_to_num(sampled.mcse) + 1e-3).all()
    assert "Zellner–Siow prior. The g-prior had the expected information of the null model" in truth.methods()
