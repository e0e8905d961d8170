"""Slabs that depend on allele frequencies."""

import numpy as np
import pytest

import whichvars as wv
from whichvars.errors import DataError

RNG = np.random.default_rng(0)
F = np.array([0.02, 0.1, 0.3, 0.5, 0.9])
COUNTS = RNG.binomial(2, F, size=(400, 5)).astype(np.int8)


def test_an_allele_has_effects_of_the_same_variance_if_alpha_is_0():
    g = np.array(wv.slab_by_frequency(F, alpha=0).g)
    by_allele = g / (2 * F * (1 - F))
    assert by_allele == pytest.approx(by_allele[0])
    assert g.mean() == pytest.approx(0.01)


def test_variants_explain_the_same_share_if_alpha_is_minus_1():
    assert wv.slab_by_frequency(F, alpha=-1, g=0.3).g == pytest.approx((0.3,) * 5)


def test_genotypes_have_their_own_frequencies_and_the_slab_goes_into_a_problem():
    G = wv.Genotypes(COUNTS)
    slab = wv.slab_by_frequency(G)
    assert slab == wv.slab_by_frequency(COUNTS.mean(axis=0) / 2)
    assert slab.g[1] < slab.g[2] < slab.g[3]
    y = 0.3 * COUNTS[:, 3] + RNG.normal(size=400)
    ours = wv.exact(wv.Problem(G, y, slab=slab))
    assert ours.pip == pytest.approx(wv.exact(wv.Problem(COUNTS.astype(float), y, slab=slab)).pip, abs=1e-9)


def test_variants_that_do_not_vary_are_left_out():
    counts = COUNTS.copy()
    counts[:, 1] = 0
    G = wv.Genotypes(counts)
    with pytest.warns(wv.DataWarning, match="left out 1 column"):
        problem = wv.Problem(G, RNG.normal(size=400), slab=wv.slab_by_frequency(G))
    assert np.mean(problem.slab.g) == pytest.approx(0.01)


@pytest.mark.parametrize(
    ("f", "settings", "message"),
    [
        ([0.1, 1.2], {}, "that in row 1 is 1.2"),
        ([0.0, 1.0], {}, "no variant has two alleles"),
        ([0.1, 0.2], {"alpha": np.nan}, "alpha must be a finite number"),
        ([0.1, 0.2], {"g": 0}, "g must be a positive number, not 0"),
        (
            wv.Genotypes(np.full((3, 1), -127, np.int8), names=["rs1"]),
            {},
            "all genotypes of 'rs1' are missing",
        ),
    ],
)
def test_what_is_wrong_is_named(f, settings, message):
    with pytest.raises(DataError, match=message):
        wv.slab_by_frequency(f, **settings)
