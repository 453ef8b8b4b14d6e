"""Steps under caps on rows of several entries.

The total of a row is capped. Entropy divides it among the entries in proportion to what they would have
without a cap; a step along a direction of few values multiplies each entry by the factor of its code, so a
pass over the rows needs no exponential. The Euclidean geometry takes the same from every entry.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from maboost.comm import fixed_point
from maboost.mirror.ascent import AscentState, MirrorAscent
from maboost.mirror.coded import Coded, sums_on
from maboost.mirror.measure import BaseMeasure
from maboost.mirror.pairs import euclidean_moments_of_rows, moments_of_rows
from maboost.mirror.projected import part_of
from maboost.mirror.regularizers import Entropy
from maboost.threads import PICKED

__all__ = ["Rowwise"]

Array = NDArray[np.float64]


class Rowwise:
    """Passes over the rows for one direction, under entropy or the Euclidean regularizer.

    Attributes
    ----------
    clipped, by_factors : bool
        As of :class:`maboost.mirror.passes.Pass`.
    """

    def __init__(
        self, ascent: MirrorAscent, state: AscentState, coded: Coded, measure: BaseMeasure
    ) -> None:
        self.coded = coded
        self.entropy = type(ascent.regularizer) is Entropy
        self.start = ascent.powers(state, measure) if self.entropy else state.theta
        self.measure = measure
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
        rows, width, values = self.measure.of_rows, self.measure.width, self.coded.values
        factors = np.exp(step * values - shift) if self.entropy else None

        def work(a: int, b: int) -> tuple[int, ...]:
            part, entries = slice(a, b), slice(a * width, b * width)
            codes, limits = self.coded.codes[entries], part_of(self.caps, part)
            found: tuple[int, ...]
            if self.entropy:
                found = moments_of_rows(
                    width, self.start[entries], codes, factors, values,
                    rows.base(part), limits, self.bound, self.grid[:3],
                )  # fmt: skip
            else:
                found = euclidean_moments_of_rows(
                    width, self.start[entries], codes, values, step, shift,
                    rows.base(part), limits, self.bound, self.grid[:3],
                )  # fmt: skip
            return found

        here = rows.threads.summed(rows.rows, work, PICKED)
        total = rows.comm.allreduce(here, "sum").tolist()
        self.clipped = total[7] > 0
        return sums_on(self.grid, total)
