"""Priors: what they refuse, and their formulas against sums over all models."""

import copy
import itertools
import pickle
import time
from dataclasses import FrozenInstanceError

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.stats import betabinom, binom, chisquare

import whichvars as wv
from support.oracle import all_masks, log_model_prior
from whichvars.errors import ArgumentTypeError, DataError
from whichvars.problem.model_priors import check_model_prior, default_model_prior
from whichvars.problem.prior_numbers import per_variable
from whichvars.problem.priors import check_noise, check_slab

P = 6
H = (0.1, 0.5, 0.03, 0.9, 0.4, 0.25)
MODEL_PRIORS = [  # the library's, and the oracle's form of the same
    (wv.FixedInclusion(h=0.3), ("fixed", 0.3)),
    (wv.FixedInclusion(size=2), ("fixed", 2 / P)),
    (wv.FixedInclusion(h=H), ("fixed", H)),
    (wv.BetaBinomial(a=1, b=1), ("beta-binomial", 1, 1)),
    (wv.BetaBinomial(a=0.7, b=12.5), ("beta-binomial", 0.7, 12.5)),
    (wv.BetaBinomial(size=2.5), ("beta-binomial", 1, (P - 2.5) / 2.5)),
]
EXAMPLES = [
    wv.IndependentNormal(g=2),
    wv.IndependentNormal(g=[1, 2, 3]),
    wv.GPrior(7),
    wv.GPrior("bric"),
    wv.HyperG(a=4),
    wv.HyperGN(),
    wv.ZellnerSiow(),
    wv.LocalEmpiricalBayes(),
    wv.BIC(),
    wv.Jeffreys(),
    wv.InverseGamma(a=2, b=3),
    *[prior for prior, _ in MODEL_PRIORS],
]


