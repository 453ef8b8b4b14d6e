"""The votes of `reweight` against the linear program over the same members, by HiGHS."""

import math

import lightgbm
import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    ExtraTreesClassifier,
    RandomForestClassifier,
)
from sklearn.tree import DecisionTreeClassifier
from tests.linear_program import best_soft_margin

from maboost import reweight
from maboost.mirror import BaseMeasure, CappedSimplex, Simplex

X2, Y2 = load_breast_cancer(return_X_y=True)
DIGITS, Y10 = load_digits(return_X_y=True)
X3, Y3 = DIGITS[Y10 < 3][:240], Y10[Y10 < 3][:240]

MODELS = [
    AdaBoostClassifier(n_estimators=25, random_state=0),
    RandomForestClassifier(25, max_depth=2, random_state=0),
    ExtraTreesClassifier(25, max_depth=4, random_state=0),
    BaggingClassifier(DecisionTreeClassifier(max_depth=3), 20, random_state=0),
    lightgbm.LGBMClassifier(n_estimators=12, num_leaves=6, verbose=-1, n_jobs=1),
]
CAPS = [1.5, 2.0, 4.0, 20.0, math.inf]


def scores_of_members(model, X: np.ndarray, n_classes: int) -> list[np.ndarray]:
    """The answers of each member, (n, K), from the methods of the other library."""
    if isinstance(model, lightgbm.LGBMClassifier):
        found = []
        for iteration in range(model.n_estimators_):
            raw = model.booster_.predict(
                X, raw_score=True, start_iteration=iteration, num_iteration=1
            )
            if n_classes == 2:
                found.append(np.column_stack([-0.5 * raw, 0.5 * raw]))
            else:  # a tree of each class
                found += [raw * (np.arange(n_classes) == k) for k in range(n_classes)]
        widest = [np.ptp(f, axis=1).max() for f in found]
        return [f / (w or 1.0) for f, w in zip(found, widest, strict=True)]
    if isinstance(model, AdaBoostClassifier):
        return [np.eye(n_classes)[tree.predict(X)] for tree in model.estimators_]
    return [tree.predict_proba(X) for tree in model.estimators_]


def margins_of_members(scores: list[np.ndarray], y: np.ndarray) -> np.ndarray:
    """(members, rows x wrong classes): the answer for the right class less that for the wrong one."""
    rows, n_classes = np.arange(len(y)), scores[0].shape[1]
    wrong = np.array([[c for c in range(n_classes) if c != label] for label in y])
    return np.array([(s[rows, y][:, None] - s[rows[:, None], wrong]).ravel() for s in scores])


@pytest.mark.parametrize("number", range(20))
def test_the_soft_margin_is_within_tolerance_of_the_linear_program(number):
    model, cap = MODELS[number % 5], CAPS[(number + number // 5) % 5]
    several = number >= 10
    X, y = (X3, Y3) if several else (X2, Y2)
    n_classes = 3 if several else 2
    rng = np.random.default_rng(number)
    weights = rng.uniform(0.2, 3.0, len(y)) if number % 2 else None
    domain = Simplex() if math.isinf(cap) else CappedSimplex(cap)
    regularizer = "euclidean" if number % 4 == 3 and cap < 10.0 else "entropy"
    tolerance = (0.05, 0.01)[number // 5 % 2]
    model = model.fit(X, y)

    columns = margins_of_members(scores_of_members(model, X, n_classes), y)
    measure = BaseMeasure(np.ones(len(y)) if weights is None else weights, n_classes - 1)
    best = best_soft_margin(columns, measure, domain)
    found = reweight(
        model, X, y, domain=domain, regularizer=regularizer, tolerance=tolerance,
        sample_weight=weights,
    )  # fmt: skip

    certificate = found.certificate_
    true_gap = best - certificate.soft_margin
    assert -1e-9 <= true_gap <= tolerance
    assert true_gap - 1e-9 <= certificate.gap <= tolerance
    assert found.certificate_before_.soft_margin <= best + 1e-9
    assert found.certificate_before_.gap >= best - found.certificate_before_.soft_margin - 1e-9
