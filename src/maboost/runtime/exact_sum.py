"""Floats as integers on a grid, whose sums do not depend on the order of addition.

A value is ``(high * 2^bits + low) * quantum`` with two integers, rounded to the grid once. Nothing is rounded
after that, so any order, number of threads and number of shards gives the same bits.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maboost.runtime.instructions import bits_of
from maboost.runtime.kernels import kernel

__all__ = [
    "BIAS",
    "FixedPoint",
    "WideGrid",
    "fixed_point",
    "fold",
    "fold_wide",
    "split",
    "split_biased",
    "split_wide",
    "value_of",
]

# 1.5 * 2^52: adding it to |x| < 2^51 leaves round(x) in the low bits of the mantissa.
MAGIC = 6755399441055744.0
BIAS = 0x4338000000000000


@kernel(fastmath={"contract"})
def split_biased(value, first, second, low):
    """Return integers (high, low) of one value, both too large by BIAS, which a sum subtracts once for all.

    `first * second * low` are powers of two of a FixedPoint. Rounding by adding a constant keeps the loop
    that calls this vectorised on any x86 or ARM core; a conversion instruction to int64 exists only on
    some. Products are exact, so fusing them with an addition changes no bit.
    """
    scaled = value * first * second
    rounded = scaled + MAGIC
    rest = (scaled - (rounded - MAGIC)) * low
    return bits_of(rounded), bits_of(rest + MAGIC)


@kernel
def split(value, first, second, low):
    """Return integers (high, low) of one value."""
    high, rest = split_biased(value, first, second, low)
    return high - BIAS, rest - BIAS


@kernel
def fold(values, first, second, low):
    """Return integers (high, low) of the sum of values."""
    total_high, total_low = 0, 0
    for i in range(values.size):
        high, rest = split(values[i], first, second, low)
        total_high += high
        total_low += rest
    return total_high, total_low


@kernel
def value_of(high, low, unit, exponent):
    """The float nearest to (high * unit + low) * 2^exponent, by 64-bit integers; `unit` is a power of two."""
    bits, sign = math.frexp(unit)[1] - 1, 1.0
    mask = (np.int64(1) << bits) - 1
    high, low = high + (low >> bits), low & mask
    if high < 0:
        sign, high = -1.0, -high - np.int64(low > 0)
        low = (mask + 1 - low) & mask
    # 62 bits; the last one says whether any bit was left out, so that exact halves round as they should
    length = math.frexp(float(high))[1]  # of the high part; or one more
    out = bits - min(62 - length, bits)
    left_out = (low & ((np.int64(1) << out) - 1)) > 0
    whole = (high << (bits - out)) | (low >> out) | np.int64(left_out)
    return math.ldexp(sign * float(whole), exponent + out)


@kernel
def _values_of(pairs, unit, exponent, found):
    for i in range(found.size):
        found[i] = value_of(pairs[i, 0], pairs[i, 1], unit, exponent)


class FixedPoint(NamedTuple):
    """The scale of a reproducible sum: powers of two as factors, and the exponent of the last bit."""

    first: float
    second: float
    low: float
    exponent: int

    @property
    def factors(self) -> tuple[float, float]:
        """The first two factors as one, where the bound of the values is far from the ends of a float's range."""
        return self.first * self.second, self.low

    def blur(self, count: int) -> float:
        """Return the largest difference between a sum of `count` values and the exact sum."""
        return count * math.ldexp(0.5, self.exponent)

    def value(self, high: int, low: int) -> float:
        """Return the float nearest to what the two integer sums stand for."""
        total = high * int(self.low) + low  # Python's integers: exact
        try:
            return math.ldexp(float(total), self.exponent)
        except OverflowError:
            return math.copysign(math.inf, total)

    def values(self, pairs: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the floats for an array of pairs of sums, of shape (n, 2)."""
        found = np.empty(len(pairs))
        _values_of(pairs, self.low, self.exponent, found)
        return found


@lru_cache(256)  # every round asks for the same few
def fixed_point(bound: float, count: int) -> FixedPoint:
    """Return the scale for sums of `count` values of magnitude at most `bound`.

    With c bits for the count each of the two parts has 62 - c bits (51 at most), so neither can
    overflow; the rounding of the whole sum is below ``bound * 2**(3c - 124)``: less than one unit in
    the last place of the largest value up to 2^24 values.
    """
    bits = max(min(62 - int(count).bit_length(), 50), 8)
    exponent = math.frexp(bound)[1] if bound > 0.0 else 0
    power = bits - exponent
    half = power // 2  # 2^power itself may not be a float
    return FixedPoint(
        math.ldexp(1.0, half), math.ldexp(1.0, power - half), math.ldexp(1.0, bits), -power - bits
    )


# --------------------------------------------------------------------------------------------------
# The same in three parts on one fixed grid. It needs no pass for the largest value, so a sum can be
# taken block by block while its terms are in the cache.

_WIDE_EXPONENT = (
    20  # terms below 2^20; with c bits for the count the last bit is 2^(20 - 3(62 - c))
)


@kernel(fastmath={"contract"})
def split_wide(term, scale, low):
    """Return integers (high, middle, low) of one term, all too large by BIAS, and 1 if it does not fit.

    If it does not fit, the integers have no meaning. Products are exact, as in :func:`split_biased`.
    """
    scaled = term * scale
    high = scaled + MAGIC
    scaled = (scaled - (high - MAGIC)) * low
    middle = scaled + MAGIC
    rest = (scaled - (middle - MAGIC)) * low
    fits = abs(term) < 1048576.0
    return bits_of(high), bits_of(middle), bits_of(rest + MAGIC), 0 if fits else 1


@kernel
def fold_wide(values, base, scale, low):
    """Return integers (high, middle, low) of the sum of base * values, and the number of terms that do not fit."""
    a, b, c, unfit = 0, 0, 0, 0
    for i in range(values.size):
        high, middle, last, bad = split_wide(base[i] * values[i], scale, low)
        a += high
        b += middle
        c += last
        unfit += bad
    bias = values.size * BIAS
    return a - bias, b - bias, c - bias, unfit


class WideGrid(NamedTuple):
    """The grid of :func:`fold_wide` for a given number of terms."""

    bits: int

    @classmethod
    def of(cls, count: int) -> WideGrid:
        """Return the grid for `count` terms over all shards."""
        return cls(min(62 - int(count).bit_length(), 50))

    @property
    def factors(self) -> tuple[float, float]:
        """The arguments `scale` and `low` of :func:`fold_wide`."""
        return math.ldexp(1.0, self.bits - _WIDE_EXPONENT), math.ldexp(1.0, self.bits)

    def value(self, high: int, middle: int, low: int) -> float:
        """Return the float nearest to what the three sums stand for."""
        total = (((high << self.bits) + middle) << self.bits) + low
        return math.ldexp(float(total), _WIDE_EXPONENT - 3 * self.bits)
