r"""Residuals of the averaged model.

With μ_i the posterior mean of the expectation of y_i, averaged over models, the residual is y_i − μ_i (y_i − t_i μ_i with t_i trials). It is
standardised by the standard deviation that the model expects of it: for a Gaussian response of weight w_i this is
:math:`\sqrt{E[\sigma^2 \mid y]/w_i}`, and for the other families the square root of the family's variance at μ_i (Pearson residuals), of a Student
response that of s²ν/(ν − 2). Both
are those of a row that takes part in the fit, whose residuals are a little smaller than those of new rows.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from whichvars.data.frames import read_vector
from whichvars.data.rows import check_same_rows
from whichvars.errors import DataError
from whichvars.posterior.accuracy import family_variance, fitted_means, predicted_rows
from whichvars.posterior.fits import Refits
from whichvars.posterior.models import KeptModels
from whichvars.posterior.prediction import predict
from whichvars.posterior.t_mixture import t_variance
from whichvars.problem.families import Gaussian, Logistic
from whichvars.problem.problem import Problem

if TYPE_CHECKING:
    from whichvars.posterior.posterior import Posterior


def residual_table(
    posterior: "Posterior", X: Any, y: Any, weights: Any, offset: Any, trials: Any
) -> pd.DataFrame:
    """What ``Posterior.residuals`` returns."""
    problem, kept = posterior.problem, posterior.kept
    if (X is None) != (y is None):
        raise DataError("give both X and y, or neither")
    labels = X.index if isinstance(X, (pd.DataFrame, pd.Series)) else None
    if isinstance(problem.family, Gaussian):
        if X is None:
            raise DataError("the problem keeps no copy of the rows of a Gaussian response; give X and y")
        fitted = predict(problem, kept, X, None, False).mean
        check_same_rows(len(fitted), X, y=y, weights=weights)
        observed = read_vector(y, len(fitted), "y")
        weight = np.ones(len(fitted)) if weights is None else read_vector(weights, len(fitted), "weights")
        spread = noise_sd(problem, kept) / np.sqrt(np.where(weight > 0, weight, np.nan))
    else:
        if weights is not None:
            raise DataError("weights are for Gaussian responses; the other families use those of the problem")
        fit = problem.fit_data
        assert fit is not None
        if X is None:
            mean, observed = fitted_means(problem, kept), fit.y
            number = fit.trials if isinstance(problem.family, Logistic) else np.ones(problem.n)
        else:
            rows = predicted_rows(posterior, X, y, offset, trials)
            mean, observed, number = rows.mean, rows.y, rows.trials
        fitted, spread = number * mean, np.sqrt(family_variance(problem, kept, mean, number))
    residual = observed - fitted
    index = pd.RangeIndex(len(residual), name="row") if labels is None else labels
    return pd.DataFrame(
        {"fitted": fitted, "residual": residual, "standardised": residual / spread}, index=index
    )


def noise_sd(problem: Problem, kept: KeptModels) -> float:
    """√E[σ² | y], averaged over models, in the units of the response, if that is Gaussian; infinite with two degrees of freedom or
    fewer."""
    total = 0.0
    for fit in Refits(problem, kept):
        total += float(fit.weight @ np.einsum("mj,mj->m", fit.node_weight, fit.s)) * t_variance(fit.degrees)
    return float(np.sqrt(total)) * problem._y_scale
