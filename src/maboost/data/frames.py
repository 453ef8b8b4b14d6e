"""Data frames of any library that narwhals supports, column by column."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
import sklearn
from numpy.typing import NDArray
from sklearn.utils.fixes import parse_version
from sklearn.utils.validation import validate_data

if TYPE_CHECKING:
    from narwhals import DataFrame, Series

__all__ = [
    "as_floats",
    "as_frame",
    "as_table",
    "checked_data",
    "columns_of",
    "declared_order",
    "distinct_texts",
    "dtype_name",
    "float_series",
    "float_values",
    "frame_columns",
    "is_category",
    "pandas_index",
    "time_kind",
]

Array = NDArray[np.float64]

_TIMES = {"Date": "moment", "Datetime": "moment", "Duration": "duration", "Time": "time of day"}

# scikit-learn before 1.9 reads column names by the interchange protocol, which polars 2 has dropped
_READS_ALL_FRAMES = parse_version(sklearn.__version__) >= parse_version("1.9")


def as_frame(X: Any) -> DataFrame[Any] | None:
    """Return `X` as a narwhals data frame; None if it is not a data frame."""
    if isinstance(X, np.ndarray | list | tuple) or sp.issparse(X):
        return None
    import narwhals.stable.v2 as nw  # imported only if X may be a frame, since it is slow

    frame = nw.from_native(X, pass_through=True)
    if isinstance(frame, nw.LazyFrame):
        raise ValueError("X is a lazy frame, which has no rows yet: collect it first")
    if not isinstance(frame, nw.DataFrame):
        return None
    if not (_READS_ALL_FRAMES or frame.implementation.is_pandas() or hasattr(X, "__dataframe__")):
        raise ValueError(
            f"X is a frame of {frame.implementation.value}, whose columns scikit-learn {sklearn.__version__} "
            "cannot name: update scikit-learn to 1.9 or newer, or give X as a frame of pandas"
        )
    return frame


def as_table(X: Any) -> Any:
    """Return a pyarrow table for a record batch; anything else unchanged."""
    if type(X).__name__ != "RecordBatch" or not type(X).__module__.startswith("pyarrow"):
        return X
    import pyarrow as pa

    return pa.Table.from_batches([X])


def columns_of(frame: DataFrame[Any]) -> list[Series[Any]]:
    """Return the columns; Arrow columns in a form that all of its functions support."""
    return [_plain(column) for column in frame.iter_columns()]


def _plain(column: Series[Any]) -> Series[Any]:
    """Return Arrow's string views and dates as plain ones, and a null category as a missing value."""
    import narwhals.stable.v2 as nw

    native = column.to_native()
    kind = str(getattr(native, "type", None))
    if kind == "string_view":
        return column.cast(nw.String())
    if kind == "date64[ms]":  # a type that narwhals does not know
        days: Series[Any] = nw.from_native(native.cast("date32"), series_only=True)
        return days
    if kind.startswith("dictionary<") and any(c.dictionary.null_count for c in native.chunks):
        coded: Series[Any] = nw.from_native(_without_null_categories(native), series_only=True)
        return coded
    return column


