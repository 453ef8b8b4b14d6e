"""scikit-learn classifiers as weak learners: scores, seeds, resampling, copies."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import BaggingClassifier
from sklearn.ensemble._base import _set_random_states
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from tests.helpers import examples, seeds

from maboost.boosting import Game
from maboost.learners import EstimatorHypothesis, EstimatorLearner
from maboost.learners.adapter import _copies, _systematic_sample, seed_estimator

X = np.arange(6.0)[:, None]


class Recorder(ClassifierMixin, BaseEstimator):
    """Keeps what it was fitted on."""

    def fit(self, X, y, sample_weight=None):
        self.classes_ = np.unique(y)
        self.X_, self.y_, self.sample_weight_ = X, y, sample_weight
        return self

    def predict(self, X):
        return np.full(len(X), self.classes_[0])


def producer(estimator, labels, classes, response="votes"):
    learner = EstimatorLearner(estimator, np.asarray(classes), response)
    return learner.prepare(X, np.asarray(labels), len(classes))


def state():
    return np.random.RandomState(0)


# ---------------------------------------------------------------------------------------- scores


def test_two_classes_vote_minus_and_plus_one():
    tree = DecisionTreeClassifier().fit(X, ["no", "no", "no", "yes", "yes", "yes"])
    votes = EstimatorHypothesis(tree, np.array(["no", "yes"]), "votes").scores(X)
    np.testing.assert_array_equal(votes, [-1, -1, -1, 1, 1, 1])


def test_two_classes_give_twice_the_probability_less_one():
    model = GaussianNB().fit(X, [0, 0, 1, 0, 1, 1])
    scores = EstimatorHypothesis(model, np.array([0, 1]), "proba").scores(X)
    np.testing.assert_allclose(scores, 2.0 * model.predict_proba(X)[:, 1] - 1.0, atol=1e-12)


@pytest.mark.parametrize("response", ["votes", "proba"])
@pytest.mark.parametrize("seen", [["a", "c"], ["b"], ["b", "c", "d"], ["a", "b", "c", "d"]])
def test_classes_the_estimator_has_not_seen_score_nothing(response, seen):
    classes = np.array(["a", "b", "c", "d"])
    y = np.resize(seen, 6)
    model = DecisionTreeClassifier(max_depth=1).fit(X, y)
    scores = EstimatorHypothesis(model, classes, response).scores(X)
    assert scores.shape == (6, 4)
    np.testing.assert_allclose(scores.sum(axis=1), 1.0)
    assert not scores[:, ~np.isin(classes, seen)].any()
    columns = np.isin(classes, seen)
    if response == "proba":
        np.testing.assert_allclose(scores[:, columns], model.predict_proba(X))
    else:
        np.testing.assert_array_equal(classes[scores.argmax(axis=1)], model.predict(X))
        assert set(np.unique(scores)) <= {0.0, 1.0}


@pytest.mark.parametrize(("seen", "score"), [("no", -1.0), ("yes", 1.0)])
@pytest.mark.parametrize("response", ["votes", "proba"])
def test_one_class_of_two(seen, score, response):
    model = DecisionTreeClassifier().fit(X, [seen] * 6)
    scores = EstimatorHypothesis(model, np.array(["no", "yes"]), response).scores(X)
    np.testing.assert_array_equal(scores, np.full(6, score))


# ----------------------------------------------------------------------------------- the fit itself


def test_the_estimator_sees_the_rows_labels_and_weights_it_is_shown():
    made = producer(Recorder(), [0, 1, 1, 0, 1, 0], ["n", "y"])
    weights = np.array([1.0, 2.0, 3.0])
    model = made.produce(weights, np.array([0, 2, 5]), None, state()).estimator
    np.testing.assert_array_equal(model.X_, X[[0, 2, 5]])
    assert model.y_.tolist() == ["n", "y", "n"]
    np.testing.assert_array_equal(model.sample_weight_, weights)
    whole = made.produce(np.ones(6), None, None, state()).estimator
    assert whole.X_ is X  # no copy where all rows are shown


def test_the_given_estimator_stays_unfitted():
    tree = DecisionTreeClassifier(max_depth=1)
    made = producer(tree, [0, 0, 0, 1, 1, 1], [0, 1]).produce(np.ones(6), None, None, state())
    assert made.estimator is not tree
    assert not hasattr(tree, "tree_")
    assert tree.random_state is None


@pytest.mark.parametrize("response", ["votes", "proba"])
@pytest.mark.parametrize(
    "classes",
    [["a", "b", "c"], [1, 2, 3], [0.5, 1.5, 2.0], np.array(["a", "b", "c"], dtype=object)],
)
def test_one_class_shown_is_answered_by_a_constant(response, classes):
    made = producer(GaussianNB(), [0, 1, 2, 2, 1, 2], classes, response)
    h = made.produce(np.ones(3), np.array([2, 3, 5]), None, state())
    np.testing.assert_array_equal(h.scores(X), np.tile([0.0, 0.0, 1.0], (6, 1)))


def test_a_constant_of_two_boolean_classes():
    made = producer(GaussianNB(), [0, 1, 1, 0, 1, 1], [False, True])
    h = made.produce(np.ones(2), np.array([1, 4]), None, state())
    np.testing.assert_array_equal(h.scores(X), np.ones(6))


def test_training_scores_are_the_scores_of_all_rows():
    made = producer(DecisionTreeClassifier(), [0, 0, 1, 1, 0, 1], [0, 1])
    h = made.produce(np.ones(4), np.array([0, 1, 2, 3]), None, state())
    np.testing.assert_array_equal(made.training_scores(h), h.scores(X))


# ----------------------------------------------------------------------------------------- seeding


@pytest.mark.parametrize(
    "estimator",
    [
        DecisionTreeClassifier(),
        BaggingClassifier(DecisionTreeClassifier()),
        make_pipeline(StandardScaler(), BaggingClassifier(DecisionTreeClassifier())),
        GaussianNB(),
    ],
    ids=["tree", "bag", "pipeline", "none"],
)
def test_seeds_are_drawn_as_adaboost_draws_them(estimator):
    from sklearn.base import clone

    ours, theirs = clone(estimator), clone(estimator)
    one, other = np.random.RandomState(7), np.random.RandomState(7)
    for _ in range(3):
        seed_estimator(ours, one)
        _set_random_states(theirs, other)
        seeds_of = {k: v for k, v in ours.get_params().items() if k.endswith("random_state")}
        assert seeds_of == {k: v for k, v in theirs.get_params().items() if k in seeds_of}
        assert all(isinstance(seed, int | np.integer) for seed in seeds_of.values())
    assert one.randint(2**31) == other.randint(2**31)  # and no more than that is drawn


# -------------------------------------------------------------------------------------- resampling


@examples(60)
@given(seeds, st.integers(1, 200))
def test_rows_are_drawn_in_proportion_to_their_weights(seed, n):
    """Systematic sampling: each count is its share of n, rounded up or down."""
    rng = np.random.default_rng(seed)
    weights = rng.uniform(size=n) ** 4 * (rng.random(n) < 0.8)
    weights[rng.integers(n)] = 1.0
    drawn = _systematic_sample(weights, np.random.RandomState(seed))
    assert len(drawn) == n
    counts, shares = np.bincount(drawn, minlength=n), n * weights / weights.sum()
    assert np.all(np.abs(counts - shares) < 1.0 + 1e-9)
    assert not counts[weights == 0.0].any()


def test_on_average_the_shares_are_exact():
    weights = np.array([0.1, 0.25, 0.3, 1.35])
    random_state = np.random.RandomState(0)
    counts = sum(
        np.bincount(_systematic_sample(weights, random_state), minlength=4) for _ in range(4000)
    )
    np.testing.assert_allclose(counts / 4000, 4 * weights / weights.sum(), atol=0.03)


def test_equal_weights_draw_each_row_once():
    np.testing.assert_array_equal(_systematic_sample(np.ones(50), state()), np.arange(50))


def test_estimators_without_weights_get_a_sample():
    labels = np.array([0, 0, 0, 1, 1, 1])
    made = producer(KNeighborsClassifier(1), labels, [0, 1])
    heavy = np.array([1.0, 0.0, 0.0, 0.0, 0.0, 5.0])
    one = made.produce(heavy, None, None, state()).estimator
    np.testing.assert_array_equal(np.unique(one._fit_X), [0.0, 5.0])
    again = made.produce(heavy, None, None, state()).estimator
    np.testing.assert_array_equal(one._fit_X, again._fit_X)
    shown = made.produce(np.array([1.0, 1.0]), np.array([2, 4]), None, state()).estimator
    np.testing.assert_array_equal(shown._fit_X[:, 0], [2.0, 4.0])


# ------------------------------------------------------------------------------------------ copies


@examples(60)
@given(seeds, st.integers(3, 6))
def test_weighted_accuracy_on_copies_is_the_reward_up_to_a_constant(seed, n_classes):
    rng = np.random.default_rng(seed)
    game = Game(rng.integers(0, n_classes, 9), n_classes)
    rewards = game.rewards(rng.uniform(size=9 * game.width))
    rows, labels, weights = _copies(rewards)
    assert np.all(weights > 0.0)
    worst = rewards.min(axis=1).sum()
    for _ in range(3):
        votes = rng.integers(0, n_classes, 9)
        accuracy = weights[votes[rows] == labels].sum()
        reward = rewards[np.arange(9), votes].sum()
        assert accuracy == pytest.approx(reward - worst, abs=1e-12)


def test_copies_of_shown_rows_keep_their_place():
    made = producer(Recorder(), [0, 1, 2, 2, 1, 0], ["a", "b", "c"])
    rewards = np.array([[-2.0, 3.0, -1.0], [5.0, -2.0, -3.0]])
    model = made.produce(np.array([3.0, 5.0]), np.array([4, 5]), rewards, state()).estimator
    np.testing.assert_array_equal(model.X_[:, 0], [4.0, 4.0, 5.0, 5.0])
    assert model.y_.tolist() == ["b", "c", "a", "b"]
    np.testing.assert_array_equal(model.sample_weight_, [5.0, 1.0, 8.0, 1.0])
