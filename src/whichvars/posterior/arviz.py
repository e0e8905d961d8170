"""Conversion of a posterior for ArviZ: an InferenceData (ArviZ 0.x) or an xarray DataTree (ArviZ 1.x)."""

import importlib
import warnings
from datetime import UTC, datetime
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np

from whichvars.data.frames import find_columns
from whichvars.errors import ArgumentTypeError, DataError

if TYPE_CHECKING:
    from whichvars.posterior.posterior import Posterior


# most variables with draws of γ_j, unless they are named
MOST_VARIABLES = 200


def to_arviz(posterior: "Posterior", variables: Any = None) -> Any:
    """What ``Posterior.to_arviz`` returns."""
    arviz = _import("arviz")
    xarray = _import("xarray")  # installed with ArviZ
    groups = {
        name: xarray.Dataset(values, coords, attrs)
        for name, (values, coords, attrs) in _groups(posterior, variables).items()
    }
    if int(arviz.__version__.split(".")[0]) < 1:
        return arviz.InferenceData(**groups)
    return xarray.DataTree.from_dict(groups)


def _import(name: str) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # ArviZ 0.x announces ArviZ 1 at its import
            return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "to_arviz() needs ArviZ: pip install 'whichvars[arviz]', or pip install arviz"
        ) from error


def _groups(posterior: "Posterior", variables: Any) -> dict[str, tuple[dict, dict, dict]]:
    """The data, coordinates and attributes of each group."""
    if posterior.trace is None or posterior.trace_models is None:
        raise DataError(
            "an exact posterior has no chains for ArviZ; use sample(problem), or draw() for independent draws of the "
            "coefficients"
        )
    names = posterior.problem.names
    rows = _rows(posterior)
    chains, draws = rows.shape
    chosen = _choose(posterior, variables)
    trace = posterior.trace
    dense = posterior.trace_models[rows.ravel()][:, chosen].toarray().astype(bool)

    def by_draw(column: str) -> tuple[tuple[str, str], np.ndarray]:
        return ("chain", "draw"), trace[column].to_numpy()[rows]

    at = {"chain": np.arange(chains), "draw": np.arange(draws)}
    gamma = ("chain", "draw", "variable"), dense.reshape(chains, draws, len(chosen))
    inclusion = {
        "probability": ("variable", posterior.pip),
        "mcse": ("variable", posterior.mcse),
        "probability_by_chain": (("chain", "variable"), posterior.replicate_pips),
    }
    attributes = _attributes(posterior)
    return {
        "posterior": (
            {"model_size": by_draw("size"), "log_posterior": by_draw("log_posterior"), "gamma": gamma},
            {**at, "variable": [names[j] for j in chosen]},
            attributes,
        ),
        "sample_stats": (
            {
                "lp": by_draw("log_posterior"),
                "iteration": by_draw("iteration"),
                "chain_in_run": by_draw("chain"),
            },
            at,
            attributes,
        ),
        "inclusion": (inclusion, {"chain": at["chain"], "variable": names}, attributes),
        "constant_data": (
            {
                "prior_inclusion": ("variable", posterior.problem.model_prior.inclusion(len(names))),
                "columns": ("variable", np.diff(posterior.problem.offsets)),
            },
            {"variable": names},
            attributes,
        ),
    }


def _rows(posterior: "Posterior") -> np.ndarray:
    """Rows of the trace by replicate and iteration, (replicates, draws). All replicates are cut to the length of the
    shortest; the chains of a replicate alternate."""
    trace = posterior.trace
    assert trace is not None
    by_replicate = []
    for replicate in trace["replicate"].unique():
        rows = np.flatnonzero(trace["replicate"] == replicate)
        order = np.lexsort((trace["chain"].to_numpy()[rows], trace["iteration"].to_numpy()[rows]))
        by_replicate.append(rows[order])
    shortest = min(map(len, by_replicate), default=0)
    replicates = posterior.replicate_pips
    if posterior.condition is not None and (replicates is None or len(by_replicate) < len(replicates)):
        raise DataError("a replicate has no recorded draws that satisfy the condition; use more draws")
    if shortest == 0:
        raise DataError("the record of this run is empty; use more draws")
    return np.stack([rows[:shortest] for rows in by_replicate])


def _choose(posterior: "Posterior", variables: Any) -> list[int]:
    """The variables for which draws of γ_j are included."""
    names = posterior.problem.names
    if isinstance(variables, bool):
        raise ArgumentTypeError(f"variables must be names or a number of variables, not {variables!r}")
    if variables is None or isinstance(variables, (int, np.integer)):
        most = MOST_VARIABLES if variables is None else int(variables)
        if most < 1:
            raise DataError(f"variables must be at least 1, or names, not {variables!r}")
        return sorted(np.argsort(-posterior.pip, kind="stable")[:most].tolist())
    chosen = find_columns(variables, names, "variables")
    if not chosen:
        raise DataError("variables is empty; name at least one variable")
    return chosen


def _attributes(posterior: "Posterior") -> dict[str, str]:
    return {
        "created_at": datetime.now(UTC).isoformat(),
        "inference_library": "whichvars",
        "inference_library_version": version("whichvars"),
        "sampler": posterior.sampler,
    }
