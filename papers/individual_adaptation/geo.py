"""The gene expression matrix of the paper's PCR example, where the user has it: GEO's series matrix format.

Such a file is text, maybe gzipped: lines that begin with ``!`` say what the samples are, and between
``!series_matrix_table_begin`` and ``!series_matrix_table_end`` stands a table, one probe a line, one sample a column.
The response, a PCR measurement of each animal, is no part of it and comes from a CSV file with two columns, sample and
value, or from a characteristic of the samples (``!Sample_characteristics_ch1`` lines such as "scd1: 1.83").
"""

import csv
import gzip
from pathlib import Path

import numpy as np
import pandas as pd

from whichvars.datasets import Dataset
from whichvars.errors import DataError

BEGIN, END = "!series_matrix_table_begin", "!series_matrix_table_end"
CHARACTERISTICS = "!Sample_characteristics_ch1"
GZIP = b"\x1f\x8b"


def read_text(path: Path) -> list[str]:
    """The lines of a text file, gzipped or not."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(
            f"{path}: cannot be read ({error.strerror}); give the path of a series matrix file"
        ) from error
    if content[:2] == GZIP:
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError) as error:
            raise DataError(f"{path}: the gzipped file is damaged ({error}); download it again") from error
    try:
        return content.decode("utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}: byte {error.start} is not UTF-8 text; is this a series matrix file?"
        ) from error


def read_matrix(path: str | Path) -> tuple[pd.DataFrame, dict[str, dict[str, str]]]:
    """Expressions (samples × probes), and the samples' characteristics: name → sample → text."""
    path = Path(path)
    lines = read_text(path)
    places = {line.strip(): at for at, line in enumerate(lines) if line.strip() in (BEGIN, END)}
    if BEGIN not in places:
        raise DataError(f"{path}: there is no line {BEGIN}; this is not a GEO series matrix file")
    if END not in places:
        raise DataError(f"{path}: there is no line {END}; the file ends too early, download it again")
    table = list(csv.reader(lines[places[BEGIN] + 1 : places[END]], delimiter="\t"))
    if len(table) < 2:
        raise DataError(f"{path}: the table has no probes; some series keep their values in other files")
    samples = table[0][1:]
    repeated = sorted({s for s in samples if samples.count(s) > 1})
    if repeated:
        raise DataError(f"{path}: sample {repeated[0]!r} occurs more than once in the table's first line")
    probes = [row[0] for row in table[1:]]
    twice = pd.Index(probes)
    if twice.has_duplicates:
        raise DataError(f"{path}: probe {twice[twice.duplicated()][0]!r} occurs more than once")
    values = np.empty((len(probes), len(samples)))
    for number, row in enumerate(table[1:]):
        at = f"{path}: probe {row[0]!r} (line {places[BEGIN] + number + 3})"
        if len(row) != len(samples) + 1:
            raise DataError(f"{at} has {len(row) - 1} values for {len(samples)} samples")
        for place, text in enumerate(row[1:]):
            try:
                values[number, place] = float(text)
            except ValueError:
                values[number, place] = np.nan
            if not np.isfinite(values[number, place]):
                raise DataError(
                    f"{at}, sample {samples[place]!r}: {text!r} is not a finite number; leave out such probes or fill them in first"
                )
    return pd.DataFrame(values.T, index=samples, columns=probes), _characteristics(lines, samples)


def _characteristics(lines: list[str], samples: list[str]) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for row in csv.reader((line for line in lines if line.startswith(CHARACTERISTICS)), delimiter="\t"):
        for sample, text in zip(samples, row[1:]):
            name, colon, value = text.partition(":")
            if colon:
                found.setdefault(name.strip(), {})[sample] = value.strip()
    return found


def _response_file(path: Path) -> dict[str, str]:
    rows = [row for row in csv.reader(read_text(path)) if row]
    wrong = next((number for number, row in enumerate(rows, 1) if len(row) != 2), None)
    if wrong is not None:
        raise DataError(
            f"{path}: row {wrong} has {len(rows[wrong - 1])} columns; sample and value are needed"
        )
    found: dict[str, str] = {}
    for sample, value in rows:
        if sample.strip() in found:
            raise DataError(f"{path}: sample {sample.strip()!r} occurs more than once")
        found[sample.strip()] = value.strip()
    return found


def load_geo(matrix: str | Path, response: str) -> Dataset:
    """The covariates from a series matrix file, the response from a CSV file or a characteristic of the samples.

    Parameters
    ----------
    matrix : path
        Series matrix file, gzipped or not.
    response : str
        Path of a CSV file of sample and value (a first line of names is passed over), or the name of a characteristic.

    Returns
    -------
    Dataset
        One row for every sample that has a response, one column a probe.
    """
    X, characteristics = read_matrix(matrix)
    if Path(response).is_file():
        given = _response_file(Path(response))
    elif response in characteristics:
        given = characteristics[response]
    else:
        known = ", ".join(characteristics) or "none"
        raise DataError(
            f"{response!r} is neither a CSV file nor a characteristic of the samples (there are: {known})"
        )
    samples = [s for s in X.index if s in given]
    if len(samples) < 3:
        raise DataError(
            f"{response}: only {len(samples)} of the {len(X)} samples of {matrix} have a response; names must be as in the matrix, such as {X.index[0]!r}"
        )
    y = []
    for sample in samples:
        try:
            y.append(float(given[sample]))
        except ValueError:
            raise DataError(
                f"{response}: the response {given[sample]!r} of sample {sample!r} is not a number"
            ) from None
    note = f"GEO series matrix {Path(matrix).name}: n = {len(samples)}, p = {X.shape[1]}."
    return Dataset(X.loc[samples], pd.Series(y, samples, name="response"), note)
