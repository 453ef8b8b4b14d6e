"""Exponentials with the same bits on every machine, vectorised on most.

numpy's exponential depends on the instructions of the processor: with AVX-512 it is fast and differs in the last
bits, without it it is scalar. This loop of additions and multiplications vectorises everywhere.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from maboost.runtime.exact_sum import BIAS, MAGIC
from maboost.runtime.instructions import bits_of
from maboost.runtime.kernels import kernel

__all__ = ["exponentials", "exponentials_into"]

Array = NDArray[np.float64]

_LOWEST, _HIGHEST = -750.0, 720.0  # beyond these e^x is zero and infinite
_PER_LOG = 1.0 / math.log(2.0)
# log 2 in two parts; the first has so few bits that its products with exponents are exact
_LOG_HIGH, _LOG_LOW = 0.6931471803691238, 1.9082149292705877e-10
_2, _3, _4, _5, _6, _7, _8, _9, _10, _11, _12, _13 = (1.0 / math.factorial(k) for k in range(2, 14))
_ONE, _EXPONENT = np.uint64(1), np.uint64(52)


@intrinsic
def _float_of(typingctx: Any, bits: Any) -> Any:
    """Return the float64 of these bits."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.DoubleType())

    return types.float64(types.uint64), codegen


@kernel
def exponentials_into(x, out):
    """Write e^x to a unit in the last place; `out` may be `x`.

    With n the integer nearest to x / log 2 and r = x - n log 2, which is below 0.35, the result is the Taylor
    polynomial of e^r up to r^13, times 2^n. The power is applied as two factors, since 2^n may not be a float.
    """
    for i in range(x.size):
        y = x[i]  # (this order of comparisons keeps NaN)
        y = _LOWEST if y < _LOWEST else y
        y = _HIGHEST if y > _HIGHEST else y
        rounded = y * _PER_LOG + MAGIC
        n = rounded - MAGIC
        r = (y - n * _LOG_HIGH) - n * _LOG_LOW
        r2 = r * r
        r4 = r2 * r2
        low = (_2 + _3 * r) + (_4 + _5 * r) * r2
        middle = (_6 + _7 * r) + (_8 + _9 * r) * r2
        high = (_10 + _11 * r) + (_12 + _13 * r) * r2
        p = 1.0 + (r + r2 * (low + (middle + high * r4) * r4))
        whole = np.uint64(bits_of(rounded) - BIAS + 2048)
        half = whole >> _ONE
        p *= _float_of((half - _ONE) << _EXPONENT)
        out[i] = p * _float_of((whole - half - _ONE) << _EXPONENT)


def exponentials(x: Array) -> Array:
    """Return e^x for a flat array.

    >>> exponentials(np.array([-np.inf, 0.0, 1.0]))
    array([0.        , 1.        , 2.71828183])
    """
    out = np.empty(x.size)
    exponentials_into(x, out)
    return out
