"""Plots: what is drawn is what the posterior says, names never overlap, and what cannot be drawn is said."""

import dataclasses
import subprocess
import sys
from itertools import pairwise

import matplotlib
import numpy as np
import pandas as pd
import pytest

matplotlib.use("Agg")
from matplotlib import pyplot
from matplotlib.text import Text

import whichvars as wv
from whichvars.plots.drawing import (
    MARGIN,
    fix_layout,
    log_ticks,
    name_points,
    new_axes,
    off_screen,
    thousands,
)
from whichvars.plots.effects import _standardised_components, _t_density, _write_numbers, correlations
from whichvars.plots.variables import NARROWEST, NOTABLE, STRIP_ROWS

pytestmark = pytest.mark.filterwarnings("ignore::whichvars.ConvergenceWarning")  # runs are short
ALWAYS = [
    wv.plot_inclusion,
    wv.plot_models,
    wv.plot_model_size,
    wv.plot_coefficients,
    wv.plot_correlation,
    wv.plot_jointness,
]


@pytest.fixture(scope="module")
def crime():
    data = wv.datasets.load_uscrime()
    return wv.Problem(data.X, data.y, slab=wv.GPrior(47), model_prior=wv.FixedInclusion(h=0.5))


@pytest.fixture(scope="module")
def exact(crime):
    return wv.exact(wv.Problem(*wv.datasets.load_uscrime()[:2], slab=wv.GPrior(47), max_size=4))


@pytest.fixture(scope="module")
def sampled(crime):
    return wv.sample(crime, wv.AddDeleteSwap(), draws=4000, replicates=2, progress=False)


@pytest.fixture(scope="module")
def adapted(crime):
    return wv.sample(crime, wv.IndividualAdaptation(), draws=4000, replicates=2, progress=False)


