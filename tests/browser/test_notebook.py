"""The table of a posterior and the picture of a run in a notebook: the one is sorted by its headings, and both can be read on light and
dark pages."""

import pytest

import whichvars as wv
from support.browser import screenshot
from whichvars.sampling.live_picture import picture

pytestmark = pytest.mark.browser
PAGE = """<!DOCTYPE html><html><head><link rel="icon" href="data:,"></head>
<body style="background: {page}; color: {ink}; font: 14px sans-serif">{table}</body></html>"""


@pytest.fixture(scope="module")
def posterior():
    data = wv.datasets.load_uscrime()
    problem = wv.Problem(data.X, data.y)
    return wv.sample(problem, wv.AddDeleteSwap(), draws=20_000, replicates=2, progress=False)


@pytest.fixture
def opened(browser, posterior, tmp_path):
    def get(page="#fff", ink="#222", copies=1):
        path = tmp_path / "cell.html"
        table = posterior._repr_html_() * copies
        path.write_text(PAGE.format(page=page, ink=ink, table=table), encoding="utf-8")
        browser.get("about:blank")  # what a page of another test says is not about this one
        browser.get_log("browser")
        browser.get(path.as_uri())

    return get


def column(browser, index, table=0):
    script = "return [...document.querySelectorAll('table')[arguments[1]].tBodies[0].rows].map(r => r.cells[arguments[0]].textContent)"
    return browser.execute_script(script, index, table)


def click(browser, index, table=0):
    browser.execute_script(
        "document.querySelectorAll('table')[arguments[1]].querySelectorAll('thead button')[arguments[0]].click()",
        index, table,
    )  # fmt: skip


def test_headings_sort(browser, opened, posterior):
    opened()
    summary = posterior.summary()
    assert column(browser, 0) == summary.index.tolist()
    click(browser, 0)
    assert column(browser, 0) == sorted(summary.index, key=str.lower)
    click(browser, 0)
    assert column(browser, 0) == sorted(summary.index, key=str.lower, reverse=True)
    names = browser.execute_script(
        "return [...document.querySelectorAll('thead th')].map(h => h.textContent)"
    )
    place = names.index("mean")
    click(browser, place)
    assert column(browser, 0) == summary["mean"].sort_values(ascending=False).index.tolist()
    click(browser, place)
    assert column(browser, 0) == summary["mean"].sort_values().index.tolist()
    assert len(browser.find_elements("css selector", "[aria-sort]")) == 1
    assert not browser.get_log("browser")


def test_two_copies_are_sorted_each_by_itself(browser, opened, posterior):
    opened(copies=2)
    assert len(browser.find_elements("css selector", "thead button")) == 2 * len(
        column(browser, 0)[:1] + list(posterior.summary().columns)
    )
    click(browser, 0, table=1)
    assert column(browser, 0, table=0) == posterior.summary().index.tolist()
    assert column(browser, 0, table=1) != posterior.summary().index.tolist()


@pytest.mark.parametrize(("page", "ink"), [("rgb(255, 255, 255)", "rgb(34, 34, 34)"), ("rgb(17, 17, 17)", "rgb(230, 230, 230)")], ids=["light", "dark"])  # fmt: skip
def test_colours_are_those_of_the_page(browser, opened, page, ink):
    opened(page, ink)
    script = "return [...document.querySelectorAll('th, td, button')].map(e => getComputedStyle(e).color)"
    assert set(browser.execute_script(script)) == {ink}
    screenshot(browser, f"notebook-{'dark' if '17' in page else 'light'}")


@pytest.fixture
def page_of(browser, tmp_path):
    """Opens a page with some HTML, as wide as is asked for."""

    def get(inner, page, ink, width):
        path = tmp_path / "cell.html"
        path.write_text(PAGE.format(page=page, ink=ink, table=inner), encoding="utf-8")
        device = {"width": width, "height": 500, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", device)
        browser.get(path.as_uri())

    yield get
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.mark.parametrize("width", [390, 900])
@pytest.mark.parametrize(("page", "ink"), [("rgb(255, 255, 255)", "rgb(34, 34, 34)"), ("rgb(17, 17, 17)", "rgb(230, 230, 230)")], ids=["light", "dark"])  # fmt: skip
def test_the_picture_of_a_run(browser, page_of, posterior, page, ink, width):
    names = ["a name that is much too long for the picture", *posterior.problem.names[1:]]
    page_of(picture(names, posterior.pip, posterior.mcse), page, ink, width)
    texts = browser.execute_script(
        """const picture = document.querySelector("svg").getBoundingClientRect();
        return [...document.querySelectorAll("svg text")].map((text) => {
          const box = text.getBoundingClientRect(), style = getComputedStyle(text);
          return [text.textContent, style.fill, box.left - picture.left, picture.right - box.right];
        });"""
    )
    assert len(texts) == 2 * 10
    for text, colour, left, right in texts:
        assert colour == ink
        assert left > -1, text
        assert right > -1, text
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    screenshot(browser, f"progress-{'dark' if '17' in page else 'light'}-{width}")
