"""Regional and Manhattan plots: every variant at its place, in the colour of its LD, with the right p-value."""

from collections.abc import Iterator

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot
from matplotlib.colors import to_hex
from scipy import stats

import whichvars as wv
from whichvars.plots.genetics import CLASSES, LD_COLOURS, SERIES

matplotlib.use("Agg")
P, N = 12, 300
RNG = np.random.default_rng(4)
PLACE = np.arange(P)
R = 0.8 ** np.abs(PLACE[:, None] - PLACE)
X = RNG.normal(size=(N, P)) @ np.linalg.cholesky(R).T
Y = 0.4 * X[:, 4] + RNG.normal(size=N)
NAMES = [f"rs{j}" for j in range(P)]
VARIANTS = pd.DataFrame({"chromosome": ["10"] * 4 + ["9"] * 8, "position": 1000 + 10 * PLACE}, index=NAMES)


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    pyplot.close("all")


@pytest.fixture(scope="module")
def posterior() -> wv.Posterior:
    return wv.exact(wv.Problem(pd.DataFrame(X, columns=NAMES), Y, slab=wv.IndependentNormal(0.05)))


def points(ax: matplotlib.axes.Axes) -> dict[tuple[float, float], str]:
    """The colour of every point."""
    return {
        (float(x), round(float(y), 9)): to_hex(line.get_color())
        for line in ax.get_lines()
        if line.get_marker() in ("o", "D")
        for x, y in zip(line.get_xdata(), line.get_ydata())
    }


def test_a_region_has_the_p_values_and_the_ld_of_its_variants(posterior: wv.Posterior) -> None:
    one = VARIANTS.assign(chromosome="9")
    ax = wv.plot_region(posterior, one[::-1])
    found = points(ax)
    lead = int(posterior.pip.argmax())
    squares = np.corrcoef(X.T)[lead] ** 2
    for j in range(P):
        strength = round(-np.log10(stats.pearsonr(X[:, j], Y).pvalue), 9)
        kind = int(np.searchsorted(CLASSES, squares[j]))
        colour = found[1000.0 + 10 * j, strength]
        assert colour == ("#222222" if j == lead else LD_COLOURS[kind].lower())
    below = points(ax.child_axes[0])
    sets = posterior.credible_sets()
    for i, members in enumerate(sets["variables"]):
        for name in members:
            j = NAMES.index(name)
            assert below[1000.0 + 10 * j, round(posterior.pip[j], 9)] == SERIES[i].lower()
    assert len(below) == P
    ax = wv.plot_region(posterior, one, signal=0.2)
    given = posterior.credible_sets(signal=0.2)
    said = [text.get_text() for text in ax.child_axes[0].get_legend().get_texts()]
    assert [f"signal {signal:.2f}" in text for text, signal in zip(said, given["signal"], strict=True)] == [True] * len(given)  # fmt: skip
    other = wv.plot_region(posterior, lead="rs0")
    assert [text.get_text() for text in other.get_legend().get_texts()][-1] == "rs0"


def test_p_values_of_summary_statistics_are_those_of_the_scores() -> None:
    """Also with a panel that is so small that the noise variance counts as known, for which y is made longer than it is."""
    rng = np.random.default_rng(5)
    LD = 0.8 ** np.abs(np.arange(200)[:, None] - np.arange(200))
    G, panel = (rng.normal(size=(n, 200)) @ np.linalg.cholesky(LD).T for n in (100, 120))
    y = 0.5 * G[:, 40] + rng.normal(size=100)
    r = np.array([np.corrcoef(x, y)[0, 1] for x in G.T])
    z = r * np.sqrt(98 / (1 - r**2))
    correlations = np.corrcoef(panel.T)
    for n, scores in ((None, z), (100, r * np.sqrt(99))):
        with pytest.warns(wv.DataWarning, match="R was replaced" if n is None else "counts as known"):
            problem = wv.from_summary(z=z, R=correlations, n=n, max_size=1)
        ax = wv.plot_region(wv.exact(problem))
        strength = sorted(height for _, height in points(ax))
        assert strength == pytest.approx(sorted(-np.log10(2 * stats.norm.sf(np.abs(scores)))), rel=1e-5)


def test_chromosomes_follow_one_another_by_number(posterior: wv.Posterior) -> None:
    ax = wv.plot_manhattan(posterior, VARIANTS)
    assert [label.get_text() for label in ax.get_xticklabels()] == ["9", "10"]
    first, second = (line.get_xdata() for line in ax.get_lines()[:2])
    assert (len(first), len(second)) == (8, 4)
    assert max(first) < min(second)
    drawn = np.concatenate([line.get_ydata() for line in ax.get_lines()[:2]])
    assert drawn == pytest.approx(np.concatenate([posterior.pip[4:], posterior.pip[:4]]))
    assert "rs4" in [text.get_text() for text in ax.texts]


def test_what_cannot_be_drawn_is_said(posterior: wv.Posterior) -> None:
    with pytest.raises(wv.DataError, match="several chromosomes"):
        wv.plot_region(posterior, VARIANTS)
    with pytest.raises(wv.DataError, match="variants lacks 'rs0'"):
        wv.plot_manhattan(posterior, VARIANTS.iloc[1:])
    with pytest.raises(wv.WhichvarsError, match="a column 'position'"):
        wv.plot_region(posterior, VARIANTS[["chromosome"]])
    counts = wv.exact(wv.Problem(X[:, :3], RNG.poisson(1.0, N), family="poisson"))
    with pytest.raises(wv.DataError, match="plot_manhattan"):
        wv.plot_region(counts)
    assert wv.plot_manhattan(counts).get_ylabel() == "inclusion probability"


def test_a_region_of_cases_and_controls_has_p_values_of_score_tests() -> None:
    cases = (Y > 0.3).astype(float)
    ax = wv.plot_region(wv.exact(wv.Problem(X, cases, family="logistic", max_size=1)))
    # the score test of a logistic regression on one column is √n times their correlation
    z = np.array([np.corrcoef(x, cases)[0, 1] for x in X.T]) * np.sqrt(N)
    strength = sorted(height for _, height in points(ax))
    assert strength == pytest.approx(sorted(-np.log10(2 * stats.norm.sf(np.abs(z)))), rel=1e-6)


def test_a_manhattan_plot_of_one_chromosome_has_its_positions(posterior: wv.Posterior) -> None:
    one = VARIANTS.assign(chromosome="6", position=31_000_000 + 100 * np.arange(len(VARIANTS)))
    ax = wv.plot_manhattan(posterior, one)
    assert sorted(ax.lines[0].get_xdata()) == one["position"].tolist()
    assert ax.get_xlabel() == "position on chromosome 6"