# --- what is refused


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: wv.IndependentNormal(g=0), r"IndependentNormal: g must be positive and finite.*not 0"),
        (lambda: wv.IndependentNormal(g=-1.5), "not -1.5"),
        (lambda: wv.IndependentNormal(g=np.nan), "not nan"),
        (lambda: wv.IndependentNormal(g=np.inf), "not inf"),
        (lambda: wv.IndependentNormal(g=10**400), "positive and finite"),
        (lambda: wv.IndependentNormal(g=1e-310), "not 1e-310"),
        (lambda: wv.IndependentNormal(g=[1, 2, -3]), r"g\[2\] must be positive and finite.*not -3"),
        (lambda: wv.IndependentNormal(g=[1, np.nan]), r"g\[1\].*not nan"),
        (lambda: wv.GPrior(0), "GPrior: g must be positive"),
        (lambda: wv.GPrior("bricc"), "'bricc'"),
        (lambda: wv.HyperG(a=2), "HyperG: a must be above 2.*not 2.0"),
        (lambda: wv.HyperGN(a=1.5), "HyperGN: a must be above 2.*not 1.5"),
        (lambda: wv.HyperG(a=np.nan), "HyperG: a must be positive and finite.*not nan"),
        (lambda: wv.InverseGamma(a=0, b=1), "InverseGamma: a must be positive.*not 0"),
        (lambda: wv.InverseGamma(a=1, b=-2), "InverseGamma: b must be positive.*not -2"),
        (lambda: wv.FixedInclusion(h=0), "FixedInclusion: h must lie strictly between 0 and 1, not 0"),
        (lambda: wv.FixedInclusion(h=1), "h must lie strictly between 0 and 1, not 1; use always_include"),
        (lambda: wv.FixedInclusion(h=1.2), "not 1.2"),
        (lambda: wv.FixedInclusion(h=-0.1), "not -0.1"),
        (lambda: wv.FixedInclusion(h=np.nan), "not nan"),
        (lambda: wv.FixedInclusion(h=[0.2, 1.0]), r"h\[1\] must lie strictly between 0 and 1, not 1.0"),
        (lambda: wv.FixedInclusion(h=np.array([0.2, 0.1, 0.0])), r"h\[2\].*not 0.0"),
        (lambda: wv.FixedInclusion(size=0), "FixedInclusion: size must be positive"),
        (lambda: wv.FixedInclusion(), "either h .* or size"),
        (lambda: wv.FixedInclusion(h=0.5, size=2), "either h .* or size"),
        (lambda: wv.BetaBinomial(), "either a and b, or size"),
        (lambda: wv.BetaBinomial(a=1), "either a and b, or size"),
        (lambda: wv.BetaBinomial(a=1, b=1, size=1), "either a and b, or size"),
        (lambda: wv.BetaBinomial(a=-1, b=1), "BetaBinomial: a must be positive.*not -1"),
        (lambda: wv.BetaBinomial(a=1, b=np.inf), "BetaBinomial: b must be positive.*not inf"),
        (lambda: wv.BetaBinomial(size=-3), "BetaBinomial: size must be positive.*not -3"),
    ],
)
def test_values_out_of_range_are_refused(make, message):
    with pytest.raises(DataError, match=message):
        make()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: wv.IndependentNormal(g="large"),
            "IndependentNormal: g must be a number, one per variable, or .estimate., not 'large'",
        ),
        (lambda: wv.IndependentNormal(g=None), "not None"),
        (lambda: wv.IndependentNormal(g=True), "not True"),
        (lambda: wv.IndependentNormal(g=["a", "b"]), r"g\[0\] must be a number, not .*'a'"),
        (lambda: wv.IndependentNormal(g=[[1, 2], [3]]), r"g\[0\] must be a number, not \[1, 2\]"),
        (lambda: wv.IndependentNormal(g={1.0, 2.0}), "must be a number"),
        (lambda: wv.GPrior(None), "GPrior: g must be a number, not None"),
        (lambda: wv.GPrior([1, 2]), "GPrior: g must be a number"),
        (lambda: wv.HyperG(a="3"), "HyperG: a must be a number, not '3'"),
        (lambda: wv.InverseGamma(a=1, b="1"), "InverseGamma: b must be a number"),
        (lambda: wv.FixedInclusion(h="half"), "FixedInclusion: h must be a number, not 'half'"),
        (lambda: wv.FixedInclusion(h={"a": 0.2}), "must be a number"),
        (lambda: wv.FixedInclusion(size=[1, 2]), "FixedInclusion: size must be a number"),
        (lambda: wv.BetaBinomial(size="5"), "BetaBinomial: size must be a number, not '5'"),
        (lambda: wv.BetaBinomial(a=1j, b=1), "BetaBinomial: a must be a number"),
        (lambda: check_slab("g-prior"), "slab must be one of IndependentNormal.*got 'g-prior'"),
        (lambda: check_slab(wv.GPrior), "slab must be one of"),
        (lambda: check_model_prior(0.5), "model_prior must be .*got 0.5"),
        (lambda: check_noise(wv.GPrior()), "noise must be Jeffreys"),
    ],
)
def test_wrong_kinds_are_refused(make, message):
    with pytest.raises(ArgumentTypeError, match=message):
        make()


@pytest.mark.parametrize("kind", [wv.FixedInclusion, wv.BetaBinomial])
@pytest.mark.parametrize("size", [4, 4.5])
def test_expected_size_must_be_below_p(kind, size):
    with pytest.raises(DataError, match=f"{kind.__name__}: an expected size of {size:g} .* 4 variables"):
        kind(size=size).size_distribution(4)
    assert kind(size=size).size_distribution(5) @ np.arange(6) == pytest.approx(size)


def test_wrong_lengths_are_refused():
    with pytest.raises(DataError, match="FixedInclusion: h has 3 values but there are 4 variables"):
        wv.FixedInclusion(h=[0.1, 0.2, 0.3]).inclusion(4)
    with pytest.raises(DataError, match="g has 0 values"):
        per_variable(wv.IndependentNormal(g=[]).g, 2, "g")


