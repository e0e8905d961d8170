"""Student responses of unknown scale: derivatives, modes and marginal likelihoods, against integrals on grids in plain numpy."""

import numpy as np
import pytest
from scipy import optimize, special, stats

import whichvars as wv
from support.kernels import from_python
from support.kinds import mainly
from whichvars._kernels import densities, outer
from whichvars._kernels import likelihood as kernels
from whichvars._kernels.jit import entry
from whichvars.errors import DataError
from whichvars.problem.fitting import answers

MODELS = [(), (0,), (1,), (0, 1)]
log_density = from_python(densities.log_density)
first_and_second = from_python(densities.first_and_second)
largest_second = from_python(densities.largest_second)


def listed(models):
    members = np.array([j for m in models for j in m], np.int32)
    return members, np.concatenate([[0], np.cumsum([len(m) for m in models])]).astype(np.int64)


def table(n=40, seed=3, df=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, 1000 + 300 * (0.5 * X[:, 0] + rng.standard_t(df, n))


def log_marginals(problem, models=MODELS):
    return answers(problem, *listed(models))[0][:, kernels.LOG_MARGINAL]


def middle(values, weights):
    """The median, as if weights were copies; weights are multiples of one half."""
    return np.median(np.repeat(values, np.rint(2 * weights).astype(int)))


def integral(X, y, df, model, slab, offset=0.0, weights=None, nodes=None):
    """log ∫ p(y | δ, β, s) p(β | s) p(s), by sums over a grid around the mode of the likelihood given s."""
    n, k = len(y), len(model)
    w = np.ones(n) if weights is None else weights
    X, r, w = X[w > 0], (y - offset)[w > 0], w[w > 0]
    n = len(r)
    mean = w @ X / w.sum()
    Z = (X - mean) / np.sqrt(w @ (X - mean) ** 2 / (w.sum() * (n - 1) / n))
    A = np.column_stack([np.ones(n), Z[:, list(model)]])
    unit = middle(np.abs(r - middle(r, w)), w) / 0.6745
    theta, s = np.linalg.lstsq(A, r, rcond=None)[0], unit
    for _ in range(200):
        v = w * (df + 1) / (df + ((r - A @ theta) / s) ** 2)
        theta = np.linalg.solve(A.T @ (A * v[:, None]), A.T @ (v * r))
        s = np.sqrt(v @ (r - A @ theta) ** 2 / w.sum())
    precision = np.eye(k) / slab.g
    if isinstance(slab, wv.GPrior):
        fixed = A[:, 1:] - w @ A[:, 1:] / w.sum()
        precision = (df + 1) / (df + 3) * (fixed * w[:, None]).T @ fixed / slab.g
    nodes = nodes or {0: 201, 1: 81, 2: 41}[k]
    total = []
    grid = np.log(s) + np.linspace(-1.4, 1.2, 70)
    for tau in grid:
        scale = np.exp(tau)
        side = scale * 1.3 / np.sqrt(n) * np.linspace(-11, 11, nodes)
        points = np.stack(np.meshgrid(*[t + side for t in theta], indexing="ij"), -1).reshape(-1, k + 1)
        log = np.zeros(len(points))
        for i in range(n):
            log -= w[i] * (df + 1) / 2 * np.log1p(((r[i] - points @ A[i]) / scale) ** 2 / df)
        beta = points[:, 1:] / scale
        log += 0.5 * np.linalg.slogdet(precision)[1] - k * (tau + 0.5 * np.log(2 * np.pi))
        log -= 0.5 * np.einsum("ra,ab,rb->r", beta, precision, beta)
        total.append(special.logsumexp(log) + (k + 1) * np.log(side[1] - side[0]) - w.sum() * tau)
    return special.logsumexp(total + stats.norm.logpdf(grid, np.log(unit), 3.0)) + np.log(grid[1] - grid[0])


# --- derivatives and modes


@pytest.mark.parametrize("eta", [-9.0, -1.0, 0.0, 0.3, 2.0, 40.0])
def test_the_parabola_lies_below_the_log_density(eta):
    """What makes steps safe where the log density is not concave."""
    df, trials = 4.0, 4 * 1.7**2
    here = log_density(densities.STUDENT, df, trials, eta)
    slope, second = first_and_second(densities.STUDENT, df, trials, eta)
    bound = largest_second(densities.STUDENT, df, trials, eta, second)
    for x in np.linspace(-60, 60, 241):
        parabola = here + slope * (x - eta) - 0.5 * bound * (x - eta) ** 2
        assert log_density(densities.STUDENT, df, trials, x) >= parabola - 1e-12
    assert here == pytest.approx(
        stats.t.logpdf(eta, df, scale=1.7) - stats.t.logpdf(0, df, scale=1.7), abs=1e-12
    )


@entry
def joint_and_slopes(likelihood, work, tau):
    """The log of the joint density at the current θ and this log s, and its derivatives in log s."""
    value = outer.set_outer(likelihood, work, tau) + kernels.log_joint(likelihood, work, kernels.THETA)
    first, second = outer.outer_slopes(likelihood, work)
    return value, first, second


@entry
def prepare(likelihood, work):
    return kernels.prepare(likelihood, work)


@pytest.mark.parametrize("slab", [wv.IndependentNormal(0.5), wv.GPrior(20.0), wv.BIC()])
@pytest.mark.parametrize("tau", [3.0, 5.7, 8.0])
def test_derivatives_in_the_scale_by_differences(slab, tau):
    X, y = table()
    problem = wv.Problem(X, y, family="student", weights=np.linspace(0.5, 2, 40), slab=slab)
    likelihood, h = problem.likelihood(), 1e-4
    with problem.works.borrow(likelihood, 2) as work:
        work.members[[0, 1, -1]] = 0, 1, 2
        prepare(likelihood, work)
        work.vectors[kernels.THETA, :3] = 900.0, -120.0, 400.0
        low, here, high = (joint_and_slopes(likelihood, work, tau + d) for d in (-h, 0, h))
        assert here[1] == pytest.approx((high[0] - low[0]) / (2 * h), rel=1e-6, abs=1e-4)
        assert here[2] == pytest.approx((high[1] - low[1]) / (2 * h), rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("seed", mainly(range(6), (0, 1)))
def test_modes_are_found_among_wild_outliers(seed):
    """A third of the rows, up to 1e6 scales away: no fit is lost, and the maximum under BIC is as high as any that is found elsewhere."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 2))
    y = X[:, 0] + rng.standard_t(3, 60)
    y[:20] += np.exp(rng.uniform(0, 14, 20)) * rng.choice([-1, 1], 20)
    problem = wv.Problem(X, y, family=wv.Student(4), slab=wv.BIC())
    found, troubles = answers(problem, *listed(MODELS))
    assert troubles == {"breakdowns": 0, "diverging": 0}
    unit = problem.family.unit(y, np.ones(60))

    def minus(theta, A):
        s = np.exp(theta[-1])
        prior = stats.norm.logpdf(theta[-1], np.log(unit), 3.0)
        return -stats.t.logpdf(y, 4, A @ theta[:-1], s).sum() - prior

    best = []
    for model in MODELS:
        A = np.column_stack([np.ones(60), X[:, list(model)]])
        starts = [np.append(rng.normal(0, 1, A.shape[1]), t) for t in (-0.5, 0.5, 2.0) for _ in range(3)]
        value = -min(optimize.minimize(minus, x, (A,), tol=1e-10).fun for x in starts)
        best.append(value - len(model) / 2 * np.log(60))
    np.testing.assert_allclose(found[:, kernels.LOG_MARGINAL], np.array(best) - best[0], atol=1e-4)


# --- marginal likelihoods


@pytest.mark.parametrize("slab", [wv.IndependentNormal(1.0), wv.GPrior(30.0)])
def test_against_integrals(slab):
    """With weights, some of them 0, and an offset."""
    X, y = table()
    others = {"weights": np.tile([0.5, 1.0, 2.0, 0.0, 1.0], 8), "offset": np.linspace(-100, 100, 40)}
    truth = np.array([integral(X, y, 4, m, slab, **others) for m in MODELS])
    for evidence, tolerance in (("laplace", 0.05), ("auto", 0.012), ("importance", 0.006)):
        problem = wv.Problem(X, y, family="student", evidence=evidence, slab=slab, **others)
        found = answers(problem, *listed(MODELS))[0]
        noise = np.hypot(found[:, kernels.SAMPLING_ERROR], found[0, kernels.SAMPLING_ERROR])
        off = np.abs(found[:, kernels.LOG_MARGINAL] - (truth - truth[0]))
        assert (off < tolerance + 4 * noise).all(), (evidence, off, noise)


def test_a_small_table():
    """Fifteen rows, where the second order is a correction of up to .07."""
    X, y = table(15, 1)
    truth = np.array([integral(X, y, 4, m, wv.IndependentNormal(1.0)) for m in MODELS[:3]])
    for evidence, tolerance in (("auto", 0.03), ("importance", 0.005)):
        problem = wv.Problem(X, y, family="student", evidence=evidence)
        found = answers(problem, *listed(MODELS[:3]))[0]
        noise = np.hypot(found[:, kernels.SAMPLING_ERROR], found[0, kernels.SAMPLING_ERROR])
        assert (np.abs(found[:, kernels.LOG_MARGINAL] - truth + truth[0]) < tolerance + 4 * noise).all()


@pytest.mark.parametrize("slab", [wv.IndependentNormal(1.0), wv.GPrior(30.0), wv.BIC()])
def test_units_do_not_matter(slab):
    X, y = table()
    here = log_marginals(wv.Problem(X, y, family="student", slab=slab))
    for a, b in ((1e-9, 0.0), (1e7, -3.0), (-2.0, 1e3)):
        other = wv.Problem(X * [5.0, -0.01] + 3, a * y + b, family="student", slab=slab)
        np.testing.assert_allclose(log_marginals(other), here, atol=1e-6)


@pytest.mark.parametrize("slab", [wv.IndependentNormal(1.0), wv.GPrior(30.0)])
def test_many_degrees_of_freedom_are_the_linear_model(slab):
    X, y = table(60, df=100)
    family = wv.Student(df=1000, prior_sd=10.0)
    # the g-prior of a Student response has its information, which is nearly that of normal noise
    found = log_marginals(wv.Problem(X, y, family=family, slab=slab))
    linear = wv.Problem(X, y, slab=slab)
    np.testing.assert_allclose(found, [linear.log_marginal(list(m)) for m in MODELS], atol=0.03)


def test_a_weight_of_two_is_the_same_row_twice():
    X, y = table(30)
    rows = np.concatenate([np.arange(30), np.arange(10)])
    twice = np.where(np.arange(30) < 10, 2.0, 1.0)
    one = wv.Problem(X, y, family="student", weights=twice, scale="none")
    two = wv.Problem(X[rows], y[rows], family="student", scale="none")
    np.testing.assert_allclose(log_marginals(one), log_marginals(two), atol=1e-7)


# --- what is refused


def test_refused_by_name():
    X, y = table()
    mostly = np.where(np.arange(40) < 34, 5.0, y)
    for family, others, words in (
        (lambda: wv.Student(df=2), {}, "df must be above 2"),
        (lambda: wv.Student(prior_sd=11), {}, "prior_sd must lie between 1e-4 and 10"),
        (lambda: "student", {"y": mostly}, "85% of the responses have the same value"),
        (lambda: "student", {"y": 1e200 * y}, "use other units"),
        (lambda: "student", {"y": 1e-200 * y}, "use other units"),
        (
            lambda: "student",
            {"y": 3 * X[:, 0], "always_include": [0]},
            "explain the response without any noise",
        ),
        (lambda: "student", {"slab": wv.LocalEmpiricalBayes()}, "use IndependentNormal, GPrior or BIC"),
        (lambda: "student", {"slab": wv.HyperG()}, "HyperG.* and the unknown scale of family=Student"),
        (lambda: "student", {"slab": wv.IndependentNormal("estimate")}, "cannot both be averaged over"),
        (lambda: "student", {"evidence": "bas", "slab": wv.GPrior()}, "has no unknown scale"),
        (lambda: "student", {"noise": wv.Jeffreys()}, "noise"),
        (lambda: wv.Student, {}, r"write Student\(\)"),
    ):
        with pytest.raises((DataError, wv.errors.ArgumentTypeError), match=words):
            wv.Problem(X, others.pop("y", y), family=family(), **others)
