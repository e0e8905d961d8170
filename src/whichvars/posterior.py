"""What was learnt: inclusion probabilities with their Monte Carlo error, model sizes, the best models."""

import importlib
import os
import time
import warnings
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from scipy import sparse
from scipy.special import logsumexp

from whichvars import storage
from whichvars.arviz import to_arviz
from whichvars.coefficients import KeptModels, coefficient_table
from whichvars.designs import gram_of
from whichvars.diagnostics import converged, diagnostic_table, explain
from whichvars.errors import ConvergenceWarning, DataError
from whichvars.inputs import find_columns
from whichvars.methods import methods_paragraph
from whichvars.prediction import best_predictive, draw, predict
from whichvars.priors import ModelPrior, Slab
from whichvars.problem import Problem
from whichvars.replicates import combine_replicates as combine_replicates
from whichvars.reweighting import (
    ENOUGH,
    Draws,
    carry_over,
    conditional_table,
    read_draws,
    sensitivity_table,
    thin_warning,
)
from whichvars.scores import leave_one_out, log_predictive
from whichvars.stand_ins import cluster_table
from whichvars.tables import html, latex, summary_table, terminal

AT_A_GLANCE = 40_000  # most models that printing a posterior averages over


def cpu_clock() -> float:
    """CPU seconds of this thread."""
    return time.thread_time()


@dataclass(frozen=True)
class Models:
    """The best models visited, best first."""

    members: list[tuple[int, ...]]
    log_marginal: np.ndarray
    log_prior: np.ndarray  # up to the prior's constant
    frequency: np.ndarray  # share of the iterations (exact: probability)
    exact: bool = False

    @property
    def log_posterior(self) -> np.ndarray:
        return self.log_marginal + self.log_prior


