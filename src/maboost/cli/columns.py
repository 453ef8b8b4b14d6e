"""The columns of a training, and reading of new files with the same column types."""

from __future__ import annotations

import re
import shlex
from collections.abc import Container, Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maboost.cli.column_checks import (
    DATES,
    NUMBERS,
    TEXT,
    YES_NO,
    Problems,
    check_decimal_sign,
    check_finite,
    first_that_is_no_number,
    kind_of,
    with_numbers,
)
from maboost.cli.console import is_number, shortened
from maboost.cli.dates import base_of, with_parts
from maboost.cli.reading_options import ReadOptions
from maboost.data.files import Source, TableError, read_table
from maboost.data.frames import time_kind

__all__ = ["TrainedColumns", "numbers_as_text"]

_OF_NUMBERS = re.compile(r"-?(0|[1-9]\d*)(\.\d*[1-9])?(e[+-]\d+)?|true|false")


def numbers_as_text(
    path: Source, table: Any, names: Container[str], decimal: str, some_are_codes: bool = False
) -> Any:
    """Return a table in which some columns, if they hold numbers or yes/no, become text: 7 and 7.0 are "7".

    Columns of text come from CSV files, where 7 may be written as 7.0. They stay unchanged
    if they hold other text, such as 007, unless `some_are_codes`: then only those cells stay unchanged.
    Infinite numbers are refused.
    """
    for at, field in enumerate(table.schema):
        if field.name not in names:
            continue
        column, kind = table.column(at), kind_of(field.type)
        if kind in (YES_NO, NUMBERS):
            check_finite(path, field.name, column)
            table = table.set_column(at, field.name, _as_text(column))
        elif _is_cells(field.type):
            plain = _in_plain_digits(column, decimal)
            if some_are_codes or _are_numbers(plain.unique().to_pylist()):
                table = table.set_column(at, field.name, plain)
    return table


