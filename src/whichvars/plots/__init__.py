"""Plots of a posterior, one function each: it takes a ``Posterior`` and, if wanted, the ``Axes`` to draw on, and
returns the ``Axes``.

They are made to be read for ten variables and for twenty thousand: from some number on, only the most probable
variables are named. Error bars are ± 2 Monte Carlo standard errors; they are left out where they are unknown or too short
to be seen. Where ``converged`` is False, every plot says so above its legend.
"""

from whichvars.plots.effects import plot_coefficients, plot_correlation
from whichvars.plots.runs import plot_agreement, plot_trace
from whichvars.plots.samplers import plot_adaptation, plot_changes, plot_ladder
from whichvars.plots.variables import plot_inclusion, plot_model_size, plot_models

__all__ = [
    "plot_adaptation", "plot_agreement", "plot_changes", "plot_coefficients", "plot_correlation",
    "plot_inclusion", "plot_ladder", "plot_model_size", "plot_models", "plot_trace",
]  # fmt: skip
