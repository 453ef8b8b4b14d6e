"""Values of table rows as numbers, to split a table by the content of its rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from maboost.cli.column_checks import DATES, TEXT, kind_of
from maboost.data.frames import as_floats, frame_columns

__all__ = ["as_numbers"]


def as_numbers(table: Any) -> np.ndarray[Any, Any]:
    """Return columns as numbers that are equal if the values are; texts become their ranks in sorted order."""
    columns = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        if kind_of(column.type) == DATES:
            ((_, times),) = frame_columns(table.select([name]))
            columns.append(np.asarray(as_floats(name, times)))
        elif kind_of(column.type) == TEXT:
            texts = column.to_pylist()
            places = {
                text: i for i, text in enumerate(sorted(t for t in {*texts} if t is not None))
            }
            columns.append(np.array([places.get(text, -1) for text in texts], dtype=float))
        else:
            if pa.types.is_boolean(column.type):
                column = column.cast(pa.int8())
            columns.append(column.cast(pa.float64(), safe=False).to_numpy())
    return np.column_stack(columns)
