"""The oracle against facts that can be derived by hand or by a second, cruder computation."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest
import scipy.integrate
import scipy.linalg
import scipy.special
import scipy.stats

from support.oracle import (
    KINDS,
    MIXTURES,
    OracleSlab,
    all_masks,
    enumerate_posterior,
    log_marginal,
    log_model_prior,
)


def make_slab(kind: str) -> OracleSlab:
    return OracleSlab(kind, g=7.5 if kind in ("independent", "g") else None)


R2_KINDS = [kind for kind in KINDS if kind not in ("independent", "unknown-g")]


class Problem:
    """Correlated columns, two more always in, weights of which two are zero, and a group of two columns."""

    def __init__(self, seed: int = 3, n: int = 23, p: int = 5) -> None:
        rng = np.random.default_rng(seed)
        self.X = rng.normal(size=(n, p)) @ (np.eye(p) + 0.4) + rng.normal(size=p)
        self.Z = rng.normal(size=(n, 2)) + 0.3 * self.X[:, :2]
        self.y = 5.0 + 0.7 * self.X[:, 0] - 0.5 * self.X[:, 3] + self.Z[:, 0] + rng.normal(size=n)
        self.w = rng.uniform(0.3, 2.0, size=n)
        self.w[[2, 11]] = 0.0
        self.groups = [[0], [1, 2], [3], [4]]

    @property
    def options(self) -> dict:
        return {"Z": self.Z, "weights": self.w, "groups": self.groups, "scale": "none"}

    def kept(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        keep = self.w > 0
        base = np.column_stack([np.ones(keep.sum()), self.Z[keep]])
        return self.X[keep], self.y[keep], base, self.w[keep]


def reml_log_bf(
    X: np.ndarray,
    covariance: np.ndarray,
    y: np.ndarray,
    base: np.ndarray,
    w: np.ndarray,
    ig: tuple[float, float],
) -> float:
    """Log BF from the n by n covariance of the data, the flat part out by generalised least squares."""

    def log_m(V: np.ndarray) -> float:
        Vi = np.linalg.inv(V)
        information = base.T @ Vi @ base
        P = Vi - Vi @ base @ np.linalg.solve(information, base.T @ Vi)
        nu = y.size - base.shape[1]
        return (
            -0.5 * np.linalg.slogdet(V)[1]
            - 0.5 * np.linalg.slogdet(information)[1]
            - (nu / 2 + ig[0]) * np.log(y @ P @ y + 2 * ig[1])
        )

    return log_m(np.diag(1 / w) + X @ covariance @ X.T) - log_m(np.diag(1 / w))


@pytest.fixture
def problem() -> Problem:
    return Problem()


@pytest.mark.parametrize("kind", KINDS)
def test_null_model_is_zero(problem: Problem, kind: str) -> None:
    assert log_marginal(problem.X, problem.y, (), make_slab(kind), **problem.options) == pytest.approx(
        0.0, abs=1e-14
    )


@pytest.mark.parametrize("ig", [None, (1.5, 0.8)])
@pytest.mark.parametrize("variables", [(0,), (1,), (0, 2), (3, 1, 0), (0, 1, 2, 3)])
def test_independent_against_generalised_least_squares(
    problem: Problem, variables: tuple[int, ...], ig: tuple[float, float] | None
) -> None:
    g = np.array([3.0, 0.5, 40.0, 1.0])
    columns = [c for v in variables for c in problem.groups[v]]
    diagonal = [g[v] for v in variables for _ in problem.groups[v]]
    X, y, base, w = problem.kept()
    expected = reml_log_bf(X[:, columns], np.diag(diagonal), y, base, w, ig or (0.0, 0.0))
    slab = OracleSlab("independent", g=g)
    found = log_marginal(problem.X, problem.y, variables, slab, inverse_gamma=ig, **problem.options)
    assert found == pytest.approx(expected, abs=1e-9)


def test_independent_against_multivariate_t(problem: Problem) -> None:
    a0, b0, g = 1.5, 0.8, 9.0
    X, y, base, w = problem.kept()
    root = np.sqrt(w)[:, None]
    Q = scipy.linalg.null_space((root * base).T)
    A, e = Q.T @ (root * X[:, [0, 3]]), Q.T @ (root[:, 0] * y)
    V = np.eye(e.size) + g * A @ A.T

    def log_t(shape: np.ndarray) -> float:
        return float(scipy.stats.multivariate_t(shape=shape, df=2 * a0).logpdf(e))

    expected = log_t(b0 / a0 * V) - log_t(b0 / a0 * np.eye(e.size))
    slab = OracleSlab("independent", g=g)
    found = log_marginal(
        problem.X, problem.y, (0, 2), slab, inverse_gamma=(a0, b0), **problem.options
    )  # variable 2 is column 3
    assert found == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(("kind", "a0", "b0"), [("independent", 0, 0), ("independent", 2, 1), ("g", 2, 1)])
def test_one_column_against_integration_over_everything(kind: str, a0: float, b0: float) -> None:
    """The intercept, the slope and the variance on a grid: the weights and ν have nowhere to hide."""
    rng = np.random.default_rng(8)
    n, g = 7, 2.0
    x, w = rng.normal(size=n), rng.uniform(0.5, 2, size=n)
    y = 1 + 0.8 * x + rng.normal(size=n)
    centred_ss = w @ (x - w @ x / w.sum()) ** 2
    slope_variance = g if kind == "independent" else g / centred_ss

    t = np.linspace(-12, 12, 97)
    log_sd = np.linspace(-5, 10, 301)[:, None, None]
    sd = np.exp(log_sd)

    def log_integral(slope: bool) -> float:
        # Around the fit, in units of sd; the prior of log sd is the density of σ² times σ².
        design = np.column_stack([np.ones(n), x])[:, : 1 + slope]
        at = np.linalg.lstsq(design * np.sqrt(w)[:, None], y * np.sqrt(w), rcond=None)[0]
        u = t[:, None]
        v = t[None, :] if slope else np.zeros((1, 1))
        alpha, beta = at[0] + sd * u, (at[1] if slope else 0.0) + sd * v
        log_f = -2 * a0 * log_sd - b0 / sd**2 - n * log_sd + log_sd  # last term: Jacobian of u
        for xi, yi, wi in zip(x, y, w):
            log_f = log_f - 0.5 * wi * ((yi - alpha - beta * xi) / sd) ** 2
        if slope:
            log_f = (
                log_f - 0.5 * np.log(2 * np.pi * slope_variance) - 0.5 * beta**2 / (slope_variance * sd**2)
            )
        return float(scipy.special.logsumexp(log_f) + (1 + slope) * np.log(t[1] - t[0]))

    expected = log_integral(True) - log_integral(False)
    found = log_marginal(
        x[:, None],
        y,
        (0,),
        OracleSlab(kind, g=g),
        weights=w,
        scale="none",
        inverse_gamma=(a0, b0) if a0 else None,
    )
    assert found == pytest.approx(expected, abs=1e-7)


def test_independent_with_more_columns_than_rows() -> None:
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(6, 9)), rng.normal(size=6)
    found = log_marginal(X, y, range(9), OracleSlab("independent", g=4.0), scale="none")
    expected = reml_log_bf(X, 4.0 * np.eye(9), y, np.ones((6, 1)), np.ones(6), (0.0, 0.0))
    assert found == pytest.approx(expected, abs=1e-9)


def test_independent_duplicate_columns_act_as_one_with_twice_the_variance() -> None:
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(12, 1)), rng.normal(size=12)
    twice = log_marginal(X[:, [0, 0]], y, (0, 1), OracleSlab("independent", g=3.0))
    once = log_marginal(X, y, (0,), OracleSlab("independent", g=6.0))
    assert twice == pytest.approx(once, abs=1e-11)


@pytest.mark.parametrize("ig", [None, (1.5, 0.8)])
@pytest.mark.parametrize("variables", [(0,), (1,), (0, 2), (3, 1, 0)])
def test_g_prior_against_generalised_least_squares(
    problem: Problem, variables: tuple[int, ...], ig: tuple[float, float] | None
) -> None:
    columns = [c for v in variables for c in problem.groups[v]]
    X, y, base, w = problem.kept()
    root = np.sqrt(w)[:, None]
    Q = scipy.linalg.null_space((root * base).T)
    A = Q.T @ (root * X[:, columns])
    expected = reml_log_bf(X[:, columns], 7.5 * np.linalg.inv(A.T @ A), y, base, w, ig or (0.0, 0.0))
    found = log_marginal(
        problem.X, problem.y, variables, OracleSlab("g", 7.5), inverse_gamma=ig, **problem.options
    )
    assert found == pytest.approx(expected, abs=1e-9)


def test_closed_forms_from_the_correlation() -> None:
    rng = np.random.default_rng(5)
    n = 19
    x = rng.normal(size=n)
    y = 0.6 * x + rng.normal(size=n)
    r2, nu = np.corrcoef(x, y)[0, 1] ** 2, n - 1

    def log_bf(g: float) -> float:
        return (nu - 1) / 2 * np.log1p(g) - nu / 2 * np.log1p(g * (1 - r2))

    def found(slab: OracleSlab) -> float:
        return log_marginal(x[:, None], y, (0,), slab)

    assert found(OracleSlab("g", g=11.0)) == pytest.approx(log_bf(11.0), abs=1e-11)
    f = r2 / ((1 - r2) / (nu - 1))
    assert f > 1
    assert found(OracleSlab("eb-local")) == pytest.approx(log_bf(f - 1), abs=1e-11)
    assert found(OracleSlab("bic")) == pytest.approx(-n / 2 * np.log(1 - r2) - 0.5 * np.log(n), abs=1e-11)


@pytest.mark.parametrize("ig", [None, (1.5, 0.8)])
def test_local_empirical_bayes_is_the_largest_on_a_grid(
    problem: Problem, ig: tuple[float, float] | None
) -> None:
    def value(slab: OracleSlab, variables: tuple[int, ...]) -> float:
        return log_marginal(problem.X, problem.y, variables, slab, inverse_gamma=ig, **problem.options)

    at_zero = 0
    for variables in [(0,), (1,), (3,), (0, 2), (1, 3), (0, 1, 2)]:
        best = value(OracleSlab("eb-local"), variables)
        grid = [value(OracleSlab("g", g=g), variables) for g in np.geomspace(1e-3, 1e3, 200)]
        assert max(grid) <= best + 1e-12
        assert best == pytest.approx(max(max(grid), 0.0), abs=1e-3)
        at_zero += best == 0.0
    assert 0 < at_zero < 6


def mixing_density(kind: str, g: float, n: int, a: float) -> float:
    if kind == "hyper-g":
        return (a - 2) / 2 * (1 + g) ** (-a / 2)
    if kind == "hyper-g/n":
        return (a - 2) / (2 * n) * (1 + g / n) ** (-a / 2)
    return float(scipy.stats.invgamma(0.5, scale=n / 2).pdf(g))


@pytest.mark.parametrize("ig", [None, (1.5, 0.8)])
@pytest.mark.parametrize(
    ("kind", "a"), [(kind, a) for kind in MIXTURES for a in (2.2, 3.0, 4.0) if kind[0] == "h" or a == 3.0]
)
@pytest.mark.parametrize("variables", [(0,), (3,), (0, 1, 2)])
def test_mixtures_against_quad_of_the_g_prior(
    problem: Problem, kind: str, a: float, variables: tuple[int, ...], ig: tuple[float, float] | None
) -> None:
    """Adaptive quadrature in 1/(1 + g), of a g-prior worked out here from R²."""
    columns = [c for v in variables for c in problem.groups[v]]
    X, y, base, w = problem.kept()
    root = np.sqrt(w)[:, None]
    Q = scipy.linalg.null_space((root * base).T)
    A, e = Q.T @ (root * X[:, columns]), Q.T @ (root[:, 0] * y)
    r2 = float(e @ A @ np.linalg.solve(A.T @ A, A.T @ e) / (e @ e))
    s0, nu, k, n = float(e @ e), e.size, len(columns), y.size
    a0, b0 = ig or (0.0, 0.0)

    def f(t: float) -> float:  # t = 1 / (1 + g)
        bf = t ** (k / 2) * ((s0 + 2 * b0) / (s0 * (1 - (1 - t) * r2) + 2 * b0)) ** ((nu + 2 * a0) / 2)
        return bf * mixing_density(kind, (1 - t) / t, n, a) / t**2

    # The integrand goes like a small power of t at 0, hence t = x⁸.
    integral, _ = scipy.integrate.quad(lambda x: f(x**8) * 8 * x**7, 0, 1, epsabs=0, epsrel=1e-11, limit=400)
    slab = OracleSlab(kind, a=a)
    found = log_marginal(problem.X, problem.y, variables, slab, inverse_gamma=ig, **problem.options)
    assert found == pytest.approx(np.log(integral), abs=1e-9)


@pytest.mark.parametrize("noise", [0.05, 0.5, 3.0])
@pytest.mark.parametrize("n", [8, 60, 700])
def test_hyper_g_against_the_hypergeometric_function(n: int, noise: float) -> None:
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, 3))
    y = X @ [1.0, -0.5, 0.0] + noise * rng.normal(size=n)
    fit = np.linalg.lstsq(np.column_stack([np.ones(n), X]), y, rcond=None)
    rest, k, nu, a = float(fit[1][0] / np.sum((y - y.mean()) ** 2)), 3, n - 1, 3.0
    # BF = (a − 2)/(k + a − 2) ₂F₁(ν/2, 1; (k + a)/2; R²): all terms of the series are positive.
    c, j = (k + a) / 2, np.arange(2_000_000)
    log_terms = scipy.special.gammaln(nu / 2 + j) - scipy.special.gammaln(c + j) + j * np.log1p(-rest)
    log_terms += scipy.special.gammaln(c) - scipy.special.gammaln(nu / 2)
    expected = np.log((a - 2) / (k + a - 2)) + scipy.special.logsumexp(log_terms)
    assert log_marginal(X, y, (0, 1, 2), OracleSlab("hyper-g")) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("kind", MIXTURES)
def test_mixing_densities_integrate_to_one(kind: str) -> None:
    """A column that explains next to nothing of y leaves E (1 + g)^(−1/2), which has a value for each law."""
    rng = np.random.default_rng(0)
    n = 30
    x = rng.normal(size=n)
    x -= x.mean()
    y = rng.normal(size=n)
    y -= y.mean() + x * (x @ (y - y.mean())) / (x @ x)
    found = log_marginal(x[:, None], y, (0,), OracleSlab(kind, a=3.0))
    if kind == "hyper-g":
        expected = 0.5  # ∫ ½ (1 + g)^(−2) dg
    elif kind == "hyper-g/n":
        expected = scipy.integrate.quad(lambda t: 0.5 * (1 + n * t) ** -0.5 * (1 + t) ** -1.5, 0, np.inf)[0]
    else:  # g = n / chi², chi a standard normal
        z = np.linspace(0, 12, 200_001)
        expected = scipy.integrate.simpson(2 * scipy.stats.norm.pdf(z) * z / np.sqrt(n + z**2), x=z)
    assert found == pytest.approx(np.log(expected), abs=1e-7)


def test_bic_refuses_an_inverse_gamma(problem: Problem) -> None:
    with pytest.raises(ValueError, match="BIC"):
        log_marginal(problem.X, problem.y, (0,), OracleSlab("bic"), inverse_gamma=(1, 1))


@pytest.mark.parametrize("kind", R2_KINDS)
def test_rank_deficient_models_are_impossible_in_any_order(kind: str) -> None:
    rng = np.random.default_rng(4)
    X, Z = rng.normal(size=(20, 5)), rng.normal(size=(20, 1))
    X[:, 2] = 1e6 * (X[:, 0] - 2 * X[:, 1]) + 3.0
    X[:, 4] = 3 * Z[:, 0] - 1
    X = np.column_stack([X, np.full(20, 0.1)])
    y, slab = rng.normal(size=20), make_slab(kind)
    for order in itertools.permutations((0, 1, 2)):
        assert log_marginal(X, y, order, slab) == -np.inf
        assert log_marginal(X, y, order, slab, scale="none") == -np.inf
    assert np.isfinite(log_marginal(X, y, (0, 2, 3), slab))
    assert np.isfinite(log_marginal(X, y, (4,), slab))
    assert log_marginal(X, y, (4,), slab, Z=Z) == -np.inf
    assert log_marginal(X, y, (3, 5), slab) == -np.inf


@pytest.mark.parametrize(
    ("unexplained", "possible"), [(1e-7, True), (1e-9, True), (1e-11, False), (1e-14, False)]
)
def test_rank_tolerance_is_on_the_unexplained_share_of_a_column(unexplained: float, possible: bool) -> None:
    rng = np.random.default_rng(7)
    basis = np.linalg.qr(np.column_stack([np.ones(20), rng.normal(size=(20, 3))]))[0][:, 1:]
    x = basis[:, 0] + 2 * basis[:, 1]
    other = np.sqrt(1 - unexplained) * x / np.linalg.norm(x) + np.sqrt(unexplained) * basis[:, 2]
    X, y = np.column_stack([basis[:, :2], 1e3 * other]), rng.normal(size=20)
    assert np.isfinite(log_marginal(X, y, (0, 1, 2), OracleSlab("g", g=20.0))) == possible


def test_local_empirical_bayes_leaves_zero_where_f_passes_one() -> None:
    basis = np.linalg.qr(np.column_stack([np.ones(12), np.random.default_rng(7).normal(size=(12, 2))]))[0]
    nu, k = 11, 1
    for f in (0.98, 1.02):
        r2 = f * k / (nu - k + f * k)
        y = np.sqrt(r2) * basis[:, 1] + np.sqrt(1 - r2) * basis[:, 2]
        found = log_marginal(basis[:, [1]], y, (0,), OracleSlab("eb-local"))
        g = max(f - 1, 0)
        expected = (nu - k) / 2 * np.log1p(g) - nu / 2 * np.log1p(g * (1 - r2))
        assert found == pytest.approx(expected, abs=1e-13)
        assert (found > 1e-5) == (f > 1)


@pytest.mark.parametrize("kind", R2_KINDS)
def test_at_most_nu_minus_one_columns(kind: str) -> None:
    rng = np.random.default_rng(6)
    X, Z, y = rng.normal(size=(8, 7)), rng.normal(size=(8, 1)), rng.normal(size=8)
    slab = make_slab(kind)
    assert np.isfinite(log_marginal(X, y, range(6), slab))
    assert log_marginal(X, y, range(7), slab) == -np.inf
    assert np.isfinite(log_marginal(X, y, range(5), slab, Z=Z))
    assert log_marginal(X, y, range(6), slab, Z=Z) == -np.inf
    weights = np.r_[0.0, np.ones(7)]
    assert log_marginal(X, y, range(5), slab, Z=Z, weights=weights) == -np.inf


@pytest.mark.parametrize("kind", KINDS)
def test_invariances(problem: Problem, kind: str) -> None:
    slab, X, y = make_slab(kind), problem.X, problem.y
    options = problem.options | {"scale": "unit"}
    reference = log_marginal(X, y, (0, 1, 3), slab, **options)
    keep = problem.w > 0
    dropped = {"Z": problem.Z[keep], "weights": problem.w[keep], "groups": problem.groups}
    shift = {
        "Z": problem.Z @ [[1.0, 4.0, 1.0], [-1.0, 2.0, 0.0]] + 100.0
    }  # the same space, one column too many
    assert log_marginal(X[keep], y[keep], (0, 1, 3), slab, **dropped) == pytest.approx(reference, abs=1e-10)
    assert log_marginal(X, y, (3, 1, 0), slab, **options) == pytest.approx(reference, abs=1e-10)
    assert log_marginal(
        X * [9, 1, 1e5, 1, 1e-4] - 7, 50 * y + 1, (0, 1, 3), slab, **options
    ) == pytest.approx(reference, abs=1e-8)
    assert log_marginal(X, y, (0, 1, 3), slab, **(options | shift)) == pytest.approx(reference, abs=1e-8)
    as_columns = log_marginal(X, y, (0, 1, 2, 4), slab, Z=problem.Z, weights=problem.w)
    assert as_columns == pytest.approx(reference, abs=1e-10)


def test_unit_scale_is_the_weighted_sample_sd(problem: Problem) -> None:
    slab = OracleSlab("independent", g=2.0)
    by_hand = problem.X / problem.X.std(axis=0, ddof=1)
    assert log_marginal(problem.X, problem.y, (0, 3), slab) == pytest.approx(
        log_marginal(by_hand, problem.y, (0, 3), slab, scale="none"), abs=1e-11
    )
    keep = problem.w > 0
    variance = np.cov(problem.X.T, aweights=problem.w, ddof=0).diagonal() * keep.sum() / (keep.sum() - 1)
    assert log_marginal(problem.X, problem.y, (0, 3), slab, weights=problem.w) == pytest.approx(
        log_marginal(problem.X / np.sqrt(variance), problem.y, (0, 3), slab, weights=problem.w, scale="none"),
        abs=1e-11,
    )


PRIORS = [
    ("fixed", 0.3),
    ("fixed", np.array([0.1, 0.9, 0.5, 0.02, 0.3])),
    ("fixed", np.array([0.1, 1.0, 0.5, 0.0, 0.3])),
    ("beta-binomial", 1.0, 4.0),
    ("beta-binomial", 0.5, 2.5),
]


@pytest.mark.parametrize("max_size", [None, 1, 2, 5, 9])
@pytest.mark.parametrize("prior", PRIORS)
def test_model_prior_sums_to_one_and_truncation_conditions(prior: tuple, max_size: int | None) -> None:
    masks = all_masks(5)
    log_priors = np.array([log_model_prior(mask, 5, prior, max_size) for mask in masks])
    assert np.exp(log_priors).sum() == pytest.approx(1.0, abs=1e-12)
    full = np.exp([log_model_prior(mask, 5, prior) for mask in masks])
    allowed = masks.sum(axis=1) <= (5 if max_size is None else max_size)
    assert np.exp(log_priors) == pytest.approx(np.where(allowed, full, 0) / full[allowed].sum(), abs=1e-13)


def test_model_prior_by_hand() -> None:
    h = np.array([0.1, 0.9, 0.5])
    assert log_model_prior((0, 2), 3, ("fixed", h)) == pytest.approx(np.log(0.1 * 0.1 * 0.5))
    assert log_model_prior(np.array([True, False, True]), 3, ("fixed", h)) == pytest.approx(np.log(0.005))
    assert log_model_prior((), 3, ("fixed", 0.2)) == pytest.approx(3 * np.log(0.8))
    a, b, p, k = 1.5, 2.0, 6, 2
    integral = scipy.integrate.quad(
        lambda t: t**k * (1 - t) ** (p - k) * scipy.stats.beta(a, b).pdf(t), 0, 1
    )[0]
    assert log_model_prior((1, 4), p, ("beta-binomial", a, b)) == pytest.approx(np.log(integral), abs=1e-9)
    assert log_model_prior((0, 1, 2), 6, ("fixed", 0.5), max_size=2) == -np.inf


@pytest.mark.parametrize("temper", [1.0, 0.4, 0.0])
def test_enumeration_agrees_with_a_plain_loop(problem: Problem, temper: float) -> None:
    slab, prior = OracleSlab("hyper-g/n"), ("beta-binomial", 1.0, 3.0)
    posterior = enumerate_posterior(
        problem.X, problem.y, slab, prior, max_size=3, temper=temper, **problem.options
    )
    total, pips, sizes, joint = 0.0, np.zeros(4), np.zeros(5), {}
    for k in range(5):
        for model in itertools.combinations(range(4), k):
            mass = np.exp(log_model_prior(model, 4, prior, 3)) * np.exp(
                temper * log_marginal(problem.X, problem.y, model, slab, **problem.options)
            )
            joint[sum(2**j for j in model)] = mass
            total += mass
            sizes[k] += mass
            pips[list(model)] += mass
    assert posterior.log_evidence == pytest.approx(np.log(total), abs=1e-10)
    assert posterior.pips == pytest.approx(pips / total, abs=1e-11)
    assert posterior.size_distribution == pytest.approx(sizes / total, abs=1e-11)
    assert posterior.probabilities == pytest.approx([joint[i] / total for i in range(16)], abs=1e-11)
    assert posterior.masks[6].tolist() == [False, True, True, False]
    if temper == 0:
        assert posterior.probabilities == pytest.approx(np.exp(posterior.log_priors), abs=1e-12)


def test_enumeration_leaves_out_rank_deficient_models() -> None:
    rng = np.random.default_rng(9)
    X, y = rng.normal(size=(15, 3)), rng.normal(size=15)
    X = np.column_stack([X, X[:, 0]])
    for temper in (1.0, 0.0):
        posterior = enumerate_posterior(X, y, OracleSlab("g", g=15.0), ("fixed", 0.5), temper=temper)
        both = posterior.masks[:, 0] & posterior.masks[:, 3]
        assert np.all(posterior.probabilities[both] == 0)
        assert posterior.pips[0] == pytest.approx(posterior.pips[3], abs=1e-12)
        assert posterior.probabilities.sum() == pytest.approx(1.0, abs=1e-12)


def test_independent_slab_on_orthogonal_columns_has_known_variance_free_odds() -> None:
    """With σ² all but fixed by its prior and orthogonal columns, inclusions are independent."""
    X = scipy.linalg.hadamard(16)[:, 1:5].astype(float)
    y = X @ [1.0, 0.4, 0.0, -0.6] + scipy.linalg.hadamard(16)[:, 9]
    a0, g, h = 1e9, 2.0, 0.3
    posterior = enumerate_posterior(
        X, y, OracleSlab("independent", g=g), ("fixed", h), scale="none", inverse_gamma=(a0, a0)
    )
    log_bf = -0.5 * np.log1p(16 * g) + 0.5 * (X.T @ y) ** 2 / (16 + 1 / g)
    assert posterior.pips == pytest.approx(scipy.special.expit(np.log(h / (1 - h)) + log_bf), abs=1e-6)


@pytest.mark.parametrize("kind", ["independent", "zellner-siow"])
def test_ten_variables_take_seconds(kind: str) -> None:
    rng = np.random.default_rng(12)
    X = rng.normal(size=(50, 10))
    y = X[:, 2] - 0.5 * X[:, 7] + rng.normal(size=50)
    start = time.process_time()
    posterior = enumerate_posterior(X, y, make_slab(kind), ("fixed", 0.5))
    assert time.process_time() - start < 30
    assert posterior.pips[2] > 0.99
