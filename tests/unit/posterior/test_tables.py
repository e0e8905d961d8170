"""The summary as a table, in the terminal, in a notebook and in LaTeX; the methods paragraph."""

import dataclasses
import importlib
import pkgutil
import re

import numpy as np
import pytest
from scipy.special import stdtr

import whichvars as wv
import whichvars.samplers
from support.averages import components, moments
from support.paired import SLABS, make_paired, model_priors
from whichvars.errors import DataError
from whichvars.posterior import methods
from whichvars.posterior.bibliography import bibtex
from whichvars.posterior.tables import escape
from whichvars.problem.priors import Slab
from whichvars.report.table import columns, first_rows
from whichvars.sampling import choosing

pytestmark = pytest.mark.filterwarnings("ignore::whichvars.errors.DataWarning")


@pytest.mark.parametrize("slab", SLABS)
def test_summary_equals_dense_algebra(slab):
    case = make_paired(slab, columns=5, weighted=True, always=1, n=24)
    ours, theirs = model_priors("per variable", 5)
    table = wv.exact(case.problem(model_prior=ours)).summary()
    assert list(table.columns) == ["pip", "mcse", "mean", "sd", "sign_probability", "ess"]
    assert (table["pip"].diff().dropna() <= 0).all()
    parts = components(case, theirs)
    weight, degrees = np.array([c.weight for c in parts]), np.array([c.degrees for c in parts])
    pips = case.posterior(theirs).pips
    for j in range(5):
        mean = np.array([c.mean[1 + j] for c in parts])
        scale = np.sqrt([c.scale[1 + j, 1 + j] for c in parts])
        row, inside = table.loc[f"x{j}"], scale > 0
        want = moments(weight, mean, scale**2 * degrees / (degrees - 2))
        assert (row["mean"], row["sd"]) == pytest.approx(want, rel=1e-8, abs=1e-8)
        above = weight[inside] @ stdtr(degrees[inside], mean[inside] / scale[inside]) / weight[inside].sum()
        assert row["sign_probability"] == pytest.approx(max(above, 1 - above), rel=1e-7)
        assert row["pip"] == pytest.approx(pips[j], rel=1e-8)


def test_a_group_has_no_single_coefficient():
    case = make_paired("g-prior", columns=5, groups=[[0], [1, 3], [2, 4]])
    posterior = wv.exact(case.problem())
    table = posterior.summary()
    assert table.loc[["v1", "v2"], ["mean", "sd", "sign_probability"]].isna().all().all()
    assert table.loc["v0", "mean"] == posterior.coefficients(None).loc["x0", "mean"]
    assert "–" in repr(posterior)


def test_summary_without_coefficients():
    posterior = wv.exact(make_paired("g-prior").problem())
    assert list(posterior.summary(coefficients=False).columns) == ["pip", "mcse", "ess"]
    table = posterior.summary()
    table["pip"] = -1  # a copy: nothing happens to the posterior
    assert (posterior.summary()["pip"] >= 0).all()


@pytest.fixture(scope="module")
def run():
    data = wv.datasets.load_growth()
    problem = wv.Problem(data.X, data.y, slab=wv.GPrior("bric"), model_prior=wv.BetaBinomial(size=7))
    return wv.sample(problem, wv.AddDeleteSwap(), draws=20_000, seed=1, progress=False)


@pytest.mark.filterwarnings("ignore::whichvars.errors.ConvergenceWarning")
def test_printed_in_a_terminal(run):
    text = repr(run)
    lines = text.splitlines()
    assert lines[0].startswith("Posterior of 41 variables by AddDeleteSwap: mean model size")
    assert max(map(len, lines[1:])) <= 80
    assert lines[-1] == "… and 31 more"
    assert f"{run.pip.max():.4f}" in text
    exact = wv.exact(make_paired("g-prior").problem())
    assert "mcse" not in repr(exact)
    assert "more" not in repr(exact)
    assert "mcse" in run._repr_html_()
    html = run._repr_html_()
    assert html.count("<tr") == 42
    assert "more</p>" not in html


