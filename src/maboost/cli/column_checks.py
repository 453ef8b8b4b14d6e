"""Checks of the columns of a table: their kinds, cells that are no numbers, identifiers.

A problem is collected instead of raised at once, so that one message names the problems of all columns.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from maboost.cli.console import check_columns, print_lines
from maboost.data.files import Source, TableError

__all__ = [
    "DATES",
    "NUMBERS",
    "TEXT",
    "YES_NO",
    "Problems",
    "check_column",
    "check_decimal_sign",
    "check_finite",
    "first_that_is_no_number",
    "identifiers",
    "kind_of",
    "with_numbers",
]

YES_NO, NUMBERS, TEXT, DATES = "yes/no", "numbers", "categories", "dates"

_STRAY = 0.1  # the largest share of cells that are no numbers in a column that was meant as numbers
_LEAST = 50  # rows from which a different value in every row is unlikely by chance
_INDEX = re.compile(r"(Unnamed: \d+(\.\d+)?)?")  # the names that pandas gives to an unnamed index


class Problems:
    """Problems of the columns of a table, raised together."""

    def __init__(self) -> None:
        self.found: list[str] = []

    @contextmanager
    def collected(self) -> Iterator[None]:
        """Collect an error instead of raising it."""
        try:
            yield
        except TableError as error:
            self.found.extend(error.problems)

    def check(self) -> None:
        """Raise the collected errors, if there are any."""
        if self.found:
            raise TableError(*self.found)


def kind_of(type: Any) -> str:
    """Return the kind of an Arrow type for a model, in a word; the type itself if models do not support it."""
    import pyarrow.types as t

    if t.is_boolean(type):
        return YES_NO
    if t.is_integer(type) or t.is_floating(type) or t.is_decimal(type):
        return NUMBERS
    if _is_text(type) or t.is_dictionary(type):
        return TEXT
    if t.is_temporal(type) and not t.is_interval(type):
        return DATES
    return str(type)


def _is_text(type: Any) -> bool:
    import pyarrow.types as t

    return bool(t.is_string(type) or t.is_large_string(type) or t.is_string_view(type))


def check_column(
    path: Source, name: str, column: Any, decimal: str, categorical: bool = False
) -> None:
    """Refuse a feature that no model supports, or that is text only because of some of its cells.

    Any text is accepted in a column that is `categorical` by the user's word.
    """
    if kind_of(column.type) not in (YES_NO, NUMBERS, TEXT, DATES):
        raise TableError(
            f"column {name!r} holds {column.type}, which is neither a number, a date nor text: turn it into "
            f"one of them, or leave it out by --drop {shlex.quote(name)}"
        )
    check_finite(path, name, column)
    if _is_text(column.type) and not categorical:
        _check_cells(path, name, column, decimal)


def check_finite(path: Source, name: str, column: Any) -> None:
    """Refuse a column with infinite numbers, which no model supports."""
    import pyarrow.compute as pc
    import pyarrow.types as t

    if t.is_floating(column.type) and (count := pc.sum(pc.is_inf(column)).as_py()):
        raise TableError(
            f"{path}: column {name!r} is infinite in {count} of {len(column)} rows: give numbers there, "
            "or leave the cells empty"
        )


def _check_cells(path: Source, name: str, column: Any, decimal: str) -> None:
    """Refuse text that is nearly all numbers, which would silently become categories."""
    check_decimal_sign(path, name, column, decimal)
    there, numbers = _counts(column, _number(decimal))
    strange = first_that_is_no_number(column, decimal)
    if strange is None or not _nearly_all(numbers, there):
        return
    row, cell, count = strange
    more = f" and {count - 1} other cells that are no numbers" if count > 1 else ""
    option = shlex.quote(name)
    raise TableError(
        f"{path}: column {name!r} holds {cell!r} in row {row} (counted from 0){more}, and {numbers} numbers: say "
        f"--numeric {option} to read such cells as missing, or --categorical {option} to read all of them as "
        "categories"
    )


def check_decimal_sign(path: Source, name: str, column: Any, decimal: str) -> None:
    """Refuse text that is nearly all numbers with another decimal sign, or with signs between thousands."""
    import pyarrow.compute as pc

    other = "," if decimal == "." else "."
    there, signed = _counts(column, _with_sign(other, decimal))
    _, numbers = _counts(column, _number(decimal))
    if signed and _nearly_all(numbers + signed, there):
        texts = _texts(column).drop_null()
        first = texts.filter(pc.match_substring_regex(texts, _with_sign(other, decimal)))[0]
        raise TableError(
            f"{path}: column {name!r} holds numbers with {'commas' if other == ',' else 'points'} "
            f"({first.as_py()!r}): say --decimal {other} if that is their decimal sign, and leave out those between "
            f"thousands; if they are categories, say --categorical {shlex.quote(name)}"
        )


def _nearly_all(some: int, count: int) -> bool:
    return some >= (1.0 - _STRAY) * count


def _texts(column: Any) -> Any:
    import pyarrow as pa

    return column.cast(pa.large_string())


def _counts(column: Any, pattern: str) -> tuple[int, int]:
    """Return the number of cells that are not missing, and of those that match a pattern."""
    import pyarrow.compute as pc

    matching = pc.sum(pc.match_substring_regex(_texts(column), pattern)).as_py()
    return len(column) - column.null_count, matching or 0


def first_that_is_no_number(column: Any, decimal: str) -> tuple[int, str, int] | None:
    """Return the row and the text of the first cell that is not a number, and the number of such cells, if any."""
    import pyarrow.compute as pc

    texts = _texts(column)
    strange = pc.invert(pc.match_substring_regex(texts, _number(decimal)))
    row = pc.index(strange, True).as_py()
    return None if row < 0 else (row, texts[row].as_py(), pc.sum(strange).as_py())


def _number(decimal: str) -> str:
    """Return a pattern of the cells of a CSV file that are read as numbers."""
    sign = re.escape(decimal)
    return rf"^\s*[-+]?(\d+({sign}\d*)?|{sign}\d+)([eE][-+]?\d+)?\s*$"


def _with_sign(sign: str, decimal: str) -> str:
    """Return a pattern of numbers with another decimal sign, or with that sign between thousands."""
    sign, decimal = re.escape(sign), re.escape(decimal)
    return rf"^\s*[-+]?\d+(({sign}\d{{3}})+({decimal}\d+)?|{sign}\d+)\s*$"


def with_numbers(path: Source, table: Any, names: Sequence[str], decimal: str) -> Any:
    """Return a table in which some columns of text are numbers, and print how many of their cells are none.

    Those cells are missing values.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    check_columns(names, table.column_names)
    for name in dict.fromkeys(names):
        column = table.column(name)
        if kind_of(column.type) != TEXT:
            continue
        texts = _texts(column)
        plain = pc.match_substring_regex(texts, _number(decimal))
        if (strange := first_that_is_no_number(column, decimal)) is not None:
            row, cell, count = strange
            print_lines(
                f"maboost: {path}: column {name!r}: {count} of {len(column)} cells are no numbers and are read "
                f"as missing, the first {cell!r} in row {row} (counted from 0)",
                err=True,
            )
        digits = pc.replace_substring(pc.utf8_trim_whitespace(texts), decimal, ".")
        digits = pc.utf8_ltrim(digits, "+")
        numbers = pc.if_else(plain, digits, pa.scalar(None, pa.large_string())).cast(pa.float64())
        table = table.set_column(table.column_names.index(name), name, numbers)
    return table


def identifiers(table: Any, names: Sequence[str]) -> dict[str, str]:
    """Return the columns among `names` that tell rows apart instead of describing them, and why.

    These are columns of text or whole numbers with a different value in every row, and an index without a name
    that pandas wrote into the file.
    """
    import pyarrow.types as t

    found = {}
    for name in names:
        column = table.column(name)
        if not (t.is_integer(column.type) or kind_of(column.type) == TEXT):
            continue
        if _INDEX.fullmatch(name):
            found[name] = "the index of a data frame, without a name"
        elif _all_different(column):
            found[name] = f"a different value in each of {len(column) - column.null_count} rows"
    return found


def _all_different(column: Any) -> bool:
    import pyarrow.compute as pc

    def different(values: Any) -> bool:
        return bool(pc.count_distinct(values).as_py() == len(values) - values.null_count)

    # most columns repeat a value in the first rows already
    there = len(column) - column.null_count
    return there >= _LEAST and different(column.slice(0, 1000)) and different(column)
