"""Directions as leaf codes: a tree's loss vector takes one value for each leaf and label.

One code an entry and a short table of values replace exponentials of entries by table look-ups, and some sums
over rows by sums over the table.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maboost.mirror.measure import BaseMeasure
from maboost.runtime.entries import entry_at, value_at
from maboost.runtime.exact_sum import FixedPoint, fixed_point, split
from maboost.runtime.exponential import exponentials
from maboost.runtime.kernels import kernel
from maboost.runtime.parallel import chunks_of, parallel_for, slots
from maboost.runtime.threads import Threads

__all__ = ["Direction", "LeafCodes", "advance", "leaf_codes", "mass_grid", "table_of"]

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

_STRIP = 512  # entries whose terms stay in the first-level cache
_LEAST = 1 << 12  # entries of a chunk
_WIDE = 1 << 12  # codes from which on a table for each thread costs more than it saves
_ONE, _TWO, _THREE = np.uint64(1), np.uint64(2), np.uint64(3)


@kernel
def _write_codes(leaves, labels, classes, out, size, chunk, slot):
    a, b = chunk * size, min((chunk + 1) * size, leaves.size)
    if classes == 2:  # vectorises
        for i in range(a, b):
            out[i] = 2 * leaves[i] + labels[i]
        return
    width = classes - 1
    for i in range(a, b):
        first = (np.int64(leaves[i]) * classes + labels[i]) * width
        for j in range(width):
            out[i * width + j] = first + j


@kernel
def _codes_of_rows(team, leaves, labels, classes, out):
    chunks, size = chunks_of(team, leaves.size, _LEAST)
    parallel_for(team, chunks, _write_codes, (leaves, labels, classes, out, size))


def leaf_codes(
    leaves: NDArray[np.int32],
    labels: NDArray[np.unsignedinteger],
    classes: int,
    codes: int,
    threads: Threads,
) -> NDArray[np.unsignedinteger]:
    """Return the codes of all entries, by leaf, label and wrong class; `codes` is their number."""
    out: NDArray[np.unsignedinteger]
    out = np.empty(leaves.size * (classes - 1), "u2" if codes <= 1 << 16 else "u4")
    threads.run(_codes_of_rows, leaves, labels, classes, out)
    return out


@kernel
def _add_masses(density, base, codes, scale, tables, size, chunk, slot):
    """Add fixed-point sums of base * density by code, in four interleaved tables a thread.

    Neighbouring rows often share a code. With separate tables an addition need not wait for the previous one. The
    terms of a strip are computed before any is added, so that the computation vectorises.
    """
    highs, lows = np.empty(_STRIP, np.int64), np.empty(_STRIP, np.int64)
    sums = tables[slot]
    flat, table = sums.reshape(-1), np.uint64(2 * sums.shape[1])
    last, mask = min((chunk + 1) * size, codes.size), _THREE if sums.shape[0] == 4 else np.uint64(0)
    for start in range(chunk * size, last, _STRIP):
        stop = min(start + _STRIP, last)
        for i in range(start, stop):
            mass = value_at(base, i) * density[i]
            highs[i - start], lows[i - start] = split(mass, scale[0], scale[1], scale[2])
        code = codes[start:stop]
        for i in range(code.size):
            at = (np.uint64(i) & mask) * table + _TWO * code[i]
            flat[at] += highs[i]
            flat[at + _ONE] += lows[i]


@kernel
def _masses_by_code(team, density, base, codes, scale, count):
    """Return fixed-point sums (high, low) of base * density over the entries of each code."""
    chunks, size = chunks_of(team, codes.size, _LEAST)
    if count > _WIDE:
        chunks, size = 1, codes.size
    tables = np.zeros(
        (slots(team) if chunks > 1 else 1, 4 if count <= _WIDE else 1, count, 2), dtype=np.int64
    )
    parallel_for(team, chunks, _add_masses, (density, base, codes, scale, tables, size))
    sums = np.zeros((count, 2), dtype=np.int64)
    for slot in range(tables.shape[0]):
        for copy in range(tables.shape[1]):
            for k in range(count):
                sums[k, 0] += tables[slot, copy, k, 0]
                sums[k, 1] += tables[slot, copy, k, 1]
    return sums


@kernel
def _look_up(values, codes, out, size, chunk, slot):
    for i in range(chunk * size, min((chunk + 1) * size, codes.size)):
        out[i] = values[codes[i]]


@kernel
def _look_up_all(team, values, codes, out):
    chunks, size = chunks_of(team, codes.size, _LEAST)
    parallel_for(team, chunks, _look_up, (values, codes, out, size))


def mass_grid(measure: BaseMeasure, total: float = 1.0) -> FixedPoint:
    """Return the grid for masses of some entries if the mass of all is `total`."""
    return fixed_point(2.0 * total, measure.count)


@dataclass(frozen=True)
class LeafCodes:
    """A direction as ``values[codes]``.

    Attributes
    ----------
    values : array of shape (n_codes,)
    codes : integer array of shape (entries,)
    """

    values: Array
    codes: NDArray[np.unsignedinteger]
    _known: list[tuple[Array, Array]] = field(default_factory=list, repr=False, compare=False)

    @property
    def count(self) -> int:
        """The number of codes."""
        return len(self.values)

    @property
    def size(self) -> int:
        """The number of entries of this shard."""
        return int(self.codes.size)

    def __neg__(self) -> LeafCodes:
        return LeafCodes(-self.values, self.codes)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return self.dense()

    def dense(self, threads: Threads | None = None) -> Array:
        """Return the direction as an array."""
        out = np.empty(self.size)
        (threads or Threads()).run(_look_up_all, self.values, self.codes, out)
        return out

    def masses(self, density: Array, measure: BaseMeasure, total: float = 1.0) -> Array:
        """Return the integral of `density` over the entries of each code, over all shards.

        `total` is its integral over all entries, which bounds every term. The result for the last density is
        cached, since its edge and its corrective step both need it.
        """
        if self._known and self._known[0][0] is density:
            return self._known[0][1]
        grid, base = mass_grid(measure, total), measure.base(slice(None))
        sums = measure.threads.run(_masses_by_code, density, base, self.codes, grid[:3], self.count)
        pairs = measure.comm.allreduce(sums.reshape(-1), "sum").reshape(-1, 2)
        found = grid.values(pairs)
        self._known[:] = [(density, found)]
        return found

    def log_mean_exp(self, factor: float, density: Array, measure: BaseMeasure) -> float:
        """Return the logarithm of the integral of e^(factor * direction) under a density of mass one."""
        masses = self.masses(density, measure)
        held = (
            masses > 0.0
        )  # an unused code may have a value so large that the others would underflow
        masses, x = masses[held], factor * self.values[held]
        top = float(np.maximum.reduce(x))
        return top + math.log(math.fsum(masses * exponentials(x - top)))


Direction = Array | LeafCodes


@kernel
def advance(start, values, codes, step, less, shift, a, b, out):
    """Write start + step * (d - less) - shift for entries a to b, with the direction from :func:`table_of`."""
    for i in range(a, b):
        out[i - a] = start[i] + (step * (entry_at(values, codes, i) - less) - shift)


def table_of(direction: Direction) -> tuple[Array, NDArray[np.unsignedinteger] | None]:
    """Return a direction in the form that kernels read (:func:`maboost.runtime.entries.entry_at`)."""
    if isinstance(direction, LeafCodes):
        return direction.values, direction.codes
    return direction, None
