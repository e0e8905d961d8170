"""Plots of a posterior. Each function takes a ``Posterior`` and optionally the ``Axes`` to draw on, and returns the
``Axes``.

The plots are readable for ten variables and for twenty thousand: if there are many, only the most probable ones are named.
Error bars are ± 2 Monte Carlo standard errors; they are left out if they are unknown or too short to be seen. If
``converged`` is False, every plot says so above its legend.
"""

from whichvars.plots.comparisons import plot_priors, plot_samplers
from whichvars.plots.curves import plot_effect
from whichvars.plots.effects import plot_coefficients, plot_correlation
from whichvars.plots.genetics import plot_manhattan, plot_region
from whichvars.plots.jointness import plot_jointness
from whichvars.plots.predictions import plot_calibration, plot_pit, plot_predictive_check, plot_roc
from whichvars.plots.residuals import plot_residuals
from whichvars.plots.runs import plot_agreement, plot_trace
from whichvars.plots.samplers import plot_adaptation, plot_changes, plot_ladder
from whichvars.plots.variables import plot_inclusion, plot_model_size, plot_models

__all__ = [
    "plot_adaptation", "plot_agreement", "plot_calibration", "plot_changes", "plot_coefficients", "plot_correlation", "plot_effect",
    "plot_inclusion", "plot_jointness", "plot_ladder", "plot_manhattan", "plot_model_size", "plot_models", "plot_pit", "plot_predictive_check", "plot_priors", "plot_region", "plot_residuals", "plot_roc", "plot_samplers", "plot_trace",
]  # fmt: skip
