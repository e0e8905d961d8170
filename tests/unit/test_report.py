"""The report: what it says in words, that names cannot break it, and that it is written whole or not at all."""

import base64
import dataclasses
import errno
import json
import os
import re
import sys
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

import whichvars as wv
from whichvars import report
from whichvars.report import chart, figures, table, words
from whichvars.report.effects import effects_in_words, pooled_effects_in_words

pytestmark = pytest.mark.filterwarnings("ignore::whichvars.ConvergenceWarning")  # runs are short
NASTY = ["<script>alert(1)</script>", "</script><b>", "\"'&amp;", "$a$ $b$", "名前", "a\nb", "x" * 200]


@pytest.fixture(scope="module")
def exact():
    X, y = wv.datasets.load_uscrime()[:2]
    return wv.exact(wv.Problem(X, y, slab=wv.GPrior(47), max_size=4))


@pytest.fixture(scope="module")
def sampled():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(60, 7)), columns=NASTY)
    y = X.iloc[:, 0] + 0.8 * X.iloc[:, 1] + 0.3 * X.iloc[:, 3] + rng.normal(size=60)
    problem = wv.Problem(X, y)
    return wv.sample(problem, wv.IndividualAdaptation(), draws=4000, replicates=2, progress=False)


@pytest.fixture(scope="module")
def page(sampled):
    return report.render(sampled, title="A <b>title</b>")


def invented(posterior, pips, spread=0.004, mcse=0.001, replicates=2):
    """The posterior as if it had these inclusion probabilities."""
    p = posterior.problem.p
    pip = np.full(p, 0.001)
    pip[: len(pips)] = pips
    shift = np.linspace(-spread / 2, spread / 2, replicates)[:, None] * (np.arange(p) == 0)
    return dataclasses.replace(
        posterior, pip=pip, mcse=np.full(p, mcse), replicate_pips=pip + shift, warnings=(), adaptation=[],
        frequencies=None, settings={},
    )  # fmt: skip


AGREES = "independent runs agree to within .01."


@pytest.mark.parametrize(
    ("pips", "sentence"),
    [
        ([], "No variable stands out: none of the 7 variables has an inclusion probability of .1 or more; "),
        ([0.96], "One variable is almost certainly in the model; "),
        ([0.7], "No variable is almost certainly in the model; one is probably in; "),
        ([0.95, 0.99, 0.1, 0.2, 0.3, 0.4, 0.11], "Two variables are almost certainly in the model; five more are plausible; "),
        ([1.0, 0.5, 0.6, 0.2], "One variable is almost certainly in the model; two more are probably in; one more is plausible; "),
        ([0.2, 0.3], "No variable is almost certainly in the model; two are plausible; "),
    ],
)  # fmt: skip
def test_the_answer_counts_variables(sampled, pips, sentence):
    assert words.answer(invented(sampled, pips)) == sentence + AGREES


def test_the_answer_of_a_single_variable():
    rng = np.random.default_rng(0)
    posterior = wv.exact(wv.Problem(rng.normal(size=(30, 1)), rng.normal(size=30)))
    none = dataclasses.replace(posterior, pip=np.array([0.05]))
    assert words.answer(none).startswith("No variable stands out: the only variable has not an inclusion")


def test_the_answer_of_an_exact_posterior(exact):
    assert words.answer(exact).endswith("; the probabilities are exact.")
    verdict = words.verdict(exact)
    assert verdict.sound
    assert f"All {exact.iterations:,} models" in verdict.sentences[0]


def test_runs_that_differ_have_not_converged(sampled):
    posterior = invented(sampled, [0.9, 0.5], spread=0.312, mcse=0.16)
    assert words.answer(posterior) == (
        "Do not trust these numbers yet: independent runs differ by up to .32. "
        "So far, two variables have an inclusion probability of .5 to .95."
    )
    verdict = words.verdict(posterior)
    assert not verdict.sound
    text = " ".join(verdict.sentences)
    assert text.startswith("Do not trust these numbers yet: inclusion probabilities are not accurate yet")
    assert "Monte Carlo error of 0.16" in text
    assert "ParallelTempering()" in text


def test_tempering_is_not_advised_to_those_who_temper(sampled):
    posterior = invented(sampled, [0.5], spread=0.8, mcse=0.2)
    assert "or ParallelTempering()" in " ".join(words.verdict(posterior).sentences)
    posterior = dataclasses.replace(posterior, sampler="ParallelTempering(rungs=3)")
    assert "ParallelTempering()" not in " ".join(words.verdict(posterior).sentences)


