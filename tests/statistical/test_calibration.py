"""Simulation-based calibration of the default sampler: the truth looks like a draw from the posterior."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))  # benchmarks/ is no part of the installed package

from benchmarks import calibration  # noqa: E402


@pytest.mark.slow
@pytest.mark.parametrize("strong", [False, True], ids=["weak", "strong"])
def test_truths_look_like_draws_and_probabilities_are_kept(strong: bool) -> None:
    """500 data sets. Limits: a chance of 10⁻³ for each of two tests of ranks, four standard errors in 12 classes."""
    result = calibration.measure_kind(500, 10_000, strong)
    assert min(result["uniform"].values()) > 1e-3, result["uniform"]
    for row in result["reliability"]:
        assert abs(row["z"]) < 4, row


@pytest.mark.slow
@pytest.mark.parametrize("family", calibration.FAMILIES)
def test_families_are_calibrated(family: str) -> None:
    """300 data sets with all models enumerated; the same limits."""
    result = calibration.measure_family(family, 300)
    assert min(result["uniform"].values()) > 1e-3, result["uniform"]
    for row in result["reliability"]:
        assert abs(row["z"]) < 4, row


@pytest.mark.slow
def test_calibration_of_families_would_see_a_wrong_slab() -> None:
    """Coefficients three times as large as the prior says."""
    result = calibration.measure_family("logistic", 300, spread=3.0)
    wrong = min(result["uniform"].values()) < 1e-3 or max(abs(row["z"]) for row in result["reliability"]) > 4
    assert wrong
