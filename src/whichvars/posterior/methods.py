"""A paragraph for the methods section of a paper: data, priors, computation, accuracy, software, references."""

import importlib
import re
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np

from whichvars._kernels.evidence import INDEPENDENT
from whichvars.posterior.conditions import condition_words
from whichvars.posterior.diagnostics import count
from whichvars.posterior.family_words import outcome
from whichvars.problem.dilution import Dilution
from whichvars.problem.families import Gaussian, NegativeBinomial, Student
from whichvars.problem.graph_prior import MarkovRandomField
from whichvars.problem.heredity import ConditionalPrior
from whichvars.problem.model_priors import (
    BetaBinomial,
    Complexity,
    FixedInclusion,
    ModelPrior,
    PoissonSize,
    SizeDistribution,
)
from whichvars.problem.priors import BIC, GPrior, IndependentNormal, InverseGamma, KnownVariance
from whichvars.problem.problem import Problem
from whichvars.samplers import SAMPLERS

if TYPE_CHECKING:
    from whichvars.posterior.pooling import PooledPosterior
    from whichvars.posterior.posterior import Posterior


# most names of columns that are listed
MOST_NAMES = 5
SIZE = (
    "Ley, E. and Steel, M. F. J. (2009). On the effect of prior assumptions in Bayesian model averaging with "
    "applications to growth regression. Journal of Applied Econometrics 24, 651–674."
)
LI_ZHANG = (
    "Li, F. and Zhang, N. R. (2010). Bayesian variable selection in structured high-dimensional covariate spaces with applications in genomics. "
    "Journal of the American Statistical Association 105, 1202–1214."
)
CASTILLO = (
    "Castillo, I., Schmidt-Hieber, J. and van der Vaart, A. (2015). Bayesian linear regression with sparse priors. Annals of Statistics 43, "
    "1986–2018."
)
DILUTED = (
    "George, E. I. (2010). Dilution priors: compensating for model space redundancy. In Borrowing Strength: Theory Powering Applications, "
    "158–165."
)
CHIPMAN = "Chipman, H. (1996). Bayesian variable selection with related predictors. Canadian Journal of Statistics 24, 17–36."


def sources(sampler: str) -> list[str]:
    """References for a sampler and the moves that it consists of; `sampler` is ``Posterior.sampler``.

    >>> len(sources("ParallelTempering(move=ASI(chains=1), rungs=6)"))
    3
    """
    named = re.findall(r"(\w+)\(", sampler)
    return list(dict.fromkeys(source for name in named for source in getattr(_find(name), "references", ())))


def _find(name: str) -> Any:
    """The class of one of the package's samplers; None for other names."""
    for module, cls in SAMPLERS.items():
        if cls == name:
            return getattr(importlib.import_module(f"whichvars.samplers.{module}"), cls)
    return None


def references(posterior: "Posterior") -> list[str]:
    """The references of the methods paragraph."""
    return [
        line.removeprefix("- ")
        for line in methods_paragraph(posterior).partition("\n\nReferences\n")[2].splitlines()
    ]


def methods_paragraph(posterior: "Posterior", mixed: "PooledPosterior | None" = None) -> str:
    """What ``Posterior.methods`` returns. If posteriors of several tables are `mixed`, this is the first of them."""
    problem = posterior.problem
    slab = problem.slab.words(problem.n, problem.p)
    if problem.family.name != "gaussian":
        slab = family_slab_words(problem)
    prior, prior_sources = prior_words(problem)
    computation, computation_sources = computation_words(posterior, mixed)
    text = " ".join([data_words(problem), slab, prior, noise_words(problem), computation, software_words()])
    listed = dict.fromkeys([*problem.slab.references, *prior_sources, *computation_sources])
    return f"{text}\n\nReferences\n" + "\n".join(f"- {source}" for source in listed)


def family_slab_words(problem: Problem) -> str:
    """A description of the slab if the family is not Gaussian, where there is no noise variance."""
    slab = problem.slab
    where = "the expected information of the null model"
    if problem.evidence == "bas":
        where = "the information at the maximum of the likelihood"
    if isinstance(slab, GPrior):
        return f"Coefficients had a g-prior with g = {slab.value(problem.n, problem.p):g} and {where}."
    if not isinstance(slab, (IndependentNormal, BIC)):
        return f"{slab.words(problem.n, problem.p)} The g-prior had {where}."
    if isinstance(slab, IndependentNormal) and slab.unknown:
        return f"Coefficients had independent normal priors with mean zero and variance g. {slab.words_of_unknown(problem.n)}"
    if isinstance(slab, IndependentNormal):
        g = "variances that differ between variables" if isinstance(slab.g, tuple) else f"variance {slab.g:g}"
        relative = " times s²" if isinstance(problem.family, Student) else ""
        return f"Coefficients had independent normal priors with mean zero and {g}{relative}."
    return slab.words(problem.n, problem.p)