def test_a_notebook_has_numbers_to_sort_by_and_says_what_is_left_out(run, monkeypatch):
    monkeypatch.setattr("whichvars.posterior.tables.MOST_ROWS", 30)
    html = run._repr_html_()
    assert html.count("<tr") == 31
    assert "<p>… and 11 more</p>" in html
    best = run.summary()["pip"].iloc[0]
    assert f'data-value="{float(best)!r}" class="bar" style="background-size: {100 * best:.1f}% 100%"' in html
    name = re.search(r'<div class="(whichvars-\w+)">', html)[1]
    assert f".{name}:not([data-ready])" in html, "the script and the style are about this table alone"
    assert html == run._repr_html_()
    assert name not in dataclasses.replace(run, pip=run.pip * 0.5)._repr_html_()


def test_effective_draws_have_three_digits_wherever_they_are_read(run, monkeypatch):
    """They are estimates: 190,132 would look more exact than it is. Tables of numbers keep what was computed."""
    known = dataclasses.replace(run, mcse=np.sqrt(run.pip * (1 - run.pip) / 190_131.9))
    assert known.inclusion_ess.iloc[0] == pytest.approx(190_131.9)
    html = re.sub(r"<(script|style)>.*?</\1>|<[^>]*>", " ", known._repr_html_(), flags=re.DOTALL)
    rows = first_rows(columns(known))
    report = " ".join(cell.text for row in rows for cell in row if cell.kind == "count")
    for text in (repr(known), html, known.to_latex(), report):
        assert "190,000" in text.replace("{,}", ",")
        assert "190,13" not in text.replace("{,}", ",")
    changed = dataclasses.replace(run.reweight(), reweighting_ess=1234.6)
    assert "; 1,230 effective draws are left of them." in changed.explain()
    monkeypatch.setattr("whichvars.posterior.explaining.never_in", lambda _: np.array([True]))
    monkeypatch.setattr("whichvars.posterior.explaining.effective_draws", lambda *_: 190_131.9)
    assert "(the run is worth about 190,000 independent draws)" in run.explain()


def test_a_notebook_of_imputed_tables():
    data = wv.datasets.load_uscrime()
    X = data.X.iloc[:, :4].copy()
    X.iloc[3, 2] = np.nan
    imputations = wv.impute(X, data.y, m=2, seed=0)
    pooled = wv.pool([wv.exact(wv.Problem(part, imputations.y)) for part in imputations], imputations)
    html = pooled._repr_html_()
    assert html.count("<tr") == 5
    assert "Posterior of 4 variables, averaged over 2 imputations" in html
    written = re.findall(r"<td[^>]*>([^<]*|&lt;0.0001)</td>", html.partition("<script>")[0])
    assert not [text for text in written if "e-" in text], "errors of imputation that are next to nothing"
    assert [text for text in written if text == f"{pooled.pip.max():.4f}"]
    assert "mcse" not in html, "there is none, as all models were enumerated"
    assert "nan" not in re.sub(r"<(script|style)>.*?</\1>", "", html, flags=re.DOTALL)


def test_what_never_moved_and_what_is_very_accurate_is_said(run):
    assert "never in" not in repr(run)
    best = int(np.argmax(run.pip))
    mcse = run.mcse.copy()
    mcse[best] = np.nan
    still = dataclasses.replace(run, mcse=mcse)
    assert repr(still).splitlines()[-1].startswith("mcse –: never in, or never out; diagnostics()")
    assert "never in, or never out" in still._repr_html_()
    nothing = dataclasses.replace(run, mcse=np.full_like(mcse, np.nan))
    assert "unknown Monte Carlo error" in repr(nothing)
    assert "never in" not in repr(nothing)
    mcse[best] = 1e-7
    accurate = dataclasses.replace(run, mcse=mcse)
    assert "> 10 million" in repr(accurate)
    assert "$> 10^7$" in accurate.to_latex(rows=1)


def test_what_is_shown_unasked_takes_no_time(run, monkeypatch):
    monkeypatch.setattr("whichvars.posterior.posterior.AT_A_GLANCE", 10)
    assert "sign_probability" not in repr(run)


def test_latex(run):
    text = run.to_latex(rows=3)
    lines = text.splitlines()
    assert lines[0] == r"\begin{tabular}{lrrrrrr}"
    assert lines[2] == r"Variable & PIP & MCSE & Mean (all models) & SD (all models) & P(sign) & ESS \\"
    assert len(lines) == 4 + 3 + 2
    best = run.summary().iloc[0]
    assert lines[4].startswith(f"{best.name} & {best['pip']:.4f} & ")
    assert all(line.count("&") == 6 for line in lines[4:7])
    whole = run.to_latex(rows=None, caption="What matters", label="tab:x")
    assert whole.startswith("\\begin{table}\n\\centering\n\\caption{What matters}\n\\label{tab:x}\n")
    assert whole.count(r" \\") == 42
    exact = wv.exact(make_paired("g-prior").problem()).to_latex()
    assert "MCSE" not in exact