def test_one_run_is_not_enough(sampled):
    verdict = words.verdict(invented(sampled, [0.99], replicates=1, mcse=np.nan))
    assert not verdict.sound
    assert verdict.clause == words.NOT_YET
    assert "single run" in verdict.sentences[0]
    assert "replicates=4" in " ".join(verdict.sentences)


def test_variables_that_never_moved_and_warnings_are_mentioned(sampled):
    posterior = invented(sampled, [0.99])
    mcse = np.full(7, 0.001)
    mcse[2:] = np.nan
    posterior = dataclasses.replace(
        posterior, mcse=mcse, frequencies=np.array([1.0, 0.5, 0, 0, 0, 0, 0]), warnings=("something was odd",)
    )
    text = " ".join(words.verdict(posterior).sentences)
    assert "5 variables never came up" in text
    assert text.endswith("something was odd.")


def test_nothing_moved(sampled):
    posterior = dataclasses.replace(invented(sampled, [1.0], spread=0), mcse=np.full(7, np.nan))
    assert not words.verdict(posterior).sound
    assert "nothing moved: all draws are of one model" in words.verdict(posterior).sentences[0]
    assert "Two independent runs gave the same inclusion probabilities." in words.verdict(posterior).sentences
    answer = words.answer(posterior)
    assert answer == f"{words.NOT_YET}. So far, one variable has an inclusion probability of .95 or more."


@pytest.mark.parametrize(
    ("pips", "rest"),
    [
        ([], "no variable has an inclusion probability of .1 or more."),
        ([0.96], "one variable has an inclusion probability of .95 or more."),
        ([0.96, 0.97, 0.6, 0.2, 0.3], "two variables have an inclusion probability of .95 or more, one of .5 to .95 and two of .1 to .5."),
        ([0.2], "one variable has an inclusion probability of .1 to .5."),
    ],
)  # fmt: skip
def test_an_answer_that_is_not_to_be_trusted_claims_nothing(sampled, pips, rest):
    answer = words.answer(invented(sampled, pips, spread=0.1, mcse=0.06))
    assert answer == f"{words.NOT_YET}: independent runs differ by up to .10. So far, {rest}"


CERTAIN = re.compile(
    r"almost certainly|[Pp]robably in|[Pp]lausible|Converged|Accurate enough|runs agree|<strong>Exact"
)


def test_a_page_never_gives_two_verdicts(sampled):
    assert sampled.converged, "else this test tests nothing"
    sound = report.render(sampled)
    assert '<div class="verdict sound">' in sound
    assert words.NOT_YET not in sound
    doubtful = report.render(dataclasses.replace(sampled, mcse=np.full(7, 0.2)))
    assert '<div class="verdict doubtful">' in doubtful
    assert '<p class="answer doubtful">Do not trust these numbers yet' in doubtful
    box = re.search(r'<div class="verdict doubtful">(.*?)</div>', doubtful, re.DOTALL)[1]
    assert "<strong>Do not trust these numbers yet.</strong>" in box
    assert '<li class="fault">Inclusion probabilities are not' in box
    assert box.count(words.NOT_YET) == 1
    assert CERTAIN.search(sound)
    assert not CERTAIN.search(doubtful)


def test_what_is_left_of_an_exact_answer_can_be_too_little(exact):
    thin = dataclasses.replace(exact, reweighting_ess=12.0)
    assert words.answer(thin).startswith("Do not trust these numbers yet. So far, ")
    assert not words.verdict(thin).sound
    assert not CERTAIN.search(report.render(thin))


def test_stand_ins_are_part_of_the_answer(exact, monkeypatch):
    assert words.stand_ins(exact)[0][0] == ["Po1", "Po2"], "else this test tests nothing"
    monkeypatch.setattr(
        words, "stand_ins", lambda _: [(["Po1", "Po2"], 0.97, 0.004)]
    )  # whatever the others are
    rest = "; the probabilities are exact."
    none = dataclasses.replace(exact, pip=np.minimum(exact.pip, 0.04))
    start = "No single variable is almost certainly in the model, but one of Po1 and Po2 is"
    assert words.answer(none) == start + rest
    one = dataclasses.replace(exact, pip=np.where(np.arange(15) == 3, 0.99, 0.2))
    start = "One variable is almost certainly in the model; so is one of Po1 and Po2; 14 more are plausible"
    assert words.answer(one) == start + rest
    assert "at least one is in with probability 0.970 ± 0.008; the data" in report.render(exact)
    thin = dataclasses.replace(exact, reweighting_ess=12.0)
    assert "so far, 0.970 ± 0.008 that at least one is in" in report.render(thin)


