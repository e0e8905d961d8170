"""What makes it fast, each claim as a ratio of two things measured in turns in one process.

Ratios, not seconds: machines differ. Each is repeated with the two sides taking turns, and the median of the
ratios is given with the smallest and the largest.
"""

import gc
import os
import subprocess
import sys
import time
import tracemalloc
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

import whichvars as wv
from benchmarks.common import Table, environment, number
from benchmarks.problems import LOGISTIC, build
from whichvars import datasets
from whichvars._kernels.chain import LOG_MARGINAL, NEW_LOG_MARGINAL, SCANNED, change, clear, new_chain
from whichvars._kernels.count.averages import NEVER, NEXT_SCAN
from whichvars._kernels.count.model_table import new_memo
from whichvars._kernels.evaluate import evaluate
from whichvars._kernels.family_evidence import evaluate_family_models
from whichvars._kernels.jit import entry, kernel
from whichvars._kernels.likelihood import FITS, N_ANSWERS, STEPS
from whichvars._kernels.products import gram_cache
from whichvars._kernels.propose.adapt import Adaptation, new_adaptation
from whichvars._kernels.scan.scan import scan_odds
from whichvars._kernels.scan.scan_work import new_scan
from whichvars.samplers import estimated
from whichvars.samplers.contract import Run, place_chain
from whichvars.samplers.finding import find_modes
from whichvars.samplers.seeding import replicate_seeds
from whichvars.samplers.surrogates import scanned

ROWS = 60
SIZES = (100, 1_000, 22_576, 1_000_000)
EFFECTS = 5


@dataclass(frozen=True)
class Effort:
    """How long to measure."""

    repeats: int = 5
    iterations: int = 1_000_000
    memo_iterations: int = 5_000_000
    largest: int = SIZES[-1]
    grid: tuple[tuple[int, ...], tuple[int, ...]] = ((30, 60, 128, 256, 512), (128, 512, 2048, 4096))
    enumerate: int = 20


SMALL = Effort(
    repeats=1,
    iterations=100_000,
    memo_iterations=500_000,
    largest=22_576,
    grid=((60, 256), (128, 1024)),
    enumerate=16,
)


def with_repeats(effort: Effort, repeats: int | None) -> Effort:
    """The same effort, repeated as often as told."""
    return effort if repeats is None else replace(effort, repeats=repeats)


def run(problem: wv.Problem, sampler: Any, draws: int, seed: int = 0, **options: Any) -> wv.Posterior:
    """One replicate, PIPs by frequency; on one thread unless told otherwise."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", wv.ConvergenceWarning)
        options = {"threads": 1, "warmup": draws // 10, "rao_blackwell": False, **options}
        return wv.sample(problem, sampler, draws=draws, replicates=1, seed=seed, progress=False, **options)


def rate(posterior: wv.Posterior) -> float:
    """Iterations per CPU second."""
    return posterior.iterations / posterior.cpu_seconds


def in_turns(
    measures: Mapping[str, Callable[..., float]], base: str, repeats: int
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Values of each measure, and their ratios to `base` repeat by repeat. Each measure gets the repeat's
    number."""
    values: dict[str, list[float]] = {name: [] for name in measures}
    names = list(measures)
    for repeat in range(repeats):
        for name in names[repeat % len(names) :] + names[: repeat % len(names)]:
            values[name].append(measures[name](repeat))
    ratios = {name: [v / b for v, b in zip(values[name], values[base])] for name in names}
    return values, ratios


def row(
    what: str, ratios: list[float], aim: str, met: Callable[[float], bool] | None, detail: str
) -> dict[str, Any]:
    """One line of the table: the median of what was measured beside what it should be."""
    middle = float(np.median(ratios))
    return {
        "what": what,
        "value": middle,
        "low": float(np.min(ratios)),
        "high": float(np.max(ratios)),
        "aim": aim,
        "met": None if met is None else bool(met(middle)),
        "detail": detail,
    }


# --- designs
# ----------------------------------------------------------------------------------------------------------


