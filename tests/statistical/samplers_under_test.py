"""Every sampler of the package, with the settings under which the statistical tests run it.

To add a sampler, add a line to SAMPLERS: the tests against enumeration, of invariance and of prior recovery
take it from there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

import whichvars as wv
from support.branching import draw_additions_by_coins
from support.scores import RUNS
from whichvars._kernels.propose.informed import set_estimate, set_scale
from whichvars.samplers import asi, parni

FEWEST_RUNS = 6


@dataclass(frozen=True)
class UnderTest:
    """A sampler's settings and how it is tested.

    settings: run against enumeration and, at inverse temperature 0, against the prior.
    cases: "full", every slab with every model prior and all hard cases; "reduced", every slab once and half of the
        hard cases; "few", every slab once, every model prior, and some hard cases among them.
    quick: which of its cases are in ``make test``; the others are in ``make test-slow``. "some" are three of the "few",
        others for each such setting: for those that differ from one of KINDS in what they remember, in how many chains they
        have or in how they move, so that the kind has shown already that slabs and priors are right. Those that move by rates
        have all of the few: a wrong rate is hardly to be seen in some cases, and three of them may miss it.
    draws: counted iterations of each run (None: the tests' own numbers, one for ``make test`` and a larger one). With
        several chains, so many that batches are long beside the chains' memory: reported errors rest on it.
    quick_draws: the same in ``make test``, if not `draws`.
    strong_draws: the same in cases of strong evidence that ``make test-slow`` has, if not those of ``make test``: for samplers that change one
        stand-in for another so seldom that a short run cannot know its error.
    runs: how many of them each case has in ``make test-slow``; fewer where they must be long.
    rms: limit of the root mean square of all scores together. 1 is expected; more is allowed where adaptation goes
        on while draws are counted, which has a bias that falls with the length of the run: one that a user
        would not see beside the Monte Carlo error of a run, but that 16 runs of 16 cases show.
    one_step: settings under which one iteration of one chain is a Markov kernel whose random numbers are
        uniforms that are only compared or multiplied and truncated (no logarithms): adaptation off, plain
        loops. Its transition matrix is worked out exactly. None: not done.
    prepare: called with the problem and the run after ``init`` where one_step needs it, for instance to set
        learned quantities to values that are not symmetric.
    strong: which cases of strong evidence ``make test`` has: "all" of the quick ones, "few" or "one"; the others are
        in ``make test-slow``.
    jumps: whether it moves by rates. Then it meets every structure with every slab, strengths in turn; all samplers meet every slab
        at every strength, structures in turn.
    swaps: whether it exchanges one variable for another in one step, or goes through models of no mass. If not it
        cannot move where strong variables leave no room below the maximal size, and is not asked to. ASI can, but learns with which
        variables from conditional probabilities, and those say nothing of variables for which there is no room.
    tempers: whether the chains keep an inverse temperature that is set from outside (prior recovery, and
        matrices away from 1; at which temperatures: all that cost little). Those that move by rates do not: their rates
        are the posterior's.
    """

    settings: Any
    cases: Literal["full", "reduced", "few"] = "reduced"
    quick: Literal["full", "reduced", "few", "some"] = "full"
    draws: int | None = None
    quick_draws: int | None = None
    strong_draws: int | None = None
    runs: int = RUNS
    rms: float = 1.3
    strong: Literal["all", "few", "one"] = "few"
    jumps: bool = False
    swaps: bool = True
    one_step: Any = None
    prepare: Callable[[Any, Any], None] | None = None
    tempers: bool = True
    temperatures: tuple[float, ...] = (1.0, 0.3, 0.0)

    def runs_of(self, length: str) -> int:
        """How many runs a case has: half as many in ``make test``, but not too few for a spread between them."""
        return self.runs if length == "long" else max(self.runs // 2, FEWEST_RUNS)


def uneven_probabilities(problem: Any, run: Any) -> None:
    """Adding and deleting probabilities as if learned: all different, A and D of a variable unrelated."""
    values = run.units[0].own[0].values
    values[:, 0] = np.linspace(0.15, 0.6, problem.p)
    values[:, 1] = np.linspace(0.9, 0.2, problem.p)


def uneven_omega(problem: Any, run: Any) -> None:
    run.units[0].own[0][0] = -0.4


def uneven_estimates(problem: Any, run: Any) -> None:
    """π̂ as if learned, and ζ and ω; variables that enter are drawn by coins."""
    own = run.units[0].own
    set_estimate(own.informed, np.linspace(0.2, 0.7, problem.p))
    set_scale(own.informed, 0.85)
    own.floats[parni.LOGIT_OMEGA] = 0.4
    asi.draw_additions = parni.draw_additions = draw_additions_by_coins


frozen = wv.IndividualAdaptation(freeze_after=0, additions="coins", memo_slots=64)

SAMPLERS: dict[str, UnderTest] = {
    "ads": UnderTest(
        wv.AddDeleteSwap(), cases="full", one_step=wv.AddDeleteSwap(memo_slots=64), quick="reduced"
    ),
    "ads-no-swap": UnderTest(
        wv.AddDeleteSwap(swap=0),
        one_step=wv.AddDeleteSwap(swap=0, memo_slots=64),
        quick="some",
        strong="one",
        swaps=False,
    ),
    "ads-small-memo": UnderTest(
        wv.AddDeleteSwap(memo_slots=64),
        one_step=wv.AddDeleteSwap(swap=0.9, memo_slots=4),
        quick="some",
        strong="one",
    ),
    "ads-no-memo": UnderTest(
        wv.AddDeleteSwap(memo_slots=0), one_step=wv.AddDeleteSwap(memo_slots=0), quick="some", strong="one"
    ),
    "lamnisos": UnderTest(
        wv.Lamnisos(),
        one_step=wv.Lamnisos(max_changes=3, freeze_after=0, memo_slots=64),
        prepare=uneven_omega,
        quick="few",
    ),
    "rapa": UnderTest(
        wv.IndividualAdaptation(),
        cases="full",
        rms=1.6,
        one_step=frozen,
        prepare=uneven_probabilities,
        quick="reduced",
    ),
    "ia": UnderTest(wv.IndividualAdaptation(w=0), rms=1.6, quick="some", strong="one"),
    "ia-coins-frozen": UnderTest(
        wv.IndividualAdaptation(w=0, freeze_after=1000, additions="coins"),
        one_step=frozen,
        quick="some",
        strong="one",
    ),
    "rapa-5": UnderTest(
        wv.IndividualAdaptation(chains=5, merge_every=500),
        draws=100_000,
        quick_draws=50_000,
        rms=1.6,
        quick="few",
        strong="one",
    ),
    "rapa-25": UnderTest(
        wv.IndividualAdaptation(chains=25, freeze_after=500, merge_every=370),
        cases="few",
        draws=250_000,
        quick_draws=125_000,
        runs=6,
        quick="some",
        strong="one",
    ),
    "pt-rapa": UnderTest(
        wv.ParallelTempering(rungs=4),
        draws=15_000,
        rms=1.6,
        tempers=False,
        quick="few",
        strong="one",
    ),
    "pt-ia-3": UnderTest(
        wv.ParallelTempering(wv.IndividualAdaptation(w=0), rungs=2, chains=3, merge_every=500),
        cases="few",
        draws=60_000,
        quick_draws=30_000,
        strong_draws=150_000,
        rms=1.6,
        tempers=False,
        strong="one",
        quick="some",
    ),
    "pt-ads": UnderTest(
        wv.ParallelTempering(wv.AddDeleteSwap(), rungs=3),
        cases="few",
        draws=15_000,
        tempers=False,
        strong="one",
        quick="some",
    ),
    "pt-lamnisos": UnderTest(
        wv.ParallelTempering(wv.Lamnisos(), rungs=2),
        cases="few",
        draws=15_000,
        tempers=False,
        strong="one",
        quick="some",
    ),
    "pt-one-rung": UnderTest(
        wv.ParallelTempering(wv.AddDeleteSwap(), rungs=1),
        cases="few",
        one_step=wv.ParallelTempering(wv.AddDeleteSwap(), rungs=1, memo_slots=64),
        tempers=False,
        strong="one",
        quick="some",
    ),
    "asi": UnderTest(
        wv.ASI(),
        one_step=wv.ASI(chains=1, memo_slots=64),
        prepare=uneven_estimates,
        quick="few",
        swaps=False,
    ),
    "asi-always": UnderTest(
        wv.ASI(adapt="always", memo_slots=64), cases="few", rms=1.6, quick="some", strong="one", swaps=False
    ),
    "asi-1": UnderTest(
        wv.ASI(chains=1),
        cases="few",
        quick="some",
        strong="one",
        swaps=False,
    ),
    "asi-1-always": UnderTest(
        wv.ASI(chains=1, adapt="always", memo_slots=0),
        cases="few",
        strong_draws=50_000,
        rms=1.6,
        quick="some",
        strong="one",
        swaps=False,
    ),
    "parni": UnderTest(
        wv.PARNI(),
        one_step=wv.PARNI(chains=1, memo_slots=64),
        prepare=uneven_estimates,
        temperatures=(1.0,),
        quick="few",
        swaps=False,
    ),
    "parni-1-always": UnderTest(
        wv.PARNI(chains=1, adapt="always", memo_slots=64),
        cases="few",
        rms=1.6,
        quick="some",
        strong="one",
        swaps=False,
    ),
    "tempered-gibbs": UnderTest(
        wv.TemperedGibbs(),
        cases="few",
        tempers=False,
        jumps=True,
    ),
    "tempered-gibbs-4-rates": UnderTest(
        wv.TemperedGibbs(floor=1, draw_every=2, table_bytes=1, memo_slots=0),
        cases="few",
        tempers=False,
        jumps=True,
    ),
    "hybrid": UnderTest(
        wv.Hybrid(),
        tempers=False,
        quick="few",
        jumps=True,
        strong="all",
    ),
    "hybrid-4-rates": UnderTest(
        wv.Hybrid(table_bytes=1, memo_slots=64),
        cases="few",
        tempers=False,
        jumps=True,
    ),
    "hybrid-fixed": UnderTest(
        wv.Hybrid(chains=3, floor=0.5, moves=3, draw_rate=0.4, memo_slots=0),
        cases="few",
        tempers=False,
        jumps=True,
    ),
    "hybrid-no-moves": UnderTest(
        wv.Hybrid(moves=0, draw_rate=2.0),
        tempers=False,
        quick="few",
        jumps=True,
    ),
    # exact weights make the PIPs of small spaces exact, whatever the chains do: these show what the chains do
    "hybrid-by-time": UnderTest(
        wv.Hybrid(exact_weights=False),
        tempers=False,
        jumps=True,
        strong="all",
    ),
    "tempered-gibbs-by-time": UnderTest(
        wv.TemperedGibbs(exact_weights=False),
        tempers=False,
        quick="few",
        jumps=True,
        strong="all",
    ),
    "subset-gibbs": UnderTest(
        wv.SubsetGibbs(subset=4, anchors=2, chains=5),
        cases="reduced",
        draws=15_000,
        tempers=False,
        quick="few",
        jumps=True,
        strong="all",
    ),
}

# One setting of each kind of sampler. Starts, threads, chunks, lengths and the consistency of results depend on the kind; the other
# settings are tried with them by ``make test-slow``.
KINDS = (
    "ads", "lamnisos", "rapa-5", "pt-rapa", "asi", "parni", "tempered-gibbs", "hybrid", "hybrid-by-time", "subset-gibbs",
)  # fmt: skip

# Settings of which ``make test`` has three cases or one, not the same for all of them
IN_TURN = [name for name, tested in SAMPLERS.items() if tested.quick == "some"]


def kinds_first() -> list[Any]:
    """The names of all settings; those that are not in KINDS are slow."""
    import pytest  # the wheel is tried where there is none

    assert set(KINDS) <= SAMPLERS.keys()
    return [name if name in KINDS else pytest.param(name, marks=pytest.mark.slow) for name in SAMPLERS]