def test_sources_are_the_software_and_the_papers_of_the_methods_paragraph(sampled):
    paragraph, sources = words.sources(sampled)
    assert paragraph.startswith("We used Bayesian variable selection")
    assert "References" not in paragraph
    assert sources[0] == words.SOFTWARE
    assert any("1412.6760" in source for source in sources)


def test_an_unknown_error_is_not_called_none(sampled):
    paragraph, _ = words.sources(dataclasses.replace(sampled, mcse=np.full(7, np.nan)))
    assert "standard errors of the posterior inclusion probabilities are unknown" in paragraph
    mcse = np.where(np.arange(7) == 1, np.nan, 0.012)
    assert "was 0.012" in words.sources(dataclasses.replace(sampled, mcse=mcse))[0]


class Page(HTMLParser):
    """Elements and texts of a page; fails on elements that are closed in the wrong order."""

    VOID = ("meta", "link", "input", "img", "br")

    def __init__(self, text):
        super().__init__()
        self.open, self.elements, self.texts, self.data = [], [], [], ""
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.data = self.data or data
        else:
            self.texts.append(data.strip())

    def all(self, tag):
        return [attrs for name, attrs in self.elements if name == tag]


def test_names_and_title_are_text_and_never_markup(page):
    found = Page(page)
    assert len(found.all("script")) == 2  # the data and our own
    assert not found.all("b")
    assert "A <b>title</b>" in found.texts
    assert NASTY[0] in found.texts
    assert NASTY[1] in found.texts


def test_the_data_are_complete_and_valid(page, sampled):
    columns = json.loads(Page(page).data)
    order = np.argsort(-sampled.pip, kind="stable")
    assert columns[0]["values"] == [NASTY[j] for j in order]
    np.testing.assert_allclose(columns[1]["values"], sampled.pip[order], atol=1e-5)
    errors = [np.nan if v is None else v for v in columns[2]["values"]]
    np.testing.assert_allclose(errors, 2 * sampled.mcse[order], rtol=0.051)
    means = sampled.coefficients(interval=None)["mean_included"].to_numpy()[1:][order]
    np.testing.assert_allclose(columns[4]["values"], means, rtol=0.0051)


def test_coefficients_have_their_errors_under_the_pointer(page, sampled):
    columns = json.loads(Page(page).data)
    order = np.argsort(-sampled.pip, kind="stable")
    notes = [float(note.removeprefix("± ").replace("−", "-")) for note in columns[4]["notes"]]
    np.testing.assert_allclose(notes, 2 * table.coefficient_errors(sampled)[order], rtol=0.051)
    assert "notes" not in columns[5]
    assert f'title="{columns[4]["notes"][0]}"' in page
    single = dataclasses.replace(sampled, kept=dataclasses.replace(sampled.kept, by_replicate=None))
    assert table.columns(single)[4].notes == []


def test_errors_of_coefficients_are_those_of_a_ratio(sampled):
    """Against the means of each replicate by itself, which differ by as much."""
    kept = sampled.kept
    means = []
    for weight in kept.by_replicate:
        alone = dataclasses.replace(kept, weight=weight, by_replicate=None)
        means.append(dataclasses.replace(sampled, kept=alone).coefficients(interval=None)["mean_included"])
    expected = np.std(means, axis=0, ddof=1)[1:] / np.sqrt(len(means))
    often = sampled.pip > 0.3  # where the first order is near enough
    assert often.sum() > 1
    np.testing.assert_allclose(table.coefficient_errors(sampled)[often], expected[often], rtol=0.1)


def cells(page, section):
    """The texts of the cells of the first table of a section, row by row."""
    body = page[page.index(f'<section id="{section}"') :]
    body = body[body.index("<tbody>") : body.index("</tbody>")]
    return [
        re.findall(r"<t[hd][^>]*>(?:<span.*?</span>)?(.*?)</t[hd]>", row, re.DOTALL)
        for row in body.split("</tr>")[:-1]
    ]


