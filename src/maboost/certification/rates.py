"""Flip rates, known or known up to intervals, as what they do to losses.

With T the matrix of P(given | true), a function of the true class with values L has the unbiased estimate
:math:`T^{-1}L` on given labels. Multiplied by the determinant of T the entries are affine in the rate of
every class, so that the least and the largest of what follows from them are at corners of a box of rates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maboost.noise.corrections import transition_matrix

__all__ = ["FlipRates", "flip_rates_of"]

Array = NDArray[np.float64]

_MOST_INTERVALS = 8  # the corners double with each


@dataclass(frozen=True)
class FlipRates:
    """The corners of the region of flip rates.

    Attributes
    ----------
    inverses : array of shape (n_corners, n_classes, n_classes)
        The inverse of T times its determinant.
    determinants : array of shape (n_corners,)
        Positive.
    centre : array of shape (n_classes, n_classes)
        The inverse of T at the middle of the region.
    estimated : bool
        Whether there are intervals, so that the region may miss the true rates.
    """

    inverses: Array
    determinants: Array
    centre: Array
    estimated: bool


def flip_rates_of(flip_rates: Any, classes: list[Any]) -> FlipRates:
    """Flip rates as users give them: as in `transition_matrix`, or with intervals ``{class: (low, high)}``."""
    given = getattr(flip_rates, "intervals", flip_rates)
    given = given() if callable(given) else given
    names: list[Any] = []
    if isinstance(given, Mapping):
        names = [name for name, value in given.items() if not isinstance(value, Real)]
    if len(names) > _MOST_INTERVALS:
        raise ValueError(
            f"flip_rates has intervals for {len(names)} classes; at most {_MOST_INTERVALS} are supported: "
            "give single rates for the others"
        )
    ends = [_interval(given[name], name) for name in names]
    corners = [dict(zip(names, corner, strict=True)) for corner in product(*ends)]
    matrices = [_matrix(given, corner, flip_rates, classes) for corner in corners]
    middle = {name: 0.5 * (low + high) for name, (low, high) in zip(names, ends, strict=True)}
    determinants = np.array([np.linalg.det(T) for T in matrices])
    if not (np.all(determinants > 0.0) or np.all(determinants < 0.0)):
        raise ValueError(
            f"flip_rates={flip_rates!r} leave nothing to learn: at some rates within the intervals different "
            "true classes lead to the same given labels. Narrower intervals need more audited rows"
        )
    inverses = np.stack(
        [np.linalg.inv(T) * abs(d) for T, d in zip(matrices, determinants, strict=True)]
    )
    centre = np.asarray(np.linalg.inv(_matrix(given, middle, flip_rates, classes)), np.float64)
    return FlipRates(inverses, np.abs(determinants), centre, bool(names))


def _matrix(given: Any, corner: Mapping[Any, float], flip_rates: Any, classes: list[Any]) -> Array:
    try:
        return transition_matrix({**given, **corner} if corner else given, classes)
    except ValueError as error:
        if corner and "leave nothing to learn" in str(error):
            raise ValueError(
                f"flip_rates={flip_rates!r} leave nothing to learn at the rates {dict(corner)!r} within the "
                "intervals. Narrower intervals need more audited rows"
            ) from None
        raise


def _interval(value: Any, name: Any) -> tuple[float, float]:
    ends = value if isinstance(value, tuple | list) else ()
    numbers = [e for e in ends if isinstance(e, Real) and not isinstance(e, bool)]
    if len(ends) != 2 or len(numbers) != 2 or not 0.0 <= ends[0] <= ends[1] <= 1.0:
        raise ValueError(
            f"flip_rates: the rate of {name!r} must be a number in [0, 1] or an interval (low, high) of two, "
            f"got {value!r}"
        )
    return float(ends[0]), float(ends[1])
