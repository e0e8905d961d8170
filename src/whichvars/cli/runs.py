"""Run directories, which ``fit`` writes and the other commands read."""

import datetime
import hashlib
import importlib.util
import json
import os
import platform
import shlex
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from whichvars.cli.show import in_options, included_ratios, say, without_nan
from whichvars.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

    from whichvars.data.statistics import SufficientStatistics
    from whichvars.posterior.pooling import PooledPosterior
    from whichvars.posterior.posterior import Posterior
    from whichvars.posterior.residual_checks import ResidualCheck
    from whichvars.sampling.sampling_many import ManyPosteriors

SETTINGS, POSTERIOR, SUMMARY, TOP_MODELS, REPORT = (
    "settings.json", "posterior.npz", "summary.csv", "top_models.csv", "report.html",
)  # fmt: skip
# of genotypes only: what is known of the variants, written before the run begins
VARIANTS, CREDIBLE_SETS = "variants.csv", "credible_sets.csv"
# of several responses: one line for each of them, and one for each of them and each variable that is not improbable
RESPONSES, VARIABLES = "responses.csv", "variables.csv"
# present during a run, or after it was interrupted
CHECKPOINT, UNFINISHED = "checkpoint", "unfinished.json"
# in the checkpoint of a run with imputed values
IMPUTATIONS = "imputations.npz"
# models in top_models.csv
BEST = 100
PACKAGES = ("whichvars", "numpy", "scipy", "pandas", "numba", "scikit-learn", "click", "rich")
BRIEF = "summary.html"
# what residuals say, for reports
CHECK = "residual_check.npz"
OPTIONAL = ("matplotlib", "jinja2", "pyarrow", "arviz", "formulaic")


class SavedRun(NamedTuple):
    directory: Path
    settings: dict[str, Any]
    posterior: Any  # a Posterior, or a PooledPosterior if missing values were imputed


# --- accuracy


def largest_error(posterior: "Posterior") -> float:
    """Largest Monte Carlo error of an inclusion probability; 0 if exact."""
    import numpy as np

    return float(np.nanmax(posterior.mcse, initial=0.0))


def is_accurate(posterior: "Posterior", target: float | None = None) -> bool:
    """Whether every inclusion probability is as accurate as `target`, or by default as ``Posterior.converged`` requires."""
    from whichvars.posterior.diagnostics import ACCEPTABLE, doubts

    return not doubts(posterior, ACCEPTABLE if target is None else target)


# --- writing


def check_directory(directory: Path, overwrite: bool) -> None:
    """DataError if a directory contains something else, or a run that is not to be replaced."""
    if directory.is_dir() and any(directory.iterdir()):
        if (directory / UNFINISHED).exists() and not overwrite:
            raise DataError(
                f"{directory} contains an unfinished run; continue it with `whichvars resume {shlex.quote(str(directory))}`, or "
                "start again with --overwrite"
            )
        if not (directory / SETTINGS).exists() and not (directory / UNFINISHED).exists():
            raise DataError(
                f"{directory} is not empty and contains no run of whichvars; name another directory with --out"
            )
        if not overwrite:
            raise DataError(
                f"{directory} already contains a run; replace it with --overwrite, or name another directory with --out"
            )
    elif directory.exists() and not directory.is_dir():
        raise DataError(f"{directory} is a file; name a directory with --out")