@pytest.mark.parametrize("seed", range(3))
def test_numbers_on_a_page_do_not_contradict_one_another(seed):
    """The run is short, and the models of the page have nearly all of the probability."""
    rng = np.random.default_rng(3)
    X = pd.DataFrame(rng.normal(size=(40, 4)), columns=list("abcd"))
    X["b"] = X["a"] + 0.2 * rng.normal(size=40)
    y = X["a"] + 0.5 * X["c"] + rng.normal(size=40)
    problem = wv.Problem(X, y)
    posterior = wv.sample(problem, wv.AddDeleteSwap(), draws=300, replicates=2, seed=seed, progress=False)
    text = report.render(posterior)
    pips = {row[0]: float(row[1].strip("<>&lgt;")) for row in cells(text, "variables")}
    models = [
        (float(row[1].replace("&lt;", "")), set(re.split(", | and ", row[-1])))
        for row in cells(text, "models")
    ]
    assert len(pips) == 4
    assert len(models) == 10
    last_digit = 0.001
    for name, pip in pips.items():
        assert sum(p for p, members in models if name in members) <= pip + last_digit + 1e-9
        assert sum(p for p, members in models if name not in members) <= 1 - pip + last_digit + 1e-9
    (mean,) = re.findall(r"<dt>in the model, on average</dt><dd>(.*?)</dd>", text)
    shown = float(mean.split(" ± ")[0])
    assert shown == pytest.approx(sum(pips.values()), abs=0.05 + 4 * last_digit / 2)
    for names, probability, _ in words.stand_ins(posterior):
        assert max(pips[name] for name in names) <= probability + last_digit


def test_models_and_mean_size_have_their_errors(page, sampled):
    rows = cells(page, "models")
    best = sampled.top_models(10)
    assert [row[1] for row in rows] == [f"{p:.4f}" for p in best["probability"]]
    assert [row[2] for row in rows] == [
        "&lt;0.0001" if 2 * e < 0.00005 else f"{2 * e:.4f}" for e in best["mcse"]
    ]
    assert ">±</th>" in page
    (mean,) = re.findall(r"<dt>in the model, on average</dt><dd>(.*?)</dd>", page)
    value, error = map(float, mean.split(" ± "))
    assert value == pytest.approx(sampled.mean_size, abs=0.05)
    assert 2 * sampled.mean_size_mcse <= error <= 2 * sampled.mean_size_mcse + 0.1
    unknown = dataclasses.replace(sampled, models=dataclasses.replace(sampled.models, mcse=None), replicate_pips=sampled.replicate_pips[:1])  # fmt: skip
    text = report.render(unknown)
    assert {row[2] for row in cells(text, "models")} == {"—"}
    assert re.findall(r"<dt>in the model, on average</dt><dd>(.*?)</dd>", text) == [
        f"{sampled.mean_size:.1f}"
    ]


def test_what_is_not_certain_is_not_shown_as_certain(exact):
    pip = np.full(15, 0.5)
    pip[:4] = 1e-7, 1 - 1e-7, 0, 1
    values = table.columns(dataclasses.replace(exact, pip=pip))[1].values
    assert [table.written("probability", v) for v in (values[0], values[1], values[-2], values[-1])] == [
        "1.000", ">0.999", "<0.001", "0.000",
    ]  # fmt: skip


def test_the_page_needs_nothing_else(page):
    found = Page(page)
    addresses = [
        a for _, attrs in found.elements for key, a in attrs.items() if key in ("src", "href", "action")
    ]
    assert addresses
    assert all(a.startswith(("data:", "#")) for a in addresses)
    assert not re.search(r"https?://", report.HERE.joinpath("page.css").read_text())
    for anchor in [a for a in addresses if a.startswith("#")]:
        assert any(attrs.get("id") == anchor[1:] for _, attrs in found.elements)