@pytest.fixture(scope="module")
def wide():
    """More variables than have room for a row each; three matter, and one of them always."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 300))
    y = X[:, 7] * 3 + X[:, 8] * 0.35 + X[:, 200] * 0.3 + rng.normal(size=80)
    problem = wv.Problem(X, y, model_prior=wv.FixedInclusion(size=3))
    return wv.sample(problem, wv.AddDeleteSwap(), draws=4000, replicates=2, progress=False)


@pytest.fixture(scope="module")
def grouped():
    """A factor of three levels beside two columns, one with a name that matplotlib could take for mathematics."""
    rng = np.random.default_rng(1)
    level = rng.integers(0, 3, 60)
    frame = pd.DataFrame({"b": level == 1, "c": level == 2, "$x^{$": rng.normal(size=60)}, dtype=float)
    frame["near b"] = frame["b"] + 0.1 * rng.normal(size=60)
    y = 2 * frame["b"] - frame["c"] + rng.normal(size=60)
    return wv.exact(wv.Problem(frame, y, groups={"site": ["b", "c"]}))


@pytest.fixture(autouse=True)
def close_figures():
    yield
    pyplot.close("all")


def labels(ax, axis="y"):
    return [t.get_text() for t in (ax.get_yticklabels() if axis == "y" else ax.get_xticklabels())]


def render(ax):
    ax.figure.canvas.draw()


@pytest.mark.parametrize("plot", ALWAYS)
@pytest.mark.parametrize("which", ["exact", "sampled", "wide", "grouped"])
def test_every_kind_of_posterior_can_be_drawn_on_new_axes_and_on_given_ones(plot, which, request):
    posterior = request.getfixturevalue(which)
    render(plot(posterior))
    _, ax = pyplot.subplots()
    assert plot(posterior, ax) is ax


def test_inclusion_rows_are_sorted_and_have_two_standard_errors(sampled):
    ax = wv.plot_inclusion(sampled)
    order = np.argsort(-sampled.pip, kind="stable")
    assert labels(ax) == [sampled.problem.names[j] for j in order]
    (container,) = ax.containers
    points, _, (bars,) = container
    np.testing.assert_allclose(points.get_xdata(), sampled.pip[order])
    ends = np.array([segment[:, 0] for segment in bars.get_segments()])
    low, high = sampled.pip - 2 * sampled.mcse, sampled.pip + 2 * sampled.mcse
    np.testing.assert_allclose(ends, np.clip(np.column_stack([low, high]), 0, 1)[order])


def test_exact_probabilities_have_no_error_bars(exact):
    (container,) = wv.plot_inclusion(exact).containers
    assert not container.has_xerr


def test_a_variable_that_never_moved_is_hollow(wide):
    assert np.isnan(wide.mcse[7]), "else this test tests nothing"
    assert wide.pip[7] == 1
    containers = {c.get_label(): c for c in wv.plot_inclusion(wide).containers}
    hollow = containers["never moved"][0]
    assert hollow.get_xdata().tolist() == [8]
    assert hollow.get_markerfacecolor() == "white"


def test_many_variables_stand_in_the_order_of_x_and_only_notable_ones_are_named(wide):
    ax = wv.plot_inclusion(wide)
    assert ax.texts[0].get_text() == wide.problem.names[7]
    assert len(ax.texts) <= (wide.pip >= NOTABLE).sum()
    drawn = np.concatenate([line.get_xdata() for line in ax.lines if len(line.get_xdata()) != 2])
    assert set(range(1, 301)) <= set(drawn.astype(int))


def test_top_asks_for_rows(wide):
    assert labels(wv.plot_inclusion(wide, top=4)) == wide.summary().index[:4].tolist()


@pytest.mark.parametrize("seed", range(5))
def test_names_beside_points_never_overlap(seed):
    rng = np.random.default_rng(seed)
    _, ax = pyplot.subplots(figsize=(5, 3), layout="constrained")
    x, y = rng.random(60), rng.random(60) ** 3
    ax.plot(x, y, "o")
    written = name_points(ax, x, y, [f"variable_{i}" for i in range(60)])
    render(ax)
    boxes = np.array([Text.get_window_extent(t).extents for t in ax.texts])  # without their lines
    assert 5 < len(boxes) == len(written) < 60
    for i, a in enumerate(boxes):
        for b in boxes[:i]:
            assert (a[:2] >= b[2:] - 1).any() or (a[2:] <= b[:2] + 1).any()


@pytest.mark.parametrize("plot", ALWAYS)
@pytest.mark.parametrize("which", ["sampled", "wide", "grouped"])
def test_what_is_drawn_for_a_report_fills_its_figure_and_stays_inside(plot, which, request):
    with off_screen():
        figure = plot(request.getfixturevalue(which)).figure
        fix_layout(figure)
        figure.canvas.draw()
    seen, whole = figure.get_tightbbox().extents, np.array([0, 0, *figure.get_size_inches()])
    gap = (seen - whole) * [1, 1, -1, -1]
    assert gap.min() > 0, "nothing is cut off"
    assert gap.min() < 1.5 * MARGIN, "no larger than need be"


def test_models_are_columns_and_colours_signs(exact):
    ax = wv.plot_models(exact, models=5, variables=4)
    rows = labels(ax)
    table = exact.top_models(5)
    drawn = 0
    for boxes in ax.collections:
        sign = {"in, positive": 1, "in, negative": -1}.get(boxes.get_label())
        if sign is None:
            continue  # the lines between rows
        for corners in (path.vertices for path in boxes.get_paths()):
            row = rows[round(corners[:, 1].min() + 0.43)]
            model = sum(corners[:, 0].min() >= edge - 1e-9 for edge in model_edges(exact, 5)) - 1
            assert row in table["variables"].iloc[model].split(", ")
            alone = wv.Posterior.coefficients(exact, None)["mean_included"][row]
            assert np.sign(alone) == sign
            drawn += 1
    assert drawn == sum(len(set(rows) & set(names.split(", "))) for names in table["variables"])


def model_edges(posterior, n):
    weight = posterior.models.frequency[:n] / posterior.models.frequency[:n].sum()
    width = np.maximum(weight, NARROWEST / n)
    return np.concatenate([[0], np.cumsum(width / width.sum())])[:n]


def test_groups_have_no_sign_and_a_row_for_each_column_among_coefficients(grouped):
    ax = wv.plot_models(grouped)
    assert "in, several columns" in [c.get_label() for c in ax.collections]
    assert {"b", "c", "$x^{$"} <= set(labels(wv.plot_coefficients(grouped)))


def test_model_size_draws_both_distributions(exact):
    ax = wv.plot_model_size(exact)
    heights = {round(bar.get_x() + 0.4): bar.get_height() for bar in ax.patches}
    for size, height in heights.items():
        assert height == exact.sizes[size]
    (prior,) = ax.lines
    np.testing.assert_allclose(prior.get_ydata(), exact.model_size["prior"].loc[prior.get_xdata()])


def error_bars(ax, label, axis=1):
    """Place → both ends of the error bars of this label, of which there is one set or none."""
    found = [c for c in ax.containers if c.get_label() == label]
    if not found:
        return {}
    (container,) = found
    assert container[0] is None, "bars alone, without points"
    (bars,) = container[2]
    return {round(float(s[0, 1 - axis]), 6): np.sort(s[:, axis]) for s in bars.get_segments()}


ERRORS = "± 2 Monte Carlo standard errors"


def test_model_sizes_have_two_standard_errors_where_they_can_be_seen(sampled):
    errors = sampled.sizes_mcse.copy()
    largest = int(np.argmax(sampled.sizes))
    errors[largest], errors[largest - 1] = 0.02, 1e-5
    posterior = dataclasses.replace(sampled, sizes_mcse=errors)
    bars = error_bars(wv.plot_model_size(posterior), ERRORS)
    np.testing.assert_allclose(bars[largest], sampled.sizes[largest] + [-0.04, 0.04])
    assert largest - 1 not in bars, "too short to be seen"
    assert min(low for low, _ in bars.values()) >= 0
    legend = [t.get_text() for t in wv.plot_model_size(sampled).get_legend().get_texts()]
    up = np.ceil(200 * sampled.mean_size_mcse) / 100
    assert f"posterior, mean {sampled.mean_size:.2f} ± {up:.2f}" in legend


@pytest.mark.parametrize("unknown", [None, np.full(16, np.nan)])
def test_model_sizes_of_unknown_error_have_no_bars(sampled, unknown):
    posterior = dataclasses.replace(sampled, sizes_mcse=unknown, replicate_pips=sampled.replicate_pips[:1])
    ax = wv.plot_model_size(posterior)
    assert not error_bars(ax, ERRORS)
    assert all("±" not in text.get_text() for text in ax.get_legend().get_texts())


def test_best_models_have_their_probabilities_beneath_them_where_errors_can_be_seen(sampled):
    n, models = 6, sampled.models
    probability = models.frequency[:n]
    shown = dataclasses.replace(models, mcse=0.1 * models.frequency)
    ax = wv.plot_models(dataclasses.replace(sampled, models=shown), models=n)
    rows = len(labels(ax))
    base = ax.get_ylim()[0]
    assert base == pytest.approx(rows - 0.5 + STRIP_ROWS)
    (bars,) = [c for c in ax.collections if c.get_label() == "probability"]
    heights = [base - path.vertices[:, 1].min() for path in bars.get_paths()]
    np.testing.assert_allclose(heights / heights[0], probability / probability[0])
    ends = list(error_bars(ax, ERRORS).values())
    np.testing.assert_allclose(
        [[base - high, base - low] for low, high in ends], np.outer(heights, [0.8, 1.2]), rtol=1e-9
    )
    assert min(low for low, _ in ends) > rows - 0.5, "not over the rows"
    for mcse in (1e-4 * models.frequency, np.full(len(models.frequency), np.nan), None):
        hidden = dataclasses.replace(sampled, models=dataclasses.replace(models, mcse=mcse))
        ax = wv.plot_models(hidden, models=n)
        assert ax.get_ylim()[0] == rows - 0.5
        assert not error_bars(ax, ERRORS)


def test_the_widths_of_models_are_their_probabilities(sampled):
    """Those that top_models shows: beside one another, no two numbers contradict."""
    ax = wv.plot_models(sampled, models=8)
    ends = np.unique([p.vertices[:, 0].round(9) for c in ax.collections if c.get_label() in ("in, positive", "in, negative") for p in c.get_paths()])  # fmt: skip
    for edge in model_edges(sampled, 8):
        assert np.abs(ends - edge).min() < 1e-8


def test_spikes_have_the_error_of_their_probability(sampled):
    names = ["Ed", "Time"]
    j = [sampled.problem.names.index(name) for name in names]
    mcse = sampled.mcse.copy()
    mcse[j] = 0.04, 1e-6
    posterior = dataclasses.replace(sampled, mcse=mcse)
    bars = error_bars(wv.plot_coefficients(posterior, names=names), f"{ERRORS} of it")
    out = 1 - sampled.pip[j[0]]
    ends = np.clip(out + np.array([0.08, -0.08]), 0, 1)
    assert len(bars) == 1
    np.testing.assert_allclose(bars[0.0], -0.85 * ends)


NOT_YET = "Do not trust these numbers yet: see explain()"


def note(ax):
    legend = ax.get_legend()
    return "" if legend is None else legend.get_title().get_text()


@pytest.mark.parametrize("plot", [*ALWAYS, wv.plot_trace, wv.plot_agreement])
def test_every_plot_of_what_is_not_to_be_trusted_says_so(plot, sampled):
    assert sampled.converged, "else this test tests nothing"
    doubtful = dataclasses.replace(sampled, mcse=np.full(15, 0.2))
    assert note(plot(sampled)) == ""
    ax = plot(doubtful)
    assert note(ax) == NOT_YET
    render(ax)
    legend, frame = ax.get_legend().get_window_extent(), ax.get_window_extent()
    assert legend.y0 >= frame.y1 - 1, "it hides nothing"
    with off_screen():
        figure = plot(doubtful).figure
        fix_layout(figure)
        figure.canvas.draw()
    title = figure.axes[0].get_legend().get_title().get_window_extent()
    assert title.x0 > 0
    assert title.y1 < figure.bbox.y1


def test_plots_of_samplers_say_so_too(adapted):
    doubtful = dataclasses.replace(adapted, mcse=np.full(15, 0.2))
    for show in ("odds", "probabilities", "mutation_rate"):
        assert note(wv.plot_adaptation(adapted, show=show)) == ""
        assert note(wv.plot_adaptation(doubtful, show=show)) == NOT_YET
    assert note(wv.plot_changes(doubtful)) == NOT_YET


def test_many_variables_that_are_not_to_be_trusted(wide):
    assert note(wv.plot_inclusion(dataclasses.replace(wide, mcse=np.full(300, 0.2)))) == NOT_YET


@pytest.mark.parametrize("plot", [wv.plot_models, wv.plot_model_size, wv.plot_coefficients])
def test_legends_do_not_squeeze_narrow_axes(plot, sampled):
    posterior = dataclasses.replace(
        sampled,
        mcse=np.full(15, 0.2),
        sizes_mcse=np.full(16, 0.05),
        models=dataclasses.replace(sampled.models, mcse=sampled.models.frequency),
    )
    figure, axes = pyplot.subplots(1, 2, figsize=(9, 4), layout="constrained")
    for ax in axes:
        plot(posterior, ax)
    figure.canvas.draw()
    for ax in axes:
        assert ax.get_position().width > 0.28
        assert ax.get_position().height > 0.4


@pytest.mark.parametrize("plot", ALWAYS)
def test_exact_posteriors_have_neither_errors_nor_doubts(exact, plot):
    ax = plot(exact)
    assert note(ax) == ""
    texts = [] if ax.get_legend() is None else [t.get_text() for t in ax.get_legend().get_texts()]
    assert all("±" not in text and text != "probability" for text in texts)


@pytest.mark.parametrize(
    ("slab", "noise"),
    [
        (wv.IndependentNormal(1), None),
        (wv.GPrior(2), None),
        (wv.HyperG(), None),
        (wv.GPrior(2), wv.KnownVariance(1.0)),
    ],
)
def test_densities_are_those_of_the_coefficient_table(slab, noise):
    """Mean and standard deviation given inclusion, by numerical integration of what is drawn."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(50, 4)) * [1, 2, 3, 4]
    problem = wv.Problem(X, X @ [0.6, 0.2, 0, -0.1] + 5 + rng.normal(size=50), slab=slab, noise=noise)
    posterior = wv.exact(problem)
    columns = list(range(4))
    parts = _standardised_components(posterior, columns)
    table = posterior.coefficients(interval=None).loc[problem.columns_used]
    unit = np.sqrt(problem.target(0).design.diagonal) * problem.column_units / problem._y_scale
    for c in columns:
        x = np.linspace(-3, 3, 20001)
        density = _t_density(x, *parts[c])
        density /= density.sum()
        mean = density @ x
        assert mean == pytest.approx(table["mean_included"].iloc[c] * unit[c], rel=1e-5)
        sd = np.sqrt(density @ (x - mean) ** 2)
        assert sd == pytest.approx(table["sd_included"].iloc[c] * unit[c], rel=1e-3)


