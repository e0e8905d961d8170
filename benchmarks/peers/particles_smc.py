"""particles (Chopin), from the Python registry. It needs an older numpy than ours, so it gets an environment of its own."""

import subprocess
import sys
from pathlib import Path

from benchmarks.peers import process
from benchmarks.peers.exchange import Outcome, Skipped, Workload, settings_of

SCRIPT = Path(__file__).with_name("particles_run.py")
PACKAGE = "particles==0.4"


class Particles:
    """SMC on binary spaces under an independent slab."""

    name = "particles"
    first_size = 4000  # with fewer its regressions fail to settle, and take longer
    least_size = 4000

    def __init__(self, environments: Path | None = None) -> None:
        """`environments` is the folder in which the environment is, or is to be made; None: it is not to be used."""
        self.environments = environments

    @property
    def python(self) -> Path:
        assert self.environments is not None
        return self.environments / "particles" / "bin" / "python"

    def check(self, work: Workload) -> None:
        """Skipped, unless it has this prior and its environment is there or can be made."""
        settings = settings_of(work.problem)
        if settings["slab"]["kind"] != "independent":
            raise Skipped("has the independent slab only (its g-prior fails in version 0.4)")
        if settings["model_prior"]["kind"] != "fixed":
            raise Skipped("has independent inclusion only, not the model prior of this workload")
        if self.environments is None:
            raise Skipped("needs an environment of its own: name a folder for it by --environments")
        if not self._works():
            self._install()

    def _works(self) -> bool:
        if not self.python.exists():
            return False
        command = [str(self.python), "-c", "import particles.binary_smc"]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    def _install(self) -> None:
        folder = self.python.parent.parent
        for command in (
            [sys.executable, "-m", "venv", str(folder)],
            [str(self.python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", PACKAGE],
        ):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                last = (done.stderr.strip() or "no message").splitlines()[-1]
                raise Skipped(f"cannot be installed: {last[:300]}")
        if not self._works():
            raise Skipped(f"is installed in {folder} but cannot be imported")

    def run(self, work: Workload, size: int, seed: int) -> Outcome:
        """About `size` particles."""
        return process.run([str(self.python), str(SCRIPT), str(size), str(seed)], work)
