"""Tables in files: CSV and Parquet, read and written whole."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from maboost.writing import whole_file

__all__ = ["TableError", "read_table", "write_table"]

_COMMA_NUMBER = re.compile(r"\s*[-+]?\d+(,\d+)?\s*")
MISSING = ("", "NA", "N/A", "NaN", "nan", "NULL", "null", "None", "#N/A", "?")


class TableError(ValueError):
    """A file that is no readable table; the message is for the user."""


def read_table(path: str | Path, decimal: str = ".") -> Any:
    """A CSV or Parquet file as a pyarrow table.

    Types are inferred from all rows of a CSV file; text like "NA" and empty cells are missing values.
    """
    path = Path(path)
    if not path.exists():
        raise TableError(f"{path}: no such file")
    if path.is_dir():
        raise TableError(f"{path}: is a folder, not a file")
    if path.stat().st_size == 0:
        raise TableError(f"{path}: the file is empty")
    import pyarrow as pa

    try:
        table = (
            _parquet(path) if path.suffix.lower() in (".parquet", ".pq") else _csv(path, decimal)
        )
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        first = str(error).splitlines()[0]
        raise TableError(f"{path}: cannot be read as a table: {first}") from error
    names = table.column_names
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise TableError(f"{path}: several columns are called {twice[0]!r}")
    if table.num_rows == 0:
        raise TableError(f"{path}: has columns but no rows")
    return table


def _parquet(path: Path) -> Any:
    import pyarrow.parquet as pq

    return pq.read_table(path)


def _csv(path: Path, decimal: str) -> Any:
    from pyarrow import csv

    table = csv.read_csv(
        path,
        read_options=csv.ReadOptions(block_size=1 << 26),
        parse_options=csv.ParseOptions(delimiter=_delimiter(path)),
        convert_options=csv.ConvertOptions(
            null_values=list(MISSING), strings_can_be_null=True, decimal_point=decimal
        ),
    )
    for name in table.column_names if decimal == "." else ():
        _check_decimals(path, name, table.column(name))
    return table


def _check_decimals(path: Path, name: str, column: Any) -> None:
    """Numbers like 45,5 would silently become categories."""
    import pyarrow.types as t

    if not t.is_string(column.type):
        return
    some = [v for v in column.slice(0, 1000).to_pylist() if v is not None]
    if some and all(_COMMA_NUMBER.fullmatch(v) for v in some) and any("," in v for v in some):
        raise TableError(
            f"{path}: column {name!r} holds numbers with decimal commas ({some[0]!r}): say --decimal ,"
        )


def _delimiter(path: Path) -> str:
    """The most frequent of comma, semicolon and tab in the first line."""
    with path.open("rb") as file:
        head = file.readline(1 << 16).decode("utf-8", "replace")
    return max(",;\t", key=head.count)


def write_table(columns: dict[str, Any], path: str | Path) -> None:
    """Columns as a CSV or Parquet file, by the suffix; never half-written."""
    import pyarrow as pa

    table, path = pa.table(columns), Path(path)
    try:
        with whole_file(path) as file:
            if path.suffix.lower() in (".parquet", ".pq"):
                import pyarrow.parquet as pq

                pq.write_table(table, file)
            else:
                from pyarrow import csv

                csv.write_csv(table, file)
    except OSError as error:
        raise TableError(f"{path}: cannot be written: {error.strerror or error}") from error
