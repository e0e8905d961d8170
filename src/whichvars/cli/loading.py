"""From the options of ``fit`` and ``exact`` to a problem."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple

from whichvars.cli.options import names_in, parse_slab, read_categories, refuse_with_stream
from whichvars.cli.responses import COLUMNS, check_options, log_response, read_response

if TYPE_CHECKING:
    from whichvars.problem.problem import Problem


def read_data(options: dict[str, Any]) -> tuple[list[str], "Problem", dict[str, Any], tuple[Any, Any] | None]:
    """Read the file; returns notes for the user, the problem, the content of settings.json, and the rows if residuals can be checked."""
    import whichvars as wv

    size, beside = options["prior_size"], check_options(options)
    table = _stream(options) if options["stream"] else _load(options, beside)
    problem = wv.Problem(
        table.X,
        table.y,
        family=table.family,
        offset=table.offset,
        slab=parse_slab(options["slab"]),
        evidence=options["evidence"],
        model_prior=None if size is None else wv.BetaBinomial(size=size),
        always_include=table.always or None,
        max_size=options["max_size"],
    )
    asked = {
        name: options[name]
        for name in ("sampler", "draws", "budget", "target_mcse", "replicates", "seed")
        if name in options
    }
    settings = {
        "data": table.fingerprint,
        "response": options["response"],
        "family": options["family"],
        **{name: options[name] for name in COLUMNS},
        "always": table.always,
        "drop": table.drop,
        "encoding": table.encoding,
        "transform": "log" if options["log"] else None,
        "asked": asked or {"sampler": "exact"},
    }  # fmt: skip
    checked = problem.family.name == "gaussian" and not options["stream"]
    return table.notes, problem, settings, (table.X.X, table.y) if checked else None


class _Data(NamedTuple):
    """The arguments of a problem, and what is recorded about the data."""

    X: Any
    y: Any
    always: list[str]  # columns that are always included
    drop: list[str]
    encoding: dict[str, Any]
    fingerprint: dict[str, Any]
    notes: list[str]
    family: Any = "gaussian"
    offset: Any = None


def _load(options: dict[str, Any], beside: dict[str, str]) -> _Data:
    """Read a file as a whole."""
    from whichvars.cli.runs import file_fingerprint
    from whichvars.data.files import read_table
    from whichvars.data.records import Record
    from whichvars.data.roles import encode_table

    table = read_table(options["data"])
    always, drop = (names_in(options[name], set(table.frame.columns)) for name in ("always", "drop"))
    made = encode_table(
        table, options["response"], always, drop, options["missing"], options["family"], beside,
        read_categories(options, set(table.frame.columns)),
    )  # fmt: skip
    if options["log"]:
        made = made._replace(y=log_response(options, made.y, made.rows))
    read = read_response(options, made.y, made.beside, made.rows)
    return _Data(
        made.encoded._replace(record=Record(options["data"].name, len(table.frame), len(table.frame) - len(made.rows))), made.y, made.always, drop, asdict(made.encoding),
        file_fingerprint(options["data"], *table.frame.shape), made.notes + read.notes, read.family, read.offset,
    )  # fmt: skip


def _stream(options: dict[str, Any]) -> _Data:
    """Read a file or a folder in portions, as sufficient statistics."""
    import whichvars as wv
    from whichvars.cli.runs import stream_fingerprint
    from whichvars.data.encoding import Encoding
    from whichvars.data.streaming import find_sources

    refuse_with_stream(options)
    sources = find_sources(options["data"])
    known = set(sources[0].columns)
    always, drop = (names_in(options[name], known) for name in ("always", "drop"))
    statistics = wv.SufficientStatistics.from_files(options["data"], options["response"], drop=drop)
    digest = stream_fingerprint(options["data"], [source.path for source in sources], statistics)
    encoding = asdict(Encoding(statistics.names))
    return _Data(statistics, None, always, drop, encoding, digest, [])
