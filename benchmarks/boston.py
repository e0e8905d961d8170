"""The paper's WMSE on Boston-104 (Griffin, Łatuszyński & Steel, arXiv 1412.6760, section 6.3) and ours beside it.

WMSE of a run is Σ_j w_j (θ̂_j − θ*_j)², θ the inclusion probabilities, w_j ∝ θ*_j, Σ w_j = 1, θ* from the stored
reference. The paper adds up its M = 60 runs; here the mean over runs is given, which does not depend on how many there
are, and the paper's number is divided by 60 to compare. The reference has an error of its own, the *floor*, which every
WMSE contains; it is shown.

First the paper's methods at the paper's sizes (a tenth of them unless ``--full``), by τ. Then tempering and
sequential Monte Carlo at the same CPU time as add/delete/swap with its memo: the sizes come from pilot runs. The
best of many settings looks better than it is, so it runs again beside add/delete/swap, with other seeds and twice
as often; what is concluded rests on those runs alone.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

import whichvars as wv
from benchmarks import references
from benchmarks.common import Table, environment, number
from benchmarks.problems import build
from benchmarks.runs import once, side_by_side

TAUS = (0.25, 0.35, 0.45, 0.55, 0.65)
FEW_TAUS = (0.25, 0.45)
PARTICLES = {1: 92_500, 5: 18_500, 10: 9_250, 25: 3_700, 50: 1_850}  # by K, at equal cost
RUNGS, PT_WARMUP, PT_DRAWS = 8, 12_500, 525_000
MH_WARMUP, MH_DRAWS = 12_500, 9_750_000
PAPER_RUNS = 60
PAPER_MH = 0.0071 / PAPER_RUNS  # the paper's number is a sum over its runs
SEED = 500
PILOT_PARTICLES = 100

Sized = Callable[[int], tuple[Any, dict[str, Any]]]  # size → sampler, arguments of sample()


def _by_draws(sampler: Any) -> Sized:
    return lambda size: (sampler, {"draws": size, "warmup": size // 10})


def _by_particles(steps: int, move: Any, ess: float = 0.9) -> Sized:
    return lambda size: (
        wv.SequentialMonteCarlo(particles=max(size, 2), steps=steps, move=move, ess=ess),
        {},
    )


BASELINE = "add/delete/swap"
# at equal CPU time: name → what to run at a given size, and the size of the first pilot
CONTEST: dict[str, tuple[Sized, int]] = {
    BASELINE: (_by_draws(wv.AddDeleteSwap()), 100_000),
    "PT, add/delete/swap, m = 3": (_by_draws(wv.ParallelTempering(wv.AddDeleteSwap(), rungs=3)), 30_000),
    "PT, add/delete/swap, m = 4": (_by_draws(wv.ParallelTempering(wv.AddDeleteSwap(), rungs=4)), 30_000),
    "PT, Lamnisos, m = 4": (_by_draws(wv.ParallelTempering(wv.Lamnisos(), rungs=4)), 30_000),
    "PT, IA τ = .25, m = 3": (
        _by_draws(wv.ParallelTempering(wv.IndividualAdaptation(tau=0.25), rungs=3)),
        20_000,
    ),
    "PT, IA τ = .25, m = 4, r = 5": (
        _by_draws(wv.ParallelTempering(wv.IndividualAdaptation(tau=0.25), rungs=4, chains=5)),
        20_000,
    ),
    "PT, IA τ = .35, m = 8": (
        _by_draws(wv.ParallelTempering(wv.IndividualAdaptation(tau=0.35), rungs=8)),
        10_000,
    ),
    "SMC, IA τ = .35, K = 50": (_by_particles(50, wv.IndividualAdaptation(tau=0.35)), PILOT_PARTICLES),
    "SMC, add/delete/swap, K = 1000": (_by_particles(1000, wv.AddDeleteSwap()), 20),
}


def wmse(pips: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Σ_j w_j (θ̂_j − θ*_j)² of each run; shapes (runs, p), (p,) → (runs,)."""
    return (np.asarray(pips) - truth) ** 2 @ (truth / truth.sum())


def of_one_draw(pip: np.ndarray) -> float:
    """Expected WMSE of one draw from the posterior itself, Σ_j w_j θ_j (1 − θ_j): a run with this WMSE divided by m is worth m
    independent draws."""
    return float(pip / pip.sum() @ (pip * (1 - pip)))


