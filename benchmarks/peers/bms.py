"""BMS (Zeugner & Feldkircher), an R package: Debian's r-base-core and r-cran-bms. Called by Rscript."""

import shutil
import subprocess
from pathlib import Path

from benchmarks.peers import process
from benchmarks.peers.exchange import Outcome, Skipped, Workload, settings_of

SCRIPT = Path(__file__).with_name("bms.R")


class BMS:
    """Birth and death sampler under a g-prior, PIPs by frequency."""

    name = "BMS"
    first_size = 5000
    least_size = 1000

    def __init__(self, rscript: str = "Rscript") -> None:
        self.rscript = rscript

    def check(self, work: Workload) -> None:
        """Skipped, unless it is installed and has this prior."""
        slab, prior = (settings_of(work.problem)[key]["kind"] for key in ("slab", "model_prior"))
        if slab != "g-prior":
            raise Skipped("has g-priors only, not the slab of this workload")
        if prior not in ("fixed", "beta-binomial"):
            raise Skipped(f"has no such model prior ({prior})")
        if shutil.which(self.rscript) is None:
            raise Skipped("Rscript is not installed (Debian: r-base-core r-cran-bms)")
        have = subprocess.run(
            [self.rscript, "-e", "library(BMS)"], capture_output=True, text=True, check=False
        )
        if have.returncode != 0:
            raise Skipped("the R package BMS is not installed (Debian: r-cran-bms)")

    def run(self, work: Workload, size: int, seed: int) -> Outcome:
        """`size` counted iterations after a tenth as many."""
        settings = settings_of(work.problem)
        prior = settings["model_prior"]
        if prior["kind"] == "fixed":
            kind, mean_size = "fixed", prior["h"] * work.problem.p
        else:  # h ~ Be(1, (p − m)/m), as BMS has it
            kind, mean_size = "random", work.problem.p * prior["a"] / (prior["a"] + prior["b"])
        numbers = [size, size // 10, seed, settings["slab"]["g"]]
        command = [self.rscript, str(SCRIPT), *map(str, numbers), kind, repr(float(mean_size))]
        return process.run(command, work)