def make_directory(directory: Path) -> None:
    """Create the directory, and check that it can be written to before the run begins."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as error:
        raise DataError(
            f"cannot write to {directory}: {error.strerror}; name another directory with --out"
        ) from error


def write_run(directory: Path, posterior: "Posterior", settings: dict[str, Any]) -> None:
    """Write all files except the report. settings.json is the last one: if it exists, the run is complete."""
    import pandas as pd

    summary = summary_with_ratios(posterior).reset_index()  # may be impossible, before anything is written
    variants = read_variants(directory)
    (directory / CREDIBLE_SETS).unlink(missing_ok=True)
    if variants is not None:
        places = variants.loc[summary["variable"]].reset_index(drop=True)
        summary = pd.concat([summary[["variable"]], places, summary.drop(columns="variable")], axis=1)
        sets = posterior.credible_sets(**settings.get("sets", {}), long=True)
        effects = posterior.summary().loc[sets["variable"], ["mean", "sd"]].reset_index(drop=True)
        places = variants.loc[sets["variable"]].reset_index(drop=True)
        sets = pd.concat([sets.drop(columns=["pip", "mcse"]), places, sets[["pip", "mcse"]], effects], axis=1)
        write_csv(sets, directory / CREDIBLE_SETS)
    for name in (SETTINGS, REPORT, RESPONSES, VARIABLES):
        (directory / name).unlink(missing_ok=True)
    posterior.save(directory / POSTERIOR)
    write_csv(summary, directory / SUMMARY)
    write_csv(posterior.top_models(BEST).reset_index(), directory / TOP_MODELS)
    write_text(json.dumps(without_nan(settings), indent=1, ensure_ascii=False) + "\n", directory / SETTINGS)


def write_many(directory: Path, many: "ManyPosteriors", settings: dict[str, Any]) -> None:
    """Write the tables of several responses. settings.json is the last file again."""
    import pandas as pd

    for name in (SETTINGS, REPORT, BRIEF, POSTERIOR, SUMMARY, TOP_MODELS, CHECK):
        (directory / name).unlink(missing_ok=True)
    variants = read_variants(directory)
    summary = many.summary.reset_index()
    summary["lead"] = summary["lead"].fillna("")
    write_csv(summary, directory / RESPONSES)
    for table, name in ((many.sets, CREDIBLE_SETS), (many.variables, VARIABLES)):
        if variants is not None:
            places = variants.loc[table["variable"]].reset_index(drop=True)
            after = table.columns.get_loc("variable") + 1
            table = pd.concat([table.iloc[:, :after], places, table.iloc[:, after:]], axis=1)
        write_csv(table, directory / name)
    write_text(json.dumps(without_nan(settings), indent=1, ensure_ascii=False) + "\n", directory / SETTINGS)


def write_variants(directory: Path, variants: "pd.DataFrame | None") -> None:
    """Write the table of the variants, or remove that of an older run."""
    (directory / VARIANTS).unlink(missing_ok=True)
    if variants is not None:
        write_csv(variants.reset_index(), directory / VARIANTS)


def read_variants(directory: Path) -> "pd.DataFrame | None":
    """Read what ``write_variants`` wrote; None if the data were not genotypes."""
    import pandas as pd

    if not (directory / VARIANTS).exists():
        return None
    kept = {"variant": str, "chromosome": str, "allele1": str, "allele2": str}
    frame = pd.read_csv(directory / VARIANTS, dtype=kept, keep_default_na=False)
    for name in kept.keys() & set(frame.columns):
        frame[name] = [text.removeprefix("'") for text in frame[name]]  # see `protect`
    return frame.set_index("variant")


def remove_if_empty(directory: Path) -> None:
    """Remove a directory that a command has made, if it contains no results."""
    beside = (VARIANTS, CREDIBLE_SETS, CHECK)
    if {file.name for file in directory.iterdir()} <= set(beside):
        for name in beside:
            (directory / name).unlink(missing_ok=True)
    if not any(directory.iterdir()):
        directory.rmdir()


def write_unfinished(directory: Path, settings: dict[str, Any]) -> None:
    """Write what ``resume`` needs besides the checkpoint, and remove the checkpoint of an older run."""
    remove_checkpoint(directory)
    write_text(json.dumps(without_nan(settings), indent=1, ensure_ascii=False) + "\n", directory / UNFINISHED)


def read_unfinished(directory: Path) -> dict[str, Any]:
    """Read what ``write_unfinished`` wrote."""
    if not (directory / UNFINISHED).exists():
        done = (directory / SETTINGS).exists()
        raise DataError(
            f"the run in {directory} is finished; there is nothing to continue"
            if done
            else f"{directory} contains no unfinished run; name a directory that `whichvars fit` was writing to"
        )
    try:
        return json.loads((directory / UNFINISHED).read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError(
            f"{directory / UNFINISHED} is damaged: {error}; start again with --overwrite"
        ) from error


def has_checkpoint(directory: Path) -> bool:
    """Whether a run can be continued."""
    place = directory / CHECKPOINT
    parts = (*place.glob("replicate-*.npz"), *place.glob("response-*.json"))
    return bool(parts) or (place / IMPUTATIONS).exists()


def with_advice(error: BaseException, out: Path) -> BaseException:
    """The error of a run that has a checkpoint."""
    advice = f"continue with: whichvars resume {shlex.quote(str(out))}"
    if isinstance(error, KeyboardInterrupt):
        return KeyboardInterrupt(f"interrupted; {advice}")
    say(f"All draws until the last checkpoint are saved; {advice}")
    return error


def remove_checkpoint(directory: Path) -> None:
    """Remove the checkpoint of a run that is complete, or that failed."""
    (directory / UNFINISHED).unlink(missing_ok=True)
    if (directory / CHECKPOINT).exists():
        shutil.rmtree(directory / CHECKPOINT)


def summary_with_ratios(posterior: "Posterior") -> "pd.DataFrame":
    """The summary, with the odds or rate ratio of each variable that is in, if the family has them."""
    summary = posterior.summary()
    ratios = included_ratios(posterior)
    if ratios is not None:
        summary.insert(summary.columns.get_loc("ess"), f"{ratios.name}_per_sd", ratios[summary.index])
    return summary


def write_report(
    run: Path,
    posterior: "Posterior | PooledPosterior",
    path: Path,
    title: str | None = None,
    brief: bool = False,
    settings: dict[str, Any] | None = None,
) -> Path | str:
    """Write the report of a run directory with these settings, or the summary on one page; returns the path, or why there is none."""
    missing = missing_for_report()
    if missing:
        return f"it needs: pip install {' '.join(missing)}"
    # level and signal of credible sets; there are none of imputed tables
    kind = {} if settings is None else settings.get("sets", {})
    posterior.report(path, title, brief, read_check(run), **kind)
    return path


def write_check(run: Path, check: "ResidualCheck | None") -> None:
    """Write the check of residuals, or remove that of an older run."""
    from whichvars.data import storage
    from whichvars.posterior.predictive_checks import Bands

    (run / CHECK).unlink(missing_ok=True)
    if check is not None:
        storage.save(run / CHECK, "residual check", check, (type(check), Bands))


def read_check(run: Path) -> "ResidualCheck | None":
    """Read what ``write_check`` wrote; None if it wrote nothing."""
    from whichvars.data import storage
    from whichvars.posterior.predictive_checks import Bands
    from whichvars.posterior.residual_checks import ResidualCheck

    if not (run / CHECK).exists():
        return None
    found: ResidualCheck = storage.load(run / CHECK, "residual check", (ResidualCheck, Bands))
    return found


def missing_for_report() -> list[str]:
    """Packages that a report needs and that are not installed."""
    return [name for name in ("matplotlib", "jinja2") if importlib.util.find_spec(name) is None]


def write_csv(frame: "pd.DataFrame", path: Path) -> None:
    write_text(to_csv(frame), path)


def to_csv(frame: "pd.DataFrame") -> str:
    """A frame as CSV, with text protected so that no spreadsheet interprets it as a formula."""
    safe = frame.copy()
    for name in safe.columns:
        if safe[name].dtype.kind not in "biuf":
            safe[name] = [protect(str(value)) for value in safe[name]]
    safe.columns = [protect(str(name)) for name in safe.columns]
    return safe.to_csv(
        index=False, lineterminator="\r\n"
    )  # as RFC 4180 has it; text with either is then quoted


def protect(text: str) -> str:
    """Text with an apostrophe before it if spreadsheets would evaluate it as a formula.

    >>> protect("=HYPERLINK(1)"), protect("dose")
    ("'=HYPERLINK(1)", 'dose')
    """
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


def write_text(text: str, path: Path) -> None:
    from whichvars.data.archives import replacing

    with replacing(path) as stream:
        stream.write(text.encode("utf-8", "replace"))


# --- settings


def file_fingerprint(path: Path, rows: int, columns: int) -> dict[str, Any]:
    """The size and digest of a data file, by which data can be compared."""
    with open(path, "rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
        size = stream.tell()
    return {"file": path.name, "bytes": size, "sha256": digest, "rows": rows, "columns": columns}


def stream_fingerprint(path: Path, files: list[Path], statistics: "SufficientStatistics") -> dict[str, Any]:
    """The same for data that are too large to be read twice; the digest is that of their statistics."""
    from whichvars.data.storage import digest_of

    return {
        "file": path.resolve().name,
        "bytes": sum(file.stat().st_size for file in files),
        "sha256": digest_of(statistics, (type(statistics),)),
        "rows": statistics.n,
        "columns": len(statistics.names) + 1,
    }


def versions(names: Iterable[str]) -> dict[str, str | None]:
    """Versions of packages; None if a package is not installed."""
    from importlib.metadata import PackageNotFoundError, version

    from whichvars import __version__

    installed: dict[str, str | None] = {}
    for name in names:
        try:
            installed[name] = __version__ if name == "whichvars" else version(name)
        except PackageNotFoundError:
            installed[name] = None
    return installed


def describe(posterior: "Posterior", target: float | None = None) -> dict[str, Any]:
    """The settings, results and versions of a run, for settings.json."""
    problem = posterior.problem
    return {
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "problem": {
            "rows": problem.n,
            "rows_read": problem.record.rows_read or problem.n,
            "rows_dropped": problem.record.rows_dropped,
            "reference_levels": problem.reference_levels,
            "variables": problem.p,
            "always_included": problem.always_names,
            "left_out": problem.excluded,
            "family": repr(problem.family),
            "classes": problem.classes,
            "evidence": problem.evidence,
            "slab": repr(problem.slab),
            "model_prior": repr(problem.model_prior),
            "noise": repr(problem.noise),
            "scale": problem.scale,
            "max_size": problem.max_size,
        },
        "result": {
            "sampler": posterior.sampler,
            "chosen": posterior.chosen,
            "stopped": posterior.stopped,
            "iterations": posterior.iterations,
            "cpu_seconds": posterior.cpu_seconds,
            "mean_size": posterior.mean_size,
            "largest_mcse": largest_error(posterior),
            "converged": is_accurate(posterior, target),
        },
        "versions": {"python": platform.python_version(), **versions(PACKAGES)},
    }


# --- reading


def read_run(directory: str | os.PathLike[str]) -> SavedRun:
    """Read a run that ``fit`` or ``exact`` wrote."""
    from whichvars.posterior.pooling import PooledPosterior
    from whichvars.posterior.posterior import Posterior

    place = Path(directory)
    if not place.exists():
        raise DataError(f"there is no directory {place}")
    if not (place / SETTINGS).exists():
        raise DataError(
            f"{place} contains no run: it has no {SETTINGS}; name a directory that `whichvars fit` wrote"
        )
    try:
        settings = json.loads((place / SETTINGS).read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError(f"{place / SETTINGS} is damaged: {error}") from error
    if "responses" in settings:
        raise DataError(
            f"{place} is a run of several responses, of which only tables are kept; `whichvars fit` with --response makes the run of one of them"
        )
    if "missing" in settings and settings["missing"]["how"] == "impute":
        return SavedRun(place, settings, PooledPosterior.load(place / POSTERIOR))
    return SavedRun(place, settings, Posterior.load(place / POSTERIOR))


def verdict(posterior: "Posterior", target: float | None = None) -> str:
    """A sentence about the accuracy of the results."""
    from whichvars.posterior.diagnostics import ACCEPTABLE, doubts

    reasons = doubts(posterior, ACCEPTABLE if target is None else target)
    if reasons:
        return (
            f"DO NOT TRUST THESE NUMBERS YET: {in_options('; moreover, '.join(reasons))}. Use a larger --budget or more --draws; "
            "if that does not help, --sampler tempering crosses between modes."
        )
    if posterior.models.exact:
        noise = posterior.kept.noise is not None
        return (
            f"The probabilities are exact{', except for the noise of importance sampling' if noise else ''}."
        )
    error = largest_error(posterior)
    return f"Every probability is accurate to within {max(100 * error, 0.01):.2f} percentage points (one standard error)."
