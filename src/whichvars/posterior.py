"""What was learnt: inclusion probabilities with their Monte Carlo error, model sizes, the best models."""

import time
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import logsumexp
from scipy.stats import f as f_distribution

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
    iterations: int  # all of them: replicates, chains, warm-up
    cpu_seconds: float
    log_evidence: float | None = None
    log_evidence_mcse: float | None = None  # 0 if exact, NaN with a single replicate
    replicate_pips: np.ndarray | None = None  # (replicates, p)
    trace: pd.DataFrame | None = None
    adaptation: list[dict[str, Any]] = field(
        default_factory=list
    )  # one per replicate: what the sampler learned
    troubles: dict[str, int] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

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

        Columns: `variables`; `size`; `probability` (share of iterations; exact where the posterior is);
        `renormalised` (probability among the models visited, by their exact ratios; biased upwards when many
        were not visited); `log_marginal` relative to the null model; `bayes_factor` of the model's marginal
        likelihood to the first one's; `r_squared`.
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
                "variables": [", ".join(names[j] for j in sorted(m)) for m in models.members[:n]],
                "size": [len(m) for m in models.members[:n]],
                "probability": models.frequency[:n],
                "renormalised": renormalised[:n],
                "log_marginal": models.log_marginal[:n],
                "bayes_factor": np.exp(models.log_marginal[:n] - models.log_marginal[0]),
                "r_squared": [r_squared(self.problem, m) for m in models.members[:n]],
            },
            index=pd.RangeIndex(1, n + 1, name="model"),
        )

    def __repr__(self) -> str:
        head = (
            f"Posterior of {self.problem.p} variables by {self.sampler}: mean model size {self.mean_size:.2f}"
        )
        worst = np.nanmax(self.mcse, initial=0.0)
        accuracy = "exact" if self.models.exact else f"largest Monte Carlo error {worst:.4f}"
        table = self.summary().head(10).to_string(float_format=lambda v: f"{v:.4g}")
        rest = f"\n… and {self.problem.p - 10} more" if self.problem.p > 10 else ""
        return f"{head}, {accuracy}\n{table}{rest}"

    def _repr_html_(self) -> str:
        return self.summary().to_html(float_format=lambda v: f"{v:.4g}", max_rows=30)


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
