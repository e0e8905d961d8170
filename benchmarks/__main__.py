"""``python -m benchmarks [COMMAND]``: compare (the default), reference, honesty, ranking, stopping, strong, engine, speed, wide, startup, soak,
cluster, calibration, fuzz, tecator, boston, tall, columns, messy, credible-sets, genetics, default-prior, peers, page."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from benchmarks import (
    boston,
    calibration,
    cluster,
    common,
    compare,
    credible_sets,
    default_prior,
    engine,
    fuzz,
    genetics,
    honesty,
    many_columns,
    messy,
    page,
    problems,
    ranking,
    references,
    soak,
    speed,
    startup,
    stopping,
    strong,
    tall,
    tecator,
    wide,
)
from benchmarks.peers import contest, exchange
from benchmarks.peers.bms import BMS
from benchmarks.peers.particles_smc import Particles


def say(text: str) -> None:
    """What is going on, away from the output."""
    click.echo(text, err=True)


class ByName(click.ParamType):
    """Names separated by commas, or "all"."""

    name = "names"

    def __init__(self, known: list[str]) -> None:
        self.known = known

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[str]:
        if not isinstance(value, str):
            return list(value)
        names = self.known if value == "all" else [name.strip() for name in value.split(",") if name.strip()]
        for name in names:
            if name not in self.known:
                self.fail(f"{name!r} is not one of {', '.join(self.known)}", param, ctx)
        return list(names)


class Numbers(click.ParamType):
    """Positive numbers separated by commas."""

    name = "numbers"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[float]:
        if not isinstance(value, str):
            return list(value)
        try:
            found = [float(part) for part in value.split(",")]
        except ValueError:
            found = []
        if not found or not all(0 < x < float("inf") for x in found):
            self.fail(f"{value!r} is not a list of positive numbers such as 1,4,16", param, ctx)
        return found


class DefaultToCompare(click.Group):
    """A group whose command may be left out."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0] not in self.commands and args[0] != "--help"):
            args = ["compare", *args]
        return super().parse_args(ctx, args)


