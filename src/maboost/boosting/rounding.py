"""Rounding of bounds to a few digits in the direction in which they stay bounds."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

__all__ = ["at_least", "at_most", "rounded"]

_DIGITS = 4


def at_most(value: float) -> str:
    """Return an upper bound as text, rounded up.

    >>> at_most(0.123411), at_most(0.25), at_most(float("inf"))
    ('0.1235', '0.25', 'inf')
    """
    return f"{rounded(value, _DIGITS, ROUND_CEILING):g}"


def at_least(value: float) -> str:
    """Return a lower bound as text, rounded down.

    >>> at_least(0.12349), at_least(-0.12341), at_least(float("-inf"))
    ('0.1234', '-0.1235', '-inf')
    """
    return f"{rounded(value, _DIGITS, ROUND_FLOOR):g}"


def rounded(value: float, digits: int, rounding: str) -> float:
    """Return a value rounded to `digits` digits, after the rounding noise in its last bits is removed."""
    if not math.isfinite(value):
        return value
    exact = Decimal(f"{value:.12g}")
    if not exact:
        return 0.0
    unit = Decimal(1).scaleb(exact.adjusted() + 1 - digits)
    return float(exact.quantize(unit, rounding=rounding))
