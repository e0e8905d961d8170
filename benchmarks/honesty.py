"""Do runs say so when they are wrong, and only then?

Every run is one that a user would make: four replicates, the default settings, and as many draws as take about a given number of
CPU seconds. Its inclusion probabilities are held against the reference of the problem. A run is

- **wrong** if an inclusion probability is off by more than .02 and by more than four errors, of that variable: the error that the
  run claims and that of the reference together;
- **warned of** if there was a warning, ``converged`` is False, or no error at all could be told. Of a variable whose own error is
  unknown (NaN: it never moved) nothing was claimed, so it cannot make a run wrong without a warning; runs that are
  wrong only there are counted apart;
- a **false alarm** if it is warned of although all its inclusion probabilities are within .01.

Runs are kept one by one beside the result, under an identity of the code that made them, so that a table can be stopped, gone on with,
made for a few problems only, and judged anew when references are better.
"""

import hashlib
import json
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import whichvars as wv
from benchmarks import common, problems
from benchmarks.common import ROOT, Table, environment, number
from benchmarks.compare import LARGE_FLOOR, SAMPLERS, SMALL_FLOOR
from benchmarks.references import Reference, load

BUDGETS = (1.0, 4.0, 16.0)  # CPU seconds
SEEDS = 16
SEED = 3000  # the first of them
ERRORS_APART = 4.0
MATTERS = 0.02  # an error that is worth a warning
HARMLESS = 0.01  # and one that is not
CALIBRATED = (0.6, 1.6)  # actual over claimed error
NEGLIGIBLE = 1e-4  # actual and claimed errors whose ratio nobody minds

CHOICES: dict[str, Any] = {
    "auto": "auto",
    **{name: sampler for name, sampler in SAMPLERS.items() if getattr(sampler, "by_draws", True)},
}


# --- judging
# ----------------------------------------------------------------------------------------------------------


def judge(
    pip: np.ndarray,
    claimed: np.ndarray,
    warned: bool,
    reference: np.ndarray,
    reference_error: np.ndarray,
) -> dict[str, Any]:
    """What is to be said of one run. All arrays have shape (p,); NaN in `claimed` is an error that the run does not know."""
    error, own = np.abs(pip - reference), np.nan_to_num(reference_error)
    error = np.nan_to_num(error, nan=1.0)  # no number is as wrong as can be
    known = ~np.isnan(claimed)
    together = np.hypot(np.where(known, claimed, 0.0), own)
    off = error > np.maximum(MATTERS, ERRORS_APART * together)
    warned = bool(warned or not known.any())
    wrong = bool(off.any())
    claimed_off = bool(off[known].any())
    beyond = np.sqrt(np.maximum(error**2 - own**2, 0.0))  # without what the reference adds to it
    told = known & (together > 0)
    return {
        "largest_error": float(error.max()),
        "largest_claimed": float(claimed[known].max()) if known.any() else None,
        "rms_z": float(np.sqrt(np.mean((error[told] / together[told]) ** 2))) if told.any() else None,
        "squared_error": float(np.mean(error[known] ** 2)) if known.any() else None,
        "squared_claimed": float(np.mean(claimed[known] ** 2)) if known.any() else None,
        "squared_reference": float(np.mean(own[known] ** 2)) if known.any() else None,
        "unknown_errors": int((~known).sum()),
        "warned": warned,
        "wrong": wrong,
        "silently_wrong": claimed_off and not warned,
        "wrong_where_unknown": wrong and not claimed_off and not warned,
        "accurate": bool(beyond.max() < HARMLESS),
        "false_alarm": bool(warned and beyond.max() < HARMLESS),
    }


