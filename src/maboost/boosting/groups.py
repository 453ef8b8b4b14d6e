"""Groups of rows whose errors are recorded by themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maboost.mirror.coded import Coded
from maboost.mirror.measure import BaseMeasure

__all__ = ["Groups"]


class Groups:
    """Rows of one shard, each in a group.

    Parameters
    ----------
    names : sequence
        Of the groups of all shards.
    members : integer array of shape (n_rows,)
        The place of each row's group among the names.

    Examples
    --------
    >>> import numpy as np
    >>> from maboost.mirror import BaseMeasure
    >>> groups = Groups(["trusted", "scraped"], np.array([0, 0, 1]))
    >>> groups.errors(np.array([True, False, False]), BaseMeasure(np.ones(3)))
    {'trusted': 0.5, 'scraped': 0.0}
    """

    def __init__(self, names: Sequence[Any], members: NDArray[np.integer]) -> None:
        self.names = list(names)
        codes = members.astype("u2" if len(self.names) <= 1 << 16 else "u4")
        self._coded = Coded(np.zeros(len(self.names)), codes)
        self._known: tuple[BaseMeasure, dict[Any, float]] | None = None

    def shares(self, measure: BaseMeasure) -> dict[Any, float]:
        """The measure of each, over all shards. Kept for the last measure asked."""
        if self._known is None or self._known[0] is not measure:
            self._known = measure, self._masses(np.ones(measure.rows), measure)
        return self._known[1]

    def errors(self, wrong: NDArray[np.bool_], measure: BaseMeasure) -> dict[Any, float]:
        """The fraction of each that is wrong, over all shards."""
        shares, wrongs = self.shares(measure), self._masses(wrong.astype(np.float64), measure)
        return {name: wrongs[name] / share for name, share in shares.items()}

    def _masses(self, density: NDArray[np.float64], measure: BaseMeasure) -> dict[Any, float]:
        found = self._coded.masses(density, measure.of_rows).tolist()
        return dict(zip(self.names, found, strict=True))
