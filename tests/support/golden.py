"""Bits of every sampler, to see that a change of the code's layout changes no number.

``PYTHONPATH=tests python -m support.golden write`` writes them to tests/reference/golden_bits.json; do that only where arithmetic or
random streams are meant to change, and say so in the changelog.

Sums of products and the mathematical library may round differently on another machine. The file therefore holds a hash of such
operations too, and bits are compared only where it is the same.
"""

from __future__ import annotations

import hashlib
import json
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import whichvars as wv
from statistical.samplers_under_test import SAMPLERS

FILE = Path(__file__).resolve().parent.parent / "reference" / "golden_bits.json"
SLABS = {"independent": wv.IndependentNormal(g=2.0), "g": wv.GPrior(20.0), "hyper-g/n": wv.HyperGN()}
ENGINES = ("gram", "columns")
GROUPS = {"single": None, "groups": {"pair": [1, 4], "three": [2, 5, 8]}}
DRAWS, WARMUP = 300, 100


def hash_of(*arrays: Any) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        if array is not None:
            digest.update(np.ascontiguousarray(array, float).tobytes())
    return digest.hexdigest()[:16]


def arithmetic() -> str:
    """A hash of operations that machines may round differently."""
    rng = np.random.default_rng(1)
    x, A = rng.random(4000) * 30, rng.normal(size=(57, 23))
    return hash_of(np.exp(-x), np.log(x), np.log1p(x), x**1.7, A.T @ A, A @ A[0], np.linalg.qr(A)[1])


def problem(slab: str, engine: str, groups: str) -> wv.Problem:
    rng = np.random.default_rng(7)
    X = rng.normal(size=(57, 14))
    X[:, 1] = X[:, 0] + 0.3 * rng.normal(size=57)
    y = X[:, 0] + 0.7 * X[:, 5] - 0.5 * X[:, 9] + rng.normal(size=57)
    return wv.Problem(
        X, y, slab=SLABS[slab], model_prior=wv.BetaBinomial(size=4), engine=engine, groups=GROUPS[groups], always_include=[3]
    )  # fmt: skip


def bits(sampler: Any, question: wv.Problem) -> str:
    """Of all that a sampler has counted. (Sizes are counted too, and then tilted to the mean that the inclusion probabilities
    give.)"""
    if sampler == "exact":
        exact = wv.exact(question, progress=False)
        return hash_of(exact.pip, exact.models.log_marginal, exact.log_evidence)
    length = {} if isinstance(sampler, wv.SequentialMonteCarlo) else {"draws": DRAWS, "warmup": WARMUP}
    found = wv.sample(question, sampler, replicates=2, threads=1, seed=5, progress=False, **length)
    trace = None if found.trace is None else found.trace["log_posterior"]
    return hash_of(found.pip, found.mcse, found.models.log_marginal, found.models.frequency, trace)


def compute() -> dict[str, str]:
    samplers: dict[str, Any] = {"exact": "exact"} | {name: one.settings for name, one in SAMPLERS.items()}
    samplers["smc"] = wv.SequentialMonteCarlo(particles=100)
    out = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for slab in SLABS:
            for engine in ENGINES:
                for groups in GROUPS:
                    question = problem(slab, engine, groups)
                    for name, sampler in samplers.items():
                        out[f"{name} {slab} {engine} {groups}"] = bits(sampler, question)
    return out


if __name__ == "__main__":
    result = {"arithmetic": arithmetic(), "bits": compute()}
    if sys.argv[1:] == ["write"]:
        FILE.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(len(result["bits"]), "results, arithmetic", result["arithmetic"])
