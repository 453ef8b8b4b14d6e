"""``maboost evaluate``: the metrics of a model on rows with labels."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np

from maboost.cli.console import (
    json_value,
    print_lines,
    print_table,
    report_errors,
    shortened,
    working,
)
from maboost.cli.model_commands import labelled_rows, model_and_columns
from maboost.cli.reading_options import (
    ReadOptions,
    reading_options,
    rows_source,
    skip_unlabelled_option,
)
from maboost.cli.row_values import as_numbers
from maboost.data.files import Source, TableError
from maboost.data.holdout import held_out
from maboost.report.formats import number, percent
from maboost.report.metrics import (
    THRESHOLD_METRICS,
    LineOfPoints,
    Metrics,
    ThresholdMetric,
    best_threshold,
    metrics,
    predicted_at,
)

__all__ = ["evaluate"]

_CHOOSING = 0.5  # share of the rows that choose a threshold if no file does
_MOST_SHOWN = 100  # classes of a printed confusion matrix, whose size is their square
_NAMES = {"f1": "F1", "balanced_accuracy": "balanced accuracy"}


@dataclass(frozen=True)
class _Rows:
    """Rows with labels, and the probabilities of a model."""

    X: Any
    y: np.ndarray[Any, Any]
    proba: np.ndarray[Any, Any]

    def part(self, chosen: np.ndarray[Any, Any]) -> _Rows:
        return _Rows(self.X.filter(chosen), self.y[chosen], self.proba[chosen])


@dataclass(frozen=True)
class _Threshold:
    """A threshold on the probability of one class, and how it was chosen."""

    value: float
    positive: int
    chosen: str = ""


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("data", type=rows_source)
@click.option(
    "--target",
    help="Column of true labels. [default: the column that holds the classes]",
)
@click.option(
    "--threshold",
    type=float,
    help="Answer the positive class where its probability is at least this. [default: the larger vote]",
)
@click.option(
    "--metric",
    type=click.Choice(THRESHOLD_METRICS),
    help="Choose the threshold that is best for this metric: on --threshold-rows, else on half of DATA, which is "
    "then left out of the figures.",
)
@click.option(
    "--threshold-rows",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Labelled rows for --metric, none of them in DATA.",
)
@click.option(
    "--positive",
    metavar="CLASS",
    help="The class of --threshold and --metric. [default: the second in sorted order]",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with the curves.")
@skip_unlabelled_option
@reading_options
@report_errors
def evaluate(
    model: Path,
    data: Source,
    target: str | None,
    threshold: float | None,
    metric: ThresholdMetric | None,
    threshold_rows: Path | None,
    positive: str | None,
    as_json: bool,
    **reading: Any,
) -> None:
    """Measure MODEL on the labelled rows of DATA (CSV or Parquet, or - for standard input)."""
    _check_options(threshold, metric, threshold_rows, positive)
    if threshold_rows is not None and threshold_rows.resolve() == data.resolve():
        raise TableError(
            f"--threshold-rows {threshold_rows} has the rows that are measured: give other rows, or leave it out"
        )
    options = ReadOptions.of(reading)
    fitted, trained = model_and_columns(model)
    classes = fitted.classes_.tolist()
    place = _positive(positive, classes, threshold is not None or metric is not None)

    def read(path: Source) -> tuple[_Rows, str]:
        with working(f"reading {path.name}"):
            table, name, y = labelled_rows(trained, path, options, target)
            X = table.select(trained.features)
        with working("predicting"):
            return _Rows(X, np.asarray(y), fitted.predict_proba(X)), name

    rows, name = read(data)
    cut = None if threshold is None else _Threshold(threshold, place)
    if metric is not None:
        if threshold_rows is None:
            choosing, rows = _halves(rows, classes, metric)
            where = f"{len(choosing.y)} other rows of {data}"
        else:
            choosing = read(threshold_rows)[0]
            where = f"the {len(choosing.y)} rows of {threshold_rows}"
        best = best_threshold(choosing.y == classes[place], choosing.proba[:, place], metric)
        cut = _Threshold(best, place, f"the best {_NAMES[metric]} on {where}")
    with working("measuring the error"):
        said = (
            fitted.predict(rows.X)
            if cut is None
            else predicted_at(cut.value, rows.proba, classes, cut.positive)
        )
        found = metrics(rows.y, said, rows.proba, classes)
    if as_json:
        click.echo(json.dumps(_for_json(found, name, classes, cut), indent=2))
    else:
        _print(found, name, classes, cut)


def _check_options(
    threshold: float | None, metric: str | None, rows: Path | None, positive: str | None
) -> None:
    if threshold is not None and metric is not None:
        raise TableError("--threshold and --metric both set the threshold: give one of them")
    if threshold is not None and not 0.0 <= threshold <= 1.0:
        raise TableError(f"--threshold {threshold:g} must be a probability between 0 and 1")
    if rows is not None and metric is None:
        raise TableError(f"--threshold-rows needs --metric {'|'.join(THRESHOLD_METRICS)}")
    if positive is not None and threshold is None and metric is None:
        raise TableError("--positive needs --threshold or --metric")


def _positive(name: str | None, classes: list[Any], needed: bool) -> int:
    """Return the position of the class to which the threshold belongs."""
    if needed and len(classes) != 2:
        raise TableError(
            f"--threshold and --metric are for two classes, and the model has {len(classes)}"
        )
    if name is None:
        return 1
    names = [str(label) for label in classes]
    if name not in names:
        raise TableError(f"--positive {name!r} is not a class; the classes are {shortened(names)}")
    return names.index(name)


def _halves(rows: _Rows, classes: list[Any], metric: str) -> tuple[_Rows, _Rows]:
    """Split rows in two halves of the same classes: one to choose the threshold, one to measure.

    A hash of their features chooses them, so that equal rows stay together.
    """
    codes = np.searchsorted(np.asarray(classes), rows.y)
    first = held_out(
        as_numbers(rows.X), codes, len(classes), np.ones(len(codes)), _CHOOSING, seed=0
    )
    if len(np.unique(codes[first])) < 2 or len(np.unique(codes[~first])) < 2:
        raise TableError(
            f"--metric {metric} chooses the threshold on one half of the rows and measures on the other, and "
            "one of them has one class only: give --threshold-rows FILE, or --threshold"
        )
    return rows.part(first), rows.part(~first)


def _for_json(
    found: Metrics, target: str, classes: list[Any], cut: _Threshold | None
) -> dict[str, Any]:
    def points(line: LineOfPoints | None) -> Any:
        return None if line is None else {"x": line.x.tolist(), "y": line.y.tolist()}

    overall = ("error", "log_loss", "auc", "brier", "balanced_accuracy", "macro_f1")
    single = ("rows", "predicted", "precision", "recall", "f1", "auc")
    return {
        "rows": found.rows,
        "target": target,
        **{key: json_value(getattr(found, key)) for key in overall},
        "threshold": None
        if cut is None
        else {"value": cut.value, "class": classes[cut.positive], "chosen": cut.chosen or None},
        "classes": classes,
        "confusion": found.confusion.tolist(),
        "by_class": [
            {
                "class": its.label,
                **{key: json_value(getattr(its, key)) for key in single},
                "roc": points(its.roc),
                "precision_recall": points(its.precision_recall),
            }
            for its in found.classes
        ],
        "calibration": [vars(its) for its in found.calibration],
    }


def _print(found: Metrics, target: str, classes: list[Any], cut: _Threshold | None) -> None:
    print_lines(
        f"{found.rows} rows, target {target!r}: error {found.error:.2%}, log loss {found.log_loss:.4f}"
    )
    if cut is not None:
        how = f": {cut.chosen}" if cut.chosen else ""
        print_lines(f"{str(classes[cut.positive])!r} from probability {cut.value:.4g} on{how}")
    if len(classes) <= _MOST_SHOWN:
        print_table(
            (
                [str(label), *map(str, row)]
                for label, row in zip(classes, found.confusion.tolist(), strict=True)
            ),
            head=["true \\ predicted", *map(str, classes)],
        )
    else:
        print_lines(f"{len(classes)} classes: their confusion matrix is in the output of --json")
    print_lines("")
    print_table(
        [
            ("AUC", number(found.auc)),
            ("Brier score", number(found.brier)),
            ("balanced accuracy", percent(found.balanced_accuracy)),
            ("mean F1 of the classes", number(found.macro_f1)),
        ]
    )
    print_lines("")
    print_table(
        (
            [
                str(its.label), str(its.rows), percent(its.recall), percent(its.precision),
                number(its.f1), number(its.auc),
            ]
            for its in found.classes
        ),
        head=["class", "rows", "recall", "precision", "F1", "AUC"],
    )  # fmt: skip
    print_lines("")
    of = str(classes[1]) if len(classes) == 2 else "the most probable class"
    print_table(
        (
            [percent(its.predicted), percent(its.observed), str(its.rows)]
            for its in found.calibration
        ),
        head=[f"mean probability of {of}", "observed share", "rows"],
    )
