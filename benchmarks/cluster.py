"""What a Dask cluster gives and costs: one and two workers on this machine, what a round costs beside advancing, where dividing
the chains of a replicate pays; and, by a cost model and not by measurement, what many workers would give."""

import contextlib
import math
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks import common, problems
from benchmarks.common import ROOT, Table, number

PROBLEMS = ("boston104", "n3finemapping", "clusters3000")
SECONDS = 20.0  # of one replicate on one thread
REPLICATES = 4
MANY = (1, 2, 10, 100, 1000)  # workers of the cost model
SHORT = 0.3  # seconds of a round where rounds are looked at
NETWORK = 125e6  # bytes a second that the client receives: a gigabit a second


def samplers() -> dict[str, Any]:
    """Those whose chains can be divided, four units each."""
    import whichvars as wv

    return {
        "individual adaptation, 4 chains": wv.IndividualAdaptation(chains=4),
        "ASI, 4 chains": wv.ASI(chains=4),
        "tempering, 4 ladders of 6 rungs": wv.ParallelTempering(chains=4),
        "sequential Monte Carlo, 4 groups": wv.SequentialMonteCarlo(groups=4, particles=4000),
    }


@contextlib.contextmanager
def watched() -> Iterator[list[dict[str, Any]]]:
    """While this lasts, what every round took; rounds are as short as they are asked to be."""
    from whichvars.sampling import cluster
    from whichvars.sampling.workers import Reply, Request

    rounds: list[dict[str, Any]] = []
    ask, share = cluster.DaskPool.ask, cluster.OVERHEAD_SHARE

    def note(self: Any, function: str, request: Request, worker: str | None) -> Reply | None:
        started = time.perf_counter()
        reply: Reply | None = ask(self, function, request, worker)
        if reply is not None and reply.state is not None:
            rounds.append(
                {
                    "seconds": time.perf_counter() - started,
                    "advancing": reply.wall_seconds,
                    "sent": _size(request.state),
                    "received": _size(reply.state),
                }
            )
        return reply

    cluster.DaskPool.ask, cluster.OVERHEAD_SHARE = note, math.inf  # type: ignore[method-assign]
    try:
        yield rounds
    finally:
        cluster.DaskPool.ask, cluster.OVERHEAD_SHARE = ask, share  # type: ignore[method-assign]


def _size(state: Any) -> int:
    return 0 if state is None else len(state.header) + sum(array.nbytes for array in state.arrays)


def seconds_of(problem: Any, sampler: Any, executor: Any, **options: Any) -> float:
    """Wall time of a run."""
    started = time.perf_counter()
    run(problem, sampler, executor=executor, **options)
    return time.perf_counter() - started


def run(problem: Any, sampler: Any, **options: Any) -> Any:
    import whichvars as wv

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return wv.sample(problem, sampler, progress=False, seed=0, **options)


