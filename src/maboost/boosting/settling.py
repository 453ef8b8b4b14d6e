"""After a step: the rows' margins and evidence, and what the record says of them, in one pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maboost.boosting.votes import Scores, Votes
from maboost.mirror.ascent import AscentState
from maboost.mirror.coded import Coded, table_of
from maboost.mirror.entries import entry_at, some_entries, value_at, value_part
from maboost.mirror.measure import BaseMeasure
from maboost.mirror.pairs import lowest_of_rows, means_of_rows
from maboost.runtime.exact_sum import BIAS, fixed_point, split_biased, split_wide
from maboost.runtime.instructions import bits_of
from maboost.runtime.kernels import kernel
from maboost.runtime.messages import reduced

__all__ = ["RowSums", "Settled", "settle"]

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

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
def _settle(margins, density, per_mass, base, share, push, trust, single, wide, sums):
    """Add a round to the evidence of each row: its density, and `share` of its margin.

    Adds to `sums` the measure of margins that are not positive (two parts, on the grid `single`), the
    integral of the squared density (three and how many do not fit, as of :func:`maboost.runtime.exact_sum.fold_wide`, on
    the grid `wide`) and how many densities are not zero.
    """
    a0, a1, b0, b1, b2, unfit, nonzero = 0, 0, 0, 0, 0, 0, 0
    for i in range(margins.size):
        margin, u = margins[i], density[i] * per_mass
        push[i] += u
        trust[i] += margin * share
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
    bias = margins.size * BIAS
    sums[0] += a0 - bias
    sums[1] += a1 - bias
    sums[2] += b0 - bias
    sums[3] += b1 - bias
    sums[4] += b2 - bias
    sums[5] += unfit
    sums[6] += nonzero


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
    margins, values, codes, step, density, per_mass, base, share, push, trust, single, wide
):
    """Move the margins of rows along a direction, and settle them, while they are in the first cache.

    Returns the sums of :func:`_settle`, and what :func:`_extremes` does.
    """
    sums = np.zeros(7, dtype=np.int64)
    most = densest = _in_order(bits_of(-np.inf))
    least = _in_order(bits_of(np.inf))
    for a in range(0, margins.size, _STRIP):
        b = min(a + _STRIP, margins.size)
        some, their = some_entries(values, codes, a, b)
        _move(margins[a:b], some, their, step)
        _settle(
            margins[a:b], density[a:b], per_mass, value_part(base, a, b), share, push[a:b],
            trust[a:b], single, wide, sums,
        )  # fmt: skip
        least, most, densest = _extremes(margins[a:b], density[a:b], least, most, densest)
    return sums, (least, most, densest)


class RowSums(NamedTuple):
    """Sums over the rounds, for every row of a shard.

    Attributes
    ----------
    votes : Votes
    push, trust : arrays of shape (n_rows,)
        Each row's density, and its normalised margin.
    """

    votes: Votes
    push: Array
    trust: Array


def settle(
    measure: BaseMeasure,
    direction: Array | Coded,
    scores: Scores | None,
    state: AscentState,
    step: float,
    total_step: float,
    sums: RowSums,
    counts: tuple[int, ...] = (),
) -> Settled:
    """Add a round to the sums, and tell what became of the rows.

    It was a step along `direction`, departing from `state`. Votes of more than two classes are added up from
    `scores`. Counts of this shard go along in the message.
    """
    rows, width = measure.of_rows, measure.width
    all_margins = sums.votes.margins
    worst = all_margins if width == 1 else rows.array()
    extremes: list[tuple[int, int, int]] = []

    def block(a: int, b: int) -> Integers:
        part, entries = slice(a, b), slice(a * width, b * width)
        margins, density = all_margins[entries], state.density[entries]
        way = *table_of(direction, entries), step
        if width > 1:  # votes move the pairs, and the worst of each row is settled
            assert scores is not None
            sums.votes.add(step, scores, part)
            means = np.empty(b - a)
            lowest_of_rows(margins, worst[part])
            means_of_rows(density, means)
            margins, density, way = worst[part], means, (np.zeros(b - a), None, 0.0)
        found: Integers
        found, ends = _settle_rows(
            margins, *way, density, 1.0 / state.mass, rows.base(part), 1.0 / total_step,
            sums.push[part], sums.trust[part], error_grid.factors, rows.grid.factors,
        )  # fmt: skip
        extremes.append(ends)
        return found

    error_grid = fixed_point(rows.largest, rows.count)  # of the measure of some rows
    folded = rows.threads.summed(rows.rows, block)
    ends = _in_order.py_func(np.array(extremes, dtype=np.int64)).view(np.float64)
    ends = (ends * (-1.0, 1.0, 1.0)).max(axis=0)
    counted = np.array(counts, dtype=np.int64)
    folded, counted, ends = reduced([(folded, "sum"), (counted, "sum"), (ends, "max")], rows.comm)
    squares, nonzero = rows.unfolded(folded[2:6]), int(folded[6])
    if squares is None:  # a density beyond the grid
        squares = rows.integrals([(measure.row_means(state.density) / state.mass) ** 2])
    least, most, densest = ends.tolist()
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
