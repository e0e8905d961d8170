"""The results of a posterior in plain words."""

from dataclasses import dataclass

import numpy as np

from whichvars.plots.drawing import short
from whichvars.posterior.conditions import condition_words
from whichvars.posterior.diagnostics import doubts
from whichvars.posterior.explaining import trust
from whichvars.posterior.methods import EVIDENCE_WORDS
from whichvars.posterior.pooling import PooledPosterior
from whichvars.posterior.posterior import Posterior
from whichvars.posterior.shrinkage import has_unknown_g
from whichvars.posterior.tables import LEVELS, in_words
from whichvars.problem.families import Gaussian, is_linear
from whichvars.problem.problem import Problem

SO_FAR = {"almost certainly in": ".95 or more", "probably in": ".5 to .95", "plausible": ".1 to .5"}
NOT_YET = "Do not trust these numbers yet"
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
MOST_NAMES, MOST_IN_MODEL = 12, 40
# most characters of a name in a sentence
LONGEST_NAME = 60

SOFTWARE = "The whichvars developers. whichvars: Bayesian variable selection by adaptive MCMC."


@dataclass(frozen=True)
class Verdict:
    """Says whether the probabilities can be relied on."""

    sound: bool
    mark: str  # a word or two
    clause: str  # ends the opening sentence, or begins it if the result is not sound
    sentences: tuple[str, ...]  # the full explanation
    reasons: tuple[str, ...] = ()  # what speaks against trusting it


def number(n: int) -> str:
    """
    >>> number(0), number(2), number(22576)
    ('no', 'two', '22,576')
    """
    return SMALL[n] if n < len(SMALL) else f"{n:,}"


def within(difference: float) -> str:
    """A bound with two decimals, rounded up, without the zero before the point.

    >>> within(0.0012), within(0.0101), within(0.2), within(1.0)
    ('.01', '.02', '.20', '1')
    """
    hundredths = max(1, int(np.ceil(100 * difference - 1e-9)))
    return f".{hundredths:02d}" if hundredths < 100 else "1"


def by_much(difference: float) -> str:
    """By how much numbers differ.

    >>> by_much(0.0012), by_much(0.0101)
    ('by less than .01', 'by up to .02')
    """
    return "by less than .01" if difference < 0.01 else f"by up to {within(difference)}"


def listed(names: list[str], most: int = MOST_NAMES) -> str:
    """
    >>> listed(["a"]), listed(["a", "b", "c"]), listed(["a", "b", "c", "d"], most=2)
    ('a', 'a, b and c', 'a, b and 2 more')
    """
    if len(names) > most:
        return f"{', '.join(names[:most])} and {len(names) - most:,} more"
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)


def listed_short(names: list[str], most: int = MOST_NAMES) -> str:
    """The same with names of a length that fits into a sentence."""
    return listed([short(name, LONGEST_NAME) for name in names], most)


def model_words(members: list[str], names: list[str]) -> str:
    """The variables of a model. If it has nearly all `names`, those that it does not have are listed instead.

    >>> model_words([], ["a"]), model_words(["a", "b"], ["a", "b", "c"])
    ('none', 'a and b')
    >>> model_words(list("abcdefghijklm"), list("abcdefghijklmno")), model_words(list("abcdefghijklm"), list("abcdefghijklm"))
    ('all except n and o', 'all')
    """
    if len(members) <= MOST_NAMES or len(names) >= 2 * len(members):
        return listed_short(members, MOST_IN_MODEL) or "none"
    present = set(members)
    absent = [name for name in names if name not in present]
    return f"all except {listed_short(absent, MOST_IN_MODEL)}" if absent else "all"


def about_data(problem: Problem) -> str:
    """The response, the file it comes from, and the rows that were left out; empty if none of these is known."""
    record = problem.record
    what = " ".join(
        [f"Response: {problem.response}"] * bool(problem.response)
        + [f"from {record.file}"] * bool(record.file)
    )
    if not record.rows_dropped:
        return what[:1].upper() + what[1:]
    left = f"{record.rows_dropped:,} of {record.rows_read:,} rows left out because of missing values"
    what = f"{what}; {left}" if what else left
    return what[:1].upper() + what[1:]


def by_level(posterior: Posterior | PooledPosterior) -> list[tuple[str, list[str]]]:
    """("almost certainly in", names), … for the levels that have any variables, most probable first."""
    order = np.argsort(-posterior.pip, kind="stable")
    names: dict[str, list[str]] = {words: [] for _, words in LEVELS}
    for j in order[: int((posterior.pip >= LEVELS[-1][0]).sum())]:
        names[in_words(posterior.pip[j])].append(posterior.problem.names[j])
    return [(words, some) for words, some in names.items() if some]


def stand_ins(posterior: Posterior) -> list[tuple[list[str], float, float]]:
    """Sets of variables of which at least one is in the model, although the data cannot say which; with the probability of this and
    its Monte Carlo error."""
    clusters = posterior.clusters(level=LEVELS[0][0])
    clusters = clusters[clusters["size"] > 1]
    return list(zip(clusters["variables"], clusters["probability"], clusters["mcse"]))


def answer(posterior: Posterior) -> str:
    """The result in a sentence. If it should not be trusted, this is said first, and the numbers are not interpreted."""
    given = "" if posterior.condition is None else f"Given {condition_words(posterior.condition)}: "
    return given + _answer(posterior)


def _answer(posterior: Posterior) -> str:
    return answer_of(by_level(posterior), stand_ins(posterior), verdict(posterior), posterior.problem.p)


