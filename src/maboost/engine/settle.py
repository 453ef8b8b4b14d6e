"""The bookkeeping of a round: margins, sums over the rounds and the statistics of the record, in one pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maboost.engine.leaf_codes import Direction, table_of
from maboost.mirror.ascent import AscentState
from maboost.mirror.measure import BaseMeasure
from maboost.runtime.entries import entry_at, value_at
from maboost.runtime.exact_sum import BIAS, fixed_point, split_biased, split_wide
from maboost.runtime.extremes import in_order, out_of_order
from maboost.runtime.instructions import bits_of
from maboost.runtime.kernels import kernel
from maboost.runtime.messages import reduced
from maboost.runtime.parallel import chunks_of, folded_slots, parallel_for, slots
from maboost.runtime.rows import lowest_of_rows

__all__ = ["RowSums", "Settled", "settle"]

Array = NDArray[np.float64]

_STRIP = 2048  # rows that stay in the first-level cache
_LEAST = 1 << 12  # rows of a chunk


class RowSums(NamedTuple):
    """Sums over the rounds for every row of a shard.

    Attributes
    ----------
    margins : array of shape (n_rows * width,)
        Unnormalised margins of all pairs.
    weight_sum, margin_sum : arrays of shape (n_rows,)
        Each row's density, and its normalised margin.
    """

    margins: Array
    weight_sum: Array
    margin_sum: Array


@dataclass(frozen=True)
class Settled:
    """The statistics of a round over all shards.

    Attributes
    ----------
    error : float
        The measure of rows that are not classified correctly.
    square : float
        The integral of the squared density of rows.
    nonzero : float
        The fraction of rows with weight.
    smallest_margin, largest_margin, largest_density : float
    counts : list of int
        The sums over all shards of the given counts.
    worst : array of shape (n_rows,)
        The smallest margin of each row of this shard.
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
def _add_round(
    margins, density, per_mass, base, share, weight_sum, margin_sum, single, wide, first, last, sums
):
    """Add a round to the sums of each row: its density, and `share` of its margin.

    Adds to `sums` the measure of margins that are not positive (two parts, on the grid `single`), the integral of
    the squared density (three parts and the number that do not fit, on the grid `wide`) and the number of non-zero
    densities.
    """
    a0, a1, b0, b1, b2, unfit, nonzero = 0, 0, 0, 0, 0, 0, 0
    for i in range(first, last):
        margin, u = margins[i], density[i] * per_mass
        weight_sum[i] += u
        margin_sum[i] += margin * share
        wrong = value_at(base, i) if margin <= 0.0 else 0.0
        x, y = split_biased(wrong, single[0], 1.0, single[1])
        a0 += x
        a1 += y
        x, y, z, bad = split_wide(value_at(base, i) * u * u, wide[0], wide[1])
        b0 += x
        b1 += y
        b2 += z
        unfit += bad
        nonzero += u > 0.0
    bias = (last - first) * BIAS
    sums[0] += a0 - bias
    sums[1] += a1 - bias
    sums[2] += b0 - bias
    sums[3] += b1 - bias
    sums[4] += b2 - bias
    sums[5] += unfit
    sums[6] += nonzero


@kernel
def _settle_chunk(
    margins, values, codes, step, density, per_mass, base, share, weight_sum, margin_sum, single,
    wide, size, sums, ends, chunk, slot,
):  # fmt: skip
    last = min((chunk + 1) * size, margins.size)
    least, most, densest = ends[slot, 0], ends[slot, 1], ends[slot, 2]
    for a in range(chunk * size, last, _STRIP):
        b = min(a + _STRIP, last)
        if values is not None:
            for i in range(a, b):
                margins[i] -= step * entry_at(values, codes, i)
        _add_round(
            margins, density, per_mass, base, share, weight_sum, margin_sum, single, wide, a, b,
            sums[slot],
        )  # fmt: skip
        for i in range(a, b):
            margin = in_order(bits_of(margins[i]))
            least, most = min(least, margin), max(most, margin)
            densest = max(densest, in_order(bits_of(density[i])))
    ends[slot, 0], ends[slot, 1], ends[slot, 2] = least, most, densest


@kernel
def _settle_rows(team, margins, *rest):
    """Move margins along a direction (unless its values are None) and add the round to the sums of rows."""
    chunks, size = chunks_of(team, margins.size, _LEAST)
    sums = np.zeros((slots(team), 8), dtype=np.int64)
    ends = np.empty((slots(team), 8), dtype=np.int64)
    lowest = in_order(bits_of(-np.inf))
    for slot in range(ends.shape[0]):
        ends[slot, 0], ends[slot, 1], ends[slot, 2] = in_order(bits_of(np.inf)), lowest, lowest
    parallel_for(team, chunks, _settle_chunk, (margins, *rest, size, sums, ends))
    return folded_slots(sums)[:7], (ends[:, 0].min(), ends[:, 1].max(), ends[:, 2].max())


def settle(
    measure: BaseMeasure,
    direction: Direction | None,
    state: AscentState,
    step: float,
    total_step: float,
    sums: RowSums,
    counts: tuple[int, ...] = (),
) -> Settled:
    """Add a round to the sums of rows, and return its statistics.

    The round was a step along `direction` from `state`; None if the margins have been updated already. The message to
    other shards also sums `counts`.
    """
    rows, width, threads = measure.of_rows, measure.width, measure.threads
    worst, density = sums.margins, state.density
    way = (None, None) if direction is None else table_of(direction)
    if width > 1:
        worst = lowest_of_rows(sums.margins, measure.rows, threads)
        density = measure.row_means(density)
    error_grid = fixed_point(rows.largest, rows.count)  # of the measure of some rows
    folded, ends = threads.run(
        _settle_rows, worst, *way, step, density, 1.0 / state.mass, rows.base(slice(None)),
        1.0 / total_step, sums.weight_sum, sums.margin_sum, error_grid.factors, rows.grid.factors,
    )  # fmt: skip
    extremes = out_of_order(np.array(ends, dtype=np.int64)) * (-1.0, 1.0, 1.0)
    counted = np.array(counts, dtype=np.int64)
    folded, counted, extremes = reduced(
        [(folded, "sum"), (counted, "sum"), (extremes, "max")], rows.comm
    )
    squares, nonzero = rows.unfolded(folded[2:6]), int(folded[6])
    if squares is None:  # a density exceeds the grid
        squares = rows.integrals([(density / state.mass) ** 2])
    least, most, densest = extremes.tolist()
    return Settled(
        error=error_grid.value(*folded[:2].tolist()),
        square=squares[0],
        nonzero=nonzero / rows.count,
        smallest_margin=-least,
        largest_margin=most,
        largest_density=densest / state.mass,
        counts=counted.tolist(),
        worst=worst,
    )
