"""The checkpoint of ``sample_many``: what was found of each response is kept as soon as it is done.

A checkpoint is a directory:

- ``responses.json``, written once: the version of whichvars, the settings, and digests of the data;
- ``response-0.json``, …: what was found of each response that is done. The first line is a checksum of the second;
- ``lock``, which is locked by the process that fits the responses.

A file gets its name only when it is complete. Responses that could not be fitted have no file: they are tried again.
"""

import hashlib
import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from whichvars.data.archives import replacing
from whichvars.errors import DataError, OutputError
from whichvars.sampling.checkpoint import LOCK, RUN, layout, lock_directory, problem_fingerprint, version
from whichvars.sampling.many_fits import Fit, Work

RESPONSES = "responses.json"
NAME = re.compile(r"response-(\d+)\.json")
ADVICE = "name another directory, or remove this one"


class ManyCheckpoint:
    """The directory of a run, locked until the end of the context. DataError if it belongs to another run."""

    def __init__(self, directory: str | os.PathLike[str], work: Work) -> None:
        self.directory, self.work = Path(directory).absolute(), work
        _check_free(self.directory)
        self._lock = lock_directory(self.directory)
        try:
            self._open()
        except BaseException:
            self._lock.close()
            raise

    def __enter__(self) -> "ManyCheckpoint":
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.truncate(0)
        self._lock.close()

    def _open(self) -> None:
        # files that a killed process did not finish
        for unfinished in self.directory.glob(".response*.json.*.tmp"):
            unfinished.unlink()
        own = _identity(self.work)
        self.token = _digest(json.dumps(own))
        path = self.directory / RESPONSES
        if path.exists():
            _check_same(self._load(path, ADVICE), own, self.directory)
        else:
            self._write(path, own)

    def read(self) -> dict[int, Fit]:
        """What was found of the responses that are done."""
        found = {}
        for path in self.directory.iterdir():
            if match := NAME.fullmatch(path.name):
                advice = "if you remove this file, its response is fitted again"
                content = self._load(path, advice)
                if content["run"] != self.token or content["index"] != int(match[1]):
                    raise DataError(f"{path} belongs to another run; {advice}")
                sets, variables = (_frame(content[name]) for name in ("sets", "variables"))
                found[int(match[1])] = Fit(content["row"], sets, variables, narrow=content["narrow"])
        return found

    def keep(self, i: int, fit: Fit) -> None:
        """Write what was found of the i-th response, if there is something."""
        if fit.sets is None or fit.variables is None:
            return
        content = {
            "run": self.token, "index": i, "row": fit.row, "sets": _columns(fit.sets), "variables": _columns(fit.variables),
            "narrow": fit.narrow,
        }  # fmt: skip
        self._write(self.directory / f"response-{i}.json", content)

    def _write(self, path: Path, content: dict[str, Any]) -> None:
        text = json.dumps(content)
        try:
            with replacing(path) as stream:
                stream.write(f"{_digest(text)}\n{text}\n".encode())
        except OSError as error:
            raise OutputError(
                f"the checkpoint could not be written to {self.directory}: {error.strerror or error}. Responses that are done are kept; make "
                "room, and call sample_many in the same way to continue"
            ) from error

    def _load(self, path: Path, advice: str) -> dict[str, Any]:
        digest, _, text = path.read_bytes().decode(errors="replace").rstrip("\n").partition("\n")
        if digest != _digest(text):
            raise DataError(f"{path} is damaged (its checksum is wrong); {advice}")
        content: dict[str, Any] = json.loads(text)
        return content


def _check_free(directory: Path) -> None:
    """DataError if the directory has something else than such a checkpoint. Nothing is written to it then."""
    if not directory.is_dir() or (directory / RESPONSES).exists():
        return
    if (directory / RUN).exists():
        raise DataError(f"{directory} holds the checkpoint of one response, not of sample_many: {ADVICE}")
    others = sorted(f.name for f in directory.iterdir() if f.name != LOCK and not f.name.endswith(".tmp"))
    if others:
        raise DataError(
            f"{directory} contains something else, such as {others[0]}: name a new directory for the checkpoint"
        )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()


def _identity(work: Work) -> dict[str, Any]:
    """What tells a run from all others whose tables could differ."""
    values = np.ascontiguousarray(work.Y)
    # all missing values are the same
    responses = hashlib.sha256(np.where(np.isnan(values), np.nan, values).tobytes())
    responses.update(json.dumps([work.responses, list(values.shape)]).encode())
    prior = work.model_prior
    example = work.example()
    settings = {
        "slab": "chosen for each response" if work.widen else repr(work.settings["slab"]),
        "model_prior": repr(prior(example.p) if callable(prior) else prior), "max_size": work.settings["max_size"],
        "level": work.level, "signal": work.signal, "target_mcse": work.target_mcse, "draws": work.draws, "replicates": work.replicates, "seed": work.seed,
    }  # fmt: skip
    numbers = {name: v.item() if isinstance(v, np.generic) else v for name, v in settings.items()}
    return {
        "version": version(), "layout": layout(), "settings": numbers, "responses": responses.hexdigest(),
        "columns": problem_fingerprint(example),
    }  # fmt: skip


def _check_same(before: dict[str, Any], own: dict[str, Any], directory: Path) -> None:
    if (before["version"], before["layout"]) != (own["version"], own["layout"]):
        raise DataError(
            f"the checkpoint in {directory} was made by another version of whichvars, {before['version']}; this is {own['version']}. "
            "Continue with the version that made it, or start again in another directory"
        )
    differ = [
        f"{name} is {before['settings'].get(name)} there and {value} here"
        for name, value in own["settings"].items()
        if before["settings"].get(name) != value
    ]
    if before["responses"] != own["responses"]:
        differ.append("Y has other responses")
    if not differ and before["columns"] != own["columns"]:
        differ.append("X, the covariates or the priors are others")
    if differ:
        raise DataError(f"{directory} holds the checkpoint of another run: {'; '.join(differ)}. {ADVICE.capitalize()}")  # fmt: skip


def _columns(frame: pd.DataFrame) -> list[list[Any]]:
    """The columns of a table as their names, types and values, from which JSON makes the same bits again."""
    return [[name, str(frame[name].dtype), frame[name].tolist()] for name in frame.columns]


def _frame(columns: list[list[Any]]) -> pd.DataFrame:
    return pd.DataFrame({name: pd.Series(values, dtype=dtype) for name, dtype, values in columns})
