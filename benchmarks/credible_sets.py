"""Credible sets of fine mapping on data simulated from real genotypes: coverage, power and size, beside susieR if R has it.

Genotypes are mosaics of the 574 people of N3finemapping (1,001 variants, without phase). A new person copies one of them, and from each variant to
the next changes to another one with probability 1/SEGMENT. LD is that of real genotypes over about SEGMENT variants, and no two people are the
same. Half of the real people make the people of the study, the other half those of a reference panel, so that these two share nobody.

A data set has n people, and k variants with the same share of the variance of y each, their signs at random. A credible set covers if one of its
variants has an effect. Power is the share of variants with an effect that are in a set; variants that are never polymorphic enough have none.

Sets of whichvars have two meanings: at least one member is in the model with a probability of 95 %, or with 95 % of the probability that the
signal is there at all. The second is that of susieR, whose effects are there by assumption. It drops an effect only if its prior variance is
estimated as 0, that is if no variance makes the data more probable than without the effect; and sets that are not pure, which are those of
effects that could be anywhere. A set that is pure has 95 % of the evidence among all variants, so that the evidence for it is some 19 times
that for the others together. Therefore sets given the signal are shown at several least probabilities of the signal; SIGNAL is the one that is compared with susieR.

Differences from susieR are paired: of power, within data sets; of size, between two sets that share a variant, one of each method. They
are averaged within data sets, and their standard errors are those of a mean over data sets.

In the first data sets the alleles of one variant are swapped too, where |z| > 4 and some |r| > 0.6: is the variant named, or the region refused?
"""

import json
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import whichvars as wv
from benchmarks import common
from benchmarks.common import ROOT
from whichvars.problem.genetics import default_region_prior, default_slab, wide_enough

