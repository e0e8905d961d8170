"""Very many columns: genotypes from a .bed file, at p = 10⁴ and p = 10⁶: iterations/s, and the memory of the process.

Every measurement is a process of its own, so that its peak of resident memory is its own too.
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
SAMPLERS = {"IndividualAdaptation": 200_000, "AddDeleteSwap": 200_000, "SubsetGibbs": 20_000, "Hybrid": 400}
LINKED = 20  # columns that are correlated: neighbours on a chromosome
CAUSAL = 10
LIMIT = 4e9  # bytes wanted at p = 10⁶


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


def run_one(path: Path, sampler: str, draws: int) -> dict[str, Any]:
    """In this process: read, build, sample twice, the second time by the clock."""
    import whichvars as wv

    warnings.simplefilter("ignore")
    began = time.perf_counter()
    X = wv.read_bed(path)
    read = time.perf_counter()
    problem = wv.Problem(X, np.load(path.with_suffix(".npy")))
    built, peak = time.perf_counter(), peak_bytes()
    settings: dict[str, Any] = {"replicates": 1, "threads": 1, "progress": False}
    made = getattr(wv, sampler)()
    wv.sample(problem, made, draws=max(draws // 100, 10), warmup=0, seed=1, **settings)  # compiles
    posterior = wv.sample(problem, made, draws=draws, warmup=draws // 10, seed=0, **settings)
    return {
        "p": problem.p,
        "n": problem.n,
        "engine": problem.engine,
        "sampler": sampler,
        "draws": draws,
        "read_seconds": read - began,
        "build_seconds": built - read,
        "problem_peak_bytes": peak,
        "iterations_per_second": posterior.iterations / posterior.cpu_seconds,
        "cpu_seconds": posterior.cpu_seconds,
        "peak_bytes": peak_bytes(),
    }


def measure(
    sizes: tuple[int, ...] = SIZES,
    samplers: dict[str, int] | None = None,
    say: Callable[[str], None] = print,
) -> dict[str, Any]:
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for p in sizes:
            path = Path(folder) / f"p{p}.bed"
            say(f"simulating {ROWS:,} x {p:,} genotypes")
            write_bed(path, p)
            for sampler, draws in (SAMPLERS if samplers is None else samplers).items():
                say(f"p = {p:,}, {sampler}")
                command = [sys.executable, "-m", "benchmarks.wide", str(path), sampler, str(draws)]
                found = subprocess.run(command, cwd=common.ROOT, capture_output=True, text=True, check=False)
                if found.returncode:
                    raise RuntimeError(found.stderr)
                rows.append(json.loads(found.stdout.splitlines()[-1]))
    return {"environment": common.environment(), "rows": rows, "rows_of_X": ROWS}


def tables(result: dict[str, Any]) -> list[Table]:
    """One line a size and sampler."""
    table = Table(
        f"Genotypes from a .bed file, n = {result['rows_of_X']:,}",
        ["sampler", "p", "engine", "iterations/s", "of those at the smallest p", "seconds to read", "to build the problem", "peak memory, GB", "wanted"],
    )  # fmt: skip
    least = min(row["p"] for row in result["rows"])
    base = {
        row["sampler"]: row["iterations_per_second"]
        for row in sorted(result["rows"], key=lambda row: -row["p"])
    }
    for row in result["rows"]:
        table.rows.append(
            [
                row["sampler"],
                f"{row['p']:,}",
                row["engine"],
                number(row["iterations_per_second"]),
                "" if row["p"] == least else number(row["iterations_per_second"] / base[row["sampler"]]),
                number(row["read_seconds"]),
                number(row["build_seconds"]),
                number(row["peak_bytes"] / 1e9),
                "< 4" if row["p"] >= 500_000 else "",
            ]
        )
    table.note = "One replicate on one thread, warm-up included in the rates. Memory is the peak of the whole process, Python and its libraries included."
    return [table]


if __name__ == "__main__":
    print(json.dumps(run_one(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))))
