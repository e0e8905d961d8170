"""Numbers to judge a run by, the verdict, and both in words."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from arviz_stats.base import array_stats

import whichvars as wv
from support.paired import make_paired
from whichvars.posterior import diagnostics
from whichvars.posterior.diagnostics import disagreement, r_hat_of_means, renormalised_pips
from whichvars.posterior.moving import move_rows
from whichvars.posterior.posterior import Models
from whichvars.posterior.replicates import combine_replicates
from whichvars.sampling import sample as sampling


@pytest.fixture(scope="module")
def run():
    case = make_paired("g-prior", n=30, columns=8, seed=3)
    problem = case.problem(model_prior=wv.FixedInclusion(h=0.4))
    return wv.sample(problem, wv.AddDeleteSwap(), draws=20_000, seed=4, progress=False)


def stuck(run, pips, variables=(0,)):
    """The same run, had its replicates said this of a variable."""
    means = run.replicate_pips.copy()
    means[:, list(variables)] = np.array(pips)[:, None]
    pip, mcse = combine_replicates(means, run.replicate_variances, 31)
    return replace(run, pip=pip, mcse=mcse, frequencies=pip, replicate_pips=means)


def test_table_has_all_that_is_known(run):
    table = run.diagnostics()
    assert table.index[:2].tolist() == ["(model size)", "(log posterior)"]
    moves = table.index[2:-8].tolist()
    assert moves == ["(mutation rate)", *(f"(acceptance: {kind})" for kind in ("add", "delete", "swap"))]
    for j, name in enumerate(run.problem.names):
        row = table.loc[name]
        assert row["estimate"] == run.pip[j]
        assert row["mcse"] == run.mcse[j]
        assert (row["lowest"], row["highest"]) == (
            run.replicate_pips[:, j].min(),
            run.replicate_pips[:, j].max(),
        )
    assert table.loc["(model size)", "estimate"] == run.mean_size
    assert (table["note"].drop(moves) == "").all()
    assert table["r_hat"].drop(moves).between(0.99, 1.02).all()


def test_how_often_a_sampler_moved_in_words(run):
    table = run.diagnostics()
    rates = [learned["mutation_rate"] for learned in run.adaptation]
    row = table.loc["(mutation rate)"]
    assert (row["estimate"], row["lowest"], row["highest"]) == (np.mean(rates), min(rates), max(rates))
    assert row["note"] == f"the model changed in {100 * np.mean(rates):.3g} % of the iterations"
    swaps = np.mean([learned["acceptance"]["swap"] for learned in run.adaptation])
    assert (
        table.loc["(acceptance: swap)", "note"]
        == f"{100 * swaps:.3g} % of the proposals to swap one for another were accepted"
    )
    assert np.isnan(row[["mcse", "ess", "r_hat", "frequency"]].to_numpy(float)).all()


def test_rates_of_proposals_that_change_several_variables():
    learned = [
        {"mutation_rate": 0.2, "changes_proposed": [50, 30, 20], "acceptance_by_changes": [1.0, 0.5, 0.25], "swap_rates": [0.1, 0.3]},
        {"mutation_rate": 0.4, "changes_proposed": [0, 100], "acceptance_by_changes": [np.nan, 0.4], "swap_rates": [0.3, 0.5]},
    ]  # fmt: skip
    rows = {row["name"]: row for row in move_rows(learned)}
    assert list(rows) == ["(mutation rate)", "(acceptance rate)", "(exchange rate)"]
    assert (rows["(acceptance rate)"]["lowest"], rows["(acceptance rate)"]["highest"]) == (0.4, 0.4)
    assert rows["(acceptance rate)"]["note"] == (
        "40 % of the proposals that change the model were accepted; they change 1.2 variables on average"
    )
    assert rows["(exchange rate)"]["note"] == (
        "neighbouring temperatures exchanged their models in 30 % of the attempts, the rarest pair in 20 %"
    )


def test_moves_that_were_not_possible_have_no_rate():
    kinds = {"scaled": 0.5, "add/delete/swap": 0.2, "stand-in": 0.0, "mode jump": 0.0, "size": 0.0}
    rows = move_rows(
        [{"acceptance": kinds, "stand_ins": 0, "modes": 1}, {"acceptance": kinds, "stand_ins": 0, "modes": 2}]
    )
    assert [row["name"] for row in rows] == [
        f"(acceptance: {kind})" for kind in ("scaled", "add/delete/swap", "mode jump")
    ]
    assert move_rows([{"mean_rate": 3.0}]) == []


def test_whole_rows_are_those_of_arviz(run):
    chains = run.trace.groupby("replicate")["size"].apply(np.array)
    values = np.stack([c[-min(map(len, chains)) :] for c in chains]).astype(float)
    row = run.diagnostics().loc["(model size)"]
    assert row["r_hat"] == pytest.approx(float(array_stats.rhat(values, chain_axis=0, draw_axis=1)))
    assert row["ess"] == pytest.approx(
        float(array_stats.ess(values, chain_axis=0, draw_axis=1, method="bulk"))
    )


def test_r_hat_of_indicators_is_that_of_their_draws():
    rng = np.random.default_rng(0)
    means = np.array([[0.1], [0.3], [0.2], [0.6]])
    found = r_hat_of_means(means)
    draws = (rng.permuted(np.tile(np.arange(1000) / 1000, (4, 1)), axis=1) < means).astype(float)
    assert found[0] == pytest.approx(
        float(array_stats.rhat(draws, chain_axis=0, draw_axis=1, method="identity")), rel=1e-2
    )
    assert np.isnan(r_hat_of_means(np.zeros((4, 1)))[0])
    assert r_hat_of_means(np.array([[0.0], [1.0]]))[0] == np.inf
    assert r_hat_of_means(means[:1]) is None


def test_renormalised_is_the_exact_answer_once_every_model_was_visited(run):
    exact = wv.exact(run.problem)
    assert len(run.models.members) > 200  # of 256
    np.testing.assert_allclose(renormalised_pips(run.models, 8), exact.pip, atol=1e-3)
    np.testing.assert_array_equal(run.diagnostics().loc[run.problem.names, "frequency"], run.frequencies)


# --- variables that never moved


def test_never_visited_has_a_bound_and_not_an_error_of_zero(run):
    never = stuck(run, [0.0] * 4)
    never = replace(never, mcse=np.where(never.pip == 0, np.nan, never.mcse))
    table = never.diagnostics()
    ess = [*table["ess"].iloc[:2], np.median(never.inclusion_ess.dropna())]
    assert table.loc["x0", "note"] == f"never visited; below {3 / min(ess):.2g}"
    assert np.isnan(table.loc["x0", "mcse"])
    assert (
        f"1 variable never came up; with 95 % confidence it has a probability below {3 / min(ess):.2g}"
        in never.explain()
    )
    always = stuck(run, [1.0] * 4)
    assert always.diagnostics().loc["x0", "note"].startswith("never left; 1 less at most")


def test_rao_blackwell_is_no_sight(run):
    """What was never visited is told from the counts, also where another estimate is reported."""
    counts = run.frequencies.copy()
    counts[2] = 0.0
    other = replace(run, frequencies=counts, rao_blackwell=run.pip)
    assert other.diagnostics().loc["x2", "note"].startswith("never visited")
    assert "averages of conditional probabilities (Rao–Blackwell)" in other.explain()


# --- verdict


def test_converged_is_what_sample_warns_of(run):
    assert run.converged
    assert wv.exact(run.problem).converged
    assert not stuck(run, [0.0, 0.4, 0.9, 0.2]).converged
    limit = replace(run, mcse=np.full(8, diagnostics.ACCEPTABLE))
    assert not any("not accurate yet" in reason for reason in diagnostics.doubts(limit))


def test_disagreement_has_the_number_and_the_remedy(run):
    assert disagreement(run) == ""
    apart = stuck(run, [0.05, 0.9, 0.1, 0.2])
    text = disagreement(apart)
    assert (
        "replicates disagree on 1 variable, most on 'x0': inclusion probabilities from 0.05 to 0.90" in text
    )
    assert "ParallelTempering()" in text
    assert apart.diagnostics().loc["x0", "note"] == "replicates disagree"
    assert text in apart.explain()
    assert apart.explain().startswith(
        "Do not trust these numbers yet: inclusion probabilities are not accurate yet"
    )
    with pytest.warns(wv.ConvergenceWarning) as caught:
        sampling._warn_of_trouble(apart)
    (warning,) = caught  # one and not two
    assert text in str(warning.message)
    assert "'x0' has a Monte Carlo error of" in str(warning.message)


# --- words


def test_explanation_of_a_good_run(run):
    text = replace(run, chosen="p is small", stopped="target_mcse").explain()
    names = [run.problem.names[j] for j in np.argsort(-run.pip) if run.pip[j] >= 0.5]
    assert f"{len(names)} variables of 8 are more likely in than out: {', '.join(names)}." in text
    assert (
        f"AddDeleteSwap made {run.iterations:,} iterations in 4 independent runs and stopped because every"
        in text
    )
    assert "Why AddDeleteSwap: p is small." in text
    worst = int(run.mcse.argmax())
    assert f"Accurate enough: the least accurate probability is that of {run.problem.names[worst]!r}" in text
    assert f"Monte Carlo error of {run.mcse[worst]:.2g}" in text


@pytest.mark.parametrize(
    ("stopped", "words"),
    [
        ("draws", "as many as were asked for"),
        ("budget", "the time was up"),
        ("interrupted", "was interrupted"),
    ],
)
def test_why_it_stopped(run, stopped, words):
    assert words in replace(run, stopped=stopped).explain()


def test_explanation_of_an_exact_answer(run):
    text = wv.exact(run.problem).explain()
    assert "All 256 models were looked at" in text
    assert "Accurate" not in text


def test_explanation_of_a_run_that_never_moved(run):
    still = replace(run, mcse=np.full(8, np.nan))
    assert still.explain().startswith("Do not trust these numbers yet: nothing moved")
    assert repr(still).startswith("NOT TO BE TRUSTED YET")
    assert "unknown Monte Carlo error" in repr(still)


def test_explanation_of_a_reweighted_run(run):
    text = run.reweight(model_prior=wv.FixedInclusion(h=0.3)).explain()
    assert "given new weights" in text
    assert "effective draws are left" in text


@pytest.mark.parametrize(
    "options",
    [
        {"replicates": 1, "draws": 2000},
        {"replicates": 2, "draws": 3},
        {"sampler": wv.SequentialMonteCarlo(particles=200, steps=3)},
        {"sampler": wv.IndividualAdaptation(chains=3), "draws": 3000},
        {"sampler": wv.ParallelTempering(), "draws": 2000},
    ],
)
@pytest.mark.filterwarnings("ignore::whichvars.errors.ConvergenceWarning")
def test_every_kind_of_run_can_be_asked(run, options):
    posterior = wv.sample(run.problem, seed=1, progress=False, **options)
    assert isinstance(posterior.diagnostics(), pd.DataFrame)
    for text in (posterior.explain(), posterior.methods(), repr(posterior), posterior.to_latex()):
        assert "nan" not in text.lower().replace("nan.", "")
    assert posterior.converged in (True, False)
    posterior.sensitivity()
    posterior.reweight(model_prior=wv.FixedInclusion(h=0.39))
    posterior.clusters()


def test_stand_ins_are_named_and_only_if_the_numbers_can_be_trusted() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 5))
    X[:, 1] = X[:, 0] + 0.02 * rng.normal(size=300)
    y = 0.5 * X[:, 0] + rng.normal(size=300)
    problem = wv.Problem(X, y, slab=wv.GPrior("n"), model_prior=wv.FixedInclusion(0.2))
    exact = wv.exact(problem, progress=False)
    together = exact.probability_any(["x0", "x1"])
    assert exact.pip.max() < 0.95 < together
    line = (
        f"at least one of them is in with probability {100 * together:.1f} %"
        if together < 0.9995
        else "above 99.9 %"
    )
    assert (
        "x0 and x1 stand in for one another: " in exact.explain() or "x1 and x0 stand in" in exact.explain()
    )
    assert line in exact.explain()
    doubtful = replace(exact, reweighting_ess=12.0)
    assert not doubtful.converged
    assert "stand in" not in doubtful.explain()
    alone = wv.exact(wv.Problem(X[:, 1:], y, slab=wv.GPrior("n")), progress=False)
    assert "stand in" not in alone.explain()


def test_the_error_of_thinning_is_that_of_a_thinned_sample():
    """Two models are listed with their shares of all draws; the others come from a record. The second variable is in none of the listed
    models, so that its q among the others is six times its inclusion probability."""
    rng = np.random.default_rng(11)
    members = [(0,), (), (0, 1), (1,), (0, 2), (2,)]
    mass = np.array([0.5, 0.33, 0.04, 0.03, 0.06, 0.04])
    inside = np.array([[j in model for j in range(3)] for model in members], float)
    listed = Models(members[:2], np.zeros(2), np.zeros(2), mass[:2])
    recorded, runs = 2000, 4000
    others = rng.multinomial(recorded, mass, size=runs)[:, 2:]
    # what is not listed is shared out by the record
    shares = 0.17 * others / others.sum(axis=1, keepdims=True)
    estimates = mass[:2] @ inside[:2] + shares @ inside[2:]
    claimed = diagnostics.thinning_error(mass @ inside, listed, recorded)
    actual = estimates.std(axis=0)
    assert np.abs(actual / claimed - 1).max() < 5 / np.sqrt(2 * runs)


@pytest.mark.filterwarnings("ignore::whichvars.ConvergenceWarning")
def test_estimates_that_agree_are_not_said_to_differ_by_a_number() -> None:
    """A variable without which nothing can be explained: all estimates of its probability are 1."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(400, 2))
    posterior = wv.sample(wv.Problem(X, X @ [30, 20] + rng.normal(size=400)), wv.Hybrid(), draws=1000, seed=0, progress=False)  # fmt: skip
    assert "differ by less than 0.001 from those by exact ratios" in posterior.explain()
    faint = wv.sample(wv.Problem(X, rng.normal(size=400)), wv.AddDeleteSwap(), draws=1000, seed=0, progress=False)  # fmt: skip
    away = np.abs(faint.rao_blackwell - faint.frequencies).max()
    assert f"by up to {away:.3f} from averages of conditional probabilities" in faint.explain()