def answer_of(
    levels: list[tuple[str, list[str]]], sets: list[tuple[list[str], float, float]], opinion: Verdict, p: int
) -> str:
    """The result of p variables in a sentence, from their levels, their sets of stand-ins and whether they can be relied on."""
    if not opinion.sound:
        return f"{opinion.clause}. {_so_far(levels)}."
    certain = bool(levels) and levels[0][0] == LEVELS[0][1]
    one = (
        f"one of {listed(sets[0][0], 4)}"
        if len(sets) == 1
        else f"one each of {number(len(sets))} sets of stand-ins"
    )
    clauses = []
    if certain:
        names = levels[0][1]
        plural, verb = ("", "is") if len(names) == 1 else ("s", "are")
        clauses.append(f"{number(len(names))} variable{plural} {verb} {LEVELS[0][1]} the model")
        clauses += [f"so is {one}"] if sets else []
    elif sets:
        clauses.append(f"no single variable is {LEVELS[0][1]} the model, but {one} is")
    elif levels:
        clauses.append(f"no variable is {LEVELS[0][1]} the model")
    else:
        which = "the only variable has not" if p == 1 else f"none of the {p:,} variables has"
        clauses.append(f"no variable stands out: {which} an inclusion probability of .1 or more")
    for words, names in levels[certain:]:
        clauses.append(
            f"{number(len(names))}{' more' * certain} {'is' if len(names) == 1 else 'are'} {words}"
        )
    text = "; ".join([*clauses, opinion.clause])
    return text[0].upper() + text[1:] + "."


def _so_far(levels: list[tuple[str, list[str]]]) -> str:
    """The numbers of variables by probability, without interpretation."""
    if not levels:
        return "So far, no variable has an inclusion probability of .1 or more"
    counts = [f"{number(len(names))} of {SO_FAR[words]}" for words, names in levels]
    one = len(levels[0][1]) == 1
    first, *others = counts
    first = first.replace(
        " of ", f" variable{'' if one else 's'} {'has' if one else 'have'} an inclusion probability of ", 1
    )
    return f"So far, {listed([first, *others])}"


def verdict(posterior: Posterior) -> Verdict:
    """Whether the probabilities can be relied on, and why: what ``explain`` says, without the result itself."""
    why = trust(posterior)
    reasons = tuple(doubts(posterior))
    sound = not reasons
    if posterior.models.exact:
        clause = "the probabilities are exact" if sound else NOT_YET
        return Verdict(sound, "Exact" if sound else NOT_YET, clause, tuple(why), reasons)
    spread = largest_spread(posterior)
    sentences = (*why[:1], *_agreement(posterior, spread), *why[1:])
    if not sound:
        apart = f": independent runs differ {by_much(spread)}" if spread else ""
        return Verdict(False, NOT_YET, f"{NOT_YET}{apart}", sentences, reasons)
    if spread is None:
        return Verdict(
            True, "Accurate", "there was only one run, which cannot be compared with others", sentences
        )
    return Verdict(True, "Converged", f"independent runs agree to within {within(spread)}", sentences)


def largest_spread(posterior: Posterior) -> float | None:
    """The largest difference between two replicates' inclusion probabilities; None with a single one."""
    pips = posterior.replicate_pips
    return None if pips is None or len(pips) < 2 else float(np.ptp(pips, axis=0).max())


def _agreement(posterior: Posterior, spread: float | None) -> list[str]:
    pips = posterior.replicate_pips
    if spread is None or pips is None:
        return ["A single run cannot be compared with others; sample with replicates=4."]
    name = posterior.problem.names[int(np.argmax(np.ptp(pips, axis=0)))]
    runs = number(len(pips)).capitalize()
    if spread == 0:
        return [f"{runs} independent runs gave the same inclusion probabilities."]
    return [
        f"{runs} independent runs gave inclusion probabilities that differ {by_much(spread)} (most for {name})."
    ]


# names of scores in the line of facts
SCORES = {"auc": "area under the ROC curve", "brier": "Brier score", "pearson": "Pearson dispersion"}


def shown_scores(posterior: Posterior) -> dict[str, float]:
    """Scores of probabilities and rates for the line of facts: every row is predicted from all others."""
    if is_linear(posterior.problem.family):
        return {}
    scores = {name: float(value) for name, value in posterior.scores().items() if name in ("auc", "brier")}
    return scores | ({} if posterior.pearson is None else {"pearson": posterior.pearson.ratio})


def words_of_g(posterior: Posterior) -> str:
    """The posterior of an unknown g of the independent slab; empty if there is none."""
    if not has_unknown_g(posterior.problem) or not posterior.kept.start[-1]:
        return ""
    shares = posterior.estimated_g()["posterior"]
    up_to = shares.cumsum()
    low, middle, high = (shares.index[int((up_to < level).sum())] for level in (0.05, 0.5, 0.95))
    return f"median {middle:.3g}, 90 % from {low:.3g} to {high:.3g}"


def family_settings(problem: Problem) -> list[tuple[str, str]]:
    """The family, and how its marginal likelihoods were computed."""
    if isinstance(problem.family, Gaussian):
        return []
    assert problem.fit_data is not None
    counted = f"{problem.classes[1]} counts as 1, {problem.classes[0]} as 0" if problem.classes else ""
    return [
        ("Family of the response", str(problem.family)),
        ("Its values", counted),
        ("Offset", "given" if len(problem.fit_data.given) else ""),
        ("Marginal likelihoods", EVIDENCE_WORDS[problem.evidence]),
    ]


def sources(posterior: Posterior | PooledPosterior) -> tuple[str, list[str]]:
    """A paragraph for a paper, and references."""
    paragraph, _, references = posterior.methods().partition("\n\nReferences\n")
    return paragraph, [SOFTWARE, *(line.removeprefix("- ") for line in references.splitlines())]
