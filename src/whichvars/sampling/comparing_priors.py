"""``compare_priors``: the same data under many priors, by new weights of the models already visited where that is reliable, and by new runs
where it is not."""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from whichvars._kernels.evidence import INDEPENDENT
from whichvars.data.frames import find_columns
from whichvars.errors import ConvergenceWarning, DataError, WhichvarsError
from whichvars.posterior.diagnostics import ACCEPTABLE
from whichvars.posterior.marginals import each_slab_once
from whichvars.posterior.posterior import Posterior
from whichvars.problem.arguments import check_choice
from whichvars.problem.heredity import ConditionalPrior
from whichvars.problem.model_priors import BetaBinomial, FixedInclusion, ModelPrior, check_model_prior
from whichvars.problem.priors import (
    BIC,
    GPrior,
    HyperG,
    HyperGN,
    IndependentNormal,
    LocalEmpiricalBayes,
    Slab,
    ZellnerSiow,
    check_slab,
)
from whichvars.problem.problem import Problem
from whichvars.sampling.exact import exact
from whichvars.sampling.sample import sample

# priors that are compared unless others are given
SLABS: tuple[Slab, ...] = (
    GPrior("n"), GPrior("bric"), HyperG(), HyperGN(), ZellnerSiow(), LocalEmpiricalBayes(), BIC(), IndependentNormal(1.0),
    IndependentNormal(10.0), IndependentNormal(100.0), IndependentNormal("estimate"),
)  # fmt: skip
# most variables for which models of half of them are worth a look
MOST_FOR_UNIFORM = 40
# most variables that are shown unless some are named, and their least probability
SHOWN, LEAST = 20, 0.1
# a posterior if there is one, how it was found, and whether it can be trusted
Answer = tuple[Posterior | None, str, bool]


def compare_priors(
    posterior: Posterior,
    slabs: Sequence[Slab] | None = None,
    model_priors: Sequence[ModelPrior] | None = None,
    variables: Any = None,
    runs: str = "needed",
    **sampling: Any,
) -> pd.DataFrame:
    """How inclusion probabilities depend on the kinds of priors, in one table.

    Every slab is combined with every prior on models. Each combination is computed by giving new weights to the models of `posterior`, as
    ``Posterior.reweight`` does, if that is reliable. Otherwise there is a new run.

    Parameters
    ----------
    posterior : Posterior
        The answer under the priors of your choice, which are the base of the comparison.
    slabs : sequence of slabs
        The default is g-priors with g = n and BRIC, hyper-g, hyper-g/n, Zellner–Siow, local empirical Bayes, BIC, and independent normal
        slabs with g = 1, 10, 100 and unknown, as far as they can be combined with the problem.
    model_priors : sequence of model priors
        The default is ``FixedInclusion(h=0.5)``, under which all models are equally probable (up to 40 variables), ``BetaBinomial(1, 1)``, under
        which all sizes are, and ``BetaBinomial(size=min(5, p/2))``.
    variables : names
        Variables to show. The default is those with an inclusion probability of at least 0.1 under one of the priors, at most 20.
    runs : "needed" or "none"
        "none" makes no new runs and marks the rows that would need one.
    **sampling
        Arguments of ``sample`` for new runs. The default is those of the run of `posterior`, without a progress bar.

    Returns
    -------
    DataFrame, one row for each combination, by slab and model prior
        `base`, True for the priors of `posterior`; `how`, "given" for these, "reweighted", "exact", "new run", or "not known" where none of the
        models of `posterior` is possible and no new run may be made, so that the numbers are NaN; `reliable`, False where too few
        draws are left or a run should not be trusted; `ess`, the effective draws left by reweighting; `mcse`, the largest Monte Carlo error of the
        probabilities shown; `log_evidence`, relative to the null model; `mean_size`; and the inclusion probability of each variable.
        The base row comes first. ``plot_priors`` draws the table.

    Examples
    --------
    >>> import whichvars as wv
    >>> data = wv.datasets.load_uscrime()
    >>> posterior = wv.exact(wv.Problem(data.X, data.y, slab=wv.GPrior(47), model_prior=wv.FixedInclusion(h=0.5)))
    >>> table = wv.compare_priors(posterior, [wv.HyperG(), wv.BIC()], [wv.BetaBinomial(1, 1)], ["Ed", "Time"])
    >>> table[["how", "mean_size", "Ed", "Time"]].round(2).to_numpy().tolist()
    [['given', 7.82, 0.98, 0.33], ['reweighted', 9.97, 0.97, 0.56], ['reweighted', 9.54, 0.99, 0.54]]
    """
    if not isinstance(posterior, Posterior):
        raise DataError(
            f"compare_priors takes a Posterior, as sample() and exact() return it, not {type(posterior).__name__}"
        )
    if posterior.condition is not None:
        raise DataError(
            "compare_priors takes a posterior without a condition; compare first, then use given()"
        )
    check_choice(runs, ("needed", "none"), "runs")
    answers: dict[tuple[str, str], Answer] = {
        _key(posterior.problem): (posterior, "given", posterior.converged)
    }
    done = {_identity(posterior.problem)}
    with each_slab_once():
        for problem in _problems(posterior.problem, slabs, model_priors):
            if _identity(problem) not in done:
                done.add(_identity(problem))
                answers[_unused(_key(problem), answers)] = _answer(
                    posterior, problem, runs == "needed", sampling
                )
    chosen = _choose([answer for answer, *_ in answers.values() if answer is not None], variables)
    rows: list[dict[str, Any]] = []
    for answer, how, reliable in answers.values():
        if answer is None:
            rows.append({"base": False, "how": how, "reliable": False})
            continue
        errors = answer.mcse[chosen]
        evidence = answer.log_evidence
        row = {
            "base": how == "given",
            "how": how,
            "reliable": reliable,
            "ess": np.nan if answer.reweighting_ess is None else answer.reweighting_ess,
            "mcse": float(np.nanmax(errors)) if np.isfinite(errors).any() else np.nan,
            "log_evidence": np.nan if evidence is None else evidence,
            "mean_size": answer.mean_size,
        }
        rows.append(row | {answer.problem.names[j]: float(answer.pip[j]) for j in chosen})
    index = pd.MultiIndex.from_tuples(list(answers), names=["slab", "model_prior"])
    return pd.DataFrame(rows, index=index)


