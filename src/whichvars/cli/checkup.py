"""``whichvars doctor``: what is installed, and whether it works."""

import os
import platform
import time
from typing import TYPE_CHECKING

import click

from whichvars.cli.show import new_console, new_table

if TYPE_CHECKING:
    from rich.console import Console

DRAWS = 50_000
FAILED = 1  # exit code
LIMIT = 5.0  # standard errors


@click.command(short_help="Say what is installed, and check that it works.")
def doctor() -> None:
    """Say what is installed and where, and check the usual samplers against enumeration (5 seconds)."""
    from whichvars.cli.runs import OPTIONAL, PACKAGES, versions

    console = new_console()
    table = new_table()
    table.add_column("what")
    table.add_column("which")
    table.add_row("python", f"{platform.python_version()} ({platform.system()}, {platform.machine()})")
    for name, version in versions(PACKAGES).items():
        table.add_row(name, version or "[red]missing[/]")
    for name, version in versions(OPTIONAL).items():
        table.add_row(f"[dim]{name}[/]", version or "[dim]not installed; optional[/]")
    table.add_row("cores", str(os.cpu_count()))
    table.add_row("compiled code", _cache())
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


def _cache() -> str:
    from whichvars._kernels.jit import cache_directory

    directory = cache_directory()
    if directory is None:
        return "cannot be kept: no cache directory can be written; set WHICHVARS_CACHE_DIR"
    size = sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())
    return f"{directory} ({size / 1e6:.0f} MB)"


def self_test(console: "Console") -> tuple[float, float]:
    """Largest difference between sampled and exact probabilities of a small problem in standard errors, and the
    seconds it took."""
    import numpy as np

    import whichvars as wv

    data = wv.datasets.load_uscrime()
    problem = wv.Problem(data.X, data.y, slab=wv.GPrior("n"), model_prior=wv.FixedInclusion(h=0.5))
    with console.status("checking; the first time, compiling takes a minute or two"):
        started = time.perf_counter()
        truth = wv.exact(problem)
        worst = 0.0
        for sampler in (wv.Hybrid(), wv.AddDeleteSwap(), wv.IndividualAdaptation()):
            found = wv.sample(problem, sampler, draws=DRAWS, seed=1, progress=False)
            worst = max(worst, float(np.nanmax(np.abs(found.pip - truth.pip) / found.mcse)))
    return worst, time.perf_counter() - started
