"""The kernels as plain Python give the same bits as compiled ones: no fastmath, no reordered sums."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.kinds import mainly

TESTS = Path(__file__).resolve().parents[2]
SEARCH = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]


def start(length: str, **environment: str) -> subprocess.Popen[str]:
    kept = {name: value for name, value in os.environ.items() if name != "NUMBA_DISABLE_JIT"}
    return subprocess.Popen(
        [sys.executable, "-m", "support.print_bits", length],
        env={**kept, "PYTHONPATH": os.pathsep.join([str(TESTS), *SEARCH]), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("length", mainly(["quick", "long"], ["quick"]))
def test_same_bits_without_the_jit(length: str) -> None:
    processes = [start(length), start(length, NUMBA_DISABLE_JIT="1")]
    outputs = [process.communicate() for process in processes]
    for process, (_, errors) in zip(processes, outputs):
        assert process.returncode == 0, errors
    compiled, plain = (json.loads(output) for output, _ in outputs)
    assert compiled.keys() == plain.keys()
    for case, results in compiled.items():
        assert results == plain[case], case
