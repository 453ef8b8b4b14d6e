"""The section on the metrics of the test rows: a table, the confusion matrix and three curves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from maboost.report.blocks import (
    Beside,
    Column,
    Details,
    Note,
    Paragraph,
    Section,
    Table,
    cell,
    number_cell,
)
from maboost.report.charts import Curve, Dash, unit_chart
from maboost.report.formats import count, number, percent, text
from maboost.report.metrics import ClassMetrics, LineOfPoints, Metrics
from maboost.report.subject import Subject

__all__ = ["metric_section"]

_MOST_CLASSES = 30
_MOST_CURVES = 6
_DASHES: tuple[Dash, ...] = ("solid", "dashed", "long", "dashdot")
_UNKNOWN = (
    "The metrics are left out: the test rows hold labels that are not among the model's classes."
)


def metric_section(subject: Subject) -> Section | None:
    """Return the section on the metrics of the test rows; None without test rows."""
    if subject.test is None or len(subject.classes) == 1:
        return None
    heading = "Metrics on the test rows"
    found = subject.test.metrics
    if found is None:
        return Section("metrics", heading, [Note(_UNKNOWN)])
    words = (
        f"{count(found.rows, 'row')} that were not trained on. The AUC is the probability that the model ranks a "
        "row of the class above a row of another class. Log loss and the Brier score judge the probabilities: "
        "smaller is better, 0 is perfect."
    )
    if subject.model.flip_rates_ is not None:
        words += (
            " The metrics compare with the given labels, some of which are wrong, although the model predicts true "
            "labels. The certified error is about true labels where flip rates were given to it."
        )
    blocks: list[Any] = [
        Paragraph(words),
        Beside([_overall(found), _confusion(found)], "tables"),
        _by_class(found),
    ]
    if subject.rounds:  # without rounds all rows have the same probabilities
        blocks.append(_curves(found))
    return Section("metrics", heading, blocks)


def _overall(found: Metrics) -> Table:
    values = {
        "AUC": number(found.auc),
        "Log loss": number(found.log_loss),
        "Brier score": number(found.brier),
        "Error": percent(found.error),
        "Balanced accuracy": percent(found.balanced_accuracy),
        "Mean F1 of the classes": number(found.macro_f1),
    }
    rows = [[cell(name, "name"), cell(value, "number")] for name, value in values.items()]
    return Table("metrics-overall", "All classes", [Column("Metric"), Column("Value", True)], rows)


def _by_class(found: Metrics) -> Table:
    heads = ("Rows", "Recall", "Precision", "F1", "AUC")
    rows = []
    for its in found.classes[:_MOST_CLASSES]:
        shares = [number_cell(v, percent(v)) for v in (its.recall, its.precision)]
        rows.append(
            [
                cell(its.label, "name"),
                number_cell(its.rows),
                *shares,
                number_cell(its.f1),
                number_cell(its.auc),
            ]
        )
    columns = [Column("Class"), *(Column(head, True) for head in heads)]
    return Table("metrics-classes", f"Each class against the others{_first(found)}", columns, rows)


def _first(found: Metrics) -> str:
    total = len(found.classes)
    return "" if total <= _MOST_CLASSES else f": the first {_MOST_CLASSES} of {total:,}"


def _confusion(found: Metrics) -> Any:
    shown = found.classes[:_MOST_CLASSES]
    columns = [
        Column("True class"),
        *(Column(f"predicted {text(c.label, 40)}", True) for c in shown),
    ]
    rows = [
        [cell(its.label, "name"), *(number_cell(int(n)) for n in found.confusion[i, : len(shown)])]
        for i, its in enumerate(shown)
    ]
    table = Table("confusion", f"Confusion matrix{_first(found)}", columns, rows)
    return table if len(shown) <= 5 else Details("The confusion matrix", [table])


def _curves(found: Metrics) -> Beside:
    chosen = found.classes[1:] if len(found.classes) == 2 else found.classes[:_MOST_CURVES]
    chosen = [its for its in chosen if its.roc is not None]
    predicted = np.array([its.predicted for its in found.calibration])
    observed = np.array([its.observed for its in found.calibration])
    of = text(found.classes[1].label, 40) if len(found.classes) == 2 else "the most probable class"
    calibration = unit_chart(
        "chart-calibration",
        "Calibration",
        "; ".join(
            f"{percent(its.observed)} of {count(its.rows, 'row')} at mean probability {percent(its.predicted)}"
            for its in found.calibration
        )
        + ".",
        (f"probability of {of}", "observed share"),
        [Curve("observed", predicted, observed, 1)],
        "perfectly calibrated",
    )
    if not chosen:
        return Beside([calibration])
    areas = "; ".join(f"{text(its.label, 40)}: AUC {number(its.auc)}" for its in chosen) + "."
    roc = unit_chart(
        "chart-roc", "ROC curve", areas, ("false positive rate", "recall"),
        _lines(chosen, [its.roc for its in chosen]), "chance",
    )  # fmt: skip
    recalls = unit_chart(
        "chart-precision-recall", "Precision and recall",
        "; ".join(f"{text(its.label, 40)}: F1 {number(its.f1)} at the model's answers" for its in chosen) + ".",
        ("recall", "precision"),
        _lines(chosen, [its.precision_recall for its in chosen]),
    )  # fmt: skip
    return Beside([roc, recalls, calibration])


def _lines(classes: Sequence[ClassMetrics], points: Sequence[LineOfPoints | None]) -> list[Curve]:
    return [
        Curve(text(its.label, 40), line.x, line.y, i + 1, _DASHES[i % len(_DASHES)])
        for i, (its, line) in enumerate(zip(classes, points, strict=True))
        if line is not None
    ]