def data_words(problem: Problem) -> str:
    always = "an intercept with a flat prior"
    if problem.always_names:
        *first, last = ["an intercept", *problem.always_names]
        always = f"{', '.join(first)} and {last}, with flat priors on their coefficients"
    most = f", of at most {count(problem.max_size, 'variable')} each" if problem.max_size < problem.p else ""
    scaled = problem.scale == "unit" and problem.slab.code == INDEPENDENT
    family = problem.family
    kinds = {
        "gaussian": "normal linear", "logistic": "logistic", "probit": "probit", "poisson": "Poisson",
        "negative-binomial": "negative binomial", "student": "robust linear",
    }  # fmt: skip
    kind = kinds[family.name]
    if isinstance(family, NegativeBinomial):
        known = f"dispersion {family.start:g}"
        prior = f"unknown dispersion r, log r ~ N({np.log(family.prior_median):.4g}, {family.prior_sd:g}²)"
        kind += f" ({prior if family.dispersion is None else known})"
    effects = ""
    if not isinstance(family, Gaussian):
        of = f" of {outcome(problem)}" if outcome(problem) else ""
        effects = f" Coefficients are changes of the {family.link}{of}."
    if isinstance(family, Student) and problem.fit_data is not None:
        effects += (
            f" The noise had Student's t distribution with {family.df:g} degrees of freedom and unknown scale s, "
            f"log s ~ N({problem.fit_data.log_mean:.4g}, {family.prior_sd:g}²)."
        )
    response = f" of {problem.response}" if problem.response else ""
    return (
        f"We used Bayesian variable selection in {kind} regression{response}, averaging over all models{most} that can be "
        f"formed from {problem.p:,} candidate variables ({problem.n:,} observations). All models contain {always}. "
        f"Variables were centred{' and scaled to unit standard deviation' if scaled else ''}.{_details(problem)}{effects}"
    )


def _details(problem: Problem) -> str:
    """Rows and columns that were left out, weights, and groups of columns, as far as there are any."""
    found = [problem.record.words()] if problem.record.words() else []
    if problem.reference_levels:
        levels = [f"{name} with {level!r}" for name, level in problem.reference_levels.items()]
        more = ", …" * (len(levels) > MOST_NAMES)
        found.append(
            f"Levels of categories were compared with a reference level: {', '.join(levels[:MOST_NAMES])}{more}."
        )
    if problem.rows_left_out:
        found.append(
            f"{count(problem.rows_left_out, 'row')} of weight 0 {_was(problem.rows_left_out)} left out."
        )
    if problem.weighted:
        what = "precisions" if isinstance(problem.family, Gaussian) else "log likelihoods"
        found.append(f"Rows had weights, which multiply their {what}.")
    if problem.excluded:
        names = ", ".join(list(problem.excluded)[:MOST_NAMES]) + ", …" * (len(problem.excluded) > MOST_NAMES)
        found.append(
            f"{count(len(problem.excluded), 'column')} without information of {'its' if len(problem.excluded) == 1 else 'their'} own "
            f"({names}) {_was(len(problem.excluded))} left out."
        )
    widths = np.diff(problem.offsets)
    if (widths > 1).any():
        groups, first = int((widths > 1).sum()), problem.names[int(np.argmax(widths > 1))]
        what = f"The variable {first}" if groups == 1 else f"{groups:,} variables, such as {first},"
        found.append(f"{what} consisted of several columns that were in the model together or not at all.")
    return "".join(f" {sentence}" for sentence in found)


def _was(n: int) -> str:
    return "was" if n == 1 else "were"


def prior_words(problem: Problem) -> tuple[str, list[str]]:
    """A description of the prior on models, and references for it."""
    prior, p = problem.model_prior, problem.p
    expected = float(prior.inclusion(p).sum())
    if isinstance(prior, ConditionalPrior):
        text, references = _inclusion_words(prior.prior, p, expected)
        children = sum(map(bool, prior.parents))
        return (
            f"{text} {children:,} of the variables could be in the model only together with others, as interactions are only together "
            "with the variables that they consist of; their prior probabilities are conditional on these.",
            [CHIPMAN, *references],
        )
    return _inclusion_words(prior, p, expected)


def _variables(expected: float) -> str:
    shown = f"{expected:.3g}"
    return f"{shown} variable{'' if shown == '1' else 's'}"


