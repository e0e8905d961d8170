"""whichvars: which of these variables matter, and how sure can I be?

Bayesian variable selection in regression: posterior inclusion probabilities with honest error bars, the best
models, model averages, by exact enumeration or adaptive MCMC.
"""

import importlib
from typing import TYPE_CHECKING, Any

from whichvars.samplers import SAMPLERS

__version__ = "0.1.0"

_HOME = {
    "problem.problem": ["Problem"],
    "data.categories": ["Categories"],
    "data.expanding": ["date", "spline"],
    "data.imputing": ["impute", "Imputations"],
    "posterior.pooling": ["pool", "PooledPosterior"],
    "problem.summary_statistics": ["from_summary", "check_summary"],
    "data.statistics": ["SufficientStatistics"],
    "data.genotypes": ["Genotypes", "read_bed"],
    "data.pgen": ["read_pgen"],
    "data.raw": ["read_raw"],
    "data.vcf": ["read_vcf"],
    "problem.priors": [
        "IndependentNormal", "GPrior", "EstimatedG", "HyperG", "HyperGN", "ZellnerSiow", "CCH", "LocalEmpiricalBayes", "BIC",
        "Jeffreys", "InverseGamma", "KnownVariance",
    ],
    "problem.mixture_priors": ["BetaPrime", "Robust", "Intrinsic"],
    "problem.correlated_prior": ["CorrelatedNormal"],
    "problem.moment_priors": ["ProductMoment", "ExponentialMoment"],
    "problem.families": ["Gaussian", "Logistic", "Probit", "Poisson", "NegativeBinomial", "Student"],
    "problem.dilution": ["Dilution"],
    "problem.graph_prior": ["MarkovRandomField"],
    "problem.model_priors": ["FixedInclusion", "BetaBinomial", "PoissonSize", "Complexity", "SizeDistribution"],
    "problem.allele_frequency": ["slab_by_frequency"],
    "problem.annotations": ["annotated_prior"],
    "sampling.exact": ["exact"],
    "sampling.sample": ["sample"],
    "sampling.sampling_many": ["sample_many"],
    "sampling.enrichment": ["estimate_enrichment"],
    "sampling.empirical_bayes": ["global_empirical_bayes"],
    "sampling.degrees_of_freedom": ["EstimatedDf", "estimate_df"],
    "sampling.comparing_priors": ["compare_priors"],
    "sampling.comparing_samplers": ["compare_samplers"],
    "sampling.continuing": ["resume", "extend"],
    "sampling.executors": ["DaskExecutor"],
    "posterior.posterior": ["Posterior"],
    "plots": [
        "plot_inclusion", "plot_models", "plot_model_size", "plot_coefficients", "plot_correlation", "plot_effect", "plot_jointness", "plot_region", "plot_residuals", "plot_manhattan",
        "plot_roc", "plot_calibration", "plot_pit", "plot_predictive_check", "plot_priors", "plot_samplers",
        "plot_trace", "plot_agreement", "plot_adaptation", "plot_changes", "plot_ladder",
    ],
    "estimator": ["VariableSelector", "VariableSelectorClassifier"],
    **{f"samplers.{module}": [name] for module, name in SAMPLERS.items()},
    "errors": [
        "WhichvarsError", "DataError", "ArgumentTypeError", "TooLargeError", "MissingPackageError", "OutputError",
        "ClusterError", "DataWarning", "ConvergenceWarning", "CheckpointWarning",
    ],
}  # fmt: skip
_WHERE = {name: module for module, names in _HOME.items() for name in names}
__all__ = [*_WHERE, "datasets"]

if TYPE_CHECKING:
    from whichvars import datasets
    from whichvars.data.categories import Categories
    from whichvars.data.expanding import date, spline
    from whichvars.data.genotypes import Genotypes, read_bed
    from whichvars.data.imputing import Imputations, impute
    from whichvars.data.pgen import read_pgen
    from whichvars.data.raw import read_raw
    from whichvars.data.statistics import SufficientStatistics
    from whichvars.data.vcf import read_vcf
    from whichvars.errors import (
        ArgumentTypeError,
        CheckpointWarning,
        ClusterError,
        ConvergenceWarning,
        DataError,
        DataWarning,
        MissingPackageError,
        OutputError,
        TooLargeError,
        WhichvarsError,
    )
    from whichvars.estimator import VariableSelector, VariableSelectorClassifier
    from whichvars.plots import (
        plot_adaptation,
        plot_agreement,
        plot_calibration,
        plot_changes,
        plot_coefficients,
        plot_correlation,
        plot_effect,
        plot_inclusion,
        plot_jointness,
        plot_ladder,
        plot_manhattan,
        plot_model_size,
        plot_models,
        plot_pit,
        plot_predictive_check,
        plot_priors,
        plot_region,
        plot_residuals,
        plot_roc,
        plot_samplers,
        plot_trace,
    )
    from whichvars.posterior.pooling import PooledPosterior, pool
    from whichvars.posterior.posterior import Posterior
    from whichvars.problem.allele_frequency import slab_by_frequency
    from whichvars.problem.annotations import annotated_prior
    from whichvars.problem.correlated_prior import CorrelatedNormal
    from whichvars.problem.dilution import Dilution
    from whichvars.problem.families import Gaussian, Logistic, NegativeBinomial, Poisson, Probit
    from whichvars.problem.graph_prior import MarkovRandomField
    from whichvars.problem.mixture_priors import BetaPrime, Intrinsic, Robust
    from whichvars.problem.model_priors import (
        BetaBinomial,
        Complexity,
        FixedInclusion,
        PoissonSize,
        SizeDistribution,
    )
    from whichvars.problem.moment_priors import ExponentialMoment, ProductMoment
    from whichvars.problem.priors import (
        BIC,
        CCH,
        EstimatedG,
        GPrior,
        HyperG,
        HyperGN,
        IndependentNormal,
        InverseGamma,
        Jeffreys,
        KnownVariance,
        LocalEmpiricalBayes,
        ZellnerSiow,
    )
    from whichvars.problem.problem import Problem
    from whichvars.problem.summary_statistics import check_summary, from_summary
    from whichvars.samplers.add_delete_swap import AddDeleteSwap
    from whichvars.samplers.asi import ASI
    from whichvars.samplers.hybrid import Hybrid
    from whichvars.samplers.individual import IndividualAdaptation
    from whichvars.samplers.lamnisos import Lamnisos
    from whichvars.samplers.parni import PARNI
    from whichvars.samplers.smc import SequentialMonteCarlo
    from whichvars.samplers.subset_gibbs import SubsetGibbs
    from whichvars.samplers.tempered_gibbs import TemperedGibbs
    from whichvars.samplers.tempering import ParallelTempering
    from whichvars.sampling.comparing_priors import compare_priors
    from whichvars.sampling.comparing_samplers import compare_samplers
    from whichvars.sampling.continuing import extend, resume
    from whichvars.sampling.degrees_of_freedom import EstimatedDf, estimate_df
    from whichvars.sampling.empirical_bayes import global_empirical_bayes
    from whichvars.sampling.enrichment import estimate_enrichment
    from whichvars.sampling.exact import exact
    from whichvars.sampling.executors import DaskExecutor
    from whichvars.sampling.sample import sample
    from whichvars.sampling.sampling_many import sample_many


def __getattr__(name: str) -> Any:
    """Import what is asked for when it is asked for: `import whichvars` stays light."""
    if name == "datasets":
        return importlib.import_module("whichvars.datasets")
    if name in _WHERE:
        value = getattr(importlib.import_module(f"whichvars.{_WHERE[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'whichvars' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
