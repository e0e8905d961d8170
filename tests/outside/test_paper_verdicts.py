"""What the page on the paper says follows from the numbers beside it; each claim that differs has a reason that was measured."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))  # papers/ is no part of the installed package

from papers.individual_adaptation import (  # noqa: E402
    boston_bottlenecks,
    boston_models,
    boston_particles,
    boston_tempering,
    boston_trips,
    boston_wmse,
    page,
    pcr_pips,
    pcr_runs,
    stored,
)
from papers.individual_adaptation.__main__ import FIGURES  # noqa: E402
from papers.individual_adaptation.study import KEPT, Claim  # noqa: E402
from papers.individual_adaptation.summaries import Summary  # noqa: E402

NUMBERS = page.DOCS / page.NUMBERS
SECTIONS = page.read_sections(NUMBERS, FIGURES)
PAGE = (page.DOCS / "index.md").read_text(encoding="utf-8")


def rows_of(name: str, key: str) -> dict[str, dict[str, Any]]:
    return {row[key]: row for row in stored.reader(NUMBERS)(name)}


# --- the numbers beside the page


def test_every_figure_was_made() -> None:
    assert list(SECTIONS) == list(FIGURES)


def test_the_page_is_written_from_the_numbers_beside_it(tmp_path: Path) -> None:
    for file in NUMBERS.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    assert page.write_page(tmp_path, FIGURES).read_text(encoding="utf-8") == PAGE


@pytest.mark.parametrize("name", stored.JUDGES)
def test_verdicts_follow_from_the_numbers(name: str) -> None:
    judged = [vars(claim) for claim in stored.JUDGES[name](stored.reader(NUMBERS))]
    assert judged == SECTIONS[name]["claims"]


@pytest.mark.parametrize("name", FIGURES)
def test_no_claim_differs_without_a_reason(name: str) -> None:
    for claim in page.claims_of(SECTIONS[name]):
        if claim.agrees is False and not claim.fairer:
            assert claim.reason, claim.statement
            assert claim.reason in PAGE
    assert "We do not know yet" not in PAGE


def test_sections_that_reasons_refer_to_are_on_the_page() -> None:
    titles = {section["title"] for section in SECTIONS.values()}
    for section in SECTIONS.values():
        for claim in section["claims"]:
            for part in claim.get("reason", "").split("“")[1:]:
                assert part.split("”")[0] in titles


# --- the reasons


def test_two_programs_agree_on_what_the_paper_does_not_find() -> None:
    rows = rows_of("boston_tempering", "variant")
    for name in (boston_tempering.SIMPLE, boston_tempering.TEMPERED):
        one, other = rows[name], rows[boston_tempering.SECOND + name]
        error = np.hypot(one["wmse_se"], other["wmse_se"])
        assert abs(one["wmse"] - other["wmse"]) < boston_tempering.ALIKE * error
    simple = rows[boston_tempering.SIMPLE]["wmse"]
    ladders = {name: row["wmse"] for name, row in rows.items() if row["round_trips"] is not None}
    assert len(ladders) >= 14
    assert min(ladders.values()) > boston_wmse.WELL_BELOW * simple


def test_what_the_paper_leaves_open_was_tried() -> None:
    tried = set(rows_of("boston_tempering", "variant"))
    second = {boston_tempering.SECOND + name for name in (
        boston_tempering.WITHIN, boston_tempering.WITHIN_25, boston_tempering.BETWEEN, boston_tempering.BETWEEN_25
    )}  # fmt: skip
    own = {"φ₀ = 10", "φ₀ = 10, λ = .7", "λ = 1", "ten times the burn-in", boston_tempering.FROM_PRIOR}
    assert second | own <= tried
    ladders = set(rows_of("boston_bottlenecks", "method"))
    assert {f"IA-PT, {name}" for name in (boston_bottlenecks.DIFFERENCES, boston_bottlenecks.HELD)} <= ladders


def test_the_papers_table_has_the_error_of_our_tempering_and_not_less_than_simple_mh() -> None:
    """The reason that the page gives for what differs in WMSE."""
    paper, *rows = stored.reader(NUMBERS)(boston_models.TABLE)
    judged = boston_models.judge_accuracy(paper["median"], rows)
    assert [claim.agrees for claim in judged] == [True, False]
    assert judged == page.claims_of(SECTIONS["boston_models"])[-2:]


def test_what_is_said_of_the_pcr_runs_follows_from_those_that_are_kept() -> None:
    """Or the page says that they were not kept."""
    for row in stored.reader(NUMBERS)("pcr_agreement"):
        names = [f"{pcr_runs.name_of(row['prior'], row['chains'])}_{k + 1}" for k in range(row["runs"])]
        paths = [KEPT / f"{name}.npz" for name in names]
        runs = [Summary.load(path) for path in paths] if all(path.exists() for path in paths) else None
        if runs is None:
            said = " ".join(SECTIONS["pcr_pips"]["text"])
            assert row["part"] < 1 or "The runs themselves were not stored" in said
            continue
        again = pcr_pips.summarise(row["prior"], row["chains"], runs, pcr_runs.BLOCK, 1.0)
        assert {key: value if isinstance(value, str) else pytest.approx(value) for key, value in again.items()} == row  # fmt: skip


def test_models_travel_the_ladder_far_less_often_than_exchanges_allow() -> None:
    rows = rows_of("boston_bottlenecks", "method")
    for name in (boston_bottlenecks.RATIOS, boston_bottlenecks.DIFFERENCES, boston_bottlenecks.HELD):
        row = rows[f"IA-PT, {name}"]
        assert row["round_trips"] < boston_bottlenecks.FEW * row["independent_round_trips"]


def test_few_particles_have_descendants() -> None:
    rows = rows_of("boston_bottlenecks", "method")
    for steps in boston_bottlenecks.STEPS:
        row = rows[f"IA-SMC, K = {steps}"]
        left = [row[f"ancestors_at_{level:g}"] for level in boston_bottlenecks.LEVELS]
        assert left == sorted(left)
        assert row["ancestors_at_0.1"] < boston_bottlenecks.FEW * row["particles"]


def test_both_ladders_rest_at_the_same_exchange_rates() -> None:
    for row in stored.reader(NUMBERS)("boston_rungs"):
        if row["ladder"] != boston_bottlenecks.HELD and row["exchanges_with_the_next"] is not None:
            assert row["exchanges_with_the_next"] == pytest.approx(0.234, abs=0.03)


def test_each_reason_is_in_the_table_at_the_top() -> None:
    top = PAGE[: PAGE.index("## How to read")]
    for name in FIGURES:
        for claim in page.claims_of(SECTIONS[name]):
            if claim.agrees is False and not claim.fairer:
                assert claim.brief, claim.statement
                assert f"**differs**: {claim.brief}" in top
                assert len(claim.evidence) > 1, claim.statement


def test_more_exchanges_would_not_bring_tempering_below_simple_mh() -> None:
    """The reason why IA-PT differs: with a quarter of the round trips and as many moves it is as accurate, and it is far from simple MH."""
    rows = rows_of(boston_trips.TABLE, "variant")
    usual, rarest = rows[boston_trips.USUAL], rows[boston_trips.RAREST]
    assert rarest["round_trips"] < usual["round_trips"] / 3
    assert not boston_trips.fewer_exchanges_cost(list(rows.values()))
    simple = rows_of("boston_wmse", "method")["MH"]["wmse"]
    for row in boston_trips.ladders(list(rows.values())):
        assert row["wmse"] > boston_trips.WELL_BELOW * simple
        assert row["worth_of_a_trip"] - 3 * row["worth_of_a_trip_se"] < 1


def test_particles_lose_their_accuracy_where_it_is_said() -> None:
    """The reason why IA-SMC differs: begun with draws from the posterior late enough it is many times better, and nothing else brings it near simple MH."""
    rows = rows_of(boston_particles.TABLE, "variant")
    simple = rows_of("boston_wmse", "method")["MH"]["wmse"]
    usual, begins = rows[boston_particles.USUAL], boston_particles.BEGINS
    _, after = boston_particles.stretch(rows)
    assert rows[after]["worth_draws"] > 5 * usual["worth_draws"]
    early = rows[f"{begins}0.1"]
    assert abs(early["wmse"] - usual["wmse"]) < 3 * np.hypot(early["wmse_se"], usual["wmse_se"])
    for name, row in rows.items():
        if not name.startswith(begins):
            assert row["wmse"] > 5 * simple, name
            assert row["ancestors_at_0.3"] < 0.02 * row["particles"], name


# --- how they are judged


def test_independent_exchanges_make_as_many_round_trips_as_is_said() -> None:
    """Positions of m chains whose neighbours exchange at given rates, by simulation."""
    rates, iterations = np.array([0.3, 0.6, 0.2]), 200_000
    m, rng = len(rates) + 1, np.random.default_rng(0)
    slot, end, trips = np.arange(m), np.zeros(m, int), []
    pairs = rng.integers(m - 1, size=iterations)
    accepted = rng.random(iterations) < rates[pairs]
    for i in np.flatnonzero(accepted):
        k = pairs[i]
        slot[k], slot[k + 1] = slot[k + 1], slot[k]
        if k == 0 and end[slot[0]] == -1:
            end[slot[0]] = 1
        if k == m - 2:
            if end[slot[-1]] == 1:
                trips.append(i)
            end[slot[-1]] = -1
    expected = boston_bottlenecks.independent_trips(rates, iterations)
    by_batch = np.histogram(trips, bins=20, range=(0, iterations))[0]
    error = by_batch.std(ddof=1) * np.sqrt(20)
    assert abs(len(trips) - expected) < 4 * error


def bottleneck_rows(trips: float, other: float, ancestors: float) -> list[dict[str, Any]]:
    names = (boston_bottlenecks.RATIOS, boston_bottlenecks.DIFFERENCES, boston_bottlenecks.HELD)
    ladders = [
        {"method": f"IA-PT, {name}", "wmse": wmse, "wmse_se": 1e-5, "worth_draws": 40.0, "round_trips": trips, "independent_round_trips": 2500.0}
        for name, wmse in zip(names, (1e-3, other, 1e-3))
    ]  # fmt: skip
    particles = [
        {"method": f"IA-SMC, K = {k}", "particles": 1000, "worth_draws": 5.0}
        | {f"ancestors_at_{level:g}": ancestors for level in boston_bottlenecks.LEVELS}
        for k in boston_bottlenecks.STEPS
    ]
    return ladders + particles


def test_bottlenecks_both_ways() -> None:
    def verdicts(rows: list[dict[str, Any]]) -> list[bool | None]:
        return [claim.agrees for claim in boston_bottlenecks.judge(rows)]

    assert verdicts(bottleneck_rows(50, 1e-3, 20)) == [False] * 4
    assert verdicts(bottleneck_rows(500, 5e-4, 500)) == [True] * 4


def test_stored_numbers_are_judged_again(tmp_path: Path) -> None:
    """A verdict that does not follow from its numbers is replaced; a section without its numbers is left as it is."""
    for name in ("boston_wmse", "boston_tempering"):
        section = json.loads((NUMBERS / f"{name}.json").read_text(encoding="utf-8"))
        section["claims"] = [vars(Claim("wrong", "1", "2", True, "w"))]
        (tmp_path / f"{name}.json").write_text(json.dumps(section), encoding="utf-8")
        if name == "boston_tempering":
            for file, _ in section["tables"]:
                (tmp_path / file).write_bytes((NUMBERS / file).read_bytes())
    assert stored.judge_again(tmp_path) == ["boston_tempering"]
    left, judged = (
        json.loads((tmp_path / f"{n}.json").read_text(encoding="utf-8"))
        for n in ("boston_wmse", "boston_tempering")
    )
    assert left["claims"][0]["statement"] == "wrong"
    assert judged["claims"] == SECTIONS["boston_tempering"]["claims"]


def test_a_stored_picture_is_drawn_again(tmp_path: Path) -> None:
    """From the table alone; its axis has the values of τ that were run. A folder without the table is left as it is."""
    for file in ("boston_wmse.json", "boston_wmse.csv"):
        assert stored.draw_again(tmp_path) == []
        (tmp_path / file).write_bytes((NUMBERS / file).read_bytes())
    assert stored.draw_again(tmp_path) == ["boston_wmse"]
    assert {path.name for path in tmp_path.glob("boston_wmse.*g")} == {"boston_wmse.png", "boston_wmse.svg"}
    rows = stored.reader(NUMBERS)("boston_wmse")
    axes = boston_wmse.drawn(rows).axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == [
        f"{tau:g}" for tau in sorted({row["tau"] for row in rows if row["tau"]})
    ]
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert len(labels) == len({row["method"] for row in rows}) + 1  # and simple MH in the paper
