r"""Credible sets: disjoint sets of variables of which at least one is in the model, found from the joint posterior.

Each set is grown around a leading variable, that of the highest inclusion probability not yet in a set. Candidates are free variables whose
correlation with every member is at least `purity` in size, and that stand in for the set C so far instead of having an effect of their own:
they are in the model more often if no member is. With the four probabilities that a member of C is in or not and j is in or not,

.. math:: \frac{P(C, j)\, P(\neg C, \neg j)}{P(C, \neg j)\, P(\neg C, j)} < \tfrac14,

an odds ratio that is near 1 for effects of their own, however correlated the variables are. It is 0 for two copies of which at least one is
needed, even if both are often in together, as they are where the prior expects smaller effects. With three copies it need not be small,
because models with neither of two copies have the third. So j also stands in for C if the same ratio is small with "j is in" replaced by "j
or a near copy of j that is not in C is in".

Of these, the one that adds most to the probability :math:`P(C \cap \gamma \ne \emptyset)` comes next, until it reaches the level. This is
the probability that the set contains a variable that matters, summed over models with whatever other effects they have. There is no
assumption that effects are independent, as there is where each effect has a distribution over variables of its own (SuSiE).

If the level cannot be reached, the signal is still reported, with the probability that it reaches: the set is then the shortest beginning
that has the share `level` of that probability.

Given the signal, all sets are made in this way: the set grows until nothing that stands in for it is left, which gives the probability that
the signal is there at all, and its shortest beginning with the share `level` of that is the set. These are credible sets of the place of
an effect, given that there is one, as in SuSiE and FINEMAP. They are smaller, because they need not make up for the possibility
that there is no effect. How probable a signal must be for its set to count is a question of its own, and has a bound of its own, `signal`.
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd
from scipy import sparse

from whichvars.posterior.clusters import correlations
from whichvars.posterior.models import columns_of
from whichvars.problem.columns import gram_of
from whichvars.problem.problem import Problem

if TYPE_CHECKING:
    from whichvars.posterior.posterior import Posterior

# least inclusion probability of a leading variable, and most candidates for its set
LEADING, MOST_CANDIDATES = 0.01, 1000
# odds ratio below which a variable stands in for a set, and correlation of near copies
STAND_IN, NEAR_COPY = 0.25, 0.99
# a signal is complete if no variable would add as much as this to its probability
NOTHING_MORE = 1e-4


class CredibleSet(NamedTuple):
    members: list[int]  # most probable first
    probability: float
    mcse: float
    purity: float
    # of the variables that were looked at; for sets given the signal, of all that stand in for one another
    signal: float


def find_sets(
    posterior: "Posterior", level: float, purity: float, least: float, signal: float | None = None
) -> list[CredibleSet]:
    """The credible sets of a posterior, that of the most probable leading variable first; given the signal, if its least probability is."""
    given_signal = signal is not None
    kept, pip, problem = posterior.kept, posterior.pip, posterior.problem
    by_variable = sparse.csr_array(
        (np.ones(len(kept.members), bool), kept.members, kept.start), shape=(len(kept), problem.p)
    ).tocsc()
    by_models = by_variable.T @ kept.weight
    free, sets = by_models > 0, []
    whole = (1 - NOTHING_MORE, NOTHING_MORE) if given_signal else (level, 0.0)
    for lead in np.argsort(-pip, kind="stable").tolist():
        if pip[lead] < LEADING:
            break
        if not free[lead]:
            continue
        near = np.flatnonzero(free & (correlations(problem, lead) >= purity))
        near = near[near != lead]
        near = np.concatenate([[lead], near[np.argsort(-pip[near], kind="stable")][:MOST_CANDIDATES]])
        if pip[near].sum() < least:
            continue
        size = absolute_correlations(problem, near)
        grown = _grow(by_variable, kept.weight, by_models, pip, near, size, purity, *whole)
        members, reached = near[grown.order], grown.probabilities
        if reached[-1] < least:
            continue
        enough = level * reached[-1] if given_signal or reached[-1] < level else level
        count = int(np.argmax(reached >= enough)) + 1
        chosen = members[:count]
        free[chosen] = False
        any_in = np.zeros(len(kept), bool)
        for j in chosen:
            any_in[by_variable.indices[by_variable.indptr[j] : by_variable.indptr[j + 1]]] = True
        # a single variable has its inclusion probability, and the error of that
        error = (
            posterior.mcse[lead] if count == 1 else kept.error(any_in.astype(float), posterior.models.exact)
        )
        inside = size[np.ix_(grown.order[:count], grown.order[:count])]
        ordered = chosen[np.argsort(-pip[chosen], kind="stable")].tolist()
        sets.append(
            CredibleSet(
                ordered, float(reached[count - 1]), float(error), float(inside.min()), float(reached[-1])
            )
        )
    return sets


class _Grown(NamedTuple):
    order: np.ndarray  # places among the candidates
    probabilities: np.ndarray  # that at least one of the first 1, 2, … is in


def _grow(
    by_variable: sparse.csc_array,
    weight: np.ndarray,
    by_models: np.ndarray,
    pip: np.ndarray,
    near: np.ndarray,
    size: np.ndarray,
    purity: float,
    enough: float,
    smallest: float,
) -> _Grown:
    """Grow a set around the first of the candidates `near`, (c,), whose absolute correlations are `size`, (c, c), until its probability is
    `enough` or no other adds more than `smallest`."""
    close, copies = size >= purity, size >= NEAR_COPY
    indices, start = by_variable.indices, by_variable.indptr
    having = [indices[start[j] : start[j + 1]] for j in near]
    outside = weight.copy()  # of the models without any member
    outside[having[0]] = 0.0
    by_set = float(by_models[near[0]])
    order, probabilities = [0], [float(pip[near[0]])]
    possible = close[0].copy()
    possible[0] = False
    gains = np.array([outside[models].sum() for models in having])
    while probabilities[-1] < enough:
        alike = _stands_in(by_set, gains, by_models[near] - gains)
        able = possible & (gains > smallest)
        j = -1
        for candidate in np.argsort(-np.where(able, gains, -1.0), kind="stable")[
            : np.count_nonzero(able)
        ].tolist():
            if alike[candidate]:
                j = candidate
                break
            group = np.flatnonzero(copies[candidate] & able)
            if len(group) > 1:
                any_in = np.unique(np.concatenate([having[i] for i in group]))
                gain = float(outside[any_in].sum())
                if _stands_in(by_set, gain, float(weight[any_in].sum()) - gain):
                    j = candidate
                    break
        if j < 0:
            break
        order.append(j)
        possible &= close[j]
        possible[j] = False
        by_set += float(gains[j])
        outside[having[j]] = 0.0
        gains = np.array([outside[models].sum() if possible[i] else 0.0 for i, models in enumerate(having)])
        own = pip[near[order]]
        probabilities.append(float(np.clip(by_set, own.max(), min(own.sum(), 1.0))))
    # inclusion probabilities are more accurate than those of models, and may make the sequence decrease a little
    return _Grown(np.array(order), np.maximum.accumulate(probabilities))


def _stands_in(by_set: float, gain: np.ndarray | float, together: np.ndarray | float) -> np.ndarray:
    """Whether a candidate is in more often if no member of the set is, with P(C), P(not C, j) and P(C, j)."""
    neither = np.maximum(1 - by_set - gain, 0.0)
    return np.asarray(together * neither < STAND_IN * np.maximum(by_set - together, 0.0) * gain)


def absolute_correlations(problem: Problem, variables: np.ndarray) -> np.ndarray:
    """Absolute correlations between variables, (c, c); for variables of several columns, the largest between any two of them."""
    gram = np.abs(gram_of(problem.target(0).design, columns_of(problem, variables)))
    length = np.sqrt(np.diagonal(gram))
    begin = np.concatenate([[0], np.cumsum(np.diff(problem.offsets)[variables])[:-1]])
    largest = np.maximum.reduceat(np.maximum.reduceat(gram / length / length[:, None], begin), begin, axis=1)
    np.fill_diagonal(largest, 1.0)
    return np.minimum(largest, 1.0)


def set_table(
    posterior: "Posterior", sets: list[CredibleSet], level: float, signal: float | None = None
) -> pd.DataFrame:
    """One row for each set. It has reached its aim if its probability is `level`, or given the signal, if that of the signal is `signal`."""
    names, pip, given_signal = posterior.problem.names, posterior.pip, signal is not None
    judged = np.array([s.signal if given_signal else s.probability for s in sets], float)
    table = pd.DataFrame(
        {
            "lead": [names[s.members[0]] for s in sets],
            "size": np.array([len(s.members) for s in sets], int),
            "probability": np.array([s.probability for s in sets], float),
            "mcse": np.array([s.mcse for s in sets], float),
            "reached": judged >= (level if signal is None else signal),
            "expected": np.array([pip[s.members].sum() for s in sets], float),
            "purity": np.array([s.purity for s in sets], float),
            "variables": [[names[j] for j in s.members] for s in sets],
            "pips": [[float(pip[j]) for j in s.members] for s in sets],
        },
        index=pd.RangeIndex(1, len(sets) + 1, name="set"),
    )
    if given_signal:
        table.insert(table.columns.get_loc("mcse") + 1, "signal", judged)
    return table


def member_table(
    posterior: "Posterior", sets: list[CredibleSet], level: float, signal: float | None = None
) -> pd.DataFrame:
    """One row for each member of each set."""
    table, given_signal = set_table(posterior, sets, level, signal), signal is not None
    repeat = np.repeat(np.arange(len(sets)), table["size"].to_numpy())
    members = np.array([j for s in sets for j in s.members], np.int64)
    first = table.reset_index().loc[repeat, ["set", "probability", "mcse", *(["signal"] if given_signal else []), "reached", "size", "purity"]]  # fmt: skip
    first = first.rename(columns={"probability": "set_probability", "mcse": "set_mcse"}).reset_index(
        drop=True
    )
    first["variable"] = [posterior.problem.names[j] for j in members]
    first["pip"], first["mcse"] = posterior.pip[members], posterior.mcse[members]
    return first
