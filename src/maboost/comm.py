"""How shards talk, and sums that do not depend on who adds first.

Everything global in this library (an edge, a projection's mass, a gain) is a sum, a maximum or a
minimum over rows. The code that needs one sees only its own *shard* of the rows and a
:class:`Communicator`; on one machine the communicator is the identity, so running on many workers
is a launcher and not a second implementation.

Floating-point addition is not associative, so a plain sum would change its last bits with the number
of threads or shards. :func:`reproducible_sum` adds integers instead.
"""

from __future__ import annotations

import math
import pickle
from functools import lru_cache
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from maboost.jit import kernel
from maboost.threads import Threads

__all__ = [
    "BIAS",
    "Communicator",
    "FixedPoint",
    "SerialCommunicator",
    "WideGrid",
    "bits_of",
    "by_rank",
    "counted_sums",
    "fixed_point",
    "fold_wide",
    "gathered",
    "gathered_objects",
    "global_count",
    "reproducible_sum",
    "reproducible_sums",
    "split",
    "split_biased",
    "split_wide",
    "sums_of_all",
]

Reduction = Literal["sum", "max", "min"]


class Communicator(Protocol):
    """What the training loop needs to know about the other shards.

    >>> import numpy as np
    >>> comm = SerialCommunicator()
    >>> comm.rank, comm.size, comm.allreduce(np.array([1, 2]))
    (0, 1, array([1, 2]))
    """

    @property
    def rank(self) -> int:
        """Index of this shard."""

    @property
    def size(self) -> int:
        """Number of shards."""

    def allreduce(self, array: NDArray[Any], op: Reduction = "sum") -> NDArray[Any]:
        """Combine `array` over all shards elementwise; every shard gets the result."""

    def broadcast(self, array: NDArray[Any], root: int = 0) -> NDArray[Any]:
        """Give every shard the `array` of shard `root`."""


class SerialCommunicator:
    """One shard: every reduction is the identity.

    >>> import numpy as np
    >>> SerialCommunicator().allreduce(np.array([1.0, 2.0]))
    array([1., 2.])
    """

    rank = 0
    size = 1

    def allreduce(self, array: NDArray[Any], op: Reduction = "sum") -> NDArray[Any]:
        return array

    def broadcast(self, array: NDArray[Any], root: int = 0) -> NDArray[Any]:
        return array


# --------------------------------------------------------------------------------------------------
# What is built on the two operations of a communicator.


def global_count(count: int, comm: Communicator) -> int:
    """The sum of a count over all shards."""
    return int(comm.allreduce(np.array([count], dtype=np.int64), "sum")[0])


def sums_of_all(arrays: list[NDArray[np.int64]], comm: Communicator) -> list[NDArray[np.int64]]:
    """The sums over all shards of several arrays of integers, in one message."""
    if comm.size == 1 or not arrays:
        return arrays
    total = comm.allreduce(np.concatenate([a.reshape(-1) for a in arrays]), "sum")
    ends = np.cumsum([a.size for a in arrays])[:-1]
    return [part.reshape(a.shape) for part, a in zip(np.split(total, ends), arrays, strict=True)]


def by_rank(array: NDArray[Any], comm: Communicator) -> NDArray[Any]:
    """The small arrays of all shards, of one length and of 8 bytes an entry, as the rows of a table.

    Every shard puts its own between zeros, and the sum is all of them: as integers, so that not a bit
    changes (a sum of floats would lose the sign of a zero). To wait for each other is what a message
    costs, so one that is a few times as long is cheaper than two.
    """
    if comm.size == 1:
        return array[None]
    everyone = np.zeros((comm.size, array.size), dtype=np.int64)
    everyone[comm.rank] = array.view(np.int64)
    total = comm.allreduce(everyone.reshape(-1), "sum")
    return total.reshape(everyone.shape).view(array.dtype)


def gathered(array: NDArray[Any], comm: Communicator) -> list[NDArray[Any]]:
    """The arrays of all shards by rank, of 8 bytes an entry; they may differ in length only.

    As :func:`by_rank`, after a message that says how long they are.
    """
    sizes = np.zeros(comm.size, dtype=np.int64)
    sizes[comm.rank] = len(array)
    ends = np.cumsum(comm.allreduce(sizes, "sum"))
    if comm.size == 1:
        return [array]
    everything = np.zeros((int(ends[-1]), *array.shape[1:]), dtype=array.dtype)
    everything[ends[comm.rank] - len(array) : ends[comm.rank]] = array
    total = comm.allreduce(everything.reshape(-1).view(np.int64), "sum")
    return np.split(total.view(array.dtype).reshape(everything.shape), ends[:-1])


def gathered_objects(value: Any, comm: Communicator) -> list[Any]:
    """A small value of every shard by rank (pickled: shards trust each other)."""
    if comm.size == 1:
        return [value]
    text = pickle.dumps(value)
    content = np.frombuffer(text + bytes(-len(text) % 8), dtype=np.int64)
    return [pickle.loads(part.tobytes()) for part in gathered(content, comm)]


