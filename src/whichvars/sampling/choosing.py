"""Which sampler: their names, and which one "auto" takes. Nothing heavy is imported before it is needed."""

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NamedTuple

from whichvars import samplers
from whichvars.errors import ArgumentTypeError

if TYPE_CHECKING:
    from whichvars.problem.problem import Problem
    from whichvars.samplers.contract import Sampler

# as the command line calls them
SAMPLERS = {module.replace("_", "-"): name for module, name in samplers.SAMPLERS.items()}
ENUMERATE = 1 << 20  # models that "auto" looks at one by one: about a second
MODELS_A_SECOND = 500_000  # at least, of enumeration


def check_sampler(sampler: Any) -> "Sampler":
    """The sampler; what is none is refused, with a guess of what was meant."""
    if isinstance(sampler, (str, type)) or not hasattr(sampler, "advance"):
        name = sampler.__name__ if isinstance(sampler, type) else _meant(sampler)
        hint = f"; did you mean {name}()?" if name else ""
        raise ArgumentTypeError(
            f'sampler must be "auto" or an object such as Hybrid(), not {sampler!r}{hint}'
        )
    return sampler


def _meant(sampler: Any) -> str:
    """The class that a word stands for.

    >>> _meant("hybrid"), _meant("parallel_tempering"), _meant("SMC"), _meant("tempered gibs"), _meant("nuts")
    ('Hybrid', 'ParallelTempering', 'SequentialMonteCarlo', 'TemperedGibbs', '')
    """
    words = {name.replace("-", ""): cls for name, cls in SAMPLERS.items()}
    words |= {cls.lower(): cls for cls in SAMPLERS.values()}
    said = "".join(letter for letter in str(sampler).lower() if letter.isalnum())
    return words[close[0]] if (close := get_close_matches(said, words, n=1, cutoff=0.75)) else ""


class Choice(NamedTuple):
    """What "auto" takes (None: enumeration), and why."""

    sampler: "Sampler | None"
    why: str


def choose(problem: "Problem", draws: int | None, seconds: float | None) -> Choice:
    """What "auto" takes for a problem.

    >>> import whichvars as wv
    >>> data = wv.datasets.load_uscrime()
    >>> choose(wv.Problem(data.X, data.y), None, None).why
    'all 32,768 models are few enough to be looked at one by one'
    """
    from whichvars.samplers.hybrid import Hybrid
    from whichvars.sampling.exact import number_of_models

    total = number_of_models(problem)
    most = ENUMERATE if seconds is None else min(max(ENUMERATE, int(MODELS_A_SECOND * seconds)), 1 << 24)
    if draws is None and total <= most:
        return Choice(None, f"all {total:,} models are few enough to be looked at one by one")
    reason = (
        "draws were asked for"
        if total <= most
        else f"{problem.p:,} variables make too many models to look at each"
    )
    return Choice(
        Hybrid(),
        f"{reason}, and the hybrid sampler is near the best on all kinds of posteriors it was tried on",
    )
