"""The answer and how far to trust it, in plain words."""

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from whichvars.posterior.conditions import Condition, condition_words
from whichvars.posterior.diagnostics import (
    LOG_POSTERIOR,
    SIZE,
    count,
    diagnostic_table,
    doubts,
    effective_draws,
    lost_arithmetic,
    never_in,
    renormalised_pips,
    rough,
)
from whichvars.posterior.family_words import about_fits, about_noise, effects, overdispersion
from whichvars.problem.prior_width import narrow_prior

if TYPE_CHECKING:
    from whichvars.posterior.posterior import Posterior

# a set of stand-ins is mentioned if one of them is in with at least this probability
ALMOST_CERTAIN = 0.95
MOST_SETS, MOST_MEMBERS = 3, 5


def explain(posterior: "Posterior") -> str:
    """What ``Posterior.explain`` returns: what speaks against trusting it first, then the answer."""
    verdict, *rest = trust(posterior)
    answer = " ".join([_what(posterior), *stand_ins(posterior), *effects(posterior)])
    if posterior.problem.reference_levels:
        levels = [f"{name} with {level}" for name, level in posterior.problem.reference_levels.items()]
        answer += f" Categories are compared with a reference level: {', '.join(levels[:10])}{', …' if len(levels) > 10 else ''}."
    what = [answer, verdict] if not doubts(posterior) else [verdict, answer]
    return "\n".join([*what, *rest])


def trust(posterior: "Posterior") -> list[str]:
    """How far to believe it and how it was computed: all that ``explain`` says but for the answer, by paragraph. The
    verdict comes first."""
    if posterior.models.exact:
        lines = [_verdict(posterior)]
    else:
        lines = [_verdict(posterior), *_how(posterior), *_unseen(posterior), *_agree(posterior)]
    lines += [*about_fits(posterior), *about_noise(posterior)]
    remarks = (
        *posterior.warnings,
        *lost_arithmetic(posterior),
        *overdispersion(posterior),
        *narrow_prior(posterior.problem),
    )
    return lines + [f"Note: {remark}." for remark in remarks]


def _what(posterior: "Posterior") -> str:
    problem, pip, condition = posterior.problem, posterior.pip, posterior.condition
    if condition is not None and condition.one_model:
        known = _how_probable(condition) if np.isfinite(condition.probability) else ""
        return f"This is the posterior given {condition_words(condition)}{known}."
    order = np.argsort(-pip, kind="stable")
    likely = [problem.names[j] for j in order if pip[j] >= 0.5]
    text = likely_words(likely, problem.p)
    sizes = np.cumsum(posterior.sizes)
    low, high = (int(np.searchsorted(sizes, level)) for level in (0.05, 0.95))
    spread = f"{low}" if low == high else f"{low} to {high}"
    if condition is not None:
        text = f"Given {condition_words(condition)}, {text[0].lower()}{text[1:]}"
    return (
        f"{text}. A model has {posterior.mean_size:.1f} variables on average; with 90 % probability {spread}."
    )


def likely_words(names: list[str], p: int) -> str:
    """Which of p variables are more likely in than out.

    >>> likely_words(["a"], 3), likely_words([], 3), likely_words([], 1)
    ('1 variable of 3 is more likely in than out: a', 'None of the 3 variables is more likely in than out', 'The only variable is more likely out than in')
    """
    if not names:
        return (
            "The only variable is more likely out than in"
            if p == 1
            else f"None of the {p:,} variables is more likely in than out"
        )
    named = f"{', '.join(names[:10])}{', …' if len(names) > 10 else ''}"
    return f"{count(len(names), 'variable')} of {p:,} {'is' if len(names) == 1 else 'are'} more likely in than out: {named}"


def stand_ins(posterior: "Posterior") -> list[str]:
    """A sentence for each set of variables of which one is needed, though the data cannot say which; none if the numbers cannot be trusted
    or nothing is known of several models."""
    if doubts(posterior) or (posterior.condition is not None and posterior.condition.one_model):
        return []
    return stand_in_sentences(posterior.clusters(level=ALMOST_CERTAIN))


def stand_in_sentences(found: pd.DataFrame) -> list[str]:
    """The same for clusters that were found."""
    sets = found.loc[found["size"] > 1].head(MOST_SETS)
    return [
        f"{_all_of(list(names))} stand in for one another: at least one of them is in with probability {_percent(float(probability))}, and "
        "the data cannot say which."
        for names, probability in zip(sets["variables"], sets["probability"])
    ]


def _all_of(names: list[str]) -> str:
    if len(names) > MOST_MEMBERS:
        return f"{', '.join(names[:MOST_MEMBERS])} and {len(names) - MOST_MEMBERS:,} more"
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _percent(probability: float) -> str:
    """
    >>> _percent(0.9984), _percent(0.99999), _percent(1.0)
    ('99.8 %', 'above 99.9 %', '100 %')
    """
    if probability >= 1:
        return "100 %"
    return "above 99.9 %" if probability > 0.9995 else f"{100 * probability:.1f} %"


