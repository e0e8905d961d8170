"""What a posterior says, in plain words."""

import re
from dataclasses import dataclass

import numpy as np

from whichvars.posterior import Posterior
from whichvars.sampling import ACCEPTABLE

LEVELS = ((0.95, "almost certainly in"), (0.5, "probably in"), (0.1, "plausible"))
SMALL = (
    "no",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
)
MOST_NAMES = 12

SOFTWARE = "The whichvars developers. whichvars: Bayesian variable selection by adaptive MCMC."
SOURCES: tuple[tuple[str, str], ...] = (  # names of samplers, and what they come from
    (
        "AddDeleteSwap",
        "Brown, P. J., Vannucci, M. and Fearn, T. (1998). Multivariate Bayesian variable selection and prediction. "
        "Journal of the Royal Statistical Society B 60, 627–641.",
    ),
    (
        "Lamnisos",
        "Lamnisos, D., Griffin, J. E. and Steel, M. F. J. (2013). Adaptive Monte Carlo for Bayesian variable "
        "selection in regression models. Journal of Computational and Graphical Statistics 22, 729–748.",
    ),
    (
        "IndividualAdaptation",
        "Griffin, J. E., Łatuszyński, K. and Steel, M. F. J. (2014). Individual adaptation: an adaptive MCMC scheme "
        "for variable selection problems. arXiv:1412.6760.",
    ),
    (
        "ASI|Hybrid",
        "Griffin, J. E., Łatuszyński, K. G. and Steel, M. F. J. (2021). In search of lost mixing time: adaptive Markov "
        "chain Monte Carlo schemes for Bayesian variable selection with very large p. Biometrika 108, 53–69.",
    ),
    (
        "PARNI",
        "Liang, X., Livingstone, S. and Griffin, J. (2022). Adaptive random neighbourhood informed Markov chain Monte "
        "Carlo for high-dimensional Bayesian variable selection. Statistics and Computing 32, 84.",
    ),
    (
        "TemperedGibbs|Hybrid",
        "Zanella, G. and Roberts, G. (2019). Scalable importance tempering and Bayesian variable selection. Journal of "
        "the Royal Statistical Society B 81, 489–517.",
    ),
    (
        "ParallelTempering",
        "Miasojedow, B., Moulines, E. and Vihola, M. (2013). An adaptive parallel tempering algorithm. Journal of "
        "Computational and Graphical Statistics 22, 649–664.",
    ),
    (
        "SequentialMonteCarlo",
        "Schäfer, C. and Chopin, N. (2013). Sequential Monte Carlo on large binary sampling spaces. Statistics and "
        "Computing 23, 163–184.",
    ),
)


@dataclass(frozen=True)
class Verdict:
    """Whether the probabilities can be relied on."""

    sound: bool
    mark: str  # in a word or two
    clause: str  # to end the opening sentence
    sentences: tuple[str, ...]  # in full


def in_words(probability: float) -> str:
    """What an inclusion probability says.

    >>> in_words(0.997), in_words(0.7), in_words(0.2), in_words(0.05), in_words(0.001)
    ('almost certainly in', 'probably in', 'plausible', 'probably out', 'almost certainly out')
    """
    for least, words in LEVELS:
        if probability >= least:
            return words
    return "probably out" if probability >= 0.01 else "almost certainly out"


def number(n: int) -> str:
    """
    >>> number(0), number(2), number(22576)
    ('no', 'two', '22,576')
    """
    return SMALL[n] if n < len(SMALL) else f"{n:,}"


def within(difference: float) -> str:
    """A bound of two decimals, rounded up, without the nought before the point.

    >>> within(0.0012), within(0.0101), within(0.2), within(1.0)
    ('.01', '.02', '.20', '1')
    """
    hundredths = max(1, int(np.ceil(100 * difference - 1e-9)))
    return f".{hundredths:02d}" if hundredths < 100 else "1"


def decimal(value: float) -> str:
    """Two significant digits, without the nought before the point.

    >>> decimal(0.05), decimal(0.1234), decimal(0.00123)
    ('.05', '.12', '.0012')
    """
    return f"{float(f'{value:.2g}'):f}".rstrip("0").lstrip("0")


def listed(names: list[str], most: int = MOST_NAMES) -> str:
    """
    >>> listed(["a"]), listed(["a", "b", "c"]), listed(["a", "b", "c", "d"], most=2)
    ('a', 'a, b and c', 'a, b and 2 more')
    """
    if len(names) > most:
        return f"{', '.join(names[:most])} and {len(names) - most:,} more"
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)


