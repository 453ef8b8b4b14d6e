"""Checks of weak learners."""

from __future__ import annotations

from typing import Any

import numpy as np

from maboost.boosting.game import Game
from maboost.learners.base import Producer, WeakLearner

__all__ = ["check_learner"]


def check_learner(
    learner: WeakLearner, X: Any = None, labels: Any = None, n_classes: int = 2, *, seed: int = 0
) -> None:
    """Check that a weak learner returns bounded hypotheses that follow the weights.

    Parameters
    ----------
    learner : WeakLearner
    X, labels : optional
        Rows and label codes to try it on; random separable rows by default.
    n_classes : int

    >>> import numpy as np
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from maboost.learners import EstimatorLearner
    >>> check_learner(EstimatorLearner(DecisionTreeClassifier(max_depth=1), np.array([0, 1])))
    """
    name = type(learner).__name__
    rng = np.random.default_rng(seed)
    if X is None:
        labels = np.arange(120) % n_classes
        X = rng.normal(size=(120, 3)) + labels[:, None]
    game = Game(np.asarray(labels), n_classes)
    n = len(game.labels)
    producer = learner.prepare(X, game.labels, n_classes)
    assert isinstance(producer, Producer), (
        f"{name}: prepare must return a maboost.learners.Producer"
    )

    def scores(weights: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
        shown = weights if rows is None else weights[rows]
        rewards = None
        if n_classes > 2 and learner.takes_costs:
            rewards = game.rewards(np.repeat(weights / game.width, game.width))
            rewards = rewards if rows is None else rewards[rows]
        h = producer.produce(shown, rows, rewards, np.random.RandomState(seed))
        found = producer.training_scores(h)
        shape = (n,) if n_classes == 2 else (n, n_classes)
        assert found.shape == shape, f"{name}: scores have shape {found.shape}, expected {shape}"
        low = -1.0 if n_classes == 2 else 0.0
        assert np.all((found >= low - 1e-9) & (found <= 1.0 + 1e-9)), (
            f"{name}: scores leave [{low:g}, 1]"
        )
        if n_classes > 2:
            assert np.allclose(found.sum(axis=1), 1.0), f"{name}: scores of a row must sum to one"
        again = h.scores(X)
        assert np.array_equal(again, found), f"{name}: training_scores differs from scores(X)"
        return found

    uniform = np.ones(n)
    first = scores(uniform)
    assert np.array_equal(first, scores(uniform)), f"{name}: the same seed gives another hypothesis"
    edge = -float(np.mean(game.loss(first)))
    assert edge > 0.0, f"{name}: no edge on separable rows (got {edge:.4g})"
    for label in range(n_classes):
        heavy = np.where(game.labels == label, 1e6, 1.0)
        loss = game.loss(scores(heavy)).reshape(n, -1).max(axis=1)
        wrong = float(np.mean(loss[game.labels == label] > 0.0))
        assert wrong < 0.5, f"{name}: ignores weights: class {label} was a million times heavier"
    rows = np.flatnonzero(rng.random(n) < 0.5)
    scores(uniform, rows)
