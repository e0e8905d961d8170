"""The jump rates of every model as the package finds them, and detailed balance among them in logarithms.

Models of mass e^−2000 beside the best are as good as none in π P = π, and yet the way between two stand-ins leads through
them: here every edge counts the same, whatever its mass. Rates of a model may be *relative*, that is known up to a factor,
where they are too large for a number: the package then spends no time in the model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from support.kernels import chain_at
from support.oracle import OraclePosterior
from whichvars._kernels.jit import entry
from whichvars._kernels.scan.rate_table import FIRST_RATE, TOTAL, find_rates, new_rate_table
from whichvars._kernels.scan.scan_work import new_scan
from whichvars._kernels.scan.subset_scan import new_subset, set_anchors, subset_rates_of

UNDERFLOW = -690.0  # log of a rate relative to the largest, below which it may be 0 or have lost digits


@dataclass
class LogRates:
    """Of all models in the oracle's order and all p flips; NaN for models without mass."""

    values: np.ndarray  # (models, p)
    relative: np.ndarray  # (models,) bool
    probabilities: np.ndarray  # (models, p): conditional inclusion probabilities


@entry
def rates_of(target, chain, work, table, kappa, sums, weights):
    return find_rates(target, chain, work, table, kappa, sums, weights)


def _log(rates: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.log(rates)


def _empty(exact: OraclePosterior) -> LogRates:
    shape = exact.masks.shape
    return LogRates(np.full(shape, np.nan), np.zeros(len(exact.masks), bool), np.full(shape, np.nan))


def table_rates(problem: Any, exact: OraclePosterior, kappa: float) -> LogRates:
    """From the table of rates, as TemperedGibbs and Hybrid have them."""
    p, columns = problem.p, int(problem.offsets[-1])
    table = new_rate_table(p, 1, 1 << 20)
    view = problem.target(columns)
    work, sums, weights, found = new_scan(view, columns), np.zeros((1, p)), np.zeros(1), _empty(exact)
    for model in np.flatnonzero(exact.log_joint > -np.inf):
        chain = chain_at(problem, np.flatnonzero(exact.masks[model]).tolist())
        assert chain is not None, "the models without mass are others than the oracle's"
        place = rates_of(view, chain, work, table, kappa, sums, weights)
        row = table.rows[place]
        rates = row[table.ints[FIRST_RATE] : table.ints[FIRST_RATE] + p]
        assert abs(row[TOTAL]) == np.float64(rates.sum()) or abs(abs(row[TOTAL]) / rates.sum() - 1) < 1e-12
        found.values[model] = _log(rates)
        found.relative[model] = row[TOTAL] < 0
        found.probabilities[model] = table.probabilities[place]
    return found


def one_row(problem: Any, members: list[int], kappa: float) -> tuple[np.ndarray, bool]:
    """Log rates of one model, and whether they are relative, without a list of all models."""
    p, columns = problem.p, max(len(members) + 1, 8)
    table, view = new_rate_table(p, 1, 1), problem.target(columns)
    chain = chain_at(problem, members)
    place = rates_of(view, chain, new_scan(view, columns), table, kappa, np.zeros((1, p)), np.zeros(1))
    row = table.rows[place]
    return _log(row[table.ints[FIRST_RATE] : table.ints[FIRST_RATE] + p]), bool(row[TOTAL] < 0)


def subset_rates(
    problem: Any, exact: OraclePosterior, kappa: float, anchors: list[int], drawn: list[int]
) -> LogRates:
    """From the scan of some variables, as SubsetGibbs has them, less what makes up for a variable being in S seldom;
    NaN for variables that are neither in S nor in the model."""
    p, columns = problem.p, int(problem.offsets[-1])
    view = problem.target(columns)
    work, found = new_scan(view, columns), _empty(exact)
    subset = new_subset(view, 1, len(anchors), len(anchors) + len(drawn), len(work.pivot))
    set_anchors(subset, np.array(anchors, np.int64), np.random.default_rng(0))
    subset.drawn[0] = drawn
    share = np.array([1.0] * len(anchors) + [(p - len(anchors)) / len(drawn)] * len(drawn))
    for model in np.flatnonzero(exact.log_joint > -np.inf):
        chain = chain_at(problem, np.flatnonzero(exact.masks[model]).tolist())
        assert chain is not None, "the models without mass are others than the oracle's"
        assert subset_rates_of(view, chain, work, subset, 0, kappa) == 0
        rates = np.full(p, np.nan)
        rates[subset.members] = subset.entering / share
        inside = np.flatnonzero(chain.position >= 0)
        rates[inside] = subset.leaving[chain.position[inside]]
        found.values[model] = _log(rates)
        found.relative[model] = subset.steep[0] > 0
        if found.relative[model]:  # to the largest with what makes up for being in S seldom
            found.values[model] -= np.nanmax(found.values[model])
        found.probabilities[model, subset.members] = subset.probabilities
    return found


def log_flows(exact: OraclePosterior, kappa: float) -> np.ndarray:
    """log π(γ) r_j(γ) from the oracle alone, (models, p): p_j + κ times the mass of the two models of a flip, the same
    on both sides of it by construction. −inf where one of the two has no mass."""
    p = exact.masks.shape[1]
    bits, index = 1 << np.arange(p), np.arange(len(exact.masks))[:, None]
    inside, without = exact.log_joint[index | bits], exact.log_joint[index & ~bits]
    both = np.minimum(inside, without) > -np.inf
    with np.errstate(invalid="ignore"):
        mass = np.logaddexp(inside, without)
        flows = mass + np.log(np.exp(inside - mass) + kappa)
    return np.where(both, flows, -np.inf)


def check_balance(rates: LogRates, exact: OraclePosterior, kappa: float, atol: float) -> int:
    """log π + log rate is the same on both sides of every flip. Returns how many rates were compared.

    Those of a relative model are known up to a factor: the largest is taken as right, the others are compared. A rate
    may only be missing where it is too small beside the largest. Variables that are NaN in `rates` were not looked at.
    """
    flows = log_flows(exact, kappa)
    compared = 0
    for model in np.flatnonzero(exact.log_joint > -np.inf):
        found, wanted = rates.values[model], flows[model] - exact.log_joint[model]
        seen = ~np.isnan(found)
        found, wanted = found[seen], wanted[seen]
        if rates.relative[model]:
            assert found.max() == 0.0, "rates are relative to the largest"
            assert wanted.max() > 500, "time is spent in a model of which that is not so"
            wanted = wanted - wanted[np.argmax(found)]
        tiny = (wanted < UNDERFLOW) & (found < UNDERFLOW + 5) & rates.relative[model]
        tiny |= (wanted == -np.inf) & (found == -np.inf)
        np.testing.assert_allclose(
            found[~tiny], wanted[~tiny], rtol=0, atol=atol, err_msg=f"log rates of model {model:b}"
        )
        compared += int((~tiny).sum())
    return compared


def check_probabilities(rates: LogRates, exact: OraclePosterior, atol: float) -> None:
    """Conditional inclusion probabilities are those of the oracle's odds."""
    p = exact.masks.shape[1]
    bits, index = 1 << np.arange(p), np.arange(len(exact.masks))[:, None]
    for model in np.flatnonzero(exact.log_joint > -np.inf):
        inside, without = exact.log_joint[index[model] | bits], exact.log_joint[index[model] & ~bits]
        expected = np.exp(inside - np.logaddexp(inside, without))
        found = rates.probabilities[model]
        seen = ~np.isnan(found)
        np.testing.assert_allclose(found[seen], expected[seen], rtol=0, atol=atol)
