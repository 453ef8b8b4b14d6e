"""How kernels read what may be one number or one an entry, coded or not.

Each reader is chosen while a kernel is compiled, so that its loop has no case to tell apart.
"""

from __future__ import annotations

import numpy as np
from numba import types
from numba.extending import overload

__all__ = ["entry_at", "some_entries", "value_at", "value_part"]


def value_at(values, i):
    """The cap or the measure of entry i, whether `values` is one number or one an entry."""
    return values if np.ndim(values) == 0 else values[i]


@overload(value_at, inline="always")
def _value_at(values, i):
    if isinstance(values, types.Float):
        return lambda values, i: values
    return lambda values, i: values[i]


def value_part(values, start, stop):
    """Those of some entries."""
    return values if np.ndim(values) == 0 else values[start:stop]


@overload(value_part, inline="always")
def _value_part(values, start, stop):
    if isinstance(values, types.Float):
        return lambda values, start, stop: values
    return lambda values, start, stop: values[start:stop]


def entry_at(values, codes, i):
    """Entry i of a direction, whether it is coded or not (then `codes` is None)."""
    return values[i] if codes is None else values[codes[i]]


@overload(entry_at, inline="always")
def _entry_at(values, codes, i):
    if isinstance(codes, types.NoneType):
        return lambda values, codes, i: values[i]
    return lambda values, codes, i: values[codes[i]]


def some_entries(values, codes, start, stop):
    """Part of a direction that is coded or not: what :func:`entry_at` needs for it."""
    return (values[start:stop], None) if codes is None else (values, codes[start:stop])


@overload(some_entries, inline="always")
def _some_entries(values, codes, start, stop):
    if isinstance(codes, types.NoneType):
        return lambda values, codes, start, stop: (values[start:stop], None)
    return lambda values, codes, start, stop: (values, codes[start:stop])
