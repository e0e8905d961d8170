"""The paper's Tecator claims (Griffin, Łatuszyński & Steel, arXiv 1412.6760, section 6.1) and ours beside them.

Columns centred only, g = 100, h = 5/100, 10⁵ + 10⁶ iterations a run in total, divided among the chains where
there are several. Effective sample sizes are by batch means per inclusion indicator, so PIPs are the indicators' means
here and not Rao–Blackwellised; a variable that never moved counts as 0 (the paper's means hide such variables, the
minimum does not).
"""

import csv
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import whichvars as wv
from benchmarks.common import RESULTS, TICK, Table, environment, number
from benchmarks.problems import build
from benchmarks.runs import once, side_by_side

PAPER: dict[str, Any] = {
    "ads": 30_332,
    "lamnisos": 40_000,
    "ia": 200_000,
    "ratio_to_ads": "6–7",
    "ratio_to_lamnisos": "5",
    "mode": "14 (5–22)",
}
TAUS = (0.15, 0.25, 0.35, 0.45, 0.55, 0.65, 0.75, 0.85)
FEW_TAUS = (0.35, 0.45, 0.55)
DRAWS, WARMUP = 1_000_000, 100_000
SEED = 300


def plan(full: bool) -> list[dict[str, Any]]:
    """The settings to run: both competitors, then τ × r × w × φ₀."""
    taus, chains = (TAUS, (1, 5, 25)) if full else (FEW_TAUS, (1, 5, 25))
    ia = [
        {"sampler": "ia", "tau": tau, "chains": r, "w": w, "phi0": phi0}
        for phi0, r, w, tau in product((1.0, 10.0), chains, (0.0, 0.5), taus)
    ]
    return [{"sampler": "ads"}, {"sampler": "lamnisos"}, *ia]


def sampler_of(settings: dict[str, Any]) -> Any:
    if settings["sampler"] == "ads":
        return wv.AddDeleteSwap()
    if settings["sampler"] == "lamnisos":
        return wv.Lamnisos()
    return wv.IndividualAdaptation(**{key: value for key, value in settings.items() if key != "sampler"})


def proposal_sizes(proposed: np.ndarray) -> dict[str, float]:
    """Mode and central 95 % of the number of changes proposed, from counts by number."""
    share = np.cumsum(proposed) / np.sum(proposed)
    return {
        "changes_mode": int(np.argmax(proposed)),
        "changes_low": int(np.searchsorted(share, 0.025)),
        "changes_high": int(np.searchsorted(share, 0.975)),
    }


def odds_against_odds(add: np.ndarray, delete: np.ndarray, pip: np.ndarray) -> dict[str, float]:
    """Slope and correlation of log A_j/D_j against log PIP odds; the paper: on the diagonal (slope 1)."""
    moved = (pip > 0) & (pip < 1)
    x = np.log(pip[moved] / (1 - pip[moved]))
    y = np.log(add[moved] / delete[moved])
    x, y = x - x.mean(), y - y.mean()
    return {
        "odds_slope": float(x @ y / (x @ x)),
        "odds_correlation": float(x @ y / np.sqrt((x @ x) * (y @ y))),
    }


def effective_sizes(posterior: wv.Posterior) -> np.ndarray:
    """Of each inclusion indicator, PIP(1 − PIP) over the variance of its mean by batch means, (p,); 0 if it never moved.

    Not ``inclusion_ess``: the errors that a posterior reports are at least those that are typical of variables of like PIP, so that most
    variables would have the effective size of the less effective ones, and their mean would be far too small.
    """
    assert posterior.frequencies is not None
    assert posterior.frequency_mcse is not None
    pip, error = posterior.frequencies, posterior.frequency_mcse
    out = np.zeros(len(pip))
    moved = error > 0  # not NaN either
    out[moved] = pip[moved] * (1 - pip[moved]) / error[moved] ** 2
    return out