def test_latex_with_chosen_columns():
    posterior = wv.exact(make_paired("g-prior", columns=6, groups=[[0], [1, 4], [2], [3, 5]]).problem())
    columns = ["pip", "mean_included", "lower", "upper", "mcse"]
    lines = posterior.to_latex(columns=columns, digits=3).splitlines()
    assert lines[2] == r"Variable & PIP & Mean if in & Lower & Upper & MCSE \\"
    table = posterior.coefficients()
    rows = {line.split(" & ")[0]: line.removesuffix(r" \\").split(" & ")[1:] for line in lines[4:8]}
    assert rows["v0"][1].strip("$") == f"{table.loc['x0', 'mean_included']:.3g}"
    assert rows["v0"][0] == f"{posterior.pip[0]:.3f}"
    assert rows["v0"][3].strip("$") == f"{table.loc['x0', 'upper']:.3g}"
    assert rows["v1"][1:4] == ["--", "--", "--"]
    with pytest.raises(DataError, match="there is no column 'odds'"):
        posterior.to_latex(columns=["odds"])
    with pytest.raises(DataError, match="digits must be a whole number"):
        posterior.to_latex(digits=0)


def test_latex_of_models():
    posterior = wv.exact(make_paired("g-prior", columns=3).problem(names=["a_1", "b", "c"]))
    lines = posterior.to_latex(
        rows=2, models=True, columns=["probability", "variables"], digits=2
    ).splitlines()
    assert lines[0] == r"\begin{tabular}{lrl}"
    assert lines[2] == r"Model & Probability & Variables \\"
    best = posterior.top_models(1).iloc[0]
    assert lines[4] == rf"1 & {best['probability']:.2f} & {escape(best['variables'])} \\"
    assert "MCSE" not in posterior.to_latex(models=True)


def test_every_reference_becomes_an_entry(tmp_path):
    sources = {r for cls in sampler_classes() for r in cls.references}
    # those of some slabs depend on how their g was given
    others = [slab for slab in Slab.__args__ if slab not in (wv.IndependentNormal, wv.GPrior, wv.EstimatedG)]
    others += [wv.IndependentNormal("estimate"), wv.GPrior("n"), wv.GPrior("bric"), wv.EstimatedG(2.0)]
    sources |= {r for slab in others for r in slab.references}
    sources |= {methods.SIZE, methods.CHIPMAN, methods.CASTILLO}
    text = bibtex(sorted(sources))
    keys = re.findall(r"@(\w+)\{(.+),", text)
    assert len(keys) == len(sources) + 1
    assert len({key for _, key in keys}) == len(keys)
    kinds = [kind for kind, _ in keys]
    assert kinds.count("article") == sum(bool(re.search(r" \d+, [\d–]+\.$", s)) for s in sources)
    # a book follows the title; one title begins with "In"
    assert kinds.count("incollection") == sum(bool(re.search(r"[^)]\. In ", s)) for s in sources) >= 2
    for source in sources:
        year = re.search(r"\((\d{4})\)", source)[1]
        title = source.split(f"({year}). ")[1].split(". ")[0]
        assert title in text.replace("{", "").replace("}", "")
    authors = re.findall(r"author = \{(.+)\}", text)
    assert all(re.fullmatch(r"[^,]+, [^,]+( and [^,]+, [^,]+)*", line) for line in authors)
    posterior = wv.exact(make_paired("hyper-g").problem())
    posterior.bibtex(tmp_path / "references.bib")
    assert (tmp_path / "references.bib").read_text(encoding="utf-8") == posterior.bibtex()
    assert "@article{liang2008," in posterior.bibtex()


