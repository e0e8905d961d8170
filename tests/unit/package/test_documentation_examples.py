"""What the pages in docs/ show at the prompt is what comes out."""

import doctest
import re
import runpy
import tempfile
from pathlib import Path

import matplotlib
import pytest
from matplotlib import pyplot

import whichvars as wv
from whichvars.cli.data import export

DOCS = Path(__file__).resolve().parents[3] / "docs"
# what is shown at the prompt, and listings: blocks of Python that begin with the name of a file
BLOCK = re.compile(r"^```(pycon|python\n(?=# \w+\.py\n))\n?(.*?)^```", re.MULTILINE | re.DOTALL)
PAGES = [page for page in sorted(DOCS.rglob("*.md")) if BLOCK.search(page.read_text(encoding="utf-8"))]


@pytest.mark.rest
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS).with_suffix("")))
def test_page(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    export.callback("uscrime", Path("crime.csv"), overwrite=False)  # the file that the tutorial begins with
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    names: dict[str, object] = {"__name__": "__main__"}
    output: list[str] = []
    for kind, text in BLOCK.findall(page.read_text(encoding="utf-8")):
        if kind == "pycon":
            test = doctest.DocTestParser().get_doctest(text, names, page.name, str(page), 0)
            runner.run(test, out=output.append, clear_globs=False)
            names = test.globs
        else:
            exec(compile(text, str(page), "exec"), names)
    assert runner.tries > 0
    assert not runner.failures, "".join(output)


@pytest.mark.rest
@pytest.mark.filterwarnings("ignore")  # runs are short
@pytest.mark.parametrize("script", sorted((DOCS / "examples").glob("plot_*.py")), ids=lambda path: path.stem)
def test_script_of_the_gallery(script, tmp_path, monkeypatch):
    """It runs to its end. What it prints and draws is looked at on the page."""
    matplotlib.use("Agg")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    runpy.run_path(str(script))
    pyplot.close("all")


def test_every_public_name_is_in_the_reference():
    pages = sorted((DOCS / "api").glob("*.md"))
    listed = re.findall(
        r"^\s*\.\. auto\w+:: (\S+)|:members: (.*)",
        "\n".join(p.read_text(encoding="utf-8") for p in pages),
        re.M,
    )
    names = set(re.findall(r"\b\w+\b", " ".join(map(" ".join, listed))))
    assert set(wv.__all__) <= names
    methods = {name for name in vars(wv.Posterior) if not name.startswith("_")}
    assert {name for name in methods if callable(getattr(wv.Posterior, name))} <= names
    assert set(wv.datasets.__all__) <= names


@pytest.mark.parametrize("page", ["README", "CHANGELOG", "CONTRIBUTING", "VISION"])
def test_links_of_the_pages_beside_the_source_lead_somewhere(page):
    """Those between the pages of the documentation are checked when it is built, by docs/check.py."""
    root = DOCS.parent
    links = re.findall(r"\]\(([^)\s#]*)#?([^)\s]*)\)", (root / f"{page}.md").read_text(encoding="utf-8"))
    for path, place in links:
        if path.startswith(("http:", "https:")):
            continue
        assert (root / path).exists(), path
        if place:
            headings = re.findall(r"^#+ (.*)$", (root / path).read_text(encoding="utf-8"), re.M)
            assert place in {
                re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings
            }


def test_every_public_function_has_an_example():
    public = {name: getattr(wv, name) for name in wv.__all__}
    classes = {name for name, value in public.items() if isinstance(value, type)}
    public |= {f"Posterior.{name}": value for name, value in vars(wv.Posterior).items() if not name.startswith("_")}  # fmt: skip
    without = {name for name, value in public.items() if callable(value) and ">>>" not in (value.__doc__ or "")}  # fmt: skip
    messages = {name for name in classes if issubclass(public[name], (wv.WhichvarsError, Warning))}
    # what functions return: examples of these are on their pages and with the functions
    assert without - messages == {"EstimatedDf", "Imputations", "PooledPosterior", "Posterior"}


# files that are being split or merged on other branches: empty these once they are merged
COMING: set[str] = set()
LEAVING: set[str] = set()


def test_the_picture_of_the_tree_names_every_file():
    package = Path(wv.__file__).parent
    modules = {path.stem for path in package.rglob("*.py") if not path.stem.startswith("__")}
    page = (DOCS / "dev" / "architecture.md").read_text(encoding="utf-8")
    tables = "\n".join(line.split("|")[1] for line in page.splitlines() if line.startswith("| `"))
    named = {Path(name).stem for name in re.findall(r"`([\w/]+\.py)`", tables)}
    assert modules - named <= LEAVING, f"not on the page: {sorted(modules - named - LEAVING)}"
    assert named - modules <= COMING, f"on the page alone: {sorted(named - modules - COMING)}"


def test_what_the_mathematics_names_in_the_source_exists():
    page = (DOCS / "mathematics.md").read_text(encoding="utf-8").split("## From the papers to the source")[1]
    rows = [line.rsplit("|", 2)[1] for line in page.splitlines() if line.startswith("| ")]
    places = [place for row in rows for place in row.split(";") if ".py`" in place]
    assert len(places) > 40
    for place in places:
        file, *names = re.findall(r"`([^`]+)`", place)
        path = Path(wv.__file__).parent / file
        if path.stem in COMING and not path.exists():
            continue
        source = path.read_text(encoding="utf-8")
        assert names, f"{file}: no function is named"
        for name in names:
            assert re.search(rf"^ *(def|class) {name}\b", source, re.MULTILINE), f"{file} has no {name}"
