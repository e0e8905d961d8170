"""Many responses on the same columns: each posterior is that of the response alone."""

import weakref

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import whichvars as wv
from whichvars.problem.genetics import wide_enough
from whichvars.problem.many_responses import ManyResponses

RNG = np.random.default_rng(8)
N, P = 120, 25
COUNTS = RNG.integers(0, 3, size=(N, P)).astype(np.int8)
PEOPLE = pd.DataFrame({"age": RNG.normal(50, 9, N), "sex": RNG.integers(0, 2, N).astype(float)})
EFFECTS = np.zeros((P, 3))
EFFECTS[3, 0], EFFECTS[3, 2], EFFECTS[11, 2] = 0.9, -0.8, 0.7
Y = pd.DataFrame(
    COUNTS @ EFFECTS + RNG.normal(size=(N, 3)) + 0.05 * PEOPLE[["age"]].to_numpy(), columns=["a", "b", "c"]
)
PRIORS = {"slab": wv.IndependentNormal(0.01), "model_prior": wv.BetaBinomial(size=1.0)}
FORMS = {
    "array": COUNTS.astype(float),
    "genotypes": wv.Genotypes(COUNTS, names=[f"x{j}" for j in range(P)]),
    "constant column": np.column_stack([COUNTS.astype(float), np.ones(N)]),
}


@pytest.mark.filterwarnings(
    "ignore:left out 1 column:whichvars.DataWarning", "ignore::whichvars.ConvergenceWarning"
)
@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("form", list(FORMS))
def test_each_problem_is_that_of_its_response_alone(form: str, beside: bool) -> None:
    X, covariates = FORMS[form], PEOPLE if beside else None
    many = ManyResponses(X, np.ones(N, bool), None if covariates is None else covariates.to_numpy(), **PRIORS)
    for name in Y.columns:
        ours = many.problem(Y[name].to_numpy(), name)
        alone = wv.Problem(X, Y[name].to_numpy(), covariates=covariates, **PRIORS)
        assert ours.names == alone.names
        assert ours.target(0).design.gram == pytest.approx(alone.target(0).design.gram, abs=1e-9)
        assert ours.target(0).design.xty == pytest.approx(alone.target(0).design.xty, abs=1e-12)
        for model in ([], [3], [3, 11], [0, 5, 24]):
            assert ours.log_marginal(model) == pytest.approx(alone.log_marginal(model), abs=1e-10)
        ours, alone = (wv.sample(p, draws=300, seed=1, progress=False) for p in (ours, alone))
        columns = ["mean", "sd"]
        new = (X, covariates) if beside else X
        assert ours.coefficients()[columns].to_numpy() == pytest.approx(
            alone.coefficients()[columns].to_numpy(), abs=1e-8
        )
        if form == "array":
            if beside:
                new = (X, PEOPLE.to_numpy())
            assert ours.predict(new) == pytest.approx(alone.predict(new), abs=1e-8)


def test_tables_have_what_single_runs_have() -> None:
    many = wv.sample_many(COUNTS.astype(float), Y, covariates=PEOPLE, draws=2000, threads=2)
    assert many.summary.index.tolist() == ["a", "b", "c"]
    for name in Y.columns:
        alone = wv.sample(
            wide_enough(wv.Problem(COUNTS.astype(float), Y[name], covariates=PEOPLE, **PRIORS)),
            draws=2000,
            seed=0,
            progress=False,
        )
        row = many.summary.loc[name]
        assert row["mean_size"] == pytest.approx(alone.mean_size, abs=1e-6)
        assert row["lead"] == alone.inclusion_probabilities.idxmax()
        own = many.variables[many.variables["response"] == name].set_index("variable")["pip"]
        pips = alone.inclusion_probabilities
        assert own.to_dict() == pytest.approx(pips[pips >= 0.01].to_dict(), abs=1e-6)
        sets = many.sets[many.sets["response"] == name]
        assert sets["variable"].tolist() == alone.credible_sets(long=True)["variable"].tolist()
    assert many.summary["sets"].tolist() == [1, 0, 2]
    given = wv.sample_many(
        COUNTS.astype(float), Y[["a"]], covariates=PEOPLE, draws=2000, level=0.9, signal=0.1
    )
    alone = wv.sample(
        wide_enough(wv.Problem(COUNTS.astype(float), Y["a"], covariates=PEOPLE, **PRIORS)),
        draws=2000,
        seed=0,
        progress=False,
    )
    own = alone.credible_sets(0.9, signal=0.1, long=True)
    assert given.sets["variable"].tolist() == own["variable"].tolist()
    assert given.sets["signal"].to_numpy() == pytest.approx(own["signal"].to_numpy(), abs=1e-6)
    assert given.summary["sets"].tolist() == [own.loc[own["reached"], "set"].nunique()]
    with pytest.raises(wv.DataError, match="signal must be a number from 0 to 1"):
        wv.sample_many(COUNTS.astype(float), Y[["a"]], signal=3)
    shared = many.colocalisation("a", "c")
    assert shared.index[0] == "x3"
    assert shared["both"].iloc[0] == pytest.approx(shared["first"].iloc[0] * shared["second"].iloc[0])
    assert shared["both"].iloc[0] > 0.9
    with pytest.raises(wv.DataError, match="second: there is no response 'd'"):
        many.colocalisation("a", "d")


