"""US crime under the priors that R's packages BAS and BayesVarSel have too: the numbers that these print in their documentation, and formulas of the
literature written out for all 32,768 models.

BAS: its vignette and the page of ``summary.bas`` (logged data, as ours). BayesVarSel: the code that accompanies Garcia-Donato and Forte (2018), The R
Journal 10, 155–174 (data as they are).
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import betaln, gammaln, hyp2f1, logsumexp

import whichvars as wv

NAMES = ["M", "So", "Ed", "Po1", "Po2", "LF", "M.F", "Pop", "NW", "U1", "U2", "GDP", "Ineq", "Prob", "Time"]
UNIFORM = wv.FixedInclusion(h=0.5)


def numbers(text: str) -> np.ndarray:
    return np.array(text.split(), float)


def exact(slab: Any, prior: Any = UNIFORM, log: bool = True, **arguments: Any) -> wv.Posterior:
    data = wv.datasets.load_uscrime(log=log)
    assert list(data.X.columns) == NAMES
    return wv.exact(wv.Problem(data.X, data.y, slab=slab, model_prior=prior, **arguments), progress=False)


def best_models(posterior: wv.Posterior, n: int) -> list[str]:
    return [" ".join(text.split(", ")) for text in posterior.top_models(n)["variables"]]


# --- numbers that were printed


def test_zellner_siow_of_bas() -> None:
    """BAS's ``prior="ZS-null"`` replaces the integral over g by Laplace's approximation in g. This changes log marginal likelihoods by .2, inclusion
    probabilities by up to .006, and models that are chosen not at all. With the approximation in place of the integral, its numbers come out."""
    printed = numbers(
        ".8535720 .2737083 .9746605 .6651553 .4490097 .2022374 .2049659 .3696150 .6944069 .2525834 .6149388 .3601179 .9965359 .8991841 .3717976"
    )
    approximate = laplace_of_zellner_siow()
    np.testing.assert_allclose(inclusion(approximate), printed, rtol=0, atol=2e-6)
    np.testing.assert_allclose(
        np.sort(approximate)[::-1][:5],
        numbers("23.65111 23.5909572 23.2000822 23.130999 23.0164741"),
        rtol=0,
        atol=6e-6,
    )
    posterior = exact(wv.ZellnerSiow())
    np.testing.assert_allclose(posterior.pip, printed, rtol=0, atol=0.007)
    assert best_models(posterior, 5) == [
        "M Ed Po1 NW U2 Ineq Prob Time",
        "M Ed Po1 NW U2 Ineq Prob",
        "M Ed Po2 NW U2 Ineq Prob",
        "M Ed Po1 Pop NW U2 Ineq Prob",
        "M Ed Po1 U2 Ineq Prob",
    ]
    assert " ".join(posterior.which_model("HPM")) == "M Ed Po1 NW U2 Ineq Prob Time"
    assert " ".join(posterior.which_model("MPM")) == "M Ed Po1 NW U2 Ineq Prob"
    assert " ".join(posterior.which_model("BPM")) == "M So Ed Po1 Po2 M.F NW U2 Ineq Prob"


def test_bic_of_bas() -> None:
    posterior = exact(wv.BIC(), wv.BetaBinomial(1, 1))
    printed = numbers(
        ".9335117 .3276563 .9910219 .7246635 .4602481 .2935326 .3298168 .4962869 .8346412 .3481266 .7752102 .5253694 .9992058 .9541470 .5432686"
    )
    np.testing.assert_allclose(posterior.pip, printed, rtol=0, atol=6e-8)
    np.testing.assert_allclose(
        posterior.models.frequency[:5], numbers(".0191 .0156 .0145 .0133 .0099"), rtol=0, atol=5.1e-5
    )
    differences = posterior.models.log_marginal[:5] - posterior.models.log_marginal[0]
    printed = numbers("-22.15855 -31.13150 -22.43176 -22.76890 -22.81186")
    np.testing.assert_allclose(differences, printed - printed[0], rtol=0, atol=2e-5)


def test_robust_prior_of_bayesvarsel() -> None:
    """The page of ``histBMA`` has the probability that M is out, and that of ``Jointness`` the pair of Ineq and Prob."""
    posterior = exact(wv.Robust(), wv.BetaBinomial(1, 1), log=False)
    assert 1 - posterior.pip[0] == pytest.approx(0.2954968, abs=4e-7)
    pair = posterior.jointness("Ineq", "Prob")
    assert pair[["both", "jointness", "jointness_odds"]].round(2).tolist() == [0.65, 0.66, 1.95]


def test_robust_prior_with_other_model_probabilities() -> None:
    posterior = exact(wv.Robust(), wv.FixedInclusion(h=0.25), log=False)
    probabilities = numbers(
        ".06773093 .03790366 .03631971 .03345791 .02128005 .01891988 .01838720 .01671574 .01296033 .01251800"
    )
    np.testing.assert_allclose(posterior.models.frequency[:10], probabilities, rtol=2e-6)
    assert best_models(posterior, 2) == ["Ed Po1 Ineq", "M Ed Po1 Ineq"]


# --- formulas


@cache
def all_models() -> tuple[np.ndarray, np.ndarray, int]:
    """Which variables are in each model, (32768, 15), its R², and n, by least squares."""
    X, y = (part.to_numpy(float) for part in wv.datasets.load_uscrime()[:2])
    X, y = X - X.mean(axis=0), y - y.mean()
    inside = (np.arange(1 << 15)[:, None] >> np.arange(15)) & 1 == 1
    r2 = np.zeros(len(inside))
    for k in range(1, 16):
        rows = np.flatnonzero(inside.sum(axis=1) == k)
        columns = np.nonzero(inside[rows])[1].reshape(-1, k)
        Q = np.linalg.qr(X.T[columns].transpose(0, 2, 1))[0]
        r2[rows] = ((y @ Q) ** 2).sum(axis=1) / (y @ y)
    return inside, r2, len(y)


def log_bayes_factor(g: Any) -> np.ndarray:
    """Of all models to the null model, (32768,), with Zellner's g-prior (Liang et al. 2008, equation 6)."""
    inside, r2, n = all_models()
    return (n - 1 - inside.sum(axis=1)) / 2 * np.log1p(g) - (n - 1) / 2 * np.log1p(g * (1 - r2))


