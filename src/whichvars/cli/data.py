"""``whichvars datasets``: the bundled data, as files."""

import shlex
from pathlib import Path

import click

from whichvars.cli.show import new_console, new_table, say
from whichvars.errors import DataError

BUNDLED = {
    "boston": ("load_boston", "house values of 506 districts, 13 variables"),
    "breast-cancer": ("load_breast_cancer", "benign or malignant, 569 breast masses, 30 variables"),
    "doctor-visits": ("load_doctor_visits", "visits to a doctor in a year, 2,019 rows, 9 variables"),
    "growth": ("load_growth", "economic growth of 72 countries, 41 variables"),
    "tecator": ("load_tecator", "fat content of 172 pieces of meat, 100 wavelengths"),
    "uscrime": ("load_uscrime", "crime in 47 US states in 1960, 15 variables"),
}


@click.group()
def datasets() -> None:
    """Data sets that come with the package."""


@datasets.command("list")
def list_datasets() -> None:
    """List the data sets."""
    console = new_console()
    table = new_table()
    table.add_column("name")
    table.add_column("what it is")
    for name, (_, what) in BUNDLED.items():
        table.add_row(name, what)
    console.print(table)


@datasets.command(short_help="Write a data set as a CSV file.")
@click.argument("name", type=click.Choice(list(BUNDLED)), metavar="NAME")
@click.option("--out", type=click.Path(path_type=Path), help="CSV file; the default is NAME.csv.")
@click.option("--overwrite", is_flag=True, help="Replace an existing file.")
def export(name: str, out: Path | None, overwrite: bool) -> None:
    """Write the data set NAME as a CSV file, with the response in the first column. `whichvars datasets list` has the names."""
    import whichvars as wv
    from whichvars.cli.runs import write_csv

    data = getattr(wv.datasets, BUNDLED[name][0])()
    path = out or Path(f"{name}.csv")
    if path.exists() and not overwrite:
        raise DataError(f"{path} exists; replace it with --overwrite, or name another file with --out")
    frame = data.X.copy()
    frame.insert(0, data.y.name, data.y)
    write_csv(frame, path)
    say(
        f"{path}: {len(frame):,} rows; the response is {data.y.name}. Try: whichvars fit {shlex.quote(str(path))} --response {data.y.name}"
    )
