"""Whole numbers that a float holds exactly."""

from __future__ import annotations

from typing import Any

__all__ = ["EXACT", "is_beyond", "is_wide"]

EXACT = 2**53  # up to here, in magnitude, every whole number is a float


def is_wide(type: Any) -> bool:
    """Whether an Arrow type holds whole numbers of which some are no floats."""
    import pyarrow.types as t

    return bool(t.is_integer(type)) and type.bit_width > 32


def is_beyond(low: int | None, high: int | None) -> bool:
    """Whether values between these, None for no value, are beyond the exact ones."""
    return low is not None and high is not None and (low < -EXACT or high > EXACT)