def _without_null_categories(column: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    nothing = pa.scalar(None, column.type.index_type)
    parts = []
    for part in column.chunks:
        codes = pc.if_else(pc.is_null(part.dictionary_decode()), nothing, part.indices)
        parts.append(
            pa.DictionaryArray.from_arrays(codes, part.dictionary, ordered=part.type.ordered)
        )
    return pa.chunked_array(parts, column.type)


def float_series(name: Any, values: Array, frame: DataFrame[Any]) -> Series[Any]:
    """Return a column of floats for a frame."""
    import narwhals.stable.v2 as nw

    return nw.new_series(name, values, nw.Float64(), backend=frame.implementation)


def dtype_name(column: Series[Any]) -> str:
    """Return the name of a dtype, the same for all libraries if narwhals knows the dtype."""
    name = type(column.dtype).__name__
    if name not in ("Object", "Unknown"):
        return name
    native = column.to_native()
    return str(native.dtype if hasattr(native, "dtype") else native.type)


def is_category(column: Series[Any]) -> bool:
    """Return whether a column holds text or categories."""
    import narwhals.stable.v2 as nw

    return isinstance(column.dtype, nw.String | nw.Categorical | nw.Enum)


def time_kind(dtype: str) -> str | None:
    """Return the kind of dates and times that a dtype holds, given by its name; None if it holds none.

    >>> time_kind("Date"), time_kind("Datetime"), time_kind("Duration"), time_kind("Int64")
    ('moment', 'moment', 'duration', None)
    """
    return _TIMES.get(dtype)


def distinct_texts(name: Any, column: Series[Any]) -> list[Any]:
    """Return the distinct values of a column of text or categories."""
    import narwhals.stable.v2 as nw

    values = column.drop_nulls().unique().to_list()
    if isinstance(column.dtype, nw.String):
        for value in values:
            if not isinstance(value, str):
                raise ValueError(
                    f"column {name!r} holds {value!r} besides text or missing values: make it all text "
                    "or all numbers"
                )
    return values


def declared_order(column: Series[Any]) -> list[Any] | None:
    """Return the order of the categories of an ordered dtype, which narwhals does not give for Arrow."""
    import narwhals.stable.v2 as nw

    if isinstance(column.dtype, nw.Enum):
        return list(column.dtype.categories)
    native = column.to_native()
    if not getattr(getattr(native, "type", None), "ordered", False):
        return None
    parts = native.unify_dictionaries().chunks
    return parts[0].dictionary.to_pylist() if parts else []


def pandas_index(X: Any) -> Any:
    """Return the index of a pandas frame; None for anything else."""
    index = getattr(X, "index", None)
    return index if type(X).__module__.startswith("pandas") else None


def float_values(column: Series[Any]) -> Array:
    """Return a column of numbers or booleans as floats, with NaN for missing values.

    Integers that are not floats are rounded, as in numpy; Arrow's own cast raises an error.
    """
    import narwhals.stable.v2 as nw

    rounded = column.dtype.is_integer() and not isinstance(column.dtype, nw.Int128 | nw.UInt128)
    values = column if rounded else column.cast(nw.Float64())
    return np.asarray(values.to_numpy(), dtype=np.float64)


def _seconds(column: Series[Any]) -> Array:
    """Return dates and times in seconds: since 1970, of a duration, or since midnight; NaN for missing values.

    Moments without a time zone are read as UTC.
    """
    import narwhals.stable.v2 as nw

    if isinstance(column.dtype, nw.Time):  # not every library has arithmetic for this dtype
        return np.array([_since_midnight(value) for value in column.to_list()], dtype=np.float64)
    if isinstance(column.dtype, nw.Duration):
        count = column.dt.total_microseconds()
    else:
        count = column.dt.timestamp("us")
    return np.asarray(count.cast(nw.Float64()).to_numpy(), dtype=np.float64) / 1e6


def _since_midnight(time: Any) -> float:
    if not isinstance(time, datetime.time):  # missing
        return np.nan
    return 3600.0 * time.hour + 60.0 * time.minute + time.second + time.microsecond / 1e6


def as_floats(name: Any, column: Series[Any]) -> Array | None:
    """Return a column of numbers, dates or times as floats; None if scikit-learn can read it unchanged."""
    import narwhals.stable.v2 as nw

    dtype = column.dtype
    if time_kind(dtype_name(column)) is not None:
        return _seconds(column)
    if isinstance(dtype, nw.Boolean) or dtype.is_numeric():
        wide = dtype.is_decimal() or isinstance(dtype, nw.Int128 | nw.UInt128)
        if dtype.is_float() or not (wide or column.null_count()):
            return None
        return float_values(column)
    if isinstance(dtype, nw.Object | nw.Unknown):
        values = column.to_numpy()
        if values.dtype.kind in "biuf":
            return None
        if values.dtype.kind == "O":
            try:
                return values.astype(np.float64)
            except (TypeError, ValueError):
                pass
    raise ValueError(
        f"column {name!r} has dtype {dtype_name(column)}, which is neither a number, a boolean, a date, text "
        "nor a category: turn it into one of them (objects that are dates by pandas.to_datetime, for "
        "example) or drop it"
    )


def frame_columns(X: Any) -> list[tuple[Any, Series[Any]]]:
    """Return the names and columns of a data frame; an empty list for anything else."""
    frame = as_frame(as_table(X))
    return [] if frame is None else list(zip(frame.columns, columns_of(frame), strict=True))


def checked_data(model: Any, X: Any, *y: Any, **options: Any) -> Any:
    """Call scikit-learn's `validate_data`, without warnings when huge values of both signs sum to NaN."""
    with np.errstate(invalid="ignore"):
        return validate_data(model, X, *y, **options)
