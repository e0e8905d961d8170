"""Averages over models and g against sums over all models and a fine grid of g, by marginal likelihoods alone."""

from itertools import combinations

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import gammaln, logsumexp
from scipy.stats import t

import whichvars as wv
from support.kinds import mainly
from whichvars.posterior import fits as model_fits
from whichvars.posterior import scores
from whichvars.posterior.t_mixture import t_cdf_by_share

N, P = 21, 5
LOG_G = np.linspace(-36, 50, 717)  # what is summed is smooth: three times as many change nothing
SLABS = {
    "g-prior": wv.GPrior(7.0),
    "zellner-siow": wv.ZellnerSiow(),
    "hyper-g": wv.HyperG(),
    "hyper-g/n": wv.HyperGN(),
}


def log_prior_of_log_g(kind):
    """Density of log g, and the values of log g it is for."""
    if kind == "g-prior":
        return np.zeros(1), np.log([7.0])
    g, n = np.exp(LOG_G), N
    if kind == "zellner-siow":
        density = 0.5 * np.log(n / 2 / np.pi) - 1.5 * LOG_G - n / (2 * g)
    else:
        scale = 1 if kind == "hyper-g" else n
        density = -np.log(2 * scale) - 1.5 * np.log1p(g / scale)
    return density + LOG_G + np.log(LOG_G[1] - LOG_G[0]), LOG_G


def log_fit(F, y, precision):
    """Log marginal likelihood of y on the columns F, flat in the first, for each g: with the coefficients' means and the
    residual sum of squares."""
    A = F.T @ F + precision
    mean = np.linalg.solve(A, np.broadcast_to(F.T @ y, A.shape[:2])[..., None])[..., 0]
    rss = y @ y - mean @ (F.T @ y)
    degrees = len(y) - 1
    log = gammaln(degrees / 2) - degrees / 2 * np.log(np.pi * rss) - 0.5 * np.linalg.slogdet(A)[1]
    return log, mean, rss


def fit(F, y, precision):
    """The same with the coefficients' squared scales and degrees of freedom."""
    log, mean, rss = log_fit(F, y, precision)
    degrees = len(y) - 1
    inverse = np.linalg.inv(F.T @ F + precision)
    return log, mean, np.einsum("gkk->gk", inverse) * (rss / degrees)[:, None], degrees


class Direct:
    """Everything there is to ask, for one slab."""

    def __init__(self, kind, X, y, new_x, new_y):
        centre = X.mean(axis=0)
        log_prior, log_g = log_prior_of_log_g(kind)
        every = [m for size in range(P + 1) for m in combinations(range(P), size)]
        log, out, wider = [], [[] for _ in y], [[] for _ in new_y]
        self.parts = []
        for m in every:
            chosen = list(m)
            F = np.column_stack([np.ones(N), (X - centre)[:, chosen]])
            gram = F.T @ F
            gram[0] = gram[:, 0] = 0
            precision = gram / np.exp(log_g)[:, None, None]
            weight = log_prior - 0.5 * len(m) * log_g + 0.5 * np.linalg.slogdet(gram[1:, 1:])[1]
            here, mean, square, degrees = fit(F, y, precision)
            log.append(weight + here)
            for i in range(N):
                rest = np.arange(N) != i
                out[i].append(weight + log_fit(F[rest], y[rest], precision)[0])
            for i, (row, value) in enumerate(zip(new_x, new_y)):
                longer = np.vstack([F, np.append(1, (row - centre)[chosen])])
                wider[i].append(weight + log_fit(longer, np.append(y, value), precision)[0])
            self.parts.append((chosen, mean, np.sqrt(square)))
        total = logsumexp(log)
        self.degrees = degrees
        self.weights = [np.exp(one - total) for one in log]
        self.loo = np.array([total - logsumexp(one) for one in out])
        self.score = np.array([logsumexp(one) - total for one in wider])

    def of(self, j):
        """Components of coefficient j, and the probability that it is 0."""
        found = [
            (w, mean[:, 1 + c.index(j)], scale[:, 1 + c.index(j)])
            for w, (c, mean, scale) in zip(self.weights, self.parts)
            if j in c
        ]
        weight, mean, scale = (np.concatenate(part) for part in zip(*found))
        return weight, mean, scale, 1 - weight.sum()

    def moments(self, j):
        weight, mean, scale, _ = self.of(j)
        average = weight @ mean
        square = weight @ (mean**2 + scale**2 * self.degrees / (self.degrees - 2))
        return average, np.sqrt(square - average**2)

    def quantile(self, j, level):
        weight, mean, scale, zero = self.of(j)

        def below(x):
            return weight @ t.cdf((x - mean) / scale, self.degrees)

        at_zero = below(0.0)
        if at_zero < level <= at_zero + zero:
            return 0.0
        wanted = level if level <= at_zero else level - zero
        return brentq(lambda x: below(x) - wanted, -50, 50, xtol=1e-13)


def make_data():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(N, P)) + 2
    X[:, 1] += X[:, 0]
    y = X @ [1.5, 0.0, 0.4, 0.0, -0.2] + rng.normal(size=N)
    y[3] += 5  # a row far out
    return X, y, rng.normal(size=(3, P)) + 2, np.array([0.0, 3.0, 40.0])


