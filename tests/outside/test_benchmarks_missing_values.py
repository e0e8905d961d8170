"""The study of missing values: its measures, from errors and variances that are known."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))  # benchmarks/ is no part of the installed package

from benchmarks import missing_values  # noqa: E402


def rows(factor: float) -> pd.DataFrame:
    """Errors of normal coefficients whose claimed standard deviations are `factor` times the true ones."""
    rng = np.random.default_rng(1)
    error = rng.normal(size=3000)
    return pd.DataFrame(
        {
            "method": "impute", "share": 0.4, "seed": np.repeat(np.arange(300), 10), "pip": 0.95, "inside": rng.random(3000) < 0.95,
            "error": error, "sd": factor, "covered": np.abs(error) < 1.645 * factor,
        }
    )  # fmt: skip


@pytest.mark.parametrize(("factor", "ratio", "coverage"), [(1.0, 1.0, 0.9), (0.8, 1.5625, 0.812)])
def test_measures(factor: float, ratio: float, coverage: float) -> None:
    found = missing_values.table_of(rows(factor)).iloc[0]
    value, error = map(float, str(found["squared errors / variances"]).split(" ± "))
    assert value == pytest.approx(ratio, abs=4 * error)
    assert error == pytest.approx(ratio * np.sqrt(2 / 3000), rel=0.2)
    share, spread = map(float, str(found["their coverage"]).split(" ± "))
    assert share == pytest.approx(coverage, abs=4 * spread)
    assert abs(found["in − expected (SE)"]) < 4
    assert "impute" in missing_values.as_markdown(missing_values.table_of(rows(factor)))


def test_one_small_table() -> None:
    found = pd.DataFrame(missing_values.one(0, 60, 6, 0.2, 2))
    assert set(found["method"]) == set(missing_values.METHODS)
    assert len(found) == 24