def test_more_draws_are_made_until_the_error_is_small_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whichvars.sampling.many_fits.DRAWS", (200, 20_000))
    rough = wv.sample_many(COUNTS.astype(float), Y[["c"]], draws=200).summary["largest_mcse"].iloc[0]
    fine = wv.sample_many(COUNTS.astype(float), Y[["c"]], target_mcse=0.6 * rough)
    assert fine.summary["largest_mcse"].iloc[0] <= 0.6 * rough
    assert wv.sample_many(COUNTS[:, :5].astype(float), Y).summary["largest_mcse"].tolist() == [0, 0, 0]


def test_threads_change_nothing() -> None:
    one, two = (wv.sample_many(COUNTS.astype(float), Y, draws=500, threads=threads) for threads in (1, 3))
    pd.testing.assert_frame_equal(one.variables, two.variables)
    pd.testing.assert_frame_equal(one.sets, two.sets)


@pytest.mark.filterwarnings("ignore:perfectly:whichvars.DataWarning")
def test_without_a_shared_matrix_the_columns_are_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whichvars.problem.many_responses.GRAM_BYTES", 100)
    many = ManyResponses(FORMS["genotypes"], np.ones(N, bool), None, **PRIORS)
    ours = many.problem(Y["c"].to_numpy(), "c")
    assert ours.engine == "columns"
    alone = wv.Problem(FORMS["array"], Y["c"], **PRIORS)
    assert ours.log_marginal([3, 11]) == pytest.approx(alone.log_marginal([3, 11]), abs=1e-10)


def with_gaps() -> pd.DataFrame:
    """`a` and `c` are observed in the same rows, `b` in others."""
    gaps = Y.copy()
    gaps.loc[gaps.index[::7], ["a", "c"]] = np.nan
    gaps.loc[gaps.index[:20], "b"] = np.nan
    return gaps