def draws_for(problem: Any, sampler: Any, seconds: float) -> int:
    """Draws that one replicate makes in about so many CPU seconds; compiles, if need be."""
    draws = 2000
    run(problem, sampler, draws=draws, replicates=1, threads=1)
    while True:
        taken = run(problem, sampler, draws=draws, warmup=draws // 10, replicates=1, threads=1).cpu_seconds
        if taken > 0.2:
            return max(draws, int(draws * seconds / taken))
        draws *= 4


def measure(
    seconds: float = SECONDS, names: Sequence[str] = PROBLEMS, say: Callable[[str], None] = print
) -> dict[str, Any]:
    """All four tables; `seconds` is what one replicate takes on one thread."""
    import whichvars as wv

    sys.path.insert(0, str(ROOT / "tests"))
    from support.cluster import cluster

    scaling, spreading, rounds = [], [], {}
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
        with cluster(Path(one), 1) as single, cluster(Path(two), 2) as double:
            at = {1: single.address, 2: double.address}
            for name in names:
                problem, sampler = problems.build(name), wv.Hybrid()
                draws = draws_for(problem, sampler, seconds)
                say(f"{name}: {REPLICATES} replicates of {draws:,} draws")
                options: dict[str, Any] = {"draws": draws, "warmup": draws // 10, "replicates": REPLICATES}
                row: dict[str, Any] = {"problem": name, "n": problem.n, "p": problem.p, "draws": draws}
                for workers, address in at.items():  # kernels are loaded, the same on all sides
                    seconds_of(problem, sampler, wv.DaskExecutor(address), draws=2000, replicates=workers)
                for workers, address in at.items():
                    row[f"threads {workers}"] = seconds_of(problem, sampler, None, threads=workers, **options)
                    executor = wv.DaskExecutor(address)
                    row[f"workers {workers}"] = seconds_of(problem, sampler, executor, **options)
                with watched() as found:
                    executor = wv.DaskExecutor(at[2], round_seconds=SHORT)
                    seconds_of(problem, sampler, executor, **(options | {"replicates": 2}))
                rounds[name] = found
                scaling.append(row)
            problem = problems.build("boston104")
            for what, sampler in samplers().items():
                say(what)
                options = {"replicates": 1}
                if getattr(sampler, "by_draws", True):
                    draws = draws_for(problem, sampler, seconds / 2)
                    options |= {"draws": draws, "warmup": draws // 10}
                row = {"sampler": what}
                for spread in (False, True, None):
                    executor = wv.DaskExecutor(at[2], spread=spread)
                    seconds_of(problem, sampler, executor, **(options | ({"draws": 2000, "warmup": 200} if "draws" in options else {})))  # fmt: skip
                    row[str(spread)] = seconds_of(problem, sampler, executor, **options)
                spreading.append(row)
    return {
        "environment": common.environment(),
        "seconds": seconds,
        "scaling": scaling,
        "spreading": spreading,
        "rounds": {name: describe(found) for name, found in rounds.items()},
    }


def describe(rounds: list[dict[str, Any]]) -> dict[str, float]:
    """Medians of the rounds for which no state had to be sent, and of what they brought back."""
    usual = [r for r in rounds if not r["sent"]] or rounds
    return {
        "rounds": len(rounds),
        "length": statistics.median(r["seconds"] for r in usual),
        "overhead": statistics.median(r["seconds"] - r["advancing"] for r in usual),
        "bytes": statistics.median(r["received"] for r in usual),
        "sent": sum(1 for r in rounds if r["sent"]),
    }


def speed_up(workers: int, overhead: float, state: float, network: float = NETWORK) -> float:
    """The cost model: how many times as fast W workers of one thread are as one thread of this machine, with at least W replicates.

    A round advances for r seconds, r = 20 h but at least 3 and at most 15, and h seconds go by beside it. All states pass through
    the client, which takes S/B seconds for each, so that W rounds take at least W S/B seconds: W r / max(r + h, W S/B).
    """
    length = min(max(20 * overhead, 3.0), 15.0)
    return workers * length / max(length + overhead, workers * state / network)


def tables(result: dict[str, Any]) -> list[Table]:
    scaling = Table(
        f"Hybrid, {REPLICATES} replicates: seconds of wall time",
        ["problem", "n", "p", "1 thread", "2 threads", "1 worker", "2 workers", "1 → 2 threads", "1 → 2 workers"],
        note="Worker: a process of one thread that a Dask scheduler gives rounds to, over loopback TCP.",
    )  # fmt: skip
    for row in result["scaling"]:
        times = [row[key] for key in ("threads 1", "threads 2", "workers 1", "workers 2")]
        gains = [number(times[0] / times[1]), number(times[2] / times[3])]
        scaling.rows.append(
            [row["problem"], f"{row['n']:,}", f"{row['p']:,}", *(number(t) for t in times), *gains]
        )
    rounds = Table(
        "A round on two workers: medians",
        ["problem", "rounds", "seconds", "beside advancing", "state, MB", "sent whole"],
        note=f"Rounds of {SHORT} s were asked for, to have many of them. Beside advancing: asking, packing, sending back. Sent whole: rounds for which the worker did not have the state.",
    )
    for name, row in result["rounds"].items():
        rounds.rows.append(
            [
                name,
                f"{row['rounds']}",
                number(row["length"]),
                number(row["overhead"]),
                number(row["bytes"] / 1e6),
                f"{row['sent']}",
            ]
        )
    spreading = Table(
        "One replicate of four units on two workers, boston104: seconds",
        ["sampler", "as one task", "divided", "as it chooses"],
        note="Divided: its units go to both workers, which meet at every barrier.",
    )
    for row in result["spreading"]:
        spreading.rows.append([row["sampler"], *(number(row[key]) for key in ("False", "True", "None"))])
    model = Table(
        "By the cost model, not measured: times as fast as one thread, with as many replicates as workers",
        ["problem", *(f"{w:,} workers" if w > 1 else "1 worker" for w in MANY)],
        note="W r / max(r + h, W S/B): r the length of a round, h what goes by beside it and S the state, all as measured above; "
        f"B = {NETWORK / 1e6:g} MB per second into the client.",
    )
    for name, row in result["rounds"].items():
        model.rows.append([name, *(number(speed_up(w, row["overhead"], row["bytes"])) for w in MANY)])
    return [scaling, rounds, spreading, model]
