"""Formulas: the columns, groups and parents they make, the same at prediction, and the posterior by enumeration."""

import pickle
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone

import whichvars as wv
from support.oracle import OracleSlab, enumerate_posterior
from whichvars.data.formula import read_formula
from whichvars.errors import ArgumentTypeError, DataError

N = 60


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(
        {
            "a": rng.normal(size=N),
            "b": rng.uniform(1, 3, size=N),
            "region": rng.choice(["north", "south", "east"], size=N),
            "site": pd.Categorical(rng.choice(["p", "q"], size=N), categories=["q", "p"]),
            "odd name": rng.normal(size=N),
        }
    )
    effect = frame["region"].map({"north": 0.0, "south": 1.0, "east": -0.5})
    frame["y"] = frame["a"] + effect + 0.5 * frame["a"] * frame["b"] + rng.normal(size=N)
    return frame


def test_columns_groups_and_parents(table):
    encoding, X, y, *_ = read_formula("y ~ (a + b + C(region))**2 + site", table, always="b")
    north, south = (table["region"] == level for level in ("north", "south"))
    a, b = table["a"], table["b"]
    expected = {
        "a": a, "b": b, "region[north]": north, "region[south]": south, "site[p]": table["site"] == "p",
        "a:b": a * b, "a:region[north]": a * north, "a:region[south]": a * south,
        "b:region[north]": b * north, "b:region[south]": b * south,
    }  # fmt: skip
    pd.testing.assert_frame_equal(X, pd.DataFrame(expected).astype(float), check_names=False)
    np.testing.assert_array_equal(y, table["y"])
    assert encoding.groups == {
        "region": ["region[north]", "region[south]"],
        "site": ["site[p]"],
        "a:region": ["a:region[north]", "a:region[south]"],
        "b:region": ["b:region[north]", "b:region[south]"],
    }
    assert encoding.always == ("b",)
    assert encoding.parents == {"a:b": ["a"], "a:region": ["a", "region"], "b:region": ["region"]}


def test_three_ways_and_always_included_interactions(table):
    encoding, *_ = read_formula("y ~ a*b*site", table)
    assert encoding.parents["a:b:site"] == ["a", "b", "site", "a:b", "a:site", "b:site"]
    encoding, X, *_ = read_formula("y ~ a + site", table, always="a:site")
    assert (list(X), encoding.always) == (["a", "site[p]", "a:site[p]"], ("a:site[p]",))
    assert "a:site" not in encoding.parents


@pytest.mark.parametrize("heredity", [False, True])
@pytest.mark.parametrize("slab", ["independent", "g"])
def test_posterior_is_that_of_enumeration(table, slab, heredity):
    """Against the oracle, which is given columns made by hand."""
    selector = wv.VariableSelector.from_formula(
        "y ~ (a + C(region) + site)**2",
        table,
        always="b",
        heredity=heredity,
        slab=wv.IndependentNormal(2.0) if slab == "independent" else wv.GPrior(15.0),
        model_prior=wv.BetaBinomial(a=1, b=2),
    )
    a, p = table["a"].to_numpy()[:, None], (table["site"] == "p").to_numpy(float)[:, None]
    region = np.column_stack([table["region"] == "north", table["region"] == "south"]).astype(float)
    blocks = [a, region, p, a * region, a * p, region * p]
    ends = np.cumsum([block.shape[1] for block in blocks])
    exact = enumerate_posterior(
        np.hstack(blocks),
        table["y"].to_numpy(),
        OracleSlab("independent", g=2.0) if slab == "independent" else OracleSlab("g", g=15.0),
        ("beta-binomial", 1.0, 2.0),
        groups=[list(range(end - block.shape[1], end)) for end, block in zip(ends, blocks)],
        Z=table["b"].to_numpy(),
        parents=((), (), (), (0, 1), (0, 2), (1, 2)) if heredity else None,
    )
    posterior = selector.posterior_
    assert posterior.problem.names == ["a", "region", "site", "a:region", "a:site", "region:site"]
    np.testing.assert_allclose(posterior.pip, exact.pips, atol=1e-9)
    assert posterior.log_evidence == pytest.approx(exact.log_evidence, abs=1e-8)
    assert selector.inclusion_probabilities_[selector.feature_names_in_ == "b"] == 1
    assert selector.n_iter_ == (exact.probabilities > 0).sum() == (18 if heredity else 64)


