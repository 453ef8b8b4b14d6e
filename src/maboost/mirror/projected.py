"""The result of a projection, and how the fast ones walk over rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from maboost.mirror.measure import BaseMeasure
from maboost.runtime.exact_sum import FixedPoint, fixed_point

__all__ = ["Projected"]

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

ROUNDING = 2e-14  # of a mass of one: what sums leave, and a mass this near is met
MASS_TOLERANCE = 1e-13  # of a mass of one: nearer than this no projection is promised


class Projected:
    """A projection and its dual point.

    Attributes
    ----------
    density : array
        The projection u.
    center, tau : float
        The shift: ``(theta - center) - tau`` is the dual point before any cap. Two numbers, because
        their sum may not resolve what their parts do.

    Examples
    --------
    >>> import numpy as np
    >>> from maboost.mirror import BaseMeasure, Euclidean, Simplex, project
    >>> found = project(Euclidean(), Simplex(), np.array([2.0, 1.0]), BaseMeasure(np.ones(2)))
    >>> found.density, found.center + found.tau
    (array([1.5, 0.5]), 0.5)
    """

    def __init__(
        self,
        density: Array,
        center: float,
        tau: float,
        dual: Callable[[], Array],
    ) -> None:
        self.density = density
        self.center = center
        self.tau = tau
        self._dual = dual

    @cached_property
    def dual(self) -> Array:
        """The gradient at `density`, kept in dual coordinates (logs for entropy).

        A density that underflowed to zero still knows here how small it is.
        """
        return self._dual()


def part_of(caps: Array | float, part: slice) -> Array | float:
    return caps[part] if isinstance(caps, np.ndarray) else caps


def sample(n: int) -> slice:
    """Some of n entries, spread evenly, at most about 4096: enough for a first guess."""
    return slice(0, n, max(n // min(max(n // 32, 512), 4096), 1))


def mass_scale(caps: Array | float, measure: BaseMeasure, most: float = 1.0) -> FixedPoint:
    """The grid for sums of base, of base*p with p <= most and of base*cap."""
    finite = measure.highest_caps(caps)[1]
    return fixed_point(measure.largest * max(finite, most), measure.count)


def joined(parts: list[tuple[Integers, Array]]) -> tuple[Integers, Array]:
    """Sums and entries of several parts as one."""
    if len(parts) == 1:
        return parts[0]
    return np.sum([sums for sums, _ in parts], axis=0), np.hstack([found for _, found in parts])
