"""``Posterior``: inclusion probabilities with their Monte Carlo errors, model sizes and the best models.

The class is divided into six files: its fields and the most common methods are here, predictions and how good they are in
``observations``, comparisons of the model with the data in ``checking``, methods about models that are named in ``single_models``, other methods that need the kept models in ``questions``,
and conversions to other formats in ``exports``. Long calculations are in modules of functions.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pandas as pd
from scipy import sparse

from whichvars.data import storage
from whichvars.data.frames import check_level, check_share
from whichvars.errors import DataError
from whichvars.posterior.checking import Checking
from whichvars.posterior.checks import Comparison
from whichvars.posterior.coefficients import (
    CoefficientMoments,
    check_ratio,
    coefficient_moments,
    coefficient_table,
    positive_probabilities,
    ratio_table,
)
from whichvars.posterior.conditions import Condition, prior_sizes
from whichvars.posterior.diagnostics import diagnostic_table, doubts
from whichvars.posterior.explaining import explain
from whichvars.posterior.exports import Exports
from whichvars.posterior.family_words import with_fit_rows
from whichvars.posterior.fits import held_fits
from whichvars.posterior.models import KeptModels, standard_error
from whichvars.posterior.moving import with_move_rows
from whichvars.posterior.observations import Observations
from whichvars.posterior.questions import Questions
from whichvars.posterior.replicates import combine_replicates as combine_replicates
from whichvars.posterior.single_models import SingleModels
from whichvars.posterior.tables import (
    html,
    latex,
    model_table,
    summary_table,
    terminal,
    with_coefficients,
)
from whichvars.problem import saving
from whichvars.problem.model_priors import mean_of_sizes
from whichvars.problem.problem import Problem

ROUNDED = 1e-7  # of averages of conditional probabilities, which are kept in single precision
AT_A_GLANCE = 40_000  # most models that printing a posterior averages over


@dataclass(frozen=True)
class Models:
    """The best models visited, best first."""

    members: list[tuple[int, ...]]
    log_marginal: np.ndarray
    log_prior: np.ndarray  # up to the prior's constant
    # probabilities: ratios are exact for models that were known before, other models have their shares of the draws
    frequency: np.ndarray
    exact: bool = False
    mcse: np.ndarray | None = None  # Monte Carlo errors of these probabilities; None if there are none

    @property
    def log_posterior(self) -> np.ndarray:
        return self.log_marginal + self.log_prior

    @cached_property
    def listed(self) -> KeptModels:
        """The same models in the form in which many of them are evaluated at once, all with the same weight."""
        return KeptModels.listed(self.members)


@dataclass(frozen=True)
class Posterior(Observations, Checking, Questions, SingleModels, Exports):
    """The posterior distribution of a ``Problem``, made by ``exact`` or ``sample``. It is immutable."""

    problem: Problem
    sampler: str
    pip: np.ndarray
    mcse: np.ndarray  # NaN for a variable that never moved
    sizes: np.ndarray
    models: Models
    # the models over which averages are taken, with their weights: the best ones, and a thinned sample of the others;
    # if exact, all models that together have 1 − 1e-12 of the mass
    kept: KeptModels
    iterations: int  # in total: of all replicates and chains, including warm-up
    cpu_seconds: float
    log_evidence: float | None = None
    # 0 if exact and no marginal likelihood was computed by importance sampling, NaN with a single replicate
    log_evidence_mcse: float | None = None
    sizes_mcse: np.ndarray | None = None  # (p + 1,) Monte Carlo errors of `sizes`; None if there are none
    known_share: float | None = None  # share of the draws that were models known before
    comparison: Comparison | None = None  # of the exact masses of the models that replicates visited
    # from a search for modes: log of the mass of a neighbourhood, up to the prior's constant, and the model in its middle
    found: tuple[tuple[float, tuple[int, ...]], ...] = ()
    replicate_pips: np.ndarray | None = None  # (replicates, p)
    replicate_variances: np.ndarray | None = None  # (replicates, p): their variances, by batch means
    frequencies: np.ndarray | None = None  # (p,) PIPs as shares of the draws; exact: None
    frequency_mcse: np.ndarray | None = None  # (p,)
    # (p,) PIPs as means of conditional probabilities; None if not asked for
    rao_blackwell: np.ndarray | None = None
    rao_blackwell_mcse: np.ndarray | None = None  # (p,)
    # replicate, chain, iteration, size, log_posterior of the thinned record
    trace: pd.DataFrame | None = None
    # (rows of `trace`, p) bool: the models of the thinned record
    trace_models: sparse.csr_array | None = None
    adaptation: list[dict[str, Any]] = field(
        default_factory=list
    )  # one per replicate: what the sampler learned
    troubles: dict[str, int] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    settings: dict[str, Any] = field(
        default_factory=dict
    )  # what `sample` was asked for: draws, warmup, replicates, seed, start, target_mcse, budget
    chosen: str = ""  # why "auto" chose this sampler
    stopped: str = ""  # why it stopped: "draws", "target_mcse", "budget", "interrupted"; exact: ""
    # effective draws left by `reweight` or `given`; None if the models have the weights of the run
    reweighting_ess: float | None = None
    condition: Condition | None = None  # what ``given`` or ``model`` assumed

    @cached_property
    def inclusion_probabilities(self) -> pd.Series:
        """Posterior inclusion probability of each variable, by name."""
        return pd.Series(self.pip, self.problem.names, name="inclusion_probability")

    @cached_property
    def inclusion_mcse(self) -> pd.Series:
        """Monte Carlo standard error of each inclusion probability: 0 if exact, NaN for a variable that never
        moved."""
        return pd.Series(self.mcse, self.problem.names, name="inclusion_mcse")

    @cached_property
    def inclusion_ess(self) -> pd.Series:
        """Effective sample size of each inclusion probability, PIP(1 − PIP)/MCSE²; infinite if exact, NaN if the variable
        never moved, or if the PIP differs from 0 or 1 only by rounding."""
        with np.errstate(divide="ignore", invalid="ignore"):
            ess = self.pip * (1 - self.pip) / self.mcse**2
        ess = np.where(np.minimum(self.pip, 1 - self.pip) < ROUNDED, np.nan, ess)
        return pd.Series(np.where(self.mcse == 0, np.inf, ess), self.problem.names, name="inclusion_ess")

    @cached_property
    def model_size(self) -> pd.DataFrame:
        """Distribution of the number of variables in the model, by size: `posterior`, its Monte Carlo error `mcse` (0 if
        exact, NaN with a single replicate), and `prior`, which is NaN for a condition under heredity."""
        prior = prior_sizes(self)
        error = self.sizes_mcse
        if error is None and self.models.exact:
            error = np.zeros(len(self.sizes))
        frame = pd.DataFrame(
            {"posterior": self.sizes, "mcse": np.nan if error is None else error, "prior": prior},
            index=pd.RangeIndex(self.problem.p + 1, name="size"),
        )
        last = int(np.flatnonzero((self.sizes > 0) | (prior > 1e-6))[-1])
        return frame.iloc[: last + 1]

    @property
    def mean_size(self) -> float:
        """Posterior mean of the number of variables in the model: the sum of the inclusion probabilities."""
        return mean_of_sizes(self.sizes)

    @property
    def mean_size_mcse(self) -> float:
        """Monte Carlo standard error of ``mean_size``: 0 if exact, NaN with a single replicate."""
        noise = float(self.kept.error(np.diff(self.kept.start), exact=True))
        if self.models.exact:
            return noise
        pips = self.replicate_pips
        return float("nan") if pips is None else float(np.hypot(standard_error(pips.sum(axis=1)), noise))

    def select(self, threshold: float = 0.5, fdr: float | None = None) -> list[str]:
        """Variables to report, most probable first.

        Parameters
        ----------
        threshold : float
            Least inclusion probability; one half gives the median probability model.
        fdr : float
            Instead of a threshold, the expected share of false discoveries: as many variables as possible, most
            probable first, such that the mean of 1 − PIP is at most this.

        Examples
        --------
        >>> import whichvars as wv
        >>> data = wv.datasets.load_uscrime()
        >>> posterior = wv.exact(wv.Problem(data.X, data.y, slab=wv.GPrior(47)))
        >>> posterior.select(threshold=0.9), posterior.select(fdr=0.1)
        (['Ineq', 'Ed'], ['Ineq', 'Ed', 'Prob'])
        """
        check_share(*((threshold, "threshold") if fdr is None else (fdr, "fdr")))
        order = np.argsort(-self.pip, kind="stable")
        if fdr is None:
            count = int((self.pip >= threshold).sum())
        else:
            false = np.cumsum(1 - self.pip[order]) / np.arange(1, len(order) + 1)
            count = int((false <= fdr).sum())  # they never decrease
        return [self.problem.names[j] for j in order[:count]]

    # --- tables

    def summary(self, coefficients: bool = True) -> pd.DataFrame:
        """A table with one row for each variable, most probable first.

        Parameters
        ----------
        coefficients : bool
            False leaves out `mean`, `sd` and `sign_probability`, which are averaged over models and take longer.

        Returns
        -------
        DataFrame, shape (p, 6) or (p, 3), with one column more given a condition
            `pip`, the posterior inclusion probability; `mcse`, its Monte Carlo standard error (0 if exact, NaN if
            the variable never moved: see ``diagnostics``); `mean` and `sd` of the coefficient averaged over models,
            in the user's units; `sign_probability`, the probability that the coefficient, given that the variable is in,
            has the more probable of the two signs: near 1 the sign is certain, near one half it is unknown; `ess`,
            the effective sample size of `pip`. A group of several columns has no single coefficient, so that these are
            NaN; ``coefficients()`` has one row for each column. After ``given`` and ``model`` also `pip_before`, the inclusion
            probability without the condition.

        Examples
        --------
        >>> import whichvars as wv
        >>> data = wv.datasets.load_uscrime()
        >>> problem = wv.Problem(data.X, data.y, slab=wv.GPrior(47), model_prior=wv.FixedInclusion(h=0.5))
        >>> wv.exact(problem).summary().round(3).head(3)
                    pip  mcse   mean     sd  sign_probability  ess
        variable
        Ineq      0.997   0.0  1.417  0.359             1.000  inf
        Ed        0.978   0.0  1.904  0.617             1.000  inf
        Prob      0.896   0.0 -0.216  0.116             0.998  inf
        """
        return (self._full_summary if coefficients else summary_table(self, False)).copy()

    @cached_property
    def _moments(self) -> tuple[CoefficientMoments, np.ndarray]:
        """Means and standard deviations of coefficients averaged over models, and the probabilities that they are positive. If the family
        is not Gaussian they take a fit of every kept model, which is made once."""
        family = self.problem.fit_data is not None
        batches = held_fits(self.problem, self.kept) if family else None
        return (
            coefficient_moments(self.problem, self.kept, self.models.exact, batches),
            positive_probabilities(self.problem, self.kept, batches),
        )

    @cached_property
    def _full_summary(self) -> pd.DataFrame:
        return summary_table(self, True)

    def top_models(self, n: int = 10) -> pd.DataFrame:
        """The n models of highest posterior probability.

        Models that a replicate had visited before have the exact ratios of their posterior probabilities, new
        ones their shares of the draws. All models with a variable together never have more than its inclusion probability,
        and those without it never more than the rest.

        Parameters
        ----------
        n : int
            Number of models.

        Returns
        -------
        DataFrame, one row for each model
            `size`; `probability`, and its Monte Carlo error `mcse` (0 if the posterior is exact, NaN with a single replicate);
            `log_marginal`, relative to the null model; `bayes_factor` of the model against the first one; `r_squared`, if the
            family is Gaussian; `variables`.

        Examples
        --------
        >>> import whichvars as wv
        >>> data = wv.datasets.load_uscrime()
        >>> posterior = wv.exact(wv.Problem(data.X[["Ed", "Po1", "Ineq", "Time"]], data.y))
        >>> posterior.top_models(2)[["probability", "bayes_factor", "variables"]].round(2)
               probability  bayes_factor            variables
        model
        1             0.49          1.00        Ed, Po1, Ineq
        2             0.43          0.22  Ed, Po1, Ineq, Time
        """
        return model_table(self, n)

    def coefficients(
        self,
        interval: float | None = 0.95,
        scale: Literal["odds_ratio", "rate_ratio"] | None = None,
        estimator: Literal["BMA", "HPM", "MPM", "BPM"] = "BMA",
    ) -> pd.DataFrame:
        r"""Coefficients averaged over models, or those of one model, in the units of the user's columns and response.

        With w_γ the weight of model γ among ``kept`` (its probability, if exact), and the posterior of β in each model (a t
        distribution, or for mixtures of g an average of t distributions over g; see the table in the module ``fits``),

        .. math:: E[\beta_j] = \sum_\gamma w_\gamma E[\beta_j \mid \gamma], \qquad
                  Var[\beta_j] = \sum_\gamma w_\gamma (Var[\beta_j \mid \gamma] + E[\beta_j \mid \gamma]^2)
                  - E[\beta_j]^2,

        where β_j is 0 in models without it. BIC uses least squares with its usual standard errors, and local empirical
        Bayes uses the g-prior with the estimate ĝ.

        Parameters
        ----------
        interval : float or None
            Probability of the credible interval; None leaves out the last three columns, which take longer.
        scale : "odds_ratio", "rate_ratio" or None
            Exponentiate the coefficients of logistic regression, or those of counts: see ``ratio_table``.
        estimator : "BMA", "HPM", "MPM" or "BPM"
            The average over models; or the coefficients given one model, which ``which_model`` names. `pip` is then 1 for the variables
            in that model and 0 for the others, and there is no Monte Carlo error.

        Returns
        -------
        DataFrame, one row for the intercept, each always-included column and each candidate column
            `pip`; `mean` and `sd`, with their Monte Carlo errors `mean_mcse` and `sd_mcse` (from differences between
            replicates: 0 if exact, NaN with a single replicate); `mean_included` and `sd_included`, given that the variable
            is in (NaN if no kept model has it); `probability_positive`, P(β > 0 | in); `lower` and `upper`, an equal-tailed
            interval of the averaged β, which includes its point mass at 0: an end is 0 if the quantile falls there.

        Examples
        --------
        >>> import whichvars as wv
        >>> data = wv.datasets.load_uscrime()
        >>> problem = wv.Problem(data.X, data.y, slab=wv.GPrior(47), model_prior=wv.FixedInclusion(h=0.5))
        >>> wv.exact(problem).coefficients(interval=None)[["pip", "mean", "sd"]].iloc[1:4].round(3).to_numpy()
        array([[0.85 , 1.165, 0.675],
               [0.231, 0.032, 0.086],
               [0.978, 1.904, 0.617]])
        """
        check_level(interval)
        check_ratio(scale, self.problem.family)
        if estimator != "BMA":
            return self.model(self.which_model(estimator)).coefficients(interval, scale)
        table = coefficient_table(self.problem, self.kept, self.pip, interval, self.models.exact)
        return table if scale is None else ratio_table(table)

    # --- can it be trusted?

    @cached_property
    def converged(self) -> bool:
        """Whether nothing speaks against trusting the numbers; ``sample`` warns of what does, and ``explain`` begins with it.

        False where an inclusion probability has a Monte Carlo error of more than 0.05 or none can be told, where
        replicates disagree or some of those asked for are missing, where the run drifts or contradicts what is known
        exactly of the models that it visited, where ways of estimating the same probabilities differ by more than their
        errors allow, and where too few draws are left after ``reweight``. True does not say that no group of good models
        was missed.
        """
        return not doubts(self)

    def diagnostics(self) -> pd.DataFrame:
        """Everything there is to judge the run by.

        Returns
        -------
        DataFrame, rows for model size, log posterior and each variable, most probable first
            `estimate`, `mcse`, `ess`; `r_hat`, near 1 where replicates agree; `lowest` and `highest` of the
            replicates; inclusion probabilities estimated in three ways, `frequency` (share of the draws), `renormalised`
            (exact ratios of the best models, biased where many were not visited) and `rao_blackwell` (mean of
            conditional probabilities), NaN where not available; `note`, which says where replicates disagree, and
            of a variable never visited how large its probability can be. Below the log posterior stand rates at which the sampler moved, as
            far as it proposes and accepts, with words about them: ``(mutation rate)``, ``(acceptance rate)``. If the family is not Gaussian, the first rows say
            how many models were fitted, ``(fits)``; which share of what the surrogate suggested the fits accepted, ``(second
            stage)``; how much an inclusion probability would change, at most, if marginal likelihoods were Laplace's approximations
            of first order, ``(Laplace)``; and Pearson's statistic of counts over its degrees of freedom, near 1 if they vary as
            the family says, ``(Pearson dispersion)``.

        Examples
        --------
        >>> import whichvars as wv
        >>> data = wv.datasets.load_uscrime()
        >>> posterior = wv.sample(wv.Problem(data.X, data.y), draws=20_000, seed=1, progress=False)
        >>> bool(posterior.diagnostics()["r_hat"].iloc[:2].max() < 1.1)
        True
        """
        return with_fit_rows(with_move_rows(diagnostic_table(self), self), self)

    def explain(self) -> str:
        """The answer and how far to trust it, in plain words.

        Examples
        --------
        >>> import whichvars as wv
        >>> data = wv.datasets.load_uscrime()
        >>> print(wv.exact(wv.Problem(data.X, data.y, slab=wv.GPrior(47))).explain())
        7 variables of 15 are more likely in than out: Ineq, Ed, Prob, M, Po1, NW, U2. A model has 7.7
        variables on average; with 90 % probability 4 to 11. Po1 and Po2 stand in for one another: at least
        one of them is in with probability 99.9 %, and the data cannot say which.
        All 32,768 models were looked at: the probabilities are exact, without Monte Carlo error.
        """
        return explain(self)

    # --- files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one file, data and priors included, so that what is loaded gives the same bits.

        An ``.npz`` archive without pickles, with a checksum; written beside its place and then renamed, so that
        a file already there is replaced whole or not at all.

        Parameters
        ----------
        path : path
            The file; ``.npz`` is the usual ending, none is added.

        Examples
        --------
        >>> import tempfile, pathlib
        >>> import whichvars as wv
        >>> data = wv.datasets.load_uscrime()
        >>> posterior = wv.exact(wv.Problem(data.X, data.y, slab=wv.GPrior(47)))
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     posterior.save(pathlib.Path(directory) / "crime.npz")
        ...     again = wv.Posterior.load(pathlib.Path(directory) / "crime.npz")
        >>> bool((again.predict(data.X) == posterior.predict(data.X)).all())
        True
        """
        storage.save(path, "posterior", self, STORED)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Posterior":
        """Read what ``save`` wrote; a damaged file is refused, and none can run code.

        Examples
        --------
        >>> import whichvars as wv
        >>> wv.Posterior.load("no-such-file.npz")
        Traceback (most recent call last):
        FileNotFoundError: [Errno 2] No such file or directory: 'no-such-file.npz'
        """
        return storage.load(path, "posterior", STORED)

    # --- printing

    def to_latex(
        self,
        rows: int | None = 20,
        caption: str | None = None,
        label: str | None = None,
        columns: Sequence[str] | None = None,
        digits: int | None = None,
        models: bool = False,
    ) -> str:
        r"""The summary, or the best models, as a LaTeX table (package booktabs).

        Parameters
        ----------
        rows : int or None
            The most probable so many variables or models; None takes all (of the models, those that were kept).
        caption, label : str
            Put it into a ``table`` environment with these; without them it is a bare ``tabular``.
        columns : sequence of str
            Columns of ``summary()`` and ``coefficients()``, or of ``top_models()``, in this order. The default is those of the summary without
            those that carry no information.
        digits : int
            Decimals of probabilities, and significant digits of all other numbers. By default each column has its own.
        models : bool
            The best models instead of the variables.

        Examples
        --------
        >>> import whichvars as wv
        >>> data = wv.datasets.load_uscrime()
        >>> posterior = wv.exact(wv.Problem(data.X, data.y, slab=wv.GPrior(47)))
        >>> print(posterior.to_latex(rows=1))
        \begin{tabular}{lrrrr}
        \toprule
        Variable & PIP & Mean (all models) & SD (all models) & P(sign) \\
        ...
        >>> print(posterior.to_latex(rows=1, columns=["pip", "mean_included", "lower", "upper"], digits=2).splitlines()[4])
        Ineq & 0.99 & 1.4 & 0.72 & 2.1 \\
        """
        if models:
            table = self.top_models(len(self.models.members) if rows is None else rows)
        else:
            table = with_coefficients(self, self._full_summary, columns)
            table = table.head(len(self.pip) if rows is None else rows)
        return latex(self, table, caption, label, columns, digits)

    def __repr__(self) -> str:
        return terminal(self, self._short_summary())

    def _repr_html_(self) -> str:
        return html(self, self._short_summary())

    def _short_summary(self) -> pd.DataFrame:
        """What is shown unasked must not take long."""
        try:
            return self.summary(coefficients=len(self.kept) <= AT_A_GLANCE)
        except DataError:  # under BIC, coefficients may have no finite estimates
            return self.summary(coefficients=False)


# the classes that a saved posterior is made of
STORED = (Posterior, Models, KeptModels, Comparison, Condition, *saving.CLASSES)