@pytest.mark.parametrize(
    "values", [[1, 2, 3], (1, 2, 3), np.array([1, 2, 3], "f4"), pd.Series([1, 2, 3]), pl.Series([1, 2, 3])]
)
def test_one_value_per_variable_in_any_container(values):
    assert wv.IndependentNormal(g=values).g == (1.0, 2.0, 3.0)


@pytest.mark.parametrize("value", [2, 2.0, np.float32(2), np.int8(2), np.array(2.0)])
def test_any_kind_of_number(value):
    assert wv.GPrior(value) == wv.GPrior(2.0)
    assert wv.IndependentNormal(g=value) == wv.IndependentNormal(g=2)
    assert type(wv.GPrior(value).g) is float


# --- formulas


@pytest.mark.parametrize("max_size", [None, 0, 1, 3, P, P + 4])
@pytest.mark.parametrize(("prior", "oracle"), MODEL_PRIORS)
def test_formulas_against_sums_over_all_models(prior, oracle, max_size):
    masks = all_masks(P)
    allowed = masks.sum(axis=1) <= (P if max_size is None else max_size)
    expected = np.array([log_model_prior(m, P, oracle, max_size) for m in masks[allowed]])
    assert np.exp(expected).sum() == pytest.approx(1)

    log_odds, log_size = prior.log_terms(P)
    sizes = masks[allowed].sum(axis=1)
    got = masks[allowed] @ log_odds + log_size[sizes] + prior.log_constant(P, max_size)
    assert got == pytest.approx(expected, abs=1e-12)

    distribution = np.bincount(sizes, weights=np.exp(expected), minlength=P + 1)
    assert prior.size_distribution(P, max_size) == pytest.approx(distribution, abs=1e-13)
    if max_size is None:
        assert prior.inclusion(P) == pytest.approx(np.exp(expected) @ masks[allowed], abs=1e-12)


@pytest.mark.parametrize("p", [1, 2, 8])
def test_formulas_at_other_p(p):
    for prior, oracle in [
        (wv.FixedInclusion(h=0.2), ("fixed", 0.2)),
        (wv.BetaBinomial(a=2, b=3), ("beta-binomial", 2, 3)),
        (default_model_prior(p), ("beta-binomial", 1, (p - min(5, p / 2)) / min(5, p / 2))),
    ]:
        log_odds, log_size = prior.log_terms(p)
        masks = all_masks(p)
        got = masks @ log_odds + log_size[masks.sum(axis=1)] + prior.log_constant(p)
        assert got == pytest.approx([log_model_prior(m, p, oracle) for m in masks], abs=1e-12)


@pytest.mark.parametrize("max_size", [None, 2])
@pytest.mark.parametrize(("prior", "oracle"), MODEL_PRIORS)
def test_draws_have_the_right_frequencies(prior, oracle, max_size):
    rng = np.random.default_rng(20)
    draws = 4000
    counts = np.zeros(2**P)
    for _ in range(draws):
        model = prior.draw(rng, P, max_size)
        assert list(model) == sorted(set(model.tolist()))
        counts[(1 << model).sum()] += 1
    expected = draws * np.exp([log_model_prior(m, P, oracle, max_size) for m in all_masks(P)])
    assert counts[expected == 0].sum() == 0
    large = expected > 5
    observed, wanted = counts[large], expected[large]
    if (~large).any() and expected[~large].sum() > 0:
        observed, wanted = (
            np.append(observed, counts[~large].sum()),
            np.append(wanted, expected[~large].sum()),
        )
    assert chisquare(observed, wanted).pvalue > 1e-3


