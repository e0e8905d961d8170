r"""Variables that stand in for one another: one of them is needed, the data cannot say which.

A *cluster* is a set of correlated variables that are rarely in the model together, of which one is there with high
probability: in fine mapping, a credible set. It is grown around a leading variable, that of the highest inclusion
probability not yet in a cluster, by taking up variables i in the order of their inclusion probabilities,

- if their correlation with the leading variable is at least `correlation` in size, and
- if a variable of the cluster C so far is in the model less than half as often together with i as in general,

.. math:: P(C \cap \gamma \ne \emptyset \mid i \in \gamma) < \tfrac12 P(C \cap \gamma \ne \emptyset),

until P(C ∩ γ ≠ ∅), the probability that at least one of them is in, reaches the level. The second condition distinguishes
stand-ins, for which the left side is near 0, from correlated variables with effects of their own, for which both sides are
about equal; the larger the probability of the cluster, the fewer draws of i are needed to see the difference. A set that
never reaches the level is not a cluster.

Inclusion probabilities are more accurate than those of the weighted models, and the two differ by Monte Carlo error. The
probability of a cluster is estimated from the models, and clipped to lie between the largest and the sum of the inclusion
probabilities of its variables.

Correlations are those of the residuals on the always-included columns; for variables of several columns, the largest
between any two columns.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy import sparse

from whichvars.posterior.models import KeptModels, columns_of
from whichvars.problem.columns import columns_at, gram_of, products_with_all
from whichvars.problem.problem import Problem

# least inclusion probability of the leading variable of a cluster
LEADING = 0.01


def cluster_table(
    problem: Problem,
    kept: KeptModels,
    level: float,
    correlation: float,
    pip: np.ndarray | None = None,
    exact: bool = False,
    tables: Sequence[Problem] = (),
) -> pd.DataFrame:
    """What ``Posterior.clusters`` returns; `pip` are the inclusion probabilities, by default those of `kept`. Correlations are averages over the
    problems in `tables`, if there are any: those of completed copies of one table."""
    tables = tables or (problem,)
    by_variable = sparse.csr_array(
        (np.ones(len(kept.members), bool), kept.members, kept.start), shape=(len(kept), problem.p)
    ).tocsc()
    by_models = by_variable.T @ kept.weight
    pip = by_models if pip is None else pip
    free, clusters = by_models > 0, []
    for lead in np.argsort(-pip, kind="stable"):
        if pip[lead] < LEADING:
            break
        if not free[lead]:
            continue
        alike = np.mean([correlations(table, int(lead)) for table in tables], axis=0)
        near = free & (alike >= correlation)
        near[lead] = True
        if pip[near].sum() < level:
            continue
        cluster, probability = _grow(by_variable, kept.weight, by_models, pip, int(lead), near, level)
        if probability >= level:
            free[cluster] = False
            any_in = np.logical_or.reduce([kept.having(j) for j in cluster])
            clusters.append((cluster, probability, kept.error(any_in.astype(float), exact)))
    return pd.DataFrame(
        {
            "lead": [problem.names[c[0]] for c, *_ in clusters],
            "size": np.array([len(c) for c, *_ in clusters], int),
            "probability": np.array([probability for _, probability, _ in clusters], float),
            "mcse": np.array([error for *_, error in clusters], float),
            "expected": np.array([pip[c].sum() for c, *_ in clusters], float),
            "purity": np.array(
                [np.mean([_purity(table, c) for table in tables]) for c, *_ in clusters], float
            ),
            "variables": [[problem.names[j] for j in c] for c, *_ in clusters],
        },
        index=pd.RangeIndex(1, len(clusters) + 1, name="cluster"),
    )


def _grow(
    by_variable: sparse.csc_array,
    weight: np.ndarray,
    by_models: np.ndarray,
    pip: np.ndarray,
    lead: int,
    near: np.ndarray,
    level: float,
) -> tuple[list[int], float]:
    """The cluster around a variable, and the probability that at least one of its variables is in the model."""
    indices, start = by_variable.indices, by_variable.indptr
    cluster, any_in = [lead], np.zeros(len(weight), bool)
    any_in[indices[start[lead] : start[lead + 1]]] = True
    probability = float(weight @ any_in)  # by the models alone
    agreed = float(pip[lead])
    candidates = np.flatnonzero(near)
    for j in candidates[np.argsort(-pip[candidates], kind="stable")]:
        if agreed >= level:
            break
        having = indices[start[j] : start[j + 1]]
        together = float(weight[having] @ any_in[having])
        if j != lead and together < 0.5 * probability * by_models[j]:
            cluster.append(int(j))
            any_in[having] = True
            probability += float(by_models[j] - together)
            agreed = float(np.clip(probability, pip[cluster].max(), min(pip[cluster].sum(), 1.0)))
    return cluster, agreed


def correlations(problem: Problem, variable: int) -> np.ndarray:
    """Absolute correlations of a variable with all variables, (p,)."""
    design, offsets = problem.target(0).design, problem.offsets
    own = np.arange(offsets[variable], offsets[variable + 1])
    gram = problem.engine == "gram"
    products = design.gram[own] if gram else products_with_all(design, columns_at(design, own))
    size = np.abs(products) / np.sqrt(design.diagonal[own][:, None] * design.diagonal)
    return np.minimum(np.maximum.reduceat(size.max(axis=0), offsets[:-1]), 1.0)


def _purity(problem: Problem, cluster: list[int]) -> float:
    """The smallest absolute correlation within a cluster."""
    columns = columns_of(problem, np.array(cluster))
    gram = np.abs(gram_of(problem.target(0).design, columns))
    length = np.sqrt(np.diagonal(gram))
    begin = np.concatenate([[0], np.cumsum(np.diff(problem.offsets)[cluster])[:-1]])
    largest = np.maximum.reduceat(np.maximum.reduceat(gram / length / length[:, None], begin), begin, axis=1)
    return float(min(largest.min(), 1.0))
