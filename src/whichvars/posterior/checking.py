"""Does the model fit? Residuals, draws of new responses and comparisons with the observed ones."""

from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pandas as pd

from whichvars.errors import DataError
from whichvars.posterior.predictive_checks import check_table, coverage_table, draw_responses
from whichvars.posterior.residual_checks import ResidualCheck, check_residuals
from whichvars.posterior.residuals import residual_table
from whichvars.problem.families import is_linear
from whichvars.problem.problem import Problem

if TYPE_CHECKING:
    from whichvars.posterior.posterior import Posterior


class Checking:
    """The methods of a ``Posterior`` that compare the model with the data; it has the attributes named here."""

    problem: Problem

    def residuals(
        self, X: Any = None, y: Any = None, weights: Any = None, offset: Any = None, trials: Any = None
    ) -> pd.DataFrame:
        """Residuals of the averaged model; of one model after ``model``.

        Parameters
        ----------
        X, y, weights
            The data that the problem was made with. A problem with a Gaussian response keeps no copy of the rows; for the other
            families the problem's own rows are used if X and y are not given.
        offset, trials
            For rows of X if the family is not Gaussian, as for ``log_score``.

        Returns
        -------
        DataFrame, one row for each observation
            `fitted`, the expectation of the response, averaged over models; `residual`, the response less that; `standardised`, the residual divided
            by the standard deviation that the model expects of it: that of the noise, or of the family (Pearson residuals). The
            module ``residuals`` has the formulas.

        Examples
        --------
        >>> import whichvars as wv
        >>> data = wv.datasets.load_uscrime()
        >>> posterior = wv.exact(wv.Problem(data.X, data.y, slab=wv.GPrior(47)))
        >>> posterior.model(["Ed", "Ineq", "Po1"]).residuals(data.X, data.y).round(2).head(2)
           fitted  residual  standardised
        0    6.64      0.03          0.13
        1    7.17      0.23          0.98
        """
        return residual_table(cast("Posterior", self), X, y, weights, offset, trials)

    def draw_response(
        self,
        X: Any,
        n: int = 100,
        seed: int | None = 0,
        weights: Any = None,
        offset: Any = None,
        trials: Any = None,
    ) -> np.ndarray:
        """Draw new responses from the posterior predictive distribution: for each draw a model, its coefficients and the noise.

        All rows of a draw share them, so that sums over rows vary as they should.

        Parameters
        ----------
        X : array or DataFrame, shape (m, columns)
            Values of the columns that the problem was made with.
        n : int
            Number of draws.
        seed : int or None
            The same seed gives exactly the same draws; None takes a new seed each time.
        weights : array, shape (m,)
            Precision weights of a Gaussian response.
        offset, trials
            If the family is not Gaussian, as for ``predict``.

        Returns
        -------
        array, shape (n, m)
            Of a response with two values, 0 and 1.

        Examples
        --------
        >>> import whichvars as wv
        >>> data = wv.datasets.load_uscrime()
        >>> posterior = wv.exact(wv.Problem(data.X, data.y, slab=wv.GPrior(47)))
        >>> posterior.draw_response(data.X, n=200).shape
        (200, 47)
        """
        return draw_responses(cast("Posterior", self), X, n, seed, weights, offset, trials)

    def predictive_check(
        self,
        X: Any,
        y: Any,
        statistics: Any = None,
        n: int = 1000,
        seed: int | None = 0,
        weights: Any = None,
        offset: Any = None,
        trials: Any = None,
    ) -> pd.DataFrame:
        """Compare statistics of the observed responses with those of responses drawn from the fitted model.

        Parameters
        ----------
        X, y : the data, usually those that the problem was made with
        statistics : mapping from names to functions
            Each takes the responses, shape (m,), and returns a number. The default is mean, standard deviation, smallest and largest value, with skewness and
            kurtosis of Gaussian and Student responses, and the share of zeros and the variance over the mean of counts.
        n : int
            Number of draws.
        seed, weights, offset, trials
            As for ``draw_response``.

        Returns
        -------
        DataFrame, one row for each statistic
            `observed`; `mean`, `lower` and `upper` of the draws, the last two with 5 % of them below and above; `p_value`, the share of the draws above the
            observed value, ties counting one half, and its Monte Carlo error `mcse`. A p-value near 0 or 1 names something that the model does not
            reproduce.

        Examples
        --------
        >>> import whichvars as wv
        >>> data = wv.datasets.load_uscrime()
        >>> posterior = wv.exact(wv.Problem(data.X, data.y, slab=wv.GPrior(47)))
        >>> checks = posterior.predictive_check(data.X, data.y)
        >>> bool(checks["p_value"].between(0.05, 0.95).all())
        True
        """
        return check_table(cast("Posterior", self), X, y, statistics, n, seed, weights, offset, trials)

    def residual_check(self, X: Any, y: Any, weights: Any = None) -> ResidualCheck:
        """Whether residuals speak against the linear model: skewness, heavy tails, unequal variance, curved effects, outliers and influential rows.

        Parameters
        ----------
        X, y, weights
            The data that the problem was made with. For Gaussian and Student responses, the latter without weights.

        Returns
        -------
        ResidualCheck
            ``remarks`` in words, none if nothing was found; R² and leave-one-out R²; and the numbers behind the remarks.

        Examples
        --------
        >>> import whichvars as wv
        >>> data = wv.datasets.load_uscrime()
        >>> check = wv.exact(wv.Problem(data.X, data.y, slab=wv.GPrior(47))).residual_check(data.X, data.y)
        >>> check.remarks, round(check.r_squared, 2), round(check.loo_r_squared, 2)
        ((), 0.84, 0.62)
        """
        if not is_linear(self.problem.family):
            raise DataError(
                f"residual_check() is for Gaussian and Student responses; with family={self.problem.family} see predictive_check()"
            )
        return check_residuals(
            cast("Posterior", self), X, y, weights, "VariableSelector(log_response=True), or y = np.log(y)"
        )

    def interval_calibration(
        self, X: Any = None, y: Any = None, levels: Any = (0.5, 0.8, 0.9, 0.95), weights: Any = None
    ) -> pd.DataFrame:
        """How many of the observed responses lie in their predictive intervals, each predicted from all other rows.

        A row lies in the interval of a level if its probability integral transform, `pit` in ``loo``, differs from one half by no more than half the
        level. Of counts and of responses with two values the transform is randomised, as no interval of whole numbers has exactly the wanted probability.

        Parameters
        ----------
        X, y, weights
            The data that the problem was made with, as for ``loo``; they are needed if the response is Gaussian.
        levels : sequence of float
            Probabilities of the equal-tailed intervals.

        Returns
        -------
        DataFrame, one row for each level
            `rows`; `observed`, the share of them inside; `lower` and `upper`, between which this share lies with a probability of about 90 % if the
            intervals are right.

        Examples
        --------
        >>> import whichvars as wv
        >>> data = wv.datasets.load_uscrime()
        >>> posterior = wv.exact(wv.Problem(data.X, data.y, slab=wv.GPrior(47)))
        >>> posterior.interval_calibration(data.X, data.y).round(2)
               rows  observed  lower  upper
        level
        0.50     47      0.51   0.38   0.62
        0.80     47      0.79   0.70   0.89
        0.90     47      0.85   0.83   0.96
        0.95     47      0.89   0.89   1.00
        """
        pit = cast("Posterior", self).loo(X, y, weights)["pit"]
        return coverage_table(pit.to_numpy(), levels)
