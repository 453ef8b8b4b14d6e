r"""Domains: which distributions are allowed.

In densities :math:`u = w/D` every domain is a box, cut or not by the plane of total mass one:

=================  ==========================================  ==============================
domain             set                                         used by
=================  ==========================================  ==============================
Simplex            mass 1, :math:`u_i \ge 0`                   MABoost
CappedSimplex      mass 1, :math:`0 \le U_i \le k_i`           smooth and combined boosting
Orthant            :math:`u_i \ge 0`                           SparseBoost
Hypercube          :math:`0 \le u_i \le b`                     MadaBoost
=================  ==========================================  ==============================

A row has one entry in binary problems and one per wrong class otherwise; :math:`U_i` is the mean of
the row's entries, so :math:`D_iU_i` is the row's total mass. Off the plane, the booster's
distribution is the point divided by its mass.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maboost.mirror.measure import BaseMeasure
from maboost.mirror.params import Component

__all__ = ["CappedSimplex", "Domain", "Hypercube", "Orthant", "Simplex"]

Array = NDArray[np.float64]


class Domain(Component):
    """A set of densities; `normalised` says whether it lies in the plane of mass one.

    A domain of your own gives `row_caps`, or `entry_cap` off that plane, `restricted` where caps are one a
    row, and `check` where it can be empty.

    >>> import numpy as np
    >>> from maboost.mirror import BaseMeasure
    >>> class AtMostTwice(Domain):
    ...     def row_caps(self):
    ...         return 2.0
    >>> AtMostTwice().contains(np.array([3.0, 0.0, 0.0]), BaseMeasure(np.ones(3)))
    False
    """

    normalised: ClassVar[bool] = True

    def row_caps(self) -> Array | float:
        """The largest total density of a row: one number, or one a row (infinite: no cap)."""
        return math.inf

    @property
    def unbounded(self) -> bool:
        """Whether no row has a cap."""
        caps = self.row_caps()
        return isinstance(caps, float) and math.isinf(caps)

    def entry_cap(self) -> float:
        """The largest density of a single entry."""
        return math.inf

    @property
    def is_hypercube(self) -> bool:
        """Whether entries are bounded and the mass is free."""
        return not self.normalised and math.isfinite(self.entry_cap())

    def check(self, measure: BaseMeasure) -> None:
        """Raise ValueError where the set is empty for this base measure or does not fit its rows."""
        caps = np.shape(self.row_caps())
        if caps not in ((), (measure.rows,)):
            raise ValueError(
                f"{type(self).__name__}: row_caps() has shape {caps} but there are {measure.rows} rows of "
                "positive weight to train on: give one number or one a row, and those of the rows that "
                "are left from restricted(rows)"
            )
        self._check_positive("row_caps()", self.row_caps())
        self._check_positive("entry_cap()", self.entry_cap())
        if self.normalised and not self.unbounded:
            self._check_room(measure, "row_caps()")

    def _check_positive(self, name: str, caps: Array | float) -> None:
        given = np.asarray(caps)
        if given.dtype.kind != "f":
            raise ValueError(
                f"{type(self).__name__}: {name} must give a float or an array of floats, got "
                f"{type(caps).__name__} of {given.dtype}"
            )
        wrong = given[~(given > 0.0)]  # or NaN
        if wrong.size:
            raise ValueError(
                f"{type(self).__name__}: {name} must be positive, and infinite where there is no "
                f"cap, got {wrong[0].item()!r}"
            )

    def _check_room(self, measure: BaseMeasure, caps: str) -> None:
        """Raise ValueError where row caps, as the user knows them, leave no distribution."""
        # an infinite cap anywhere makes the set feasible; the sum only needs to reach one
        room = measure.row_integral(np.minimum(self.row_caps(), 1.0 / measure.rows_base))
        if room < 1.0 - 1e-12:
            raise ValueError(
                f"{type(self).__name__}: no distribution fits under {caps}: they hold a mass of "
                f"{room:.6g} in all, and at least 1 is needed; raise the caps"
            )

    def refuse_lost_caps(self) -> None:
        """Raise ValueError where caps are of the kind that projections onto such a set know nothing of."""
        if self.normalised and math.isfinite(self.entry_cap()):
            raise ValueError(
                f"{type(self).__name__}: on a set of distributions caps are on rows; give row_caps, "
                "not entry_cap"
            )
        if not self.normalised and not self.unbounded:
            raise ValueError(
                f"{type(self).__name__}: where the mass is free caps are on entries; give entry_cap, "
                "not row_caps"
            )

    def restricted(self, rows: NDArray[np.bool_]) -> Domain:
        """The same set for some of the rows (those of positive weight)."""
        return self

    def contains(self, u: Array, measure: BaseMeasure, tol: float = 1e-9) -> bool:
        """Whether the density `u` lies in the set, up to `tol`."""
        rows = u.reshape(measure.rows, measure.width).mean(axis=1)
        inside = bool(np.all(u >= -tol) and np.all(u <= self.entry_cap() * (1 + tol)))
        inside = inside and bool(np.all(rows <= self.row_caps() * (1 + tol) + tol))
        return inside and (not self.normalised or abs(measure.integral(u) - 1.0) <= tol)


@dataclass
class Simplex(Domain):
    """Every distribution over the rows.

    >>> Simplex()
    Simplex()
    """


@dataclass
class CappedSimplex(Domain):
    r"""Smooth distributions: :math:`w_i \le k_i D_i`.

    Parameters
    ----------
    caps : float or array of shape (n_rows,)
        One cap for all rows or one a row; infinity means no cap. Feasible iff
        :math:`\sum D_i k_i \ge 1`.

    >>> CappedSimplex(10.0)
    CappedSimplex(caps=10.0)
    """

    caps: float | ArrayLike = 4.0

    def __post_init__(self) -> None:
        caps = np.asarray(self.caps, dtype=float)
        if caps.ndim > 1 or not np.all(caps > 0.0):  # or NaN
            raise ValueError(
                f"CappedSimplex: caps must be positive, one number or one a row, got {self.caps!r}"
            )

    def row_caps(self) -> Array | float:
        if isinstance(self.caps, float):
            return self.caps
        if isinstance(self.caps, np.ndarray) and self.caps.dtype == np.float64 and self.caps.ndim:
            return self.caps
        caps = np.asarray(self.caps, dtype=np.float64)
        return float(caps) if caps.ndim == 0 else caps

    def restricted(self, rows: NDArray[np.bool_]) -> Domain:
        caps = self.row_caps()
        if isinstance(caps, float):
            return self
        if caps.shape != rows.shape:
            raise ValueError(
                f"CappedSimplex: caps has {caps.shape[0]} entries but there are {rows.shape[0]} rows"
            )
        return CappedSimplex(caps[rows])

    def check(self, measure: BaseMeasure) -> None:
        caps = self.row_caps()
        if np.ndim(caps) == 1 and np.shape(caps) != (measure.rows,):
            raise ValueError(
                f"CappedSimplex: caps has {np.shape(caps)[0]} entries but there are {measure.rows} "
                "rows of positive weight"
            )
        self._check_room(measure, f"caps={self.caps!r}")


@dataclass
class Orthant(Domain):
    """Non-negative densities of any mass: the first projection of SparseBoost.

    >>> Orthant().normalised
    False
    """

    normalised: ClassVar[bool] = False


@dataclass
class Hypercube(Domain):
    """Densities between 0 and `bound`, of any mass: the first projection of MadaBoost.

    >>> Hypercube(2.0).entry_cap()
    2.0
    """

    bound: float = 1.0
    normalised: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not self.bound >= 1.0:
            raise ValueError(
                f"Hypercube: bound must be at least 1, where every booster starts, got {self.bound!r}"
            )

    def entry_cap(self) -> float:
        return float(self.bound)