def test_prediction_makes_the_same_columns(table):
    formula = "log(b) ~ poly(a, 2) + center(`odd name`) + C(region):a + scale(a) + np.sqrt(b)"
    selector = wv.VariableSelector.from_formula(formula, table)
    X = selector.formula_.encode(table)
    assert list(X) == list(selector.feature_names_in_) == list(selector.formula_.columns)
    part = table.iloc[[7, 3, 4]].drop(columns="y")
    pd.testing.assert_frame_equal(selector.formula_.encode(part), X.iloc[[7, 3, 4]])
    whole = selector.predict(table, return_std=True)
    for some, everything in zip(selector.predict(part, return_std=True), whole):
        np.testing.assert_allclose(some, everything[[7, 3, 4]])
    chosen = selector.get_support()
    np.testing.assert_allclose(selector.transform(part), X.loc[part.index].to_numpy()[:, chosen])
    np.testing.assert_allclose(
        whole[0], selector.intercept_ + X.to_numpy() @ selector.coefficients_, rtol=1e-9
    )
    assert selector.score(table, np.log(table["b"])) > 0.9
    one_level = table[table["region"] == "south"].assign(region=lambda t: pd.Categorical(t["region"]))
    np.testing.assert_allclose(selector.predict(one_level), whole[0][one_level.index])


def test_dots_polars_and_copies(table):
    everything = wv.VariableSelector.from_formula("y ~ .", table)
    assert everything.posterior_.problem.names == ["a", "b", "region", "site", "odd name"]
    by_polars = wv.VariableSelector.from_formula("y ~ .", pl.from_pandas(table))
    np.testing.assert_allclose(
        by_polars.coefficients_[:2], everything.coefficients_[:2]
    )  # the order of levels differs
    again = pickle.loads(pickle.dumps(everything))
    np.testing.assert_array_equal(again.predict(table), everything.predict(table))
    other = clone(everything)
    other.fit(everything.formula_.encode(table), table["y"])
    np.testing.assert_array_equal(other.coefficients_, everything.coefficients_)


def test_fitting_again_forgets_the_formula(table):
    selector = wv.VariableSelector.from_formula("y ~ a + b", table)
    selector.fit(table[["a", "b"]].to_numpy(), table["y"])
    assert not hasattr(selector, "formula_")
    assert selector.predict(np.ones((2, 2))).shape == (2,)


def test_settings_and_weights(table):
    weights = np.linspace(0.5, 2, N)
    by_name = wv.VariableSelector.from_formula(
        "y ~ a + b", table.assign(w=weights), sample_weight="w", prior_size=1, slab=wv.HyperG()
    )
    plain = wv.VariableSelector(prior_size=1, slab=wv.HyperG()).fit(table[["a", "b"]], table["y"], weights)
    np.testing.assert_array_equal(by_name.coefficients_, plain.coefficients_)
    with pytest.raises(DataError, match="groups comes from the formula"):
        wv.VariableSelector.from_formula("y ~ a", table, groups={"g": ["a"]})


def test_names_that_would_be_the_same_stay_as_they_are(table):
    both, X, *_ = read_formula("y ~ site + C(site)", table)
    assert list(X) == ["site[T.p]", "C(site)[T.p]"]
    assert set(both.groups) == {"site", "C(site)"}


# --- what is refused


