"""After a step: the rows' margins and evidence, and what the record says of them, in one pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maboost.comm import bits_of, split_wide
from maboost.jit import kernel
from maboost.messages import reduced
from maboost.mirror.ascent import AscentState
from maboost.mirror.coded import Coded, advance, table_of
from maboost.mirror.entries import entry_at, some_entries, value_at, value_part
from maboost.mirror.measure import BaseMeasure
from maboost.mirror.pairs import lowest_of_rows, means_of_rows

__all__ = ["RowSums", "Settled", "Settlement"]

Array = NDArray[np.float64]

_STRIP = 2048  # rows that stay in the first cache
_ALL_BUT_SIGN = np.int64(0x7FFFFFFFFFFFFFFF)


@dataclass(frozen=True)
class Settled:
    """What the pass finds over all shards.

    Attributes
    ----------
    error : float
        The measure of rows that are not right.
    square : float
        The integral of the squared density of rows.
    nonzero : float
        The fraction of rows with weight.
    smallest_margin, largest_margin, largest_density : float
    counts : list of int
        The sums of what was to be counted along with it.
    worst : array of shape (n_rows,)
        Each row's smallest margin, of this shard.
    """

    error: float
    square: float
    nonzero: float
    smallest_margin: float
    largest_margin: float
    largest_density: float
    counts: list[int]
    worst: Array


@kernel
def _move(margins, values, codes, step):
    for i in range(margins.size):
        margins[i] -= step * entry_at(values, codes, i)


@kernel
def _settle(margins, density, per_mass, base, share, push, trust, scale, low, sums):
    """Add a round to the evidence of each row: its density, and `share` of its margin.

    Adds to folded sums as of :func:`maboost.comm.fold_wide`: the measure of margins that are not
    positive, and the integral of the squared density. Returns how many densities are not zero.
    """
    a0, a1, a2, b0, b1, b2, unfit, nonzero = 0, 0, 0, 0, 0, 0, 0, 0
    for i in range(margins.size):
        margin, u = margins[i], density[i] * per_mass
        push[i] += u
        trust[i] += margin * share
        x, y, z, bad = split_wide(value_at(base, i) if margin <= 0.0 else 0.0, scale, low)
        a0 += x
        a1 += y
        a2 += z
        x, y, z, bad = split_wide(value_at(base, i) * u * u, scale, low)
        b0 += x
        b1 += y
        b2 += z
        unfit += bad
        nonzero += u > 0.0
    sums[0, 0] += a0
    sums[0, 1] += a1
    sums[0, 2] += a2
    sums[1, 0] += b0
    sums[1, 1] += b1
    sums[1, 2] += b2
    sums[0, 3] += unfit
    sums[1, 3] += unfit
    return nonzero


@kernel
def _extremes(margins, density, least, most, densest):
    """The least and the largest margin and the largest density, of these and what was known.

    As the integers of :func:`_in_order`: of those such a loop vectorises, of floats it does not.
    """
    for i in range(margins.size):
        margin = _in_order(bits_of(margins[i]))
        least, most = min(least, margin), max(most, margin)
        densest = max(densest, _in_order(bits_of(density[i])))
    return least, most, densest


@kernel
def _in_order(bits):
    """The bits of a float as an integer that is larger where the float is; and the other way round."""
    return bits ^ ((bits >> np.int64(63)) & _ALL_BUT_SIGN)


@kernel
def _settle_rows(
    margins, values, codes, step, density, per_mass, base, share, push, trust, scale, low, sums
):
    """Move the margins of rows along a direction, and settle them, while they are in the first cache."""
    most = densest = _in_order(bits_of(-np.inf))
    nonzero, least = 0, _in_order(bits_of(np.inf))
    for a in range(0, margins.size, _STRIP):
        b = min(a + _STRIP, margins.size)
        some, their = some_entries(values, codes, a, b)
        _move(margins[a:b], some, their, step)
        nonzero += _settle(
            margins[a:b], density[a:b], per_mass, value_part(base, a, b), share, push[a:b],
            trust[a:b], scale, low, sums,
        )  # fmt: skip
        least, most, densest = _extremes(margins[a:b], density[a:b], least, most, densest)
    return nonzero, least, most, densest


class RowSums(NamedTuple):
    """Sums over the rounds, for every row of a shard.

    Attributes
    ----------
    margins : array
        Unnormalised margins of all pairs.
    push, trust : arrays of shape (n_rows,)
        Each row's density, and its normalised margin.
    """

    margins: Array
    push: Array
    trust: Array


@dataclass(frozen=True)
class Settlement:
    """A round to be added to the sums: a step along `direction`, departing from `state`."""

    measure: BaseMeasure
    direction: Array | Coded
    state: AscentState
    step: float
    total_step: float

    def added_to(self, sums: RowSums, counts: tuple[int, ...] = ()) -> Settled:
        """Add it, and tell what became of the rows; counts of this shard go along in the message."""
        rows = self.measure.of_rows
        worst = sums.margins if rows is self.measure else rows.array()
        others: list[tuple[int, int, int, int]] = []

        def block(part: slice) -> NDArray[np.int64]:
            found, other = self._part_added_to(sums, worst, part)
            others.append(other)
            return found

        folded = rows.folded_here(block)
        held = sum(nonzero for nonzero, *_ in others)
        ends = np.array([extremes for _, *extremes in others], dtype=np.int64)
        ends = _in_order.py_func(ends).view(np.float64) * (-1.0, 1.0, 1.0)
        counted = np.array([held, *counts], dtype=np.int64)
        folded, counted, ends = reduced(
            [(folded, "sum"), (counted, "sum"), (ends.max(axis=0), "max")], rows.comm
        )
        both = rows.unfolded(folded)
        if both is None:  # a density beyond the grid
            wrong = worst <= 0.0
            square = (self.measure.row_means(self.state.density) / self.state.mass) ** 2
            both = rows.integrals([wrong.astype(np.float64), square])
        held, *counted = counted.tolist()
        least, most, densest = ends.tolist()
        densest /= self.state.mass
        return Settled(both[0], both[1], held / rows.count, -least, most, densest, counted, worst)

    def _part_added_to(
        self, sums: RowSums, worst: Array, part: slice
    ) -> tuple[NDArray[np.int64], tuple[int, int, int, int]]:
        """Some rows: folded sums; how many densities are not zero, and the extremes as integers."""
        rows, width, d = self.measure.of_rows, self.measure.width, self.direction
        entries = slice(part.start * width, part.stop * width)
        margins, density, step = sums.margins[entries], self.state.density[entries], self.step
        values, codes = table_of(d, entries)
        if width > 1:  # the pairs move by themselves, and the worst of each row is settled
            advance(sums.margins, d, entries, -step, sums.margins)
            means = np.empty(part.stop - part.start)
            lowest_of_rows(margins, worst[part])
            means_of_rows(density, means)
            margins, density = worst[part], means
            values, codes, step = np.zeros(len(margins)), None, 0.0
        found = np.zeros((2, 4), dtype=np.int64)
        others: tuple[int, int, int, int] = _settle_rows(
            margins, values, codes, step, density, 1.0 / self.state.mass, rows.base(part),
            1.0 / self.total_step, sums.push[part], sums.trust[part], *rows.grid.factors, found,
        )  # fmt: skip
        return found, others
