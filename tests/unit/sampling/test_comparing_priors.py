"""The same data under many priors: each row against a problem that was made with its priors."""

import numpy as np
import pytest
from matplotlib import pyplot

import whichvars as wv
from support.paired import make_paired
from whichvars.errors import ArgumentTypeError, DataError

SLABS = [wv.GPrior(13.0), wv.HyperGN(), wv.BIC(), wv.IndependentNormal(2.0)]
PRIORS = [wv.FixedInclusion(h=0.3), wv.BetaBinomial(1, 1)]


@pytest.fixture(autouse=True)
def close_figures():
    yield
    pyplot.close("all")


def check_rows(table, case, allowed):
    names = [f"x{j}" for j in range(case.X.shape[1])]
    for slab in SLABS:
        for prior in PRIORS:
            if (str(slab), str(prior)) not in table.index:
                continue
            truth = wv.exact(case.problem(slab=slab, model_prior=prior))
            row = table.loc[(str(slab), str(prior))]
            off = np.abs(row[names].to_numpy(float) - truth.pip).max()
            assert off <= allowed(row), (slab, prior)
            assert row["mean_size"] == pytest.approx(truth.mean_size, abs=10 * allowed(row))


def test_exact():
    case = make_paired("g-prior", n=30, columns=6)
    base = wv.exact(case.problem(model_prior=wv.FixedInclusion(h=0.3)))
    table = wv.compare_priors(base, SLABS, PRIORS, range(6))
    assert len(table) == 8
    assert table["base"].tolist() == [True] + [False] * 7
    assert table["how"].value_counts().to_dict() == {"reweighted": 5, "exact": 2, "given": 1}
    assert set(table[table["how"] == "exact"].index.get_level_values(0)) == {"IndependentNormal(g=2.0)"}
    assert table["reliable"].all()
    assert (table["mcse"] == 0).all()
    check_rows(table, case, lambda row: 1e-7)


def test_sampled_with_new_runs_where_needed():
    case = make_paired("g-prior", n=30, columns=6)
    base = wv.sample(
        case.problem(model_prior=wv.FixedInclusion(h=0.3)),
        wv.AddDeleteSwap(),
        draws=20_000,
        seed=2,
        progress=False,
    )
    table = wv.compare_priors(base, SLABS, PRIORS, range(6), sampler=wv.AddDeleteSwap())
    assert set(table["how"]) == {"given", "reweighted", "new run"}
    assert (table.loc["IndependentNormal(g=2.0)", "how"] == "new run").all()
    check_rows(table, case, lambda row: 5 * row["mcse"] + 1e-4)
    without = wv.compare_priors(base, SLABS, PRIORS, range(6), runs="none")
    assert set(without["how"]) == {"given", "reweighted"}
    assert not without.loc["IndependentNormal(g=2.0)", "reliable"].any()


@pytest.mark.filterwarnings("ignore::whichvars.errors.ConvergenceWarning")
def test_far_away_priors_get_a_new_run():
    """Reweighting from a posterior that never saw large models."""
    case = make_paired("g-prior", n=60, columns=10, seed=1)
    base = wv.sample(
        case.problem(model_prior=wv.FixedInclusion(h=1e-4)),
        wv.AddDeleteSwap(),
        draws=4000,
        seed=2,
        progress=False,
    )
    prior = wv.FixedInclusion(h=0.9)
    table = wv.compare_priors(base, [case.slab], [prior], range(10), sampler=wv.AddDeleteSwap(), draws=20_000)
    row = table.iloc[1]
    assert row["how"] == "new run"
    truth = wv.exact(case.problem(model_prior=prior))
    assert np.abs(row[[f"x{j}" for j in range(10)]].to_numpy(float) - truth.pip).max() < 5 * row["mcse"]