def output(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options of every command that prints tables."""
    command = click.option("--markdown", is_flag=True, help="Print Markdown.")(command)
    return click.option(
        "--out",
        type=click.Path(dir_okay=False, path_type=Path),
        help="JSON file; benchmarks/results/ if not given.",
    )(command)


@click.group(cls=DefaultToCompare)
def main() -> None:
    """Speed and accuracy per CPU second of whichvars."""


@main.command("compare")
@click.option("--budget", default=5.0, show_default=True, help="CPU seconds per run.")
@click.option("--runs", default=8, show_default=True, help="Runs per sampler and problem.")
@click.option("--problems", "names", type=ByName(list(problems.PROBLEMS)), default=problems.DEFAULT)
@click.option("--samplers", type=ByName(list(compare.SAMPLERS)), default="all", show_default=True)
@output
def compare_command(
    budget: float, runs: int, names: list[str], samplers: list[str], out: Path | None, markdown: bool
) -> None:
    """All samplers on all problems: squared PIP error x CPU seconds, as a ratio to add/delete/swap."""
    if compare.BASELINE not in samplers:
        samplers = [compare.BASELINE, *samplers]
    result = compare.compare(names, samplers, budget, runs, say)
    where = common.write_result("compare", result, out)
    common.present(result, compare.tables, markdown)
    print(f"{budget:g} CPU seconds per run, {runs} runs. {compare.EXPLANATION}")
    say(f"written to {where.name}")


@main.command("reference")
@click.argument("names", nargs=-1, type=click.Choice(list(problems.PROBLEMS)))
@click.option("--minutes", default=10.0, show_default=True, help="Wall time, on all threads.")
@click.option("--replicates", default=32, show_default=True)
@click.option("--threads", type=int, help="All CPUs if not given.")
@click.option(
    "--sampler",
    type=click.Choice(list(compare.SAMPLERS)),
    help="The best known if not given, with a second one beside it where the problem is hard.",
)
@click.option("--progress/--no-progress", default=True)
@click.option("--show", is_flag=True, help="Only describe the stored ones.")
@click.option(
    "--honesty",
    "of_honesty",
    is_flag=True,
    help="Those of the honesty table that no other table has, but FINAL_CHECK.",
)
@click.option("--final", is_flag=True, help="Those of FINAL_CHECK.")
@click.option("--missing", is_flag=True, help="Only those of them that have no reference.")
@click.option("--weak", is_flag=True, help="Only those of them that have none or a weak one.")
def reference_command(
    names: tuple[str, ...],
    minutes: float,
    replicates: int,
    threads: int | None,
    sampler: str | None,
    progress: bool,
    show: bool,
    of_honesty: bool,
    final: bool,
    missing: bool,
    weak: bool,
) -> None:
    """Make reference inclusion probabilities, and store them with their own error."""
    if of_honesty:
        names += tuple(
            name for name in problems.HONESTY if name not in (*problems.FINAL_CHECK, *problems.DEFAULT)
        )
    names += problems.FINAL_CHECK if final else ()
    if not names and not show:
        raise click.UsageError(f"name a problem: {', '.join(problems.PROBLEMS)}")
    for name in names or problems.PROBLEMS:
        problem = problems.build(name)
        stored = references.load(name, problem)
        good = not isinstance(stored, str) and (missing or (weak and not stored.weakness))
        if not show and not good:
            chosen = references.RECIPES.get(name)
            if sampler is not None:
                chosen = references.Recipe(compare.SAMPLERS[sampler])
            made = references.make(problem, minutes, replicates, chosen, threads, progress)
            references.save(name, made)
            stored = references.load(name, problem)
        problems.build.cache_clear()
        print(f"{name}: {stored}" if isinstance(stored, str) else references.describe(name, stored))


@main.command("engine")
@click.option("--only", type=ByName(list(engine.MEASUREMENTS)), default="all", show_default=True)
@click.option("--repeats", type=int, help="5 if not given; the median is reported.")
@click.option("--small", is_flag=True, help="Small budgets, to see that it runs; p = 1,000,000 is left out.")
@output
def engine_command(
    only: list[str], repeats: int | None, small: bool, out: Path | None, markdown: bool
) -> None:
    """What makes it fast: memo, columns, buckets, threads, memory, enumeration; as ratios."""
    effort = engine.with_repeats(engine.SMALL if small else engine.Effort(), repeats)
    result = engine.measure(only, effort, say)
    where = common.write_result("engine", result, out)
    common.present(result, engine.tables, markdown)
    say(f"written to {where.name}")


@main.command("speed")
@click.option(
    "--baseline",
    type=click.Path(exists=True, file_okay=False, resolve_path=True, path_type=Path),
    required=True,
    help="Another checkout, which is measured in turns with this one.",
)
@click.option("--problems", "names", type=ByName(list(problems.PROBLEMS)), default=speed.PROBLEMS)
@click.option("--samplers", type=ByName(list(speed.SAMPLERS)), default="all", show_default=True)
@click.option("--repeats", default=5, show_default=True, help="Pairs of runs.")
@click.option("--seconds", default=0.5, show_default=True, help="CPU seconds of a run, roughly.")
@output
def speed_command(
    baseline: Path,
    names: list[str],
    samplers: list[str],
    repeats: int,
    seconds: float,
    out: Path | None,
    markdown: bool,
) -> None:
    """Iterations per CPU second of every sampler, beside those of another checkout."""
    result = speed.measure(baseline, names, samplers, repeats, seconds, say)
    where = common.write_result("speed", result, out)
    common.present(result, speed.tables, markdown)
    say(f"written to {where.name}")


@main.command("wide")
@click.option("--columns", default=wide.SIZES[-1], show_default=True, help="The larger of two sizes.")
@click.option("--samplers", type=ByName(list(wide.SAMPLERS)), default="all", show_default=True)
@output
def wide_command(columns: int, samplers: list[str], out: Path | None, markdown: bool) -> None:
    """Genotypes of one byte each: iterations/s and memory at p = 1,000,000 against p = 10,000."""
    result = wide.measure((wide.SIZES[0], columns), samplers, say)
    where = common.write_result("wide", result, out)
    common.present(result, wide.tables, markdown)
    say(f"written to {where.name}")


@main.command("genetics")
@click.option("--traits", default=genetics.TRAITS, show_default=True)
@click.option("--variants", default=genetics.MANY_VARIANTS, show_default=True, help="Beside covariates.")
@output
def genetics_command(traits: int, variants: int, out: Path | None, markdown: bool) -> None:
    """A thousand traits on five thousand variants, and covariates beside twenty thousand genotypes."""
    result = genetics.measure(traits, variants, say)
    where = common.write_result("genetics", result, out)
    common.present(result, genetics.tables, markdown)
    say(f"written to {where.name}")


@main.command("columns")
@click.option(
    "--seeds",
    type=ByName([str(seed) for seed in many_columns.SEEDS]),
    default="all",
    show_default=True,
    help="Of data sets.",
)
@click.option("--priors", type=ByName(list(many_columns.PRIORS)), default="all", show_default=True)
@click.option("--columns", default=many_columns.COLUMNS, show_default=True)
@click.option(
    "--target",
    default=many_columns.TARGET,
    show_default=True,
    help="The Monte Carlo error at which runs stop.",
)
@click.option("--budget", default=600.0, show_default=True, help="Seconds a run may take.")
@click.option("--runs", default=1, show_default=True, help="Runs of each data set, with seeds 0, 1, …")
@output
def columns_command(
    seeds: list[str],
    priors: list[str],
    columns: int,
    target: float,
    budget: float,
    runs: int,
    out: Path | None,
    markdown: bool,
) -> None:
    """Two classes and twenty thousand columns: CPU time and memory until every error is small."""
    chosen = tuple(int(seed) for seed in seeds)
    result = many_columns.measure(chosen, tuple(priors), columns, target, budget, tuple(range(runs)), say)
    where = common.write_result("columns", result, out)
    common.present(result, many_columns.tables, markdown)
    say(f"written to {where.name}")


@main.command("stopping")
@click.option("--target", default=0.01, show_default=True, help="The Monte Carlo error at which runs stop.")
@click.option("--runs", default=4, show_default=True, help="Runs per problem.")
@click.option("--budget", default=60.0, show_default=True, help="Seconds a run may take.")
@click.option("--problems", "names", type=ByName(list(problems.PROBLEMS)), default=problems.DEFAULT)
@output
def stopping_command(
    target: float, runs: int, budget: float, names: list[str], out: Path | None, markdown: bool
) -> None:
    """Runs that stop when they are accurate enough: are they?"""
    result = stopping.measure(names, target, runs, budget, say)
    where = common.write_result("stopping", result, out)
    common.present(result, stopping.tables, markdown)
    say(f"written to {where.name}")


@main.command("strong")
@click.option("--runs", default=8, show_default=True, help="Runs per sampler and t-value.")
@click.option(
    "--draws", default=20_000, show_default=True, help="Of each of four replicates, with a near copy."
)
@click.option(
    "--block-draws", default=100_000, show_default=True, help="The same, with blocks of near copies."
)
@click.option("--samplers", type=ByName(list(strong.SAMPLERS)), default="all", show_default=True)
@output
def strong_command(
    runs: int, draws: int, block_draws: int, samplers: list[str], out: Path | None, markdown: bool
) -> None:
    """Every sampler where evidence is strong and variables have near copies, beside all models summed."""
    result = strong.measure(runs, draws, block_draws, samplers, say)
    where = common.write_result("strong", result, out)
    common.present(result, strong.tables, markdown)
    say(f"written to {where.name}")


@main.command("honesty")
@click.option(
    "--problems",
    "names",
    type=ByName(list(problems.PROBLEMS)),
    help="Those of the honesty table but FINAL_CHECK if not given.",
)
@click.option("--final", is_flag=True, help="FINAL_CHECK too: when the design is done.")
@click.option(
    "--budgets", type=Numbers(), default=honesty.BUDGETS, help="CPU seconds of a run; 1,4,16 if not given."
)
@click.option("--seeds", default=honesty.SEEDS, show_default=True, help="Runs per problem and budget.")
@click.option("--sampler", type=click.Choice(list(honesty.CHOICES)), default="auto", show_default=True)
@click.option("--any-code", is_flag=True, help="Take runs that other versions of the code made, too.")
@click.option(
    "--no-runs", is_flag=True, help="Only judge the runs that are there, by the references of today."
)
@click.option("--details", is_flag=True, help="A second table, by budget.")
@output
def honesty_command(
    names: list[str] | None,
    final: bool,
    budgets: list[float],
    seeds: int,
    sampler: str,
    any_code: bool,
    no_runs: bool,
    details: bool,
    out: Path | None,
    markdown: bool,
) -> None:
    """How often runs are wrong without a warning, and warned of without being wrong.

    Every run is kept in a folder beside the result: stop it at any moment and call it again, or call it for a few problems at a time."""
    if not names:
        names = [name for name in problems.HONESTY if name not in problems.FINAL_CHECK]
    if final:
        names = list(dict.fromkeys([*names, *problems.FINAL_CHECK]))
    folder = (common.RESULTS / "honesty.json" if out is None else out).with_suffix("")
    result = honesty.measure(names, budgets, seeds, sampler, folder, any_code, not no_runs, say)
    where = common.write_result("honesty", result, out)
    common.present(
        result,
        lambda found: [*honesty.tables(found), *([honesty.details(found)] if details else [])],
        markdown,
    )
    say(f"written to {where.name}")


@main.command("ranking")
@click.option(
    "--problems",
    "names",
    type=ByName(list(problems.PROBLEMS)),
    default=[*ranking.HARD, *problems.FINAL_CHECK],
    help="The hard ones if not given, with those of FINAL_CHECK.",
)
@click.option(
    "--budgets", type=Numbers(), default=ranking.BUDGETS, help="CPU seconds of a run; 1,4,16 if not given."
)
@click.option("--runs", default=ranking.RUNS, show_default=True, help="Runs per contestant and budget.")
@click.option(
    "--others",
    type=ByName([name for name in compare.SAMPLERS if name not in ("ads", "hybrid", "smc")]),
    default=ranking.OTHERS,
    help="The samplers of which the best is chosen.",
)
@click.option(
    "--baseline",
    type=click.Path(exists=True, file_okay=False, resolve_path=True, path_type=Path),
    help="Another checkout, whose add/delete/swap is run in turns with this one's.",
)
@click.option("--any-code", is_flag=True, help="Take runs that other versions of the code made, too.")
@click.option("--no-runs", is_flag=True, help="Only judge the runs that are there.")
@output
def ranking_command(
    names: list[str],
    budgets: list[float],
    runs: int,
    others: list[str],
    baseline: Path | None,
    any_code: bool,
    no_runs: bool,
    out: Path | None,
    markdown: bool,
) -> None:
    """The default on hard problems, beside the best of the other samplers and add/delete/swap of another checkout.

    Every run is kept in a folder beside the result: stop it at any moment and call it again, or call it for a few problems at a time."""
    folder = (common.RESULTS / "ranking.json" if out is None else out).with_suffix("")
    result = ranking.measure(names, budgets, runs, others, baseline, folder, any_code, not no_runs, say)
    where = common.write_result("ranking", result, out)
    common.present(result, ranking.tables, markdown)
    print(ranking.EXPLANATION)
    say(f"written to {where.name}")


@main.command("startup")
@click.option("--repeats", default=5, show_default=True, help="The median is reported.")
@click.option(
    "--baseline",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Another checkout, which is measured in turns with this one.",
)
@click.option(
    "--wheel",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The python of an environment in which a wheel of `make wheel` is installed: its first answers too.",
)
@click.option(
    "--first",
    "names",
    type=click.Choice(startup.FIRST),
    multiple=True,
    default=startup.FIRST,
    help="Only the first answers of these samplers. All by default.",
)
@click.option("--first-repeats", default=1, show_default=True, help="A first answer takes a while.")
@output
def startup_command(
    repeats: int,
    baseline: Path | None,
    wheel: Path | None,
    names: tuple[str, ...],
    first_repeats: int,
    out: Path | None,
    markdown: bool,
) -> None:
    """What one waits for before anything is computed: import, --help, a second fit of a small problem; the first answer of each
    sampler, when nothing is compiled; and that of each further one, when the default sampler has run before."""
    result = startup.measure(repeats, say, baseline)
    result |= startup.first_answers(names, baseline, first_repeats, say, wheel)
    result |= startup.further_answers(names, baseline, say)
    where = common.write_result("startup", result, out)
    common.present(result, startup.tables, markdown)
    say(f"written to {where.name}")


@main.command("soak")
@click.option("--minutes", default=30.0, show_default=True)
@click.option("--every", default="10s", show_default=True, help="Time between two checkpoints.")
@click.option(
    "--problem", "name", type=click.Choice(list(problems.PROBLEMS)), default=soak.PROBLEM, show_default=True
)
@output
def soak_command(minutes: float, every: str, name: str, out: Path | None, markdown: bool) -> None:
    """A long run with checkpoints: memory, speed, and what checkpoints cost."""
    result = soak.measure(minutes, every, name, say=say)
    where = common.write_result("soak", result, out)
    common.present(result, soak.tables, markdown)
    say(f"written to {where.name}")


@main.command("cluster")
@click.option("--seconds", default=cluster.SECONDS, show_default=True, help="Of one replicate on one thread.")
@click.option("--problems", "names", type=ByName(list(problems.PROBLEMS)), default=cluster.PROBLEMS)
@output
def cluster_command(seconds: float, names: list[str], out: Path | None, markdown: bool) -> None:
    """A Dask cluster on this machine: one and two workers, what a round costs, and a model of many workers."""
    result = cluster.measure(seconds, names, say)
    where = common.write_result("cluster", result, out)
    common.present(result, cluster.tables, markdown)
    say(f"written to {where.name}")


@main.command("fuzz")
@click.option(
    "--files", default=fuzz.FILES, show_default=True, help="Mutated tables, and as many checkpoints."
)
@click.option("--seed", default=0, show_default=True)
@output
def fuzz_command(files: int, seed: int, out: Path | None, markdown: bool) -> None:
    """Mutated CSV files and checkpoints: read as what they say, or refused with a message."""
    result = fuzz.measure(files, seed, say)
    where = common.write_result("fuzz", result, out)
    common.present(result, fuzz.tables, markdown)
    say(f"written to {where.name}")


@main.command("calibration")
@click.option("--sets", default=500, show_default=True, help="Data sets drawn from the prior.")
@click.option("--draws", default=20_000, show_default=True, help="Of each of two replicates.")
@click.option("--picture", type=click.Path(dir_okay=False, path_type=Path), help="PNG file to draw it to.")
@output
def calibration_command(
    sets: int, draws: int, picture: Path | None, out: Path | None, markdown: bool
) -> None:
    """Data from the prior: ranks of the truth, and whether inclusion probabilities are kept."""
    result = calibration.measure(sets, draws, say)
    where = common.write_result("calibration", result, out)
    common.present(result, calibration.tables, markdown)
    if picture is not None:
        calibration.picture(common.plain(result), picture)
    say(f"written to {where.name}")


@main.command("tecator")
@click.option("--runs", default=2, show_default=True)
@click.option(
    "--full", is_flag=True, help="All eight targets tau, not only .35, .45 and .55; about 2 minutes a run."
)
@click.option(
    "--draws", default=tecator.DRAWS, show_default=True, help="Counted iterations; a tenth as warm-up."
)
@output
def tecator_command(runs: int, full: bool, draws: int, out: Path | None, markdown: bool) -> None:
    """The paper's Tecator figures beside ours."""
    result = tecator.replicate(full, runs, draws, draws // 10, say=say)
    where = common.write_result("tecator", result, out)
    tecator.write_csv(result, where.with_suffix(".csv"))
    common.present(result, tecator.tables, markdown)
    say(f"written to {where.name} and {where.with_suffix('.csv').name}")


@main.command("boston")
@click.option("--full", is_flag=True, help="The paper's size: 60 runs, five targets tau; hours.")
@click.option("--runs", type=int, help="Runs a setting of the paper's figure; 3 if not given.")
@click.option("--budget", type=float, help="CPU seconds per run where these are equal; 3 if not given.")
@click.option("--contest-runs", type=int, help="Runs at equal CPU time; 6 if not given.")
@output
def boston_command(
    full: bool,
    runs: int | None,
    budget: float | None,
    contest_runs: int | None,
    out: Path | None,
    markdown: bool,
) -> None:
    """The paper's WMSE on Boston-104, and tempering against add/delete/swap at equal CPU time."""
    result = boston.measure(full, runs, budget=budget, contest_runs=contest_runs, say=say)
    where = common.write_result("boston", result, out)
    common.present(result, boston.tables, markdown)
    for line in boston.conclusion(common.plain(result)):
        print(line)
    say(f"written to {where.name}")


@main.command("peers")
@click.option("--budget", default=4.0, show_default=True, help="CPU seconds of the longest runs.")
@click.option("--runs", default=4, show_default=True, help="Runs per program and budget.")
@click.option("--problems", "names", type=ByName(list(problems.PROBLEMS)), default=contest.DEFAULT_WORKLOADS)
@click.option("--rscript", default="Rscript", show_default=True, help="For BMS.")
@click.option(
    "--environments",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for the environments of Python programs that need one of their own; without it they are skipped.",
)
@click.option(
    "--file",
    "files",
    multiple=True,
    metavar="PROBLEM:NAME=FOLDER",
    help="Results of any other program: pips.csv and seconds.txt, or subfolders with these.",
)
@click.option(
    "--export",
    type=click.Path(file_okay=False, path_type=Path),
    help="Only write data.csv and settings.json of each problem there, for other programs.",
)
@output
def peers_command(
    budget: float,
    runs: int,
    names: list[str],
    rscript: str,
    environments: Path | None,
    files: tuple[str, ...],
    export: Path | None,
    out: Path | None,
    markdown: bool,
) -> None:
    """Other programs beside ours: error x CPU seconds, worst error, time to a worst error of .02."""
    if export is not None:
        for name in names:
            exchange.write_workload(exchange.workload(name), export / name)
            print(f"{name}: data.csv and settings.json")
        return
    given = given_files(files, names)
    peers: list[contest.Peer] = [BMS(rscript), Particles(environments)]
    result = contest.measure(names, peers, given, budget, runs, say)
    where = common.write_result("peers", result, out)
    common.present(result, contest.tables, markdown)
    print(contest.about(result))
    say(f"written to {where.name}")


def given_files(files: tuple[str, ...], names: list[str]) -> dict[str, dict[str, list[exchange.Outcome]]]:
    """Results of other programs by problem and name."""
    given: dict[str, dict[str, list[exchange.Outcome]]] = {}
    for text in files:
        key, equals, folder = text.partition("=")
        problem, colon, name = key.partition(":")
        if not (equals and colon and name):
            raise click.UsageError(f"--file {text}: write PROBLEM:NAME=FOLDER")
        if problem not in names:
            raise click.UsageError(f"--file {text}: {problem!r} is not one of {', '.join(names)}")
        try:
            outcomes = exchange.read_outcomes(Path(folder), list(problems.build(problem).names))
        except exchange.BadFileError as error:
            raise click.UsageError(str(error)) from error
        given.setdefault(problem, {})[name] = outcomes
    return given


@main.command("tall")
@click.option("--rows", default=10_000_000, show_default=True, help="About 400 bytes of disk each.")
@click.option("--repeats", default=3, show_default=True, help="The median is reported.")
@output
def tall_command(rows: int, repeats: int, out: Path | None, markdown: bool) -> None:
    """Sufficient statistics streamed from Parquet: rows/s, peak memory, ratio to reading alone."""
    result = tall.measure(rows, repeats, say)
    where = common.write_result("tall", result, out)
    common.present(result, tall.tables, markdown)
    say(f"written to {where.name}")


@main.command("messy")
@click.option("--rows", default=200_000, show_default=True, help="About 200 bytes of disk each.")
@click.option("--holes", default=0.02, show_default=True, help="Share of missing cells in 15 of 30 columns.")
@click.option("--ways", type=ByName(list(messy.WAYS)), default="all", show_default=True)
@click.option("--budget", help="That of `whichvars fit`, if not its default number of draws.")
@output
def messy_command(
    rows: int, holes: float, ways: list[str], budget: str | None, out: Path | None, markdown: bool
) -> None:
    """A file with categories and holes, from CSV to report: CPU seconds and memory, rows dropped or values imputed."""
    result = messy.measure(rows, holes, tuple(ways), budget, say)
    where = common.write_result("messy", result, out)
    common.present(result, messy.tables, markdown)
    say(f"written to {where.name}")


@main.command("default-prior")
@click.option("--draws", default=2000, show_default=True, help="Draws of each run.")
@click.option("--repeats", default=10, show_default=True, help="Simulated data sets of each kind.")
@click.option("--seed", default=1, show_default=True)
@output
def default_prior_command(draws: int, repeats: int, seed: int, out: Path | None, markdown: bool) -> None:
    """Candidates for the default prior: predictions of real data, and what they find in simulated data."""
    result = default_prior.measure(draws, repeats, seed, say)
    where = common.write_result("default-prior", result, out)
    common.present(result, default_prior.tables, markdown)
    say(f"written to {where.name}")


@main.command("credible-sets")
@click.option(
    "--data-sets",
    default=100,
    show_default=True,
    help="For each number of effects; about 5 CPU seconds each.",
)
@click.option("--rows", default=1000, show_default=True, help="People of each data set.")
@click.option("--panel", default=500, show_default=True, help="Other people, whose LD is used too.")
@click.option("--first", default=0, show_default=True, help="Seed of the first data set; the others follow.")
@click.option(
    "--keep",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File of rows: the same call continues a run.",
)
@output
def credible_sets_command(
    data_sets: int,
    rows: int,
    panel: int,
    first: int,
    keep: Path | None,
    out: Path | None,
    markdown: bool,
) -> None:
    """Coverage, power and size of credible sets on mosaics of real genotypes, beside susieR if R has it."""
    result = credible_sets.measure(data_sets, rows, panel, say, keep, first)
    where = common.write_result("credible-sets", result, out)
    common.present(result, credible_sets.tables, markdown)
    say(f"written to {where.name}")


@main.command("page")
@click.option("--check", is_flag=True, help="Write nothing; say what would change.")
def page_command(check: bool) -> None:
    """Put the tables of the last results into the pages of docs/performance/, docs/reliability.md and docs/genetics.md."""
    for place in page.PAGES:
        for line in page.assemble(place, write=not check):
            print(line)


if __name__ == "__main__":
    sys.exit(main(prog_name="python -m benchmarks"))
