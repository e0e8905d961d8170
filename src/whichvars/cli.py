"""The command line, ``whichvars`` or ``python -m whichvars``. Commands import what they need when they
run."""

from typing import TYPE_CHECKING

import click

from whichvars import __version__

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from whichvars.posterior import Posterior

DRAWS, QUICK_DRAWS = 1_000_000, 20_000
WIDEST = 100  # columns; longer lines are hard to read

US_CRIME = {
    "M": "males aged 14 to 24", "So": "southern state", "Ed": "years of schooling",
    "Po1": "police spending 1960", "Po2": "police spending 1959", "LF": "share in labour force",
    "M.F": "males per 1000 females", "Pop": "population of the state", "NW": "share of non-whites",
    "U1": "unemployed, men 14-24", "U2": "unemployed, men 35-39", "GDP": "output per head",
    "Ineq": "income inequality", "Prob": "probability of prison", "Time": "time served in prison",
}  # fmt: skip

NEXT_STEPS = """\
import whichvars as wv
posterior = wv.sample(wv.Problem(X, y), seed=0)  # X: DataFrame, y: response
print(posterior.summary(), posterior.top_models(5).to_string(), sep="\\n")"""


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="whichvars")
def main() -> None:
    """Which variables matter, and how sure can I be? Bayesian variable selection."""


@main.command()
@click.option("--quick", is_flag=True, hidden=True, help="A fiftieth of the iterations, for tests.")
def demo(quick: bool) -> None:
    """Run on two bundled data sets and explain the answers."""
    from rich.console import Console

    console = Console(highlight=False)
    console = Console(highlight=False, width=min(console.width, WIDEST))
    console.print("\n[bold]whichvars[/]: which variables matter, and how sure can we be?")
    _compile_kernels(console)
    _show_crime(console)
    _show_meat(console, QUICK_DRAWS if quick else DRAWS)
    console.print("\n[bold]Next: your own data, in three lines of Python[/]\n")
    for line in NEXT_STEPS.splitlines():  # as it is, to be copied: no wrapping
        console.print("  " + line, soft_wrap=True, markup=False)
    console.print(
        "\nFor up to about 20 columns wv.exact(wv.Problem(X, y)) gives the exact answer. The priors are "
        "arguments of wv.Problem; help(wv.Problem) lists them.\n"
    )


def in_words(probability: float) -> str:
    """What an inclusion probability says.

    >>> in_words(0.997), in_words(0.7), in_words(0.2)
    ('almost certainly in', 'probably in', 'plausible')
    """
    for least, words in [(0.95, "almost certainly in"), (0.5, "probably in"), (0.1, "plausible")]:
        if probability >= least:
            return words
    return "probably out" if probability >= 0.01 else "almost certainly out"


def _compile_kernels(console: "Console") -> None:
    """On the first run, compile with a word of explanation, so that the runs shown are not slowed by it."""
    from whichvars._kernels.jit import cache_directory

    directory = cache_directory()
    if directory is not None and all(
        any(directory.rglob(f"{module}.*.nbi")) for module in ("enumeration", "add_delete_swap")
    ):
        return
    if directory is None:
        console.print(
            "\nThe compiled parts cannot be kept, as no cache directory can be written: they are compiled in "
            "every process (about 20 s). Set WHICHVARS_CACHE_DIR to a private directory to keep them."
        )
    else:
        console.print(
            "\nFirst run: the inner loops are compiled for this machine and kept. This takes about 20 s, once."
        )
    import whichvars as wv

    data = wv.datasets.load_uscrime()
    problem = wv.Problem(data.X, data.y, max_size=1)
    with console.status("compiling"):
        wv.exact(problem)
        wv.sample(problem, draws=2000, replicates=1, progress=False)


