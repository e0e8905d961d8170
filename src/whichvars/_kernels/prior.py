"""Model priors as kernels use them: log p(γ) up to its constant, and the log odds of one flip.

Heredity, or the edges of a graph, come on top of it: what they add to the log prior of a proposal and to the log odds of one flip. Both
are called only where ``prior.links`` is not empty.
"""

import numpy as np

from whichvars._kernels.jit import kernel


@kernel
def log_flip_odds(prior, j, k):
    """log p(γ with j) − log p(γ without j), where γ without j has k variables; −inf where `max_size`
    forbids."""
    if k + 1 > prior.max_size:
        return -np.inf
    return prior.log_odds[j] + prior.log_size[k + 1] - prior.log_size[k]


# --- heredity. `links` and `terms` are explained in target.py; a variable is in where its `position` is ≥ 0, out
# where it is −1. `available` counts variables with parents, all of which are in.

# In place of the number of variables without parents: `links` are the edges of a graph (see target.py)
GRAPH = -1

# While a proposal is looked at, `position` also says what it changes
ENTERING = -2  # one that is out
LEAVING = -3  # and less, LEAVING − place: one that is in


@kernel
def in_order(prior, i, p):
    """Variable number i when parents come before their children; i itself without heredity."""
    return prior.links[2 * p + 2 + i] if prior.links.shape[0] > 0 and prior.links[0] >= 0 else i


@kernel
def all_parents_in(prior, position, j, but):
    """Whether all parents of j are in, not counting `but`."""
    links = prior.links
    if links[0] == GRAPH:
        return True
    for e in range(links[1 + j], links[2 + j]):
        if links[e] != but and position[links[e]] < 0:
            return False
    return True


@kernel
def strength_of_neighbours(prior, position, j):
    """Of a graph: the sum of the strengths of the edges from j to variables that are in."""
    links = prior.links
    value = 0.0
    for e in range(links[1 + j], links[2 + j]):
        if position[links[e]] >= 0:
            value += prior.terms[e - links[1], 0]
    return value


@kernel
def children_made_available(prior, position, j):
    """How many children of j have all their other parents in, and the sum of their terms; of a graph 0, and what its neighbours add."""
    links = prior.links
    if links[0] == GRAPH:
        return 0, strength_of_neighbours(prior, position, j)
    p = position.shape[0]
    number = 0
    change = 0.0
    for e in range(links[1 + p + j], links[2 + p + j]):
        if all_parents_in(prior, position, links[e], j):
            number += 1
            change += prior.terms[links[e], 0]
    return number, change


@kernel
def log_availability(prior, k, available):
    """The terms of log p(γ) that depend on the number of variables and the number available alone."""
    if prior.links[0] == GRAPH:
        return 0.0
    m = prior.links[0] + available
    return prior.terms[m - k, 1] + prior.terms[m, 2]


@kernel
def add_heredity(prior, position, size, available, log_odds):
    """Add to the log odds of all one-variable flips what heredity does: −inf where a parent is missing, +inf
    where a child is in, so that the variable cannot leave."""
    for j in range(position.shape[0]):
        add_heredity_of(prior, position, size, available, log_odds, j)


@kernel
def add_heredity_of(prior, position, size, available, log_odds, j):
    """``add_heredity`` for variable j alone."""
    links = prior.links
    if links[0] == GRAPH:
        log_odds[j] += strength_of_neighbours(prior, position, j)
        return
    p = position.shape[0]
    inside = position[j] >= 0
    if not inside and not all_parents_in(prior, position, j, -1):
        log_odds[j] = -np.inf
        return
    for e in range(links[1 + p + j], links[2 + p + j]):
        if position[links[e]] >= 0:
            log_odds[j] = np.inf
            return
    gained, change = children_made_available(prior, position, j)
    k = size - 1 if inside else size  # without j
    before = available - gained if inside else available
    change += log_availability(prior, k + 1, before + gained) - log_availability(prior, k, before)
    log_odds[j] += change


@kernel
def proposed_heredity(prior, position, size, available, added, n_added, deleted, n_deleted):
    """What heredity adds to log p(γ') − log p(γ), −inf if γ' is not allowed; and how many variables with
    parents are available in γ'. In γ, `available` are.

    For the time being `position` marks what the proposal flips, so that each look at a variable is O(1).
    """
    for i in range(n_added):
        position[added[i]] = ENTERING
    for i in range(n_deleted):
        position[deleted[i]] = LEAVING - position[deleted[i]]
    value = 0.0
    now = available
    for i in range(n_added):
        gained, change = _flipped(prior, position, added[i])
        now += gained
        value += change
    for i in range(n_deleted):
        gained, change = _flipped(prior, position, deleted[i])
        now += gained
        value += change
    for i in range(n_added):
        position[added[i]] = -1
    for i in range(n_deleted):
        position[deleted[i]] = LEAVING - position[deleted[i]]
    if value == -np.inf:
        return value, available
    value += log_availability(prior, size + n_added - n_deleted, now)
    return value - log_availability(prior, size, available), now


@kernel
def _flipped(prior, position, j):
    """Of flipping j: how many of its children become available, less those that cease to be, and the change
    of their terms; a child with several flipped parents counts with the first of them. −inf if j enters
    without a parent or leaves a child behind."""
    links = prior.links
    p = position.shape[0]
    if links[0] == GRAPH:
        return 0, _edges_flipped(prior, position, j)
    if position[j] == ENTERING:
        for e in range(links[1 + j], links[2 + j]):
            place = position[links[e]]
            if place == -1 or place <= LEAVING:
                return 0, -np.inf
    gained = 0
    change = 0.0
    for e in range(links[1 + p + j], links[2 + p + j]):
        child = links[e]
        if position[j] <= LEAVING and (position[child] >= 0 or position[child] == ENTERING):
            return 0, -np.inf
        before = True
        after = True
        first = -1
        for f in range(links[1 + child], links[2 + child]):
            place = position[links[f]]
            if place <= ENTERING and first < 0:
                first = links[f]
            if place == -1 or place == ENTERING:
                before = False
            if place == -1 or place <= LEAVING:
                after = False
        if first == j and before != after:
            sign = 1 if after else -1
            gained += sign
            change += sign * prior.terms[child, 0]
    return gained, change


@kernel
def _edges_flipped(prior, position, j):
    """Of a graph: what edges of j add to the log prior when it is flipped, or take from it. An edge whose ends are both flipped counts half with
    each of them."""
    links = prior.links
    value = 0.0
    for e in range(links[1 + j], links[2 + j]):
        place = position[links[e]]
        strength = prior.terms[e - links[1], 0]
        if position[j] == ENTERING:
            if place >= 0:
                value += strength
            elif place == ENTERING:
                value += 0.5 * strength
        elif place >= 0:
            value -= strength
        elif place <= LEAVING:
            value -= 0.5 * strength
    return value