def test_draws_where_small_models_are_rare():
    """At most 2 variables of 40 that are mostly in (probability 1e-50): a draw all the same, and a right one."""
    p, rng = 40, np.random.default_rng(3)
    h = np.where(np.arange(p) < 3, 0.99, 0.95)
    prior = wv.FixedInclusion(h=h)
    models = [tuple(prior.draw(rng, p, 2)) for _ in range(300)]
    odds = h / (1 - h)
    pairs = {pair: odds[list(pair)].prod() for pair in itertools.combinations(range(p), 2)}
    total = sum(pairs.values()) + odds.sum() + 1
    first = sum(w for pair, w in pairs.items() if pair[0] < 3) / total
    assert all(len(model) <= 2 for model in models)
    share = np.mean([len(model) == 2 and model[0] < 3 for model in models])
    assert share == pytest.approx(first, abs=4 * np.sqrt(first * (1 - first) / 300))


@pytest.mark.parametrize(
    ("prior", "reference"),
    [
        (wv.BetaBinomial(size=5), betabinom(10**6, 1, (10**6 - 5) / 5)),
        (wv.FixedInclusion(size=5), binom(10**6, 5e-6)),
        (wv.FixedInclusion(h=0.5), binom(10**6, 0.5)),
        (wv.BetaBinomial(a=1, b=1), None),
        (wv.BetaBinomial(a=1e200, b=1e-200), None),
        (wv.BetaBinomial(a=1e-300, b=1e300), None),
    ],
)
def test_a_million_variables(prior, reference):
    p = 10**6
    start = time.perf_counter()
    sizes = prior.size_distribution(p)
    assert time.perf_counter() - start < 5
    assert np.isfinite(sizes).all()
    assert sizes.sum() == pytest.approx(1, abs=1e-12)
    if reference is not None:
        k = np.unique(np.r_[:50, reference.ppf([0.01, 0.5, 0.99]).astype(int)])
        assert sizes[k] == pytest.approx(reference.pmf(k), rel=1e-6, abs=1e-300)


def test_one_h_per_variable_stays_quick_for_many_variables():
    p = 20_000
    prior = wv.FixedInclusion(h=np.full(p, 5 / p))
    start = time.perf_counter()
    assert prior.size_distribution(p) == pytest.approx(
        wv.FixedInclusion(size=5).size_distribution(p), abs=1e-12
    )
    assert prior.log_constant(p) == pytest.approx(p * np.log1p(-5 / p))
    assert prior.log_constant(p, 10) == pytest.approx(wv.FixedInclusion(size=5).log_constant(p, 10), abs=1e-9)
    assert time.perf_counter() - start < 10


def test_size_distribution_is_the_callers_own():
    prior = wv.BetaBinomial(a=1, b=1)
    prior.size_distribution(3)[:] = 7
    assert prior.size_distribution(3) == pytest.approx(np.full(4, 0.25))


@pytest.mark.parametrize(("g", "expected"), [(3, 3.0), ("n", 72.0), ("bric", 1681.0)])
def test_g_of_the_g_prior(g, expected):
    assert wv.GPrior(g).value(72, 41) == expected
    assert wv.GPrior("bric").value(100, 3) == 100.0


# --- they are values


@pytest.mark.parametrize("prior", EXAMPLES, ids=repr)
def test_frozen_hashable_equal_printable_picklable(prior):
    for clone in (pickle.loads(pickle.dumps(prior)), copy.deepcopy(prior), eval(repr(prior), vars(wv))):
        assert clone == prior
        assert hash(clone) == hash(prior)
        assert repr(clone) == repr(prior)
    with pytest.raises(FrozenInstanceError):
        prior.g = 3
    assert sum(prior == other for other in EXAMPLES) == 1


def test_repr_names_the_setting():
    assert repr(wv.IndependentNormal(g=100)) == "IndependentNormal(g=100.0)"
    assert repr(wv.IndependentNormal(g=[1, 2])) == "IndependentNormal(g=(1.0, 2.0))"
    assert repr(wv.InverseGamma(a=1, b=2)) == "InverseGamma(a=1.0, b=2.0)"