def test_pictures_have_alternatives_and_tables_have_headers(page):
    found = Page(page)
    pictures = found.all("img")
    assert len(pictures) == 12
    assert all(len(attrs["alt"]) > 20 for attrs in pictures)
    assert all("scope" in attrs for attrs in found.all("th"))
    identities = [attrs["id"] for _, attrs in found.elements if "id" in attrs]
    assert len(identities) == len(set(identities))
    levels = [int(tag[1]) for tag, _ in found.elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert max(np.diff(levels)) == 1, "no heading level is left out"


def test_pictures_are_small_and_hold_no_script(page):
    for attrs in Page(page).all("img"):
        picture = base64.b64decode(attrs["src"].removeprefix("data:image/svg+xml;base64,"))
        assert len(picture) < 400_000
        tags = {element.tag.split("}")[-1] for element in ElementTree.fromstring(picture).iter()}
        assert "script" not in tags


def test_an_exact_posterior_has_no_errors_to_show(exact):
    text = report.render(exact)
    assert "Effective draws" not in text
    assert "Agreement of the replicates" not in text
    assert "<strong>Exact.</strong>" in text
    assert "±" not in text.partition("<script")[0]
    assert len(cells(text, "models")[0]) == 5
    assert f"<dd>{exact.mean_size:.1f}</dd>" in text


def test_a_report_does_not_depend_on_the_users_style_nor_leave_figures(exact):
    from matplotlib import pyplot

    before = pyplot.get_fignums()
    plain = figures.results(exact)
    with pyplot.style.context("dark_background"):
        dark = figures.results(exact)
        assert pyplot.rcParams["axes.facecolor"] == "black"
    assert plain == dark
    assert pyplot.get_fignums() == before


def test_groups_have_no_single_coefficient():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(40, 3)), columns=["a", "b", "c"])
    posterior = wv.exact(wv.Problem(X, X["a"] + rng.normal(size=40), groups={"ab": ["a", "b"]}))
    columns = table.columns(posterior)
    coefficient = dict(zip(columns[0].values, columns[2].values))
    assert coefficient["ab"] is None
    mean = posterior.coefficients(interval=None)["mean_included"]["c"]
    assert coefficient["c"] == pytest.approx(mean, rel=0.0051)


def test_settings_say_what_was_asked_for(sampled):
    posterior = dataclasses.replace(sampled, settings={"seed": 7, "target_mcse": None}, chosen="it is small")
    settings = dict(report.settings(posterior))
    assert settings["Seed"] == "7"
    assert "Monte Carlo error asked for" not in settings
    assert settings["Chosen because"] == "it is small"
    assert settings["Replicates"] == "2"


def test_a_report_replaces_an_older_one_and_leaves_nothing_beside(exact, tmp_path):
    target = tmp_path / "report.html"
    target.write_text("old")
    assert exact.report(str(target)) == target
    assert target.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert os.listdir(tmp_path) == ["report.html"]


def test_a_full_disk_leaves_the_older_report_as_it_was(exact, tmp_path, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    target = tmp_path / "report.html"
    target.write_text("old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(wv.OutputError, match=r"report\.html could not be written: No space left"):
        exact.report(target)
    assert target.read_text() == "old"
    assert os.listdir(tmp_path) == ["report.html"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "is a directory"),
        ("nowhere/report.html", "nowhere does not exist; create it first"),
        ("x" * 300, "too long"),
    ],
)
def test_places_that_cannot_be_written_are_named(exact, tmp_path, name, message, monkeypatch):
    monkeypatch.setattr(report, "render", lambda *_: "page")
    with pytest.raises(wv.OutputError, match=message):
        exact.report(tmp_path / name)
    assert not os.listdir(tmp_path)


def test_wrong_arguments_are_named(exact):
    with pytest.raises(wv.ArgumentTypeError, match="path must be the name of a file"):
        exact.report(3)
    with pytest.raises(wv.ArgumentTypeError, match="title must be text"):
        exact.report("report.html", title=3)


@pytest.mark.parametrize("package", ["matplotlib", "jinja2"])
def test_without_its_packages_the_message_names_the_extra(exact, tmp_path, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(wv.MissingPackageError, match=rf"{package}.*whichvars\[report\]"):
        exact.report(tmp_path / "report.html")


def test_marks_of_the_chart_are_the_variables(sampled):
    (only,) = chart.charts(sampled)
    order = np.argsort(-sampled.pip, kind="stable")
    assert only.kind == "rows"
    assert [mark.row for mark in only.marks] == list(range(len(order)))
    np.testing.assert_allclose([mark.x for mark in only.marks], 100 * sampled.pip[order], atol=1e-3)
    low = np.clip(sampled.pip - 2 * sampled.mcse, 0, 1)[order]
    np.testing.assert_allclose([mark.low for mark in only.marks], 100 * low, atol=1e-3)
    assert only.marks[0].label.startswith(f"{sampled.problem.names[order[0]]}: ")


def test_many_variables_have_a_skyline_without_the_improbable_ones():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 80))
    problem = wv.Problem(X, X[:, 11] + 0.3 * rng.normal(size=40), model_prior=wv.FixedInclusion(size=1))
    posterior = wv.sample(problem, draws=4000, seed=0, progress=False)
    posterior = dataclasses.replace(posterior, pip=np.where(np.arange(80) < 70, posterior.pip, 0.0005))
    skyline, rows = chart.charts(posterior)
    assert skyline.kind == "skyline"
    assert len(rows.marks) == chart.TOP_ROWS
    assert len(skyline.marks) == int((posterior.pip >= chart.LEAST).sum())
    places = [mark.x for mark in skyline.marks]
    assert places == sorted(places)
    best = min(skyline.marks, key=lambda mark: mark.row)
    assert best.label.startswith("x11: ")
    assert best.x == pytest.approx(100 * 11.5 / 80)
    assert best.y == pytest.approx(100 * (1 - posterior.pip[11]), abs=1e-3)