@dataclass(frozen=True)
class Posterior:
    """The answer to a ``Problem``: made by ``exact`` or ``sample``, never changed afterwards."""

    problem: Problem
    sampler: str
    pip: np.ndarray
    mcse: np.ndarray  # NaN for a variable that never moved
    sizes: np.ndarray
    models: Models
    kept: KeptModels  # a thinned sample of the models visited; exact: all that hold 1 − 1e-12 of the mass
    iterations: int  # all of them: replicates, chains, warm-up
    cpu_seconds: float
    log_evidence: float | None = None
    log_evidence_mcse: float | None = None  # 0 if exact, NaN with a single replicate
    replicate_pips: np.ndarray | None = None  # (replicates, p)
    replicate_variances: np.ndarray | None = None  # (replicates, p): of each of them, by batch means
    frequencies: np.ndarray | None = None  # (p,) PIPs as shares of the draws; exact: None
    frequency_mcse: np.ndarray | None = None  # (p,)
    rao_blackwell: np.ndarray | None = (
        None  # (p,) PIPs as means of conditional probabilities; None if not asked for
    )
    rao_blackwell_mcse: np.ndarray | None = None  # (p,)
    trace: pd.DataFrame | None = (
        None  # replicate, chain, iteration, size, log_posterior of the thinned record
    )
    trace_models: sparse.csr_array | None = (
        None  # (rows of `trace`, p) bool: the models of the thinned record
    )
    adaptation: list[dict[str, Any]] = field(
        default_factory=list
    )  # one per replicate: what the sampler learned
    troubles: dict[str, int] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    settings: dict[str, Any] = field(
        default_factory=dict
    )  # what `sample` was asked for: draws, warmup, replicates, seed, start, target_mcse, budget
    chosen: str = ""  # why "auto" took this sampler
    stopped: str = ""  # why it stopped: "draws", "target_mcse", "budget", "interrupted"; exact: ""
    reweighting_ess: float | None = None  # effective draws left by `reweight`; None if not reweighted

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
        """Effective sample size behind each inclusion probability, PIP(1 − PIP)/MCSE²; infinite if exact, NaN
        if it never moved."""
        with np.errstate(divide="ignore", invalid="ignore"):
            ess = self.pip * (1 - self.pip) / self.mcse**2
        return pd.Series(np.where(self.mcse == 0, np.inf, ess), self.problem.names, name="inclusion_ess")

    @cached_property
    def model_size(self) -> pd.DataFrame:
        """Distribution of the number of variables in the model, posterior beside prior, by size."""
        prior = self.problem.model_prior.size_distribution(self.problem.p, self.problem.max_size)
        frame = pd.DataFrame(
            {"posterior": self.sizes, "prior": prior}, index=pd.RangeIndex(self.problem.p + 1, name="size")
        )
        last = int(np.flatnonzero((self.sizes > 0) | (prior > 1e-6))[-1])
        return frame.iloc[: last + 1]

    @property
    def mean_size(self) -> float:
        """Posterior mean of the number of variables in the model."""
        return float(self.sizes @ np.arange(len(self.sizes)))

    def summary(self, coefficients: bool = True) -> pd.DataFrame:
        """One row a variable, most probable first.

        Parameters
        ----------
        coefficients : bool
            False leaves out what is averaged over models, `mean`, `sd` and `sign_probability`, which takes longer.

        Returns
        -------
        DataFrame, shape (p, 6) or (p, 3)
            `pip`, the posterior inclusion probability; `mcse`, its Monte Carlo standard error (0 if exact, NaN if
            the variable never moved: see ``diagnostics``); `mean` and `sd` of the coefficient averaged over models,
            in the user's units; `sign_probability`, the probability that the coefficient, if the variable is in,
            has the more probable of the two signs: near 1 the sign is certain, near one half it is unknown; `ess`,
            the effective sample size behind `pip`. A group of several columns has no single coefficient: NaN there,
            and ``coefficients()`` has one row for each column.

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
    def _full_summary(self) -> pd.DataFrame:
        return summary_table(self, True)

    def top_models(self, n: int = 10) -> pd.DataFrame:
        """The n models of highest posterior probability.

        Columns: `size`; `probability` (share of iterations; exact where the posterior is);
        `renormalised` (probability among the models visited, by their exact ratios; biased upwards when many
        were not visited); `log_marginal` relative to the null model; `bayes_factor` of the model's marginal
        likelihood to the first one's; `r_squared`; `variables`.
        """
        models = self.models
        n = min(n, len(models.members))
        log_posterior = models.log_posterior
        renormalised = (
            np.exp(log_posterior - logsumexp(log_posterior)) if not models.exact else models.frequency
        )
        names = self.problem.names
        return pd.DataFrame(
            {
                "size": [len(m) for m in models.members[:n]],
                "probability": models.frequency[:n],
                "renormalised": renormalised[:n],
                "log_marginal": models.log_marginal[:n],
                "bayes_factor": np.exp(models.log_marginal[:n] - models.log_marginal[:1]),
                "r_squared": [r_squared(self.problem, m) for m in models.members[:n]],
                "variables": [", ".join(names[j] for j in sorted(m)) for m in models.members[:n]],
            },
            index=pd.RangeIndex(1, n + 1, name="model"),
        )

    def coefficients(self, interval: float | None = 0.95) -> pd.DataFrame:
        r"""Coefficients averaged over models, in the units of the user's columns and response.

        With w_γ the weight of model γ among ``kept`` (exact: its probability), each of them having its own
        posterior of β (a t distribution, for mixtures of g an average of them over g; the module
        ``coefficients`` has the table),

        .. math:: E[\beta_j] = \sum_\gamma w_\gamma E[\beta_j \mid \gamma], \qquad
                  Var[\beta_j] = \sum_\gamma w_\gamma (Var[\beta_j \mid \gamma] + E[\beta_j \mid \gamma]^2)
                  - E[\beta_j]^2,

        where β_j is 0 in models without it. BIC stands for least squares with its usual standard errors, and
        local empirical Bayes for the g-prior at its estimate ĝ.

        Parameters
        ----------
        interval : float or None
            Probability of the credible interval; None leaves out what takes longer, the last three columns.

        Returns
        -------
        DataFrame, one row for the intercept, each always-included column and each candidate column
            `pip`; `mean` and `sd`; `mean_included` and `sd_included`, given that the variable is in (NaN if no
            kept model has it); `probability_positive`, P(β > 0 | in); `lower` and `upper`, an equal-tailed
            interval of the averaged β, whose point mass at 0 it respects: it ends at 0 where that is enough.

        Examples
        --------
        >>> import whichvars as wv
        >>> data = wv.datasets.load_uscrime()
        >>> problem = wv.Problem(data.X, data.y, slab=wv.GPrior(47), model_prior=wv.FixedInclusion(h=0.5))
        >>> wv.exact(problem).coefficients(interval=None).iloc[1:4, :3].round(3).to_numpy()
        array([[0.85 , 1.165, 0.675],
               [0.231, 0.032, 0.086],
               [0.978, 1.904, 0.617]])
        """
        _check_level(interval)
        return coefficient_table(self.problem, self.kept, self.pip, interval)

    def predict(
        self,
        X: Any,
        estimator: Literal["BMA", "HPM", "MPM", "BPM"] = "BMA",
        return_std: bool = False,
        interval: float | None = None,
    ) -> Any:
        """Predict new observations, with all their uncertainty: of the model, its coefficients and the noise.

        The predictive distribution is a mixture of t distributions, one for each model (mixtures of g: and
        each g); nothing is simulated. A new observation has weight 1.

        Parameters
        ----------
        X : array or DataFrame, shape (m, columns)
            New values of the columns the problem was made with; found by name if both have names.
        estimator : "BMA", "HPM", "MPM" or "BPM"
            The average over models; or one model alone: the one of highest posterior probability, the median
            probability model (all variables with an inclusion probability of at least one half), or the best
            predictive model, the one of ``kept`` whose fit to the data is nearest to the average's.
        return_std : bool
            Return the standard deviation of the predictive distribution too.
        interval : float
            Return the ends of an equal-tailed predictive interval of this probability too.

        Returns
        -------
        mean, shape (m,); if asked for, a tuple of it with std, shape (m,), and interval, shape (m, 2).

        Examples
        --------
        >>> import whichvars as wv
        >>> data = wv.datasets.load_uscrime()
        >>> posterior = wv.exact(wv.Problem(data.X, data.y, slab=wv.GPrior(47)))
        >>> mean, std = posterior.predict(data.X.head(3), return_std=True)
        >>> mean.shape, std.shape
        ((3,), (3,))
        """
        _check_level(interval)
        answer = predict(
            self.problem, self._estimator(estimator), X, interval, return_std or interval is not None
        )
        if not return_std:
            return answer.mean if interval is None else (answer.mean, answer.interval)
        return (answer.mean, answer.std) if interval is None else tuple(answer)

    def _estimator(self, estimator: str) -> KeptModels:
        """The models an estimator averages over."""
        if estimator == "BMA":
            return self.kept
        if estimator == "HPM":
            if not self.models.members:
                raise DataError(
                    "estimator='HPM': the run was too short to note a single model; use more draws"
                )
            return KeptModels.of({self.models.members[0]: 1.0})
        if estimator == "MPM":
            return KeptModels.of({tuple(np.flatnonzero(self.pip >= 0.5).tolist()): 1.0})
        if estimator == "BPM":
            return KeptModels.of({best_predictive(self.problem, self.kept): 1.0})
        raise DataError(f"estimator must be 'BMA', 'HPM', 'MPM' or 'BPM', not {estimator!r}")

    def probability_any(self, names: Any) -> float:
        """Posterior probability that at least one of the variables is in the model, from ``kept``.

        Examples
        --------
        Two measures of police expenditure stand in for one another:

        >>> import whichvars as wv
        >>> data = wv.datasets.load_uscrime()
        >>> posterior = wv.exact(wv.Problem(data.X, data.y, slab=wv.GPrior(47)))
        >>> round(posterior.probability_any(["Po1", "Po2"]), 3)
        0.999
        """
        return float(self.kept.weight @ np.logical_or.reduce(self._having(names)))

    def probability_all(self, names: Any) -> float:
        """Posterior probability that all of the variables are in the model together, from ``kept``.

        Examples
        --------
        >>> import whichvars as wv
        >>> data = wv.datasets.load_uscrime()
        >>> posterior = wv.exact(wv.Problem(data.X, data.y, slab=wv.GPrior(47)))
        >>> round(posterior.probability_all(["Po1", "Po2"]), 3)
        0.099
        """
        return float(self.kept.weight @ np.logical_and.reduce(self._having(names)))

    def jointness(self, a: str | int, b: str | int) -> pd.Series:
        r"""How two variables go together, from ``kept``.

        Returns
        -------
        Series
            Probabilities `both`, `first_only`, `second_only`, `neither`; `jointness`, both / (both +
            first_only + second_only), between 0 (never together) and 1 (never apart), of Ley and Steel (2007,
            Journal of Macroeconomics 29, 476–493); `log_odds_ratio`, log(both · neither / (first_only ·
            second_only)), of Doppelhofer and Weeks (2009, Journal of Applied Econometrics 24, 209–244):
            negative for substitutes, positive for complements.

        Examples
        --------
        >>> import whichvars as wv
        >>> data = wv.datasets.load_uscrime()
        >>> posterior = wv.exact(wv.Problem(data.X, data.y, slab=wv.GPrior(47)))
        >>> bool(posterior.jointness("Po1", "Po2")["log_odds_ratio"] < 0)
        True
        """
        first, second = self._having(a)[0], self._having(b)[0]
        weight = self.kept.weight
        both, only_first = float(weight @ (first & second)), float(weight @ (first & ~second))
        only_second, neither = float(weight @ (second & ~first)), float(weight @ ~(first | second))
        with np.errstate(divide="ignore", invalid="ignore"):
            joint = np.float64(both) / (both + only_first + only_second)
            odds = np.log(both) + np.log(neither) - np.log(only_first) - np.log(only_second)
        return pd.Series(
            {
                "both": both,
                "first_only": only_first,
                "second_only": only_second,
                "neither": neither,
                "jointness": joint,
                "log_odds_ratio": odds,
            },
            name=f"{a}, {b}",
        )

    def _having(self, names: Any) -> list[np.ndarray]:
        """For each of the variables, which of the kept models have it."""
        found = find_columns(names, self.problem.names, "names")
        if not found:
            raise DataError("names is empty; name at least one variable")
        return [self.kept.having(j) for j in found]

    def select(self, threshold: float = 0.5, fdr: float | None = None) -> list[str]:
        """Variables to report, most probable first.

        Parameters
        ----------
        threshold : float
            Least inclusion probability; one half gives the median probability model.
        fdr : float
            Instead of it, the expected share of false discoveries: as many variables as possible, most
            probable first, with a mean of 1 − PIP of at most this.

        Examples
        --------
        >>> import whichvars as wv
        >>> data = wv.datasets.load_uscrime()
        >>> posterior = wv.exact(wv.Problem(data.X, data.y, slab=wv.GPrior(47)))
        >>> posterior.select(threshold=0.9), posterior.select(fdr=0.1)
        (['Ineq', 'Ed'], ['Ineq', 'Ed', 'Prob'])
        """
        _check_share(*((threshold, "threshold") if fdr is None else (fdr, "fdr")))
        order = np.argsort(-self.pip, kind="stable")
        if fdr is None:
            count = int((self.pip >= threshold).sum())
        else:
            false = np.cumsum(1 - self.pip[order]) / np.arange(1, len(order) + 1)
            count = int((false <= fdr).sum())  # they only rise
        return [self.problem.names[j] for j in order[:count]]

    def report(self, path: Any, title: str | None = None) -> Path:
        """Write a report: one HTML file that needs nothing else, for any browser, phone or printer.

        It begins with the answer in words; then the table of variables, which can be sorted and searched, the
        plots, the best models, how far to trust it, the settings and how to cite. Needs the extra ``report``.

        Parameters
        ----------
        path : str or Path
            File to write; an older one is replaced when the new one is whole.
        title : str
            Heading; "Which variables matter?" if not given.

        Returns
        -------
        Path
            Where it was written.

        Examples
        --------
        >>> import tempfile, whichvars as wv
        >>> data = wv.datasets.load_uscrime()
        >>> posterior = wv.exact(wv.Problem(data.X, data.y, slab=wv.GPrior(47), max_size=3))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     posterior.report(f"{folder}/report.html", title="Crime in 47 states").name
        'report.html'
        """
        # by name and late: reports are made of posteriors and lie above them, and need optional packages
        written: Path = importlib.import_module("whichvars.report").write_report(self, path, title)
        return written

    def draw(self, n: int = 1000, seed: int | None = 0) -> pd.DataFrame:
        """Independent draws of all coefficients and of the noise variance, a model being drawn first.

        Parameters
        ----------
        n : int
            Number of draws.
        seed : int or None
            Draws repeat exactly with the same seed; None takes a new one each time.

        Returns
        -------
        DataFrame, shape (n, …)
            Columns ``(intercept)``, those always included, all candidate columns (0 where not in the model
            drawn) and ``(noise variance)``, in the user's units.

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
        return draw(self.problem, self.kept, int(n), np.random.Generator(np.random.PCG64DXSM(seed)))

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

    def to_arviz(self, variables: Any = None) -> Any:
        """The draws for ArviZ: an InferenceData (ArviZ 0.x) or a DataTree (ArviZ 1.x), with the extra ``arviz``.

        ``chain`` is the replicate and ``draw`` the place in the thinned record (``trace``); where a run has
        several chains, they take turns. Groups:

        - ``posterior``: `model_size`, `log_posterior` (up to a constant) and `gamma`, which variables are in,
          (chain, draw, variable), for some of the variables: with all of 20,000 it would fill the memory;
        - ``sample_stats``: `lp`, the log posterior under the name that ArviZ expects, `iteration` and
          `chain_in_run`;
        - ``inclusion``: `probability`, its Monte Carlo error `mcse`, and `probability_by_chain`, of all variables.
          They come from all draws, not from the thinned record: prefer them to means of `gamma`;
        - ``constant_data``: `prior_inclusion` (before any `max_size`) and the number of `columns` of all variables.

        Parameters
        ----------
        variables : names, int or None
            Which variables `gamma` has: these, the so many most probable ones, or the 200 most probable ones.

        Examples
        --------
        >>> import whichvars as wv
        >>> data = wv.datasets.load_uscrime()
        >>> posterior = wv.sample(wv.Problem(data.X, data.y), wv.AddDeleteSwap(), draws=2000, seed=0, progress=False)
        >>> dict(posterior.to_arviz(variables=["Ed", "Po1"])["posterior"].sizes)
        {'chain': 4, 'draw': 2000, 'variable': 2}
        """
        return to_arviz(self, variables)

    # --- other priors, conditions

    def _draws(self) -> Draws:
        """The models one by one, as reweighting needs them."""
        return read_draws(self.kept, self.trace, self.trace_models, self.replicate_variances, self.iterations)

    def reweight(self, *, slab: Slab | None = None, model_prior: ModelPrior | None = None) -> "Posterior":
        r"""The same models under other priors, without sampling again.

        Every model of the thinned record (exact: every model kept) is given the weight p_new(y, γ) / p_old(y, γ).
        That is exact for an exact posterior (which keeps all models but 1e-12 of the mass; where the new prior may need
        the rest, a warning asks for ``exact``); for a sampled one it is importance sampling, good as long as the new
        posterior is not far from the old: ``reweighting_ess`` is the effective number of draws left, and below 100
        a ``ConvergenceWarning`` asks for a new run. Monte Carlo errors (by batches of the record and differences
        between replicates) include the loss by unequal weights, and that the record is shorter than the run.

        Parameters
        ----------
        slab, model_prior
            What is not given stays. A model with collinear columns has no weight under slabs that need full rank;
            from such a slab to ``IndependentNormal``, models that the old one excluded are missing.

        Returns
        -------
        Posterior
            Of the new problem; everything it has (coefficients, predictions, best models) is reweighted.

        Examples
        --------
        >>> import whichvars as wv
        >>> data = wv.datasets.load_uscrime()
        >>> posterior = wv.exact(wv.Problem(data.X, data.y, slab=wv.GPrior(47)))
        >>> other = posterior.reweight(slab=wv.HyperG(), model_prior=wv.BetaBinomial(1, 1))
        >>> round(float(other.inclusion_probabilities["Ed"]), 3)
        0.972
        """
        problem = self.problem.with_priors(slab, model_prior)
        changes, enough = carry_over(self, problem)
        new = replace(self, problem=problem, **changes)
        if not enough:
            warnings.warn(thin_warning(changes["reweighting_ess"]), ConvergenceWarning, stacklevel=2)
        return new

    def sensitivity(self, g: Any = None, prior_size: Any = None, variables: Any = None) -> pd.DataFrame:
        """How inclusion probabilities depend on the priors, by reweighting.

        Parameters
        ----------
        g : sequence of float
            Values of the slab's parameter: g of ``IndependentNormal`` and ``GPrior`` (1/16, 1/4, 1, 4 and 16 times
            the problem's own if not given), a of ``HyperG`` and ``HyperGN``. Other slabs have none.
        prior_size : sequence of float
            Prior expectations of the number of variables; 1/4, 1/2, 1, 2 and 4 times the problem's own.
        variables : names
            Which to show; all with an inclusion probability of at least 0.1 if not given, but 20 at most.

        Returns
        -------
        DataFrame, one row for each pair of g and prior_size
            `ess`, the effective draws left (infinite if exact), and `enough`: False where they are fewer than 100
            and the row should not be trusted; run ``sample`` there instead. Then `mean_size`, the posterior mean of
            the model size, and the inclusion probability of each variable.

        Examples
        --------
        >>> import whichvars as wv
        >>> data = wv.datasets.load_uscrime()
        >>> posterior = wv.exact(wv.Problem(data.X, data.y, slab=wv.GPrior(47)))
        >>> posterior.sensitivity(g=[10, 47, 200], prior_size=[3, 7], variables=["Ed", "Po1"]).round(2)
                          ess  enough  mean_size    Ed   Po1
        g     prior_size
        10.0  3.0         inf    True       7.94  0.91  0.66
              7.0         inf    True      10.39  0.97  0.73
        47.0  3.0         inf    True       6.72  0.91  0.66
              7.0         inf    True       8.26  0.96  0.68
        200.0 3.0         inf    True       4.56  0.69  0.65
              7.0         inf    True       5.52  0.81  0.65
        """
        if variables is None:
            order = np.argsort(-self.pip, kind="stable")[:20]
            chosen = [int(j) for j in order if self.pip[j] >= 0.1]
        else:
            chosen = find_columns(variables, self.problem.names, "variables")
        return sensitivity_table(self.problem, self._draws(), g, prior_size, chosen)

    def given(self, include: Any = None, exclude: Any = None) -> pd.DataFrame:
        """Inclusion probabilities given that some variables are in and others are out.

        Parameters
        ----------
        include, exclude : names
            Variables that are taken to be in the model, and out of it.

        Returns
        -------
        DataFrame, one row a variable, most probable first
            `pip` given the condition, its Monte Carlo error `mcse`, its effective sample size `ess`, and
            `pip_before`, without the condition. ``.attrs["probability"]`` is the probability of the condition. With
            fewer than 100 draws that satisfy it, a ``ConvergenceWarning`` asks for a run of its own.

        Examples
        --------
        >>> import whichvars as wv
        >>> data = wv.datasets.load_uscrime()
        >>> posterior = wv.exact(wv.Problem(data.X, data.y, slab=wv.GPrior(47)))
        >>> posterior.given(exclude="Po1").loc[["Po2"]].round(3)
                    pip  mcse  ess  pip_before
        variable
        Po2       0.998   0.0  inf       0.428
        """
        table, ess = conditional_table(self, include, exclude)
        if ess < ENOUGH:
            warnings.warn(
                f"only {ess:.0f} draws satisfy the condition, fewer than {ENOUGH:.0f}: the result is rough. Run sample() "
                "on a problem with always_include=… or without the columns instead",
                ConvergenceWarning,
                stacklevel=2,
            )
        return table

    # --- stand-ins

    def clusters(self, level: float = 0.95, correlation: float = 0.5) -> pd.DataFrame:
        """Sets of variables that stand in for one another: one of them is needed, the data cannot say which.

        They are correlated, rarely in the model together, and one of them is in with probability `level` at least;
        in fine mapping, credible sets. The module ``stand_ins`` says how they are found.

        Parameters
        ----------
        level : float
            Least probability that at least one variable of the cluster is in the model.
        correlation : float
            Least absolute correlation with the cluster's leading variable.

        Returns
        -------
        DataFrame, one row a cluster, that of the most probable leading variable first
            `lead`; `size`; `probability` that at least one of them is in; `expected` number of them in the model,
            near 1 if they exclude one another; `purity`, the smallest absolute correlation among them; `variables`,
            a list of names, most probable first.

        Examples
        --------
        >>> import whichvars as wv
        >>> data = wv.datasets.load_uscrime()
        >>> posterior = wv.exact(wv.Problem(data.X, data.y, slab=wv.GPrior(47)))
        >>> posterior.clusters()[["probability", "purity", "variables"]].round(3)
                 probability  purity   variables
        cluster
        1              0.995   1.000      [Ineq]
        2              0.999   0.993  [Po1, Po2]
        """
        for name, value in (("level", level), ("correlation", correlation)):
            _check_share(value, name)
        return cluster_table(self.problem, self.kept, level, correlation)

    # --- scores

    def log_score(self, X: Any, y: Any) -> float:
        """Mean log predictive density of new observations under the averaged model; larger is better.

        The density is that of ``predict``'s mixture of t distributions, in the units of y. Differences between two
        posteriors on the same observations are what matters.

        Parameters
        ----------
        X : array or DataFrame, shape (m, columns)
        y : array, shape (m,)

        Examples
        --------
        >>> import whichvars as wv
        >>> data = wv.datasets.load_uscrime()
        >>> X, y = data.X, data.y
        >>> posterior = wv.exact(wv.Problem(X[:40], y[:40], slab=wv.GPrior("n")))
        >>> round(posterior.log_score(X[40:], y[40:]), 3)
        -0.453
        """
        return float(log_predictive(self.problem, self.kept, X, y).mean())

    def loo(self, X: Any, y: Any, weights: Any = None) -> pd.DataFrame:
        """Leave-one-out predictions of the rows that the problem was made with, in closed form.

        Each row is predicted from all others, averaging over models whose probabilities are those without the row;
        nothing is fitted again. The module ``scores`` has the formulas. Priors stay those of the whole data.

        Parameters
        ----------
        X, y, weights
            What the problem was made with (it keeps no copy of the rows).

        Returns
        -------
        DataFrame, one row an observation of positive weight
            `log_density` of y given the other rows: their mean is the leave-one-out log score, to compare with
            another posterior of the same y; `mean`, the prediction; `pit`, the predictive probability of less than
            y, uniform between 0 and 1 if the model is right; `share`, the effective share of the models' weights
            that is left without the row: below 0.1 or so the row decides which models are good, and from a sampled
            posterior its numbers are rough.

        Examples
        --------
        >>> import whichvars as wv
        >>> data = wv.datasets.load_uscrime()
        >>> left_out = wv.exact(wv.Problem(data.X, data.y, slab=wv.GPrior(47))).loo(data.X, data.y)
        >>> round(float(left_out["log_density"].mean()), 3)
        -0.063
        """
        return leave_one_out(self.problem, self.kept, X, y, weights)

    # --- can it be trusted?

    @property
    def converged(self) -> bool:
        """Whether no inclusion probability has a Monte Carlo error of more than 0.05; ``sample`` warns if not.

        Replicates that disagree have large errors. True does not say that no group of good models was missed.
        """
        return converged(self.mcse)

    def diagnostics(self) -> pd.DataFrame:
        """Everything there is to judge the run by.

        Returns
        -------
        DataFrame, rows for model size, log posterior and each variable, most probable first
            `estimate`, `mcse`, `ess`; `r_hat`, near 1 where replicates agree; `lowest` and `highest` of the
            replicates; inclusion probabilities by three roads, `frequency` (share of the draws), `renormalised`
            (exact ratios of the best models, biased where many were not visited) and `rao_blackwell` (mean of
            conditional probabilities), NaN where not available; `note`, which says where replicates disagree, and
            of a variable never visited how large its probability can be.

        Examples
        --------
        >>> import whichvars as wv
        >>> data = wv.datasets.load_uscrime()
        >>> posterior = wv.sample(wv.Problem(data.X, data.y), draws=20_000, seed=1, progress=False)
        >>> bool(posterior.diagnostics()["r_hat"].iloc[:2].max() < 1.1)
        True
        """
        return diagnostic_table(self)

    def explain(self) -> str:
        """The answer and how far to trust it, in plain words.

        Examples
        --------
        >>> import whichvars as wv
        >>> data = wv.datasets.load_uscrime()
        >>> print(wv.exact(wv.Problem(data.X, data.y, slab=wv.GPrior(47))).explain())
        7 variables of 15 are more likely in than out: Ineq, Ed, Prob, M, Po1, NW, U2. A model has 7.7
        variables on average; with 90 % probability 4 to 11.
        All 32,768 models were looked at: the probabilities are exact, without Monte Carlo error.
        """
        return explain(self)

    def methods(self) -> str:
        """A paragraph for the methods section of a paper, with references.

        Examples
        --------
        >>> import whichvars as wv
        >>> data = wv.datasets.load_uscrime()
        >>> print(wv.exact(wv.Problem(data.X, data.y, slab=wv.GPrior(47))).methods())
        We used Bayesian variable selection in normal linear regression, ...
        """
        return methods_paragraph(self)

    def to_latex(self, rows: int | None = 20, caption: str | None = None, label: str | None = None) -> str:
        r"""The summary as a LaTeX table (package booktabs).

        Parameters
        ----------
        rows : int or None
            The most probable so many variables; None takes all.
        caption, label : str
            Put it into a ``table`` environment with these; without them it is a bare ``tabular``.

        Examples
        --------
        >>> import whichvars as wv
        >>> data = wv.datasets.load_uscrime()
        >>> print(wv.exact(wv.Problem(data.X, data.y, slab=wv.GPrior(47))).to_latex(rows=1))
        \begin{tabular}{lrrrr}
        \toprule
        Variable & PIP & Mean & SD & P(sign) \\
        ...
        """
        return latex(self, self._full_summary.head(len(self.pip) if rows is None else rows), caption, label)

    def __repr__(self) -> str:
        return terminal(self, self._short_summary())

    def _repr_html_(self) -> str:
        return html(self, self._short_summary())

    def _short_summary(self) -> pd.DataFrame:
        """What is shown unasked must not take long."""
        return self.summary(coefficients=len(self.kept) <= AT_A_GLANCE)


STORED = (Posterior, Models, *storage.PROBLEM)  # the classes that a saved posterior is made of


def _check_level(interval: object) -> None:
    number = isinstance(interval, (int, float, np.number)) and not isinstance(interval, bool)
    if interval is not None and not (number and 0 < interval < 1):  # type: ignore[operator]
        raise DataError(f"interval must be a probability between 0 and 1, such as 0.9, not {interval!r}")


def _check_share(value: object, name: str) -> None:
    number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    if not (number and 0 <= value <= 1):  # type: ignore[operator]
        raise DataError(f"{name} must be a number from 0 to 1, not {value!r}")


def r_squared(problem: Problem, members: tuple[int, ...]) -> float:
    """R² of the least-squares fit of a model's columns to y, after the always-included part."""
    if not members:
        return 0.0
    design = problem.target(0).design
    columns = np.concatenate([np.arange(problem.offsets[j], problem.offsets[j + 1]) for j in members])
    right = design.xty[columns]
    gram = gram_of(design, columns)
    return float(min(1.0, right @ np.linalg.lstsq(gram, right, rcond=1e-12)[0]))