# --------------------------------------------------------------------------------------------------
# Fixed point: x = (high * 2^low_bits + low) * quantum, both parts integers, so that sums associate.

# 1.5 * 2^52: adding it to |x| < 2^51 leaves round(x) in the low bits of the mantissa.
MAGIC = 6755399441055744.0
BIAS = 0x4338000000000000


@intrinsic
def bits_of(typingctx: Any, value: Any) -> Any:
    """Reinterpret a float64 as the int64 of the same bits."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.IntType(64))

    return types.int64(types.float64), codegen


@kernel(fastmath={"contract"})
def split_biased(value, first, second, low):
    """Integers (high, low) of one value, both too large by BIAS: a sum subtracts that once for all.

    `first * second * low` are powers of two of a FixedPoint. Rounding by adding a constant keeps the loop
    that calls this vectorised on any x86 or ARM core; a conversion instruction to int64 exists only on
    some. Products are exact, so that no bit differs where they are fused with what is added to them.
    """
    scaled = value * first * second
    rounded = scaled + MAGIC
    rest = (scaled - (rounded - MAGIC)) * low
    return bits_of(rounded), bits_of(rest + MAGIC)


@kernel
def split(value, first, second, low):
    """Integers (high, low) of one value, as they are."""
    high, rest = split_biased(value, first, second, low)
    return high - BIAS, rest - BIAS


class FixedPoint(NamedTuple):
    """The scale of a reproducible sum: powers of two as factors, and the exponent of the last bit."""

    first: float
    second: float
    low: float
    exponent: int

    @property
    def factors(self) -> tuple[float, float]:
        """The first two as one, where the bound of the values is far from the ends of a float's range."""
        return self.first * self.second, self.low

    def blur(self, count: int) -> float:
        """How far a sum of so many values may be from the exact one."""
        return count * math.ldexp(0.5, self.exponent)

    def value(self, high: int, low: int) -> float:
        """The float nearest to what the two integer sums stand for."""
        total = high * int(self.low) + low  # Python's integers: exact
        try:
            return math.ldexp(float(total), self.exponent)
        except OverflowError:
            return math.copysign(math.inf, total)

    def values(self, high: NDArray[np.int64], low: NDArray[np.int64]) -> NDArray[np.float64]:
        """Those of many pairs of sums."""
        bits = int(self.low).bit_length() - 1
        high, low = high + (low >> bits), low & ((1 << bits) - 1)
        negative, some = high < 0, low > 0
        high = np.where(negative, -high - some, high)
        low = np.where(negative & some, (1 << bits) - low, low)
        # 62 bits, of which the last tells whether any are left out: halves are told from what is near them
        length = np.frexp(high.astype(np.float64))[1]  # of the high part; or one more
        out = bits - np.minimum(62 - length, bits)
        left_out = (low & ((1 << out) - 1)) > 0
        whole = (high << (bits - out)) | (low >> out) | left_out
        with np.errstate(over="ignore"):
            floats = np.where(negative, -whole, whole).astype(np.float64)
            found: NDArray[np.float64] = np.ldexp(floats, self.exponent + out)
        return found