@pytest.mark.parametrize("kind", mainly(SLABS, ("g-prior", "hyper-g")))
def test_averages_equal_direct_sums(kind):
    X, y, new_x, new_y = make_data()
    direct = Direct(kind, X, y, new_x, new_y)
    posterior = wv.exact(wv.Problem(X, y, slab=SLABS[kind], model_prior=wv.FixedInclusion(h=0.5)))
    table = posterior.coefficients(interval=0.9).iloc[1:]
    moments = np.array([direct.moments(j) for j in range(P)])
    np.testing.assert_allclose(table["mean"], moments[:, 0], rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(table["sd"], moments[:, 1], rtol=1e-9)
    ends = np.array([[direct.quantile(j, level) for level in (0.05, 0.95)] for j in range(P)])
    np.testing.assert_allclose(table[["lower", "upper"]], ends, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(posterior.loo(X, y)["log_density"], direct.loo, rtol=1e-9, atol=1e-9)
    for i in range(3):
        found = posterior.log_score(new_x[i : i + 1], new_y[i : i + 1])
        assert found == pytest.approx(direct.score[i], rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("kind", ["zellner-siow", "hyper-g", "hyper-g/n"])
def test_models_that_weigh_little_have_fewer_values_of_g(kind, monkeypatch):
    monkeypatch.setattr(model_fits, "FEW_MODELS", 1)
    X, y, *_ = make_data()
    posterior = wv.exact(wv.Problem(X, y, slab=SLABS[kind]))
    problem, kept = posterior.problem, posterior.kept
    all_alike = model_fits.fits(problem, kept, least_drop=model_fits.DROP)
    fewer = model_fits.fits(problem, kept)
    assert sum(fit.q.size for fit in fewer) < sum(fit.q.size for fit in all_alike)
    seen = np.concatenate([fit.models for fit in model_fits.fits(problem, kept)])
    assert sorted(seen.tolist()) == list(range(len(kept)))


def test_many_models_share_the_ends_of_the_rule(monkeypatch):
    X, y, *_ = make_data()
    posterior = wv.exact(wv.Problem(X, y, slab=wv.HyperG()))
    one_by_one = posterior.coefficients(interval=0.9)
    monkeypatch.setattr(model_fits, "SPAN_POINTS", 3)
    monkeypatch.setattr(model_fits, "FEW_MODELS", 1)
    shared = posterior.coefficients(interval=0.9)
    np.testing.assert_allclose(shared, one_by_one, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize(
    "slab", [*SLABS.values(), wv.IndependentNormal(), wv.BIC(), wv.LocalEmpiricalBayes()]
)
def test_leaving_out_a_row_by_the_formulas_of_the_documentation(slab):
    """Every slab: the ratio of two t densities is never formed there."""
    X, y, *_ = make_data()
    posterior = wv.exact(wv.Problem(X, y, slab=slab))
    found = posterior.loo(X, y)
    problem, kept = posterior.problem, posterior.kept
    unit, centred = problem._y_scale, (X - X.mean(axis=0)) / problem.column_units
    total = np.zeros((4, N))
    for fit in model_fits.fits(problem, kept, least_drop=model_fits.DROP):
        for i in range(len(fit.weight)):
            row = centred[:, fit.columns[i]]
            leverage = np.einsum("nk,kl,nl->n", row, fit.V[i], row)
            # rows: values of g
            share, q, shrink, s = (
                part[i][:, None] for part in (fit.node_weight * fit.weight[:, None], fit.q, fit.t, fit.s)
            )
            e = (y - y.mean()) / unit - q * (row @ fit.b[i])
            left = 1 - 1 / N - shrink * leverage
            s_out = (fit.degrees * s - e**2 / left) / (fit.degrees - 1)
            law = t(fit.degrees - 1, y - unit * e / left, unit * np.sqrt(s_out / left))
            ratio = share / law.pdf(y)
            parts = ratio, ratio * (y - unit * e / left), ratio * law.cdf(y), ratio**2 / share
            total += [part.sum(axis=0) for part in parts]
    np.testing.assert_allclose(found["log_density"], -np.log(total[0]), rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(found["mean"], total[1] / total[0], rtol=1e-8)
    np.testing.assert_allclose(found["pit"], total[2] / total[0], rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(found["share"], total[0] ** 2 / total[3], rtol=1e-7)


def test_pieces_do_not_matter(monkeypatch):
    X, y, new_x, new_y = make_data()
    posterior = wv.exact(wv.Problem(X, y, slab=wv.ZellnerSiow()))
    loo, score = posterior.loo(X, y), posterior.log_score(new_x, new_y)
    monkeypatch.setattr(scores, "ROWS", 2)
    monkeypatch.setattr(scores, "CELLS", 100)
    np.testing.assert_allclose(posterior.loo(X, y), loo, rtol=1e-12)
    assert posterior.log_score(new_x, new_y) == pytest.approx(score, rel=1e-12)


@pytest.mark.parametrize("degrees", [1.0, 5.5, 12.0, 45.0, 3000.0, 1e6])
def test_distribution_function_by_share(degrees):
    z = np.concatenate([np.linspace(-45, 45, 5001), [-1e9, 0.0, 1e9]])
    found = t_cdf_by_share(degrees, z / np.sqrt(degrees + z**2))
    np.testing.assert_allclose(found, t.cdf(z, degrees), rtol=0, atol=1e-9)
    np.testing.assert_array_equal(t_cdf_by_share(degrees, np.array([-1.0, 1.0])).round(9), [0.0, 1.0])