def _show_crime(console: "Console") -> None:
    import whichvars as wv

    data = wv.datasets.load_uscrime()
    problem = wv.Problem(data.X, data.y, slab=wv.GPrior("n"), model_prior=wv.FixedInclusion(h=0.5))
    posterior = wv.exact(problem)
    _heading(console, 1, f"What went with crime in {problem.n} US states in 1960?")
    console.print(
        f"{problem.p} candidate variables make {posterior.iterations:,} models, each a set of variables that "
        "may explain the crime rate. All were visited, so the probabilities are exact. Before seeing the data, "
        "each variable was as likely in as out."
    )
    console.print()
    console.print(_inclusion_table(console, posterior, US_CRIME, problem.p))
    console.print()
    console.print(_model_table(posterior, 3))
    console.print()
    best = posterior.models.frequency[0]
    console.print(
        f"Even the best model has only {best:.1%} of the probability: picking one model would hide how much is "
        "uncertain. And a variable that matters here goes together with crime, given the others; it need not "
        "cause it."
    )


def _show_meat(console: "Console", draws: int) -> None:
    import time

    import whichvars as wv

    data = wv.datasets.load_tecator()
    problem = wv.Problem(
        data.X, data.y, slab=wv.IndependentNormal(g=100), model_prior=wv.FixedInclusion(size=5), scale="none"
    )
    _heading(console, 2, f"Which of {problem.p} wavelengths tell how fat a piece of meat is?")
    console.print(
        f"2^{problem.p} models are too many to visit, so they are sampled in proportion to their "
        "probability, in four independent runs. What follows the "
        f"{_signs(console)[2]} is the standard error of the sampling."
    )
    started = time.perf_counter()
    posterior = wv.sample(problem, draws=draws, replicates=4, seed=0)
    seconds = time.perf_counter() - started
    # 100 channels from 850 to 1050 nm
    meaning = {name: f"about {850 + 200 * j / 99:.0f} nm" for j, name in enumerate(problem.names)}
    console.print()
    console.print(_inclusion_table(console, posterior, meaning, 10))
    console.print()
    console.print(_model_table(posterior, 3))
    console.print()
    near = [f"x{j:03d}" for j in range(39, 44)]
    expected = posterior.inclusion_probabilities[near].sum()
    console.print(
        "Neighbouring wavelengths are nearly copies of one another and stand in for each other, so no single "
        f"one is certain. As a group they are clearer: of the five from {near[0]} to {near[-1]}, {expected:.1f} "
        f"are in on average; of all {problem.p}, {posterior.mean_size:.1f}."
    )
    console.print(f"[dim]{posterior.iterations:,} iterations in {seconds:.1f} s.[/]")


def _heading(console: "Console", number: int, text: str) -> None:
    console.print(f"\n[bold]{number}. {text}[/]\n")


def _inclusion_table(
    console: "Console", posterior: "Posterior", meaning: dict[str, str], rows: int
) -> "Table":
    full, empty, plus_minus = _signs(console)
    table = _new_table()
    table.add_column("variable", no_wrap=True)
    table.add_column("meaning", no_wrap=True)
    table.add_column("probability it matters", no_wrap=True)
    table.add_column("in words", no_wrap=True)
    frame = posterior.summary()
    for name, pip, error in zip(frame.index[:rows], frame["pip"], frame["mcse"]):
        filled = round(10 * pip)
        if posterior.models.exact:
            number = f"{pip:6.1%}"
        elif error > 0:
            number = f"{100 * pip:5.1f} {plus_minus} {100 * error:.1f}%"
        else:  # NaN: it never came in or never left
            number = f"{100 * pip:5.1f} {plus_minus} ?%"
        bar = f"[cyan]{full * filled}[/][dim]{empty * (10 - filled)}[/]"
        table.add_row(name, f"[dim]{meaning[name]}[/]", f"{bar} {number}", in_words(pip))
    if rows < posterior.problem.p:
        left = frame["pip"].iloc[rows:]
        table.add_row("...", f"[dim]{len(left)} more, each at most {left.iloc[0]:.0%}[/]", "", "")
    return table


def _model_table(posterior: "Posterior", rows: int) -> "Table":
    table = _new_table()
    table.add_column("best models", justify="right", no_wrap=True)
    table.add_column("variables in the model")
    for _, model in posterior.top_models(rows).iterrows():
        table.add_row(f"{model['probability']:.2%}", model["variables"] or "none")
    return table


def _signs(console: "Console") -> tuple[str, str, str]:
    """Full and empty parts of a bar, and plus-minus, as the terminal can show them."""
    return ("█", "░", "±") if console.encoding.lower().startswith("utf") else ("#", ".", "+-")


def _new_table() -> "Table":
    from rich.table import Table

    return Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
