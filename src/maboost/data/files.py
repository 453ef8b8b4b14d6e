"""Tables in files: reading and writing of CSV and Parquet."""

from __future__ import annotations

import re
import sys
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections import Counter
from collections.abc import Callable, Iterator
from csv import Error as NoRecord
from csv import reader
from functools import cached_property
from itertools import chain, dropwhile
from pathlib import Path
from typing import IO, Any

from maboost.runtime.atomic_files import whole_file

__all__ = [
    "Source",
    "StandardInput",
    "TableError",
    "check_safe_csv",
    "check_suffix",
    "is_parquet",
    "read_as_written",
    "read_table",
    "safe_cells",
    "write_table",
]

_QUOTED = re.compile(r'"[^"]*("|$)')
_LONGEST_LINE = 1 << 22
_BLOCK = 1 << 26
_COMPRESSIONS = {
    ".gz": "gzip",
    ".bz2": "bz2",
    ".lz4": "lz4",
    ".zst": "zstd",
}  # the suffixes that pyarrow knows
_OTHERS = {
    ".arrow", ".feather", ".json", ".jsonl", ".ndjson", ".ods", ".orc", ".xls", ".xlsx", ".zip",
}  # fmt: skip
# the first characters of cells that a spreadsheet runs, full-width forms included; numbers are not run
_FORMULA = re.compile(r"[=@\t\r\n\uff1d\uff0b\uff0d\uff20]|[+-](?![0-9.,]+([eE][+-]?[0-9]+)?\Z)")
MISSING = ("", "NA", "N/A", "NaN", "nan", "NULL", "null", "None", "#N/A", "?")


class TableError(ValueError):
    """A file is not a readable table; the messages are for the user, one for each problem."""

    def __init__(self, *problems: str) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


class StandardInput:
    """The standard input in the place of a file; it is read once and kept, since a table is read twice."""

    name = "standard input"
    suffix = ""

    @cached_property
    def content(self) -> bytes:
        return sys.stdin.buffer.read()

    def __str__(self) -> str:
        return self.name

    def resolve(self) -> StandardInput:
        """Return itself: like a path it is compared with others."""
        return self


Source = Path | StandardInput


def read_table(
    path: Source | str,
    decimal: str = ".",
    text: Callable[[str], bool] = lambda name: False,
    separator: str | None = None,
) -> Any:
    """Return a CSV or Parquet file as a pyarrow table.

    Types are inferred from all rows of a CSV file. Text like "NA" and empty cells are missing values,
    and a column with nothing else is numeric. Compressed CSV files are recognised by their suffix.

    Parameters
    ----------
    path : path-like or StandardInput
    decimal : str, default="."
        The decimal sign in CSV files.
    text : callable, optional
        Whether a column of a CSV file, given by its name, is text regardless of its values.
    separator : str, optional
        The character between the cells of a CSV file; by default the most frequent one of the first line.
    """
    path = Path(path) if isinstance(path, str) else path
    _check_source(path)
    import pyarrow as pa

    try:
        table = _parquet(path) if is_parquet(path) else _csv(path, decimal, text, separator)
    except UnicodeDecodeError as error:
        raise _not_utf8(path) from error
    except (pa.ArrowException, OSError, NoRecord) as error:
        first = str(error).splitlines()[0]
        if "UTF8" in first:
            raise _not_utf8(path) from error
        raise TableError(f"{path}: cannot be read as a table: {first}") from error
    if table.num_rows == 0:
        raise TableError(f"{path}: has columns but no rows")
    return _with_empty_columns_as_numbers(table)


def _check_source(path: Source) -> None:
    """Refuse what is no file, or is a file of another kind."""
    if isinstance(path, StandardInput):
        empty = not path.content
    else:
        if not path.exists():
            raise TableError(f"{path}: no such file")
        if path.is_dir():
            raise TableError(f"{path}: is a folder, not a file")
        if path.is_fifo():
            raise TableError(
                f"{path}: is a pipe, and a table is read twice: save it to a file first, or give it as - from "
                "standard input"
            )
        empty = path.stat().st_size == 0
    if empty:
        raise TableError(f"{path}: the file is empty")
    if path.suffix.lower() in _OTHERS:  # lines of JSON, for example, could be read as CSV
        raise TableError(
            f"{path}: {path.suffix} files are not read; save it as CSV, or as Parquet under a name that "
            "ends in .parquet"
        )


def _opened(path: Source) -> Any:
    """Return what pyarrow reads a table from."""
    import pyarrow as pa

    return pa.BufferReader(path.content) if isinstance(path, StandardInput) else path


def is_parquet(path: Source | str) -> bool:
    """Return whether a file is Parquet, by its name; standard input by its first bytes."""
    if isinstance(path, StandardInput):
        return path.content.startswith(b"PAR1")
    return Path(path).suffix.lower() in (".parquet", ".pq")


