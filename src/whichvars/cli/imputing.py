"""``--missing impute``: a run for each completed copy of a file, mixed into one answer."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whichvars.cli.genotypes import are_genotypes
from whichvars.cli.options import names_in, parse_slab, read_categories
from whichvars.cli.responses import COLUMNS, check_options, log_response, read_response
from whichvars.cli.show import new_console, new_table, notes, plain, print_json, say, without_nan
from whichvars.errors import DataError

if TYPE_CHECKING:
    from whichvars.posterior.pooling import PooledPosterior
    from whichvars.posterior.posterior import Posterior

SHOWN = 15  # variables in the table


def run_imputed(options: dict[str, Any], out: Path, arguments: dict[str, Any] | None) -> bool:
    """Read, impute, sample each completed table (or enumerate, if there are no `arguments`), and write the run; whether it is accurate."""
    import whichvars as wv
    from whichvars.cli.runs import (
        POSTERIOR,
        SETTINGS,
        SUMMARY,
        describe,
        file_fingerprint,
        make_directory,
        remove_checkpoint,
        write_csv,
        write_text,
    )
    from whichvars.data.files import read_table
    from whichvars.data.imputing import impute_frame
    from whichvars.data.kinds import FILE
    from whichvars.data.roles import encode_table

    if options["stream"]:
        raise DataError("--missing impute needs the whole table; leave out --stream")
    if are_genotypes(options) or options["covariates"] is not None:
        raise DataError(
            "--missing impute is for a single table, not for .bed files or --covariates; leave out one of them"
        )
    quiet = options["quiet"] or options["as_json"]
    beside = check_options(options)
    table = read_table(options["data"])
    always, drop = (names_in(options[name], set(table.frame.columns)) for name in ("always", "drop"))
    categories = read_categories(options, set(table.frame.columns))
    made = encode_table(
        table, options["response"], always, drop, "impute", options["family"], beside, categories
    )
    if options["log"]:
        made = made._replace(y=log_response(options, made.y, made.rows))
    read = read_response(options, made.y, made.beside, made.rows)
    seed = options.get("seed", 0)
    y = made.y.set_axis(made.frame.index)
    imputations = impute_frame(
        made.frame,
        y,
        options["imputations"],
        seed,
        10,
        categories,
        options["indicators"],
        FILE,
        table.decimal_comma,
    )
    remarks = [*made.notes, *read.notes, *(note for note in imputations.notes if note not in made.notes)]
    for note in remarks:
        say(f"Note: {note}", quiet)
    make_directory(out)
    remove_checkpoint(out)
    size = options["prior_size"]
    parts: list[Posterior] = []
    for i, X in enumerate(imputations, start=1):
        say(f"Imputation {i} of {len(imputations)}", quiet)
        with notes(quiet or i > 1) as said:
            problem = wv.Problem(
                X, made.y, family=read.family, offset=read.offset, slab=None if options["slab"] is None else parse_slab(options["slab"]),
                evidence=options["evidence"], model_prior=None if size is None else wv.BetaBinomial(size=size),
                always_include=made.always or None, categories=replace(categories, lump=None), max_size=options["max_size"],
            )  # fmt: skip
            silent = options["quiet"]
            parts.append(
                wv.exact(problem, progress=not silent)
                if arguments is None
                else wv.sample(problem, progress=not silent, **arguments)
            )
            remarks += [message for message in said if message not in remarks]
    pooled = wv.pool(parts, imputations)
    target = options.get("target_mcse")
    settings = {
        "data": file_fingerprint(options["data"], *table.frame.shape),
        "response": options["response"],
        "family": options["family"],
        **{name: options[name] for name in COLUMNS},
        "always": always,
        "drop": drop,
        "encoding": asdict(made.encoding),
        "missing": {
            "how": "impute", "imputations": len(imputations), "rows_read": len(table.frame),
            "rows_used": len(made.rows), "cells_imputed": int(imputations.gaps.sum()),
        },
        "transform": "log" if options["log"] else None,
        "notes": remarks,
        **describe(parts[0], target),
    }  # fmt: skip
    settings["result"] |= {
        "mean_size": pooled.mean_size, "converged": pooled.converged, "cpu_seconds": sum(p.cpu_seconds for p in parts),
    }  # fmt: skip
    summary = pooled.summary()
    pooled.save(out / POSTERIOR)
    write_csv(summary.reset_index(), out / SUMMARY)
    write_text(json.dumps(without_nan(settings), indent=1, ensure_ascii=False) + "\n", out / SETTINGS)
    if options["as_json"]:
        print_json({"run": str(out), **settings, "variables": summary.reset_index().to_dict("records")})
    elif not quiet:
        _show(pooled, out)
    return pooled.converged


def _show(pooled: "PooledPosterior", out: Path) -> None:
    console = new_console()
    table = new_table()
    for title in ("variable", "probability", "sampling error", "imputation error", "mean"):
        table.add_column(title, justify="left" if title == "variable" else "right", no_wrap=True)
    for name, row in pooled.summary().head(SHOWN).iterrows():
        mean = "–" if row["mean"] != row["mean"] else f"{row['mean']:.3g}"
        table.add_row(
            plain(str(name)), f"{row['pip']:.1%}", f"{100 * row['mcse']:.2f}", f"{100 * row['imputation_error']:.1f}", mean
        )  # fmt: skip
    console.print()
    console.print(table)
    console.print("[dim]Errors are one standard error, in percentage points.[/]")
    console.print()
    for line in pooled.explain().splitlines()[:3]:
        console.print(plain(line))
    console.print(f"Written to {out}", markup=False, soft_wrap=True)
