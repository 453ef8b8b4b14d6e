"""``maboost certify``: bounds of a model's error from fresh rows, and the limits it meets."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import click
import numpy as np

import maboost
from maboost.certification import Certification, CertifiedError
from maboost.cli.console import (
    is_number,
    json_value,
    print_lines,
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
from maboost.data.files import Source, TableError

__all__ = ["certification_json", "certify", "certify_with_notes", "group_names"]

VIOLATED = 1


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("data", type=rows_source)
@click.option(
    "--target",
    help="Column of labels. [default: the column that holds the classes]",
)
@click.option(
    "--confidence",
    type=float,
    default=0.95,
    show_default=True,
    help="Probability with which the bounds hold.",
)
@click.option("--group", metavar="COLUMN", help="Bounds for each value of this column, too.")
@click.option(
    "--limit",
    "limits",
    multiple=True,
    metavar="[NAME=]VALUE",
    help="Error allowed overall, in group NAME, or on rows of a class by class:LABEL=VALUE. May be repeated.",
)
@click.option(
    "--flip-rate",
    "flip_rates",
    multiple=True,
    metavar="CLASS=RATE",
    help="Share of the rows truly of a class that are labelled otherwise, or LOW:HIGH: bounds against true "
    "labels. Holds in all groups. May be repeated.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@skip_unlabelled_option
@reading_options
@report_errors
def certify(
    model: Path,
    data: Source,
    target: str | None,
    confidence: float,
    group: str | None,
    limits: tuple[str, ...],
    flip_rates: tuple[str, ...],
    as_json: bool,
    **reading: Any,
) -> None:
    """Bound the error of MODEL by the fresh labelled rows of DATA (CSV or Parquet, or - for standard input).

    The rows must not have been used to train, stop or choose MODEL. The exit code is 1 if a limit is violated,
    and 0 if all are met or open.
    """
    fitted, trained = model_and_columns(model)
    if group is not None and group == target:
        raise TableError(f"column {group!r} cannot be both --group and --target")
    besides = () if group is None or group in trained.features else (group,)
    with working(f"reading {data.name}"):
        table, _, y = labelled_rows(trained, data, ReadOptions.of(reading), target, besides)
    groups = None if group is None else group_names("--group", group, table.column(group))
    classes = fitted.classes_.tolist()
    known = [] if groups is None else sorted(set(groups.tolist()))
    asked = dict(_limit(text, known, classes) for text in limits) or None
    rates = _flip_rates(flip_rates, classes)
    with working("measuring the error"):
        found = certify_with_notes(
            fitted,
            table.select(trained.features),
            y,
            confidence=confidence,
            groups=groups,
            limits=asked,
            flip_rates=rates,
        )
    if as_json:
        click.echo(json.dumps(certification_json(found), indent=2))
    else:
        print_lines(*str(found).splitlines())
    if found.limits_violated:
        raise SystemExit(VIOLATED)


def certify_with_notes(*args: Any, **options: Any) -> Certification:
    """Return the result of :func:`maboost.certify`, and print its warnings as lines on stderr."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found: Certification = maboost.certify(*args, **options)
    for warning in caught:
        if issubclass(warning.category, UserWarning):
            print_lines(f"maboost: {warning.message}", err=True)
    return found


def group_names(option: str, name: str, column: Any) -> np.ndarray[Any, Any]:
    """Return the values of a column of groups as text."""
    if column.null_count:
        raise TableError(
            f"{option} {name!r} is missing in {column.null_count} of {len(column)} rows: name their group, or "
            "leave them out"
        )
    return np.array([str(value) for value in column.to_pylist()])


def certification_json(found: Certification) -> dict[str, Any]:
    """Return a certification for JSON."""

    def fields_of(error: CertifiedError) -> dict[str, Any]:
        return {
            "rows": error.rows,
            "estimate": json_value(error.estimate),
            "lower": error.lower,
            "upper": error.upper,
            "limit": error.limit,
            "status": error.status,
            "rows_to_decide": error.rows_to_decide,
        }

    return {
        "confidence": found.confidence,
        "labels": found.labels,
        "rows": found.rows,
        "method": found.method,
        "overall": fields_of(found.overall),
        "groups": {str(name): fields_of(error) for name, error in found.groups.items()},
        "classes": {str(name): fields_of(error) for name, error in found.classes.items()},
        "notes": list(found.notes),
    }


def _limit(text: str, groups: list[str], classes: list[Any]) -> tuple[Any, float]:
    """Return the key of a limit, as in `maboost.certify`, and its value."""
    name, _, value = text.rpartition("=")
    if not is_number(value):
        raise TableError(f"--limit {text}: {value!r} is not a number; give VALUE or NAME=VALUE")
    kind, colon, rest = name.partition(":")
    if name in ("", "overall"):
        return "overall", float(value)
    if name in groups:
        return ("group", name), float(value)
    if colon and kind == "group" and rest in groups:
        return ("group", rest), float(value)
    if colon and kind == "class":
        return ("class", _class("--limit", text, rest, classes)), float(value)
    there = ["overall", *groups, *(f"class:{label}" for label in classes)]
    raise TableError(f"--limit {text}: there is no {name!r}; there are {shortened(there)}")


def _flip_rates(texts: tuple[str, ...], classes: list[Any]) -> Any:
    """Return rates, or intervals of rates, by class."""
    found: dict[Any, Any] = {}
    for text in texts:
        name, sign, value = text.rpartition("=")
        ends = value.split(":")
        if not sign or len(ends) > 2 or not all(map(is_number, ends)):
            raise TableError(f"--flip-rate {text}: give CLASS=RATE, or CLASS=LOW:HIGH")
        numbers = [float(end) for end in ends]
        label = _class("--flip-rate", text, name, classes)
        if label in found:
            raise TableError(f"--flip-rate names {name!r} twice")
        found[label] = numbers[0] if len(numbers) == 1 else (numbers[0], numbers[1])
    return found or None


def _class(option: str, text: str, name: str, classes: list[Any]) -> Any:
    by_name: dict[str, Any] = {str(label): label for label in classes}
    if name not in by_name:
        raise TableError(
            f"{option} {text}: {name!r} is not a class of the model; the classes are {shortened(list(by_name))}"
        )
    return by_name[name]