def _as_text(column: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_float16(column.type):
        column = column.cast(pa.float32())
    if pa.types.is_floating(column.type):
        column = pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
        values = column.unique()
        # as text 0.1 is the same in any precision; the number of a float32 would be 0.10000000149
        pairs = zip(values.to_pylist(), values.cast(pa.string()).to_pylist(), strict=True)
        texts = [None if v is None else _float_text(v, shortest) for v, shortest in pairs]
    elif pa.types.is_decimal(column.type):
        values = column.unique()
        texts = [None if v is None else _decimal_text(v) for v in values.to_pylist()]
    else:
        return column.cast(pa.string())
    return pa.array(texts, pa.string()).take(pc.index_in(column, values))


def _decimal_text(value: Decimal) -> str:
    text = f"{value:f}"  # all digits: a float has fewer than a decimal may have
    return text.rstrip("0").rstrip(".") if "." in text else text


def _float_text(value: float, shortest: str) -> str:
    """Write a whole number like an integer, any other like pandas in a CSV file."""
    return str(int(value)) if value.is_integer() and abs(value) < 2**63 else repr(float(shortest))


def _is_cells(type: Any) -> bool:
    import pyarrow.types as t

    return bool(t.is_string(type) or t.is_large_string(type))


def _in_plain_digits(column: Any, decimal: str) -> Any:
    """Return text in which numbers, such as 7.0 or 7,5 with a decimal comma, have one spelling."""
    import pyarrow.compute as pc

    whole, sign = r"^\s*(-?(?:0|[1-9]\d*))", re.escape(decimal)
    column = pc.replace_substring_regex(column, rf"{whole}(?:{sign}0+)?\s*$", r"\1")
    return pc.replace_substring_regex(column, rf"{whole}{sign}(\d*[1-9])\s*$", r"\1.\2")


def _are_numbers(values: Iterable[Any]) -> bool:
    """Return whether all values are text of numbers, which codes like 007 are not."""
    return all(v is None or (isinstance(v, str) and _OF_NUMBERS.fullmatch(v)) for v in values)


@dataclass(frozen=True)
class TrainedColumns:
    """The features and labels of a training.

    Attributes
    ----------
    features : list of str
    text : dict
        The features that were text, and their categories. Categories that were not text are in no CSV file.
    dates : set of str
        The features that were dates or times.
    numbers : set of str
        The features that were numbers or yes/no.
    classes : array
    """

    features: list[str]
    text: dict[str, set[Any]]
    dates: set[str]
    numbers: set[str]
    classes: NDArray[Any]

    @classmethod
    def of_model(cls, model: Any) -> TrainedColumns:
        """Return the columns of a fitted model that has column names."""
        names, categories = list(model.feature_names_in_), model._codes.categories
        text = {n: set(c) for n, c in categories.items() if all(isinstance(v, str) for v in c)}
        dates = {n for n in names if time_kind((model._codes.dtypes or {}).get(n, ""))}
        return cls(names, text, dates, set(names) - set(categories) - dates, model.classes_)

    @classmethod
    def of_rows(cls, X: Any, y: NDArray[Any]) -> TrainedColumns:
        """Return the columns of a table for training."""
        names = [field.name for field in X.schema if kind_of(field.type) == TEXT]
        text = {name: set(X.column(name).unique().to_pylist()) - {None} for name in names}
        dates = {field.name for field in X.schema if kind_of(field.type) == DATES}
        numbers = set(X.column_names) - set(names) - dates
        return cls(X.column_names, text, dates, numbers, np.unique(y))

    def read(
        self,
        path: Source,
        options: ReadOptions,
        target: str | None = None,
        text: Container[str] = (),
    ) -> Any:
        """Return a file with these features, and with labels in `target` or in any other column.

        Other columns named in `text` are read as text. Parts of dates are taken from the column of dates.
        """
        labels_are_text = all(isinstance(label, str) for label in self.classes.tolist())
        features = set(self.features)
        bases = {base_of(name) for name in features}

        def is_text(name: str) -> bool:
            if name in features:
                return name in self.text
            if name in text or (labels_are_text and target == name):
                return True
            return labels_are_text and target is None and name not in bases

        decimal = options.decimal
        table = read_table(path, decimal, is_text, options.separator)
        table = with_numbers(path, table, options.numeric, decimal)
        table = with_parts(table, self.features)
        present = set(table.column_names)
        problems = Problems()
        missing = [name for name in self.features if name not in present]
        if missing:
            columns, are = ("column", "is") if len(missing) == 1 else ("columns", "are")
            problems.found.append(
                f"{path}: {columns} {shortened([repr(name) for name in missing])} {are} missing, which the "
                "training had"
            )
        of_numbers = {name for name in self.text if _are_numbers(self.text[name])}
        table = numbers_as_text(path, table, of_numbers, decimal, some_are_codes=True)
        for name in self.features:
            if name in present:
                with problems.collected():
                    self._check(path, name, table.column(name), decimal)
        problems.check()
        return table

    def _check(self, path: Source, name: str, column: Any, decimal: str) -> None:
        """Refuse a column of another kind than in the training."""
        if column.null_count == len(column):
            return
        check_finite(path, name, column)
        kind = kind_of(column.type)
        if name in self.numbers and kind not in (YES_NO, NUMBERS):
            if kind == TEXT:
                check_decimal_sign(path, name, column, decimal)
            strange = first_that_is_no_number(column, decimal) if kind == TEXT else None
            if strange is None:
                raise TableError(
                    f"{path}: column {name!r} holds {column.type}, where it was numbers in the training"
                )
            row, cell, count = strange
            sign = "" if decimal == "." else f" with --decimal {decimal}"
            raise TableError(
                f"{path}: column {name!r} holds {cell!r}, which is not a number{sign}, but was in the training "
                f"(row {row}, counted from 0; {count} such cells in all): correct it, leave the cell empty, or say "
                f"--numeric {shlex.quote(name)} to read such cells as missing"
            )
        if name in self.dates and kind != DATES:
            raise TableError(
                f"{path}: column {name!r} holds {_first_that_is_no_date(column)}, where it was dates or times in "
                "the training"
            )
        if name in self.text and kind != TEXT:
            raise TableError(
                f"{path}: column {name!r} holds {column.type}, where it was text in the training"
            )

    def labels(self, path: Source, name: str, column: Any) -> NDArray[Any]:
        """Return a column of true labels as classes."""
        if column.null_count:
            raise TableError(
                f"{path}: the labels in {name!r} are missing in {column.null_count} of {len(column)} "
                "rows: leave those rows out"
            )
        known = {label: label for label in self.classes.tolist()}
        values = column.to_pylist()
        strange = {value for value in values if value not in known}
        if strange:
            shown = {v for v in strange if not self._looks_known(v)} or strange
            raise TableError(
                f"{path}: {name!r} has labels that were not in the training: "
                f"{shortened(sorted(map(str, shown)), 5)}"
            )
        return np.array([known[value] for value in values], dtype=self.classes.dtype)

    def may_be_labels(self, column: Any) -> bool:
        """Return whether some of the values are classes, or all are missing."""
        known = set(self.classes.tolist())
        values = [value for value in column.unique().to_pylist() if value is not None]
        return not values or any(v in known or self._looks_known(v) for v in values)

    def _looks_known(self, value: Any) -> bool:
        """Return whether text reads like one of the classes; other text has made its column text."""
        return isinstance(value, str) and is_number(value) and float(value) in self.classes.tolist()


def _first_that_is_no_date(column: Any) -> str:
    """Return the first cell of a column of text that is neither a date nor a time; the type of any other column."""
    import pyarrow as pa

    for value in column.unique().drop_null().to_pylist() if kind_of(column.type) == TEXT else []:
        try:
            pa.array([str(value)]).cast(pa.timestamp("ns"))
        except pa.ArrowException:
            return repr(value)
    return str(column.type)
