"""Sparsity against accuracy: SparseBoost's three ways to leave rows out."""

from __future__ import annotations

import numpy as np
from benchmarks.theory.common import Array, Table
from sklearn.datasets import make_classification, make_hastie_10_2
from sklearn.model_selection import train_test_split

from maboost import MABoostClassifier, SparseBoostClassifier

WAYS: tuple[tuple[str, float, dict[str, float]], ...] = (
    ("kappa", 1.0, {"kappa": 1.0}),
    ("kappa", 0.9, {"kappa": 0.9}),
    ("kappa", 0.7, {"kappa": 0.7}),
    ("kappa", 0.5, {"kappa": 0.5}),
    ("kappa", 0.2, {"kappa": 0.2}),
    ("l1_decay", 0.1, {"kappa": 0.2, "l1_decay": 0.1}),
    ("l1_decay", 0.3, {"kappa": 0.2, "l1_decay": 0.3}),
    ("l1_decay", 0.6, {"kappa": 0.2, "l1_decay": 0.6}),
    ("sparsity", 0.5, {"sparsity": 0.5}),
    ("sparsity", 0.8, {"sparsity": 0.8}),
    ("sparsity", 0.9, {"sparsity": 0.9}),
    ("sparsity", 0.95, {"sparsity": 0.95}),
    ("sparsity", 0.98, {"sparsity": 0.98}),
)


def data_sets(rows: int) -> dict[str, tuple[Array, Array]]:
    hastie = make_hastie_10_2(rows, random_state=0)
    return {
        "hastie": (hastie[0], (hastie[1] > 0).astype(int)),
        "synthetic": make_classification(
            rows, 20, n_informative=8, n_redundant=4, flip_y=0.05, class_sep=0.8, random_state=3
        ),
    }


def fitted(model: MABoostClassifier | SparseBoostClassifier, parts: list[Array]) -> list[float]:
    """Share of rows shown on average and at the end, the sum of steps, errors and the certified one."""
    X_train, X_test, y_train, y_test = parts
    model.fit(X_train, y_train)
    shown = model.history_["rows_used"] / len(y_train)
    last = model.history_.records[-1]
    errors = [last.train_error, last.error_bound, 1.0 - model.score(X_test, y_test)]
    return [float(shown.mean()), float(shown[-1]), float(model.history_["step"].sum()), *errors]


def sparsity_study(rows: int = 6000, T: int = 100, seeds: int = 3) -> Table:
    """Means over splits in half; `seeds` of them."""
    table: Table = []
    columns = (
        "rows_shown",
        "rows_shown_last",
        "total_step",
        "train_error",
        "error_bound",
        "test_error",
    )
    for name, (X, y) in data_sets(rows).items():
        splits = [
            train_test_split(X, y, test_size=0.5, stratify=y, random_state=seed)
            for seed in range(seeds)
        ]
        ways = [("all rows", 0.0, None), *WAYS]
        for way, value, options in ways:
            results = []
            for parts in splits:
                common = {"n_estimators": T, "random_state": 0, "n_jobs": 1}
                model = (
                    MABoostClassifier(**common)
                    if options is None
                    else SparseBoostClassifier(**common, **options)
                )
                results.append(fitted(model, parts))
            means = dict(zip(columns, np.mean(results, axis=0).tolist(), strict=True))
            spread = float(np.std([r[-1] for r in results]))
            table.append({"data": name, "way": way, "value": value, **means, "spread": spread})
    return table
