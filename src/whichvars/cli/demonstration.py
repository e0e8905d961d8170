"""``whichvars demo``: runs on two bundled data sets, with explanations of the results."""

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from whichvars.cli.fitting import add_report
from whichvars.cli.show import best_models, inclusion_table, new_console, signs

if TYPE_CHECKING:
    from rich.console import Console

DRAWS, QUICK_DRAWS = 400_000, 20_000
OUT = "whichvars-demo"

US_CRIME = {
    "M": "males aged 14 to 24", "So": "southern state", "Ed": "years of schooling",
    "Po1": "police spending 1960", "Po2": "police spending 1959", "LF": "share in labour force",
    "M.F": "males per 1000 females", "Pop": "population of the state", "NW": "share of non-whites",
    "U1": "unemployed, men 14-24", "U2": "unemployed, men 35-39", "GDP": "output per head",
    "Ineq": "income inequality", "Prob": "probability of prison", "Time": "time served in prison",
}  # fmt: skip

COMMAND = "whichvars fit data.csv --response y"
NEXT_STEPS = """\
import whichvars as wv
posterior = wv.sample(wv.Problem(X, y), seed=0)  # X: DataFrame, y: response
print(posterior.explain(), posterior, sep="\\n")"""


@click.command()
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=OUT,
    show_default=True,
    help="Run directory of the second data set.",
)
@click.option("--quick", is_flag=True, hidden=True, help="A fiftieth of the iterations, for tests.")
def demo(out: Path, quick: bool) -> None:
    """Run on two bundled data sets and explain the results."""
    from whichvars.cli.runs import check_directory, make_directory

    check_directory(out, overwrite=True)
    make_directory(out)
    console = new_console()
    console.print("\n[bold]whichvars[/]: which variables matter, and how sure can we be?")
    _compile_kernels(console)
    _show_crime(console)
    _show_meat(console, QUICK_DRAWS if quick else DRAWS, out)
    console.print("\n[bold]Next: your own data, from the command line or in three lines of Python[/]\n")
    for line in (COMMAND, "", *NEXT_STEPS.splitlines()):  # as it is, to be copied: no wrapping
        console.print("  " + line, soft_wrap=True, markup=False)
    console.print(
        "\nwhichvars fit --help lists the options. In Python, the priors are arguments of wv.Problem, and "
        'posterior.report("report.html") makes the page that fit makes.\n'
    )


def _compile_kernels(console: "Console") -> None:
    """On the first run, compile with an explanation, so that the runs that follow are not slowed down."""
    from whichvars._kernels.jit import cache_directory

    directory = cache_directory()
    if directory is not None and all(
        any(directory.rglob(f"{module}.*.nbi")) for module in ("enumerate", "hybrid")
    ):
        return
    if directory is None:
        console.print(
            "\nThe compiled code cannot be kept, because no cache directory is writable: it is compiled in "
            "every process (half a minute). Set WHICHVARS_CACHE_DIR to a private directory to keep it."
        )
    else:
        console.print(
            "\nFirst run: the inner loops are compiled for this machine and kept. This takes half a minute, once."
        )
    import whichvars as wv

    data = wv.datasets.load_uscrime()
    problem = wv.Problem(data.X, data.y, max_size=1)
    wv.exact(problem)  # a line on standard error shows the progress
    wv.sample(problem, draws=10_000, replicates=1)


def _show_crime(console: "Console") -> None:
    import whichvars as wv

    data = wv.datasets.load_uscrime()
    problem = wv.Problem(data.X, data.y, slab=wv.GPrior("n"), model_prior=wv.FixedInclusion(h=0.5))
    posterior = wv.exact(problem)
    _heading(console, 1, f"What went with crime in {problem.n} US states in 1960?")
    console.print(
        f"{problem.p} candidate variables make {posterior.iterations:,} models, each a set of variables that "
        "may explain the crime rate. All of them were looked at, so the probabilities are exact. Before seeing the data, "
        "each variable was as likely to be in the model as out of it."
    )
    console.print()
    console.print(inclusion_table(console, posterior, problem.p, US_CRIME))
    console.print()
    console.print(best_models(console, posterior, 3))
    console.print()
    best = posterior.models.frequency[0]
    console.print(
        f"Even the best model has only {best:.1%} of the probability: choosing one model would hide the "
        "uncertainty. And a variable that matters here is associated with crime, given the others; it need not be a "
        "cause of it."
    )


def _show_meat(console: "Console", draws: int, out: Path) -> None:
    import whichvars as wv
    from whichvars.cli.runs import describe, write_run

    data = wv.datasets.load_tecator()
    problem = wv.Problem(
        data.X, data.y, slab=wv.IndependentNormal(g=100), model_prior=wv.FixedInclusion(size=5), scale="none"
    )
    _heading(console, 2, f"Which of {problem.p} wavelengths tell how fat a piece of meat is?")
    console.print(
        f"2^{problem.p} models are too many to visit, so they are sampled in proportion to their "
        f"probability, in four independent runs. The number after {signs(console)[2]} is the Monte Carlo standard error."
    )
    started = time.perf_counter()
    posterior = wv.sample(problem, draws=draws, replicates=4, seed=0)
    seconds = time.perf_counter() - started
    # 100 channels from 850 to 1050 nm
    meaning = {name: f"about {850 + 200 * j / 99:.0f} nm" for j, name in enumerate(problem.names)}
    console.print()
    console.print(inclusion_table(console, posterior, 10, meaning))
    console.print()
    console.print(best_models(console, posterior, 3))
    console.print()
    near = [f"x{j:03d}" for j in range(39, 44)]
    expected = posterior.inclusion_probabilities[near].sum()
    console.print(
        "Neighbouring wavelengths are near copies that can replace one another, so that no single "
        f"one is certain. Groups are clearer: of the five from {near[0]} to {near[-1]}, {expected:.1f} "
        f"are in the model on average; of all {problem.p}, {posterior.mean_size:.1f}."
    )
    console.print(f"[dim]{posterior.iterations:,} iterations in {seconds:.1f} s.[/]")
    settings = {"data": {"file": "tecator", "sha256": ""}, "response": data.y.name, "encoding": {"columns": list(data.X.columns), "levels": {}}}  # fmt: skip
    write_run(out, posterior, settings | describe(posterior))
    console.print(f"\nAll results are in {out}", markup=False, soft_wrap=True)
    add_report(out, posterior, quiet=False, title="Which wavelengths tell how fat a piece of meat is?")


def _heading(console: "Console", number: int, text: str) -> None:
    console.print(f"\n[bold]{number}. {text}[/]\n")
