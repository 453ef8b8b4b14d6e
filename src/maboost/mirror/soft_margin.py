"""The minimum of a linear function over a domain: the soft margin, and the smallest edge."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from maboost.mirror.ascent import Projection, project_onto
from maboost.mirror.balls import least_mean
from maboost.mirror.domains import Domain, Simplex, SourceCaps
from maboost.mirror.measure import BaseMeasure
from maboost.mirror.projection import Projected
from maboost.mirror.regularizers import Regularizer
from maboost.runtime.communicator import sums_by_code
from maboost.runtime.tail_sums import lower_tail

__all__ = ["linear_minimum"]

Array = NDArray[np.float64]


def linear_minimum(
    values: Array,
    domain: Domain,
    measure: BaseMeasure,
    upper: float = math.inf,
    extent: tuple[float, float] | None = None,
    lowest: Array | None = None,
    projection: Projection = project_onto,
) -> float:
    r"""Return the minimum of :math:`\sum_i w_i v_i` over the distributions of `domain`.

    Rows fill up in ascending order, each no further than its cap, the rows of a source no further than its
    largest mass, and in each row the lowest entries first, none above a density of `upper`: the constraints
    are nested, so greedy is optimal. Off the
    plane of mass one the distributions are all of the simplex. Where they are known: `lowest` are the rows'
    lowest values, `extent` the least and the largest of those over all shards. In a ball around the base measure
    the minimum is that of a problem in one multiplier, which `projection` solves; the result is a value of the dual
    problem, and so never above the minimum but for rounding.

    >>> import numpy as np
    >>> from maboost.mirror import BaseMeasure, CappedSimplex, Simplex
    >>> v, rows = np.array([1.0, 2.0, 3.0, 4.0]), BaseMeasure(np.ones(4))
    >>> linear_minimum(v, Simplex(), rows), linear_minimum(v, CappedSimplex(2.0), rows)
    (1.0, 1.5)
    """
    limit = domain.divergence_limit()
    if limit is not None:

        def onto_simplex(regularizer: Regularizer, theta: Array) -> Projected:
            return projection(regularizer, Simplex(), theta, measure, None)

        return least_mean(values, limit, measure, onto_simplex, upper)
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
        limits = domain.source_caps()
        if isinstance(caps, np.ndarray) or not measure.alike or limits is not None:
            room = measure.room(caps)
        if limits is not None:
            room = _within_sources(rows, np.asarray(room), limits, measure)
        return lower_tail(rows, room, 1.0, measure, heaviest, extent).integral
    rank = np.argsort(np.argsort(table, axis=1, kind="stable"), axis=1)
    entry = np.minimum(upper * measure.entries, 1.0).reshape(table.shape)
    row = measure.room(domain.row_caps())[:, None]
    room = np.clip(row - rank * entry, 0.0, entry).reshape(-1)
    limits = domain.source_caps()
    if limits is not None:
        room = _within_sources(values, room, limits, measure)
    return lower_tail(values, room, 1.0, measure).integral


def _within_sources(values: Array, room: Array, limits: SourceCaps, measure: BaseMeasure) -> Array:
    """Return the room that its source leaves to each value if the lowest values come first.

    `values` has one entry for each row or for each entry. Values at the level where a source reaches its largest mass
    share the rest of it.
    """
    sources, masses = limits
    left, width = room.copy(), values.size // max(measure.rows, 1)
    by_row = room.reshape(measure.rows, width).sum(axis=1)
    rooms = sums_by_code(sources, by_row, masses.size, measure.comm)
    for g in np.flatnonzero(rooms > masses).tolist():
        part = measure.part(sources, (g,))
        at = (part.rows[:, None] * width + np.arange(width)).reshape(-1)
        its, room_here = values[at], room[at]
        tail = lower_tail(its, room_here, float(masses[g]), part.measure)
        level = its == tail.level
        there = measure.total(np.where(level, room_here, 0.0))
        share = min(max(masses[g] - tail.below, 0.0) / there, 1.0)
        left[at] = np.where(level, share * room_here, np.where(its < tail.level, room_here, 0.0))
    return left
