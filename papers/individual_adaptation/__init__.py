"""Griffin, Łatuszyński & Steel, *Individual adaptation: an adaptive MCMC scheme for variable selection problems*
(arXiv 1412.6760), table by table and figure by figure.

``python -m papers.individual_adaptation`` makes all of it; one module a figure or table, each with a function ``make``.
"""
