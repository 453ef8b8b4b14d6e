"""Steps under caps on rows of several entries.

The total of a row is capped. Entropy divides it among the entries in proportion to what they would have
without a cap; a step multiplies each entry by a factor, which in a direction of few values is that of its
code, so that a pass over the rows needs no exponential. The Euclidean geometry takes the same from every entry.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from maboost.comm import fixed_point
from maboost.mirror.ascent import AscentState, MirrorAscent
from maboost.mirror.coded import Coded, sums_on, table_of
from maboost.mirror.exponential import exponentials
from maboost.mirror.measure import BaseMeasure
from maboost.mirror.pairs import euclidean_moments_of_rows, moments_of_rows
from maboost.mirror.projected import part_of
from maboost.mirror.regularizers import Entropy
from maboost.threads import PICKED

__all__ = ["Rowwise"]

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

_BLOCK = 1 << 15  # entries whose factors stay in the cache


class Rowwise:
    """Passes over the rows for one direction, under entropy or the Euclidean regularizer.

    Attributes
    ----------
    clipped, by_factors : bool
        As of :class:`maboost.mirror.passes.Pass`.
    """

    def __init__(
        self,
        ascent: MirrorAscent,
        state: AscentState,
        direction: Array | Coded,
        measure: BaseMeasure,
    ) -> None:
        self.direction = direction
        self.entropy = type(ascent.regularizer) is Entropy
        self.start = ascent.powers(state, measure) if self.entropy else state.theta
        self.measure = measure
        self.block = max(_BLOCK // measure.width, 1)
        self.caps = ascent.domain.row_caps()
        self.clipped = False
        self.by_factors = self.entropy and ascent.update == "active"
        rows = measure.of_rows
        top, highest = rows.highest_caps(self.caps)
        highest = max(highest, 1.0)
        if math.isinf(top):
            highest = max(highest, 4.0 * rows.maximum(measure.row_means(state.density)))
        self.bound = 16.0 * highest
        self.grid = fixed_point(rows.largest * self.bound, rows.count)

    def sums(self, step: float, shift: float) -> list[float]:
        """Mass and loss of the next distribution, and the three moments of the Hessian."""
        rows, d = self.measure.of_rows, self.direction
        factors = None
        if self.entropy and isinstance(d, Coded):
            factors = exponentials(step * d.values - shift)

        def work(a: int, b: int) -> Integers:
            found = np.zeros(8, dtype=np.int64)
            for start in range(a, b, self.block):
                part = slice(start, min(start + self.block, b))
                found += self._part_sums(part, step, shift, factors)
            return found

        here = rows.threads.summed(rows.rows, work, PICKED)
        total = rows.comm.allreduce(here, "sum").tolist()
        self.clipped = total[7] > 0
        return sums_on(self.grid, total)

    def _part_sums(
        self, part: slice, step: float, shift: float, factors: Array | None
    ) -> tuple[int, ...]:
        """Folded sums over some rows; `factors` are those of the codes, if there are codes."""
        width, base = self.measure.width, self.measure.of_rows.base(part)
        entries, limits = slice(part.start * width, part.stop * width), part_of(self.caps, part)
        values, codes = table_of(self.direction, entries)
        found: tuple[int, ...]
        if self.entropy:
            if factors is None:
                factors = exponentials(step * values - shift)
            found = moments_of_rows(
                width, self.start[entries], values, codes, factors,
                base, limits, self.bound, self.grid[:3],
            )  # fmt: skip
        else:
            found = euclidean_moments_of_rows(
                width, self.start[entries], values, codes, step, shift,
                base, limits, self.bound, self.grid[:3],
            )  # fmt: skip
        return found