def by_level(posterior: Posterior) -> list[tuple[str, list[str]]]:
    """("almost certainly in", names), … for the levels that have any variables, most probable first."""
    order = np.argsort(-posterior.pip, kind="stable")
    names: dict[str, list[str]] = {words: [] for _, words in LEVELS}
    for j in order[: int((posterior.pip >= LEVELS[-1][0]).sum())]:
        names[in_words(posterior.pip[j])].append(posterior.problem.names[j])
    return [(words, found) for words, found in names.items() if found]


def answer(posterior: Posterior) -> str:
    """The answer in a sentence."""
    clauses = []
    levels = by_level(posterior)
    certain = bool(levels) and levels[0][0] == LEVELS[0][1]
    if not levels:
        p = posterior.problem.p
        which = "the only variable has not" if p == 1 else f"none of the {p:,} variables has"
        clauses.append(f"no variable stands out: {which} an inclusion probability of .1 or more")
    elif not certain:
        clauses.append(f"no variable is {LEVELS[0][1]} the model")
    for i, (words, names) in enumerate(levels):
        count, verb = number(len(names)), "is" if len(names) == 1 else "are"
        if certain and i == 0:
            clauses.append(f"{count} variable{'s' * (len(names) != 1)} {verb} {words} the model")
        else:
            clauses.append(f"{count}{' more' * certain} {verb} {words}")
    text = "; ".join([*clauses, verdict(posterior).clause])
    return text[0].upper() + text[1:] + "."


def verdict(posterior: Posterior) -> Verdict:
    """Whether the probabilities can be relied on, and why."""
    if posterior.models.exact:
        why = f"All {posterior.iterations:,} models were visited, so that the probabilities have no Monte Carlo error."
        return Verdict(True, "Exact", "the probabilities are exact", (why,))
    worst = float(np.nanmax(posterior.mcse, initial=0.0))
    spread = _spread(posterior)
    accurate = worst <= ACCEPTABLE
    sentences = [*_agreement(posterior, spread), _accuracy(posterior, worst)]
    never = int(np.isnan(posterior.mcse).sum())
    if never:
        verb = "variable was" if never == 1 else "variables were"
        sentences.append(
            f"{number(never).capitalize()} {verb} in always or never, as far as the sampler went; how uncertain that is cannot "
            "be told from the run."
        )
    if not accurate:
        sentences.append("Sample longer: four times as many iterations halve the error.")
        if "ParallelTempering" not in posterior.sampler:
            sentences.append(
                "If the runs stay apart, ParallelTempering() crosses between groups of good models."
            )
    sentences += [f"{warning.rstrip('.')}." for warning in posterior.warnings]
    if spread is None:
        clause = "there was a single run, so that nothing says whether the sampler would find this again"
        return Verdict(False, "One run only", clause, tuple(sentences))
    if not accurate:
        clause = f"but the sampler has not converged yet, its runs differ by up to {within(spread)}"
        return Verdict(False, "Not converged", clause, tuple(sentences))
    clause = f"the sampler agrees with itself to within {within(spread)}"
    return Verdict(True, "Converged", clause, tuple(sentences))


def _spread(posterior: Posterior) -> float | None:
    """The largest difference between two replicates' inclusion probabilities; None with a single one."""
    pips = posterior.replicate_pips
    return None if pips is None or len(pips) < 2 else float(np.ptp(pips, axis=0).max())


def _agreement(posterior: Posterior, spread: float | None) -> list[str]:
    pips = posterior.replicate_pips
    if spread is None or pips is None:
        return ["With a single run there is nothing to compare; sample with replicates=4."]
    name = posterior.problem.names[int(np.argmax(np.ptp(pips, axis=0)))]
    runs = number(len(pips)).capitalize()
    if spread == 0:
        return [f"{runs} independent runs gave the same inclusion probabilities."]
    return [
        f"{runs} independent runs gave inclusion probabilities that differ by up to {within(spread)} (most for {name})."
    ]


def _accuracy(posterior: Posterior, worst: float) -> str:
    if worst == 0:
        return "No Monte Carlo error could be computed."
    name = posterior.problem.names[int(np.nanargmax(posterior.mcse))]
    judged = "small enough" if worst <= ACCEPTABLE else "too large"
    return (
        f"The largest Monte Carlo standard error of an inclusion probability is {decimal(worst)} ({name}); that is {judged}, "
        f"the limit being {decimal(ACCEPTABLE)}."
    )


def sources(posterior: Posterior) -> list[str]:
    """What to cite: the software, and the paper behind the sampler."""
    found = [text for names, text in SOURCES if re.search(rf"\b({names})\(", posterior.sampler)]
    return [SOFTWARE, *found]
