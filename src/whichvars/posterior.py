"""What was learnt: inclusion probabilities with their Monte Carlo error, model sizes, the best models."""

import os
import time
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pandas as pd
from scipy import sparse
from scipy.special import logsumexp
from scipy.stats import f as f_distribution

from whichvars import storage
from whichvars.arviz import to_arviz
from whichvars.coefficients import KeptModels, coefficient_table
from whichvars.errors import DataError
from whichvars.inputs import find_columns
from whichvars.prediction import best_predictive, draw, predict
from whichvars.problem import Problem


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

    def summary(self) -> pd.DataFrame:
        """One row a variable, most probable first: inclusion probability (pip), its Monte Carlo error (mcse),
        effective sample size.

        Returns
        -------
        DataFrame, shape (p, 3)
        """
        frame = pd.DataFrame(
            {"pip": self.pip, "mcse": self.mcse, "ess": self.inclusion_ess.to_numpy()}, self.problem.names
        )
        frame.index.name = "variable"
        return frame.sort_values("pip", ascending=False, kind="stable")

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
                "bayes_factor": np.exp(models.log_marginal[:n] - models.log_marginal[0]),
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
        bound, name = (threshold, "threshold") if fdr is None else (fdr, "fdr")
        number = isinstance(bound, (int, float, np.number)) and not isinstance(bound, bool)
        if not (number and 0 <= bound <= 1):
            raise DataError(f"{name} must be a number from 0 to 1, not {bound!r}")
        order = np.argsort(-self.pip, kind="stable")
        if fdr is None:
            count = int((self.pip >= threshold).sum())
        else:
            false = np.cumsum(1 - self.pip[order]) / np.arange(1, len(order) + 1)
            count = int((false <= fdr).sum())  # they only rise
        return [self.problem.names[j] for j in order[:count]]

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
        >>> posterior = wv.sample(wv.Problem(data.X, data.y), draws=2000, seed=0, progress=False)
        >>> dict(posterior.to_arviz(variables=["Ed", "Po1"])["posterior"].sizes)
        {'chain': 4, 'draw': 2000, 'variable': 2}
        """
        return to_arviz(self, variables)

    def __repr__(self) -> str:
        name = self.sampler.split("(")[0]  # without its settings
        head = f"Posterior of {self.problem.p} variables by {name}: mean model size {self.mean_size:.2f}"
        worst = np.nanmax(self.mcse, initial=0.0)
        accuracy = "exact" if self.models.exact else f"largest Monte Carlo error {worst:.4f}"
        table = self.summary().head(10).to_string(float_format=lambda v: f"{v:.4g}")
        rest = f"\n… and {self.problem.p - 10} more" if self.problem.p > 10 else ""
        return f"{head}, {accuracy}\n{table}{rest}"

    def _repr_html_(self) -> str:
        return self.summary().to_html(float_format=lambda v: f"{v:.4g}", max_rows=30)


STORED = (Posterior, Models, *storage.PROBLEM)  # the classes that a saved posterior is made of


def _check_level(interval: object) -> None:
    number = isinstance(interval, (int, float, np.number)) and not isinstance(interval, bool)
    if interval is not None and not (number and 0 < interval < 1):  # type: ignore[operator]
        raise DataError(f"interval must be a probability between 0 and 1, such as 0.9, not {interval!r}")


def r_squared(problem: Problem, members: tuple[int, ...]) -> float:
    """R² of the least-squares fit of a model's columns to y, after the always-included part."""
    if not members:
        return 0.0
    design = problem.target(0).design
    columns = np.concatenate([np.arange(problem.offsets[j], problem.offsets[j + 1]) for j in members])
    right = design.xty[columns]
    if problem.engine == "gram":
        gram = design.gram[np.ix_(columns, columns)]
    else:
        gram = design.columns[columns] @ design.columns[columns].T
    return float(min(1.0, right @ np.linalg.lstsq(gram, right, rcond=1e-12)[0]))


def combine_replicates(
    means: np.ndarray, variances: np.ndarray, degrees: int
) -> tuple[np.ndarray, np.ndarray]:
    """Mean over replicates and its standard error, from each replicate's mean and estimated variance of that
    mean (batch means).

    Within-replicate variances have many degrees of freedom and are used wherever the replicates agree. Where
    they differ by more than their own errors allow (F-test at 1 %), a sign of modes, the variance between
    replicates is used. NaN where nothing moved anywhere.

    Shapes (replicates, p), (replicates, p) → (p,), (p,).
    """
    replicates = len(means)
    mean = means.mean(axis=0)
    within = variances.mean(axis=0) / replicates
    mcse_squared = within.copy()
    if replicates > 1:
        between = means.var(axis=0, ddof=1) / replicates
        limit = f_distribution.ppf(0.99, replicates - 1, max(degrees * replicates, 1))
        disagree = between > limit * within
        mcse_squared[disagree] = between[disagree]
    return mean, np.where(mcse_squared > 0, np.sqrt(mcse_squared), np.nan)
