"""Groups of rows whose errors are recorded separately."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maboost.engine.leaf_codes import LeafCodes
from maboost.mirror.measure import BaseMeasure
from maboost.runtime.communicator import sums_by_code

__all__ = ["Groups"]

Array = NDArray[np.float64]


class Groups:
    """The rows of one shard, each in a group.

    Parameters
    ----------
    names : sequence
        Names of the groups of all shards.
    members : integer array of shape (n_rows,)
        The index of each row's group among the names.
    capped : bool, default=False
        Whether rows of some group, on any shard, have caps. A run then records the largest densities.

    Examples
    --------
    >>> import numpy as np
    >>> from maboost.mirror import BaseMeasure
    >>> groups = Groups(["trusted", "scraped"], np.array([0, 0, 1]))
    >>> groups.errors(np.array([True, False, False]), BaseMeasure(np.ones(3)))
    {'trusted': 0.5, 'scraped': 0.0}
    """

    def __init__(
        self, names: Sequence[Any], members: NDArray[np.integer], capped: bool = False
    ) -> None:
        self.names = list(names)
        self.capped = capped
        codes = members.astype("u2" if len(self.names) <= 1 << 16 else "u4")
        self._coded = LeafCodes(np.zeros(len(self.names)), codes)
        self._known: tuple[BaseMeasure, Array, Array] | None = None

    def shares(self, measure: BaseMeasure) -> dict[Any, float]:
        """Return the measure of each group, over all shards."""
        return dict(zip(self.names, self._shares(measure).tolist(), strict=True))

    def errors(self, wrong: NDArray[np.bool_], measure: BaseMeasure) -> dict[Any, float]:
        """Return the fraction of each group that is wrong, over all shards."""
        if self._known is None or self._known[0] is not measure:
            # powers of two that give all groups about the same weight, so that one grid resolves them all
            factors = np.ldexp(1.0, np.minimum(-np.frexp(self._shares(measure))[1], 1000))
            self._known = measure, factors, self._masses(factors[self._coded.codes], measure)
        _, factors, wholes = self._known
        wrongs = self._masses(np.where(wrong, factors[self._coded.codes], 0.0), measure)
        return dict(zip(self.names, (wrongs / wholes).tolist(), strict=True))

    def largest(self, density: Array, measure: BaseMeasure) -> Array:
        """Return the largest density of a row in each group, over all shards; `density` has one entry for each row."""
        found = np.zeros(len(self.names))
        np.maximum.at(found, self._coded.codes, density)
        return measure.comm.allreduce(found, "max")

    def _shares(self, measure: BaseMeasure) -> Array:
        codes, count = self._coded.codes, len(self.names)
        return sums_by_code(codes, measure.rows_base, count, measure.comm)

    def _masses(self, density: Array, measure: BaseMeasure) -> Array:
        return self._coded.masses(density, measure.of_rows, float(len(self.names)))
