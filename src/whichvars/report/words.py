"""What a posterior says, in plain words."""

from dataclasses import dataclass

import numpy as np

from whichvars import methods
from whichvars.posterior import Posterior

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
    """Whether the probabilities can be relied on, and why: what ``explain`` says but for the answer itself."""
    why = posterior.explain().splitlines()[1:]
    if posterior.models.exact:
        return Verdict(True, "Exact", "the probabilities are exact", tuple(why))
    spread = _spread(posterior)
    sentences = (*_agreement(posterior, spread), *why)
    if spread is None:
        clause = "there was a single run, so that nothing says whether the sampler would find this again"
        return Verdict(False, "One run only", clause, sentences)
    if not posterior.converged:
        clause = f"but the sampler has not converged yet, its runs differ by up to {within(spread)}"
        return Verdict(False, "Not converged", clause, sentences)
    clause = f"the sampler agrees with itself to within {within(spread)}"
    if np.isnan(posterior.mcse).all():
        return Verdict(False, "Nothing moved", clause, sentences)
    return Verdict(True, "Converged", clause, sentences)


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


def sources(posterior: Posterior) -> list[str]:
    """What to cite: the software, and the papers behind the sampler."""
    return [SOFTWARE, *methods.sources(posterior.sampler)]
