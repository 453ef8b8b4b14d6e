"""Flip rates, known or known up to intervals, in the form that the losses need.

With T the matrix of P(given | true), a function of the true class with values L has the unbiased estimate
:math:`T^{-1}L` on given labels. Multiplied by the determinant of T the entries are affine in the rate of
every class, so the extremes of all quantities that follow from them are at corners of a box of rates.

If groups of rows have rates of their own, the entries of every group are multiplied by the determinants of all
groups. A common factor of all rows cancels in ratios of sums over groups, and the entries stay affine in every
single rate.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maboost.noise.corrections import transition_matrix

__all__ = ["FlipRates", "GroupRates", "flip_rates_of", "rates_by_group"]

Array = NDArray[np.float64]

_MOST_INTERVALS = 8  # each interval doubles the number of corners


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
        Whether some rates are intervals, which may miss the true rates.
    """

    inverses: Array
    determinants: Array
    centre: Array
    estimated: bool


@dataclass(frozen=True)
class GroupRates:
    """The flip rates of rows in groups with rates of their own, or in one group.

    Attributes
    ----------
    groups : tuple of FlipRates
        The rates of each group.
    inverses : array of shape (n_corners, n_groups, n_classes, n_classes)
        The inverse of each group's T times the determinants of all groups. The corners are all combinations of the
        groups' corners.
    determinants : array of shape (n_corners,)
        The product of the determinants of all groups.
    centre : array of shape (n_groups, n_classes, n_classes)
        The inverse of each T at the middle of its region.
    """

    groups: tuple[FlipRates, ...]
    inverses: Array
    determinants: Array
    centre: Array

    @classmethod
    def of(cls, groups: Sequence[FlipRates]) -> GroupRates:
        """Return the rates of all groups together."""
        corners = [np.arange(len(own.determinants)) for own in groups]
        if math.prod(map(len, corners)) > 2**_MOST_INTERVALS:
            raise ValueError(
                f"flip_rates by group have more than {_MOST_INTERVALS} intervals in all groups together: give "
                "single rates for some classes, or certify each group by itself"
            )
        # the corner of each group, by corner of all groups
        chosen = [c.ravel() for c in np.meshgrid(*corners, indexing="ij")]
        factors = np.stack([own.determinants[at] for own, at in zip(groups, chosen, strict=True)])
        inverses = [
            own.inverses[at] * np.prod(np.delete(factors, g, axis=0), axis=0)[:, None, None]
            for g, (own, at) in enumerate(zip(groups, chosen, strict=True))
        ]
        centre = np.stack([own.centre for own in groups])
        return cls(tuple(groups), np.stack(inverses, axis=1), np.prod(factors, axis=0), centre)

    @property
    def estimated(self) -> bool:
        """Whether some rates are intervals."""
        return any(own.estimated for own in self.groups)


def rates_by_group(
    flip_rates: Any, groups: Sequence[Any], classes: Sequence[Any]
) -> dict[Any, Any] | None:
    """Return the flip rates of each group, if `flip_rates` is a dict by group; None if it is not.

    Keys are the names of groups, or ``("group", name)`` as in `limits`. A dict whose keys are both groups and
    classes is by group if some value is itself a dict, a matrix or an estimate.
    """
    if not isinstance(flip_rates, Mapping) or not groups:
        return None
    named = {_group_of(key, groups): value for key, value in flip_rates.items()}
    if not any(name in groups for name in named):
        return None
    plain = [key for key in flip_rates if key in groups]
    if len(plain) == len(flip_rates) and all(key in classes for key in plain):
        if all(_is_rate(value) for value in flip_rates.values()):
            raise ValueError(
                f"flip_rates={flip_rates!r} are ambiguous: {plain[0]!r} is a group and a class. Name groups by "
                f"('group', {plain[0]!r}), or give the rates of the classes as a matrix"
            )
    elif all(key in classes for key in flip_rates):
        return None
    unknown = [name for name in named if name not in groups]
    if unknown or len(named) < len(flip_rates):
        what = f"names {unknown[0]!r}, which is no group" if unknown else "names a group twice"
        raise ValueError(f"flip_rates {what}; the groups are {list(groups)!r}")
    missing = [name for name in groups if name not in named]
    if missing:
        raise ValueError(
            f"flip_rates are by group, and do not name {missing[0]!r}: give each group its rates, 0.0 where all "
            "labels are right"
        )
    return {name: named[name] for name in groups}


def _group_of(key: Any, groups: Sequence[Any]) -> Any:
    """Return the name of the group in a key ``("group", name)``; any other key unchanged."""
    marked = isinstance(key, tuple) and len(key) == 2 and key[0] == "group" and key not in groups
    return key[1] if marked else key


def _is_rate(value: Any) -> bool:
    """Return whether a value can be the rate of a class: a number, or an interval of two."""
    interval = isinstance(value, tuple | list) and all(isinstance(end, Real) for end in value)
    return isinstance(value, Real) or interval


def flip_rates_of(flip_rates: Any, classes: list[Any]) -> FlipRates:
    """Return flip rates of one kind of rows: as in `transition_matrix`, or with intervals ``{class: (low, high)}``."""
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
