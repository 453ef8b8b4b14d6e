"""The smallest value of a linear function over a domain: the soft margin, and the smallest edge."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from maboost.mirror.domains import Domain
from maboost.mirror.measure import BaseMeasure
from maboost.mirror.tails import lower_tail

__all__ = ["linear_minimum"]

Array = NDArray[np.float64]


def linear_minimum(
    values: Array,
    domain: Domain,
    measure: BaseMeasure,
    upper: float = math.inf,
    extent: tuple[float, float] | None = None,
    lowest: Array | None = None,
) -> float:
    r"""The minimum of :math:`\sum_i w_i v_i` over the distributions of `domain`.

    Rows fill up in ascending order, each no further than its cap, and in each row the lowest entries
    first, none above a density of `upper`: the constraints are nested, so greedy is optimal. Off the
    plane of mass one the distributions are all of the simplex. Where they are known: `lowest` are the rows'
    lowest values, `extent` the least and the largest of those over all shards.

    >>> import numpy as np
    >>> from maboost.mirror import BaseMeasure, CappedSimplex, Simplex
    >>> v, rows = np.array([1.0, 2.0, 3.0, 4.0]), BaseMeasure(np.ones(4))
    >>> linear_minimum(v, Simplex(), rows), linear_minimum(v, CappedSimplex(2.0), rows)
    (1.0, 1.5)
    """
    table = values.reshape(-1, measure.width)
    if math.isinf(upper):
        rows = values if measure.width == 1 else lowest
        if rows is None:
            rows = table.min(axis=1)
        if domain.unbounded:
            return measure.minimum(rows) if extent is None else extent[0]
        caps = measure.caps_in_reach(domain.row_caps())
        heaviest = min(measure.highest_caps(caps)[0] * measure.of_rows.largest, 1.0)
        room: Array | float = heaviest
        if isinstance(caps, np.ndarray) or not measure.alike:
            room = measure.room(caps)
        return lower_tail(rows, room, 1.0, measure, heaviest, extent).integral
    rank = np.argsort(np.argsort(table, axis=1, kind="stable"), axis=1)
    entry = np.minimum(upper * measure.entries, 1.0).reshape(table.shape)
    row = measure.room(domain.row_caps())[:, None]
    room = np.clip(row - rank * entry, 0.0, entry)
    return lower_tail(values, room.reshape(-1), 1.0, measure).integral
