"""Warnings of integers beyond 2**53: trees compare floats, in which neighbouring integers of that size are equal."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from maboost.data.frames import frame_columns
from maboost.runtime.communicator import Communicator, SerialCommunicator
from maboost.runtime.parameter_errors import Advice, ParameterWarning

__all__ = [
    "EXACT",
    "is_beyond",
    "is_wide",
    "large_columns",
    "warn_of_columns",
    "warn_of_large_integers",
]

_SHOWN = 5
EXACT = 2**53  # every integer up to this magnitude is a float


def is_wide(type: Any) -> bool:
    """Return whether an Arrow type holds integers that are not floats."""
    import pyarrow.types as t

    return bool(t.is_integer(type)) and type.bit_width > 32


def is_beyond(low: int | None, high: int | None) -> bool:
    """Return whether values between these limits (None: no value) may exceed 2**53."""
    return low is not None and high is not None and (low < -EXACT or high > EXACT)


def large_columns(X: Any) -> list[Any]:
    """Return the columns, by name or position, that hold integers beyond 2**53.

    Only integer dtypes of 64 bits and more are checked, since the values of others are exact as floats.
    """
    if sp.issparse(X):
        if X.dtype.kind not in "iu" or X.dtype.itemsize < 8 or not _is_large(X.data):
            return []
        entries = X.tocoo()
        large = (entries.data < -EXACT) | (entries.data > EXACT)
        columns: list[int] = np.unique(entries.col[large]).tolist()
        return columns
    if isinstance(X, np.ndarray):
        if X.ndim != 2 or X.dtype.kind not in "iu" or X.dtype.itemsize < 8:
            return []
        return [j for j in range(X.shape[1]) if _is_large(X[:, j])]
    found = []
    for name, column in frame_columns(X):
        wide = str(column.dtype) in ("Int64", "UInt64", "Int128", "UInt128")
        some = wide and column.null_count() < len(column)
        if some and is_beyond(column.min(), column.max()):
            found.append(name)
    return found


def _is_large(values: NDArray[Any]) -> bool:
    return bool(len(values)) and is_beyond(int(values.min()), int(values.max()))


def warn_of_large_integers(X: Any, names: list[Any], comm: Communicator | None = None) -> None:
    """Warn of the columns of any shard that :func:`large_columns` finds; `names` are the names of all columns."""
    comm = comm or SerialCommunicator()
    found = set(large_columns(X))
    if comm.size > 1:
        flags = np.array([name in found for name in names], dtype=np.int64)
        flags = comm.allreduce(flags, "max")
        found = {names[j] for j in np.flatnonzero(flags).tolist()}
    if found:
        warn_of_columns([name for name in names if name in found])


def warn_of_columns(names: list[Any]) -> None:
    """Warn that these columns hold integers beyond 2**53."""
    if not names:
        return
    shown = ", ".join(map(repr, names[:_SHOWN])) + (", ..." if len(names) > _SHOWN else "")
    warning = ParameterWarning(
        f"{'columns' if len(names) > 1 else 'column'} {shown} of X: some whole numbers are beyond 2**53, and "
        "are rounded to floats, so that different ones may become equal. ",
        Advice("large integers", "Turn names such as ids into text, or drop the column"),
        "; subtract an offset from times and other quantities",
    )
    warnings.warn(warning, stacklevel=2)
