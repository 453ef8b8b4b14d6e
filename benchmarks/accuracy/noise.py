"""Wrong labels, planted in the training rows only.

======================  ==========================================================================
uniform                 a share of the rows, drawn evenly, gets another class, drawn evenly
one-sided               the same, but all rows are of the most frequent class; at most 40 % of it,
                        so that the right label stays the likelier one
adversarial             the hardest rows get the class they are most easily taken for; hard is a
                        small out-of-fold margin of a support vector machine, which is of no
                        contestant's family
======================  ==========================================================================
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

Labels = NDArray[np.int64]
Matrix = NDArray[np.float64]

ONE_SIDED_LIMIT = 0.4


def uniform(X: Matrix, y: Labels, rate: float, seed: int) -> Labels:
    rng = np.random.default_rng(seed)
    rows = rng.permutation(len(y))[: round(rate * len(y))]
    return _with_other_classes(y, rows, rng)


def one_sided(X: Matrix, y: Labels, rate: float, seed: int) -> Labels:
    rng = np.random.default_rng(seed)
    members = np.flatnonzero(y == np.bincount(y).argmax())
    count = min(round(rate * len(y)), int(ONE_SIDED_LIMIT * len(members)))
    return _with_other_classes(y, rng.permutation(members)[:count], rng)


def adversarial(X: Matrix, y: Labels, rate: float, seed: int) -> Labels:
    """Out-of-fold margins: the score of the true class less the largest other one."""
    model = make_pipeline(StandardScaler(), SVC(decision_function_shape="ovr"))
    folds = StratifiedKFold(5, shuffle=True, random_state=seed)
    scores = cross_val_predict(model, X, y, cv=folds, method="decision_function")
    if scores.ndim == 1:
        scores = np.column_stack([-scores, scores])
    own = scores[np.arange(len(y)), y]
    others = scores.copy()
    others[np.arange(len(y)), y] = -np.inf
    rows = np.argsort(own - others.max(axis=1), kind="stable")[: round(rate * len(y))]
    given = y.copy()
    given[rows] = others[rows].argmax(axis=1)
    return given


def _with_other_classes(y: Labels, rows: NDArray[np.intp], rng: np.random.Generator) -> Labels:
    classes = int(y.max()) + 1
    given = y.copy()
    given[rows] = (y[rows] + rng.integers(1, classes, size=len(rows))) % classes
    return given


def _clean(X: Matrix, y: Labels, rate: float, seed: int) -> Labels:
    return y


KINDS: dict[str, tuple[Callable[[Matrix, Labels, float, int], Labels], float]] = {
    "clean": (_clean, 0.0),
    "uniform 20 %": (uniform, 0.2),
    "one-sided 20 %": (one_sided, 0.2),
    "adversarial 20 %": (adversarial, 0.2),
    "uniform 10 %": (uniform, 0.1),
}


def noisy(kind: str, X: Matrix, y: Labels, seed: int) -> Labels:
    """The training labels under this kind of noise; the same seed gives the same flips."""
    plant, rate = KINDS[kind]
    return plant(X, y, rate, seed)
