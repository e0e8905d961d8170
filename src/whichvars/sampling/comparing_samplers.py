r"""``compare_samplers``: the same problem by several samplers, and what each of them gives for a second of CPU time.

Replicates are independent, so the squared errors of their inclusion probabilities show how good one run is. With the truth π_j known, from enumeration
or a long run, and R replicates that took T seconds of CPU time together, the *work* of a sampler is

.. math:: \frac{1}{R p} \sum_{r, j} (\hat\pi_{rj} - \pi_j)^2 \cdot \frac{T}{R},

squared error times seconds. It does not depend on the length of the runs once they are long enough: half the work means the same accuracy in half the
time. Without the truth, the variance between replicates stands for the squared error, which misses what all of them have in common.
"""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from whichvars.errors import ConvergenceWarning, DataError
from whichvars.posterior.diagnostics import r_hat_of_means
from whichvars.posterior.posterior import Posterior
from whichvars.problem.problem import Problem
from whichvars.sampling.choosing import check_sampler
from whichvars.sampling.exact import check_problem, exact, number_of_models
from whichvars.sampling.sample import sample

# most models that are enumerated to know the truth, if the response is Gaussian and if it is not
MOST_MODELS, MOST_FITS = 1 << 20, 1 << 14
# arguments of `sample` that samplers without a number of draws do not take
BY_DRAWS = ("draws", "warmup", "start", "budget", "target_mcse")


def compare_samplers(
    problem: Problem,
    samplers: Sequence[Any] | Mapping[str, Any],
    truth: Any = None,
    return_posteriors: bool = False,
    **sampling: Any,
) -> Any:
    """Run several samplers on the same problem, and compare how accurate they are for the time they take.

    Parameters
    ----------
    problem : Problem
    samplers : sequence of samplers, or a mapping from names to samplers
        Such as ``[wv.AddDeleteSwap(), wv.Hybrid()]``. The first is the one that others are compared with.
    truth : Posterior or array, shape (p,)
        Inclusion probabilities to measure errors by. The default is those of all models, if there are at most 2²⁰ of them (2¹⁴ if the response is not
        Gaussian); otherwise replicates are compared with one another.
    return_posteriors : bool
        Return a dict of the posteriors too, for their traces and diagnostics.
    **sampling
        Arguments of ``sample``, such as ``draws=100_000`` or ``budget="10s"`` for each of them. ``SequentialMonteCarlo`` takes no draws, and is
        run with its own size. There are four replicates unless you say otherwise, and at least two.

    Returns
    -------
    DataFrame, one row for each sampler
        `work`, squared error of a replicate times its CPU seconds, the smaller the better (the module ``comparing_samplers`` has the formula);
        `speed`, the first sampler's work divided by this one's; `rmse`, the root of the mean squared error of the pooled inclusion probabilities (NaN if the truth
        is not known); `largest_mcse`, the largest Monte Carlo error reported; `ess_per_second`, the median over variables of the effective sample size for a
        CPU second; `mutation_rate`, the share of iterations in which the model changed, where a sampler proposes and accepts; `r_hat`, the largest;
        `cpu_seconds` and `iterations` of all replicates; `converged`. ``plot_samplers`` draws it.

    Examples
    --------
    >>> import whichvars as wv
    >>> data = wv.datasets.load_uscrime()
    >>> problem = wv.Problem(data.X, data.y, slab=wv.GPrior(47))
    >>> table = wv.compare_samplers(problem, [wv.AddDeleteSwap(), wv.Hybrid()], draws=10_000, seed=1)
    >>> list(table.index), bool((table["rmse"] < 0.05).all())
    (['AddDeleteSwap', 'Hybrid'], True)
    """
    check_problem(problem, "compare_samplers")
    named = _named(samplers)
    if sampling.get("replicates", 4) < 2:
        raise DataError("replicates must be at least 2, as errors are found by comparing replicates")
    right = _truth(problem, truth)
    posteriors = {name: _run(problem, sampler, sampling) for name, sampler in named.items()}
    table = pd.DataFrame(
        [_row(posterior, right) for posterior in posteriors.values()],
        index=pd.Index(posteriors, name="sampler"),
    )
    table.insert(1, "speed", table["work"].iloc[0] / table["work"])
    return (table, posteriors) if return_posteriors else table


def _named(samplers: Any) -> dict[str, Any]:
    """The samplers by name; those of the same kind are numbered."""
    if isinstance(samplers, Mapping):
        named = {str(name): check_sampler(sampler) for name, sampler in samplers.items()}
    else:
        named = {}
        for sampler in (
            samplers if isinstance(samplers, Sequence) and not isinstance(samplers, str) else [samplers]
        ):
            name = type(check_sampler(sampler)).__name__
            number = 1 + sum(other.split(" ")[0] == name for other in named)
            named[name if number == 1 else f"{name} {number}"] = sampler
    if not named:
        raise DataError("samplers is empty; name at least one, such as wv.Hybrid()")
    return named


def _truth(problem: Problem, truth: Any) -> np.ndarray | None:
    if isinstance(truth, Posterior):
        truth = truth.pip
    if truth is not None:
        values = np.asarray(truth, float).ravel()
        if values.shape != (problem.p,):
            raise DataError(f"truth has {len(values)} values, but there are {problem.p} variables")
        return values
    most = MOST_FITS if problem.one_by_one else MOST_MODELS
    return exact(problem, progress=False).pip if number_of_models(problem) <= most else None


def _run(problem: Problem, sampler: Any, sampling: dict[str, Any]) -> Posterior:
    settings = {"progress": False} | sampling
    if not getattr(sampler, "by_draws", True):
        settings = {name: value for name, value in settings.items() if name not in BY_DRAWS}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the table says so
        return sample(problem, sampler, **settings)


def _row(posterior: Posterior, truth: np.ndarray | None) -> dict[str, Any]:
    pips = posterior.replicate_pips
    assert pips is not None
    replicates = len(pips)
    if truth is not None:
        squared = float(((pips - truth) ** 2).mean())
    else:
        squared = float(pips.var(axis=0, ddof=1).mean()) if replicates > 1 else np.nan
    ess = posterior.inclusion_ess.to_numpy()
    ess = ess[np.isfinite(ess)]
    rates = [learned["mutation_rate"] for learned in posterior.adaptation if "mutation_rate" in learned]
    r_hat = r_hat_of_means(pips)
    seconds = posterior.cpu_seconds
    return {
        "work": squared * seconds / replicates,
        "rmse": np.nan if truth is None else float(np.sqrt(((posterior.pip - truth) ** 2).mean())),
        "largest_mcse": float(np.nanmax(posterior.mcse)) if np.isfinite(posterior.mcse).any() else np.nan,
        "ess_per_second": float(np.median(ess)) / seconds if len(ess) else np.nan,
        "mutation_rate": float(np.mean(rates)) if rates else np.nan,
        "r_hat": np.nan if r_hat is None or np.isnan(r_hat).all() else float(np.nanmax(r_hat)),
        "cpu_seconds": seconds,
        "iterations": posterior.iterations,
        "converged": posterior.converged,
    }