def ratio(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Root mean squared error over root mean squared claimed error, the reference's own subtracted.

    None where the reference's error is most of what was measured, where nothing was claimed, and where both are negligible.
    """
    told = [run for run in runs if run["squared_claimed"]]
    if not told:
        return {"value": None, "why": "–"}
    actual, own, claimed = (
        float(np.mean([run[name] for run in told]))
        for name in ("squared_error", "squared_reference", "squared_claimed")
    )
    if max(actual, claimed) < NEGLIGIBLE**2:
        return {"value": None, "why": "both < .0001"}
    share = own / actual if actual > 0 else float(own > 0)
    if share > LARGE_FLOOR:
        return {"value": None, "why": "refused"}
    return {"value": float(np.sqrt((actual - own) / claimed)), "why": "≈ " if share > SMALL_FLOOR else ""}


def count(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What is to be said of several runs."""

    def total(name: str) -> int:
        return sum(bool(run[name]) for run in runs)

    return {
        "runs": len(runs),
        **{name: total(name) for name in ("warned", "wrong", "silently_wrong", "wrong_where_unknown", "accurate", "false_alarm")},
        "ratio": ratio(runs),
        "ratio_unwarned": ratio([run for run in runs if not run["warned"]]),
    }  # fmt: skip


# --- runs, kept one by one
# ----------------------------------------------------------------------------------------------------------


def code(checkout: Path = ROOT) -> str:
    """Ten letters that change when the package's code does, whether it is committed or not."""
    digest = hashlib.sha256()
    for path in sorted((checkout / "src").rglob("*.py")):
        digest.update(str(path.relative_to(checkout)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:10]


@dataclass(frozen=True)
class Kept:
    """Runs of one sampler in a folder: FOLDER/CODE/SAMPLER/PROBLEM@BUDGET@SEED.npz."""

    folder: Path
    code: str
    sampler: str
    any_code: bool = False  # whether runs that other code made are taken too

    def path(self, name: str, budget: float, seed: int) -> Path:
        return self.folder / self.code / self.sampler / f"{name}@{budget:g}@{seed}.npz"

    def _places(self) -> Iterator[Path]:
        yield self.folder / self.code / self.sampler
        if self.any_code and self.folder.exists():
            others = [path / self.sampler for path in self.folder.iterdir() if path.name != self.code]
            yield from sorted(others, key=lambda path: path.stat().st_mtime if path.exists() else 0.0, reverse=True)  # fmt: skip

    def find(self, name: str, budget: float, seed: int, print_of: np.ndarray) -> dict[str, Any] | None:
        """A run that is done, of the problem with that fingerprint."""
        for place in self._places():
            path = place / f"{name}@{budget:g}@{seed}.npz"
            if path.exists():
                with np.load(path, allow_pickle=False) as file:
                    if np.allclose(file["fingerprint"], print_of, rtol=1e-6):
                        about = json.loads(str(file["about"]))
                        return {"pip": file["pip"].astype(float), "mcse": file["mcse"].astype(float), **about}
        return None

    def keep(self, name: str, budget: float, seed: int, run: dict[str, Any], print_of: np.ndarray) -> None:
        """Written aside and renamed, so that a run is there as a whole or not at all."""
        path = self.path(name, budget, seed)
        path.parent.mkdir(parents=True, exist_ok=True)
        about = {key: value for key, value in run.items() if key not in ("pip", "mcse")}
        aside = path.with_name(f".{path.stem}.{os.getpid()}.npz")
        np.savez_compressed(
            aside, pip=run["pip"].astype(np.float32), mcse=run["mcse"].astype(np.float32), fingerprint=print_of,
            about=np.array(json.dumps(common.plain(about))),
        )  # fmt: skip
        aside.replace(path)


def once(problem: wv.Problem, sampler: Any, draws: int, seed: int, threads: int = 1) -> dict[str, Any]:
    """One run as a user makes it, and every word of warning that came with it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        posterior = wv.sample(
            problem, sampler, draws=draws, replicates=4, threads=threads, seed=seed, progress=False
        )
    said = [str(w.message) for w in caught if issubclass(w.category, wv.ConvergenceWarning)]
    said = list(dict.fromkeys([*said, *posterior.warnings]))
    return {
        "pip": posterior.pip.astype(np.float32).astype(float),  # as it is kept
        "mcse": posterior.mcse.astype(np.float32).astype(float),
        "draws": draws,
        "cpu_seconds": posterior.cpu_seconds,
        "mean_size": posterior.mean_size,
        "converged": bool(posterior.converged),
        "said": [text[:300] for text in said],
        "warned": bool(said) or not posterior.converged,
    }


def pilot(problem: wv.Problem, sampler: Any, seconds: float) -> float:
    """Draws a CPU second, of a run that takes about as long as that.

    The first runs on a wide problem take several times as long as those that follow, until the memory of their tables has been used
    once. So a run counts as long enough only if one with twice the draws takes clearly longer.
    """
    draws = 2000
    # the search for modes, made once for a problem, is no part of the rate
    once(problem, sampler, draws, SEED - 1)
    while True:
        spent = once(problem, sampler, draws, SEED - 1)["cpu_seconds"]
        if spent >= 0.5 * seconds:
            longer = once(problem, sampler, 2 * draws, SEED - 1)["cpu_seconds"]
            if longer > 1.5 * spent:
                return draws / spent
            draws *= 2
        else:
            draws = round(draws * min(10.0, max(2.0, 0.7 * seconds / max(spent, 1e-6))))


def measure(
    names: Sequence[str],
    budgets: Sequence[float] = BUDGETS,
    seeds: int = SEEDS,
    sampler: str = "auto",
    folder: Path | None = None,
    any_code: bool = False,
    new_runs: bool = True,
    say: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """The table, with whatever runs are kept in `folder`; those that are missing are made, if `new_runs`."""
    kept = Kept(folder or common.RESULTS / "honesty", code(), sampler, any_code)
    result: dict[str, Any] = {
        "environment": environment(),
        "code": kept.code,
        "sampler": sampler,
        "budgets": sorted(budgets),
        "seeds": seeds,
        "problems": {},
    }
    for name in names:
        problem = problems.build(name)
        reference = load(name, problem)
        if isinstance(reference, str):
            say(f"{name}: left out, {reference}")
        else:
            runs = _runs(name, problem, result["budgets"], seeds, kept, reference, new_runs, say)
            result["problems"][name] = {
                "about": problems.PROBLEMS[name].about,
                "final_check": name in problems.FINAL_CHECK,
                "reference": {**reference.about, "worst_error": reference.worst, "weak": reference.weakness},
                "runs": runs,
            }
        problems.build.cache_clear()  # twenty of them at the same time are too many for a small machine
    return result


def _runs(
    name: str,
    problem: wv.Problem,
    budgets: Sequence[float],
    seeds: int,
    kept: Kept,
    reference: Reference,
    new_runs: bool,
    say: Callable[[str], None],
) -> list[dict[str, Any]]:
    """All runs on one problem, judged; the longer ones after the shorter, which tell how many draws they need."""
    print_of = problems.fingerprint(problem)
    sampler, out, rate = CHOICES[kept.sampler], [], None
    compiled = False
    for budget in budgets:
        done = {seed: kept.find(name, budget, seed, print_of) for seed in range(SEED, SEED + seeds)}
        before = [run["draws"] for run in done.values() if run is not None]
        missing = [seed for seed, run in done.items() if run is None] if new_runs else []
        if missing:
            if not compiled:
                once(problem, sampler, 1000, SEED - 1)
                compiled = True
            if not before and rate is None:
                rate = pilot(problem, sampler, min(budget, 1.0))
            draws = before[0] if before else max(1000, round((rate or 0.0) * budget))
            say(f"{name}, {budget:g} CPU seconds: {len(missing)} runs of {draws:,} draws")
            for seed in missing:
                done[seed] = once(problem, sampler, draws, seed)
                kept.keep(name, budget, seed, done[seed], print_of)  # type: ignore[arg-type]
        found = {seed: run for seed, run in done.items() if run is not None}
        if found:
            rate = float(np.median([run["draws"] / run["cpu_seconds"] for run in found.values()]))
        for seed, run in found.items():
            verdict = judge(run["pip"], run["mcse"], run["warned"], reference.pip, reference.error)
            told = {key: run[key] for key in ("draws", "cpu_seconds", "mean_size", "converged", "said")}
            out.append({"budget": budget, "seed": seed, **told, **verdict})
    return out


# --- tables
# ----------------------------------------------------------------------------------------------------------


def _ratio(found: dict[str, Any]) -> str:
    return found["why"] + ("" if found["value"] is None else number(found["value"], 2))


def _share(part: int, whole: int) -> str:
    return f"{part} of {whole} ({100 * part / whole:.0f} %)" if whole else "–"


def _known(reference: dict[str, Any]) -> str:
    if reference["worst_error"] == 0:
        return "exact"
    return f"± {number(reference['worst_error'], 2)}" + (", weak" if reference["weak"] else "")


def tables(result: dict[str, Any]) -> list[Table]:
    """One line a problem, and one for all of them."""
    budgets = result["budgets"]
    table = Table(
        f"Wrong without a warning: {result['sampler']}, {result['seeds']} seeds at {', '.join(f'{b:g}' for b in budgets)} CPU second{'s' * (budgets != [1.0])}",
        ["problem", "runs", "wrong", "without a warning", "where no error was told", "false alarms, of accurate runs",
         *(f"actual/claimed, {b:g} s" for b in budgets), "reference"],
    )  # fmt: skip
    everything: list[dict[str, Any]] = []
    for name, found in result["problems"].items():
        runs = found["runs"]
        if not runs:
            continue
        everything += runs
        cells = [_ratio(ratio([run for run in runs if run["budget"] == b])) for b in budgets]
        mark = " *" if found["final_check"] else ""
        table.rows.append([name + mark, *_counts(count(runs)), *cells, _known(found["reference"])])
    if everything:
        table.rows.append(["in all", *_counts(count(everything)), *([""] * len(budgets)), ""])
    table.note = EXPLANATION
    weak = [f"{name}: {found['reference']['weak']}" for name, found in result["problems"].items() if found["reference"]["weak"]]  # fmt: skip
    if weak:
        table.note += " Weak references: " + "; ".join(weak) + "."
    return [table]


def _counts(found: dict[str, Any]) -> list[str]:
    return [
        str(found["runs"]),
        str(found["wrong"]),
        _share(found["silently_wrong"], found["runs"]),
        str(found["wrong_where_unknown"]),
        _share(found["false_alarm"], found["accurate"]),
    ]


def details(result: dict[str, Any]) -> Table:
    """One line a problem and budget, for whoever wants to mend something."""
    columns = [
        "problem", "budget", "CPU s", "largest error", "of any run", "claimed", "rms z", "actual/claimed", "unwarned runs'", "warned of",
        "wrong", "silently", "false alarms",
    ]  # fmt: skip
    table = Table("By budget (medians over runs, unless said otherwise)", columns)

    def median(runs: list[dict[str, Any]], name: str) -> str:
        values = [run[name] for run in runs if run[name] is not None]
        return number(float(np.median(values)), 2) if values else "–"

    for name, found in result["problems"].items():
        for budget in result["budgets"]:
            runs = [run for run in found["runs"] if run["budget"] == budget]
            if runs:
                counted = count(runs)
                table.rows.append([
                    name, f"{budget:g}", median(runs, "cpu_seconds"), median(runs, "largest_error"),
                    number(max(run["largest_error"] for run in runs), 2), median(runs, "largest_claimed"), median(runs, "rms_z"),
                    _ratio(counted["ratio"]), _ratio(counted["ratio_unwarned"]),
                    *(f"{counted[key]} of {len(runs)}" for key in ("warned", "wrong", "silently_wrong", "false_alarm")),
                ])  # fmt: skip
    return table


EXPLANATION = (
    f"wrong: an inclusion probability is off by more than {MATTERS:g} and by more than {ERRORS_APART:g} of its errors, the "
    "reference's included; where no error was told: wrong and not warned of, but only at variables whose error the run calls unknown; "
    f"false alarms: warned of although every probability is within {HARMLESS:g}; actual/claimed: root mean squared error over the "
    f"claimed one, which should be between {CALIBRATED[0]:g} and {CALIBRATED[1]:g} (≈: the reference's error is more than "
    f"{SMALL_FLOOR:.0%} of what was measured, and subtracted; refused: more than {LARGE_FLOOR:.0%}). * kept for the final check."
)