@lru_cache(256)  # the same few are asked for in every round
def fixed_point(bound: float, count: int) -> FixedPoint:
    """The scale for sums of `count` values of magnitude at most `bound`.

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


@kernel
def _largest_bits(values):
    """The bits of the largest magnitude: as integers they are in its order, and NaN is above all."""
    most = np.int64(0)
    for i in range(values.size):
        most = max(most, bits_of(values[i]) & np.int64(0x7FFFFFFFFFFFFFFF))
    return most


def _largest(values: NDArray[np.float64], threads: Threads) -> float:
    """The largest magnitude; infinity stands for anything that is not finite (a maximum keeps it)."""
    bits = max(threads.over(values.size, lambda a, b: _largest_bits(values[a:b])))
    top = float(np.int64(bits).view(np.float64))
    return top if math.isfinite(top) else math.inf


@kernel
def _folded(values, first, second, low):
    total_high, total_low = 0, 0
    for i in range(values.size):
        high, rest = split(values[i], first, second, low)
        total_high += high
        total_low += rest
    return total_high, total_low


def reproducible_sums(columns: list[NDArray[np.float64]], comm: Communicator) -> list[float]:
    """The sums of several arrays over all shards; NaN where a value is not finite.

    See :func:`reproducible_sum`.
    """
    return counted_sums(columns, comm)[0]


def counted_sums(
    columns: list[NDArray[np.float64]], comm: Communicator, threads: Threads | None = None
) -> tuple[list[float], list[int]]:
    """The sums of :func:`reproducible_sums`, and of how many values over all shards each is.

    The grid of a sum follows from the largest value and the number of values of *all* shards. Each
    takes the others to be like itself, and tells what it saw along with its sums: where all were right,
    as they nearly always are, one message does.
    """
    flat = [np.ascontiguousarray(c, dtype=np.float64).reshape(-1) for c in columns]
    threads = threads or Threads()
    tops, counts = [_largest(c, threads) for c in flat], [c.size for c in flat]
    scales = _scales(tops, counts, comm.size)
    own = _folds(flat, tops, scales, threads)
    if comm.size == 1:
        return _values(own, scales, tops), counts
    told = by_rank(np.concatenate([np.array(tops).view(np.int64), counts, np.ravel(own)]), comm)
    all_tops, all_counts, folds = np.split(told, [len(flat), 2 * len(flat)], axis=1)
    all_tops = all_tops.view(np.float64)
    tops, counts = all_tops.max(axis=0).tolist(), all_counts.sum(axis=0).tolist()
    scales = _scales(tops, counts)
    alike = all(
        taken == scale or count == 0
        for its_tops, its_counts in zip(all_tops.tolist(), all_counts.tolist(), strict=True)
        for taken, scale, count in zip(
            _scales(its_tops, its_counts, comm.size), scales, its_counts, strict=True
        )
    )
    total = folds.sum(axis=0)
    if not alike:
        total = comm.allreduce(np.ravel(_folds(flat, tops, scales, threads)), "sum")
    return _values(total.reshape(-1, 2).tolist(), scales, tops), counts


def _values(sums: list[list[int]], scales: list[FixedPoint], tops: list[float]) -> list[float]:
    """What sums on these grids stand for; NaN where a value is not finite."""
    return [
        scale.value(high, low) if math.isfinite(top) else math.nan
        for scale, (high, low), top in zip(scales, sums, tops, strict=True)
    ]


def _scales(tops: list[float], counts: list[int], shards: int = 1) -> list[FixedPoint]:
    """The grids of sums of so many values of that magnitude, in each of so many shards."""
    return [
        fixed_point(top if math.isfinite(top) else 0.0, count * shards)
        for top, count in zip(tops, counts, strict=True)
    ]


def _folds(
    columns: list[NDArray[np.float64]],
    tops: list[float],
    scales: list[FixedPoint],
    threads: Threads,
) -> list[list[int]]:
    """The sums of this shard on these grids; zeros where a value is not finite."""

    def fold(values: NDArray[np.float64], scale: FixedPoint) -> list[int]:
        found = threads.summed(values.size, lambda a, b: _folded(values[a:b], *scale[:3]))
        return list(found.tolist())

    return [
        fold(c, scale) if math.isfinite(top) else [0, 0]
        for c, scale, top in zip(columns, scales, tops, strict=True)
    ]


# --------------------------------------------------------------------------------------------------
# The same in three parts on one fixed grid: no pass for the largest value, so that a sum can be
# taken block by block while its terms are in the cache.

_WIDE_EXPONENT = (
    20  # terms below 2^20; with c bits for the count the last bit is 2^(20 - 3(62 - c))
)


@kernel(fastmath={"contract"})
def split_wide(term, scale, low):
    """Integers (high, middle, low) of one term, all too large by BIAS, and one if it does not fit.

    Then they stand for nothing. Products are exact, as in :func:`split_biased`.
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
    """Integers (high, middle, low) of the sum of base * values, and how many terms do not fit."""
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
    """The grid of :func:`fold_wide` for sums of so many terms."""

    bits: int

    @classmethod
    def of(cls, count: int) -> WideGrid:
        """For `count` terms over all shards."""
        return cls(min(62 - int(count).bit_length(), 50))

    @property
    def factors(self) -> tuple[float, float]:
        """The arguments `scale` and `low` of :func:`fold_wide`."""
        return math.ldexp(1.0, self.bits - _WIDE_EXPONENT), math.ldexp(1.0, self.bits)

    def value(self, high: int, middle: int, low: int) -> float:
        """The float nearest to what the three sums stand for."""
        total = (((high << self.bits) + middle) << self.bits) + low
        return math.ldexp(float(total), _WIDE_EXPONENT - 3 * self.bits)


def reproducible_sum(values: NDArray[np.float64], comm: Communicator | None = None) -> float:
    """The sum of `values` over all shards, the same bits for any order, threads or sharding.

    Every value is rounded to a fixed grid, set by the largest magnitude and the number of values over
    *all* shards, and added there as integers. The result differs from the exact sum by less than one
    unit in the last place of the largest value (up to 2^24 values).

    >>> import numpy as np
    >>> x = np.array([1e16, 1.0, -1e16, 2.0])
    >>> float(np.sum(x[::-1])) == float(np.sum(x))
    False
    >>> reproducible_sum(x), reproducible_sum(x[::-1])
    (3.0, 3.0)
    """
    return reproducible_sums([values], comm or SerialCommunicator())[0]