def _key(problem: Problem) -> tuple[str, str]:
    return repr(problem.slab), repr(problem.model_prior)


def _unused(key: tuple[str, str], answers: Mapping[tuple[str, str], Answer]) -> tuple[str, str]:
    """The key, with a number if other priors are written in the same way, as two covariance matrices are."""
    slab, number = key[0], 1
    while key in answers:
        number += 1
        key = f"{slab} ({number})", key[1]
    return key


def _identity(problem: Problem) -> tuple[Any, str]:
    """What priors mean, however they are written."""
    slab = problem.slab
    if isinstance(slab, GPrior):
        slab = GPrior(slab.value(problem.n, problem.p))
    return slab, repr(problem.model_prior)


def _problems(problem: Problem, slabs: Any, model_priors: Any) -> Iterable[Problem]:
    """The problem under all combinations of priors; of the default ones, only those that are possible."""
    priors = (
        _default_model_priors(problem.p) if model_priors is None else map(check_model_prior, model_priors)
    )
    for prior in list(priors):
        try:
            other = problem.with_priors(model_prior=prior)
        except WhichvarsError:
            if model_priors is not None:
                raise
            continue
        for slab in SLABS if slabs is None else [check_slab(slab) for slab in slabs]:
            try:
                yield other.with_priors(slab=slab)
            except WhichvarsError:
                if slabs is not None:
                    raise


def _default_model_priors(p: int) -> list[ModelPrior]:
    uniform: list[ModelPrior] = [FixedInclusion(h=0.5)] if p <= MOST_FOR_UNIFORM else []
    return [*uniform, BetaBinomial(1, 1), BetaBinomial(size=min(5.0, p / 2))]


def _answer(posterior: Posterior, problem: Problem, may_run: bool, sampling: dict[str, Any]) -> Answer:
    """The posterior of another problem, how it was found, and whether it can be trusted."""
    # models of deficient rank have no weight under the other slabs, and cannot be given any
    complete = posterior.problem.slab.code == INDEPENDENT or problem.slab.code != INDEPENDENT
    found: Answer = None, "not known", False
    try:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always", ConvergenceWarning)
            new = posterior.reweight(slab=problem.slab, model_prior=_plain(problem))
        thin = any(issubclass(one.category, ConvergenceWarning) for one in said)
        accurate = new.models.exact or not np.nanmax(new.mcse, initial=0.0) > ACCEPTABLE
        found = new, "reweighted", bool(posterior.converged and complete and accurate and not thin)
    except DataError:
        pass  # no kept model has any weight left
    if found[2] or not may_run:
        return found
    if posterior.models.exact:
        return exact(problem, progress=False), "exact", True
    settings = {name: posterior.settings.get(name) for name in ("draws", "warmup", "replicates", "seed")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        run = sample(
            problem, **({k: v for k, v in settings.items() if v is not None} | {"progress": False} | sampling)
        )
    return run, "new run", run.converged


def _plain(problem: Problem) -> ModelPrior:
    """The prior on models without heredity, under which ``reweight`` puts it again."""
    prior = problem.model_prior
    return prior.prior if isinstance(prior, ConditionalPrior) else prior


def _choose(answers: list[Posterior], variables: Any) -> list[int]:
    if variables is not None:
        return find_columns(variables, answers[0].problem.names, "variables")
    most = np.max([answer.pip for answer in answers], axis=0)
    order = np.argsort(-answers[0].pip, kind="stable")
    return [int(j) for j in order if most[j] >= LEAST][:SHOWN]
