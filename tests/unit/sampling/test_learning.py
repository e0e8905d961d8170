"""What samplers learn for each variable is recorded along the run, at points that depend on the number of iterations alone."""

import dataclasses
from pathlib import Path

import matplotlib
import numpy as np
import pytest

matplotlib.use("Agg")

import whichvars as wv
from support.cases import eight_variables
from whichvars.sampling import learning
from whichvars.sampling.learning import next_point

pytestmark = pytest.mark.filterwarnings("ignore::whichvars.ConvergenceWarning")  # runs are short
KEYS = (
    "iterations_along_run",
    "variables_along_run",
    "add_probability_along_run",
    "delete_probability_along_run",
)
OLD = Path(__file__).parents[2] / "reference" / "posterior_b42f46d.npz"


def run(sampler, iterations, **options):
    """`iterations` of each chain, 200 of them in warm-up."""
    draws = (iterations - 200) * sampler.chains
    options = {"warmup": 200 * sampler.chains, "replicates": 2, "seed": 5, "progress": False} | options
    return wv.sample(eight_variables(), sampler, draws=draws, **options)


@pytest.mark.parametrize(("chains", "first", "each"), [(1, [0, 64, 90, 128], 2), (5, [0, 64, 128, 256], 1)])
def test_points_for_every_doubling(chains, first, each):
    points = [0]
    while points[-1] < 1 << 40:
        points.append(next_point(points[-1], chains))
    assert points[:4] == first
    assert set(points) > {64 << k for k in range(30)}
    assert len(points) == 2 + each * 34
    assert all(next_point(later - 1, chains) == later for later in points[1:])


@pytest.mark.parametrize(
    "sampler",
    [
        wv.IndividualAdaptation(),
        wv.IndividualAdaptation(w=0.0, chains=3, merge_every=50),
        wv.ASI(chains=2, adapt="always"),
        wv.ParallelTempering(rungs=2),
    ],
    ids=["RAPA", "IA with three chains", "ASI", "tempering"],
)
def test_the_record_at_a_point_is_what_a_run_of_that_length_has_learned(sampler):
    long = run(sampler, 1000)
    for iterations in (256, 512):
        short = run(sampler, iterations)
        for replicate, (part, whole) in enumerate(zip(short.adaptation, long.adaptation)):
            at = list(whole["iterations_along_run"]).index(iterations)
            for which in ("add", "delete"):
                learned = np.atleast_2d(part[f"{which}_probability"])[-1].astype(np.float32)
                np.testing.assert_array_equal(
                    whole[f"{which}_probability_along_run"][at], learned, str(replicate)
                )
    first, last = (long.adaptation[0]["add_probability_along_run"][i] for i in (0, -1))
    assert (first != last).all()
    np.testing.assert_array_equal(
        last, np.atleast_2d(long.adaptation[0]["add_probability"])[-1].astype(np.float32)
    )
    assert long.adaptation[0]["iterations_along_run"][-1] == 1000


def test_records_depend_on_neither_chunks_nor_threads_nor_stops(tmp_path):
    sampler = wv.IndividualAdaptation(chains=2, merge_every=70)
    whole = run(sampler, 1000)
    others = [run(sampler, 1000, chunk=17, threads=1), run(sampler, 1000, chunk=5000, threads=4)]
    half = run(sampler, 470, checkpoint=tmp_path / "run")
    others.append(wv.extend(half, draws=2 * 530, progress=False))
    others.append(wv.resume(tmp_path / "run", progress=False))
    for other in others:
        np.testing.assert_array_equal(other.pip, whole.pip)
        for a, b in zip(other.adaptation, whole.adaptation, strict=True):
            for key in KEYS:
                np.testing.assert_array_equal(a[key], b[key])


def test_the_table_has_a_row_for_each_replicate_point_and_variable(tmp_path):
    posterior = run(wv.IndividualAdaptation(), 600)
    posterior.save(tmp_path / "posterior.npz")
    again = wv.Posterior.load(tmp_path / "posterior.npz")
    table = again.adaptation_along_run()
    learned = posterior.adaptation[1]
    one = table[(table["replicate"] == 1) & (table["variable"] == posterior.problem.names[3])]
    np.testing.assert_array_equal(one["iteration"], learned["iterations_along_run"])
    np.testing.assert_array_equal(one["add_probability"], learned["add_probability_along_run"][:, 3])
    np.testing.assert_array_equal(one["delete_probability"], learned["delete_probability_along_run"][:, 3])
    assert len(table) == sum(part["add_probability_along_run"].size for part in posterior.adaptation)


def test_the_most_probable_variables_are_kept(monkeypatch):
    whole = run(wv.IndividualAdaptation(), 600)
    monkeypatch.setattr(learning, "KEPT_VARIABLES", 3)
    posterior = run(wv.IndividualAdaptation(), 600)
    best = np.sort(np.argsort(-posterior.pip, kind="stable")[:3])
    np.testing.assert_array_equal(posterior.adaptation[0]["variables_along_run"], best)
    np.testing.assert_array_equal(
        posterior.adaptation[0]["delete_probability_along_run"],
        whole.adaptation[0]["delete_probability_along_run"][:, best],
    )
    assert set(posterior.adaptation_along_run()["variable"]) == {posterior.problem.names[j] for j in best}


def test_posteriors_without_a_record_say_so(monkeypatch):
    exact = wv.exact(eight_variables())
    old = wv.Posterior.load(OLD)
    swaps = run(wv.AddDeleteSwap(), 600)
    for posterior in (exact, old, swaps):
        with pytest.raises(wv.DataError, match=r"no record.*IndividualAdaptation\(\)"):
            posterior.adaptation_along_run()
        with pytest.raises(wv.DataError, match="nothing to draw"):
            wv.plot_adaptation(posterior, show="along_run")
    monkeypatch.setattr(learning, "MOST_VARIABLES", 7)
    unrecorded = run(wv.IndividualAdaptation(), 600)
    assert not set(KEYS) & set(unrecorded.adaptation[0])
    with pytest.raises(wv.DataError, match="was not recorded"):
        wv.plot_adaptation(unrecorded, show="along_run")


def test_the_picture_has_a_panel_for_each_variable():
    posterior = run(wv.IndividualAdaptation(), 1000)
    ax = wv.plot_adaptation(posterior, show="along_run", top=5)
    best = np.argsort(-posterior.pip, kind="stable")[:5]
    assert len(ax.child_axes) == 5
    for panel, j in zip(ax.child_axes, best):
        assert panel.get_title().startswith(posterior.problem.names[j])
        drawn = [line.get_ydata() for line in panel.lines]
        assert len(drawn) == 4
        learned = posterior.adaptation[0]
        np.testing.assert_array_equal(drawn[0], learned["add_probability_along_run"][:, j])
        np.testing.assert_array_equal(drawn[1], learned["delete_probability_along_run"][:, j])
    assert "Do not trust" in ax.get_legend().get_title().get_text() or posterior.converged
    wrong = dataclasses.replace(posterior, mcse=np.full(posterior.problem.p, 0.2))
    assert "Do not trust" in wv.plot_adaptation(wrong, show="along_run").get_legend().get_title().get_text()
    short = wv.sample(eight_variables(), wv.IndividualAdaptation(), draws=20, warmup=0, progress=False)
    with pytest.raises(wv.DataError, match="too short for a record"):
        wv.plot_adaptation(short, show="along_run")
