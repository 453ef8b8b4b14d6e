"""Steps from a density that is zero nearly everywhere.

Off the plane of mass one a Euclidean step moves every entry by itself: one that starts from zero ends at a
value that only its code decides. Newton's method for the step passes over the entries of positive density
alone; of all others it is enough to know how much of the base measure each code has.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maboost.mirror.coded import Coded, euclidean_moments, mass_by_code, sums_on, values_on
from maboost.mirror.measure import FEW, BaseMeasure
from maboost.mirror.projected import part_of
from maboost.runtime.communicator import global_count
from maboost.runtime.exact_sum import FixedPoint, fixed_point
from maboost.runtime.threads import PICKED

__all__ = ["Supported"]

Array = NDArray[np.float64]
Integers = NDArray[np.int64]


class Supported(NamedTuple):
    """The entries of positive density, and what is known of the others by code.

    Attributes
    ----------
    density, codes : arrays of shape (n,)
        Of this shard's entries of positive density.
    base : array of shape (n,) or float
        Their measure.
    empty : array of shape (n_codes,)
        The measure of all shards' entries of density zero.
    """

    density: Array
    codes: NDArray[np.unsignedinteger]
    base: Array | float
    empty: Array

    @classmethod
    def of(cls, density: Array, coded: Coded, measure: BaseMeasure) -> Supported | None:
        """None unless the entries of positive density are few, over all shards."""
        support = measure.support(density)
        if global_count(support.count, measure.comm) > FEW * measure.count:
            return None
        codes, grid = support.of(coded.codes), fixed_point(1.0, measure.count)
        base = measure.base(support.places)

        def work(a: int, b: int) -> Integers:
            return mass_by_code(1.0, measure.base(slice(a, b)), coded.codes[a:b], coded.count, grid)

        sums = measure.threads.summed(density.size, work)
        sums -= mass_by_code(1.0, base, codes, coded.count, grid)
        pairs = measure.comm.allreduce(sums.reshape(-1), "sum").reshape(-1, 2)
        return cls(support.of(density), codes, base, values_on(grid, pairs))

    def moments(
        self,
        step: float,
        values: Array,
        cap: float,
        bound: float,
        measure: BaseMeasure,
        grid: FixedPoint,
    ) -> tuple[list[float], bool]:
        """Mass and loss of the next density, sums of (1, d, d^2) over the base measure of its free
        entries, and whether one is beyond `bound`; `values` are the losses by code.
        """

        def work(a: int, b: int) -> tuple[int, ...]:
            base = part_of(self.base, slice(a, b))
            found: tuple[int, ...] = euclidean_moments(
                self.density[a:b], values, self.codes[a:b], 0.0, base, cap, step, 0.0, bound,
                grid.factors,
            )  # fmt: skip
            return found

        here = measure.threads.summed(self.codes.size, work, PICKED)
        total = measure.comm.allreduce(here, "sum").tolist()
        ends = step * values
        free = self.empty * ((ends > 0.0) & (ends < cap))
        masses = self.empty * np.clip(ends, 0.0, min(cap, bound))
        others = [masses, masses * values, free, free * values, free * values**2]
        sums = [
            mine + float(np.sum(o)) for mine, o in zip(sums_on(grid, total), others, strict=True)
        ]
        beyond = total[7] > 0 or bool(np.any((np.minimum(ends, cap) > bound) & (self.empty > 0.0)))
        return sums, beyond
