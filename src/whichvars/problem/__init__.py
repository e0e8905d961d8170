"""The ``Problem``: columns, a response and priors, converted to the form that the kernels use."""