def floor_of(truth: references.Reference) -> float:
    """What the reference's own error adds to every WMSE."""
    weights = truth.pip / truth.pip.sum()
    return max(float(np.nan_to_num(e) ** 2 @ weights) for e in (truth.mcse, truth.between))


def plan(taus: Sequence[float], scale: float) -> list[dict[str, Any]]:
    """The paper's settings: add/delete/swap, then by τ tempering and SMC."""

    def scaled(size: int) -> int:
        return max(2, round(size * scale))

    settings: list[dict[str, Any]] = [
        {"method": "MH", "tau": None, "draws": scaled(MH_DRAWS), "warmup": scaled(MH_WARMUP)}
    ]
    for tau in taus:
        settings.append(
            {"method": f"PT, m = {RUNGS}", "tau": tau, "draws": scaled(PT_DRAWS), "warmup": scaled(PT_WARMUP)}
        )
        settings += [
            {"method": f"SMC, K = {k}", "tau": tau, "particles": scaled(n), "steps": k}
            for k, n in PARTICLES.items()
        ]
    return settings


def run_setting(problem: wv.Problem, setting: dict[str, Any], seed: int) -> wv.Posterior:
    """A run of one of the paper's settings, with PIPs by frequency as there."""
    size = {key: setting[key] for key in ("draws", "warmup") if key in setting}
    if setting["method"].startswith("MH"):
        return once(problem, wv.AddDeleteSwap(), seed, rao_blackwell=False, **size)
    move = wv.IndividualAdaptation(tau=setting["tau"])
    sampler: Any
    if setting["method"].startswith("PT"):
        sampler = wv.ParallelTempering(move, rungs=RUNGS)
    else:
        sampler = wv.SequentialMonteCarlo(particles=setting["particles"], steps=setting["steps"], move=move)
    return once(problem, sampler, seed, rao_blackwell=False, **size)