def test_spikes_are_as_high_as_the_probability_of_zero(exact):
    ax = wv.plot_coefficients(exact, names=["Ed", "Time"])
    spikes = ax.collections[0].get_segments()
    heights = [abs(np.diff(s[:, 1])[0]) for s in spikes]
    out = 1 - exact.inclusion_probabilities[["Ed", "Time"]]
    np.testing.assert_allclose(heights, 0.85 * out)


def test_humps_stand_on_their_rows_and_are_as_high_as_the_probability_of_being_in(exact):
    ax = wv.plot_coefficients(exact, names=["Ed", "Time"])
    curves = next(c for c in ax.collections[1:] if hasattr(c, "get_segments")).get_segments()
    areas = next(c for c in ax.collections if not hasattr(c, "get_segments")).get_paths()
    assert len(curves) == len(areas) == 2
    for row, name in enumerate(["Ed", "Time"]):
        top = row - 0.85 * exact.inclusion_probabilities[name]
        assert curves[row][:, 1].min() == pytest.approx(top)
        assert areas[row].vertices[:, 1].min() == pytest.approx(top)
        assert areas[row].vertices[:, 1].max() == row


def test_correlations_are_numpys(exact):
    X = wv.datasets.load_uscrime().X
    ax = wv.plot_correlation(exact, top=6)
    names = labels(ax)
    assert names == labels(ax, "x")
    assert set(names) == set(exact.summary().index[:6])
    expected = np.corrcoef(X[names].to_numpy().T)
    np.testing.assert_allclose(ax.images[0].get_array().data, expected, atol=1e-12)


