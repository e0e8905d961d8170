"""Converting the values of command line options to priors and samplers."""

import inspect
from collections.abc import Container
from typing import TYPE_CHECKING, Any

from whichvars.errors import DataError
from whichvars.sampling.choosing import SAMPLERS

if TYPE_CHECKING:
    from whichvars.problem.priors import Slab
    from whichvars.problem.problem import Problem

SLABS = {
    "independent": "IndependentNormal",
    "g-prior": "GPrior",
    "hyper-g": "HyperG",
    "hyper-g-n": "HyperGN",
    "zellner-siow": "ZellnerSiow",
    "cch": "CCH",
    "beta-prime": "BetaPrime",
    "robust": "Robust",
    "intrinsic": "Intrinsic",
    "empirical-bayes": "LocalEmpiricalBayes",
    "bic": "BIC",
    "pmom": "ProductMoment",
    "pemom": "ExponentialMoment",
}

# not a slab by itself: one that is estimated when the data are known
GLOBAL = "global-empirical-bayes"


def parse_slab(text: str) -> "Slab":
    """A slab from its name and, after a colon, its number, or its numbers separated by commas.

    >>> parse_slab("g-prior:bric"), parse_slab("independent:100"), parse_slab("bic")
    (GPrior(g='bric'), IndependentNormal(g=100.0), BIC())
    >>> parse_slab("independent:estimate")
    IndependentNormal(g='estimate')
    >>> parse_slab("pmom:0.5")
    ProductMoment(tau=0.5)
    >>> parse_slab("cch:1,266,0")
    CCH(a=1.0, b=266.0, s=0.0)
    """
    import whichvars as wv

    name, colon, value = text.partition(":")
    if name == GLOBAL:
        raise DataError(
            f"--slab {text!r} is for one response and one table without imputed values, and takes no number"
        )
    if name == "correlated":
        raise DataError("--slab correlated:FILE is for one response; leave out --responses")
    if name not in SLABS:
        raise DataError(
            f"--slab {text!r}: choose among {', '.join(SLABS)}; a number follows after a colon, as in g-prior:100"
        )
    make = getattr(wv, SLABS[name])
    if not colon:
        return make()
    values, takes = value.split(","), list(inspect.signature(make).parameters)
    if len(values) > len(takes):
        what = f"only {', '.join(takes)}" if len(takes) > 1 else "one number" if takes else "no number"
        raise DataError(f"--slab {text!r}: {name} takes {what}")
    return make(*map(_number_or_word, values))


def _number_or_word(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def make_sampler(name: str) -> Any:
    """A sampler with its usual settings, or "auto"."""
    import whichvars as wv

    return "auto" if name == "auto" else getattr(wv, SAMPLERS[name])()


def names_in(values: tuple[str, ...], columns: Container[str] = ()) -> list[str]:
    """Names given by several options or separated by commas; a value that is itself the name of a column is not split.

    >>> names_in(("a, b", "c,d"), {"a", "b", "c,d"})
    ['a', 'b', 'c,d']
    """
    return [
        name.strip()
        for value in values
        for name in ([value] if value in columns else value.split(","))
        if name.strip()
    ]


def read_categories(options: dict[str, Any], columns: Container[str]) -> Any:
    """What the options --category, --lump, --scores and --differences say."""
    import whichvars as wv

    orders: dict[str, dict[str, list[str]]] = {"scores": {}, "differences": {}}
    for option, found in orders.items():
        for value in options[option]:
            name, given, levels = value.partition("=")
            found[name.strip()] = [level.strip() for level in levels.split(",") if level.strip()]
            # without levels the order is that of the file
            if (given and len(found[name.strip()]) < 2) or (not given and name.strip() not in columns):
                raise DataError(
                    f"--{option} must have a name and its levels in order, such as --{option} size=small,medium,large, not {value!r}"
                )
    return wv.Categories(names_in(options["category"], columns), lump=options["lump"], **orders)


def read_expand(options: dict[str, Any], columns: Container[str]) -> Any:
    """What the options --date and --spline say."""
    import whichvars as wv
    from whichvars.data.expanding import read_expansions

    wanted = [wv.date(name) for name in names_in(options["date"], columns)]
    for name in names_in(options["spline"], columns):
        column, colon, df = (name, "", "") if name in columns else name.rpartition(":")
        if colon and not df.strip().isdigit():
            raise DataError(
                f"--spline must be a column, or a column and its degrees of freedom such as age:4, not {name!r}"
            )
        wanted.append(wv.spline(column, int(df)) if colon else wv.spline(column or df))
    return read_expansions(wanted)


def refuse_with_stream(options: dict[str, Any]) -> None:
    """DataError if there are options that need the whole table."""
    for option in ("missing", "log", "category", "lump", "scores", "differences", "date", "spline"):
        if options[option] and options[option] != "error":
            raise DataError(f"--{option} needs the whole table; leave out either it or --stream")


def executor_at(dask: str | None) -> Any:
    """The executor of a cluster; None without one."""
    import whichvars as wv

    return None if dask is None else wv.DaskExecutor(dask)


def sample_arguments(options: dict[str, Any], parts: int = 1) -> dict[str, Any]:
    """The arguments of ``sample``; only those that were given, so that its own defaults apply. A budget is divided among the `parts`,
    if there are several posteriors."""
    from whichvars.sampling.plan import parse_budget

    arguments = {name: options[name] for name in ("replicates", "threads", "seed")}
    if options["dask"] is not None:
        arguments["executor"] = executor_at(options["dask"])
    draws = options["draws"]
    if options["budget"] is not None:
        budget = parse_budget(options["budget"])
        if budget.seconds is not None:
            arguments["budget"] = budget.seconds / parts
        elif draws is not None:
            raise DataError(
                "give --draws (of each replicate) or --budget as a number of draws (of all), not both"
            )
        else:
            assert budget.draws is not None
            draws = -(-budget.draws // (max(options["replicates"], 1) * parts))
    if draws is not None:
        arguments["draws"] = int(draws) if float(draws).is_integer() else draws  # which sample() refuses
    if options["target_mcse"] is not None:
        if not 0 < options["target_mcse"] < 1:
            raise DataError(f"--target-mcse must lie between 0 and 1, not {options['target_mcse']:g}")
        arguments["target_mcse"] = options["target_mcse"]
    return {"sampler": make_sampler(options["sampler"]), **arguments}


def chosen_sampler(problem: "Problem", arguments: dict[str, Any]) -> Any:
    """The sampler of a run; None if all models are enumerated."""
    from whichvars.sampling.choosing import choose

    if arguments["sampler"] != "auto":
        return arguments["sampler"]
    return choose(problem, arguments.get("draws"), arguments.get("budget")).sampler