@pytest.mark.filterwarnings("ignore::whichvars.errors.DataWarning")
def test_methods_say_what_was_left_out(tmp_path):
    data = wv.datasets.load_uscrime()
    X = data.X[["Ed", "Po1", "Po2", "NW"]].assign(one=1.0)
    problem = wv.Problem(X, data.y, groups={"Po": ["Po1", "Po2"]}, weights=np.r_[0, 0, np.linspace(1, 2, 45)])
    posterior = wv.exact(problem)
    posterior.save(tmp_path / "a.npz")
    for text in (posterior.methods(), wv.Posterior.load(tmp_path / "a.npz").methods()):
        assert "in normal linear regression of log_crime, averaging" in text
        assert "2 rows of weight 0 were left out. Rows had weights, which multiply their precisions." in text
        assert "1 column without information of its own (one) was left out." in text
        assert "The variable Po consisted of several columns" in text
    plain = wv.exact(wv.Problem(X[["Ed", "NW"]].to_numpy(), data.y.to_numpy())).methods()
    assert "regression, averaging" in plain
    assert "left out" not in plain


def test_names_that_mean_something_to_latex():
    assert escape("a_b & 50% {x}^2 \\n") == r"a\_b \& 50\% \{x\}\textasciicircum{}2 \textbackslash{}n"
    case = make_paired("g-prior", columns=2)
    table = wv.exact(case.problem(names=["a_1", "b^2"])).to_latex()
    assert r"a\_1 &" in table
    assert "$-" in table or "-0" not in table


WORDS = {
    "independent": "independent normal priors with mean zero and variance 2.5 σ²",
    "g-prior": "Zellner's g-prior with g = 13",
    "hyper-g": "the hyper-g prior with a = 3.5",
    "hyper-g/n": "the hyper-g/n prior with a = 3",
    "zellner-siow": "the Zellner–Siow prior",
    "local empirical Bayes": "local empirical Bayes",
    "bic": "Bayesian information criterion",
}


@pytest.mark.parametrize("slab", SLABS)
def test_methods_name_the_priors(slab):
    case = make_paired(slab, always=1)
    text = wv.exact(case.problem(model_prior=wv.FixedInclusion(h=0.25))).methods()
    assert WORDS[slab] in text
    assert "prior probability 0.25" in text
    assert "All models contain an intercept and x7, with flat priors on their coefficients." in text
    assert "all 128 models were enumerated" in text
    assert "References\n- " in text
    assert f"whichvars {wv.__version__}" in text


def sampler_classes():
    """Every class of the package that ``sample`` can be given, wherever it is defined."""
    found = set()
    for module in pkgutil.iter_modules(whichvars.samplers.__path__, "whichvars.samplers."):
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, type) and dataclasses.is_dataclass(value) and hasattr(value, "advance"):
                found.add(value)
    return found


def test_every_sampler_has_words_and_a_reference():
    classes = sampler_classes()
    assert {cls.__name__ for cls in classes} == set(choosing.SAMPLERS.values())  # none is overlooked
    for cls in classes:
        assert cls.words, cls
        assert cls.references, cls
        assert all("(" in r and r.endswith(".") for r in cls.references), cls
        assert methods.sources(repr(cls()))[: len(cls.references)] == list(cls.references)


def test_methods_of_a_subset_sampler_say_whose_it_is_and_that_it_differs(run):
    text = dataclasses.replace(run, sampler=repr(wv.SubsetGibbs())).methods()
    assert "a variant of subset weighted tempered Gibbs sampling" in text
    assert "Jankowiak, M. (2023)" in text


def test_methods_do_not_claim_an_error_that_is_unknown(run):
    text = dataclasses.replace(run, mcse=np.full_like(run.mcse, np.nan)).methods()
    assert "inclusion probabilities are unknown" in text
    assert "error of a posterior inclusion probability was 0" not in text


@pytest.mark.filterwarnings("ignore::whichvars.errors.ConvergenceWarning")
def test_methods_name_the_computation(run):
    text = run.methods()
    for words in (
        "41 candidate variables (72 observations)",
        "g = max(n, p²) = 1681 (the benchmark prior BRIC)",
        "Benchmark priors for Bayesian model averaging",
        "expected model size of 7 variables",
        "add, delete or swap",
        f"4 independent runs (seed 1) with {run.iterations:,} iterations in total",
        "Brown, P. J.",
        f"inclusion probability was {np.nanmax(run.mcse):.2g}",
    ):
        assert words in text
    assert "reweighting" in run.reweight(slab=wv.GPrior(1000)).methods()
