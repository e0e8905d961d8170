"""The question: columns, a response and priors, made into the one form that kernels see."""
