"""``maboost predict`` and ``inspect``, which use a model file."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

import maboost
from maboost.cli.column_checks import NUMBERS, TEXT, YES_NO, kind_of
from maboost.cli.columns import TrainedColumns
from maboost.cli.console import (
    check_columns,
    check_different_files,
    check_writable,
    json_value,
    print_lines,
    report_errors,
    safe_csv_option,
    shortened,
    working,
)
from maboost.cli.held_out_rows import filtered, labelled
from maboost.cli.reading_options import ReadOptions, reading_options, rows_source
from maboost.data.files import (
    Source,
    TableError,
    check_safe_csv,
    is_parquet,
    read_as_written,
    safe_cells,
    write_table,
)
from maboost.runtime.text import escaped

__all__ = ["inspect", "labelled_rows", "model_and_columns", "predict"]


def model_and_columns(path: Path) -> tuple[Any, TrainedColumns]:
    """Return a model from a file, and the columns on which it was trained."""
    model = _load(path)
    if not hasattr(model, "feature_names_in_"):
        raise TableError(f"{path}: the model was trained without column names; use it from Python")
    return model, TrainedColumns.of_model(model)


def _load(path: Path) -> Any:
    if not path.exists():
        raise TableError(f"{path}: no such file")
    return maboost.load_model(path)


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("data", type=rows_source)
@click.option("--proba", is_flag=True, help="Add a column of probabilities for each class.")
@click.option(
    "--keep",
    multiple=True,
    metavar="COLUMN",
    help="Copy a column of DATA, such as an id, in front of the predictions. May be repeated.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="CSV or Parquet file. [default: CSV to the terminal]",
)
@safe_csv_option
@reading_options
@report_errors
def predict(
    model: Path,
    data: Source,
    proba: bool,
    keep: tuple[str, ...],
    out: Path | None,
    safe_csv: bool,
    **reading: Any,
) -> None:
    """Predict the rows of DATA (CSV or Parquet, or - for standard input) with MODEL."""
    check_writable(out, "--out")
    if safe_csv and out is not None:
        check_safe_csv("--out", out)
    check_different_files({"the model": model, "the rows": data}, {"--out": out})
    options = ReadOptions.of(reading)
    with working(f"reading {data.name}"):
        fitted, trained = model_and_columns(model)
        table = trained.read(data, options, text=keep)
        check_columns(keep, table.column_names)
        as_text = out is None or not is_parquet(out)
        kept = _kept(data, list(dict.fromkeys(keep)), as_text, options.separator)
    with working("predicting"):
        found = _predictions(fitted, table.select(trained.features), proba)
    for name in kept:
        if name in found:
            raise TableError(
                f"--keep {name!r} is the name of a column of the predictions: give it another name in "
                f"{data}"
            )
    if out is None:
        _show(kept | found, safe_csv)
    else:
        write_table(kept | found, out, safe_csv)


def _kept(data: Source, names: list[str], as_text: bool, separator: str | None) -> dict[str, Any]:
    """Return columns as they are in the file, to be written as text or to Parquet."""
    if not names:
        return {}
    table = read_as_written(data, names, separator)
    columns = dict(zip(table.column_names, table.columns, strict=True))
    return {n: _writable(n, c) for n, c in columns.items()} if as_text else columns


def _writable(name: str, column: Any) -> Any:
    """Return a column that can be written as text: itself, except for kinds of text that only Parquet has."""
    import pyarrow as pa

    try:
        text = column.cast(pa.string())
    except pa.ArrowException:
        raise TableError(
            f"--keep {name!r} holds {column.type}, which cannot be written as text: give a file by --out "
            "that ends in .parquet"
        ) from None
    return text if kind_of(column.type) == TEXT else column


def _predictions(fitted: Any, X: Any, proba: bool) -> dict[str, Any]:
    columns = {"prediction": fitted.predict(X)}
    if proba:
        for name, column in zip(fitted.classes_.tolist(), fitted.predict_proba(X).T, strict=True):
            columns[f"probability_{name}"] = column
    return columns


def _show(columns: dict[str, Any], safe_csv: bool) -> None:
    """Print columns as CSV: escaped on a terminal, unchanged into a pipe or a file."""
    import pyarrow as pa

    table = pa.table(columns)
    if safe_csv:
        table = safe_cells(table)
    tell = _escaped if sys.stdout.isatty() else _as_it_is
    tell(",".join(map(_cell, table.column_names)))
    # numbers and booleans are written as in a file
    texts = [column.cast(pa.string()).to_pylist() for column in table.columns]
    for row in zip(*texts, strict=True):
        tell(",".join(map(_cell, row)))


def _escaped(line: str) -> None:
    click.echo(escaped(line))


def _as_it_is(line: str) -> None:
    click.echo(
        line, color=True
    )  # without colours click would remove escape sequences from the data


def _cell(text: str | None) -> str:
    if text is None:
        return ""
    return '"' + text.replace('"', '""') + '"' if any(c in text for c in ',"\r\n') else text


def labelled_rows(
    trained: TrainedColumns,
    data: Source,
    options: ReadOptions,
    target: str | None,
    besides: tuple[str, ...] = (),
) -> tuple[Any, str, Any]:
    """Return a file with labels: the table, the name of the column of labels, and the labels.

    The columns `besides` are read as text and are not considered as labels.
    """
    table = trained.read(data, options, target, text=besides)
    check_columns(besides, table.column_names)
    known = {*trained.features, *besides}
    rest = table.select([name for name in table.column_names if name not in known])
    if not rest.column_names:
        raise TableError(
            f"{data}: has no column besides the features to compare with; add the labels"
        )
    name = target or _labels_column(data, rest, trained, options.skip_unlabelled)
    if name not in table.column_names:
        raise TableError(f"there is no column {name!r}; there are {shortened(rest.column_names)}")
    if options.skip_unlabelled:
        table = filtered(table, labelled(data, table, name))
    return table, name, trained.labels(data, name, table.column(name))


def _labels_column(data: Source, rest: Any, trained: TrainedColumns, some_missing: bool) -> str:
    """Return the one column that is not a feature and holds only the model's classes, some missing or not.

    If there is only one other column it may hold other values, about which the reader of the labels raises an error.
    """
    known = {*trained.classes.tolist(), *([None] if some_missing else [])}
    classes = shortened([str(label) for label in trained.classes.tolist()], 5)
    readable = [f.name for f in rest.schema if kind_of(f.type) in (YES_NO, NUMBERS, TEXT)]
    if rest.num_columns == 1:
        (name,) = rest.column_names
        if name in readable and trained.may_be_labels(rest.column(name)):
            return str(name)
        raise TableError(
            f"{data}: the only column besides the features, {name!r}, holds none of the model's classes "
            f"{classes}; add the labels"
        )
    fitting = [n for n in readable if set(rest.column(n).unique().to_pylist()) <= known]
    if len(fitting) != 1:
        what = "none" if not fitting else "several"
        raise TableError(
            f"{what} of the other columns ({shortened(rest.column_names)}) holds the model's classes "
            f"{classes}: say which by --target"
        )
    return str(fitting[0])


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@report_errors
def inspect(model: Path, as_json: bool) -> None:
    """Say what is in MODEL: parameters, certificate, importances."""
    fitted = _load(model)
    names = list(getattr(fitted, "feature_names_in_", range(fitted.n_features_in_)))
    importance = sorted(
        zip(names, fitted.feature_importances_.tolist(), strict=True), key=lambda p: -p[1]
    )
    params = {k: v for k, v in fitted.get_params(deep=False).items() if k != "estimator"}
    if as_json:
        found = {
            "booster": type(fitted).__name__,
            "classes": [json_value(v) for v in fitted.classes_],
            "rounds": fitted.n_iter_,
            "parameters": {
                k: json_value(v) if isinstance(v, int | float | str | None) else str(v)
                for k, v in params.items()
            },
            "training_error": json_value(fitted.certificate_.measured_error),
            "certified_error": fitted.certificate_.error_bound,
            "rare_categories": {
                str(k): [json_value(v) for v in its] for k, its in fitted.rare_categories_.items()
            },
            "importances": {str(k): v for k, v in importance},
        }
        click.echo(json.dumps(found, indent=2))
        return
    print_lines(
        f"{type(fitted).__name__}, classes {shortened([str(c) for c in fitted.classes_.tolist()])}"
    )
    print_lines(*str(fitted.certificate_).splitlines())
    print_lines("parameters: " + ", ".join(f"{k}={v!r}" for k, v in params.items()))
    print_lines(
        "most important: " + ", ".join(f"{k} {v:.1%}" for k, v in importance[:10] if v > 0.0)
    )
    for name, rare in fitted.rare_categories_.items():
        print_lines(
            f"rare categories of {name!r} that share a bin: {shortened([repr(v) for v in rare])}"
        )
