"""An ensemble votes with its weights, whatever its history is."""

import pickle

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.tree import DecisionTreeClassifier

from maboost import MABoostClassifier
from maboost.boosting.ensemble import Ensemble


@pytest.fixture(params=["own trees", "foreign"])
def fitted(request):
    X, y = make_classification(200, 5, random_state=0)
    estimator = None if request.param == "own trees" else DecisionTreeClassifier(max_depth=1)
    return MABoostClassifier(estimator, n_estimators=6, random_state=0).fit(X, y), X


def test_votes_are_the_weighted_sum_of_the_scores(fitted):
    model, X = fitted
    ensemble = model.ensemble_
    scores = [h.scores(X) for h in ensemble.hypotheses]
    expected = sum(w * s for w, s in zip(ensemble.weights, scores, strict=True))
    np.testing.assert_allclose(ensemble.votes(X), expected, rtol=1e-12)
    *_, last = ensemble.staged_votes(X)
    np.testing.assert_array_equal(ensemble.votes(X), last)


def test_predictions_follow_the_weights_of_the_ensemble_and_not_the_recorded_steps(fitted):
    model, X = fitted
    before, steps = model.decision_function(X), model.history_["step"]
    np.testing.assert_array_equal(model.estimator_weights_, steps)
    model.ensemble_ = model.ensemble_.weighted(2.0 * model.ensemble_.weights)
    np.testing.assert_array_equal(model.decision_function(X), 2.0 * before)
    np.testing.assert_array_equal(model.estimator_weights_, 2.0 * steps)
    np.testing.assert_array_equal(model.history_["step"], steps)


def test_the_first_hypotheses_are_an_ensemble_of_their_own(fitted):
    model, X = fitted
    part = model.ensemble_.first(2)
    part.add(model.ensemble_.hypotheses[5], 0.5)
    assert (len(part), len(model.ensemble_)) == (3, 6)
    assert part.weights[-1] == 0.5
    assert not np.array_equal(part.votes(X), model.ensemble_.votes(X))


def test_a_pickle_does_not_depend_on_predictions(fitted):
    model, X = fitted
    before = pickle.dumps(model.ensemble_)
    votes = model.ensemble_.votes(X)
    assert pickle.dumps(model.ensemble_) == before
    np.testing.assert_array_equal(pickle.loads(before).votes(X), votes)


@pytest.mark.parametrize(("classes", "votes"), [(1, [0.0]), (2, [1.0]), (3, [[0.0, 1.0, 0.0]])])
def test_without_hypotheses_all_votes_are_for_the_heaviest_class(classes, votes):
    np.testing.assert_array_equal(Ensemble(classes, heaviest=1).votes(np.zeros((1, 2))), votes)