def test_default_priors_are_those_that_are_possible():
    case = make_paired("g-prior", columns=4)
    table = wv.compare_priors(wv.exact(case.problem(noise=wv.KnownVariance(1.0))))
    assert not any("HyperG" in slab for slab in table.index.get_level_values(0))
    assert any("BIC" in slab for slab in table.index.get_level_values(0))
    with pytest.raises(DataError, match="unknown noise variance only"):
        wv.compare_priors(wv.exact(case.problem(noise=wv.KnownVariance(1.0))), [wv.HyperG()])
    # g = n is the same prior as its number, and is not compared with itself
    table = wv.compare_priors(
        wv.exact(case.problem(slab=wv.GPrior(21.0))), [wv.GPrior("n")], [wv.BetaBinomial(size=2)]
    )
    assert len(table) == 1


def test_what_is_refused():
    posterior = wv.exact(make_paired("g-prior", columns=4).problem())
    with pytest.raises(DataError, match="takes a Posterior"):
        wv.compare_priors(posterior.problem)
    with pytest.raises(DataError, match="without a condition"):
        wv.compare_priors(posterior.given(include=[0]))
    with pytest.raises(DataError, match="runs must be"):
        wv.compare_priors(posterior, runs="all")
    with pytest.raises(ArgumentTypeError, match="slab must be one of"):
        wv.compare_priors(posterior, ["g"])


def test_picture():
    posterior = wv.exact(make_paired("g-prior", columns=4).problem())
    table = wv.compare_priors(posterior, variables=range(4))
    ax = wv.plot_priors(table)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["x0", "x1", "x2", "x3"]
    drawn = np.concatenate([line.get_xdata() for line in ax.lines if len(line.get_xdata()) == 4])
    for value in table[["x0", "x1", "x2", "x3"]].to_numpy().ravel():
        assert np.abs(drawn - value).min() < 1e-12
    with pytest.raises(ArgumentTypeError, match="compare_priors"):
        wv.plot_priors(posterior)


def test_priors_that_are_written_alike_have_rows_of_their_own():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    posterior = wv.exact(
        wv.Problem(X, 0.5 * X[:, 0] + rng.normal(size=60), model_prior=wv.BetaBinomial(1, 1))
    )
    slabs = [wv.CorrelatedNormal(scale * np.eye(3)) for scale in (0.1, 1.0, 50.0)]
    table = wv.compare_priors(posterior, slabs, [wv.BetaBinomial(1, 1)])
    assert len(table) == 4
    names = [f"CorrelatedNormal(3 columns){number}" for number in ("", " (2)", " (3)")]
    for name, slab in zip(names, slabs):
        want = wv.exact(posterior.problem.with_priors(slab=slab)).pip
        assert table.xs(name, level="slab")[["x0", "x1", "x2"]].to_numpy()[0] == pytest.approx(want, abs=1e-9)


def test_marginal_likelihoods_are_computed_once_for_each_slab(monkeypatch: pytest.MonkeyPatch) -> None:
    """They do not depend on the prior on models. Every number is as that of ``reweight``, which computes them anew."""
    from whichvars.posterior import marginals

    data = wv.datasets.load_uscrime()
    posterior = wv.sample(wv.Problem(data.X, data.y), wv.Hybrid(), draws=4000, seed=1, progress=False)
    slabs = [wv.GPrior(47.0), wv.HyperG()]
    priors = [wv.FixedInclusion(h=0.5), wv.BetaBinomial(1, 1), wv.BetaBinomial(size=3.0)]
    asked: list[str] = []
    compute = marginals.log_marginals_of

    def counted(problem: wv.Problem, members: np.ndarray, start: np.ndarray) -> np.ndarray:
        asked.append(f"{problem.slab} {members.tobytes()!r} {start.tobytes()!r}")
        return compute(problem, members, start)

    monkeypatch.setattr(marginals, "log_marginals_of", counted)
    table = wv.compare_priors(posterior, slabs, priors, runs="none")
    assert len(asked) == len(set(asked)) > 0
    for slab in slabs:
        for prior in priors:
            alone = posterior.reweight(slab=slab, model_prior=prior)
            row = table.loc[(repr(slab), repr(prior))]
            assert row["mean_size"] == alone.mean_size
            assert row["log_evidence"] == alone.log_evidence
    before = len(asked)
    posterior.reweight(slab=slabs[0])
    assert len(asked) > before  # nothing is remembered outside