def test_stand_ins_are_named_under_the_pointer(exact, monkeypatch):
    names = exact.problem.names[:2]
    monkeypatch.setattr(words, "stand_ins", lambda posterior: [(names, 0.99, 0.0)])
    (only,) = chart.charts(exact)
    by_name = {mark.label.split(":")[0]: mark.others for mark in only.marks}
    assert by_name[names[0]] == names[1]
    assert by_name[exact.problem.names[2]] == ""
    assert f'data-others="{names[1]}"' in report.render(exact)


def test_the_summary_interprets_nothing_that_cannot_be_trusted(sampled, tmp_path):
    sound = sampled.report(tmp_path / "brief.html", brief=True).read_text()
    assert "Effects of the variables that are probably in" in sound
    assert "<script" not in sound
    # nor does it have what says nothing to readers in a hurry
    assert "iterations</dt>" in report.render(sampled)
    assert "iterations</dt>" not in sound
    doubtful = report.render_brief(dataclasses.replace(sampled, mcse=np.full(7, 0.2)))
    assert "Effects of the variables that are probably in" not in doubtful
    assert "Effects of the variables that are probably in" in report.render(sampled)
    assert "What to do first" in doubtful
    assert not CERTAIN.search(doubtful)


def test_effects_in_words_are_those_of_the_coefficients(exact):
    sentences = effects_in_words(exact)
    j = int(np.argmax(exact.pip))
    name = exact.problem.names[j]
    change = float(exact.coefficients()["mean_included"][name] * exact.problem.column_spread[j])
    spread = float(np.std(wv.datasets.load_uscrime().X[name], ddof=0))
    assert exact.problem.column_spread[j] == pytest.approx(spread, rel=0.02)
    direction = "larger" if change > 0 else "smaller"
    assert (
        sentences[0]
        == f"{name}: {exact.problem.column_spread[j]:.3g} more goes with a response {abs(change):.3g} {direction}."
    )


def test_levels_of_a_category_are_compared_with_its_reference_level():
    rng = np.random.default_rng(0)
    kind = rng.choice(["a", "b", "c"], size=200)
    X = pd.DataFrame({"kind": kind, "many": rng.choice(list("pqrstu"), size=200), "x": rng.normal(size=200)})
    y = X["kind"].map({"a": 0.0, "b": 2.0, "c": -1.0}) + 3.0 * (X["many"] == "u") + rng.normal(size=200)
    posterior = wv.exact(wv.Problem(X, y))
    first, second = sorted(effects_in_words(posterior))
    inside = posterior.coefficients()["mean_included"]
    b, c = inside["kind=b"], inside["kind=c"]
    assert 1.5 < b < 2.5
    assert -1.5 < c < -0.5
    assert (
        first
        == f"kind: compared with a, b goes with a response {b:.3g} larger and c with a response {-c:.3g} smaller."
    )
    assert second.startswith("many: compared with p, ")
    assert f"u with a response {inside['many=u']:.3g} larger; 1 other level left out." in second
    made = wv.impute(X.mask(rng.random(X.shape) < 0.02), y, m=2, seed=0)
    pooled = wv.pool([wv.exact(wv.Problem(part, made.y)) for part in made], made)
    table = pooled.coefficients()
    b, c = (table["mean"] / table["pip"])[["kind=b", "kind=c"]]
    first = min(pooled_effects_in_words(pooled))
    assert (
        first
        == f"kind: compared with a, b goes with a response {b:.3g} larger and c with a response {-c:.3g} smaller."
    )


