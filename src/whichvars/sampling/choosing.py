"""The names of the samplers, and the one that "auto" chooses. Samplers are only imported when they are needed."""

import math
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NamedTuple

from whichvars import samplers
from whichvars.errors import ArgumentTypeError

if TYPE_CHECKING:
    from whichvars.problem.moment_priors import MomentPrior
    from whichvars.problem.problem import Problem
    from whichvars.samplers.contract import Sampler

# names on the command line
SAMPLERS = {module.replace("_", "-"): name for module, name in samplers.SAMPLERS.items()}
# most models that "auto" enumerates: a second or two
ENUMERATE = 1 << 20
# seconds for which "auto" fits all models if the family is not Gaussian
ENUMERATE_SECONDS = 10.0
# least speed of enumeration
MODELS_A_SECOND = 500_000
# columns beyond which nobody enumerates, so that costs need not be known
MOST_COLUMNS = 40


def check_sampler(sampler: Any) -> "Sampler":
    """The sampler; anything else is an error, with a guess of what was meant."""
    if isinstance(sampler, (str, type)) or not hasattr(sampler, "advance"):
        name = sampler.__name__ if isinstance(sampler, type) else _meant(sampler)
        hint = f"; did you mean {name}()?" if name else ""
        raise ArgumentTypeError(
            f'sampler must be "auto" or an object such as Hybrid(), not {sampler!r}{hint}'
        )
    return sampler


def fits_a_second(problem: "Problem") -> float:
    """About how many models can be fitted in a second, on average over all models, or evaluated under a non-local slab, or averaged over g, where
    those of half of the variables are counted; enough to choose by."""
    if problem.unknown_g:
        from whichvars._kernels.averaging import average_cost

        return 1e9 / (5_000 + average_cost(len(problem.target(0).slab.grid), len(problem.columns_used) / 2))
    from whichvars.problem.evaluating import WORTH_COST_OF_MANY
    from whichvars.problem.moment_priors import MomentPrior

    if problem.family.name == "gaussian":
        extra = 0.0
        if isinstance(problem.slab, MomentPrior):
            extra = _mean_cost(problem.slab, len(problem.columns_used))
        return 1e9 / (WORTH_COST_OF_MANY + extra)
    return 1e9 / _mean_cost_of_fits(problem)


def _mean_cost_of_fits(problem: "Problem") -> float:
    """What the marginal likelihood of a model of another family costs on average over all models, in nanoseconds: a fit, and importance
    sampling where models are large or have many columns for their rows, which takes ten times as long.

    >>> import numpy as np, whichvars as wv
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(150, 30)), rng.integers(2, size=150)
    >>> few, all_ = (wv.Problem(X[:, :p], y, family="logistic") for p in (8, 30))
    >>> print(round(_mean_cost_of_fits(few) / 1e3), round(_mean_cost_of_fits(all_) / 1e3))
    31 514
    """
    n, columns = problem.n, min(len(problem.columns_used), MOST_COLUMNS)
    sampled_above = {"importance": -1.0, "auto": min(20.0, 0.8 * math.sqrt(n))}.get(
        problem.evidence, math.inf
    )

    def cost(k: int) -> float:
        fit = 5_000 + n * (120 + 2 * (1 + k) ** 2)
        return fit + (60_000 + n * (1_500 + 60 * k) if k > sampled_above else 0)

    return sum(math.comb(columns, k) * cost(k) for k in range(columns + 1)) / 2**columns


def _mean_cost(slab: "MomentPrior", columns: int) -> float:
    """What the factor of a model costs on average over all models: large ones cost far more than those of half of the columns.

    >>> import whichvars as wv
    >>> print(round(_mean_cost(wv.ProductMoment(), 8) / 1e3), round(_mean_cost(wv.ProductMoment(), 15) / 1e3))
    13 1743
    """
    from whichvars.problem.moment_factors import factor_cost

    columns = min(columns, MOST_COLUMNS)
    return sum(math.comb(columns, k) * factor_cost(slab, k) for k in range(columns + 1)) / 2**columns


def _meant(sampler: Any) -> str:
    """The name of the sampler's class that a string probably means, or "".

    >>> _meant("hybrid"), _meant("parallel_tempering"), _meant("SMC"), _meant("tempered gibs"), _meant("nuts")
    ('Hybrid', 'ParallelTempering', 'SequentialMonteCarlo', 'TemperedGibbs', '')
    """
    words = {name.replace("-", ""): cls for name, cls in SAMPLERS.items()}
    words |= {cls.lower(): cls for cls in SAMPLERS.values()}
    given = "".join(letter for letter in str(sampler).lower() if letter.isalnum())
    return words[close[0]] if (close := get_close_matches(given, words, n=1, cutoff=0.75)) else ""


class Choice(NamedTuple):
    """What "auto" chooses (None means enumeration), and why."""

    sampler: "Sampler | None"
    why: str


def choose(problem: "Problem", draws: int | None, seconds: float | None) -> Choice:
    """Choose a sampler for a problem, as "auto" does.

    >>> import whichvars as wv
    >>> data = wv.datasets.load_uscrime()
    >>> choose(wv.Problem(data.X, data.y), None, None).why
    'all 32,768 models can be enumerated quickly'
    """
    from whichvars.samplers.hybrid import Hybrid
    from whichvars.sampling.exact import MAX_FITS, number_of_models

    total, most, done = number_of_models(problem), ENUMERATE, "enumerated"
    if problem.one_by_one:
        most = min(int(max(ENUMERATE_SECONDS, seconds or 0.0) * fits_a_second(problem)), MAX_FITS)
        done = "enumerated" if problem.family.name == "gaussian" else "fitted"
    elif seconds is not None:
        most = min(max(ENUMERATE, int(MODELS_A_SECOND * seconds)), 1 << 24)
    if draws is None and total <= most:
        return Choice(None, f"all {total:,} models can be {done} quickly")
    reason = (
        "draws were asked for"
        if total <= most
        else f"{problem.p:,} variables give more models than can be {done} quickly"
    )
    merit = "the hybrid sampler was close to the best on most kinds of posteriors it was tested on"
    return Choice(Hybrid(), f"{reason}, and {merit}")