@pytest.mark.parametrize(
    ("formula", "always", "message"),
    [
        ("y ~ a + regoin", None, r"formula: there is no column 'regoin'; did you mean 'region'"),
        ("y ~ log(aa)", None, r"there is no column 'aa'"),
        ("z ~ a", None, r"there is no column 'z'"),
        ("y ~ a", "bb", r"always: there is no column 'bb'"),
        ("y ~ a + (b", None, r"'y ~ a \+ \(b' cannot be read"),
        ("a + b", None, "no response"),
        ("y ~ a - 1", None, "removes the intercept"),
        ("y ~ 0 + a", None, "removes the intercept"),
        ("y ~ 1", None, "no terms to select from"),
        ("y ~ a", "a", "no terms to select from"),
        ("y ~ a | b", None, r"several parts \(\|\)"),
        ("y ~ a", "y ~ b", "give only terms"),
        ("region ~ a", None, r"the response 'region' gives 3 columns"),
        ("y + a ~ b", None, r"gives 2 columns"),
        ("y ~ log(a)", None, r"column 'log\(a\)' is missing \(NaN\) in row \d+"),
        # Python that has no business in a formula
        ("y ~ {__import__('os').getpid() * a}", None, r"\.getpid in .* is not allowed"),
        ("y ~ {open('x')}", None, r"there is no function 'open'"),
        ("y ~ sqrt(a)", None, r"there is no function 'sqrt'; .* such as np\.sqrt\. .*\n    y ~ sqrt\(a\)\n        \^\^\^\^$"),
        ("y ~ a + ", None, r"this operator has no term beside it, or is out of place\n    y ~ a \+ \n          \^$"),
        ("y ~ {a.to_csv('x')}", None, r"\.to_csv in .* is not allowed"),
        ("y ~ {np.fromfile('x')}", None, r"\.fromfile in .* is not allowed"),
        ("y ~ {np.core.sys.exit()}", None, r"is not allowed"),
        ("y ~ {a.__class__}", None, r"\.__class__ in .* is not allowed"),
        ("y ~ {[q for q in a]}", None, r"there is no column 'q'"),
        ("{exec('1')} ~ a", None, r"there is no function 'exec'"),
        ("y ~ {secret * a}", None, r"there is no column 'secret'"),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_refused(table, formula, always, message):
    secret = 2.0  # the caller's variables are out of sight
    assert secret
    with pytest.raises(DataError, match=message):
        wv.VariableSelector.from_formula(formula, table, always=always)


def test_refused_types(table):
    with pytest.raises(ArgumentTypeError, match="formula must be text"):
        wv.VariableSelector.from_formula(3, table)
    with pytest.raises(ArgumentTypeError, match="data must be a DataFrame"):
        wv.VariableSelector.from_formula("y ~ a", np.ones((3, 2)))


def test_missing_values_are_named(table):
    broken = table.copy()
    broken.loc[[4, 9], "region"] = None
    with pytest.raises(DataError, match=r"column 'region' is missing in row 4 \(and 1 more rows\)"):
        wv.VariableSelector.from_formula("y ~ a + C(region)", broken)
    assert wv.VariableSelector.from_formula("y ~ a", broken).n_features_in_ == 1


def test_levels_of_expressions_are_watched_too(table):
    selector = wv.VariableSelector.from_formula("y ~ C(np.floor(b)) + a", table)
    with pytest.raises(DataError, match=r"formula: Data has categories outside .*9\.0"):
        selector.predict(table.head(2).assign(b=9.0))


def test_new_rows_that_do_not_fit(table):
    selector = wv.VariableSelector.from_formula("y ~ a:C(region) + site + b + C(b > 2)", table)
    new = table.head(4).drop(columns="y")
    with pytest.raises(DataError, match=r"column 'region' has the level 'west' in row 0.*'east', 'north'"):
        selector.predict(new.assign(region="west"))
    with pytest.raises(DataError, match=r"column 'site' has the level 'r' in row 2"):
        selector.predict(new.assign(site=["p", "q", "r", "q"]))
    with pytest.raises(DataError, match="column 'a' is missing in row 1"):
        selector.predict(new.assign(a=[1.0, np.nan, 2.0, 1.0]))
    with pytest.raises(DataError, match="data lacks columns of the formula: 'a', 'b'"):
        selector.predict(new.drop(columns=["a", "b"]))
    with pytest.raises(ArgumentTypeError, match="column 'a' contains 'text'"):
        selector.predict(new.assign(a="text"))
    with pytest.raises(ArgumentTypeError, match="DataFrame"):
        selector.predict(np.ones((2, 4)))


def test_without_formulaic(table, monkeypatch):
    monkeypatch.setitem(sys.modules, "formulaic", None)
    with pytest.raises(ModuleNotFoundError, match=r"whichvars\[formula\]"):
        wv.VariableSelector.from_formula("y ~ a", table)