def test_legends_are_not_cut_off():
    """Long names beside the axes leave less room above them."""
    from whichvars.plots.drawing import fix_layout
    from whichvars.report import figures

    X, y = wv.datasets.load_uscrime()[:2]
    names = [f"a name of forty characters and more, no. {j}" for j in range(6)]
    posterior = wv.exact(wv.Problem(X.iloc[:, :6].set_axis(names, axis=1), y))
    with figures._own_style():
        ax = figures._other_priors(posterior)
        figure = ax.get_figure()
        fix_layout(figure)
        box = ax.get_legend().get_window_extent()
    assert box.x1 <= figure.bbox.width + 1
    assert box.x0 >= -1


def test_other_priors_are_drawn_where_new_weights_suffice(exact):
    from whichvars.report import figures

    titles = [picture.title for picture in figures.results(exact)]
    assert "Under other priors" in titles
    ax = figures._other_priors(exact)
    drawn = {text.get_text() for text in ax.get_figure().findobj() if hasattr(text, "get_text")}
    assert "IndependentNormal(g='estimate')" in drawn
    some = [name for name, probability in zip(exact.problem.names, exact.pip) if 0.01 < probability < 0.99]
    given = exact.given(include=some[:1])
    assert "Under other priors" not in [picture.title for picture in figures.results(given)]
    # mixtures of g cannot be combined with a known variance, and are left out
    X, y = wv.datasets.load_uscrime()[:2]
    known = wv.exact(wv.Problem(X.iloc[:, :5], y, noise=wv.KnownVariance(0.05)))
    legend = figures._other_priors(known).get_figure().findobj()
    assert "HyperGN(a=3.0)" not in {text.get_text() for text in legend if hasattr(text, "get_text")}


def test_credible_sets_have_a_table_if_some_have_several_members() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 5))
    X[:, 1] = X[:, 0] + 0.02 * rng.normal(size=300)
    y = 0.3 * X[:, 0] + 0.17 * X[:, 4] + rng.normal(size=300)
    slab, prior = wv.IndependentNormal(0.05), wv.FixedInclusion(0.05)
    posterior = wv.exact(wv.Problem(X, y, slab=slab, model_prior=prior))
    sets = posterior.credible_sets()
    assert sets["size"].max() == 2
    assert not sets["reached"].all()
    page = report.render(posterior)
    section = page[page.index('id="sets"') : page.index('id="models"')]
    lead = sets[sets["size"] == 2].iloc[0]
    assert f"{lead['variables'][0]} ({lead['pips'][0]:.3f}) and {lead['variables'][1]}" in section
    assert f"{sets.loc[~sets['reached'], 'probability'].iloc[0]:.3f}*" in section
    assert "* marks those that do not reach it" in section
    given, bound = posterior.credible_sets(0.9, signal=0.7), report.render(posterior, level=0.9, signal=0.7)
    section = bound[bound.index('id="sets"') : bound.index('id="models"')]
    assert sorted(given["reached"]) == [False, True]
    for signal, reached in zip(given["signal"], given["reached"], strict=True):
        assert f">{signal:.3f}{'' if reached else '*'}</td>" in section
    assert "as small as possible with 0.9 of that; * marks signals that are less probable" in section
    alone = wv.exact(wv.Problem(X[:, 1:], y, slab=slab, model_prior=prior))
    assert 'id="sets"' not in report.render(alone)


def test_the_top_names_the_response_the_file_and_rows_that_were_left_out():
    rng = np.random.default_rng(3)
    X = pd.DataFrame(rng.normal(size=(30, 2)), columns=["a", "b"])
    X.loc[4, "a"] = np.nan
    y = pd.Series(rng.normal(size=30), name="yield")
    with pytest.warns(wv.DataWarning):
        problem = wv.Problem(X, y, missing="drop")
    assert words.about_data(problem) == "Response: yield; 1 of 30 rows left out because of missing values"
    problem.record = dataclasses.replace(problem.record, file="data.csv", rows_dropped=0)
    assert words.about_data(problem) == "Response: yield from data.csv"
    page = report.render(wv.sample(problem))
    assert '<p class="about">Response: yield from data.csv</p>' in page
    assert "<dt>Seed</dt>" not in page
    assert words.about_data(wv.Problem(X.dropna().to_numpy(), y.drop(index=4).to_numpy())) == ""
