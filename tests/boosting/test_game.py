"""The game between the distribution and the learner: losses, rewards, margins."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers import examples, seeds

from maboost.boosting import Game
from maboost.runtime.threads import Threads


def random_game(seed, n_classes, n=7):
    rng = np.random.default_rng(seed)
    game = Game(rng.integers(0, n_classes, n), n_classes)
    return game, rng.dirichlet(np.ones(n_classes), n), rng.uniform(size=n * game.width)


def test_two_classes_lose_minus_label_times_score():
    game = Game(np.array([0, 1, 1]), 2)
    np.testing.assert_array_equal(game.loss(np.array([0.5, 0.5, -1.0])), [0.5, -0.5, 1.0])


def test_a_pair_loses_the_wrong_score_less_the_right_one():
    game = Game(np.array([1, 0]), 3)
    scores = np.array([[0.2, 0.5, 0.3], [0.0, 1.0, 0.0]])
    np.testing.assert_allclose(game.loss(scores), [-0.3, -0.2, 1.0, 0.0], atol=1e-15)


@examples(30)
@given(seeds)
def test_two_columns_are_one_score(seed):
    game, scores, _ = random_game(seed, 2)
    np.testing.assert_allclose(game.loss(scores), game.loss(scores[:, 1] - scores[:, 0]))


@examples(60)
@given(seeds, st.integers(2, 6))
def test_rewards_are_the_edge_by_row_and_class(seed, n_classes):
    """The edge is the sum over rows and classes of reward times score, and abstaining earns nothing."""
    game, scores, weights = random_game(seed, n_classes)
    rewards = game.rewards(weights)
    edge = -np.sum(weights * game.loss(scores))
    assert np.sum(rewards * scores) == pytest.approx(edge, abs=1e-12)
    np.testing.assert_allclose(rewards.sum(axis=1), 0.0, atol=1e-12)


def test_rewards_by_hand():
    """The right class earns the row's total, a wrong class costs its pair's weight."""
    game = Game(np.array([1, 2]), 3)
    np.testing.assert_array_equal(
        game.rewards(np.array([1.0, 2.0, 3.0, 4.0])), [[-1.0, 3.0, -2.0], [-3.0, -4.0, 7.0]]
    )


def test_the_worst_margin_of_a_row():
    three, two = Game(np.array([0, 1]), 3), Game(np.array([0, 1]), 2)
    np.testing.assert_array_equal(three.worst_margins(np.array([1.0, 0.5, -1.0, 2.0])), [0.5, -1.0])
    np.testing.assert_array_equal(two.worst_margins(np.array([1.0, -1.0])), [1.0, -1.0])


@examples(60)
@given(seeds, st.integers(2, 6))
def test_the_predicted_class_is_the_one_of_most_votes(seed, n_classes):
    """By a table of votes; a row whose own class is not alone in front is given a wrong one."""
    rng = np.random.default_rng(seed)
    game, votes = (
        Game(rng.integers(0, n_classes, 20), n_classes),
        rng.integers(0, 3, (20, n_classes)),
    )
    margins = np.concatenate(
        [votes[i, label] - np.delete(votes[i], label) for i, label in enumerate(game.labels)]
    )
    for label, row, found in zip(game.labels, votes, game.predicted(margins * 1.0), strict=True):
        rivals = np.delete(row, label)
        if row[label] > rivals.max():
            assert found == label
        else:
            assert found == np.delete(np.arange(n_classes), label)[np.argmax(rivals)]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1.1, -1.1])
def test_scores_out_of_range_are_refused(bad):
    with pytest.raises(ValueError, match=r"scores outside \[-1, 1\]"):
        Game(np.array([0, 1]), 2).loss(np.array([0.0, bad]))
    with pytest.raises(ValueError, match=r"or \[0, 1\] \(more\), or NaN"):
        Game(np.array([0, 1]), 3).loss(np.array([[1.0, 0.0, 0.0], [bad, 0.0, 0.0]]))


def test_scores_that_round_beyond_one_are_not():
    assert Game(np.array([1]), 2).loss(np.array([1.0 + 1e-12]))[0] == pytest.approx(-1.0)


@pytest.mark.parametrize(("n_classes", "n_leaves"), [(2, 5), (2, 40_000), (3, 4), (257, 2)])
def test_the_loss_of_a_tree_as_codes_is_that_of_its_scores(n_classes, n_leaves):
    rng = np.random.default_rng(n_leaves)
    leaves = np.append(rng.integers(0, n_leaves, 50), n_leaves - 1).astype(np.int32)
    game = Game(np.append(rng.integers(0, n_classes, 50), n_classes - 1), n_classes)
    if n_classes == 2:
        answers = rng.uniform(-1.0, 1.0, n_leaves)
    else:
        answers = rng.dirichlet(np.ones(n_classes), n_leaves)
    coded = game.coded_loss(answers, leaves, Threads())
    np.testing.assert_array_equal(coded.dense(), game.loss(answers[leaves]))
    twice = 2 * len(coded.values)
    assert game.takes_codes(n_leaves, twice)
    assert game.takes_codes(n_leaves, twice - 2) == (len(coded.values) <= 1024)


@pytest.mark.parametrize("bad", [np.nan, 1.1, -1.1])
def test_answers_of_a_tree_out_of_range_are_refused(bad):
    with pytest.raises(ValueError, match=r"a tree loses between .* outside \[-1, 1\]"):
        Game(np.array([1]), 2).coded_loss(np.array([bad]), np.zeros(1, np.int32), Threads())
