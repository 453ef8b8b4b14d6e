"""What the tests of several shards share: rows to fit, models to compare."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone
from tests.helpers import on_shards

from maboost import (
    CombinedBoostClassifier,
    MABoostClassifier,
    MadaBoostClassifier,
    MarginBoostClassifier,
    SmoothBoostClassifier,
    SparseBoostClassifier,
)
from maboost.mirror import ChiSquareBall, KLBall

BOOSTERS: dict[str, Any] = {
    "maboost": MABoostClassifier(n_estimators=6, random_state=0),
    "euclidean": MABoostClassifier(n_estimators=6, random_state=0, regularizer="euclidean"),
    "lazy": MABoostClassifier(n_estimators=6, random_state=0, update="lazy", step="paper"),
    "kl-ball": MABoostClassifier(n_estimators=4, random_state=0, domain=KLBall(1.0)),
    "chi-square-ball": MABoostClassifier(
        n_estimators=4, random_state=0, domain=ChiSquareBall(1.0), regularizer="euclidean"
    ),
    "adaboostv": MABoostClassifier(n_estimators=6, random_state=0, step="adaboostv"),
    "mada-bound": MadaBoostClassifier(n_estimators=6, random_state=0, bound=3.0),
    "trim": MABoostClassifier(n_estimators=6, random_state=0, trim="auto"),
    "certain": MABoostClassifier(n_estimators=6, random_state=0, trim="certain"),
    "smooth": SmoothBoostClassifier(n_estimators=6, random_state=0, smoothness=3.0),
    "smooth-auto": SmoothBoostClassifier(n_estimators=4, random_state=0),
    "sparse": SparseBoostClassifier(n_estimators=6, random_state=0),
    "sparse-budget": SparseBoostClassifier(n_estimators=6, random_state=0, sparsity=0.7),
    "mada": MadaBoostClassifier(n_estimators=6, random_state=0),
    "total": MABoostClassifier(n_estimators=6, random_state=0, update="lazy", step="total"),
    "margin": MarginBoostClassifier(n_estimators=6, random_state=0),
    "combined": CombinedBoostClassifier(
        n_estimators=6, random_state=0, error_limits={"a": None, "b": 0.3, "c": 0.4}
    ),
    "combined-mass": CombinedBoostClassifier(
        n_estimators=4,
        random_state=0,
        error_limits={"a": None, "b": 0.3, "c": None},
        source_mass={"c": 0.1},
    ),
}


def table(n: int = 400, classes: int = 2, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows with ties, missing values, zeros of either sign and labels that no tree learns at once."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 6))
    X[:, 1] = np.round(X[:, 1], 1)
    X[:, 2] = rng.integers(0, 4, n) * rng.choice([-1.0, 1.0], n)
    X[rng.random(n) < 0.1, 3] = np.nan
    votes = X[:, 0] + np.sin(3.0 * X[:, 1]) + 0.5 * X[:, 2] + rng.normal(size=n) * 0.7
    edges = np.quantile(votes, np.arange(1, classes) / classes)
    return X, np.searchsorted(edges, votes)


def shares(n: int, count: int, rng: np.random.Generator) -> list[np.ndarray]:
    """A division of n rows among `count` shards: uneven, out of order, perhaps with empty ones."""
    owner = rng.choice(count, size=n, p=rng.dirichlet(np.full(count, 0.6)))
    order = rng.permutation(n)
    return [order[owner[order] == rank] for rank in range(count)]


def take(values: Any, rows: np.ndarray) -> Any:
    if values is None:
        return None
    return values.iloc[rows] if hasattr(values, "iloc") else values[rows]


def fit_shards(model: Any, parts: list[np.ndarray], X: Any, y: Any, **rows: Any) -> list[Any]:
    """The model of every shard; arguments that end in `_val` are divided as they come."""

    def work(comm: Any) -> Any:
        shard = clone(model)
        shard._comm = comm
        its = {
            name: take(value, np.arange(value.shape[0])[comm.rank :: comm.size])
            if name.endswith("_val")
            else take(value, parts[comm.rank])
            for name, value in rows.items()
        }
        return shard.fit(take(X, parts[comm.rank]), take(y, parts[comm.rank]), **its)

    return on_shards(len(parts), work)


def bits(value: Any) -> Any:
    """A value as what can be compared to the last bit."""
    if isinstance(value, dict):
        return {key: bits(its) for key, its in value.items()}
    if isinstance(value, list):  # of arrays, which may differ in length
        return [bits(its) for its in value]
    array = np.asarray(value)
    assert array.dtype != object
    return array.dtype, array.shape, array.tobytes()


def assert_same(one: Any, other: Any) -> None:
    """Two fitted models of the same bits, as far as they do not tell of time or single rows."""
    assert one.classes_.tolist() == other.classes_.tolist()
    assert one.n_iter_ == other.n_iter_
    assert one.best_iteration_ == other.best_iteration_
    for column in one.history_.columns:
        if column != "seconds":
            np.testing.assert_array_equal(one.history_[column], other.history_[column], column)
    assert one.history_.group_errors == other.history_.group_errors
    np.testing.assert_array_equal(one.estimator_weights_, other.estimator_weights_)
    for a, b in zip(one.ensemble_.hypotheses, other.ensemble_.hypotheses, strict=True):
        for name, value in vars(a.tree).items():
            assert bits(value) == bits(getattr(b.tree, name)), name
    assert one.certificate_ == other.certificate_
    assert one.probability_scale_ == other.probability_scale_
    assert one._codes == other._codes
    assert one.ensemble_.heaviest == other.ensemble_.heaviest