def test_no_correlation_is_minus_zero(exact):
    figure = wv.plot_correlation(exact, top=3).figure
    axes = figure.add_subplot()
    _write_numbers(axes, np.array([[1, -0.004, 0.5], [-0.004, 1, -0.31], [0.5, -0.31, 1]]), 1, 8)
    assert [text.get_text() for text in axes.texts] == [".00", ".50", ".00", "−.31", ".50", "−.31"]


def test_a_near_copy_is_not_called_a_copy(exact):
    axes = wv.plot_correlation(exact, top=3).figure.add_subplot()
    _write_numbers(axes, np.array([[1, 0.9951, 1], [0.9951, 1, -0.998], [1, -0.998, 1]]), 1, 8)
    assert [text.get_text() for text in axes.texts] == [">.99", "1", ">.99", "<−.99", "1", "<−.99"]


def test_clusters_are_kept_together_and_outlined(exact):
    names = exact.summary().index
    unlike, single, outside = [names[0], names[5], names[9]], [names[1]], [names[14]]
    ax = wv.plot_correlation(exact, top=12, clusters=[unlike, single, outside])
    place = sorted(labels(ax).index(name) for name in unlike)
    assert np.ptp(place) == 2
    (outline,) = ax.lines
    assert (outline.get_xdata().min(), outline.get_xdata().max()) == (place[0] - 0.5, place[-1] + 0.5)
    assert not wv.plot_correlation(exact, clusters=()).lines
    assert len(wv.plot_correlation(exact).lines) == (exact.clusters()["size"] > 1).sum() == 1
    with pytest.raises(wv.DataError, match="no such"):
        wv.plot_correlation(exact, clusters=[["no such"]])


