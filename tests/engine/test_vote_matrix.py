"""The votes of many hypotheses as leaf codes, against plain sums."""

import numpy as np
import pytest
from tests.helpers import cuts, on_shards

from maboost.boosting import Game
from maboost.engine.vote_matrix import VoteMatrix
from maboost.mirror import BaseMeasure
from maboost.runtime.threads import Threads


def random_hypotheses(rng: np.random.Generator, n: int, n_classes: int, count: int) -> list:
    """Tables of answers and leaves; the last has more than a byte holds."""
    found = []
    for t in range(count):
        leaves = 300 if t == count - 1 else int(rng.integers(1, 9))
        if n_classes == 2:
            answers = rng.uniform(-1.0, 1.0, leaves)
        else:
            answers = rng.dirichlet(np.ones(n_classes), leaves)
        found.append((answers, rng.integers(0, leaves, n)))
    return found


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_votes_margins_and_edges(n_classes):
    rng = np.random.default_rng(n_classes)
    n, labels = 5000, rng.integers(0, n_classes, 5000)
    hypotheses = random_hypotheses(rng, n, n_classes, 7)
    game, measure = Game(labels, n_classes), BaseMeasure(rng.uniform(0.5, 2.0, n), n_classes - 1)
    density = rng.exponential(size=n * (n_classes - 1))
    density /= measure.integral(density)
    eta = rng.random(7) * np.array([1, 1, 0, 1, 1, 0, 1])
    results = []
    for threads in (1, 3):
        matrix = VoteMatrix(labels, n_classes, Threads(threads))
        for answers, leaves in hypotheses:
            matrix.append(answers, leaves)
        votes = np.zeros(n if n_classes == 2 else (n, n_classes))
        for weight, (answers, leaves) in zip(eta, hypotheses, strict=True):
            votes += weight * answers[leaves]
        assert np.array_equal(matrix.votes(eta), votes)  # the precision of decision_function
        assert np.array_equal(matrix.margins(eta), game.margins(votes))
        edges = matrix.edges(density, measure)
        losses = [game.loss(answers[leaves]) for answers, leaves in hypotheses]
        expected = [-measure.integral(density * d) for d in losses]
        np.testing.assert_allclose(edges, expected, atol=1e-12)
        rows = rng.permutation(n)[:50]
        columns = matrix.columns(np.array([1, 4, 6]), rows).reshape(3, 50, -1)
        by_row = -np.array(losses)[[1, 4, 6]].reshape(3, n, -1)[:, rows]
        np.testing.assert_allclose(columns, by_row, atol=1e-15)
        results.append(edges)
    assert np.array_equal(*results)


def test_shards_have_the_same_edges():
    rng = np.random.default_rng(0)
    n, labels = 900, rng.integers(0, 3, 900)
    hypotheses, weights = random_hypotheses(rng, n, 3, 4), rng.uniform(0.5, 2.0, n)
    density = np.exp(rng.normal(size=2 * n))
    parts = cuts(n, 3, rng)

    def edges(rows: slice, comm=None) -> np.ndarray:
        matrix = VoteMatrix(labels[rows], 3)
        for answers, leaves in hypotheses:
            matrix.append(answers, leaves[rows])
        measure = BaseMeasure(weights[rows], 2, comm)
        flat = slice(2 * (rows.start or 0), None if rows.stop is None else 2 * rows.stop)
        return matrix.edges(density[flat], measure, mass=8.0)

    alone = edges(slice(0, n))
    for found in on_shards(3, lambda comm: edges(parts[comm.rank], comm)):
        assert np.array_equal(found, alone)


def test_scores_that_are_not_of_a_tree():
    rng = np.random.default_rng(0)
    labels, scores = rng.integers(0, 2, 400), rng.uniform(-1.0, 1.0, (3, 400))
    matrix = VoteMatrix(labels, 2)
    for row in scores:
        matrix.append_scores(row)
    assert np.array_equal(matrix.votes(np.ones(3)), (scores[0] + scores[1]) + scores[2])
    matrix.truncate(1)
    assert len(matrix) == 1
    assert np.array_equal(matrix.votes(np.ones(1)), scores[0])
