"""Many responses on the same columns: each posterior is that of the response alone."""

import numpy as np
import pandas as pd
import pytest

import whichvars as wv
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
    many = ManyResponses(
        X, Y["a"].to_numpy(), None if covariates is None else covariates.to_numpy(), **PRIORS
    )
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
            wv.Problem(COUNTS.astype(float), Y[name], covariates=PEOPLE, **PRIORS),
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
    shared = many.colocalisation("a", "c")
    assert shared.index[0] == "x3"
    assert shared["both"].iloc[0] == pytest.approx(shared["first"].iloc[0] * shared["second"].iloc[0])
    assert shared["both"].iloc[0] > 0.9
    with pytest.raises(wv.DataError, match="second: there is no response 'd'"):
        many.colocalisation("a", "d")


def test_more_draws_are_made_until_the_error_is_small_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whichvars.sampling.sampling_many.DRAWS", (200, 20_000))
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
    many = ManyResponses(FORMS["genotypes"], Y["a"].to_numpy(), None, **PRIORS)
    ours = many.problem(Y["c"].to_numpy(), "c")
    assert ours.engine == "columns"
    alone = wv.Problem(FORMS["array"], Y["c"], **PRIORS)
    assert ours.log_marginal([3, 11]) == pytest.approx(alone.log_marginal([3, 11]), abs=1e-10)


def test_what_cannot_be_used_is_named() -> None:
    broken = Y.copy()
    broken.loc[5, "b"] = np.nan
    with pytest.raises(wv.DataError, match=r"Y.*'b'.*row 5"):
        wv.sample_many(COUNTS.astype(float), broken)
    with pytest.raises(wv.DataError, match="response 'b': y is constant"):
        wv.sample_many(COUNTS.astype(float), Y.assign(b=1.0))
    with pytest.raises(wv.WhichvarsError, match="rows"):
        wv.sample_many(COUNTS.astype(float)[:50], Y)
    with pytest.raises(wv.DataError, match="threads must be"):
        wv.sample_many(COUNTS.astype(float), Y, threads=0)
