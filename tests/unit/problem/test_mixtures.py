"""Mixtures of g-priors against quadrature written out here and a closed form; properties of the table."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import betaln, hyp2f1
from scipy.stats import beta

from support.kernels import from_python
from whichvars._kernels.evidence import mixture_log_bayes_factor as mixture_kernel
from whichvars.problem.mixtures import (
    KINDS,
    log_bayes_factor,
    mixture_nodes,
    mixture_table,
    nodes_between,
    posterior_nodes,
    where_large,
)

mixture_log_bayes_factor = from_python(mixture_kernel)

# the prior's own parameters: a; a, b and s; k₀
PARAMETERS = {"cch": (1.5, 30.0, 4.0), "robust": 1.0, "intrinsic": 2.0}
SETTINGS = [(n, k, r2) for n in (12, 150, 4000) for k in (1, 4) for r2 in (0.0, 0.05, 0.3, 0.8, 0.99)]


def reference(kind, nu, n, a, k, r2):
    """log BF and E[g / (1 + g)] by adaptive quadrature in log g, in pieces around the mode."""

    least = {"robust": lambda: (n + 1) / (k + a) - 1, "intrinsic": lambda: n / (k + a)}.get(
        kind, lambda: 0.0
    )()
    b, tilt, constant = n - k - 1.5, 0.0, 0.0
    if kind in ("cch", "beta-prime"):
        a, b, tilt = (0.5, b, 0.0) if kind == "beta-prime" else a
        law = beta(a / 2, b / 2)
        constant = np.log(law.expect(lambda u: np.exp(-tilt * u / 2))) if tilt else 0.0

    def log_f(x):
        g = least + np.exp(x)
        log_bf = (nu - k) / 2 * np.log1p(g) - nu / 2 * np.log1p(g * (1 - r2))
        if kind == "robust":
            return log_bf - np.log(2) + np.log1p(least) / 2 - 1.5 * np.log1p(g) + x
        if kind == "intrinsic":
            return log_bf - np.log(np.pi) + np.log(least) / 2 - np.log(g) + x / 2
        if kind in ("cch", "beta-prime"):  # of u = 1/(1 + g), whose derivative is −u (1 − u) in log g
            log_pi = -betaln(a / 2, b / 2) - a / 2 * np.log1p(g) + b / 2 * (x - np.log1p(g))
            return log_bf + log_pi - tilt / (2 * (1 + g)) - constant
        if kind == "hyper-g":
            log_prior = np.log((a - 2) / 2) - a / 2 * np.log1p(g)
        elif kind == "hyper-g/n":
            log_prior = np.log((a - 2) / (2 * n)) - a / 2 * np.log1p(g / n)
        else:
            log_prior = np.log(n / 2) / 2 - np.log(np.pi) / 2 - 1.5 * x - n / (2 * g)
        return log_bf + log_prior + x

    grid = np.linspace(-40, 120, 16001)
    values = log_f(grid)
    mode, top = grid[np.argmax(values)], np.max(values)
    pieces = mode + np.array([-100, -20, -5, -2, -1, -0.3, 0, 0.3, 1, 2, 5, 20, 100])
    total = shrinkage = 0.0
    for low, high in zip(np.maximum(pieces[:-1], -40), pieces[1:]):
        options = {"epsabs": 1e-13, "epsrel": 1e-11}
        total += quad(lambda x: np.exp(log_f(x) - top), low, high, **options)[0]
        shrinkage += quad(
            lambda x: np.exp(log_f(x) - top) * (1 - 1 / (1 + least + np.exp(x))), low, high, **options
        )[0]
    return top + np.log(total), shrinkage / total


def read(table, k, u):
    return np.array([mixture_log_bayes_factor(table, k, value) for value in np.atleast_1d(u)])


@pytest.fixture(scope="module")
def tables():
    return {
        (kind, n): mixture_table(kind, n - 1.0, n, PARAMETERS.get(kind, 3.0), 0, 6)
        for kind in KINDS
        for n in (12, 150, 4000)
    }


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("n", "k", "r2"), SETTINGS)
def test_table_direct_and_nodes_agree_with_quad(tables, kind, n, k, r2):
    nu, u = n - 1.0, -np.log1p(-r2)
    a = PARAMETERS.get(kind, 3.0)
    log_bf, shrinkage = reference(kind, nu, n, a, k, r2)
    assert abs(log_bayes_factor(kind, nu, n, a, k, r2) - log_bf) < 1e-6
    assert abs(read(tables[kind, n], k, u)[0] - log_bf) < 1e-6
    g, weights = mixture_nodes(kind, nu, n, a, k, u)
    assert abs(weights @ (g / (1 + g)) - shrinkage) < 1e-8


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("nu", "k", "a", "r2"), [(57.3, 40, 2.1, 0.75), (2.0, 1, 3.9, 0.9), (5e3, 900, 2.5, 0.21)]
)
def test_odd_parameters_agree_with_quad(kind, nu, k, a, r2):
    a, n = PARAMETERS.get(kind, a), 50.0 if KINDS.index(kind) < 4 else nu + 3.0
    table = np.concatenate([mixture_table(kind, nu, n, a, 0, 1), mixture_table(kind, nu, n, a, k, k + 1)])
    assert abs(read(table, 1, -np.log1p(-r2))[0] - reference(kind, nu, n, a, k, r2)[0]) < 1e-6


@pytest.mark.parametrize("a", [2.2, 3.0, 4.0])
def test_hyper_g_has_its_closed_form(a):
    r2 = np.linspace(0.0, 0.9, 19)
    for nu, k in [(20.0, 1), (49.0, 3), (60.5, 12)]:
        exact = np.log((a - 2) / (k + a - 2) * hyp2f1(nu / 2, 1, (k + a) / 2, r2))
        np.testing.assert_allclose(
            log_bayes_factor("hyper-g", nu, nu + 1, a, k, r2), exact, rtol=0, atol=1e-9
        )


@st.composite
def problems(draw):
    """A prior and a model size, over what the library promises."""
    nu = np.exp(draw(st.floats(np.log(2.0), np.log(1e6))))
    n = draw(st.one_of(st.just(nu + 1.0), st.floats(3.0, 1e6)))
    k = draw(st.integers(1, int(min(max(nu - 1, 1), 2000))))
    kind, a = draw(st.sampled_from(KINDS)), draw(st.floats(2.001, 4.0))
    if kind in ("beta-prime", "robust", "intrinsic"):  # n − ν columns are in all models
        n, a = nu + 3.0, 3.0
    elif kind == "cch":
        a = draw(st.floats(0.1, 10)), draw(st.floats(2.0, 1e4)), draw(st.floats(-20, 20))
    return kind, nu, n, a, k


@settings(max_examples=60, deadline=None)
@given(problems(), st.lists(st.floats(0.0, 1.0), min_size=2, max_size=20), st.floats(-6.0, 0.0))
def test_table_is_direct_and_increases(problem, unit, log10_range):
    kind, nu, n, a, k = problem
    r2 = np.sort(np.array(unit)) * 10**log10_range * (1 - 1e-14)
    table = np.concatenate([mixture_table(kind, nu, n, a, 0, 1), mixture_table(kind, nu, n, a, k, k + 1)])
    values = read(table, 1, -np.log1p(-r2))
    direct = log_bayes_factor(kind, nu, n, a, k, r2)
    tolerance = 1e-7 + 1e-12 * np.abs(direct)
    assert np.all(np.abs(values - direct) < tolerance)
    assert np.all(np.diff(values) > -tolerance[1:])


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_grows_without_changing_its_rows(kind):
    a = PARAMETERS.get(kind, 3.0)
    whole = mixture_table(kind, 40.5, 42.0, a, 0, 21)
    pieces = [mixture_table(kind, 40.5, 42.0, a, low, high) for low, high in [(0, 1), (1, 7), (7, 21)]]
    assert np.array_equal(whole, np.concatenate(pieces))


@pytest.mark.parametrize("kind", KINDS)
def test_compiled_and_plain_kernel_give_the_same_bits(tables, kind):
    plain = getattr(mixture_kernel, "py_func", mixture_kernel)
    u = np.concatenate([[0.0, 33.0, 50.0, 700.0], np.geomspace(1e-6, 40.0, 500)])
    for k in range(6):
        same = [plain(tables[kind, 150], k, value) for value in u]
        assert np.array_equal(read(tables[kind, 150], k, u), same)


def test_the_ends(tables):
    table = tables["hyper-g/n", 150]
    assert read(table, 0, 3.0)[0] == 0.0
    assert log_bayes_factor("hyper-g/n", 149.0, 150, 3.0, 0, [0.1, 0.2]).tolist() == [0.0, 0.0]
    assert np.isnan(read(table, 2, np.nan)[0])
    below, at, beyond = read(table, 2, [33.0 - 1e-9, 33.0, 700.0])
    assert abs(at - below) < 1e-6
    assert abs((beyond - at) / 667.0 - (149 - 2 - 1) / 2) < 1e-6  # log BF grows like (ν - k - a + 2) u / 2


@pytest.mark.parametrize(
    ("kind", "nu", "n", "a", "k"),
    [("g", 9, 10, 3, 1), ("hyper-g", 9, 10, 2, 1), ("hyper-g/n", 9, 10, 13, 1), ("hyper-g", 9, 10, 3, 9),
     ("zellner-siow", 9, 0, 3, 1), ("beta-prime", 9, 3, 3, 2), ("robust", 9, 10, 8, 3), ("intrinsic", 9, 10, 0, 3)],
)  # fmt: skip
def test_wrong_parameters_are_refused(kind, nu, n, a, k):
    for call in (
        lambda: log_bayes_factor(kind, nu, n, a, k, 0.5),
        lambda: mixture_table(kind, nu, n, a, k, k + 1),
    ):
        with pytest.raises(ValueError, match=r"need|kind"):
            call()


def test_r2_of_one_is_refused():
    with pytest.raises(ValueError, match="r2"):
        log_bayes_factor("hyper-g", 9, 10, 3, 1, 1.0)


@pytest.mark.parametrize("kind", KINDS)
def test_fewer_nodes_give_the_same_averages(kind):
    u = np.array([0.01, 0.5, 3.0])
    law = (kind, 46.0, 47.0, PARAMETERS.get(kind, 3.0), 2)
    _, x, weight = posterior_nodes(*law, u)
    low, high = where_large(*law, u, 28.0)
    assert (high - low < 1.05 * np.subtract(*where_large(*law, u, 32.0)[::-1])).all()
    points = 1 + int(np.ceil(np.max(high - low) / (0.17 if kind == "intrinsic" else 0.35)))
    _, few, few_weight = nodes_between(*law, u, low, high, points)
    assert few.shape[1] < 0.7 * x.shape[1]
    for power in (1, 2, 5):
        fine = (weight / (1 + np.exp(-x)) ** power).sum(axis=1)
        np.testing.assert_allclose((few_weight / (1 + np.exp(-few)) ** power).sum(axis=1), fine, rtol=1e-9)
