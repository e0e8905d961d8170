"""``python -m papers.individual_adaptation [--full] [FIGURE…]``."""

import sys
import time
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import click

from benchmarks.common import ROOT
from papers.individual_adaptation import page, stored
from papers.individual_adaptation.geo import load_geo
from papers.individual_adaptation.study import FULL, KEPT, QUICK, Study, TooFewRunsError
from whichvars.errors import DataError

FIGURES = (
    "tecator_mutation",
    "tecator_ess",
    "tecator_traces",
    "tecator_pips",
    "tecator_changes",
    "tecator_adaptation",
    "boston_models",
    "boston_wmse",
    "boston_trips",
    "boston_particles",
    "boston_tempering",
    "boston_bottlenecks",
    "boston_learning",
    "pcr_pips",
    "pcr_sizes",
    "pcr_traces",
    "pcr_time",
    "pcr_screening",
)
OUT = ROOT / "papers" / "individual_adaptation" / "results"


def make(study: Study, figures: tuple[str, ...], command: str) -> Path:
    """Make the figures, and the page of all that are in the folder. A figure whose runs are not all there when time is up is left as it is."""
    for name in figures:
        started = time.monotonic()
        study.say(name)
        try:
            section = import_module(f"papers.individual_adaptation.{name}").make(study)
        except TooFewRunsError as error:
            study.say(f"{name}: left as it is: {error}")
            continue
        study.write(name, section, command, started)
        study.say(f"{name}: {time.monotonic() - started:.0f} s")
    for table, progress in study.progress.items():
        study.say(f"kept of {progress.in_words(table)}")
    stored.judge_again(study.out)  # some reasons are in tables of sections that are made later
    return page.write_page(study.out, FIGURES)


@click.command()
@click.argument("figures", nargs=-1, type=click.Choice(FIGURES), metavar="[FIGURE]...")
@click.option(
    "--full",
    is_flag=True,
    help="The paper's sizes: about nine CPU hours if no run is kept. Without it, about an hour and a half on 2 cores.",
)
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), default=OUT, help="Folder for the results."
)
@click.option(
    "--docs",
    is_flag=True,
    help="Copy the page, its numbers and its pictures into docs/paper.",
)
@click.option(
    "--from-docs",
    is_flag=True,
    help="Begin with the numbers of docs/paper: sections that are not named stay as they are there.",
)
@click.option(
    "--page-only",
    is_flag=True,
    help="Run nothing; judge the stored numbers again, draw what can be drawn from them and write the page (and --docs).",
)
@click.option(
    "--minutes",
    type=float,
    help="Begin no run after so many minutes, and make the sections of the runs there are; 0: of those that are kept.",
)
@click.option(
    "--threads",
    type=click.IntRange(1),
    default=FULL.threads,
    show_default=True,
    help="How many runs are made at a time.",
)
@click.option(
    "--again",
    is_flag=True,
    help="Make every run anew and keep it in the folder of the results, instead of using those kept with the program.",
)
@click.option(
    "--genes",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="GEO series matrix file of the PCR data, gzipped or not; a simulated design if not given.",
)
@click.option(
    "--response", help="For --genes: CSV file of sample and value, or a characteristic of the samples."
)
def main(
    figures: tuple[str, ...],
    full: bool,
    out: Path,
    docs: bool,
    from_docs: bool,
    page_only: bool,
    minutes: float | None,
    threads: int,
    again: bool,
    genes: Path | None,
    response: str | None,
) -> None:
    """Make the tables and figures of "Individual adaptation" again: all of them, or those named.

    \b
    tecator_mutation tecator_ess tecator_traces tecator_pips tecator_changes tecator_adaptation
    boston_models boston_wmse boston_trips boston_particles boston_tempering
    boston_bottlenecks boston_learning
    pcr_pips pcr_sizes pcr_traces pcr_time pcr_screening
    """
    if (genes is None) != (response is None):
        raise click.UsageError("--genes and --response go together: the matrix does not hold the response")
    try:
        study = Study(
            replace(FULL if full else QUICK, threads=threads),
            out,
            lambda text: click.echo(text, err=True),
            load_geo(genes, response) if genes is not None and response is not None else None,
            kept=None if again else KEPT,
            deadline=None if minutes is None else time.monotonic() + 60 * minutes,
        )
    except DataError as error:
        raise click.ClickException(str(error)) from error
    if from_docs:
        page.copy_from_docs(out)
    words = ["python -m papers.individual_adaptation", *(["--full"] if full else [])]
    words += ["--genes", genes.name] if genes is not None else []
    if page_only:
        stored.judge_again(out)
        stored.draw_again(out)
        written = page.write_page(out, FIGURES)
    else:
        written = make(study, figures or FIGURES, " ".join([*words, *figures]))
    click.echo(f"written: {written.name} and what it shows, in {out.name}/")
    if docs:
        size = page.copy_to_docs(out, FIGURES)
        click.echo(f"docs/paper: {size:,} bytes")


if __name__ == "__main__":
    sys.exit(main(prog_name="python -m papers.individual_adaptation"))