# expected length of a copied segment; share of the variance that each effect explains; least variance of a variant with an effect
SEGMENT, SHARE, LEAST_VARIANCE = 200, 0.03, 0.1
EFFECTS = (1, 2, 3, 5)
METHODS = (
    "whichvars",
    "whichvars, given the signal",
    "susieR",
    "whichvars, panel",
    "whichvars, panel, given the signal",
    "susieR, panel",
)
# the same posterior, with sets that mean what those of susieR mean; the least probability of their signals, and others that are shown
GIVEN = ", given the signal"
SIGNAL, SIGNALS = 0.8, (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
GIVEN_NOTE = (
    f"*given the signal*: the same posterior, with sets given that there is an effect, of signals with a probability of at least {SIGNAL:g} "
    f"(`credible_sets(signal={SIGNAL:g})`), which is what sets of susieR mean; "
)
FLIP = "flip"
# in which order methods are run on each block of data sets; z-scores with LD of the same people are not among them, as they give the posterior of the data
BLOCK = 25
PASSES = (("whichvars", "susieR"), ("whichvars, panel", "susieR, panel"), (FLIP,))
# draws of each replicate, until all errors are at most TARGET
DRAWS, TARGET = (2_500, 10_000, 40_000, 160_000), 0.02
# what each method is compared with
PAIRS = {"whichvars": "susieR", "whichvars, given the signal": "susieR", "whichvars, panel": "susieR, panel", "whichvars, panel, given the signal": "susieR, panel"}  # fmt: skip
# data sets of each number of effects in which an allele is swapped, and which variants can be
FLIPPED, FLIP_SCORE, FLIP_LD = 3, 4.0, 0.6

# reads a line with a folder and a method, writes the sets, and so on until there are no more lines
SUSIE = """
suppressMessages(library(susieR))
input <- file("stdin", "r")
while (length(line <- readLines(input, 1))) {
  task <- strsplit(line, "\\t")[[1]]
  read <- function(name) {
    path <- file.path(task[1], name)
    readBin(path, "double", file.size(path) / 8)
  }
  n <- length(read("y"))
  p <- length(read("z"))
  if (task[2] == "susieR") {
    X <- matrix(read("x"), n, p)
    y <- read("y")
    time <- system.time(fit <- susie(X, y, L = 10))
  } else {
    R <- matrix(read("panel"), p, p)
    z <- read("z")
    time <- system.time(fit <- susie_rss(z, R, n = n, L = 10))
  }
  sets <- sapply(fit$sets$cs, function(s) paste0("[", paste(s - 1, collapse = ","), "]"))
  cat("[", sum(time[1:2]), ",[", paste(sets, collapse = ","), "]]\\n", sep = "")
  flush(stdout())
}
"""


class Simulated(NamedTuple):
    X: np.ndarray
    y: np.ndarray
    causal: list[int]
    panel: np.ndarray  # correlations of other people


class Found(NamedTuple):
    sets: list[list[int]]
    seconds: float
    refused: str = ""  # why there is no answer
    signals: list[float] | None = None  # how probable the signal of each set is


def real_genotypes() -> np.ndarray:
    """Genotypes of the 574 people of N3finemapping, (574, 1001)."""
    with np.load(ROOT / "benchmarks" / "data" / "n3finemapping.npz", allow_pickle=False) as data:
        return data["X"].astype(float)


def mosaics(people: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """n new people who copy segments of those given."""
    p = people.shape[1]
    changes = rng.random((n, p)) < 1 / SEGMENT
    changes[:, 0] = True
    sources = rng.integers(len(people), size=(n, p))
    last = np.maximum.accumulate(np.where(changes, np.arange(p), 0), axis=1)
    return people[np.take_along_axis(sources, last, axis=1), np.arange(p)]


def simulate(effects: int, n: int, panel: int, seed: int) -> Simulated:
    """A data set with this many effects, and correlations of a panel of other people."""
    rng = np.random.default_rng([seed, effects])
    real = real_genotypes()
    order = rng.permutation(len(real))
    halves = real[order[: len(real) // 2]], real[order[len(real) // 2 :]]
    X, others = mosaics(halves[0], n, rng), mosaics(halves[1], panel, rng)
    both = (X.std(axis=0) > 1e-9) & (others.std(axis=0) > 1e-9)
    X, others = X[:, both], others[:, both]
    causal = rng.choice(np.flatnonzero(X.var(axis=0) > LEAST_VARIANCE), effects, replace=False)
    signs = rng.choice([-1.0, 1.0], effects)
    y = X[:, causal] / X[:, causal].std(axis=0) @ signs * np.sqrt(SHARE)
    y = y + rng.normal(size=n) * np.sqrt(max(1 - effects * SHARE, 0.1))
    return Simulated(X, y, sorted(causal.tolist()), np.corrcoef(others.T))


def scores(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """z-scores of simple regressions."""
    n, x, centred = len(y), X - X.mean(axis=0), y - y.mean()
    r = (x.T @ centred) / np.sqrt((x**2).sum(axis=0) * (centred**2).sum())
    return r * np.sqrt((n - 2) / (1 - r**2))


def by_whichvars(data: Simulated, method: str) -> dict[str, Found]:
    """The sets of level 95 % of one problem; from the data, or from z-scores with LD of the panel. Priors are the defaults of genotypes, and
    the number of draws is that of ``sample_many``: until all errors are at most 0.02. Sets of both meanings, by the method's name."""
    n, p = data.X.shape
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if method == "whichvars":
            prior = default_region_prior(p)
            problem = wide_enough(wv.Problem(data.X, data.y, slab=default_slab(), model_prior=prior))
        else:
            try:
                problem = wv.from_summary(z=scores(data.X, data.y), R=data.panel, n=n)
            except wv.DataError as error:  # z and LD contradict each other
                return {name: Found([], 0.0, str(error)) for name in (method, method + GIVEN)}
        seconds = 0.0
        for draws in DRAWS:
            posterior = wv.sample(problem, draws=draws, threads=1, progress=False, seed=1)
            seconds += posterior.cpu_seconds
            if posterior.converged and np.nanmax(posterior.mcse) <= TARGET:
                break
        usual, given = (
            sets[sets["reached"]]
            for sets in (posterior.credible_sets(), posterior.credible_sets(signal=min(SIGNALS)))
        )
    place = {name: j for j, name in enumerate(problem.all_columns)}
    usual_sets, given_sets = ([[place[v] for v in s] for s in sets["variables"]] for sets in (usual, given))
    return {
        method: Found(usual_sets, seconds),
        method + GIVEN: Found(given_sets, seconds, signals=given["signal"].tolist()),
    }


class Susie:
    """susieR with its defaults and ten effects, in one R process for all data sets."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._process: subprocess.Popen[str] | None = None
        if shutil.which("Rscript") is not None:
            script = Path(self._folder.name) / "susie.R"
            script.write_text(SUSIE)
            self._process = subprocess.Popen(
                ["Rscript", str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )

    def find(self, data: Simulated, method: str) -> Found | None:
        """The sets, from the data or with LD of the panel; None if susieR is not installed."""
        if self._process is None:
            return None
        folder = Path(self._folder.name)
        data.y.tofile(folder / "y")
        np.asfortranarray(data.X).T.tofile(folder / "x")
        data.panel.tofile(folder / "panel")
        scores(data.X, data.y).tofile(folder / "z")
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(f"{folder}\t{method}\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            self._process = None
            return None
        seconds, sets = json.loads(line)
        return Found(sets, seconds)

    def close(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            self._process.wait()
        self._folder.cleanup()


def row_of(data: Simulated, found: Found) -> dict[str, Any]:
    """What is kept of one method on one data set."""
    row = {"refused": found.refused, "seconds": found.seconds, "causal": data.causal} | counts(found.sets, data.causal)  # fmt: skip
    return row if found.signals is None else row | {"signals": found.signals}


def counts(sets: list[list[int]], causal: list[int]) -> dict[str, Any]:
    """The sets, how many of them cover, and how many variants with an effect are in them."""
    covering = sum(bool(set(s) & set(causal)) for s in sets)
    return {"sets": sets, "covering": covering, "found": len(set().union(*sets) & set(causal))}


def at_least(row: dict[str, Any], signal: float) -> dict[str, Any]:
    """The same row with the sets of signals that are so probable."""
    if row.get("signals") is None:
        return row
    return row | counts([s for s, own in zip(row["sets"], row["signals"]) if own >= signal], row["causal"])


def with_a_flip(data: Simulated, seed: int) -> dict[str, Any] | None:
    """Whether one swapped allele is named, or the region refused: with LD of the same people, and with that of the panel. None if no variant is
    strong enough."""
    rng = np.random.default_rng([seed, 25])
    z, outcome = scores(data.X, data.y), {}
    for method, R in (("same people", np.corrcoef(data.X.T)), ("panel", data.panel)):
        proxies = (np.abs(R) > FLIP_LD).sum(axis=1) > 1
        able = np.flatnonzero((np.abs(z) > FLIP_SCORE) & proxies)
        if not len(able):
            return None
        j = int(rng.choice(able))
        turned = z.copy()
        turned[j] = -turned[j]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                wv.from_summary(z=turned, R=R, n=len(data.y))
            except wv.DataError as error:
                outcome[method] = "named" if f"'x{j}'" in str(error) else "refused"
            else:
                outcome[method] = "missed"
    return outcome


def study(
    data_sets: int,
    n: int,
    panel: int,
    first: int = 0,
    done: frozenset[tuple[int, int, str]] = frozenset(),
) -> Iterator[dict[str, Any]]:
    """A row for each data set, number of effects and method, without those in `done`; and rows of the method FLIP."""
    susie = Susie()
    places = [
        (seed, effects, methods)
        for begin in range(first, first + data_sets, BLOCK)
        for methods in PASSES
        for seed in range(begin, min(begin + BLOCK, first + data_sets))
        for effects in EFFECTS
    ]
    try:
        for seed, effects, methods in places:
            wanted = [m for m in methods if (seed, effects, m) not in done and (m != FLIP or seed - first < FLIPPED)]  # fmt: skip
            if not wanted:
                continue
            data = simulate(effects, n, panel, seed)
            for method in wanted:
                row: dict[str, Any] = {"effects": effects, "data": seed, "method": method}
                if method == FLIP:
                    yield row | {"flip": with_a_flip(data, seed)}
                    continue
                if not method.startswith("susieR"):
                    for name, own in by_whichvars(data, method).items():
                        yield row | {"method": name} | row_of(data, own)
                elif (found := susie.find(data, method)) is not None:
                    yield row | row_of(data, found)
    finally:
        susie.close()


def measure(
    data_sets: int, n: int, panel: int, say: Callable[[str], None], keep: Path | None = None, first: int = 0
) -> dict[str, Any]:
    """The study, as it is written to a file. Rows are added to the file `keep` one by one; what is there already is not done again."""
    environment = common.environment()
    about = {"n": n, "panel": panel, "first": first}
    rows: list[dict[str, Any]] = []
    if keep is not None and keep.exists():
        head, *lines = keep.read_text().splitlines()
        if json.loads(head) != about:
            raise SystemExit(f"{keep.name} is of a run with other settings: {head}")
        rows = [json.loads(line) for line in lines]
    elif keep is not None:
        keep.write_text(json.dumps(about) + "\n")
    done = frozenset((row["data"], row["effects"], row["method"]) for row in rows)
    for row in study(data_sets, n, panel, first, done):
        rows.append(row)
        if keep is not None:
            with keep.open("a") as file:
                file.write(json.dumps(common.plain(row)) + "\n")
        say(f"data set {row['data'] - first + 1} of {data_sets}, {row['effects']} effects, {row['method']}")
    return {"environment": environment, "data_sets": data_sets, **about, "rows": rows}


def tables(result: dict[str, Any]) -> list[common.Table]:
    """Coverage, power and size by number of effects and method; differences from susieR; swapped alleles."""
    everything = [row for row in result["rows"] if row["method"] != FLIP]
    rows = [at_least(row, SIGNAL) for row in everything]
    out = [_rates(result, rows), _differences(rows)]
    if any(row.get("signals") is not None for row in rows):
        out.append(_by_signal(everything))
    flips = [row["flip"] for row in result["rows"] if row["method"] == FLIP and row["flip"] is not None]
    return [*out, _flips(flips)] if flips else out


def _rates(result: dict[str, Any], rows: list[dict[str, Any]]) -> common.Table:
    frame = pd.DataFrame(
        [{**row, "count": len(row["sets"]), "refused": bool(row["refused"])} for row in rows]
    )
    out = common.Table(
        f"95 % credible sets, n = {result['n']:,}, {_counted(frame)} data sets for each number of effects",
        [
            "effects",
            "method",
            "sets",
            "coverage",
            "power",
            "median size",
            "mean size",
            "refused",
            "CPU seconds",
        ],
    )
    cells = [*frame.groupby(["effects", "method"], sort=False), *(((("all", m)), some) for m, some in frame.groupby("method", sort=False))]  # fmt: skip
    cells.sort(key=lambda cell: (str(cell[0][0]), METHODS.index(cell[0][1])))
    for (effects, method), some in cells:
        used = some[~some["refused"]]
        total, causal = int(used["count"].sum()), int(used["effects"].sum())
        sizes = np.array([len(s) for sets in used["sets"] for s in sets], float)
        out.rows.append(
            [
                str(effects), str(method), str(total), _share(int(used["covering"].sum()), total), _share(int(used["found"].sum()), causal),
                *((common.number(float(np.median(sizes))), common.number(float(sizes.mean()))) if len(sizes) else ("–", "–")),
                str(int(some["refused"].sum())), common.number(float(used["seconds"].mean())) if len(used) else "–",
            ]
        )  # fmt: skip
    out.note = (
        f"Mosaics of the real genotypes of N3finemapping; each effect explains {SHARE:.0%} of the variance. Coverage: share of sets with a variant that has an "
        "effect. Power: share of variants with an effect that are in a set. Both ± one binomial standard error. "
        f"{GIVEN_NOTE if any(row['method'].endswith(GIVEN) for row in rows) else ''}*panel*: z-scores with LD of {result['panel']} other people; *refused*: data sets in which z and the panel's LD contradict each other, which count nowhere else."
    )
    return out


def _counted(frame: pd.DataFrame) -> str:
    """How many data sets each method has seen, for each number of effects."""
    counts = frame.groupby(["effects", "method"]).size()
    return str(counts.min()) if counts.min() == counts.max() else f"{counts.min()} to {counts.max()}"


def paired(rows: list[dict[str, Any]], method: str, other: str) -> pd.DataFrame:
    """One row for each data set that both methods answered: differences in power, in false sets, and in the size of sets that share a variant."""
    by_method: dict[str, dict[tuple[int, int], dict[str, Any]]] = {method: {}, other: {}}
    for row in rows:
        if row["method"] in by_method and not row["refused"]:
            by_method[row["method"]][row["effects"], row["data"]] = row
    out = []
    for key in by_method[method].keys() & by_method[other].keys():
        ours, theirs = by_method[method][key], by_method[other][key]
        pairs = [(len(a), len(b)) for a in ours["sets"] for b in theirs["sets"] if set(a) & set(b)]
        false = [len(row["sets"]) - row["covering"] for row in (ours, theirs)]
        out.append(
            {
                "effects": key[0], "power": (ours["found"] - theirs["found"]) / key[0], "false": false[0] - false[1], "pairs": len(pairs),
                "size": np.mean([a - b for a, b in pairs]) if pairs else np.nan,
                "log_size": np.mean([np.log(a / b) for a, b in pairs]) if pairs else np.nan,
            }
        )  # fmt: skip
    return pd.DataFrame(out, columns=["effects", "power", "false", "pairs", "size", "log_size"]).sort_values(
        "effects"
    )


def _differences(rows: list[dict[str, Any]]) -> common.Table:
    out = common.Table(
        "Paired differences from susieR, ± one standard error",
        [
            "method",
            "effects",
            "data sets",
            "power",
            "false sets in a data set",
            "pairs of sets",
            "size",
            "size, %",
        ],
    )
    for method, other in PAIRS.items():
        frame = paired(rows, method, other)
        for effects in [*dict.fromkeys(frame["effects"]), "all"] if len(frame) else []:
            some = frame if effects == "all" else frame[frame["effects"] == effects]
            percent = some["log_size"] * 100
            out.rows.append(
                [
                    f"{method} – {other}", str(effects), str(len(some)), _mean(some["power"], 3), _mean(some["false"], 3), str(some["pairs"].sum()),
                    _mean(some["size"], 2), _mean(percent, 1),
                ]
            )  # fmt: skip
    out.note = (
        "Sizes are compared between sets of the two methods that share a variant. The last column is 100 times the mean difference of log sizes: for small "
        "differences, how many per cent larger a set is."
    )
    return out


def _by_signal(rows: list[dict[str, Any]]) -> common.Table:
    """What the least probability of a signal does to coverage and power."""
    out = common.Table(
        "Sets given the signal, by the least probability of the signal",
        [
            "method",
            "signal at least",
            "sets",
            "coverage",
            "power",
            "power – susieR",
            "false sets in a data set – susieR",
        ],
    )
    for method, other in PAIRS.items():
        for signal in SIGNALS if method.endswith(GIVEN) else ():
            own = [at_least(row, signal) for row in rows if row["method"] == method and not row["refused"]]
            if not own:
                continue
            frame = paired([*own, *(row for row in rows if row["method"] == other)], method, other)
            total = sum(len(row["sets"]) for row in own)
            out.rows.append(
                [
                    method, f"{signal:g}", str(total), _share(sum(row["covering"] for row in own), total),
                    _share(sum(row["found"] for row in own), sum(row["effects"] for row in own)), _mean(frame["power"], 3), _mean(frame["false"], 3),
                ]
            )  # fmt: skip
    out.note = "All numbers of effects together, from the same posteriors."
    return out


def _flips(flips: list[dict[str, str]]) -> common.Table:
    out = common.Table(
        "One swapped allele in each data set", ["LD", "data sets", "named", "refused", "missed"]
    )
    for which in flips[0]:
        counts = [sum(flip[which] == outcome for flip in flips) for outcome in ("named", "refused", "missed")]
        out.rows.append([which, str(len(flips)), *map(str, counts)])
    out.note = f"Of a variant with |z| > {FLIP_SCORE:g} and |r| > {FLIP_LD:g} with another, chosen at random. *Refused*: without naming the variant."
    return out


def _mean(values: "pd.Series[float]", digits: int) -> str:
    values = values.dropna()
    if len(values) < 2:
        return "–"
    return f"{values.mean():+.{digits}f} ± {values.sem():.{digits}f}"


def _share(part: int, whole: int) -> str:
    if not whole:
        return "–"
    share = part / whole
    return f"{share:.3f} ± {np.sqrt(share * (1 - share) / whole):.3f}"