def test_correlation_of_groups_is_canonical(grouped):
    frame_names = grouped.problem.names
    matrix = correlations(grouped.problem, np.arange(3))
    site, near = frame_names.index("site"), frame_names.index("near b")
    values = grouped.problem.target(0).design.gram
    # R² of the single column on the two of the group
    a, b = (np.arange(*grouped.problem.offsets[[j, j + 1]]) for j in (site, near))
    r2 = values[np.ix_(b, a)] @ np.linalg.solve(values[np.ix_(a, a)], values[np.ix_(a, b)]) / values[b, b]
    assert matrix[site, near] == pytest.approx(np.sqrt(r2.item()))
    assert matrix[site, near] > 0.9


def test_columns_engine_gives_the_same_correlations(exact):
    X, y = wv.datasets.load_uscrime()[:2]
    other = wv.Problem(X, y, slab=wv.GPrior(47), engine="columns")
    chosen = np.arange(15)
    np.testing.assert_allclose(correlations(other, chosen), correlations(exact.problem, chosen), atol=1e-12)


@pytest.mark.parametrize("show", ["size", "log_posterior"])
def test_traces_have_a_line_for_each_chain_and_a_mean_for_each_replicate(sampled, show):
    ax = wv.plot_trace(sampled, show=show)
    assert len(ax.lines) == 4
    first = sampled.trace[sampled.trace["replicate"] == 0]
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), first[show])
    assert len(ax.get_legend().get_texts()) == 2