def read_as_written(path: Source | str, names: list[str], separator: str | None = None) -> Any:
    """Return columns of a file that :func:`read_table` has read, without interpreting their values.

    Columns of a CSV file are text; an empty cell is a missing value, but "NA" and "007" are text.
    """
    import pyarrow as pa
    from pyarrow import csv

    path = Path(path) if isinstance(path, str) else path
    if is_parquet(path):
        return _parquet(path).select(names)
    convert = csv.ConvertOptions(
        include_columns=names,
        column_types={name: pa.string() for name in names},
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    return _cells(path, separator or _delimiter(_first_lines(path)[0]), convert)


def _not_utf8(path: Source) -> TableError:
    import pyarrow as pa

    with pa.input_stream(_opened(path), compression=None) as file:
        encoding = "UTF-16" if file.read(2) in (BOM_UTF16_LE, BOM_UTF16_BE) else "LATIN1"
    return TableError(
        f"{path}: is not UTF-8 text; save it as UTF-8 ('CSV UTF-8' in a spreadsheet, or "
        f"iconv -f {encoding} -t UTF-8)"
    )


def _with_empty_columns_as_numbers(table: Any) -> Any:
    import pyarrow as pa

    for at, field in enumerate(table.schema):
        if pa.types.is_null(field.type):
            column = table.column(at).cast(pa.float64())
            table = table.set_column(at, field.name, column)
    return table


def _check_names(path: Source, names: list[str]) -> None:
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise TableError(
            f"{path}: several columns are called {', '.join(map(repr, twice))}: the first line must give each a "
            "name of its own"
        )


def _parquet(path: Source) -> Any:
    import pyarrow.parquet as pq

    table = pq.read_table(_opened(path))
    _check_names(path, table.column_names)
    return table


def _csv(path: Source, decimal: str, text: Callable[[str], bool], separator: str | None) -> Any:
    import pyarrow as pa
    from pyarrow import csv

    head, rest = _first_lines(path)
    delimiter = separator or _delimiter(head)
    names = next(reader(chain([head], rest), delimiter=delimiter), [])
    _check_names(path, names)
    fixed = {name: pa.string() for name in names if text(name)}
    convert = csv.ConvertOptions(
        null_values=list(MISSING),
        strings_can_be_null=True,
        decimal_point=decimal,
        column_types=fixed,
    )
    table = _cells(path, delimiter, convert)
    if any(pa.types.is_binary(kind) for kind in table.schema.types):
        raise _not_utf8(path)  # the type that text gets if it is not UTF-8
    return table


def _cells(path: Source, delimiter: str, convert: Any) -> Any:
    from pyarrow import csv

    return csv.read_csv(
        _opened(path),
        read_options=csv.ReadOptions(block_size=_BLOCK),
        # a cell may span several lines, and the end of a block
        parse_options=csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        convert_options=convert,
    )


def _first_lines(path: Source) -> tuple[str, Iterator[str]]:
    """Return the line of column names, even of a compressed file, and the lines after it: a name may span lines."""
    import pyarrow as pa

    with pa.input_stream(_opened(path)) as file:
        text = file.read(_LONGEST_LINE)
    if b"\0" in text and text[:2] not in (BOM_UTF16_LE, BOM_UTF16_BE):
        raise TableError(
            f"{path}: is no text, and so no CSV file: save it as CSV, or as Parquet under a name that ends "
            "in .parquet"
        )
    lines = text.splitlines(keepends=True)
    rows = dropwhile(lambda line: not line.strip(), lines)
    return next(rows, b"").decode("utf-8-sig"), (line.decode() for line in rows)


def _delimiter(head: str) -> str:
    """Return the most frequent of comma, semicolon, tab and bar outside quotes."""
    return max(",;\t|", key=_QUOTED.sub("", head).count)


def check_suffix(path: str | Path) -> None:
    """Refuse an output name whose suffix is a format that cannot be written."""
    suffix = Path(path).suffix
    if suffix.lower() in _OTHERS:
        raise TableError(
            f"{path}: {suffix} files are not written; give a name that ends in .csv or .parquet"
        )


def check_safe_csv(option: str, path: str | Path) -> None:
    """Refuse `--safe-csv` for a table that is not a CSV file."""
    if is_parquet(path):
        raise TableError(
            f"--safe-csv is for CSV files, and {option} {path} is Parquet: leave out --safe-csv, or give a "
            "name that ends in .csv"
        )


def write_table(columns: dict[str, Any], path: str | Path, safe_csv: bool = False) -> None:
    """Write columns as a CSV (compressed or not) or Parquet file, by the suffix; the file appears complete or not at all.

    With `safe_csv` the cells of a CSV file are escaped by :func:`safe_cells`.
    """
    import pyarrow as pa

    table, path = pa.table(columns), Path(path)
    check_suffix(path)
    if safe_csv and not is_parquet(path):
        table = safe_cells(table)
    try:
        with whole_file(path) as file:
            if is_parquet(path):
                import pyarrow.parquet as pq

                pq.write_table(table, file)
            else:
                _write_csv(table, file, path)
    except OSError as error:
        raise TableError(f"{path}: cannot be written: {error.strerror or error}") from error


def safe_cells(table: Any) -> Any:
    """Return a table in which names and text that a spreadsheet would run as a formula begin with '.

    These are texts that begin with =, +, -, @, a tab or a line end, and are not numbers.
    """
    import pyarrow as pa
    import pyarrow.types as t

    def safe(text: str | None) -> str | None:
        return f"'{text}" if text is not None and _FORMULA.match(text) else text

    for at, field in enumerate(table.schema):
        kind = field.type.value_type if t.is_dictionary(field.type) else field.type
        if t.is_string(kind) or t.is_large_string(kind) or t.is_string_view(kind):
            texts = [safe(text) for text in table.column(at).to_pylist()]
            table = table.set_column(at, field.name, pa.array(texts, pa.large_string()))
    return table.rename_columns([safe(name) for name in table.column_names])


def _write_csv(table: Any, file: IO[bytes], path: Path) -> None:
    import pyarrow as pa
    from pyarrow import csv

    compression = _COMPRESSIONS.get(path.suffix)
    options = csv.WriteOptions(delimiter="\t" if ".tsv" in path.suffixes else ",")
    if compression is None:
        csv.write_csv(table, file, options)
        return
    packed = pa.BufferOutputStream()  # a compressed stream closes its sink
    with pa.CompressedOutputStream(packed, compression) as stream:
        csv.write_csv(table, stream, options)
    file.write(packed.getvalue())
