"""How kernels read an argument that is one number or one number an entry, and a direction with or without codes.

numba chooses a reader when it compiles a kernel, so the loop has no branch for the case.
"""

from __future__ import annotations

import numpy as np
from numba import types
from numba.extending import overload

__all__ = ["entry_at", "some_entries", "value_at", "value_part"]


def value_at(values, i):
    """Return the cap or the measure of entry i, whether `values` is one number or an array."""
    return values if np.ndim(values) == 0 else values[i]


@overload(value_at, inline="always")
def _value_at(values, i):
    if isinstance(values, types.Float):
        return lambda values, i: values
    return lambda values, i: values[i]


def value_part(values, start, stop):
    """Return the values for a range of entries, or the one number for all."""
    return values if np.ndim(values) == 0 else values[start:stop]


@overload(value_part, inline="always")
def _value_part(values, start, stop):
    if isinstance(values, types.Float):
        return lambda values, start, stop: values
    return lambda values, start, stop: values[start:stop]


def entry_at(values, codes, i):
    """Return entry i of a direction; `codes` is None if the direction is an array."""
    return values[i] if codes is None else values[codes[i]]


@overload(entry_at, inline="always")
def _entry_at(values, codes, i):
    if isinstance(codes, types.NoneType):
        return lambda values, codes, i: values[i]
    return lambda values, codes, i: values[codes[i]]


def some_entries(values, codes, start, stop):
    """Return the part of a direction that :func:`entry_at` needs for a range of entries."""
    return (values[start:stop], None) if codes is None else (values, codes[start:stop])


@overload(some_entries, inline="always")
def _some_entries(values, codes, start, stop):
    if isinstance(codes, types.NoneType):
        return lambda values, codes, start, stop: (values[start:stop], None)
    return lambda values, codes, start, stop: (values, codes[start:stop])
