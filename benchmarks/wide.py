"""Very many columns: genotypes from a .bed file, at p = 10⁴ and p = 10⁶: iterations/s, and the memory of the process.

Each size has a process of its own, so that its peak of resident memory is its own.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import common
from benchmarks.common import Table, number

ROWS = 1000
SIZES = (10_000, 1_000_000)
SAMPLERS = {
    "AddDeleteSwap": 200_000,
    "IndividualAdaptation": 200_000,
    "SubsetGibbs": 5_000,
}  # and how many draws
LINKED = 20  # columns that are correlated: neighbours on a chromosome
CAUSAL = 10


def genotypes(p: int, n: int = ROWS, seed: int = 0) -> Iterator[np.ndarray]:
    """Simulated genotypes, (k, n) of int8 at a time: blocks of columns along which either of two haplotypes goes on
    with its last allele nine times out of ten, and else takes one by the frequency of the column."""
    rng = np.random.default_rng(seed)
    for first in range(0, p, 400 * LINKED):
        blocks = -(-min(400 * LINKED, p - first) // LINKED)
        out = np.zeros((blocks, LINKED, n), np.int8)
        last = np.zeros((blocks, 2 * n), bool)
        for step in range(LINKED):
            frequency = rng.integers(13, 128, size=(blocks, 1))  # of 256: 5% to 50%
            fresh = rng.integers(0, 256, size=last.shape, dtype=np.uint8) < frequency
            goes_on = rng.integers(0, 256, size=last.shape, dtype=np.uint8) < (230 if step else 0)
            last = np.where(goes_on, last, fresh)
            out[:, step] = last[:, :n].view(np.int8) + last[:, n:].view(np.int8)
        yield out.reshape(-1, n)[: p - first]


def write_bed(path: Path, p: int, n: int = ROWS) -> None:
    """Simulated .bed, .bim and .fam files, and the response as .npy; in as little memory as a block takes."""
    rng = np.random.default_rng(1)
    chosen = np.sort(rng.choice(p, size=CAUSAL, replace=False))
    effect = dict(zip(chosen.tolist(), rng.choice([-0.5, 0.5], size=CAUSAL)))
    y = rng.normal(size=n)
    code = np.array([0b11, 0b10, 0b00], np.uint8)  # of 0, 1 and 2 copies of the first allele
    first = 0
    with open(path, "wb") as bed, open(path.with_suffix(".bim"), "w") as bim:
        bed.write(b"\x6c\x1b\x01")
        for block in genotypes(p, n):
            for i in [i for i in effect if first <= i < first + len(block)]:
                y += effect[i] * block[i - first]
            bits = np.zeros((len(block), -(-n // 4) * 4), np.uint8)
            bits[:, :n] = code[block]
            four = bits.reshape(len(block), -1, 4)
            bed.write(
                (four[..., 0] | four[..., 1] << 2 | four[..., 2] << 4 | four[..., 3] << 6)
                .astype(np.uint8)
                .tobytes()
            )
            bim.writelines(f"1\trs{first + i}\t0\t{first + i + 1}\tA\tC\n" for i in range(len(block)))
            first += len(block)
    path.with_suffix(".fam").write_text("".join(f"f{i} i{i} 0 0 0 -9\n" for i in range(n)))
    np.save(path.with_suffix(".npy"), y)


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def run_size(path: Path, samplers: list[str]) -> dict[str, Any]:
    """In this process: read, build, and sample twice with each sampler, the second time by the clock."""
    import whichvars as wv

    warnings.simplefilter("ignore")
    began = time.perf_counter(), time.process_time()
    X = wv.read_bed(path)
    read = time.perf_counter(), time.process_time()
    problem = wv.Problem(X, np.load(path.with_suffix(".npy")), engine="columns")
    built = time.perf_counter(), time.process_time()
    out: dict[str, Any] = {
        "p": problem.p,
        "read_seconds": read[0] - began[0],
        "read_cpu_seconds": read[1] - began[1],
        "build_seconds": built[0] - read[0],
        "build_cpu_seconds": built[1] - read[1],
        "problem_peak_bytes": peak_bytes(),
        "samplers": [],
    }
    settings: dict[str, Any] = {"replicates": 1, "threads": 1, "progress": False}
    for name in samplers:
        sampler, draws = getattr(wv, name)(), SAMPLERS[name]
        wv.sample(problem, sampler, draws=draws // 100, warmup=0, seed=1, **settings)  # compiles
        posterior = wv.sample(problem, sampler, draws=draws, warmup=draws // 10, seed=0, **settings)
        out["samplers"].append(
            {
                "sampler": name,
                "draws": draws,
                "iterations_per_second": posterior.iterations / posterior.cpu_seconds,
                "mean_size": posterior.mean_size,
                "cpu_seconds": posterior.cpu_seconds,
            }
        )
        del posterior
    out["peak_bytes"] = peak_bytes()
    return out


def measure(
    sizes: tuple[int, ...] = SIZES,
    samplers: list[str] | None = None,
    say: Callable[[str], None] = print,
) -> dict[str, Any]:
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for p in sizes:
            path = Path(folder) / f"p{p}.bed"
            say(f"simulating {ROWS:,} x {p:,} genotypes")
            write_bed(path, p)
            say(f"p = {p:,}")
            command = [sys.executable, "-m", "benchmarks.wide", str(path), *(samplers or SAMPLERS)]
            done = subprocess.run(command, cwd=common.ROOT, capture_output=True, text=True, check=False)
            if done.returncode:
                raise RuntimeError(done.stderr)
            found.append(json.loads(done.stdout.splitlines()[-1]))
    return {"environment": common.environment(), "sizes": found, "rows": ROWS}


def tables(result: dict[str, Any]) -> list[Table]:
    """Memory and times of each size; rates of each sampler."""
    sizes = result["sizes"]
    n = result["rows"]
    about = Table(
        f"Genotypes from a .bed file, n = {n:,}: one process",
        ["p", "CPU seconds to read", "to build the problem", "GB at its peak by then", "GB at its peak after sampling", "wanted"],
    )  # fmt: skip
    for size in sizes:
        about.rows.append(
            [
                f"{size['p']:,}",
                number(size["read_cpu_seconds"]),
                number(size["build_cpu_seconds"]),
                number(size["problem_peak_bytes"] / 1e9),
                number(size["peak_bytes"] / 1e9),
                "< 4" if size["p"] > 500_000 else "",
            ]
        )
    about.note = "Resident memory of the whole process, Python and its libraries included; the column engine at both sizes."
    rates = Table(
        "Iterations per CPU second",
        ["sampler", *(f"p = {size['p']:,}" for size in sizes), "ratio", "mean model sizes"],
        note="One replicate on one thread, warm-up included. What a sampler does in an iteration differs.",
    )
    for at_size in zip(*(size["samplers"] for size in sizes)):
        each = [row["iterations_per_second"] for row in at_size]
        rates.rows.append(
            [
                at_size[0]["sampler"],
                *map(number, each),
                number(each[-1] / each[0]),
                ", ".join(number(row["mean_size"]) for row in at_size),
            ]
        )
    return [about, rates]


if __name__ == "__main__":
    print(json.dumps(common.plain(run_size(Path(sys.argv[1]), sys.argv[2:]))))
