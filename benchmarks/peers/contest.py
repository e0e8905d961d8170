"""Ours and others on the same workloads.

Every sampler runs at a few budgets of CPU time, each four times the one before. From the largest comes *mean squared PIP error × CPU
seconds*, given as a ratio to our default's; from all of them the *seconds to reach a worst PIP error of .02*: those of the
smallest budget at which the median over runs of the worst error is that small (no extrapolation: "more than" the largest
where it is not reached). CPU seconds are those of computing, warm-up included; start-up stands apart.

"Our best" is found by other runs, with other seeds, at a quarter of the budget.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

import whichvars as wv
from benchmarks import compare, problems, references, runs
from benchmarks.common import Table, environment, number
from benchmarks.peers import selection
from benchmarks.peers.exchange import Outcome, Skipped, Workload, workload
from whichvars.sampling.choosing import ENUMERATE
from whichvars.sampling.exact import number_of_models

DEFAULT_WORKLOADS = ("uscrime", "fls", "tecator", "boston104")
WORST = 0.02
STEPS = (64, 16, 4, 1)  # the budgets are the whole one over these
OUR_DEFAULT = "hybrid"
CANDIDATES = ("hybrid", "asi", "parni", "tgibbs", "ads-rb")  # for "our best"; names of benchmarks.compare
SEED, SEED_OF_CHOICE = 4000, 5000
LARGEST_FACTOR = 20.0  # between two pilots


class Peer(Protocol):
    """A program that gives inclusion probabilities."""

    @property
    def name(self) -> str: ...

    @property
    def first_size(self) -> int: ...  # of the first pilot

    @property
    def least_size(self) -> int: ...  # below which it makes no sense

    def check(self, work: Workload) -> None: ...

    def run(self, work: Workload, size: int, seed: int) -> Outcome: ...


@dataclass(frozen=True)
class Ours:
    """One of our samplers in the part of a peer: no process, so no start-up to speak of."""

    name: str
    sampler: Any
    first_size: int = 2000
    least_size: int = 1000

    def check(self, work: Workload) -> None:
        self.run(work, 1000, 0)  # compiles

    def run(self, work: Workload, size: int, seed: int) -> Outcome:
        posterior = runs.once(work.problem, self.sampler, seed, draws=size)
        return Outcome(posterior.pip, posterior.cpu_seconds)


def size_for(peer: Peer, work: Workload, budget: float) -> int:
    """The size at which computing takes about `budget` CPU seconds."""
    size = peer.first_size
    while True:
        spent = peer.run(work, size, 0).cpu_seconds
        if spent >= 0.1 * budget:
            return max(peer.least_size, round(size * budget / spent))
        size = round(size * min(LARGEST_FACTOR, max(2.0, 0.15 * budget / max(spent, 1e-6))))


def reached(ladder: Sequence[tuple[float, float]], worst: float = WORST) -> tuple[float, bool]:
    """From (CPU seconds, worst error) by budget: the seconds after which the error stays below `worst`, and True; or the
    largest seconds and False.

    >>> reached([(1, 0.5), (4, 0.01), (16, 0.03), (64, 0.015), (256, 0.01)])
    (64, True)
    >>> reached([(1, 0.5), (4, 0.1)])
    (4, False)
    """
    ordered = sorted(ladder)
    below = [error <= worst for _, error in ordered]
    if not below[-1]:
        return ordered[-1][0], False
    first = max((place + 1 for place, good in enumerate(below) if not good), default=0)
    return ordered[first][0], True


def row_of(outcomes: dict[int, list[Outcome]], reference: references.Reference) -> dict[str, Any]:
    """One line of the table, from the runs by step of the ladder (1 is the whole budget)."""
    whole = outcomes[min(outcomes)]
    seconds = np.array([o.cpu_seconds for o in whole])
    found = compare.score(np.array([o.pips for o in whole]), seconds, reference.pip, reference.floor)
    ladder = [
        (
            float(np.mean([o.cpu_seconds for o in some])),
            float(np.median([np.abs(o.pips - reference.pip).max() for o in some])),
        )
        for some in outcomes.values()
    ]
    needed, was_reached = reached(ladder)
    startup = [o.startup_seconds for o in whole]
    return {
        **found,
        "runs": len(whole),
        "cpu_seconds": float(seconds.mean()),
        "startup_seconds": float(np.mean(startup)),
        "ladder": ladder,
        "seconds_needed": needed,
        "reached": was_reached,
    }


def run_peer(
    peer: Peer, work: Workload, budget: float, count: int, seed: int, steps: Sequence[int] = STEPS
) -> dict[int, list[Outcome]]:
    """`count` runs at every budget; Skipped where the peer does not take part."""
    peer.check(work)
    size = size_for(peer, work, budget)
    sizes = {max(peer.least_size, size // step): step for step in steps}  # of equal sizes one is enough
    return {step: [peer.run(work, each, seed + run) for run in range(count)] for each, step in sizes.items()}


def exactly(work: Workload) -> Outcome:
    """Every model looked at, which is what our default does where they are few."""
    wv.exact(work.problem)  # compiles
    posterior = wv.exact(work.problem)
    return Outcome(posterior.pip, posterior.cpu_seconds)


def choose_best(
    work: Workload, reference: references.Reference, budget: float, count: int, say: Callable[[str], None]
) -> str:
    """The candidate with the smallest error × time at a quarter of the budget."""
    costs = {}
    for name in CANDIDATES:
        peer = Ours(name, compare.SAMPLERS[name])
        row = row_of(run_peer(peer, work, budget / 4, count, SEED_OF_CHOICE, (1,)), reference)
        costs[name] = float(np.mean(row["costs"]))
        say(f"  {name}: {number(costs[name], 2)}")
    return min(costs, key=lambda name: costs[name])


def of_workload(
    work: Workload,
    reference: references.Reference,
    peers: Sequence[Peer],
    given: dict[str, list[Outcome]],
    budget: float,
    count: int,
    say: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """Rows of all that take part, and why others do not. `given` are results from files, by name."""
    rows: dict[str, dict[str, Any]] = {}
    skipped: dict[str, str] = {}
    few = number_of_models(work.problem) <= ENUMERATE
    say(f"{work.name}: our default")
    default = Ours(OUR_DEFAULT, compare.SAMPLERS[OUR_DEFAULT])
    sampled = row_of(run_peer(default, work, budget, count, SEED), reference)
    if few:
        exact = exactly(work)
        rows["whichvars, default (every model)"] = row_of({1: [exact]}, reference)
        rows["whichvars, by sampling nevertheless"] = sampled
    else:
        rows["whichvars, default (hybrid)"] = sampled
    say(f"{work.name}: our best")
    best = choose_best(work, reference, budget, count, say)
    label = f"whichvars, best in other runs ({compare.LABELS[best].split(' (')[0]})"
    chosen = Ours(best, compare.SAMPLERS[best])
    rows[label] = (
        sampled if best == OUR_DEFAULT else row_of(run_peer(chosen, work, budget, count, SEED), reference)
    )
    for peer in peers:
        try:
            say(f"{work.name}: {peer.name}")
            rows[peer.name] = row_of(run_peer(peer, work, budget, count, SEED), reference)
        except Skipped as reason:
            skipped[peer.name] = str(reason)
            say(f"{peer.name} skipped: {reason}")
    for name, outcomes in given.items():
        rows[f"{name} (from files)"] = row_of({1: outcomes}, reference)
    base = sampled["cost"]
    for row in rows.values():
        row["ratio"] = None if base is None or row["cost"] is None or base <= 0 else row["cost"] / base
    picks, more = select(work, reference, sampled, say)
    return {
        "about": problems.PROBLEMS[work.name].about,
        "exact_default": few,
        "rows": rows,
        "selection": picks,
        "skipped": skipped | more,
    }


def select(
    work: Workload, reference: references.Reference, default: dict[str, Any], say: Callable[[str], None]
) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """What is selected by others, beside the variables whose probability is above one half."""
    wanted = reference.pip > 0.5
    true = None if work.truth is None else work.truth.to_numpy() != 0

    def quality(chosen: np.ndarray, seconds: float) -> dict[str, Any]:
        return {
            "cpu_seconds": seconds,
            "selected": int(chosen.sum()),
            "wanted": int(wanted.sum()),
            "found": int((chosen & wanted).sum()),
            "true": None if true is None else int(true.sum()),
            "true_found": None if true is None else int((chosen & true).sum()),
        }

    # ours: the sampler's time until its PIPs are good to .02
    rows = {"whichvars, PIP > ½": quality(wanted, float(default["seconds_needed"]))}
    skipped = {}
    for name, selector in selection.SELECTORS.items():
        say(f"{work.name}: {name}")
        try:
            rows[name] = quality(*selection.timed(selector, work, SEED))
        except Skipped as reason:
            skipped[name] = str(reason)
            say(f"{name} skipped: {reason}")
    return rows, skipped


def measure(
    names: Sequence[str],
    peers: Sequence[Peer],
    given: dict[str, dict[str, list[Outcome]]],
    budget: float,
    count: int,
    say: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """The whole contest, as it is written to JSON. `given`: workload → name → results from files."""
    result: dict[str, Any] = {"environment": environment(), "budget": budget, "runs": count, "workloads": {}}
    for name in names:
        work = workload(name)
        reference = references.load(name, work.problem)
        if isinstance(reference, str):
            say(f"{name} skipped: {reference}")
            continue
        result["workloads"][name] = of_workload(
            work, reference, peers, given.get(name, {}), budget, count, say
        )
    return result


def _ratio(row: dict[str, Any]) -> str:
    if row["worst_error"] < 1e-9:
        return "exact"
    if row["trust"] == compare.REFUSED:
        return "refused"
    return ("≈ " if row["trust"] == compare.FLAGGED else "") + number(row["ratio"])


def tables(result: dict[str, Any]) -> list[Table]:
    """Two tables a workload: probabilities, and what is selected."""
    out = []
    for found in result["workloads"].values():
        table = Table(
            found["about"],
            ["program", "MSE × CPU s, ratio", "worst PIP error", "CPU s to worst error .02", "CPU s per run", "start-up, CPU s"],
        )  # fmt: skip
        for name, row in found["rows"].items():
            needed = ("" if row["reached"] else "> ") + number(row["seconds_needed"], 2)
            table.rows.append(
                [name, _ratio(row), number(row["worst_error"], 2), needed, number(row["cpu_seconds"], 2), number(row["startup_seconds"], 2)]
            )  # fmt: skip
        table.note = " ".join(f"{name} is skipped: it {why}." for name, why in found["skipped"].items())
        picks = Table(
            f"{found['about'].split(':')[0]}: what is selected",
            ["program", "CPU s", "selected", "of those with reference PIP > ½"],
        )
        simulated = any(row["true"] is not None for row in found["selection"].values())
        if simulated:
            picks.columns.append("of the true effects")
        for name, row in found["selection"].items():
            line = [
                name,
                number(row["cpu_seconds"], 2),
                str(row["selected"]),
                f"{row['found']} of {row['wanted']}",
            ]
            picks.rows.append([*line, f"{row['true_found']} of {row['true']}"] if simulated else line)
        out += [table, picks]
    return out


def about(result: dict[str, Any]) -> str:
    return (
        f"{result['budget']:g} CPU seconds for the longest runs (more where a program has no runs so short), "
        f"{result['runs']} runs of each program, ratios to our default's sampler."
    )
