"""Results of kernels on small problems, every float as hex: to be run with and without the JIT.

PYTHONPATH=tests [NUMBA_DISABLE_JIT=1] python -m support.print_bits quick|long
"""

from __future__ import annotations

import json
import sys
import tempfile
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

import whichvars as wv
from statistical.samplers_under_test import KINDS, SAMPLERS
from support.cases import PRIORS, SLABS, Case, data, problem
from support.family_oracle import simulate
from whichvars._kernels.products.stored import pair_products
from whichvars.problem.columns import columns_at, products_with_all

ITERATIONS = 250
CASES = [
    *(Case("plain", slab, PRIORS[i % len(PRIORS)]) for i, slab in enumerate(SLABS)),
    *(Case("columns", slab, "per-variable") for slab in ("independent", "g", "zellner-siow")),
    Case("groups", "independent", "fixed"),
    Case("groups", "hyper-g", "max-size"),
    Case("duplicate", "bic", "beta-binomial"),
    Case("wide", "g", "fixed"),
    Case("inverse-gamma", "eb-local", "fixed"),
    Case("growing", "independent", "per-variable", "full"),
    Case("heredity", "independent", "beta-binomial"),
    Case("heredity", "g", "per-variable"),
]


def bits(values: Any) -> list[str]:
    return [float(v).hex() for v in np.asarray(values, float).ravel()]


def results(case: Case, samplers: Sequence[str]) -> dict[str, list[str]]:
    target = problem(case)
    exact = wv.exact(target)
    out = {
        "exact pip": bits(exact.pip),
        "exact log marginal": bits(exact.models.log_marginal),
        "exact evidence": bits([exact.log_evidence]),
    }
    for name in samplers:
        found = wv.sample(
            target,
            SAMPLERS[name].settings,
            draws=ITERATIONS,
            warmup=50,
            replicates=2,
            threads=1,
            seed=5,
            start=case.starting_models,
            progress=False,
        )
        assert found.trace is not None
        out[f"{name} pip"] = bits(found.pip)
        out[f"{name} mcse"] = bits(found.mcse)
        out[f"{name} sizes"] = bits(found.sizes)
        out[f"{name} log marginals"] = bits(found.models.log_marginal)
        out[f"{name} frequencies"] = bits(found.models.frequency)
        out[f"{name} trace"] = bits(found.trace["log_posterior"])
    return out


def stored_products() -> dict[str, list[str]]:
    """Products of columns in every form they may be stored in, weighted and not."""
    rng = np.random.default_rng(3)
    counts = rng.integers(0, 3, size=(45, 6)).astype(np.int8)
    some = counts.copy()
    some[rng.random(counts.shape) < 0.1] = -127
    mapped = {}
    for kind in (np.float32, np.float64):
        with tempfile.TemporaryFile() as stream:
            np.save(stream, np.asfortranarray(counts + rng.normal(size=counts.shape)).astype(kind))
            stream.seek(0)
            offset = np.lib.format.read_magic(stream) and np.lib.format.read_array_header_1_0(stream) and stream.tell()  # fmt: skip
            mapped[kind.__name__] = np.memmap(stream, kind, "r", offset, counts.shape, "F")
    forms = {
        "sparse": sparse.csc_array(counts),
        "bytes": wv.Genotypes(counts),
        "missing": wv.Genotypes(some),
        **mapped,
    }
    first, second = (index.astype(np.int64) for index in np.triu_indices(5))
    out = {}
    for name, X in forms.items():
        for weights in (None, rng.random(45) + 0.1):
            design = wv.Problem(X, rng.normal(size=45), always_include=[5], weights=weights, engine="columns").target(0).design  # fmt: skip
            found = np.zeros(len(first))
            pair_products(design.stored, first, second, found)
            out[f"{name} {'weighted' * (weights is not None)}"] = bits([*found, *products_with_all(design, columns_at(design, [0]))[0]])  # fmt: skip
    return out


FAMILIES = ("logistic", "probit", "poisson", "negative-binomial", "student")


def families(names: Sequence[str] = FAMILIES) -> dict[str, list[str]]:
    """Every family by every way to its evidence, and one sampler."""
    out = {}
    for name in names:
        X, y = simulate("poisson" if name == "student" else name, 25, 3, 1)
        if name == "student":
            y = X[:, 0] + np.random.default_rng(1).standard_t(2, 25)
        for evidence in ("laplace", "second-order", "importance"):
            found = wv.exact(wv.Problem(X, y, family=name, evidence=evidence), progress=False)
            out[f"{name} {evidence}"] = bits(found.models.log_marginal) + bits(found.coefficients())
        target = wv.Problem(X, y, family=name)
        sampled = wv.sample(
            target, wv.IndividualAdaptation(), draws=100, replicates=1, seed=2, progress=False
        )
        out[f"{name} sampled"] = bits(sampled.pip)
    return out


def main(length: str) -> None:
    """``quick``: every kind of sampler with one slab, and a few other cases. ``long``: every setting."""
    warnings.simplefilter("ignore")
    out = {}
    quick = length == "quick"
    for i, case in enumerate(CASES):
        if quick and i % 5:
            continue
        # every setting once, every kind where the slabs differ, the first one elsewhere
        samplers = (
            (KINDS if quick else list(SAMPLERS))
            if i == 0
            else KINDS
            if i % 4 == 0 and not quick
            else KINDS[:1]
        )
        out[case.id] = results(case, samplers)
    # the same columns through both engines: equal to rounding, each with its own bits
    small = data("plain")
    for engine in ("gram", "columns"):
        target = wv.Problem(small.X, small.y, engine=engine)
        found = wv.sample(target, draws=ITERATIONS, replicates=1, seed=2, progress=False)
        out[f"engine {engine}"] = {"pip": bits(found.pip), "log marginals": bits(found.models.log_marginal)}
    out["stored"] = stored_products()
    out["families"] = families(("logistic", "student") if quick else FAMILIES)
    print(json.dumps(out))


if __name__ == "__main__":
    main(sys.argv[1])
