"""Formatting of numbers and values for a reader."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN
from numbers import Integral
from typing import Any

import numpy as np

from maboost.boosting.rounding import rounded
from maboost.data.labels import is_missing

__all__ = [
    "MISSING",
    "at_least",
    "at_most",
    "code",
    "count",
    "listed",
    "number",
    "percent",
    "plain",
    "text",
]

MISSING = "–"  # noqa: RUF001
_LONGEST = 200
_ADDRESS = re.compile(r" at 0x[0-9A-Fa-f]+")
_CONTROL = dict.fromkeys((*range(32), *range(127, 160)), " ")


def number(value: Any, digits: int = 4) -> str:
    """Return a number in a few digits.

    >>> number(1234567), number(0.123456), number(float("nan")), number(float("-inf"))
    ('1,234,567', '0.1235', '–', '−∞')
    """
    if is_missing(value):
        return MISSING
    if isinstance(value, Integral):
        return f"{int(value):,}"
    value = float(value)
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"  # noqa: RUF001
    return f"{value:.{digits}g}"


def percent(share: float) -> str:
    """Return a share in per cent with three digits.

    >>> percent(0.05318), percent(0.0), percent(1.0), percent(1e-9)
    ('5.32%', '0%', '100%', 'under 0.0001%')
    """
    return _percent(share, ROUND_HALF_EVEN, "under ")


def at_most(share: float) -> str:
    """Return an upper bound in per cent, rounded up so that the text is true.

    >>> at_most(0.25), at_most(0.12341), at_most(1e-9)
    ('25%', '12.4%', '0.0001%')
    """
    return _percent(share, ROUND_CEILING, "")


def at_least(share: float) -> str:
    """Return a lower bound in per cent, rounded down so that the text is true.

    >>> at_least(0.25), at_least(0.12349), at_least(1e-9)
    ('25%', '12.3%', '0%')
    """
    return "0%" if share < 1e-6 else _percent(share, ROUND_FLOOR, "")


def _percent(share: float, rounding: str, below: str) -> str:
    if is_missing(share):
        return MISSING
    if 0.0 < share < 1e-6:
        return f"{below}0.0001%"
    return f"{rounded(100.0 * share, 3, rounding):g}%"


def count(n: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun.

    >>> count(1, "row"), count(1200, "row"), count(2, "class", "classes")
    ('1 row', '1,200 rows', '2 classes')
    """
    return f"{n:,} {noun if n == 1 else plural or noun + 's'}"


def text(value: Any, longest: int = _LONGEST) -> str:
    r"""Return a value of a table as short text on one line, without invisible characters.

    >>> text(0.123456789), text("two\nlines"), text(None), text("a" * 9, 5)
    ('0.123457', 'two lines', '–', 'aaaa…')
    """
    if is_missing(value):
        return MISSING
    if isinstance(value, np.generic):
        value = value.item()
    written = f"{value:.6g}" if isinstance(value, float) else str(value)
    return _short(written.translate(_CONTROL), longest)


def code(value: Any, longest: int = 400) -> str:
    """Return a parameter as Python code, without memory addresses, which differ in every run.

    >>> code("auto"), code(len)
    ("'auto'", '<built-in function len>')
    """
    return _short(_ADDRESS.sub("", repr(plain(value))).translate(_CONTROL), longest)


def plain(value: Any) -> Any:
    """Return a numpy number as a Python number."""
    return value.item() if isinstance(value, np.generic) else value


def _short(written: str, longest: int) -> str:
    written = re.sub(r"\s+", " ", written)
    return written if len(written) <= longest else written[: longest - 1] + "…"


def listed(values: Sequence[Any], most: int = 5) -> str:
    """Return values as a list in a sentence.

    >>> listed(["a", "b", "c"]), listed(range(8), most=3)
    ('a, b and c', '0, 1, 2 and 5 others')
    """
    shown = [text(v, 40) for v in list(values)[:most]]
    left = len(values) - len(shown)
    if left:
        return f"{', '.join(shown)} and {count(left, 'other')}"
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)
