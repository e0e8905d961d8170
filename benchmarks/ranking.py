"""Is the default near the best sampler where posteriors are hard, and how far is it ahead of add/delete/swap?

On every problem four contestants make runs of the same CPU time, in turns, so that a slow minute of the machine hits all alike:

- `auto`, what a user gets who chooses nothing;
- add/delete/swap of this checkout, with PIPs by frequency;
- add/delete/swap of another checkout, in a process of its own;
- the best of the other samplers of the package. It is chosen by runs with other seeds, so that luck does not choose it.

The measure is that of `compare`: mean squared PIP error × CPU seconds, of a single replicate on one thread. CPU seconds are those of the
process from the call of ``sample`` to its return, so that the search for modes and all checks are paid for.

Runs are kept one by one beside the result, as those of `honesty` are, so that a table can be stopped, gone on with, and made for a few
problems at a time.
"""

import copy
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

import whichvars as wv
from benchmarks import common, compare, honesty, problems, runs
from benchmarks.common import ROOT, Table, environment, number
from benchmarks.honesty import Kept
from benchmarks.references import Reference, load

BUDGETS = (1.0, 4.0, 16.0)  # CPU seconds
RUNS = 8
SEED = 5000  # of the first run
FEWEST = 1000  # draws of a run
CHOOSING_SEED, CHOOSING_RUNS = 6000, 2  # of the runs that choose the best of the other samplers
NEAR_THE_BEST, AHEAD_OF_BASELINE = 2.0, 3.0  # the aims

AUTO, NOW, BEFORE = "auto", "ads", "ads-before"
# Those that are best on some problem of `compare`; the others are far behind these on all of them.
OTHERS = ("ads-rb", "asi", "parni", "tgibbs")
HARD = (
    "boston-products", "concrete164", "spectra268", "expression4088", "barrier22576", "barrier22576-g1", "blocks22576",
    "blocks22576-1", "blocks22576-2",
)  # fmt: skip

WORKER = """
import json, sys, time, warnings
import numpy as np
import whichvars as wv
from benchmarks import problems
warnings.simplefilter("ignore")
for line in sys.stdin:
    name, draws, seed, path = json.loads(line)
    problem = problems.build(name)
    began = time.process_time()
    posterior = wv.sample(problem, wv.AddDeleteSwap(), draws=draws, seed=seed, replicates=1, threads=1, rao_blackwell=False,
                          progress=False)
    seconds = time.process_time() - began
    np.savez(path, pip=posterior.pip, mcse=posterior.mcse, fingerprint=problems.fingerprint(problem), seconds=seconds)
    print("done", flush=True)
"""


