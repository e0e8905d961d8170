"""What is kept of a long run: enough to make its figures and tables again, and small enough to be stored beside the program."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import whichvars as wv

SMALLEST = 1e-4  # inclusion probabilities below this are kept as 0
MOST_MODELS = 2000  # the best ones
MILLIONTH = 1_000_000  # probabilities and differences of log posteriors are whole numbers of millionths


def in_millionths(values: np.ndarray) -> np.ndarray:
    """As they are stored.

    >>> in_millionths(np.array([0.25, 1.0000004]))
    array([ 250000, 1000000], dtype=int32)
    """
    return np.round(np.asarray(values, float) * MILLIONTH).astype(np.int32)


def below_the_best(log_posterior: np.ndarray) -> np.ndarray:
    """How far each model is below the first one, in millionths."""
    return in_millionths(log_posterior[:1] - log_posterior)


def pips_by_chain(posterior: wv.Posterior) -> np.ndarray:
    """Inclusion frequencies in the thinned record of each chain at the target, shape (chains, p)."""
    trace, models = posterior.trace, posterior.trace_models
    if trace is None or models is None:
        return np.empty((0, len(posterior.pip)))
    rows = trace.reset_index(drop=True).groupby(["replicate", "chain"]).indices.values()
    return np.array([np.asarray(models[some].mean(axis=0)).ravel() for some in rows])


@dataclass(frozen=True)
class Summary:
    """A run: inclusion probabilities, model sizes, its best models with their exact log posteriors, and what its ladders learned."""

    pip: np.ndarray  # (p,)
    mcse: np.ndarray  # (p,)
    replicate_pips: np.ndarray  # (replicates, p)
    sizes: np.ndarray  # probabilities of the model sizes 0, 1, …
    iteration: np.ndarray  # of the trace
    mean_sizes: np.ndarray  # of the trace, the mean over the chains at the target
    log_posteriors: np.ndarray  # mean along the run of each chain at the target
    members: list[tuple[int, ...]]  # of the best models
    log_posterior: np.ndarray  # of the same models, without the constant that all models share
    mean_size: float
    cpu_seconds: float
    iterations: int
    round_trips: int | None
    temperatures: np.ndarray
    exchange_rates: np.ndarray
    # (chains at the target, p): of each chain, in the thinned record; (0, p) of runs from which this was not kept
    ladder_pips: np.ndarray
    about: dict[str, Any] = field(default_factory=dict)  # date, commit, versions

    @classmethod
    def of(cls, posterior: wv.Posterior, about: dict[str, Any] | None = None) -> "Summary":
        trace, models, learned = posterior.trace, posterior.models, posterior.adaptation[0]
        assert trace is not None
        along = trace.groupby("iteration")["size"].mean()
        values = np.asarray(models.log_marginal, float) + np.asarray(models.log_prior, float)
        best = np.argsort(-values, kind="stable")[:MOST_MODELS]
        pip = np.asarray(posterior.pip, float)
        replicates = (
            posterior.replicate_pips if posterior.replicate_pips is not None else np.empty((0, len(pip)))
        )
        seen = pip >= SMALLEST
        tempered = "round_trips" in learned

        def short(numbers: np.ndarray) -> np.ndarray:
            return in_millionths(np.where(seen, numbers, 0.0)) / MILLIONTH

        values = values[best]
        return cls(
            pip=short(pip),
            mcse=np.where(seen, posterior.mcse, 0.0)
            .astype(np.float32)
            .astype(float),  # NaN where nothing moved
            replicate_pips=short(replicates),
            sizes=np.trim_zeros(np.asarray(posterior.sizes, float), "b"),
            iteration=along.index.to_numpy(),
            mean_sizes=along.to_numpy(),
            log_posteriors=trace.groupby(["replicate", "chain"])["log_posterior"].mean().to_numpy(),
            members=[tuple(int(j) for j in models.members[i]) for i in best],
            log_posterior=values[:1] - below_the_best(values) / MILLIONTH,
            mean_size=float(posterior.mean_size),
            cpu_seconds=float(posterior.cpu_seconds),
            iterations=int(posterior.iterations),
            round_trips=int(learned["round_trips"]) if tempered else None,
            temperatures=np.asarray(learned["temperatures"] if tempered else [], float),
            exchange_rates=np.asarray(learned["swap_rates"] if tempered else [], float),
            ladder_pips=short(pips_by_chain(posterior)),
            about=dict(about or {}),
        )

    def save(self, path: Path) -> None:
        """Write an .npz file, in which zeros take no room."""
        where = np.flatnonzero(self.pip)
        numbers = {
            "p": len(self.pip),
            "mean_size": self.mean_size,
            "cpu_seconds": self.cpu_seconds,
            "iterations": self.iterations,
            "round_trips": self.round_trips,
            "best": self.log_posterior[:1].tolist(),
            "about": self.about,
        }
        some = self.replicate_pips if len(self.replicate_pips) > 1 else self.replicate_pips[:0]
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name("unfinished-" + path.name)
        np.savez_compressed(
            unfinished,
            numbers=np.array(json.dumps(numbers)),
            where=np.diff(where, prepend=0).astype(np.int32),
            pip=in_millionths(self.pip[where]),
            mcse=self.mcse[where].astype(np.float32),
            replicates=len(self.replicate_pips),
            replicate_pips=in_millionths(some[:, where]),  # of a single one: those of the run
            sizes=np.trim_zeros(self.sizes, "b"),
            iteration=self.iteration,
            mean_sizes=self.mean_sizes,
            log_posteriors=self.log_posteriors,
            members=np.array([j for model in self.members for j in model], np.int32),
            lengths=np.array([len(model) for model in self.members], np.int32),
            below=np.diff(below_the_best(self.log_posterior), prepend=0).astype(np.int32),
            temperatures=self.temperatures,
            exchange_rates=self.exchange_rates,
            ladder_pips=in_millionths(self.ladder_pips[:, where]),
        )
        unfinished.replace(path)

    @classmethod
    def load(cls, path: Path) -> "Summary":
        with np.load(path, allow_pickle=False) as stored:
            numbers = json.loads(str(stored["numbers"]))
            where, p, best = np.cumsum(stored["where"]), numbers.pop("p"), np.array(numbers.pop("best"))

            def spread(values: np.ndarray) -> np.ndarray:
                whole = np.zeros((*values.shape[:-1], p))
                whole[..., where] = values
                return whole

            pip = spread(stored["pip"] / MILLIONTH)
            single = int(stored["replicates"]) == 1

            ends = np.cumsum(stored["lengths"])
            members = np.split(stored["members"], ends[:-1]) if len(ends) else []
            same = ("sizes", "iteration", "mean_sizes", "log_posteriors", "temperatures", "exchange_rates")
            return cls(
                pip=pip,
                mcse=spread(stored["mcse"]),
                replicate_pips=pip[None] if single else spread(stored["replicate_pips"] / MILLIONTH),
                log_posterior=best - np.cumsum(stored["below"]) / MILLIONTH,
                members=[tuple(int(j) for j in model) for model in members],
                ladder_pips=spread(stored["ladder_pips"] / MILLIONTH)
                if "ladder_pips" in stored
                else np.empty((0, p)),
                **{name: stored[name] for name in same},
                **numbers,
            )


def models_of(runs: Sequence[Summary]) -> dict[tuple[int, ...], float]:
    """All models that these runs kept, each counted once, with their log posteriors without the constant."""
    found: dict[tuple[int, ...], float] = {}
    for run in runs:
        found.update(zip(run.members, run.log_posterior.tolist()))
    return found


def exact_masses(runs: Sequence[Summary]) -> tuple[float, float]:
    """Of all models that these runs kept: the largest log posterior, without its constant, and the log of the sum of all."""
    values = np.array(list(models_of(runs).values()))
    return float(values.max()), float(np.logaddexp.reduce(values))


def exact_pips(runs: Sequence[Summary]) -> np.ndarray:
    """Inclusion probabilities given that the model is one of those that these runs kept: each model has its exact weight, however
    much time a run has spent in it."""
    found = models_of(runs)
    values = np.array(list(found.values()))
    weights = np.exp(values - np.logaddexp.reduce(values))
    pip = np.zeros(len(runs[0].pip))
    for members, weight in zip(found, weights):
        pip[list(members)] += weight
    return pip