SPARSE = sparse.csc_matrix(COUNTS.astype(float))


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("form", ["array", "genotypes", "sparse", "too many columns"])
def test_each_response_is_fitted_to_the_rows_in_which_it_is_observed(
    form: str, beside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if form == "too many columns":
        monkeypatch.setattr("whichvars.problem.many_responses.GRAM_BYTES", 100)
    engine = "columns" if form == "too many columns" else "gram"
    X = SPARSE if form == "sparse" else FORMS["genotypes" if form == "genotypes" else "array"]
    gaps = with_gaps()
    many = wv.sample_many(X, gaps, covariates=PEOPLE if beside else None, draws=2000, threads=2)
    assert many.summary["rows"].to_dict() == {"a": 102, "b": 100, "c": 102}
    assert many.summary["not_fitted"].tolist() == ["", "", ""]
    for name in Y.columns:
        rows = gaps[name].notna().to_numpy()
        covariates = PEOPLE[rows] if beside else None
        problem = wv.Problem(COUNTS[rows].astype(float), gaps.loc[rows, name].to_numpy(), covariates=covariates, engine=engine, **PRIORS)  # fmt: skip
        problem = wide_enough(problem)
        alone = wv.sample(problem, draws=2000, seed=0, progress=False)
        own = many.variables[many.variables["response"] == name].set_index("variable")
        expected = alone.summary().loc[lambda table: table["pip"] >= 0.01]
        for column in ("pip", "mcse", "mean", "sd"):
            assert own[column].to_dict() == pytest.approx(expected[column].to_dict(), abs=1e-6)
        assert many.summary.loc[name, "mean_size"] == pytest.approx(alone.mean_size, abs=1e-6)
        sets = many.sets[many.sets["response"] == name]
        assert sets["variable"].tolist() == alone.credible_sets(long=True)["variable"].tolist()


def test_responses_observed_in_the_same_rows_share_the_products(monkeypatch: pytest.MonkeyPatch) -> None:
    made, alive = [], weakref.WeakSet[ManyResponses]()

    class Counted(ManyResponses):
        def __init__(self, X: object, rows: np.ndarray, *others: object, **settings: object) -> None:
            made.append((int(rows.sum()), len(alive)))
            alive.add(self)
            super().__init__(X, rows, *others, **settings)

    monkeypatch.setattr("whichvars.sampling.many_fits.ManyResponses", Counted)
    one = wv.sample_many(COUNTS[:, :8].astype(float), with_gaps(), threads=1)
    # of two different sets of rows, the first is forgotten before the second is made
    assert made == [(102, 0), (100, 0)]
    two = wv.sample_many(COUNTS[:, :8].astype(float), with_gaps(), threads=3)
    assert [rows for rows, _ in made] == [102, 100] * 2
    assert two.summary.index.tolist() == ["a", "b", "c"]
    pd.testing.assert_frame_equal(one.variables, two.variables)


def test_a_response_that_cannot_be_fitted_does_not_stop_the_others() -> None:
    few = np.where(np.arange(N) < 4, Y["a"], np.nan)
    two = np.where(np.arange(N) < 2, Y["a"], np.nan)
    table = Y.assign(none=np.nan, two=two, few=few, same=1.0)
    with pytest.warns(
        wv.DataWarning, match="4 of 7 responses could not be fitted, 'none', 'two', 'few', 'same'"
    ):
        many = wv.sample_many(COUNTS.astype(float), table, covariates=PEOPLE, draws=500)
    assert many.summary.index.tolist() == table.columns.tolist()
    assert many.summary["rows"].tolist() == [N, N, N, 0, 2, 4, N]
    reasons = many.summary["not_fitted"]
    assert reasons[:3].tolist() == ["", "", ""]
    assert reasons["none"] == "no row has a value; at least 3 are needed"
    assert reasons["two"] == "2 rows have a value; at least 3 are needed"
    assert "4 rows leave 1 degrees of freedom" in reasons["few"]
    assert "y is constant" in reasons["same"]
    assert many.summary.loc["none", ["sets", "lead", "pip", "mean_size"]].isna().all()
    assert not many.summary.loc["none", "converged"]
    assert many.summary["sets"].dtype == "Int64"
    assert set(many.variables["response"]) <= set("abc")
    assert repr(many).endswith("4 not fitted)")
    alone = wv.sample_many(COUNTS.astype(float), Y, covariates=PEOPLE, draws=500)
    pd.testing.assert_frame_equal(many.variables, alone.variables)
    with pytest.raises(
        wv.DataError, match="second: there is no posterior of 'none', because no row has a value"
    ):
        many.colocalisation("a", "none")


def test_responses_for_which_the_linear_model_is_an_approximation_are_named() -> None:
    table = Y.assign(case=(Y["a"] > 0).astype(float), visits=np.floor(np.abs(Y["b"]))).drop(columns="b")
    table.loc[3, "case"] = np.nan
    with pytest.warns(
        wv.DataWarning, match="such as counts: 'case', 'visits'. sample_many fits the linear"
    ) as said:
        wv.sample_many(COUNTS[:, :5].astype(float), table)
    assert len(said) == 1


def test_progress_counts_responses() -> None:
    reports = []
    wv.sample_many(COUNTS[:, :6].astype(float), with_gaps(), progress=reports.append, threads=2)
    assert [report.status for report in reports] == [f"{i} of 3 responses" for i in (1, 2, 3)]
    assert reports[-1].fraction == 1.0
    assert reports[-1].seconds_left == 0.0


def test_a_prior_may_be_a_function_of_the_number_of_variables() -> None:
    X, asked = COUNTS[:, :6].astype(float), []
    X[:60, 2] = 1.0

    def prior(p: int) -> wv.FixedInclusion:
        asked.append(p)
        return wv.FixedInclusion(h=1 / p)

    table = Y.assign(half=np.where(np.arange(N) < 60, Y["c"], np.nan))[["half", "c"]]
    many = wv.sample_many(X, table, model_prior=prior)
    assert sorted(asked) == [5, 6]
    rows = np.arange(60)
    problem = wv.Problem(np.delete(X[rows], 2, axis=1), Y["c"][:60], slab=PRIORS["slab"], model_prior=wv.FixedInclusion(h=0.2))  # fmt: skip
    own = many.variables[many.variables["response"] == "half"]["pip"].to_numpy()
    pips = np.sort(wv.exact(wide_enough(problem)).pip)[::-1]
    assert own == pytest.approx(pips[pips >= 0.01], abs=1e-9)


def test_columns_that_are_constant_in_the_rows_of_a_response_are_left_out_there() -> None:
    X = COUNTS[:, :6].astype(float)
    X[:60, 2] = 1.0
    table = Y.assign(half=np.where(np.arange(N) < 60, Y["c"], np.nan))
    many = wv.sample_many(X, table[["a", "half"]])
    assert many.summary["variables"].tolist() == [6, 5]
    assert "x2" not in many.variables.loc[many.variables["response"] == "half", "variable"].tolist()


def test_what_cannot_be_used_is_named() -> None:
    broken = Y.copy()
    broken.loc[5, "b"] = np.inf
    with pytest.raises(wv.DataError, match=r"Y column 'b' is infinite in row 5"):
        wv.sample_many(COUNTS.astype(float), broken)
    with pytest.raises(wv.DataError, match="response 'b': y is constant"):
        wv.sample_many(COUNTS.astype(float), Y.assign(b=1.0)[["b"]])
    missing = COUNTS.astype(float)
    missing[3, 1] = np.nan
    with pytest.raises(wv.DataError, match=r"response 'b': X column 'x1' is missing \(NaN\) in row 3"):
        wv.sample_many(missing, with_gaps().assign(a=np.nan)[["a", "b"]])
    with pytest.raises(wv.WhichvarsError, match="rows"):
        wv.sample_many(COUNTS.astype(float)[:50], Y)
    with pytest.raises(wv.DataError, match="rows of X in another order"):
        wv.sample_many(pd.DataFrame(COUNTS.astype(float)), Y.sample(frac=1, random_state=1))
    with pytest.raises(wv.DataError, match="threads must be"):
        wv.sample_many(COUNTS.astype(float), Y, threads=0)
