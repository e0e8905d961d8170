"""The machine code for a wheel: ``python wheels/objects.py FOLDER``.

Every entry of the kernels is compiled by the use of it, once per level of processors: enumeration and every sampler run on a tiny
problem (as with ``whichvars doctor --compile``), and what Numba made of the entries then is written to FOLDER/<level>. A new kernel,
entry or sampler needs nothing here. The levels are compiled side by side, each by a process of its own with an empty cache.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def make_all(folder: Path) -> None:
    """Write the machine code of all levels."""
    from whichvars._kernels.shipped import LEVELS

    with tempfile.TemporaryDirectory() as caches:
        running = []
        for level in LEVELS:
            settings = {
                "NUMBA_CPU_NAME": level,
                "NUMBA_CPU_FEATURES": "",  # those of the level, not those of this machine
                "WHICHVARS_CACHE_DIR": str(Path(caches) / level),
                "WHICHVARS_COMPILE": "1",
                "WHICHVARS_PLAIN_NUMBA": "0",
                "WHICHVARS_ROUTINES": "0",  # each entry in a file of its own, with all that it calls
                "NUMBA_DISABLE_JIT": "0",
                "PYTHONPATH": str(ROOT / "src"),
            }
            command = [sys.executable, __file__, str(folder), level]
            running.append(subprocess.Popen(command, env=os.environ | settings))
        failed = [process.args for process in running if process.wait() != 0]
    if failed:
        sys.exit(f"compiling failed: {failed}")


def make_one(folder: Path, level: str) -> None:
    """Write the machine code for the level that Numba was told to compile for."""
    from whichvars._kernels import jit, shipped
    from whichvars.cli.checkup import compile_one, names

    if not jit.LINKED:
        sys.exit("this Numba lacks what _kernels/linking.py needs: see tests/unit/test_jit.py")
    for name in names():
        print(f"{level}: {name}", flush=True)
        compile_one(name)
    missing = shipped.write(folder / level, jit.entries, jit.hash_of_sources())
    for name in missing:
        print(f"{level}: {name} is used by none of them, and not in the wheel")


if __name__ == "__main__":
    where = Path(sys.argv[1]).resolve()
    if len(sys.argv) > 2:
        make_one(where, sys.argv[2])
    else:
        make_all(where)
