"""Metrics of a classifier on labelled rows, by scikit-learn, for ``maboost evaluate`` and the report.

Rows whose metrics are computed must not have been used to fit the classifier, to stop it or to choose a threshold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "THRESHOLD_METRICS",
    "CalibrationBin",
    "ClassMetrics",
    "LineOfPoints",
    "Metrics",
    "best_threshold",
    "metrics",
    "predicted_at",
]

Array = NDArray[np.float64]
Codes = NDArray[np.intp]
ThresholdMetric = Literal["f1", "balanced_accuracy"]

THRESHOLD_METRICS: tuple[ThresholdMetric, ...] = ("f1", "balanced_accuracy")
_BINS = 10
_MOST_POINTS = 200


@dataclass(frozen=True)
class LineOfPoints:
    """The points of a curve."""

    x: Array
    y: Array


@dataclass(frozen=True)
class CalibrationBin:
    """Rows of similar probability: their number, mean probability and observed share."""

    rows: int
    predicted: float
    observed: float


@dataclass(frozen=True)
class ClassMetrics:
    """The metrics of one class against all others; NaN where the rows do not define them."""

    label: Any
    rows: int
    predicted: int
    precision: float
    recall: float
    f1: float
    auc: float
    roc: LineOfPoints | None
    precision_recall: LineOfPoints | None


@dataclass(frozen=True)
class Metrics:
    """The metrics of a classifier on labelled rows.

    Attributes
    ----------
    rows : int
    error, balanced_accuracy, macro_f1, log_loss, brier, auc : float
        `auc` and `macro_f1` are means over the classes that the rows contain; with two classes `auc` is the one
        area. `brier` is scikit-learn's: the squared error of one probability with two classes, and the sum over
        all classes with more.
    classes : list of ClassMetrics
    confusion : array of shape (n_classes, n_classes)
        Rows by true class and predicted class.
    calibration : list of CalibrationBin
        With two classes the probability of the second class; with more that of the most probable class.
    """

    rows: int
    error: float
    balanced_accuracy: float
    macro_f1: float
    log_loss: float
    brier: float
    auc: float
    classes: list[ClassMetrics]
    confusion: NDArray[np.intp]
    calibration: list[CalibrationBin]


def metrics(y: Any, predicted: Any, proba: Array, classes: Sequence[Any]) -> Metrics:
    """Return the metrics of predictions and probabilities on rows with labels `y`, all among `classes`.

    >>> proba = np.array([[0.9, 0.1], [0.4, 0.6], [0.2, 0.8], [0.7, 0.3]])
    >>> found = metrics([0, 0, 1, 1], [0, 1, 1, 0], proba, [0, 1])
    >>> found.error, found.auc, found.confusion.tolist()
    (0.5, 0.75, [[1, 1], [1, 1]])
    """
    from sklearn.metrics import confusion_matrix, log_loss, precision_recall_fscore_support

    labels = np.asarray(classes)
    true, said = np.searchsorted(labels, y), np.searchsorted(labels, predicted)
    codes = np.arange(len(labels))
    precision, recall, f1, _ = precision_recall_fscore_support(
        true, said, labels=codes, zero_division=np.nan
    )
    there = np.bincount(true, minlength=len(codes))
    confusion = confusion_matrix(true, said, labels=codes)
    ranked = [_ranked(true == c, proba[:, c]) for c in codes]
    auc = [area for area, _, _ in ranked]
    by_class = [
        ClassMetrics(
            classes[c], int(there[c]), int(confusion[:, c].sum()), float(precision[c]),
            float(recall[c]), float(f1[c]), *ranked[c],
        )
        for c in codes.tolist()
    ]  # fmt: skip
    truth = np.eye(len(codes))[true]
    squared = float(np.mean(np.sum((proba - truth) ** 2, axis=1)))
    return Metrics(
        rows=len(true),
        error=float(np.mean(true != said)),
        balanced_accuracy=_mean(recall[there > 0]),
        macro_f1=_mean(f1),
        log_loss=float(log_loss(true, proba, labels=codes)) if len(codes) > 1 else 0.0,
        brier=squared / 2.0 if len(codes) == 2 else squared,
        auc=_mean(np.array(auc)),
        classes=by_class,
        confusion=confusion,
        calibration=_calibration(true, proba),
    )


def _mean(values: Any) -> float:
    """Return the mean of the defined values; NaN if there are none."""
    defined = np.asarray(values, dtype=float)
    defined = defined[~np.isnan(defined)]
    return float(defined.mean()) if len(defined) else float("nan")


def _ranked(is_class: Any, score: Array) -> tuple[float, LineOfPoints | None, LineOfPoints | None]:
    """Return the area under the ROC curve, the ROC curve and the precision-recall curve of one class."""
    from sklearn.metrics import precision_recall_curve, roc_auc_score, roc_curve

    if is_class.all() or not is_class.any():
        return float("nan"), None, None
    false_positive, true_positive, _ = roc_curve(is_class, score)
    precision, recall, _ = precision_recall_curve(is_class, score, drop_intermediate=True)
    return (
        float(roc_auc_score(is_class, score)),
        _thinned(false_positive, true_positive),
        _thinned(recall[::-1], precision[::-1]),
    )


def _thinned(x: Array, y: Array) -> LineOfPoints:
    """Return evenly spaced points of a curve, the ends among them, if there are too many."""
    if len(x) > _MOST_POINTS:
        chosen = np.unique(np.linspace(0, len(x) - 1, _MOST_POINTS).round().astype(int))
        x, y = x[chosen], y[chosen]
    return LineOfPoints(x, y)


def _calibration(true: Codes, proba: Array) -> list[CalibrationBin]:
    """Return the bins of a calibration curve, without empty ones."""
    if proba.shape[1] == 2:
        happened, said = true == 1, proba[:, 1]
    else:
        happened, said = true == proba.argmax(axis=1), proba.max(axis=1)
    edges = np.linspace(0.0, 1.0, _BINS + 1)
    place = np.searchsorted(edges[1:-1], said)
    found = []
    for i in range(_BINS):
        inside = place == i
        if inside.any():
            count = int(inside.sum())
            found.append(CalibrationBin(count, _mean(said[inside]), _mean(happened[inside])))
    return found


def predicted_at(
    threshold: float, proba: Array, classes: Sequence[Any], positive: int
) -> NDArray[Any]:
    """Return the class at position `positive` where its probability reaches the threshold, else the other class."""
    reached = proba[:, positive] >= threshold
    return np.asarray(classes)[np.where(reached, positive, 1 - positive)]


def best_threshold(is_positive: NDArray[np.bool_], score: Array, metric: ThresholdMetric) -> float:
    """Return the threshold with the largest metric on these rows; of several the one closest to 1/2.

    The metric of these rows at this threshold is optimistic: measure it on other rows.

    >>> best_threshold(np.array([False, False, True, True]), np.array([0.1, 0.3, 0.2, 0.9]), "f1")
    0.2
    """
    from sklearn.metrics import precision_recall_curve, roc_curve

    if metric == "f1":
        precision, recall, levels = precision_recall_curve(is_positive, score)
        total = precision + recall
        values = 2.0 * precision * recall / np.where(total > 0.0, total, 1.0)
        values = values[:-1]
    else:
        false_positive, true_positive, levels = roc_curve(
            is_positive, score, drop_intermediate=False
        )
        values, levels = (true_positive - false_positive)[1:], levels[1:]
    best = levels[values >= values.max() - 1e-12]
    return float(best[np.argmin(np.abs(best - 0.5))])