def block_columns(p: int, n: int = ROWS, seed: int = 0) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """X of blocks of 20 columns correlated .9 as plain numbers, y with five strong effects, and where these
    are. Shapes (n, p), (n,)."""
    rng = np.random.default_rng(seed)
    columns = rng.standard_normal((p, n))
    columns *= np.sqrt(0.1)
    blocks = -(-p // 20)
    for start in range(0, blocks, 5000):  # in parts: at p = 10⁶ a second copy would be 480 MB
        part = columns[20 * start : 20 * (start + 5000)]
        part += np.repeat(np.sqrt(0.9) * rng.standard_normal((-(-len(part) // 20), n)), 20, axis=0)[
            : len(part)
        ]
    support = [20 * int(b) for b in np.linspace(0, blocks - 1, EFFECTS)]
    y = 3.0 * columns[support].sum(axis=0) + rng.standard_normal(n)
    return columns.T, y, support


def wide_problem(p: int, n: int = ROWS, engine: str = "columns") -> tuple[wv.Problem, list[int]]:
    """A problem of p columns whose posterior holds the same few variables for every p."""
    X, y, support = block_columns(p, n)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", wv.DataWarning)
        problem = wv.Problem(
            X,
            y,
            slab=wv.IndependentNormal(1),
            model_prior=wv.FixedInclusion(size=1),
            engine=engine,  # type: ignore[arg-type]
        )
    return problem, support


@dataclass(frozen=True)
class Frozen(wv.IndividualAdaptation):
    """Individual adaptation that has stopped learning: `nu` additions and, where the model has 1/`delete`
    variables, one deletion a proposal are expected, for every p. The A_j differ, so that several buckets are
    in use."""

    delete: float = 0.2
    freeze_after: int | None = 0

    def first_adaptation(self, problem: wv.Problem, learn_together: bool) -> Adaptation:
        p = problem.p
        add = np.random.default_rng(1).lognormal(0.0, 1.0, p)
        add = np.clip(self.nu * add / add.sum(), 0.11 / p, 0.5)
        return new_adaptation(add, np.full(p, self.delete), 0.1 / p, learn_together)


def mean_changes(posterior: wv.Posterior) -> float:
    """Mean number of changes proposed in an iteration."""
    proposed = np.asarray(posterior.adaptation[0]["changes_proposed"], float)
    return float(proposed @ np.arange(len(proposed)) / proposed.sum())


# --- the measurements
# ----------------------------------------------------------------------------------------------------------


def memo(effort: Effort) -> list[dict[str, Any]]:
    problem = build("boston104")
    run(problem, wv.AddDeleteSwap(), 1000)
    measures = {
        "without": lambda r: rate(
            run(problem, wv.AddDeleteSwap(memo_slots=0), effort.memo_iterations // 4, r)
        ),
        "with": lambda r: rate(run(problem, wv.AddDeleteSwap(), effort.memo_iterations, r)),
    }
    values, ratios = in_turns(measures, "without", effort.repeats)
    detail = f"{number(np.median(values['with']))} against {number(np.median(values['without']))} iterations/s, {effort.memo_iterations:,} iterations"
    return [
        row("memo on / off, add/delete/swap on Boston-104", ratios["with"], "≥ 3", lambda v: v >= 3, detail)
    ]


def many_columns(effort: Effort) -> list[dict[str, Any]]:
    """On the library's own simulated blocks; and on a posterior so concentrated that at p = 100 the memo
    answers nearly everything, which is where the ratio is worst."""
    spread: dict[int, tuple[wv.Problem, Any]] = {}
    concentrated: dict[int, tuple[wv.Problem, Any]] = {}
    for p in (100, 22_576):
        data = datasets.simulate_blocks(n=ROWS, p=p)
        problem = wv.Problem(
            data.X, data.y, slab=wv.IndependentNormal(1), model_prior=wv.FixedInclusion(size=5), engine="columns"
        )  # fmt: skip
        spread[p] = (problem, None)
        concentrated[p] = wide_problem(p)
    run(spread[100][0], wv.AddDeleteSwap(), 1000)
    slots = wv.AddDeleteSwap().memo_slots
    out = []
    for problems, memo_slots, name, aimed in (
        (spread, slots, "add/delete/swap", True),
        (spread, 0, "the same without the memo", False),
        (concentrated, slots, "add/delete/swap on a concentrated posterior", False),
        (concentrated, 0, "the same without the memo", False),
    ):
        sampler = wv.AddDeleteSwap(memo_slots=memo_slots)

        def measure(repeat: int, p: int, problems: Any = problems, sampler: Any = sampler) -> float:
            problem, start = problems[p]
            return rate(run(problem, sampler, 2 * effort.iterations, repeat, start=start))

        measures = {str(p): lambda r, p=p, measure=measure: measure(r, p) for p in problems}
        values, ratios = in_turns(measures, "100", effort.repeats)
        detail = ", ".join(f"p = {int(p):,}: {number(np.median(v))} iterations/s" for p, v in values.items())
        what = f"{name}, p = 22,576 / p = 100 (column engine, n = {ROWS})"
        met = (lambda v: v >= 0.5) if aimed else None
        out.append(row(what, ratios["22576"], "≥ 0.5" if aimed else "", met, detail))
    return out


@entry
def evaluate_all(target, chain, memo, models, out, times):
    return _evaluate_all(target, chain, memo, models, out, times)


@kernel
def _evaluate_all(target, chain, memo, models, out, times):
    """Log marginal likelihood of every row of `models` from the null model, `times` times over."""
    for _ in range(times):
        for m in range(models.shape[0]):
            clear(chain)
            for i in range(models.shape[1]):
                change(target, chain, models[m, i])
            evaluate(target, chain, memo)
            out[m] = chain.floats[NEW_LOG_MARGINAL]
    return chain.floats[LOG_MARGINAL]


def log_marginals_by_scipy(
    gram: np.ndarray, xty: np.ndarray, g: float, nu: float, models: np.ndarray
) -> np.ndarray:
    """The same by numpy and scipy as one would write it well (checks for finiteness off)."""
    out = np.empty(len(models))
    k = models.shape[1]
    diagonal = np.arange(k)
    for m, model in enumerate(models):
        matrix = gram[np.ix_(model, model)]
        matrix[diagonal, diagonal] += 1.0 / g
        right = xty[model]
        factor = cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)
        explained = right @ cho_solve(factor, right, check_finite=False)
        half_log_determinant = np.log(factor[0][diagonal, diagonal]).sum()
        out[m] = -0.5 * k * np.log(g) - half_log_determinant - 0.5 * nu * np.log1p(-explained)
    return out


def marginal_likelihood(effort: Effort, k: int = 15) -> list[dict[str, Any]]:
    problem = build("boston104")
    target = problem.target(k)
    chain, memo_off = new_chain(target, k), new_memo(0)
    rng = np.random.default_rng(0)
    models = np.array([rng.choice(problem.p, k, replace=False) for _ in range(1000)])
    out = np.zeros(len(models))
    g, nu = float(problem.slab.g), float(problem.nu)  # type: ignore[union-attr,arg-type]
    evaluate_all(target, chain, memo_off, models, out, 1)
    expected = log_marginals_by_scipy(target.design.gram, target.design.xty, g, nu, models)
    np.testing.assert_allclose(out, expected, rtol=1e-8, atol=1e-8)
    times = max(1, effort.iterations // 10_000)

    def compiled(repeat: int) -> float:
        clock = time.thread_time()
        evaluate_all(target, chain, memo_off, models, out, times)
        return times * len(models) / (time.thread_time() - clock)

    def plain(repeat: int) -> float:
        clock = time.thread_time()
        for _ in range(max(1, times // 20)):
            log_marginals_by_scipy(target.design.gram, target.design.xty, g, nu, models)
        return max(1, times // 20) * len(models) / (time.thread_time() - clock)

    values, ratios = in_turns({"compiled": compiled, "scipy": plain}, "scipy", effort.repeats)
    detail = ", ".join(f"{name} {number(1e6 / np.median(v))} µs" for name, v in values.items())
    return [row(f"log marginal likelihood at k = {k} from scratch, compiled / scipy", ratios["compiled"], "≥ 20", lambda v: v >= 20, detail)]  # fmt: skip


def _frozen_for(problem: wv.Problem, support: list[int], **settings: Any) -> Frozen:
    """Settings under which one addition and one deletion are expected in this problem."""
    pilot = run(problem, Frozen(delete=1 / EFFECTS), 20_000, start=support)
    return Frozen(delete=1 / max(pilot.mean_size, 1.5), **settings)


def cost_by_p(effort: Effort) -> list[dict[str, Any]]:
    sizes = [p for p in SIZES if p <= effort.largest]
    problems = {p: wide_problem(p) for p in sizes}
    out = []
    for slots, name in ((1 << 16, "individual adaptation, frozen"), (0, "the same without the memo")):
        samplers = {p: _frozen_for(*problems[p], memo_slots=slots) for p in sizes}
        last: dict[int, wv.Posterior] = {}

        def measure(repeat: int, p: int, samplers: Any = samplers, last: Any = last) -> float:
            last[p] = run(problems[p][0], samplers[p], effort.iterations, repeat, start=problems[p][1])
            return rate(last[p])

        measures = {str(p): lambda r, p=p, measure=measure: measure(r, p) for p in sizes}
        values, ratios = in_turns(measures, "100", effort.repeats)
        for p in sizes:
            aim = {22_576: 0.6, 1_000_000: 0.4}.get(p)
            detail = (
                f"{number(np.median(values[str(p)]))} iterations/s; {mean_changes(last[p]):.2f} changes proposed, "
                f"mean size {last[p].mean_size:.2f}, mutation rate {last[p].adaptation[0]['mutation_rate']:.3f}"
            )
            met = None if aim is None else (lambda v, aim=aim: v >= aim)
            aimed = "" if aim is None else f"≥ {aim:g}"
            out.append(row(f"{name}, p = {p:,} / p = 100", ratios[str(p)], aimed, met, detail))
    return out


def bucket_sampling(effort: Effort) -> list[dict[str, Any]]:
    problem, support = wide_problem(22_576)
    buckets = _frozen_for(problem, support)
    coins = _frozen_for(problem, support, additions="coins")
    run(problem, coins, 100, start=support)
    measures = {
        "buckets": lambda r: rate(run(problem, buckets, effort.iterations, r, start=support)),
        "coins": lambda r: rate(run(problem, coins, max(1000, effort.iterations // 50), r, start=support)),
    }
    values, ratios = in_turns(measures, "coins", effort.repeats)
    detail = ", ".join(f"{name}: {number(np.median(v))} iterations/s" for name, v in values.items())
    return [
        row(
            "buckets / one coin per variable, p = 22,576",
            ratios["buckets"],
            "≥ 20",
            lambda v: v >= 20,
            detail,
        )
    ]


def two_threads(effort: Effort) -> list[dict[str, Any]]:
    sampler = wv.IndividualAdaptation(chains=8)
    out = []
    for name in ("tecator", "blocks22576"):
        problem = build(name)
        run(problem, sampler, 8000)

        def measure(threads: int, seed: int, problem: wv.Problem = problem) -> float:
            clock = time.perf_counter()
            posterior = run(problem, sampler, 8 * effort.iterations // 2, seed, threads=threads)
            return posterior.iterations / (time.perf_counter() - clock)

        measures = {str(t): lambda r, t=t, measure=measure: measure(t, r) for t in (1, 2)}
        values, ratios = in_turns(measures, "1", effort.repeats)
        detail = ", ".join(
            f"{t} thread{'' if str(t) == '1' else 's'}: {number(np.median(v))} iterations/s"
            for t, v in values.items()
        )
        out.append(row(f"2 threads / 1 thread by the clock, 8 chains, {name}", ratios["2"], "≥ 1.7", lambda v: v >= 1.7, detail))  # fmt: skip
    return out


def arrays_in(thing: Any) -> dict[int, np.ndarray]:
    """All arrays reachable from a run, views of one memory counted once."""
    if isinstance(thing, np.ndarray):
        while isinstance(thing.base, np.ndarray):
            thing = thing.base
        return {id(thing): thing}
    if isinstance(thing, (list, tuple)):
        parts = list(thing)
    elif isinstance(thing, dict):
        parts = list(thing.values())
    elif hasattr(thing, "__dict__"):
        parts = list(vars(thing).values())
    else:
        return {}
    return {key: array for part in parts for key, array in arrays_in(part).items()}


def resident_bytes() -> float:
    """Resident memory of this process; NaN where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return float("nan")


def memory(effort: Effort) -> list[dict[str, Any]]:
    p = effort.largest
    problem, support = wide_problem(p)
    out = []
    for chains in (1, 8):
        sampler = wv.IndividualAdaptation(chains=chains)
        run(problem, sampler, 1000, start=support)  # compile
        gc.collect()
        before_run = resident_bytes()
        state = sampler.init(problem, replicate_seeds(0, 1)[0], [np.array(support)] * chains)
        held = sum(array.nbytes for array in arrays_in(state).values())
        fixed = sum(array.nbytes for array in arrays_in(state).values() if p not in array.shape and p + 1 not in array.shape)  # fmt: skip
        for unit in range(chains):
            sampler.advance(problem, state, unit, 10_000)
        resident = resident_bytes() - before_run
        del state
        gc.collect()
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        posterior = run(problem, sampler, 10_000, start=support)
        peak = tracemalloc.get_traced_memory()[1] - before
        tracemalloc.stop()
        del posterior
        detail = (
            f"{number(fixed / chains / 2**20)} MB per chain do not depend on p; "
            f"per variable and chain: {number(resident / p / chains)} bytes resident after 10,000 iterations, "
            f"{number(peak / p / chains)} at the peak of sample(), with all it returns"
        )
        out.append(
            row(f"bytes per variable and chain above X, p = {p:,}, {chains} chain{'s' * (chains > 1)}",
                [(held - fixed) / p / chains], "≤ 200", lambda v: v <= 200, detail)
        )  # fmt: skip
    target = problem.target(0)
    beside = sum(array.nbytes for array in arrays_in(target).values()) - target.design.columns.nbytes
    out.append(row(f"bytes per variable of the problem beside its columns, p = {p:,}", [beside / p], "", None, "shared by all chains"))  # fmt: skip
    return out


@contextmanager
def scans_in_warmup_only() -> Iterator[None]:
    """ASI and PARNI learn from scans, and go on with them for the PIPs alone."""
    begin = estimated.begin_counting

    def begin_without(problem: wv.Problem, run: Run, adapt: str) -> None:
        begin(problem, run, adapt)
        for unit in run.units:
            unit.own.averages.ints[NEXT_SCAN] = NEVER

    estimated.begin_counting = begin_without
    try:
        yield
    finally:
        estimated.begin_counting = begin


def averages(effort: Effort) -> list[dict[str, Any]]:
    """What Rao–Blackwell sums take of the time, for samplers that could do without."""
    out = []
    samplers = {
        wv.AddDeleteSwap(): effort.iterations // 2,
        wv.IndividualAdaptation(): effort.iterations // 2,
        wv.ASI(): effort.iterations // 5,
        wv.PARNI(): effort.iterations // 20,
    }
    for name in ("tecator", "boston104", "fls", "ar5000", "blocks22576"):
        problem = build(name)
        for sampler, draws in samplers.items():
            run(problem, sampler, 1000, rao_blackwell=True)  # compile

            def seconds(
                repeat: int,
                averaged: bool,
                problem: Any = problem,
                sampler: Any = sampler,
                draws: int = draws,
            ) -> float:
                with nullcontext() if averaged else scans_in_warmup_only():
                    return run(problem, sampler, draws, repeat, rao_blackwell=averaged).cpu_seconds

            measures = {"with": lambda r: seconds(r, True), "without": lambda r: seconds(r, False)}
            _, ratios = in_turns(measures, "with", effort.repeats)
            share = [1 - ratio for ratio in ratios["without"]]
            out.append(
                row(f"share of the time for Rao–Blackwell sums, {name}, {type(sampler).__name__}",
                    share, "≤ .5", lambda v: v <= 0.5, f"{draws:,} draws")
            )  # fmt: skip
    return out


def auto_memory(effort: Effort) -> list[dict[str, Any]]:
    """Peak memory of a run of "auto" beside X, in a process of its own."""
    p = 100_000 if effort.iterations >= Effort().iterations else 20_000
    small, _ = wide_problem(1000)
    wv.sample(
        small, wv.Hybrid(), draws=1000, progress=False
    )  # so that it compiles nothing, which takes memory too
    code = (
        "import numpy as np, whichvars as wv, warnings; warnings.simplefilter('ignore'); "
        f"rng = np.random.default_rng(0); X = rng.normal(size=(500, {p})); "
        "y = X[:, :5] @ np.array([1, -1, .8, .6, .5]) + rng.normal(size=500); "
        "posterior = wv.sample(wv.Problem(X, y), draws=20_000, progress=False); "
        # the largest since this program began; getrusage would also count what the parent had
        "status = dict(line.split(':') for line in open('/proc/self/status')); "
        "print(int(status['VmHWM'].split()[0]) * 1024 - X.nbytes, posterior.cpu_seconds)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    beside, seconds = map(float, found.split())
    what = f"GB beside X at the peak of sample(problem, draws=20_000), four replicates, n = 500, p = {p:,}"
    detail = f"{number(seconds)} CPU s; the process as a whole, Python and the problem's copy of X included"
    return [row(what, [beside / 1e9], "≤ 2", lambda v: v <= 2, detail)]


def enumeration(effort: Effort) -> list[dict[str, Any]]:
    p = effort.enumerate
    X, y, _ = block_columns(max(p, 100), n=200)
    out = []
    for slab in (wv.IndependentNormal(1), wv.GPrior("n"), wv.HyperG()):
        problem = wv.Problem(X[:, :p], y, slab=slab, model_prior=wv.FixedInclusion(h=0.5))
        small = wv.Problem(X[:, :5], y, slab=slab, model_prior=wv.FixedInclusion(h=0.5))
        wv.exact(small)
        seconds = [wv.exact(problem).cpu_seconds for _ in range(effort.repeats)]
        out.append(row(f"exact() over 2^{p} models, seconds, {type(slab).__name__}", seconds, "< 10", lambda v: v < 10, f"{number(1e6 * np.median(seconds) / 2**p)} µs per model"))  # fmt: skip
    return out


@contextmanager
def cache_from(rows: int) -> Iterator[None]:
    """Let the column engine keep Gram columns from this many rows on."""
    before = gram_cache.SHORTEST
    gram_cache.SHORTEST = rows
    try:
        yield
    finally:
        gram_cache.SHORTEST = before


@entry
def scan_often(target, chain, work, times):
    return _scan_often(target, chain, work, times)


@kernel
def _scan_often(target, chain, work, times):
    """Scan the chain's model from scratch, `times` times over."""
    for _ in range(times):
        chain.ints[SCANNED] = 0
        scan_odds(target, chain, work)


def fits_and_scans(effort: Effort) -> list[dict[str, Any]]:
    """What a fit and a scan of the surrogate cost, where the response is not Gaussian: at the best model and its neighbours."""
    out = []
    for name in LOGISTIC:
        problem = build(name)
        view = scanned(problem)
        best = np.sort(find_modes(view, 1)[0].members)
        k, likelihood = len(best), view.likelihood()
        models = [np.append(best, j) for j in np.setdiff1d(np.arange(problem.p), best)[:100]]
        members, start = np.concatenate(models).astype(np.int32), np.arange(len(models) + 1) * (k + 1)
        answers = np.zeros((len(models), N_ANSWERS))
        target = view.target(k + 2)
        chain, work = place_chain(view, new_chain(target, k + 2), new_memo(64), best), new_scan(target, k + 2)
        times = max(2, effort.iterations // 20_000)
        fits, scans = [], []
        with view.works.borrow(likelihood, k + 1) as room:
            for repeat in range(effort.repeats + 1):
                clock = time.thread_time()
                evaluate_family_models(likelihood, room, members, start, answers)
                middle = time.thread_time()
                scan_often(target, chain, work, times)
                if repeat > 0:  # the first one compiles
                    fits.append(1e6 * (middle - clock) / len(models))
                    scans.append(1e6 * (time.thread_time() - middle) / times)
            steps = room.ints[STEPS] / max(room.ints[FITS], 1)
        about = f"n = {problem.n:,}, k = {k + 1}, {steps:.1f} steps of Newton's method"
        out.append(row(f"µs for a fit with second-order evidence, {name}", fits, "", None, about))
        about = f"p = {problem.p:,}, k = {k}"
        out.append(row(f"µs for a scan of the surrogate from scratch, {name}", scans, "", None, about))
    return out


def engine_choice(effort: Effort) -> list[dict[str, Any]]:
    """Gram matrix against columns, with and without the cache of Gram columns, over a grid of n and p. Without the memo,
    which would hide what is measured."""
    out = []
    no_memo = wv.AddDeleteSwap(memo_slots=0)
    for n in effort.grid[0]:
        for p in effort.grid[1]:
            problems = {engine: wide_problem(p, n, engine) for engine in ("gram", "columns")}
            chosen = wide_problem(p, n, "auto")[0].engine

            def measure(engine: str, shortest: int, seed: int, problems: Any = problems) -> float:
                problem, support = problems[engine]
                with cache_from(shortest):
                    return rate(run(problem, no_memo, effort.iterations // 4, seed, start=support))

            measures = {
                "gram": lambda r, m=measure: m("gram", 0, r),
                "cache": lambda r, m=measure: m("columns", 0, r),
                "dots": lambda r, m=measure: m("columns", 1 << 30, r),
            }
            values, _ = in_turns(measures, "gram", effort.repeats)
            middle = {name: float(np.median(v)) for name, v in values.items()}
            used = "gram" if chosen == "gram" else "cache" if n >= gram_cache.SHORTEST else "dots"
            out.append(
                {"n": n, "p": p, **middle, "chosen": used, "loss": middle[used] / max(middle.values())}
            )
    return out


MEASUREMENTS: dict[str, Callable[[Effort], list[dict[str, Any]]]] = {
    "memo": memo,
    "columns": many_columns,
    "marginal": marginal_likelihood,
    "cost": cost_by_p,
    "buckets": bucket_sampling,
    "threads": two_threads,
    "memory": memory,
    "averages": averages,
    "auto": auto_memory,
    "exact": enumeration,
    "fits": fits_and_scans,
    "choice": engine_choice,
}


def measure(
    names: list[str], effort: Effort, say: Callable[[str], None] = lambda text: None
) -> dict[str, Any]:
    """The measurements of these names, as they are written to JSON."""
    result: dict[str, Any] = {
        "environment": environment(),
        "repeats": effort.repeats,
        "rows": [],
        "choice": [],
        "small": effort.iterations < Effort().iterations,
    }
    for name in names:
        say(name)
        gc.collect()
        found = MEASUREMENTS[name](effort)
        result["choice" if name == "choice" else "rows"] += found
    return result


def tables(result: dict[str, Any]) -> list[Table]:
    """What was measured beside what was aimed for; and the choice of engine."""
    out = []
    if result["rows"]:
        title = f"Engine: medians of {result['repeats']} repeats" + (
            " (small budgets)" if result["small"] else ""
        )
        table = Table(title, ["what", "measured", "range", "aim", "met", "detail"])
        for line in result["rows"]:
            met = {True: "yes", False: "no", None: ""}[line["met"]]
            spread = f"{number(line['low'])} – {number(line['high'])}" if line["low"] != line["high"] else ""
            table.rows.append([line["what"], number(line["value"]), spread, line["aim"], met, line["detail"]])
        out.append(table)
    if result["choice"]:
        table = Table(
            "Gram matrix or columns: add/delete/swap without memo, iterations/s",
            ["n", "p", "Gram matrix", "columns, cached", "columns, dot products", "chosen", "of the best"],
            note="cached: Gram columns of often used variables are kept; chosen: what `Problem` takes by itself.",
        )
        for line in result["choice"]:
            table.rows.append([
                str(line["n"]), f"{line['p']:,}", *(number(line[k]) for k in ("gram", "cache", "dots")),
                line["chosen"], f"{line['loss']:.0%}",
            ])  # fmt: skip
        out.append(table)
    return out