def integrated(log_density: Callable[[float], float]) -> np.ndarray:
    """The log of the mean Bayes factor under a density of g, by the trapezoidal rule in log g."""
    t = np.linspace(-10.0, 60.0, 350)
    most = np.max([log_bayes_factor(np.exp(x)) for x in t[::10]], axis=0)
    total = sum(np.exp(log_bayes_factor(np.exp(x)) - most + log_density(np.exp(x)) + x) for x in t)
    out = most + np.log(total * (t[1] - t[0]))
    out[0] = 0.0  # the null model has no g
    return out


def hyper_g(a: float) -> np.ndarray:
    """Liang et al. (2008), equation 17."""
    inside, r2, n = all_models()
    k = inside.sum(axis=1)
    return np.log((a - 2) / (k + a - 2) * hyp2f1((n - 1) / 2, 1, (k + a) / 2, r2))


def hyper_g_n(a: float) -> np.ndarray:
    n = all_models()[2]
    return integrated(lambda g: np.log((a - 2) / (2 * n)) - a / 2 * np.log1p(g / n))


def zellner_siow() -> np.ndarray:
    n = all_models()[2]
    return integrated(lambda g: 0.5 * np.log(n / 2) - gammaln(0.5) - 1.5 * np.log(g) - n / (2 * g))


