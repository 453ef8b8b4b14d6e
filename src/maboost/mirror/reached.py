"""Rows that a cap may reach.

Under entropy a step along a direction of few values multiplies the density of a row by the factor of its
code. Rows that would stay below their cap under somewhat larger factors too are known by the mass of their
code; Newton's method passes over the others alone, which are few.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from maboost.mirror.coded import Coded, entropy_moments, mass_grid
from maboost.mirror.entries import value_at, value_part
from maboost.mirror.kernels import STRIP, append_marked, entries_at
from maboost.mirror.measure import BaseMeasure
from maboost.mirror.projected import part_of
from maboost.runtime.exact_sum import FixedPoint, split
from maboost.runtime.kernels import kernel

__all__ = ["Reached"]

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

_FURTHER = 1.15  # times the factors of a first step: Newton's method seldom goes beyond


@kernel
def _mark(density, caps, codes, limits, factors, marks):
    """Mark entries that reach their cap; in two loops, since the first does not vectorise."""
    for i in range(density.size):
        factors[i] = limits[codes[i]]
    for i in range(density.size):
        marks[i] = density[i] * factors[i] >= value_at(caps, i)


@kernel
def _list(density, base, caps, codes, limits, scale, sums):
    """Density, base and cap of the entries that reach their cap, and their codes.

    Adds to `sums` their folded masses by code.
    """
    rows, n = np.empty(density.size + 8, dtype=np.int32), np.int64(0)
    marks, factors = np.zeros(STRIP, dtype=np.uint8), np.empty(STRIP)
    for start in range(0, density.size, STRIP):
        stop = min(start + STRIP, density.size)
        for i in range(stop - start, STRIP):
            marks[i] = 0
        part = value_part(caps, start, stop)
        _mark(density[start:stop], part, codes[start:stop], limits, factors, marks)
        n = append_marked(marks, start, rows, n)
    found, theirs = entries_at(rows[:n], density, base, caps), np.empty(n, dtype=codes.dtype)
    for j in range(n):
        code = codes[rows[j]]
        theirs[j] = code
        high, low = split(found[0, j] * found[1, j], scale[0], scale[1], scale[2])
        sums[code, 0] += high
        sums[code, 1] += low
    return found, theirs


@dataclass
class Reached:
    """The entries that reach their cap under `limits`, and what is known of all others by code.

    Attributes
    ----------
    limits : array of shape (n_codes,)
        The largest factors for which this holds.
    masses : array of shape (n_codes,)
        Of all entries of all shards.
    listed : array of shape (n_codes, 2)
        The folded masses of this shard's entries that reach it.
    entries : array of shape (3, n)
        Density, base and cap of this shard's entries that reach it.
    codes : array of shape (n,)
    """

    limits: Array
    masses: Array
    listed: Integers
    entries: Array
    codes: NDArray[np.unsignedinteger]
    _others: Array | None = None  # their mass, loss and square by code, once shards have met

    @classmethod
    def near(
        cls,
        factors: Array,
        coded: Coded,
        density: Array,
        caps: Array | float,
        measure: BaseMeasure,
    ) -> Reached:
        """For factors up to a little more than these, and of shorter steps; `density` is of mass one."""
        limits, grid = _FURTHER * np.maximum(factors, 1.0), mass_grid(measure)

        def work(a: int, b: int) -> tuple[Integers, Array, NDArray[np.unsignedinteger]]:
            sums = np.zeros((len(limits), 2), dtype=np.int64)
            limit, codes = part_of(caps, slice(a, b)), coded.codes[a:b]
            base = measure.base(slice(a, b))
            found = _list(density[a:b], base, limit, codes, limits, grid[:3], sums)
            return sums, *found

        sums, entries, codes = zip(*measure.threads.over(density.size, work), strict=True)
        masses, listed = coded.masses(density, measure), np.sum(sums, axis=0)
        return cls(limits, masses, listed, np.hstack(entries), np.hstack(codes))

    def holds(self, factors: Array) -> bool:
        """Whether the other entries stay below their caps under these factors."""
        return bool(np.all(factors <= self.limits))

    def moments(
        self, factors: Array, values: Array, measure: BaseMeasure, grid: FixedPoint
    ) -> list[float]:
        """Mass and loss of the next distribution, and sums of (1, d, d^2) over its free entries."""

        def work(a: int, b: int) -> tuple[int, ...]:
            density, base, caps = self.entries[0, a:b], self.entries[1, a:b], self.entries[2, a:b]
            found: tuple[int, ...] = entropy_moments(
                density, values, self.codes[a:b], factors, base, caps, math.inf, grid.factors
            )
            return found[:7]

        near = measure.threads.summed(self.codes.size, work)
        if self._others is None:
            told = measure.comm.allreduce(np.concatenate([near, self.listed.reshape(-1)]), "sum")
            near, listed, masses = told[:7], told[7:].reshape(-1, 2), mass_grid(measure)
            free = self.masses - (listed[:, 0] + listed[:, 1] / masses.low) / masses.factors[0]
            self._others = np.array([free, free * values, free * values**2])
        else:
            near = measure.comm.allreduce(near, "sum")
        others, sums = (self._others * factors).sum(axis=1).tolist(), near.tolist()
        mass, loss = grid.value(*sums[:2]) + others[0], grid.value(*sums[2:4]) + others[1]
        return [mass, loss, *(grid.value(h, 0) + o for h, o in zip(sums[4:], others, strict=True))]