def run_settings(
    problem: wv.Problem,
    truth: np.ndarray,
    settings: list[dict[str, Any]],
    runs: int,
    threads: int = 1,
    say: Callable[[str], None] = lambda text: None,
    few_runs: int | None = None,
) -> list[dict[str, Any]]:
    """The settings with their WMSE, after `runs` runs in which they took turns; and, as the second row,
    add/delete/swap for as long as tempering took. SMC with K < 25, which the paper leaves aside, has `few_runs`."""
    found: list[list[wv.Posterior]] = [[] for _ in settings]
    for run in range(runs):
        say(f"the paper's figure: run {run + 1} of {runs}")
        due = [
            i
            for i, s in enumerate(settings)
            if few_runs is None or run < few_runs or s.get("steps", 50) >= 25
        ]
        made = side_by_side([partial(run_setting, problem, settings[i], SEED + run) for i in due], threads)
        for i, posterior in zip(due, made):
            found[i].append(posterior)
    rows = [{**s, **_summary(f, truth)} for s, f in zip(settings, found)]
    seconds = float(np.mean([r["cpu_seconds"] for r in rows if r["method"].startswith("PT")]))
    draws = size_for(problem, CONTEST[BASELINE][0], CONTEST[BASELINE][1], seconds, rao_blackwell=False)
    equal = {"method": "MH, CPU time of PT", "tau": None, "draws": draws, "warmup": draws // 10}
    again = side_by_side([partial(run_setting, problem, equal, SEED + run) for run in range(runs)], threads)
    rows.insert(1, {**equal, **_summary(again, truth)})
    return rows


def result_of(posterior: wv.Posterior, truth: np.ndarray) -> dict[str, float]:
    """What is needed of one run."""
    return {"wmse": float(wmse(posterior.pip[None], truth)[0]), "cpu_seconds": posterior.cpu_seconds}


def summarise(results: Sequence[dict[str, float]]) -> dict[str, Any]:
    """From the results of runs of one setting."""
    errors = np.array([result["wmse"] for result in results])
    runs = len(errors)
    return {
        "runs": runs,
        "wmse": float(errors.mean()),
        "wmse_se": float(errors.std(ddof=1) / np.sqrt(runs)) if runs > 1 else None,
        "cpu_seconds": float(np.mean([result["cpu_seconds"] for result in results])),
        "wmse_by_run": errors,
    }


def _summary(posteriors: list[wv.Posterior], truth: np.ndarray) -> dict[str, Any]:
    return summarise([result_of(posterior, truth) for posterior in posteriors])


def size_for(problem: wv.Problem, sized: Sized, pilot: int, budget: float, rao_blackwell: bool = True) -> int:
    """The size at which a run takes `budget` CPU seconds: pilots, since a memo makes long runs faster."""
    size = pilot
    for _ in range(6):
        sampler, arguments = sized(size)
        spent = once(problem, sampler, SEED - 1, rao_blackwell, **arguments).cpu_seconds
        if spent > 0.7 * budget:
            return max(2, int(size * budget / spent))
        size = max(2, int(size * min(8.0, 0.9 * budget / max(spent, 1e-3))))
    return size


def top_two(posteriors: list[wv.Posterior]) -> list[dict[str, Any]]:
    """The two best models, and the share of its iterations that each run spent there with its error.

    Shares, and their errors by batch means, are those of the thinned record. `agreement` is the mean square of (share − mean)/error:
    about 1 where the runs agree within their Monte Carlo errors.
    """
    best: dict[tuple[int, ...], float] = {}
    for posterior in posteriors:
        models = posterior.models
        for members, marginal, prior in list(zip(models.members, models.log_marginal, models.log_prior))[:5]:
            best[tuple(members)] = float(marginal + prior)
    out = []
    for members in sorted(best, key=lambda m: -best[m])[:2]:
        shares, errors = [], []
        for posterior in posteriors:
            batches: list[float] = []
            assert posterior.trace is not None
            for _, chain in posterior.trace.groupby("chain"):
                there = np.abs(chain["log_posterior"].to_numpy() - best[members]) < 1e-6
                batches += [float(b.mean()) for b in np.array_split(there, 16)]
            shares.append(float(np.mean(batches)))
            errors.append(float(np.std(batches, ddof=1) / np.sqrt(len(batches))))
        spread = np.array(shares) - np.mean(shares)
        runs = len(shares)
        out.append(
            {
                "members": [int(j) + 1 for j in members],
                "shares": shares,
                "errors": errors,
                "agreement": float(np.sum((spread / np.maximum(errors, 1e-9)) ** 2) / max(runs - 1, 1)),
            }
        )
    return out


def ratio(line: dict[str, Any], base: dict[str, Any]) -> tuple[float, float | None]:
    """WMSE × CPU seconds over that of `base`, and its standard error.

    What is left of a difference in CPU time is so taken out, as WMSE falls as one over it.
    """
    value = line["wmse"] * line["cpu_seconds"] / (base["wmse"] * base["cpu_seconds"])
    if line["wmse_se"] is None or base["wmse_se"] is None:
        return value, None
    return value, value * float(np.hypot(line["wmse_se"] / line["wmse"], base["wmse_se"] / base["wmse"]))


def measure(
    full: bool = False,
    runs: int | None = None,
    scale: float | None = None,
    budget: float | None = None,
    contest_runs: int | None = None,
    problem: wv.Problem | None = None,
    truth: references.Reference | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """The paper's figure, then the contest at equal CPU time; as written to JSON."""
    runs = (60 if full else 3) if runs is None else runs
    scale = (1.0 if full else 0.1) if scale is None else scale
    budget = (20.0 if full else 3.0) if budget is None else budget
    contest_runs = (60 if full else 6) if contest_runs is None else contest_runs
    problem = build("boston104") if problem is None else problem
    if truth is None:
        stored = references.load("boston104", problem)
        if isinstance(stored, str):
            say(f"{stored}; now made from a run of two minutes")
            stored = references.make(problem, 2.0)
        truth = stored
    floor = floor_of(truth)
    for sized, _ in CONTEST.values():  # compile
        sampler, arguments = sized(50)
        once(problem, sampler, 0, **arguments)
    rows = run_settings(problem, truth.pip, plan(TAUS if full else FEW_TAUS, scale), runs, say=say)

    contest: dict[str, list[wv.Posterior]] = {name: [] for name in CONTEST}
    sizes = {}
    for name, (sized, pilot) in CONTEST.items():
        sizes[name] = size_for(problem, sized, pilot, budget)
        say(f"{name}: {sizes[name]:,} in {budget:g} CPU seconds")
    for run in range(contest_runs):
        say(f"equal CPU time: run {run + 1} of {contest_runs}")
        for name, (sized, _) in CONTEST.items():
            sampler, arguments = sized(sizes[name])
            contest[name].append(once(problem, sampler, SEED + 1000 + run, **arguments))
    lines = []
    for name, posteriors in contest.items():
        learned = [p.adaptation[0] for p in posteriors]
        trips = [a["round_trips"] for a in learned if "round_trips" in a]
        distinct = [int(a["distinct_particles"][-1]) for a in learned if "distinct_particles" in a]
        lines.append(
            {
                "name": name,
                "size": sizes[name],
                **_summary(posteriors, truth.pip),
                "round_trips": float(np.mean(trips)) if trips else None,
                "distinct_particles": float(np.mean(distinct)) if distinct else None,
            }
        )
    for line in lines:
        line["ratio"], line["ratio_se"] = ratio(line, lines[0])
    best = min(lines[1:], key=lambda line: line["ratio"])["name"]
    again: dict[str, list[wv.Posterior]] = {best: [], BASELINE: []}
    for run in range(2 * contest_runs):
        say(f"{best} again: run {run + 1} of {2 * contest_runs}")
        for name in again:
            sampler, arguments = CONTEST[name][0](sizes[name])
            again[name].append(once(problem, sampler, SEED + 2000 + run, **arguments))
    confirmed = {name: _summary(posteriors, truth.pip) for name, posteriors in again.items()}
    best_ratio, best_se = ratio(confirmed[best], confirmed[BASELINE])
    return {
        "environment": environment(),
        "full": full,
        "runs": runs,
        "scale": scale,
        "budget": budget,
        "contest_runs": contest_runs,
        "floor": floor,
        "paper_mh": PAPER_MH,
        "rows": rows,
        "contest": lines,
        "best": best,
        "confirmed": confirmed,
        "best_ratio": best_ratio,
        "best_ratio_se": best_se,
        "top_two": {name: top_two(posteriors) for name, posteriors in again.items()},
    }


def _agrees(model: dict[str, Any]) -> str:
    return "agree" if model["agreement"] < 3 and min(model["shares"]) > 0 else "disagree"


def conclusion(result: dict[str, Any]) -> list[str]:
    """What the tables come to, a sentence each."""
    confirmed = result["confirmed"]
    out = [
        f"At equal CPU time ({result['budget']:g} s) the best of {len(result['contest']) - 1} settings of tempering and SMC, "
        f"{result['best']}, has {number(result['best_ratio'], 2)} ± {number(result['best_ratio_se'], 2)} times the WMSE of "
        f"add/delete/swap with memo ({number(confirmed[result['best']]['wmse'], 2)} and {number(confirmed[BASELINE]['wmse'], 2)}, "
        f"{confirmed[BASELINE]['runs']} new runs each; aim: at most 1/3)."
    ]
    for name, models in result["top_two"].items():
        for place, model in zip(("best", "second"), models):
            shares = model["shares"]
            out.append(
                f"{name}: the runs' probabilities of the {place} model ({' '.join(map(str, model['members']))}) {_agrees(model)}: "
                f"{min(shares):.3f} to {max(shares):.3f}, mean {np.mean(shares):.3f}, mean square score {number(model['agreement'], 2)}."
            )
    return out


def tables(result: dict[str, Any]) -> list[Table]:
    """WMSE by method and τ; the contest at equal CPU time; the conclusion as its note."""
    rows = result["rows"]
    taus = sorted({r["tau"] for r in rows if r["tau"] is not None})
    figure = Table(
        f"Boston-104: WMSE by τ, {result['runs']} runs at {result['scale']:g} of the paper's size",
        ["", *(f"τ = {tau:g}" for tau in taus), "CPU s per run"],
        note=f"The paper: {number(result['paper_mh'], 2)} per run for MH. The reference's own error is {number(result['floor'], 2)} of each.",
    )
    for method in dict.fromkeys(r["method"] for r in rows):
        chosen = {r["tau"]: r for r in rows if r["method"] == method}
        cpu = number(float(np.mean([r["cpu_seconds"] for r in chosen.values()])), 2)
        cells = [number(chosen.get(tau, chosen.get(None, {})).get("wmse"), 2) for tau in taus]
        figure.rows.append([method, *cells, cpu])
    contest = Table(
        f"Boston-104: {result['contest_runs']} runs at equal CPU time",
        ["", "WMSE", "±", "CPU s", "WMSE × CPU s, ratio", "± of it", "round trips", "distinct particles"],
        note=" ".join(conclusion(result)),
    )
    for line in result["contest"]:
        contest.rows.append(
            [
                line["name"],
                number(line["wmse"], 2),
                number(line["wmse_se"], 2),
                number(line["cpu_seconds"], 2),
                number(line["ratio"], 2),
                number(line["ratio_se"], 2),
                number(line["round_trips"], 2),
                number(line["distinct_particles"], 2),
            ]
        )
    return [figure, contest]