def _exactly(posterior: "Posterior") -> str:
    if posterior.condition is not None:
        return "Given the condition, there is no Monte Carlo error."
    if posterior.reweighting_ess is not None:
        rest = (
            "there is no Monte Carlo error"
            if posterior.kept.noise is None
            else "there is no Monte Carlo error but for importance sampling's noise"
        )
        return f"The probabilities were carried over from an exact answer under other priors; {rest}."
    rest = (
        ", without Monte Carlo error"
        if posterior.kept.noise is None
        else " but for importance sampling's noise"
    )
    return f"All {posterior.iterations:,} models were looked at: the probabilities are exact{rest}."


def _how(posterior: "Posterior") -> list[str]:
    name = posterior.sampler.split("(")[0]  # without its settings
    replicates = 0 if posterior.replicate_pips is None else len(posterior.replicate_pips)
    runs = f" in {count(replicates, 'independent run')}" if replicates else ""
    lines = [f"{name} made {posterior.iterations:,} iterations{runs}{STOPPED.get(posterior.stopped, '')}."]
    if posterior.chosen:
        lines.append(f"Why {name}: {posterior.chosen.rstrip('.')}.")
    if posterior.reweighting_ess is not None and posterior.condition is not None:
        lines.append(
            f"Of the draws, {rough(posterior.reweighting_ess):,.0f} effective ones satisfy the condition{_how_probable(posterior.condition)}."
        )
    elif posterior.reweighting_ess is not None:
        lines.append(
            "The draws were made under other priors and given new weights; "
            f"{rough(posterior.reweighting_ess):,.0f} effective draws are left of them."
        )
    return lines


def _how_probable(condition: Condition) -> str:
    if not np.isfinite(condition.probability):
        return ""
    error = f" ± {2 * condition.mcse:.1g}" if condition.mcse > 0 else ""
    return f", whose probability is {condition.probability:.3g}{error}"


STOPPED = {
    "draws": ", as many as were asked for",
    "target_mcse": " and stopped because every probability was as accurate as asked for",
    "budget": " and stopped because the time was up",
    "interrupted": " and was interrupted; the answer is what was counted until then",
}


def _verdict(posterior: "Posterior") -> str:
    reasons = doubts(posterior)
    if reasons:
        return f"Do not trust these numbers yet: {'; moreover, '.join(reasons)}."
    if posterior.models.exact:
        return _exactly(posterior)
    mcse = posterior.mcse
    j = int(np.nanargmax(mcse))
    digits = (
        "to three digits"
        if mcse[j] < 0.0005
        else "to two digits"
        if mcse[j] < 0.005
        else "about to the first digit"
        if mcse[j] > 0.02
        else "to 0.02 or so"
    )
    return (
        f"Accurate enough: the least accurate probability is that of {posterior.problem.names[j]!r}, {posterior.pip[j]:.3f} with a "
        f"Monte Carlo error of {np.format_float_positional(mcse[j], 2, fractional=False, trim='-')}; read probabilities {digits}."
    )


def _unseen(posterior: "Posterior") -> list[str]:
    unseen = int(never_in(posterior).sum())
    if not unseen:
        return []
    table = diagnostic_table(posterior)
    draws = effective_draws(table.loc[table.index.isin([SIZE, LOG_POSTERIOR])], table)
    if not np.isfinite(draws):
        return [
            f"{count(unseen, 'variable')} never came up; {'its probability is' if unseen == 1 else 'their probabilities are'} small, but "
            "how small cannot be told."
        ]
    return [
        f"{count(unseen, 'variable')} never came up; with 95 % confidence {'it' if unseen == 1 else 'each'} has a probability below {3 / draws:.2g} "
        f"(the run is worth about {rough(draws):,.0f} independent draws)."
    ]


def _agree(posterior: "Posterior") -> list[str]:
    """How far the other estimates are from the one reported."""
    if posterior.frequencies is None:
        return []
    others = {
        "those by exact ratios of the best models": renormalised_pips(posterior.models, posterior.problem.p)
    }
    if posterior.rao_blackwell is not None:
        others["averages of conditional probabilities (Rao–Blackwell)"] = posterior.rao_blackwell
    away = {name: float(np.abs(value - posterior.frequencies).max()) for name, value in others.items()}
    text = ", and ".join(
        f"by {f'up to {value:.3f}' if value >= 0.001 else 'less than 0.001'} from {name}"
        for name, value in away.items()
    )
    caution = (
        " The exact ratios are biased where many models were not visited."
        if max(away.values()) > 0.05
        else ""
    )
    return [f"The same probabilities, counted as shares of the draws, differ {text}.{caution}"]