def laplace_of_zellner_siow() -> np.ndarray:
    """Laplace's approximation of the same integral, in g itself, at the mode of the integrand."""
    inside, r2, n = all_models()
    k, q = inside.sum(axis=1), 1 - r2
    t = np.zeros(len(k))  # log g

    def slopes(g: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        first = (n - 1 - k) / 2 / (1 + g) - (n - 1) / 2 * q / (1 + g * q) - 1.5 / g + n / (2 * g**2)
        second = (
            -(n - 1 - k) / 2 / (1 + g) ** 2 + (n - 1) / 2 * (q / (1 + g * q)) ** 2 + 1.5 / g**2 - n / g**3
        )
        return first, second

    low, high = np.full(len(k), -5.0), np.full(len(k), 12.0)
    for _ in range(60):  # the derivative changes its sign once
        t = (low + high) / 2
        rises = slopes(np.exp(t))[0] > 0
        low, high = np.where(rises, t, low), np.where(rises, high, t)
    g = np.exp(t)
    log_density = 0.5 * np.log(n / 2) - gammaln(0.5) - 1.5 * np.log(g) - n / (2 * g)
    out = log_bayes_factor(g) + log_density + 0.5 * np.log(2 * np.pi / -slopes(g)[1])
    out[0] = 0.0
    return out


def local_empirical_bayes() -> np.ndarray:
    inside, r2, n = all_models()
    k = inside.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        F = (r2 / k) / ((1 - r2) / (n - 1 - k))
    return log_bayes_factor(np.where(k > 0, np.maximum(F - 1, 0), 0.0))


def global_empirical_bayes() -> np.ndarray:
    """With the g that maximises the marginal likelihood under a uniform prior on models."""
    found = minimize_scalar(
        lambda x: -logsumexp(log_bayes_factor(np.exp(x))),
        bounds=(0, 10),
        method="bounded",
        options={"xatol": 1e-10},
    )
    return log_bayes_factor(np.exp(found.x))


def bic() -> np.ndarray:
    inside, r2, n = all_models()
    return -0.5 * (n * np.log1p(-r2) + inside.sum(axis=1) * np.log(n))


SLABS: dict[str, tuple[Any, Callable[[], np.ndarray]]] = {
    "g-prior": (wv.GPrior(47), lambda: log_bayes_factor(47.0)),
    "unit information": (wv.GPrior("n"), lambda: log_bayes_factor(47.0)),
    "BRIC": (wv.GPrior("bric"), lambda: log_bayes_factor(225.0)),
    "hyper-g": (wv.HyperG(3), lambda: hyper_g(3)),
    "hyper-g, a = 4": (wv.HyperG(4), lambda: hyper_g(4)),
    "hyper-g/n": (wv.HyperGN(3), lambda: hyper_g_n(3)),
    "JZS": (wv.ZellnerSiow(), zellner_siow),
    "EB-local": (wv.LocalEmpiricalBayes(), local_empirical_bayes),
    "BIC": (wv.BIC(), bic),
}  # fmt: skip


@cache
def log_bayes_factors(slab: str) -> np.ndarray:
    return SLABS[slab][1]()


def choose(p: int, k: Any) -> Any:
    return gammaln(p + 1) - gammaln(k + 1) - gammaln(p - k + 1)


# log prior probabilities by size, up to a constant
MODEL_PRIORS: dict[str, tuple[Any, int | None, Callable[[np.ndarray], np.ndarray]]] = {
    "uniform()": (UNIFORM, None, lambda k: 0.0 * k),
    "Bernoulli(.2)": (wv.FixedInclusion(h=0.2), None, lambda k: k * np.log(0.25)),
    "beta.binomial(1, 1)": (wv.BetaBinomial(1, 1), None, lambda k: betaln(1 + k, 16 - k)),
    "beta.binomial(1, 4)": (wv.BetaBinomial(1, 4), None, lambda k: betaln(1 + k, 19 - k)),
    "tr.beta.binomial(1, 1, 8)": (wv.BetaBinomial(1, 1), 8, lambda k: np.where(k <= 8, betaln(1 + k, 16 - k), -np.inf)),
    "complexity": (wv.Complexity(), None, lambda k: -k * np.log(15.0) - choose(15, k)),
    "tr.poisson(4, 7)": (
        wv.PoissonSize(4), 7, lambda k: np.where(k <= 7, k * np.log(4.0) - gammaln(k + 1) - choose(15, k), -np.inf),
    ),
}  # fmt: skip


def inclusion(log_posterior: np.ndarray) -> np.ndarray:
    weight = np.exp(log_posterior - logsumexp(log_posterior))
    return weight @ all_models()[0]


@pytest.mark.parametrize("slab", SLABS)
@pytest.mark.parametrize("prior", MODEL_PRIORS)
def test_priors_of_bas(slab: str, prior: str) -> None:
    ours = SLABS[slab][0]
    model_prior, max_size, by_size = MODEL_PRIORS[prior]
    posterior = exact(ours, model_prior, max_size=max_size)
    k = all_models()[0].sum(axis=1)
    np.testing.assert_allclose(
        posterior.pip, inclusion(log_bayes_factors(slab) + by_size(k)), rtol=0, atol=2e-7
    )


def test_global_empirical_bayes() -> None:
    problem = exact(wv.GPrior(47)).problem
    slab = wv.global_empirical_bayes(problem)
    posterior = wv.exact(problem.with_priors(slab=slab), progress=False)
    np.testing.assert_allclose(posterior.pip, inclusion(global_empirical_bayes()), rtol=0, atol=1e-4)