def _inclusion_words(prior: ModelPrior, p: int, expected: float) -> tuple[str, list[str]]:
    if isinstance(prior, BetaBinomial):
        a, b = prior.parameters(p)
        return (
            "Each variable was in the model with a common probability that had a "
            f"Beta({a:g}, {b:.4g}) prior, with an expected model size of {_variables(expected)}.",
            [SIZE],
        )
    if isinstance(prior, Dilution):
        text, references = _inclusion_words(prior.base, p, float(prior.base.inclusion(p).sum()))
        power = "" if prior.power == 1 else f" to the power of {prior.power:g}"
        return (
            f"{text} This prior was multiplied by the determinant of the correlation matrix of the variables in the model{power} (dilution), "
            f"after which the expected model size is {_variables(expected)}.",
            [DILUTED, *references],
        )
    equally = "and all models with the same number of variables were equally probable"
    if isinstance(prior, PoissonSize):
        return (
            f"The number of variables in the model had a Poisson prior with mean {prior.size:g}, cut off at {p:,}, {equally}.",
            [],
        )
    if isinstance(prior, Complexity):
        power = "k" if prior.a == 1 else f"{prior.a:g}k"
        factor = "" if prior.c == 1 else f" {prior.c:g}^(−k)"
        return (
            f"The prior probability of k variables in the model was proportional to p^(−{power}){factor} with p = {p:,} (complexity "
            f"prior; the expected model size is {_variables(expected)}), {equally}.",
            [CASTILLO],
        )
    if isinstance(prior, MarkovRandomField):
        strength = (
            f"multiplied its prior odds by {np.exp(prior.strength):.3g}"
            if isinstance(prior.strength, float)
            else "multiplied its prior odds by a factor of the edge"
        )
        own = (
            f"prior probability {prior.h:.4g}"
            if isinstance(prior.h, float)
            else "a prior probability of its own"
        )
        return (
            f"The prior on models was a Markov random field on a graph with {count(len(prior.edges), 'edge')}: a variable had {own}, and each of its "
            f"neighbours in the model {strength}; the expected model size is {_variables(expected)}.",
            [LI_ZHANG],
        )
    if isinstance(prior, SizeDistribution):
        return (
            f"The number of variables in the model had a prior distribution with mean {expected:.3g}, {equally}.",
            [],
        )
    if isinstance(prior, FixedInclusion) and not isinstance(prior.h, tuple):
        h = float(prior.inclusion(p)[0])
        return (
            f"Each variable was in the model with prior probability {h:.4g}, independently of the others.",
            [],
        )
    return (
        "Variables were in the model independently of one another, with different prior probabilities and an expected "
        f"model size of {_variables(expected)}.",
        [],
    )


EVIDENCE_WORDS = {
    "auto": "Laplace's approximation of second order, and by importance sampling for models for which it was doubtful",
    "laplace": "Laplace's approximation",
    "second-order": "Laplace's approximation of second order",
    "importance": "importance sampling",
    "bas": "the approximation of the R package BAS, at the maximum of the likelihood",
}


def noise_words(problem: Problem) -> str:
    if problem.family.name != "gaussian":
        if isinstance(problem.slab, BIC):
            return "Coefficients within models were estimated by maximum likelihood."
        return f"Marginal likelihoods of models were computed by {EVIDENCE_WORDS[problem.evidence]}."
    if isinstance(problem.noise, InverseGamma):
        return f"The noise variance had an inverse gamma prior ({problem.noise.a:g}, {problem.noise.b:g})."
    if isinstance(problem.noise, KnownVariance):
        return f"The noise variance was assumed to be known, σ² = {problem.noise.variance:g}."
    return "The noise variance had the prior p(σ²) ∝ 1/σ²."


def computation_words(
    posterior: "Posterior", mixed: "PooledPosterior | None" = None
) -> tuple[str, list[str]]:
    """A description of the computation and its accuracy, and references."""
    parts = [posterior] if mixed is None else mixed.parts
    each = "" if mixed is None else " for each completed table"
    again = (
        " Results under these priors were obtained from those under others by importance reweighting."
        if posterior.reweighting_ess is not None
        else ""
    )
    noise = "" if posterior.kept.noise is None else " up to the noise of importance sampling"
    if posterior.condition is not None:
        again = f" All results are given {condition_words(posterior.condition)}."
    if posterior.condition is not None and posterior.condition.one_model:
        return f"Only one model was used.{again}", []
    if posterior.models.exact:
        return (
            f"Posterior probabilities are exact{noise}: all {posterior.iterations:,} models were enumerated{each}.{again}",
            [],
        )
    name = posterior.sampler.split("(")[0]
    words = getattr(_find(name), "words", f"the sampler {name}")
    replicates = 1 if posterior.replicate_pips is None else max(1, len(posterior.replicate_pips))
    runs = f"{replicates} independent runs" if replicates > 1 else "one run"
    settings = posterior.settings
    seeds = list(dict.fromkeys(_seed_words(part) for part in parts))
    seed = f" (seed{'s' * (len(seeds) > 1)} {', '.join(seeds)})" if all(seeds) else ""
    warmup = (
        f", of which the first {settings['warmup']:,} of each were discarded"
        if settings.get("warmup")
        else ""
    )
    mcse = posterior.mcse if mixed is None else mixed.mcse
    if np.isnan(mcse).all():
        accuracy = "the Monte Carlo standard errors of the posterior inclusion probabilities are unknown"
    else:
        error = np.nanmax(mcse)
        accuracy = (
            f"the largest Monte Carlo standard error of a posterior inclusion probability was {error:.2g}"
        )
    return (
        f"The posterior over models was sampled{each} by {words} in {runs}{seed} with {sum(part.iterations for part in parts):,} "
        f"iterations in total{warmup}; {accuracy}.{again}",
        sources(posterior.sampler),
    )


def _seed_words(posterior: "Posterior") -> str:
    seed = posterior.settings.get("seed")
    if isinstance(seed, dict):
        return f"{seed['entropy']}, spawn key {seed['spawn_key']}"
    return "" if seed is None else str(seed)


def software_words() -> str:
    return f"Computations were made with whichvars {version('whichvars')} (Python)."