@pytest.mark.parametrize("last", [160_000, 220_000, 9_000_000])
def test_long_numbers_do_not_touch(last):
    """The picture has the width that it has in reports."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.6, 3.4))
    ax = figure.subplots()
    ax.plot([0, last], [0, 1])
    thousands(ax)
    figure.canvas.draw()
    boxes = [
        label.get_window_extent() for label in ax.get_xticklabels() if 0 <= label.get_position()[0] <= last
    ]
    assert len(boxes) >= 3
    assert all(left.x1 + 4 < right.x0 for left, right in pairwise(boxes))


def test_agreement_draws_every_replicate(sampled):
    ax = wv.plot_agreement(sampled)
    moved = (sampled.replicate_pips > 0).any(axis=0)
    np.testing.assert_array_equal(ax.lines[1].get_ydata(), sampled.replicate_pips[0, moved])
    np.testing.assert_array_equal(ax.lines[2].get_ydata(), sampled.replicate_pips[1, moved])
    worst = sampled.problem.names[np.argmax(np.ptp(sampled.replicate_pips, axis=0))]
    assert worst in [t.get_text() for t in ax.texts]


def test_adaptation_shows_what_was_learned(adapted):
    inner = (adapted.pip > 0) & (adapted.pip < 1)
    learned = adapted.adaptation
    ax = wv.plot_adaptation(adapted)
    ratio = [part["add_probability"][inner] / part["delete_probability"][inner] for part in learned]
    np.testing.assert_allclose(ax.lines[0].get_ydata(), np.concatenate(ratio))
    ax = wv.plot_adaptation(adapted, show="probabilities")
    np.testing.assert_allclose(
        ax.lines[1].get_ydata(), np.concatenate([p["delete_probability"] for p in learned])
    )
    ax = wv.plot_adaptation(adapted, show="mutation_rate")
    np.testing.assert_allclose(ax.lines[1].get_ydata(), learned[1]["mutation_rate_along_run"])


def test_changes_are_shares_of_the_iterations(adapted):
    proposed, accepted = wv.plot_changes(adapted).containers
    assert sum(bar.get_height() for bar in proposed) == pytest.approx(1)
    assert sum(bar.get_height() for bar in accepted) < 1
    ones = sum(part["changes_accepted"][1] for part in adapted.adaptation)
    total = sum(part["changes_proposed"].sum() for part in adapted.adaptation)
    assert accepted[1].get_height() == pytest.approx(ones / total)


def test_ladders(crime):
    sampler = wv.ParallelTempering(rungs=3)
    posterior = wv.sample(crime, sampler, draws=1000, replicates=2, progress=False)
    ax = wv.plot_ladder(posterior)
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), posterior.adaptation[0]["temperatures"])
    rates = np.mean([part["swap_rates"] for part in posterior.adaptation], axis=0)
    np.testing.assert_allclose([bar.get_height() for bar in ax.patches], rates)
    learned = posterior.adaptation
    drawn = wv.plot_adaptation(posterior, show="probabilities").lines[0].get_ydata()
    np.testing.assert_array_equal(drawn, np.concatenate([part["add_probability"][-1] for part in learned]))
    assert note(wv.plot_ladder(dataclasses.replace(posterior, mcse=np.full(15, 0.2)))) == NOT_YET


def test_particles_have_steps_but_no_trace(crime):
    posterior = wv.sample(crime, wv.SequentialMonteCarlo(particles=50, steps=2), replicates=2, progress=False)
    ax = wv.plot_ladder(posterior)
    assert ax.lines[0].get_ydata()[-1] == 1
    with pytest.raises(wv.DataError, match="particles"):
        wv.plot_trace(posterior)


@pytest.mark.parametrize(
    ("plot", "needs"),
    [
        (wv.plot_trace, "trace"),
        (wv.plot_agreement, "replicates"),
        (wv.plot_adaptation, "IndividualAdaptation"),
        (wv.plot_changes, "Lamnisos"),
        (wv.plot_ladder, "ParallelTempering"),
    ],
)
def test_an_exact_posterior_has_nothing_of_a_sampler_to_draw(exact, plot, needs):
    with pytest.raises(wv.DataError, match=f"exact.*{needs}"):
        plot(exact)
    assert not pyplot.get_fignums(), "an error leaves no empty figure behind"


def test_what_a_sampler_does_not_learn_is_named(sampled):
    with pytest.raises(
        wv.DataError, match=r"AddDeleteSwap has no changes proposed; IndividualAdaptation\(\)"
    ):
        wv.plot_changes(sampled)


def test_samplers_that_learn_in_other_ways(crime):
    scaled = wv.sample(crime, wv.ASI(), draws=4000, replicates=2, progress=False)
    drawn = wv.plot_adaptation(scaled, show="probabilities").lines[0].get_ydata()
    np.testing.assert_array_equal(drawn, np.concatenate([p["add_probability"] for p in scaled.adaptation]))
    hybrid = wv.sample(crime, draws=2000, replicates=2, progress=False)
    with pytest.raises(
        wv.DataError, match=r"Hybrid has no add probability; IndividualAdaptation\(\) or ASI\(\)"
    ):
        wv.plot_adaptation(hybrid)
    with pytest.raises(wv.DataError, match="Hybrid has no changes proposed"):
        wv.plot_changes(hybrid)


def test_what_is_too_short_or_too_small_is_not_drawn(crime):
    posterior = wv.sample(crime, wv.IndividualAdaptation(), draws=1, warmup=0, replicates=2, progress=False)
    with pytest.raises(wv.DataError, match="too short for a trace"):
        wv.plot_trace(posterior)
    with pytest.raises(wv.DataError, match="too short for rates"):
        wv.plot_adaptation(posterior, show="mutation_rate")
    with pytest.raises(wv.DataError, match="a single variable has no correlations"):
        wv.plot_correlation(posterior, top=1)


def test_one_replicate_has_nothing_to_agree_with(crime):
    posterior = wv.sample(crime, wv.AddDeleteSwap(), draws=500, replicates=1, progress=False)
    with pytest.raises(wv.DataError, match="replicates=4"):
        wv.plot_agreement(posterior)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda q: wv.plot_inclusion(q.problem), wv.ArgumentTypeError, "not Problem"),
        (lambda q: wv.plot_inclusion(q, top=0), wv.DataError, "top must be at least 1"),
        (lambda q: wv.plot_models(q, models="all"), wv.ArgumentTypeError, "models must be a whole number"),
        (lambda q: wv.plot_inclusion(q, ax="here"), wv.ArgumentTypeError, "ax must be"),
        (lambda q: wv.plot_trace(q, show="sizes"), wv.DataError, "'size' or 'log_posterior'"),
        (lambda q: wv.plot_coefficients(q, names=["Edd"]), wv.DataError, "Edd"),
        (lambda q: wv.plot_coefficients(q, names=[]), wv.DataError, "names is empty"),
    ],
)
def test_wrong_arguments_are_named(sampled, call, error, words):
    with pytest.raises(error, match=words):
        call(sampled)


def test_without_matplotlib_the_message_names_the_extra(monkeypatch, exact):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(wv.MissingPackageError, match=r"whichvars\[report\]"):
        wv.plot_inclusion(exact)


@pytest.mark.parametrize("plot", [wv.plot_models, wv.plot_coefficients, wv.plot_correlation])
def test_a_narrow_figure_with_long_names_cuts_nothing(plot):
    """As a report for a phone has them."""
    data = wv.datasets.load_uscrime()
    names = [f"{name}, a name as long as they get" for name in data.X]
    high = data.y > data.y.median()
    problem = wv.Problem(data.X.set_axis(names, axis=1).iloc[:, :6], high, family="logistic")
    with off_screen(5.6):
        figure = plot(wv.exact(problem)).figure
        fix_layout(figure)
        figure.canvas.draw()
    assert figure.get_figwidth() <= 5.6
    seen, whole = figure.get_tightbbox().extents, np.array([0, 0, *figure.get_size_inches()])
    assert ((seen - whole) * [1, 1, -1, -1]).min() > 0


@pytest.mark.parametrize(("low", "high"), [(3e-7, 9e-7), (1.5e-6, 6e-5), (1e-6, 1e-1), (0.011, 0.7)])
@pytest.mark.parametrize("plain", [False, True])
def test_labels_of_a_logarithmic_axis_do_not_overlap(low, high, plain):
    ax = new_axes(None, 5.6, 2)
    ax.set(xscale="log", xlim=(low, high))
    log_ticks(ax, "x", plain)
    render(ax)
    boxes = [
        label.get_window_extent()
        for label, at in zip(
            ax.get_xticklabels(which="both"), ax.get_xticks().tolist() + ax.get_xticks(minor=True).tolist()
        )
        if low <= at <= high and label.get_text()
    ]
    assert len(boxes) >= 1
    boxes.sort(key=lambda box: box.x0)
    assert all(a.x1 < b.x0 for a, b in pairwise(boxes))


def test_importing_the_plots_does_not_import_matplotlib():
    code = "import sys, whichvars as wv; wv.plot_inclusion; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_room_is_left_for_labels_of_ticks_that_come_with_the_final_size():
    edges = []
    for highest in np.linspace(5, 40, 36):
        with off_screen():
            ax = new_axes(None, 8, 3.4)
            ax.plot([0, 1], [0.5, highest])
            ax.set(ylabel="number of variables", xlabel="iteration", title="a legend\nof three\nlines")
            figure = ax.get_figure(root=True)
            fix_layout(figure)
            edges.append(ax.get_tightbbox().x0 / figure.dpi)
    np.testing.assert_allclose(edges, MARGIN, atol=0.01)
