"""Model priors as kernels use them: log p(γ) up to its constant, and the log odds of one flip."""

import numpy as np

from whichvars._kernels.jit import kernel


@kernel
def log_flip_odds(prior, j, k):
    """log p(γ with j) − log p(γ without j), where γ without j has k variables; −inf where `max_size`
    forbids."""
    if k + 1 > prior.max_size:
        return -np.inf
    return prior.log_odds[j] + prior.log_size[k + 1] - prior.log_size[k]
