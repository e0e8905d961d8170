r"""Discoveries with a controlled share of false ones, each as precise as the data allow.

A discovery is a set G of variables of which at least one is in, with probability :math:`p_G`. Among many overlapping candidates, disjoint sets
are chosen that

.. math:: \max_x \sum_G \frac{p_G}{|G|} x_G \quad\text{with}\quad \sum_{G \ni j} x_G \le 1, \qquad
   \sum_G (1 - p_G) x_G \le q \sum_G x_G, \qquad x_G \in \{0, 1\}.

The last line says that the expected share of false discoveries is at most q, given the data. A set of k variables counts 1/k, so that large
sets are chosen only where smaller ones would be wrong too often. This is the Bayesian linear program of Spector & Janson (2022), solved as an
integer program.

Candidates are single variables, all sets of a hierarchical clustering by correlations, and the beginnings of credible sets.
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd
from scipy import sparse

from whichvars.errors import DataError
from whichvars.posterior.credible_sets import absolute_correlations, find_sets

if TYPE_CHECKING:
    from whichvars.posterior.posterior import Posterior

# least inclusion probability of a variable that is looked at, and most variables
LEAST, MOST_VARIABLES = 0.001, 1000
# least probability of a candidate
LEAST_PROBABILITY = 0.05


class Candidate(NamedTuple):
    members: tuple[int, ...]  # most probable first
    probability: float
    mcse: float


def discovery_table(posterior: "Posterior", fdr: float, largest: int) -> pd.DataFrame:
    """What ``Posterior.discoveries`` returns."""
    found = _candidates(posterior, fdr, largest)
    chosen = choose([c.members for c in found], np.array([c.probability for c in found]), fdr)
    sets = sorted((found[i] for i in chosen), key=lambda c: (-c.probability, len(c.members), c.members))
    names, pip = posterior.problem.names, posterior.pip
    purity = [
        float(absolute_correlations(posterior.problem, np.array(c.members)).min())
        if len(c.members) > 1
        else 1.0
        for c in sets
    ]
    return pd.DataFrame(
        {
            "size": np.array([len(c.members) for c in sets], int),
            "probability": np.array([c.probability for c in sets], float),
            "mcse": np.array([c.mcse for c in sets], float),
            "purity": np.array(purity, float),
            "variables": [[names[j] for j in c.members] for c in sets],
            "pips": [[float(pip[j]) for j in c.members] for c in sets],
        },
        index=pd.RangeIndex(1, len(sets) + 1, name="discovery"),
    )


def _candidates(posterior: "Posterior", fdr: float, largest: int) -> list[Candidate]:
    kept, pip, problem = posterior.kept, posterior.pip, posterior.problem
    some = np.argsort(-pip, kind="stable")[:MOST_VARIABLES]
    some = some[pip[some] >= LEAST]
    sets: set[tuple[int, ...]] = {(int(j),) for j in some}
    sets |= {tuple(sorted(joined)) for joined in _clustered(posterior, some, largest)}
    for one in find_sets(posterior, 1 - fdr, 0.5, min(0.5, 1 - fdr)):
        for count in range(2, min(len(one.members), largest) + 1):
            sets.add(tuple(sorted(one.members[:count])))
    by_variable = sparse.csr_array(
        (np.ones(len(kept.members), bool), kept.members, kept.start), shape=(len(kept), problem.p)
    ).tocsc()
    found = []
    for members in sorted(sets):
        own = pip[list(members)]
        if own.sum() < LEAST_PROBABILITY:
            continue
        if len(members) == 1:
            probability, mcse = float(own[0]), float(posterior.mcse[members[0]])
        else:
            any_in = np.zeros(len(kept))
            for j in members:
                any_in[by_variable.indices[by_variable.indptr[j] : by_variable.indptr[j + 1]]] = 1.0
            # between the largest and the sum of the inclusion probabilities, which are more accurate
            probability = float(np.clip(any_in @ kept.weight, own.max(), min(own.sum(), 1.0)))
            mcse = float(kept.error(any_in, posterior.models.exact))
        if probability >= LEAST_PROBABILITY:
            ordered = tuple(np.array(members)[np.argsort(-own, kind="stable")].tolist())
            found.append(Candidate(ordered, probability, mcse))
    return found


def _clustered(posterior: "Posterior", some: np.ndarray, largest: int) -> list[list[int]]:
    """All sets of at least two variables that a hierarchical clustering joins, up to the largest size."""
    if len(some) < 2:
        return []
    from scipy.cluster.hierarchy import linkage
    from scipy.spatial.distance import squareform

    distance = 1 - absolute_correlations(posterior.problem, some)
    np.fill_diagonal(distance, 0.0)
    groups: list[list[int] | None] = [[int(j)] for j in some]
    found = []
    for a, b in linkage(squareform(np.maximum(distance, 0.0), checks=False), "average")[:, :2].astype(int):
        first, second = groups[a], groups[b]
        joined = (
            None if first is None or second is None or len(first) + len(second) > largest else first + second
        )
        groups.append(joined)
        if joined is not None:
            found.append(joined)
    return found


def choose(sets: list[tuple[int, ...]], probability: np.ndarray, fdr: float) -> list[int]:
    """The numbers of the chosen sets: disjoint, with an expected share of false ones of at most `fdr`, and as many and as small as possible.

    >>> choose([(0,), (1,), (0, 1), (2,)], np.array([0.6, 0.4, 0.99, 0.98]), 0.05)
    [2, 3]
    """
    if not sets:
        return []
    from scipy.optimize import Bounds, LinearConstraint, milp

    sizes = np.array([len(members) for members in sets])
    columns = np.repeat(np.arange(len(sets)), sizes)
    variables, rows = np.unique(np.concatenate([np.array(members) for members in sets]), return_inverse=True)
    disjoint = sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=(len(variables), len(sets)))
    answer = milp(
        -probability / sizes,
        constraints=[
            LinearConstraint(disjoint, ub=np.ones(len(variables))),
            LinearConstraint((1 - probability - fdr)[None], ub=0.0),
        ],
        integrality=np.ones(len(sets)),
        bounds=Bounds(0, 1),
    )
    if answer.x is None:
        raise DataError(f"no discoveries can be chosen: {answer.message}")
    return np.flatnonzero(answer.x > 0.5).tolist()
