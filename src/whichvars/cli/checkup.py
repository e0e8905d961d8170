"""``whichvars doctor``: it lists what is installed, and checks that it works."""

import os
import platform
import time
import warnings
from typing import TYPE_CHECKING, Any

import click

from whichvars.cli.show import new_console, new_table

if TYPE_CHECKING:
    from rich.console import Console

DRAWS = 50_000
# draws of a run that only serves to compile a sampler
TINY = 4_000
# exit code
FAILED = 1
# largest acceptable difference in standard errors
LIMIT = 5.0
STORED = "stored columns"
# responses that are not Gaussian: the fits of models, by enumeration and on request of a sampler, which every sampler shares
FAMILY = "families"


@click.command(short_help="List what is installed, and check that it works.")
@click.option(
    "--compile",
    "ahead",
    is_flag=True,
    help="Instead, compile all samplers now, so that later runs need not: a minute or two, once per version.",
)
def doctor(ahead: bool) -> None:
    """List what is installed and where, and check the most common samplers against enumeration (5 seconds)."""
    from whichvars.cli.runs import OPTIONAL, PACKAGES, versions

    console = new_console()
    if ahead:
        compile_all(console)
        return
    table = new_table()
    table.add_column("what")
    table.add_column("which")
    table.add_row("python", f"{platform.python_version()} ({platform.system()}, {platform.machine()})")
    for name, version in versions(PACKAGES).items():
        table.add_row(name, version or "[red]missing[/]")
    for name, version in versions(OPTIONAL).items():
        table.add_row(f"[dim]{name}[/]", version or "[dim]not installed; optional[/]")
    table.add_row("cores", str(os.cpu_count()))
    table.add_row("machine code", _compiled_code())
    console.print(table, soft_wrap=True)
    worst, seconds = self_test(console)
    if worst < LIMIT:
        console.print(
            f"\n[green]Works:[/] sampled and exact probabilities agree (largest difference {worst:.1f} standard errors, {seconds:.1f} s)."
        )
        return
    console.print(
        f"\n[red]Does not work:[/] sampled and exact probabilities differ by {worst:.1f} standard errors. Please report this "
        "with the lines above."
    )
    click.get_current_context().exit(FAILED)


def compile_all(console: "Console") -> None:
    """Compile the enumeration and every sampler, and print a line for each."""
    every = names()
    width, began = max(map(len, every)), time.perf_counter()
    for i, name in enumerate(every, 1):
        took = compile_one(name)
        words = "already compiled" if took == 0 else f"{took:.1f} s"
        console.print(f"{i:>{len(str(len(every)))}}/{len(every)}  {name:<{width}}  {words}")
    seconds = time.perf_counter() - began
    console.print(
        f"\nDone in {seconds:.0f} s. Machine code: {_compiled_code()}", markup=False, soft_wrap=True
    )


def names() -> list[str]:
    """What to compile: together these use all kernels."""
    from whichvars.sampling.choosing import SAMPLERS

    return ["exact", *SAMPLERS, STORED, FAMILY]


def compile_one(name: str) -> float:
    """Compile what one of these names needs by using it on a tiny problem; returns the seconds of compiling, 0 if everything
    was compiled already."""
    from whichvars.sampling.choosing import SAMPLERS
    from whichvars.sampling.compiling import work

    problem = _tiny_problem(stored=name == STORED, family="logistic" if name == FAMILY else "gaussian")
    before = work().seconds
    for used in {STORED: ["hybrid"], FAMILY: ["exact", *SAMPLERS]}.get(name, [name]):
        _use(used, problem)
    return work().seconds - before


def _use(name: str, problem: Any) -> None:
    """Enumerate, or run this sampler for a moment, and ask for results."""
    import whichvars as wv
    from whichvars.cli.options import make_sampler
    from whichvars.sampling.announcing import Announcer
    from whichvars.sampling.choosing import SAMPLERS

    with warnings.catch_warnings(), Announcer(True, SAMPLERS.get(name, name)):
        warnings.simplefilter("ignore")  # the results are not used
        if name == "exact":
            posterior = wv.exact(problem, progress=False)
        else:
            sampler = make_sampler(name)
            usual = getattr(sampler, "by_draws", True)
            options: dict[str, Any] = {"draws": TINY, "start": "forward"} if usual else {}
            posterior = wv.sample(problem, sampler, replicates=2, progress=False, **options)
        posterior.summary()
        posterior.top_models(3)
        posterior.coefficients()
        posterior.clusters()
        posterior.sensitivity()


def _tiny_problem(stored: bool, family: str) -> Any:
    import numpy as np
    from scipy import sparse

    import whichvars as wv

    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 6))
    y = X[:, 0] + rng.normal(size=30)
    if not stored:
        return wv.Problem(X, y if family == "gaussian" else y > 0, family=family)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about duplicated columns, which are intended
        return wv.Problem(sparse.csc_matrix(np.abs(X[:, [*range(6), 5]])), y, engine="columns")


def _compiled_code() -> str:
    """A description of where the machine code comes from."""
    from whichvars._kernels.jit import SHIPPED, WHY_NOT_SHIPPED, cache_directory

    if SHIPPED is not None:
        return f"came with the package, for {SHIPPED.level} processors"
    made = f"made on this machine ({WHY_NOT_SHIPPED})"
    directory = cache_directory()
    if directory is None:
        return f"{made}; cannot be kept, because no cache directory is writable: set WHICHVARS_CACHE_DIR"
    size = sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())
    return f"{made}; kept in {directory} ({size / 1e6:.0f} MB)"


def self_test(console: "Console") -> tuple[float, float]:
    """The largest difference between sampled and exact probabilities of a small problem in standard errors, and the
    seconds that the test took."""
    import numpy as np

    import whichvars as wv
    from whichvars._kernels.jit import SHIPPED

    data = wv.datasets.load_uscrime()
    problem = wv.Problem(data.X, data.y, slab=wv.GPrior("n"), model_prior=wv.FixedInclusion(h=0.5))
    first = "; the first time, compiling takes half a minute" if SHIPPED is None else ""
    with console.status(f"checking{first}"):
        started = time.perf_counter()
        truth = wv.exact(problem, progress=False)
        worst = 0.0
        for sampler in (wv.Hybrid(), wv.AddDeleteSwap(), wv.IndividualAdaptation()):
            sampled = wv.sample(problem, sampler, draws=DRAWS, seed=1, progress=False)
            worst = max(worst, float(np.nanmax(np.abs(sampled.pip - truth.pip) / sampled.mcse)))
    return worst, time.perf_counter() - started