def measure(
    problem: wv.Problem,
    settings: dict[str, Any],
    draws: int,
    warmup: int,
    seed: int,
    truth: np.ndarray | None = None,
) -> dict[str, Any]:
    """One run: what the paper reports of it, and its mean squared error where the true PIPs are known."""
    posterior = once(problem, sampler_of(settings), seed, rao_blackwell=False, draws=draws, warmup=warmup)
    ess = effective_sizes(posterior)
    learned = posterior.adaptation[0]
    out = {
        "mutation_rate": learned["mutation_rate"],
        "mean_ess": float(ess.mean()),
        "median_ess": float(np.median(ess)),
        "minimum_ess": float(ess.min()),
        "never_moved": int(np.isnan(posterior.mcse).sum()),
        "cpu_seconds": posterior.cpu_seconds,
        "iterations_per_second": posterior.iterations / max(posterior.cpu_seconds, TICK),
        "mean_size": posterior.mean_size,
    }
    if truth is not None:
        out["squared_error"] = float(np.mean((posterior.pip - truth) ** 2))
    if "add_probability" in learned:
        out |= proposal_sizes(np.asarray(learned["changes_proposed"]))
        out |= odds_against_odds(learned["add_probability"], learned["delete_probability"], posterior.pip)
    return out


def replicate(
    full: bool,
    runs: int,
    draws: int = DRAWS,
    warmup: int = WARMUP,
    problem: wv.Problem | None = None,
    say: Callable[[str], None] = lambda text: None,
    threads: int = 1,
    truth: np.ndarray | None = None,
) -> dict[str, Any]:
    """All settings, `runs` runs each, the settings taking turns; means over runs, as written to JSON."""
    problem = build("tecator") if problem is None else problem
    settings = plan(full)
    found: list[list[dict[str, Any]]] = []
    for s in ({"sampler": "ads"}, {"sampler": "lamnisos"}, {"sampler": "ia"}):
        measure(problem, s, 1000, 100, 0)  # compile
    for run in range(runs):
        say(f"run {run + 1} of {runs}")
        jobs = [partial(measure, problem, s, draws, warmup, SEED + run, truth) for s in settings]
        found.append(side_by_side(jobs, threads))
    rows = summarise(settings, [list(measured) for measured in zip(*found)])
    return {
        "environment": environment(), "full": full, "runs": runs, "draws": draws, "warmup": warmup, "paper": PAPER,
        "rows": rows,
    }  # fmt: skip


