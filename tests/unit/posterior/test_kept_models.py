"""The list of models that a posterior keeps: its order."""

import numpy as np

from whichvars.posterior.models import KeptModels, sorted_models


def test_models_are_sorted_as_python_sorts_tuples():
    """By several keys, most of which are the same for many models, and by their variables."""
    rng = np.random.default_rng(1)
    models = list({tuple(np.flatnonzero(rng.random(8) < 0.4).tolist()) for _ in range(200)})
    first, second = rng.integers(0, 3, len(models)) / 3, rng.integers(0, 4, len(models)) / 4
    expected = sorted(range(len(models)), key=lambda i: (first[i], second[i], models[i]))
    assert sorted_models(models, first, second).tolist() == expected
    assert (
        sorted_models(models, np.zeros(len(models))).tolist() == np.argsort(np.array(models, object)).tolist()
    )
    assert sorted_models([], np.zeros(0)).tolist() == []
    assert sorted_models([(1,)], np.zeros(1)).tolist() == [0]


def test_all_models_are_those_that_are_asked_for_one_by_one():
    weights = {(3, 1): [0.1, 0.3], (): [0.5, 0.1], (2,): [0.4, 0.6]}
    kept = KeptModels.of_replicates(weights)
    assert kept.models() == [(2,), (), (1, 3)]
    assert kept.models() == [kept.model(i) for i in range(len(kept))]
    np.testing.assert_allclose(kept.weight, [0.5, 0.3, 0.2])
