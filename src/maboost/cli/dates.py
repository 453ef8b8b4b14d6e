"""Dates and times as columns of their parts: year, month, weekday and hour.

A column `when` becomes `when.year` and so on. A model has these names, so that it finds the column of dates in a new
file without any other record.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

from maboost.cli.column_checks import DATES, kind_of
from maboost.data.files import TableError

__all__ = ["base_of", "with_all_parts", "with_parts"]

PARTS = ("year", "month", "weekday", "hour")


def base_of(name: str) -> str | None:
    """Return the column whose part has this name; None if it is not the name of a part.

    >>> base_of("when.year"), base_of("when"), base_of("when.size")
    ('when', None, None)
    """
    base, _, part = name.rpartition(".")
    return base if base and part in PARTS else None


def with_all_parts(table: Any, left_out: Container[str]) -> Any:
    """Return a table with the parts of dates and times instead of them, except for the columns left out.

    Durations have no parts and stay.
    """
    for name in table.column_names:
        column = table.column(name)
        parts = [] if name in left_out else _parts_of(column.type)
        if not parts:
            continue
        place = table.column_names.index(name)
        table = table.remove_column(place)
        for part in reversed(parts):
            made = f"{name}.{part}"
            if made in table.column_names:
                raise TableError(
                    f"column {made!r} is there besides {name!r}, whose part --dates parts would call the same: "
                    "give one of them another name"
                )
            table = table.add_column(place, made, _part(column, part))
    return table


def with_parts(table: Any, names: Iterable[str]) -> Any:
    """Return a table with those of the named parts that it lacks and has a column of dates for."""
    for name in names:
        base = base_of(name)
        if name in table.column_names or base not in table.column_names:
            continue
        column = table.column(base)
        if kind_of(column.type) == DATES or column.null_count == len(column):
            table = table.append_column(name, _part(column, name.rpartition(".")[2]))
    return table


def _parts_of(type: Any) -> tuple[str, ...]:
    import pyarrow.types as t

    if t.is_timestamp(type):
        return PARTS
    if t.is_date(type):
        return PARTS[:3]
    return PARTS[3:] if t.is_time(type) else ()


def _part(column: Any, part: str) -> Any:
    """Return a part of dates or times; Monday is weekday 0."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if column.null_count == len(column):
        return pa.nulls(len(column), pa.int64())
    if pa.types.is_date(column.type):
        column = column.cast(pa.timestamp("ms"))
    return {"year": pc.year, "month": pc.month, "weekday": pc.day_of_week, "hour": pc.hour}[part](
        column
    )
