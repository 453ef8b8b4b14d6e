"""Wrong labels in the training rows of a study; test labels stay clean.

==============  ==================================================================================
none            the labels of the table
uniform 20 %    each label is wrong with probability 0.2
20 % of class   each label of one class is wrong with this probability; class 1 is the rarer one
40 % of class   the same
boundary 20 %   a fifth of the rows, drawn with probabilities proportional to min(p, 1 - p), where p is
                an out-of-fold probability of a logistic regression, which is of no method's family
annotator       the labels of a weak annotator: a logistic regression that sees half of the columns and
                was fitted on 200 other rows; it names class 1 as often as those rows have it
==============  ==================================================================================
"""

from __future__ import annotations

from typing import Any

import numpy as np
from benchmarks.studies.data import Split
from numpy.typing import NDArray
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

__all__ = ["NOISES", "given_labels", "true_rates"]

Labels = NDArray[np.int64]

NONE, UNIFORM, BOUNDARY, ANNOTATOR = "none", "uniform 20 %", "boundary 20 %", "annotator"
ONE_SIDED = ("40 % of class 1", "40 % of class 0")

# P(wrong | true class), for class 0 and for class 1
RATES: dict[str, tuple[float, float]] = {
    NONE: (0.0, 0.0),
    UNIFORM: (0.2, 0.2),
    ONE_SIDED[0]: (0.0, 0.4),
    ONE_SIDED[1]: (0.4, 0.0),
    "20 % of class 1": (0.0, 0.2),
    "20 % of class 0": (0.2, 0.0),
}
NOISES = (*RATES, BOUNDARY, ANNOTATOR)


def given_labels(noise: str, rows: Split, seed: int) -> Labels:
    """Return the labels of the training rows under this noise; a seed gives the same labels again."""
    rng = np.random.default_rng([seed, NOISES.index(noise)])
    y = rows.y
    if noise == ANNOTATOR:
        return _annotated(rows, rng)
    if noise == BOUNDARY:
        folds = StratifiedKFold(5, shuffle=True, random_state=seed)
        p = cross_val_predict(_logistic(), rows.X, y, cv=folds, method="predict_proba")[:, 1]
        doubt = np.minimum(p, 1.0 - p) + 1e-6
        wrong = rng.choice(len(y), round(0.2 * len(y)), replace=False, p=doubt / doubt.sum())
        given = y.copy()
        given[wrong] = 1 - y[wrong]
        return given
    return np.where(rng.random(len(y)) < np.asarray(RATES[noise])[y], 1 - y, y)


def _annotated(rows: Split, rng: np.random.Generator) -> Labels:
    columns = rng.permutation(rows.X.shape[1])[: (rows.X.shape[1] + 1) // 2]
    model = _logistic().fit(rows.X_annotator.iloc[:, columns], rows.y_annotator)
    score = model.predict_proba(rows.X.iloc[:, columns])[:, 1] + 1e-9 * rng.random(len(rows.y))
    named = score > np.quantile(score, 1.0 - rows.y_annotator.mean())
    return named.astype(np.int64)


def _logistic() -> Any:
    numbers = make_pipeline(SimpleImputer(keep_empty_features=True), StandardScaler())
    return make_pipeline(
        make_column_transformer(
            (numbers, make_column_selector(dtype_include="number")),
            (
                OneHotEncoder(handle_unknown="ignore"),
                make_column_selector(dtype_include="category"),
            ),
        ),
        LogisticRegression(max_iter=1000),
    )


def true_rates(noise: str, y: Labels, given: Labels) -> dict[int, float]:
    """Return P(wrong | true class): as planted, or, where nothing was planted by class, as counted."""
    if noise in RATES:
        return dict(enumerate(RATES[noise]))
    return {k: float(np.mean(given[y == k] != k)) for k in (0, 1)}