def summarise(settings: list[dict[str, Any]], found: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """A row for each setting: means over its runs, how much these vary, and the ratios to both competitors, which come first."""
    rows = []
    for s, measured in zip(settings, found):
        mean = {key: float(np.mean([m[key] for m in measured])) for key in measured[0]}
        spread = float(np.std([m["mean_ess"] for m in measured], ddof=1)) if len(measured) > 1 else None
        rows.append(
            {
                **s,
                **mean,
                "runs": len(measured),
                "mean_ess_sd": spread,
                "worst_minimum_ess": min(m["minimum_ess"] for m in measured),
            }
        )
    base, second = rows[0]["mean_ess"], rows[1]["mean_ess"]
    for line in rows:
        line["ratio_to_ads"] = line["mean_ess"] / base
        line["ratio_to_lamnisos"] = line["mean_ess"] / second
    return rows


def write_csv(result: dict[str, Any], path: Path | None = None) -> Path:
    """All rows with all columns, for plots."""
    path = RESULTS / "tecator.csv" if path is None else path
    path.parent.mkdir(parents=True, exist_ok=True)
    columns = list(dict.fromkeys(key for line in result["rows"] for key in line))
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(result["rows"])
    return path


def _label(line: dict[str, Any]) -> str:
    kind = "RAPA" if line["w"] else "IA"
    return f"{kind}, r = {line['chains']}, φ₀ = {line['phi0']:g}"


def _best(rows: list[dict[str, Any]], **having: float) -> dict[str, Any] | None:
    chosen = [
        r for r in rows if r["sampler"] == "ia" and all(r[key] == value for key, value in having.items())
    ]
    return max(chosen, key=lambda r: r["mean_ess"]) if chosen else None


def tables(result: dict[str, Any]) -> list[Table]:
    """The paper's claims beside ours; then mutation rates and effective sample sizes by τ."""
    rows = result["rows"]
    ads, lamnisos = rows[0], rows[1]
    per = 1_000_000 / result["draws"]  # effective sample sizes are given per 10⁶ iterations
    claims = Table(
        f"Tecator, {result['runs']} runs of {result['warmup']:,} + {result['draws']:,} iterations: the paper and here",
        ["claim", "paper", "φ₀ = 1", "φ₀ = 10"],
    )
    best = [_best(rows, phi0=phi0) for phi0 in (1.0, 10.0)]

    def both(text: Callable[[dict[str, Any]], str]) -> list[str]:
        return [text(b) if b else "–" for b in best]

    claims.rows += [
        ["mean ESS, multi-move (add/delete/swap)", number(PAPER["ads"]), *[number(ads["mean_ess"] * per)] * 2],
        ["mean ESS, Lamnisos", number(PAPER["lamnisos"]), *[number(lamnisos["mean_ess"] * per)] * 2],
        ["mean ESS, best individual adaptation", f"about {PAPER['ia']:,}",
         *both(lambda b: f"{number(b['mean_ess'] * per)} ({_label(b).split(', φ')[0]}, τ = {b['tau']:g})")],
        ["ratio of mean ESS to multi-move", PAPER["ratio_to_ads"], *both(lambda b: number(b["ratio_to_ads"]))],
        ["ratio of mean ESS to Lamnisos", PAPER["ratio_to_lamnisos"], *both(lambda b: number(b["ratio_to_lamnisos"]))],
        ["minimum ESS of the same", "–", *both(lambda b: number(b["minimum_ess"] * per))],
        ["minimum ESS, multi-move", "–", *[number(ads["minimum_ess"] * per)] * 2],
        ["mean ESS per CPU second, ratio to multi-move", "–",
         *both(lambda b: number(b["mean_ess"] / b["cpu_seconds"] / (ads["mean_ess"] / ads["cpu_seconds"])))],
    ]  # fmt: skip
    at35 = [_best(rows, phi0=phi0, tau=0.35) for phi0 in (1.0, 10.0)]

    def sizes(line: dict[str, Any] | None) -> str:
        if line is None:
            return "–"
        return f"{line['changes_mode']:.0f} ({line['changes_low']:.0f}–{line['changes_high']:.0f})"

    def odds(line: dict[str, Any] | None) -> str:
        return "–" if line is None else f"{line['odds_slope']:.2f}, {line['odds_correlation']:.3f}"

    claims.rows += [
        ["changes proposed at τ = .35: mode (95 %)", PAPER["mode"], *map(sizes, at35)],
        ["log A/D on log PIP odds: slope, correlation", "1, –", *map(odds, at35)],
    ]  # fmt: skip
    out = [claims]
    taus = sorted({r["tau"] for r in rows if r["sampler"] == "ia"})
    groups = list(dict.fromkeys((r["chains"], r["w"], r["phi0"]) for r in rows if r["sampler"] == "ia"))
    for title, key, digits in (
        ("Mutation rate by τ", "mutation_rate", 3),
        ("Mean ESS per 10⁶ iterations by τ", "mean_ess", 3),
        ("Median ESS per 10⁶ iterations by τ", "median_ess", 3),
        ("Minimum ESS per 10⁶ iterations by τ", "minimum_ess", 3),
    ):
        factor = per if key.endswith("ess") else 1.0
        table = Table(title, ["", *(f"τ = {tau:g}" for tau in taus)])
        for chains, w, phi0 in groups:
            by_tau = {
                r["tau"]: r
                for r in rows
                if r["sampler"] == "ia" and (r["chains"], r["w"], r["phi0"]) == (chains, w, phi0)
            }
            first = next(iter(by_tau.values()))
            table.rows.append(
                [
                    _label(first),
                    *(number(by_tau[t][key] * factor, digits) if t in by_tau else "–" for t in taus),
                ]
            )
        for name, line in (("add/delete/swap", ads), ("Lamnisos", lamnisos)):
            table.rows.append([name, *[number(line[key] * factor, digits)] * len(taus)])
        out.append(table)
    return out
