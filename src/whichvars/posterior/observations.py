"""New observations and the problem's own: predictions, draws, and how good predictions are."""

from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
import pandas as pd

from whichvars.data.frames import check_level
from whichvars.errors import DataError
from whichvars.posterior.accuracy import (
    Pearson,
    calibration_table,
    pearson_statistic,
    predicted_rows,
    score_table,
)
from whichvars.posterior.dispersion import dispersion_summary
from whichvars.posterior.family_prediction import draw_of_family, predict_family
from whichvars.posterior.family_scores import (
    check_own_rows,
    leave_one_out_of_family,
    log_predictive_of_family,
)
from whichvars.posterior.family_words import first_order_change
from whichvars.posterior.models import KeptModels
from whichvars.posterior.prediction import draw, models_of, predict
from whichvars.posterior.scores import leave_one_out, log_predictive
from whichvars.posterior.shrinkage import estimated_g, shrinkage_summary
from whichvars.problem.arguments import check_choice
from whichvars.problem.families import Gaussian, Student, is_linear
from whichvars.problem.problem import Problem
from whichvars.problem.responses import refuse_trials

if TYPE_CHECKING:
    from whichvars.posterior.posterior import Models, Posterior


class Observations:
    """The methods of a ``Posterior`` about single observations; it has the attributes named here."""

    problem: Problem
    kept: KeptModels
    models: "Models"

    # --- new observations

    def predict(
        self,
        X: Any,
        estimator: Literal["BMA", "HPM", "MPM", "BPM"] = "BMA",
        return_std: bool = False,
        interval: float | None = None,
        return_mcse: bool = False,
        kind: Literal["mean", "link", "response"] | None = None,
        offset: Any = None,
        trials: Any = None,
    ) -> Any:
        """Predict new observations, with the uncertainty about the model, its coefficients and the noise.

        The predictive distribution is a mixture of t distributions, one for each model (and each g, for mixtures of g);
        nothing is simulated. A new observation has weight 1. If the family is not Gaussian, `kind` says what is predicted.

        Parameters
        ----------
        X : array or DataFrame, shape (m, columns)
            New values of the columns that the problem was made with; matched by name if both have names.
        estimator : "BMA", "HPM", "MPM" or "BPM"
            The average over models; or one model alone: the one of highest posterior probability, the median
            probability model (all variables with an inclusion probability of at least one half), or the best
            predictive model, the one of ``kept`` whose fit to the data is nearest to the average's.
        return_std : bool
            Return the standard deviation of the predictive distribution too.
        interval : float
            Return the ends of an equal-tailed predictive interval of this probability too.
        return_mcse : bool
            Return the Monte Carlo standard error of the mean too, from differences between replicates: 0 if exact or for a
            single model, NaN with a single replicate.
        kind : "mean", "link" or "response"
            If the family is not Gaussian: the mean of a new response, a probability (of one trial) or a rate, which is the default; the linear
            predictor; or the new response itself, the default for Student responses, as it is for Gaussian ones. `std` and `interval` are about what is predicted, so that those of "mean" say how well a rate is
            known, and those of "response" how far a new count may be from it. Ends of intervals of counts are whole numbers, between
            which a new one lies with at least this probability. Of a response with two values they are 0 and 1: 0 and 1 where
            both values remain possible, twice the same where one of them has more than `interval` + (1 − `interval`)/2 of the probability.
        offset : float or array, shape (m,)
            The offset of the new rows, needed if the problem was made with one.
        trials : int or array, shape (m,)
            With kind="response", the trials of the new rows, if the problem was made with trials; by default the problem's own if
            these are one number.

        Returns
        -------
        mean, shape (m,); if asked for, a tuple of it with std, shape (m,), interval, shape (m, 2), and mcse, shape (m,).

        Examples
        --------
        >>> import whichvars as wv
        >>> data = wv.datasets.load_uscrime()
        >>> posterior = wv.exact(wv.Problem(data.X, data.y, slab=wv.GPrior(47)))
        >>> mean, std = posterior.predict(data.X.head(3), return_std=True)
        >>> mean.shape, std.shape
        ((3,), (3,))
        """
        check_level(interval)
        if kind is None:
            kind = "response" if isinstance(self.problem.family, Student) else "mean"
        check_choice(kind, ("mean", "link", "response"), "kind")
        exact = self.models.exact
        uncertain = estimator == "BMA" and not (exact and self.kept.noise is None)
        spread, errors = return_std or interval is not None, return_mcse and uncertain
        models = models_of(estimator, cast("Posterior", self))
        if not isinstance(self.problem.family, Gaussian):
            prediction = predict_family(
                self.problem, models, X, offset, trials, kind, interval, errors, exact
            )
        else:
            _gaussian_has_none(offset, trials, self.problem)
            prediction = predict(self.problem, models, X, interval, spread, errors)
        results: list[Any] = [prediction.mean]
        if return_std:
            results.append(prediction.std)
        if interval is not None:
            results.append(prediction.interval)
        if return_mcse:
            results.append(prediction.mcse if uncertain else np.zeros(len(prediction.mean)))
        return tuple(results) if len(results) > 1 else prediction.mean

    def draw(self, n: int = 1000, seed: int | None = 0) -> pd.DataFrame:
        """Independent draws of a model, all coefficients and the noise variance, or the dispersion of counts or the scale of a Student
        response if these are unknown.

        Parameters
        ----------
        n : int
            Number of draws.
        seed : int or None
            The same seed gives exactly the same draws; None takes a new seed each time.

        Returns
        -------
        DataFrame, shape (n, …)
            Columns ``(intercept)``, those always included, all candidate columns (0 where not in the model
            drawn), in the user's units, and ``(noise variance)``. If the family is not Gaussian, coefficients are drawn from the normal
            approximation of each model, and in place of the noise variance there is ``(dispersion)`` of counts, if it is unknown, or
            ``(scale)`` of a Student response.

        Examples
        --------
        >>> import whichvars as wv
        >>> data = wv.datasets.load_uscrime()
        >>> draws = wv.exact(wv.Problem(data.X, data.y, slab=wv.GPrior(47))).draw(2000)
        >>> bool((draws["Ed"] > 0).mean() > 0.9)
        True
        """
        whole = isinstance(n, (int, np.integer)) and not isinstance(n, bool)
        if not (whole and n >= 1):
            raise DataError(f"n must be a whole number of at least 1, not {n!r}")
        rng = np.random.Generator(np.random.PCG64DXSM(seed))
        if not isinstance(self.problem.family, Gaussian):
            return draw_of_family(self.problem, self.kept, int(n), rng)
        return draw(self.problem, self.kept, int(n), rng)

    # --- scores

    def log_score(self, X: Any, y: Any, offset: Any = None, trials: Any = None) -> float:
        """Mean log predictive density of new observations under the averaged model; larger is better.

        The density is that of ``predict``'s mixture of t distributions, in the units of y; if the family is not Gaussian, it is the
        probability of y. Differences between two posteriors on the same observations are what matters.

        Parameters
        ----------
        X : array or DataFrame, shape (m, columns)
        y : array, shape (m,)
        offset : float or array, shape (m,)
            Needed if the problem was made with one.
        trials : int or array, shape (m,)
            Needed if the problem was made with numbers of trials that differ.

        Examples
        --------
        >>> import whichvars as wv
        >>> data = wv.datasets.load_uscrime()
        >>> X, y = data.X, data.y
        >>> posterior = wv.exact(wv.Problem(X[:40], y[:40], slab=wv.GPrior("n")))
        >>> round(posterior.log_score(X[40:], y[40:]), 3)
        -0.453
        """
        if not isinstance(self.problem.family, Gaussian):
            return float(log_predictive_of_family(self.problem, self.kept, X, y, offset, trials).mean())
        _gaussian_has_none(offset, trials, self.problem)
        return float(log_predictive(self.problem, self.kept, X, y).mean())

    def loo(self, X: Any = None, y: Any = None, weights: Any = None) -> pd.DataFrame:
        """Leave-one-out predictions of the rows that the problem was made with.

        Each row is predicted from all others, averaging over models whose probabilities are those without the row. Priors stay those
        of the whole data. If the response is Gaussian, this is in closed form and nothing is fitted again (the module ``scores`` has
        the formulas); under non-local slabs models are evaluated again for each row (``moment_scores``). For the other families it is an approximation, except for
        rows that matter so much that it would be rough: all models are fitted again without these (``family_scores``).

        Parameters
        ----------
        X, y, weights
            The data that the problem was made with. A problem with a Gaussian response keeps no copy of the rows; for the other
            families they need not be given, and only label the rows of the result.

        Returns
        -------
        DataFrame, one row for each observation of positive weight
            `log_density` of y given the other rows, whose mean is the leave-one-out log score, for comparisons with
            another posterior of the same y; `mean`, the prediction; `pit`, the predictive probability of a value below
            y, uniform between 0 and 1 if the model is right; `share`, the effective share of the models' weights that
            is left without the row: below about 0.1 the row decides which models are good, and with a sampled posterior
            its results are rough.

            If the family is neither Gaussian nor Student, `mean` is a probability or a rate; `pit` is randomised, drawn uniformly and with a fixed
            seed between the probabilities of a value below y and of one up to y, and therefore uniform too if the model is right; the row's weight
            is that of `log_density` too; `pareto_k` says how much the posterior depends on the row, below 0.5 little enough for the approximation;
            `refitted`, whether models were fitted again without it. If too many rows would have to be, a ``ConvergenceWarning`` names
            those whose results are rough.

        Examples
        --------
        >>> import whichvars as wv
        >>> data = wv.datasets.load_uscrime()
        >>> left_out = wv.exact(wv.Problem(data.X, data.y, slab=wv.GPrior(47))).loo(data.X, data.y)
        >>> round(float(left_out["log_density"].mean()), 3)
        -0.063
        """
        if not isinstance(self.problem.family, Gaussian):
            given = X is not None or y is not None
            labels = check_own_rows(self.problem, self.kept, X, y, weights) if given else None
            table = self._left_out.copy()
            return table if labels is None else table.set_axis(labels)
        if X is None or y is None:
            raise DataError(
                "the problem keeps no copy of the rows of a Gaussian response; give X and y, and its weights"
            )
        return leave_one_out(self.problem, self.kept, X, y, weights)

    @cached_property
    def _left_out(self) -> pd.DataFrame:
        return leave_one_out_of_family(self.problem, self.kept)

    def scores(self, X: Any = None, y: Any = None, offset: Any = None, trials: Any = None) -> pd.Series:
        """How good predictions are, of new rows or of the problem's own.

        Parameters
        ----------
        X, y, offset, trials
            New data, as for ``log_score``. Without X and y, the problem's own rows are predicted, each from all others (``loo``), which
            is possible if the family is not Gaussian.

        Returns
        -------
        Series
            `log_score`, the mean log predictive density, larger is better. Of responses with two values (or successes among
            trials) `brier`, the mean squared difference between probability and response, smaller is better, and `auc`, the
            probability that a response of the second value has the larger predicted probability of two, one half if predictions are
            worth nothing. Of other responses `rmse`, the root of the mean squared error. Of counts `pearson`, the mean of
            (y − μ)²/V(μ), with V the family's variance: about 1 if counts vary as much as the family says, more if they vary more. The
            module ``accuracy`` has the formulas.

        Examples
        --------
        >>> import whichvars as wv
        >>> data = wv.datasets.load_uscrime()
        >>> X, high = data.X[["M", "Ed", "Po1", "NW"]], data.y > data.y.median()
        >>> posterior = wv.exact(wv.Problem(X, high, family="logistic"))
        >>> posterior.scores().round(2).to_dict()
        {'log_score': -0.52, 'brier': 0.17, 'auc': 0.82}
        """
        return score_table(cast("Posterior", self), X, y, offset, trials)

    def calibration(
        self, X: Any = None, y: Any = None, bins: int = 10, offset: Any = None, trials: Any = None
    ) -> pd.DataFrame:
        """Whether predicted probabilities or rates are right on average: rows in bins by their prediction.

        Parameters
        ----------
        X, y, offset, trials
            As for ``scores``.
        bins : int
            Number of bins, of about equally many rows.

        Returns
        -------
        DataFrame, one row for each bin
            `rows`; `predicted`, the mean of the predictions; `observed`, the mean of the responses (of a response with two values, the share of
            the second one); `lower` and `upper`, between which `observed` lies with a probability of about 90 % if predictions are right.

        Examples
        --------
        >>> import whichvars as wv
        >>> data = wv.datasets.load_uscrime()
        >>> X, high = data.X[["M", "Ed", "Po1", "NW"]], data.y > data.y.median()
        >>> posterior = wv.exact(wv.Problem(X, high, family="logistic"))
        >>> posterior.calibration(bins=2)[["rows", "observed"]].round(2).to_numpy().tolist()
        [[24.0, 0.29], [23.0, 0.7]]
        """
        if is_linear(self.problem.family):
            raise DataError(
                "calibration() is for probabilities and rates; of a Gaussian or Student response see interval_calibration()"
            )
        return calibration_table(predicted_rows(cast("Posterior", self), X, y, offset, trials), bins)

    def shrinkage(self, interval: float = 0.9) -> pd.Series:
        """The shrinkage factor g/(1 + g), by which g-priors and their mixtures multiply least-squares estimates, averaged over models.

        Parameters
        ----------
        interval : float
            Probability of the credible interval.

        Returns
        -------
        Series
            `mean`, with its Monte Carlo error `mcse`; `sd`, `median`, and the ends `lower` and `upper` of an equal-tailed interval. Given that the model is not
            the null model, which has no coefficients. Under ``GPrior`` it is known, and under ``LocalEmpiricalBayes`` it varies between models alone.

        Examples
        --------
        >>> import whichvars as wv
        >>> data = wv.datasets.load_uscrime()
        >>> wv.exact(wv.Problem(data.X, data.y, slab=wv.HyperG())).shrinkage().round(3).to_dict()
        {'mean': 0.938, 'mcse': 0.0, 'sd': 0.035, 'median': 0.945, 'lower': 0.871, 'upper': 0.981}
        """
        check_level(interval)
        return shrinkage_summary(self.problem, self.kept, interval, self.models.exact)

    def estimated_g(self) -> pd.DataFrame:
        """The posterior of the unknown g of ``IndependentNormal("estimate")``, averaged over models, for any family.

        Returns
        -------
        DataFrame
            One row for each value of g: its probabilities `prior` and `posterior`, and the Monte Carlo error `mcse` of the latter. Given that the
            model is not the null model, which has no coefficients. If much of the posterior is at the first value, 10/n, or at the last,
            coefficients are smaller or larger than the values of g allow for.

        Examples
        --------
        >>> import whichvars as wv
        >>> data = wv.datasets.load_uscrime()
        >>> posterior = wv.exact(wv.Problem(data.X, data.y, slab=wv.IndependentNormal("estimate")))
        >>> posterior.estimated_g().round(3).head(3)
                  prior  posterior  mcse
        g
        0.212766  0.117      0.080   0.0
        0.425532  0.141      0.343   0.0
        0.851064  0.154      0.406   0.0
        """
        return estimated_g(self.problem, self.kept, self.models.exact)

    @cached_property
    def pearson(self) -> Pearson | None:
        """Pearson's statistic of the problem's own counts (or successes among several trials) over its degrees of freedom, `ratio`, near 1
        if they vary as the family says; by how many standard deviations it is above 1, `deviations`; and `over`, whether they vary more than
        the family allows. None for other responses, and if a model has no finite estimates."""
        try:
            return pearson_statistic(self.problem, self.kept)
        except DataError:  # under BIC, coefficients may have no finite estimates
            return None

    @cached_property
    def laplace_change(self) -> tuple[float, str] | None:
        """The largest change of an inclusion probability if marginal likelihoods were Laplace's approximations of first order, and its
        variable; None if they are, or if the family is Gaussian."""
        return first_order_change(cast("Posterior", self))

    def dispersion(self, interval: float = 0.9) -> pd.Series:
        """The dispersion r of negative binomial counts, averaged over models, if it is unknown (``NegativeBinomial()``), or the scale s of a
        Student response.

        Parameters
        ----------
        interval : float
            Probability of the credible interval.

        Returns
        -------
        Series
            `mean` and `median` of r or s; `lower` and `upper`, an equal-tailed interval. The mean is that of the part of the posterior that
            matters for marginal likelihoods; if the counts vary no more than their mean, r is large and rests on its prior.

        Examples
        --------
        >>> import numpy as np, whichvars as wv
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(200, 2))
        >>> y = rng.poisson(3 * rng.gamma(1.5, 1 / 1.5, 200))
        >>> wv.exact(wv.Problem(X, y, family="negative-binomial")).dispersion().round(2).loc[["median", "lower", "upper"]].tolist()
        [1.13, 0.87, 1.48]
        """
        check_level(interval)
        return dispersion_summary(self.problem, self.kept, interval)


def _gaussian_has_none(offset: Any, trials: Any, problem: Problem) -> None:
    """DataError if there is an offset, or trials, though the response is Gaussian."""
    if offset is not None:
        raise DataError("offset is for families that are not Gaussian; add it to the predictions")
    refuse_trials(problem.family, trials)