class AnotherCheckout:
    """A process that runs add/delete/swap of another checkout, on the problems of this one."""

    def __init__(self, where: Path) -> None:
        self.code = honesty.code(where)
        # the package of the other checkout, the problems of this one
        path = os.pathsep.join([str(where / "src"), str(ROOT)])
        self.process = subprocess.Popen(
            [sys.executable, "-c", WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT,
            env={**os.environ, "PYTHONPATH": path},
        )  # fmt: skip

    def once(self, name: str, problem: wv.Problem, draws: int, seed: int) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "run.npz"
            print(json.dumps([name, draws, seed, str(path)]), file=self.process.stdin, flush=True)
            if not self.process.stdout.readline():
                raise RuntimeError(
                    f"add/delete/swap on {name} failed in the other checkout; its message is above"
                )
            with np.load(path, allow_pickle=False) as file:
                if not np.allclose(file["fingerprint"], problems.fingerprint(problem), rtol=1e-6):
                    raise RuntimeError(f"{name} is another problem in the other checkout")
                return {
                    "pip": file["pip"],
                    "mcse": file["mcse"],
                    "draws": draws,
                    "cpu_seconds": float(file["seconds"]),
                }

    def __enter__(self) -> "AnotherCheckout":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()


def once(problem: wv.Problem, contestant: str, draws: int, seed: int) -> dict[str, Any]:
    """One run of this checkout. It has a copy of the problem, so that each run pays for its own search for modes."""
    sampler = AUTO if contestant == AUTO else compare.SAMPLERS[contestant]
    problem = copy.copy(problem)
    began = time.process_time()
    posterior = runs.once(problem, sampler, seed, contestant not in compare.BY_FREQUENCY, draws=draws)
    return {
        "pip": posterior.pip,
        "mcse": posterior.mcse,
        "draws": draws,
        "cpu_seconds": time.process_time() - began,
    }


# --- making runs
# ----------------------------------------------------------------------------------------------------------


class Runs:
    """Runs of all contestants on one problem: those that are kept, and new ones."""

    def __init__(
        self,
        name: str,
        problem: wv.Problem,
        folder: Path,
        budgets: Sequence[float],
        other: AnotherCheckout | None = None,
        any_code: bool = False,
    ) -> None:
        self.name, self.problem, self.folder, self.budgets = name, problem, folder, budgets
        self.other, self.any_code = other, any_code
        self.print_of = problems.fingerprint(problem)
        self.code = honesty.code()
        self.draws: dict[tuple[str, float], int] = {}  # of a contestant's next run of so many CPU seconds
        self.so_far: dict[tuple[str, float], tuple[int, float]] = {}  # draws and CPU seconds of its runs

    def _kept(self, contestant: str) -> Kept:
        if contestant != BEFORE:
            return Kept(self.folder, self.code, contestant, self.any_code)
        # without the other checkout, its runs are there if they were made before
        return Kept(self.folder, self.other.code if self.other else "", contestant, self.other is None)

    def find(self, contestant: str, budget: float, seed: int) -> dict[str, Any] | None:
        return self._kept(contestant).find(self.name, budget, seed, self.print_of)

    def make(self, contestant: str, budget: float, seed: int) -> dict[str, Any]:
        """A run, which is made unless it is kept."""
        run = self.find(contestant, budget, seed)
        if run is None:
            run = self._once(contestant, self._draws(contestant, budget), seed)
            self._kept(contestant).keep(self.name, budget, seed, run, self.print_of)
            run = {
                **run,
                **{key: run[key].astype(np.float32).astype(float) for key in ("pip", "mcse")},
            }  # as it is kept
        self._learn(contestant, budget, run)
        return run

    def _learn(self, contestant: str, budget: float, run: dict[str, Any]) -> None:
        """The next run has as many draws as take the budget at the pace of all runs so far: a pilot run may have met a slow minute."""
        draws, seconds = self.so_far.get((contestant, budget), (0, 0.0))
        draws, seconds = draws + run["draws"], seconds + run["cpu_seconds"]
        self.so_far[contestant, budget] = draws, seconds
        count = budget * draws / seconds if seconds > 0 else FEWEST
        self.draws[contestant, budget] = max(FEWEST, round(count))

    def _once(self, contestant: str, draws: int, seed: int) -> dict[str, Any]:
        if contestant != BEFORE:
            return once(self.problem, contestant, draws, seed)
        assert self.other is not None
        return self.other.once(self.name, self.problem, draws, seed)

    def _half(self, contestant: str, budget: float) -> int:
        """Draws that take at least half of that budget, as far as shorter runs that are kept can tell; 0 if there are none."""
        for shorter in sorted((b for b in self.budgets if b < budget), reverse=True):
            run = self.find(contestant, shorter, SEED)
            if run is not None:
                return round(0.6 * budget / run["cpu_seconds"] * run["draws"])
        return 0

    def _draws(self, contestant: str, budget: float) -> int:
        """As many as take about so many CPU seconds; as many as the runs have that were made before.

        On wide problems the search for modes takes a large part of a short run, whatever the number of draws. So two runs are needed: one
        that is hardly more than the search, and one that tells what draws cost.
        """
        if (contestant, budget) not in self.draws:
            self._once(contestant, FEWEST, SEED - 1)  # compiles
            least = self._once(contestant, FEWEST, SEED - 1)["cpu_seconds"]
            draws = max(10 * FEWEST, self._half(contestant, budget))
            while True:
                seconds = self._once(contestant, draws, SEED - 1)["cpu_seconds"]
                more = max(seconds - least, 1e-6)
                if more >= 0.3 * budget:
                    break
                draws = round(draws * min(10.0, max(2.0, 0.5 * budget / more)))
            rate = (draws - FEWEST) / more
            self.draws[contestant, budget] = FEWEST + max(0, round(rate * (budget - least)))
        return self.draws[contestant, budget]


def best_of(found: dict[str, list[dict[str, Any]]], reference: Reference) -> str:
    """The sampler with the least mean squared error × CPU seconds."""

    def cost(made: list[dict[str, Any]]) -> float:
        return float(
            np.mean([np.mean((run["pip"] - reference.pip) ** 2) * run["cpu_seconds"] for run in made])
        )

    return min(found, key=lambda name: cost(found[name]))


def measure(
    names: Sequence[str],
    budgets: Sequence[float] = BUDGETS,
    count: int = RUNS,
    others: Sequence[str] = OTHERS,
    baseline: Path | None = None,
    folder: Path | None = None,
    any_code: bool = False,
    new_runs: bool = True,
    say: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """The tables, with whatever runs are kept in `folder`; those that are missing are made, if `new_runs`. Shorter budgets come first, so
    that there is a complete table for some budgets whenever it is stopped."""
    folder = folder or common.RESULTS / "ranking"
    result: dict[str, Any] = {
        "environment": environment(),
        "code": honesty.code(),
        "runs": count,
        "others": list(others),
        "chosen_at": min(budgets),
        "budgets": {},
    }
    with ExitStack() as stack:
        other = stack.enter_context(AnotherCheckout(baseline)) if baseline and new_runs else None
        for budget in sorted(budgets):
            rows: dict[str, Any] = {}
            for name in names:
                problem = problems.build(name)
                reference = load(name, problem)
                if isinstance(reference, str):
                    say(f"{name}: left out, {reference}")
                else:
                    say(f"{name}, {budget:g} CPU seconds")
                    place = Runs(name, problem, folder, budgets, other, any_code)
                    rows[name] = {
                        "about": problems.PROBLEMS[name].about,
                        "final_check": name in problems.FINAL_CHECK,
                        "reference": {"rms_error": reference.floor**0.5, "worst_error": reference.worst, "weak": reference.weakness},
                        **_on_one(place, reference, budget, min(budgets), count, others, new_runs),
                    }  # fmt: skip
                problems.build.cache_clear()
            result["budgets"][f"{budget:g}"] = rows
    return result


def _on_one(
    place: Runs,
    reference: Reference,
    budget: float,
    shortest: float,
    count: int,
    others: Sequence[str],
    new_runs: bool,
) -> dict[str, Any]:
    """All contestants on one problem, with the same CPU time."""
    take = place.make if new_runs else place.find
    trials = {name: [take(name, shortest, CHOOSING_SEED + i) for i in range(CHOOSING_RUNS)] for name in (NOW, *others)}  # fmt: skip
    complete = {name: made for name, made in trials.items() if None not in made}
    best = best_of(complete, reference) if len(complete) == len(trials) else None  # type: ignore[arg-type]
    contestants = [AUTO, NOW]
    if place.other is not None or not new_runs:
        contestants.append(BEFORE)
    if best is not None and best != NOW:
        contestants.append(best)
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in contestants}
    for i in range(count):
        turn = i % len(contestants)
        for name in contestants[turn:] + contestants[:turn]:
            run = take(name, budget, SEED + i)
            if run is not None:
                found[name].append(run)
    rows = {name: _row(made, reference) for name, made in found.items() if len(made) > 1}
    return {"best": best, "rows": rows, "ratios": _ratios(rows, best)}


def _row(made: list[dict[str, Any]], reference: Reference) -> dict[str, Any]:
    """What the runs of one contestant are worth."""
    pips, errors = (np.array([run[key] for run in made]) for key in ("pip", "mcse"))
    row = compare.score(pips, np.array([run["cpu_seconds"] for run in made]), reference.pip, reference.floor)
    claimed = 0.0 if np.isnan(errors).all() else float(np.sqrt(np.nanmean(errors**2)))
    return {
        **{key: value for key, value in row.items() if key != "mse_runs"},
        "runs": len(made),
        "cpu_seconds": float(np.mean([run["cpu_seconds"] for run in made])),
        "calibration": row["rmse"] / claimed if claimed > 0 and row["trust"] != compare.REFUSED else None,
    }


def _ratios(rows: dict[str, dict[str, Any]], best: str | None) -> dict[str, Any]:
    """Squared error × CPU seconds of the others over that of `auto`, with intervals."""
    against = {"before": BEFORE, "now": NOW, "best": best}
    return {
        key: compare.gain(rows[name], rows[AUTO])
        for key, name in against.items()
        if name in rows and AUTO in rows
    }


# --- tables
# ----------------------------------------------------------------------------------------------------------


def _times(found: dict[str, Any] | None, refused: bool) -> list[str]:
    if found is None:
        return ["–", "–"]
    if found["gain"] is None:
        return ["refused" if refused else "–", "–"]
    return [number(found["gain"], 2), f"{number(found['gain_low'], 2)} – {number(found['gain_high'], 2)}"]


def tables(result: dict[str, Any]) -> list[Table]:
    """For each budget one table of the problems that were used for choices, and one of those kept for the final check."""
    out = []
    for budget, rows in result["budgets"].items():
        for final in (False, True):
            chosen = {
                name: row for name, row in rows.items() if row["final_check"] == final and AUTO in row["rows"]
            }
            if not chosen:
                continue
            seconds = f"{budget} CPU second{'' if budget == '1' else 's'}"
            kind = "problems kept for the final check" if final else "hard problems"
            table = Table(
                f"{seconds} a run, {kind}: how many times better auto is",
                ["problem", "runs", "RMS error", "actual/claimed", "than add/delete/swap before", "90 %", "than add/delete/swap now", "90 %",
                 "than the best other", "90 %", "the best other"],
            )  # fmt: skip
            for name, row in chosen.items():
                auto = row["rows"][AUTO]
                refused = auto["trust"] == compare.REFUSED
                mark = "≈ " if auto["trust"] == compare.FLAGGED else ""
                cells = [text for key in ("before", "now", "best") for text in _times(row["ratios"].get(key), refused)]  # fmt: skip
                table.rows.append([
                    name + ("" if not row["reference"]["weak"] else " (weak reference)"),
                    str(min(part["runs"] for part in row["rows"].values())),
                    "refused" if refused else mark + number(auto["rmse"], 2),
                    "refused" if refused else number(auto["calibration"], 2),
                    *cells,
                    compare.LABELS.get(row["best"], "not chosen yet"),
                ])  # fmt: skip
            table.note = verdict(chosen)
            out.append(table)
    return out


def verdict(rows: dict[str, Any]) -> str:
    """Which aims are met, in one or two sentences."""

    def judged(key: str, enough: float) -> tuple[list[str], list[str]]:
        met: list[str] = []
        missed: list[str] = []
        for name, row in rows.items():
            found = row["ratios"].get(key)
            if found is not None and found["gain"] is not None:
                (met if found["gain"] >= enough else missed).append(name)
        return met, missed

    said = []
    for key, enough, text in (
        ("best", 1 / NEAR_THE_BEST, f"auto is within {NEAR_THE_BEST:g} × of the best other sampler"),
        ("before", AHEAD_OF_BASELINE, f"it is at least {AHEAD_OF_BASELINE:g} × as good as add/delete/swap before"),
    ):  # fmt: skip
        met, missed = judged(key, enough)
        if met or missed:
            but = f" (not on {', '.join(missed)})" if missed else ""
            said.append(f"{text} on {len(met)} of {len(met) + len(missed)} problems{but}")
    text = "; ".join(said)
    return text[:1].upper() + text[1:] + "." if text else ""


EXPLANATION = (
    "The numbers are ratios of mean squared error × CPU seconds, that of the other over that of auto, with 90 % bootstrap intervals over "
    "runs; below 1, auto is worse. RMS error and actual/claimed are those of auto; ≈: the reference's error is more than 10 % of the "
    "measured one, and subtracted; refused: it is more than half of it."
)
