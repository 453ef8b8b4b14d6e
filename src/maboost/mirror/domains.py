r"""Domains: the sets of allowed distributions.

In densities :math:`u = w/D` a domain is a box or a ball around the base measure, cut or not by the plane of
total mass one:

=================  ==========================================  ==============================
domain             set                                         used by
=================  ==========================================  ==============================
Simplex            mass 1, :math:`u_i \ge 0`                   MABoost
CappedSimplex      mass 1, :math:`0 \le U_i \le k_i`           smooth and combined boosting
SourceCapped       the same, and each source has a largest     combined boosting with
                   mass :math:`c_g`                            `source_mass`
KLBall             mass 1, relative entropy to the base        robust boosting
                   measure at most :math:`\rho`
ChiSquareBall      mass 1, half the mean of :math:`(u-1)^2`    robust boosting
                   at most :math:`\rho`
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
from numbers import Real
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maboost.mirror.measure import BaseMeasure
from maboost.mirror.parameters import Component
from maboost.mirror.regularizers import Entropy, Euclidean, Regularizer
from maboost.runtime.communicator import sums_by_code

__all__ = [
    "CappedSimplex",
    "ChiSquareBall",
    "DivergenceLimit",
    "Domain",
    "Hypercube",
    "KLBall",
    "Orthant",
    "Simplex",
    "SourceCapped",
    "SourceCaps",
]

Array = NDArray[np.float64]


class SourceCaps(NamedTuple):
    """The largest mass of each source of rows, and the source of each row of this shard.

    >>> import numpy as np
    >>> SourceCaps(np.array([0, 1, 1]), np.array([1.0, 0.3])).capped
    array([False,  True,  True])
    """

    sources: NDArray[np.unsignedinteger]
    masses: Array

    @property
    def capped(self) -> NDArray[np.bool_]:
        """Whether the source of each row has a cap below one."""
        return np.asarray(self.masses[self.sources] < 1.0)


class DivergenceLimit(NamedTuple):
    r"""The largest divergence of a distribution from the base measure.

    .. math:: \sum_i D_i\varphi(u_i) - \varphi(1) \le \rho

    Attributes
    ----------
    regularizer : Regularizer
        The function :math:`\varphi`.
    radius : float
        The limit :math:`\rho`.

    >>> import numpy as np
    >>> limit = DivergenceLimit(Euclidean(), 0.5)
    >>> limit.divergence(np.array([2.0, 0.0]), BaseMeasure(np.ones(2)))
    0.5
    """

    regularizer: Regularizer
    radius: float

    def costs(self, u: Array) -> Array:
        r"""Return :math:`\varphi(u) - \varphi(1) - \varphi'(1)(u-1)`: zero at one and positive elsewhere."""
        one = np.ones(1)
        level, slope = float(self.regularizer.phi(one)[0]), float(self.regularizer.grad(one)[0])
        return np.asarray(self.regularizer.phi(u) - level - slope * (u - 1.0))

    def divergence(self, u: Array, measure: BaseMeasure) -> float:
        """Return the divergence of a density of mass one from the base measure."""
        (found,) = measure.integrals_of(lambda part: [self.costs(u[part])], 1)
        return found


class Domain(Component):
    """A set of densities; `normalised` says whether it lies in the plane of mass one.

    A domain of your own gives `row_caps`, or `entry_cap` off that plane, `restricted` where caps are one a
    row, and `check` where it can be empty. A ball around the base measure gives `divergence_limit` and no caps.

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
        """Return the largest total density of a row: one number, or one for each row (infinite: no cap)."""
        return math.inf

    @property
    def unbounded(self) -> bool:
        """Whether neither a row nor a source has a cap, and no divergence is too large."""
        caps = self.row_caps()
        return isinstance(caps, float) and math.isinf(caps) and self.single_shift

    @property
    def single_shift(self) -> bool:
        """Whether a projection subtracts one number from all entries that are below their cap."""
        return self.source_caps() is None and self.divergence_limit() is None

    def source_caps(self) -> SourceCaps | None:
        """Return the largest mass of each source; None if no source is limited to less than all mass."""
        return None

    def divergence_limit(self) -> DivergenceLimit | None:
        """The largest divergence from the base measure; None where there is no limit."""
        return None

    def with_row_caps_at_most(self, cap: float) -> Domain:
        """Return the part of this set of distributions in which no row has a density above `cap`."""
        return CappedSimplex(np.minimum(self.row_caps(), cap))

    def entry_cap(self) -> float:
        """Return the largest density of a single entry."""
        return math.inf

    @property
    def is_hypercube(self) -> bool:
        """Whether entries are bounded and the mass is free."""
        return not self.normalised and math.isfinite(self.entry_cap())

    def check(self, measure: BaseMeasure) -> None:
        """Raise ValueError if the set is empty for this base measure or does not fit its rows."""
        caps = np.shape(self.row_caps())
        if caps not in ((), (measure.rows,)):
            raise ValueError(
                f"{type(self).__name__}: row_caps() has shape {caps} but there are {measure.rows} rows of "
                "positive weight to train on: give one number, or one for each row, and let "
                "restricted(rows) select those of the remaining rows"
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
        """Raise ValueError if the row caps allow no distribution."""
        # an infinite cap anywhere makes the set feasible; the sum only needs to reach one
        room = measure.row_integral(np.minimum(self.row_caps(), 1.0 / measure.rows_base))
        if room < 1.0 - 1e-12:
            raise ValueError(
                f"{type(self).__name__}: no distribution fits under {caps}: they hold a mass of "
                f"{room:.6g} in all, and at least 1 is needed; raise the caps"
            )

    def refuse_lost_caps(self) -> None:
        """Raise ValueError where caps are of the kind that projections onto such a set know nothing of."""
        capped = np.any(np.isfinite(self.row_caps())) or self.source_caps() is not None
        if self.divergence_limit() is not None and (capped or not self.normalised):
            raise ValueError(
                f"{type(self).__name__}: a set with a divergence_limit holds distributions and has no caps; give "
                "the divergence limit or the caps"
            )
        if self.normalised and math.isfinite(self.entry_cap()):
            raise ValueError(
                f"{type(self).__name__}: on a set of distributions caps apply to rows; give row_caps, "
                "not entry_cap"
            )
        if not self.normalised and not self.unbounded:
            raise ValueError(
                f"{type(self).__name__}: if the mass is free, caps apply to entries; give entry_cap, "
                "not row_caps"
            )

    def restricted(self, rows: NDArray[np.bool_]) -> Domain:
        """Return the same set for a subset of the rows (those of positive weight)."""
        return self

    def includes(self, other: Domain, measure: BaseMeasure) -> bool:
        """Return whether every distribution of another set, over these rows, lies in this one.

        False too where that does not follow from the limits of the two sets.
        """
        most = np.minimum(other.row_caps(), 1.0 / measure.rows_base)
        highest, slack = measure.maximum(most) * measure.width, 1.0 + 1e-12
        if self.entry_cap() * slack < highest:
            return False
        if measure.minimum(self.row_caps() * slack - most) < 0.0:
            return False
        limits, theirs = self.source_caps(), other.source_caps()
        if limits is not None:
            held = sums_by_code(
                limits.sources, most * measure.rows_base, limits.masses.size, measure.comm
            )
            if theirs is not None and theirs.masses.size == held.size:
                same = (limits.sources == theirs.sources).astype(np.float64)
                if measure.minimum(same) >= 1.0:
                    held = np.minimum(held, theirs.masses)
            if np.any(held > limits.masses * slack):
                return False
        ball, their_ball = self.divergence_limit(), other.divergence_limit()
        if ball is None:
            return True
        reached = ball.regularizer.beta(1.0 / max(highest, 1.0))
        if their_ball is not None and ball.regularizer == their_ball.regularizer:
            reached = min(reached, their_ball.radius)
        return reached <= ball.radius * slack

    def contains(self, u: Array, measure: BaseMeasure, tol: float = 1e-9) -> bool:
        """Return whether the density `u` lies in the set, up to `tol`."""
        rows = u.reshape(measure.rows, measure.width).mean(axis=1)
        inside = bool(np.all(u >= -tol) and np.all(u <= self.entry_cap() * (1 + tol)))
        inside = inside and bool(np.all(rows <= self.row_caps() * (1 + tol) + tol))
        limit = self.divergence_limit()
        if limit is not None:
            # densities within `tol` of zero count as zero
            farthest = limit.divergence(np.maximum(u, 0.0), measure)
            inside = inside and farthest <= limit.radius * (1 + tol) + tol
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
        One cap for all rows, or one for each row; infinity means no cap. Feasible iff
        :math:`\sum D_i k_i \ge 1`.

    >>> CappedSimplex(10.0)
    CappedSimplex(caps=10.0)
    """

    caps: float | ArrayLike = 4.0

    def __post_init__(self) -> None:
        caps = np.asarray(self.caps, dtype=float)
        if caps.ndim > 1 or not np.all(caps > 0.0):  # or NaN
            raise ValueError(
                f"CappedSimplex: caps must be positive, one number or one for each row, got {self.caps!r}"
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
class SourceCapped(Domain):
    r"""Distributions in which no source of rows has more than a given mass.

    .. math:: \sum_{i \in g} w_i \le c_g \;\text{ for every source } g, \qquad w_i \le k_i D_i

    A cap on the rows alone does not limit a source: its rows together may hold all the mass.

    The certificate is about the soft margin over this set. There is no bound of the error on a source with
    :math:`c_g < 1`: its wrong rows may hold at most :math:`c_g`, so the distribution on them alone is not
    in the set. The error on the other sources has the same bound as without source caps.

    Parameters
    ----------
    sources : integer array of shape (n_rows,)
        The source of each row, as an index into `masses`.
    masses : array of shape (n_sources,)
        The largest mass :math:`c_g` of each source; one or more means no cap.
    caps : float or array of shape (n_rows,), default=inf
        The caps :math:`k_i` on the density of rows, as in :class:`CappedSimplex`. Feasible iff
        :math:`\sum_g \min(c_g, \sum_{i \in g} D_i k_i) \ge 1`.

    >>> import numpy as np
    >>> from maboost.mirror import BaseMeasure, Entropy, project
    >>> domain = SourceCapped(np.array([0, 1, 1, 1]), np.array([1.0, 0.3]))
    >>> found = project(Entropy(), domain, np.zeros(4), BaseMeasure(np.ones(4)))
    >>> (found.density / 4).round(3)  # the start: the second source has only 0.3 of the mass
    array([0.7, 0.1, 0.1, 0.1])
    """

    sources: ArrayLike
    masses: ArrayLike
    caps: float | ArrayLike = math.inf

    def __post_init__(self) -> None:
        sources, masses = np.asarray(self.sources), np.asarray(self.masses, dtype=np.float64)
        if masses.ndim != 1 or not np.all(masses > 0.0):  # or NaN
            raise ValueError(
                f"SourceCapped: masses must be positive, one for each source, got {self.masses!r}"
            )
        if sources.ndim != 1 or (sources.size and sources.dtype.kind not in "iu"):
            raise ValueError(
                f"SourceCapped: sources must be one integer for each row, got an array of {sources.dtype} with "
                f"{sources.ndim} dimensions"
            )
        if sources.size and not 0 <= int(sources.min()) <= int(sources.max()) < masses.size:
            raise ValueError(
                f"SourceCapped: sources must be indices into masses, 0 to {masses.size - 1}, got "
                f"{int(sources.min())} to {int(sources.max())}"
            )
        self._rows = CappedSimplex(self.caps)
        codes = np.uint16 if masses.size <= 1 << 16 else np.uint32  # short codes sort fastest
        self._limits = SourceCaps(sources.astype(codes), masses)

    def row_caps(self) -> Array | float:
        return self._rows.row_caps()

    def source_caps(self) -> SourceCaps | None:
        return self._limits if np.any(self._limits.masses < 1.0) else None

    def with_row_caps_at_most(self, cap: float) -> Domain:
        return SourceCapped(*self._limits, np.minimum(self.row_caps(), cap))

    def restricted(self, rows: NDArray[np.bool_]) -> Domain:
        sources, masses = self._limits
        if sources.shape != rows.shape:
            raise ValueError(
                f"SourceCapped: sources has {sources.size} entries but there are {rows.size} rows"
            )
        return SourceCapped(sources[rows], masses, self._rows.restricted(rows).row_caps())

    def check(self, measure: BaseMeasure) -> None:
        sources, masses = self._limits
        if sources.size != measure.rows:
            raise ValueError(
                f"SourceCapped: sources has {sources.size} entries but there are {measure.rows} rows of "
                "positive weight"
            )
        self._rows.check(measure)
        # an infinite cap gives a source all the room; the sum only needs to reach one
        room = np.minimum(self.row_caps() * measure.rows_base, 1.0)
        rooms = sums_by_code(sources, room, masses.size, measure.comm)
        total = math.fsum(np.minimum(rooms, masses))
        if total < 1.0 - 1e-12:
            raise ValueError(
                f"SourceCapped: no distribution fits under masses={masses.tolist()!r}: the sources may hold "
                f"a mass of {total:.6g} in all, and at least 1 is needed; raise the masses or the caps"
            )

    def contains(self, u: Array, measure: BaseMeasure, tol: float = 1e-9) -> bool:
        sources, masses = self._limits
        mass = measure.rows_base * u.reshape(measure.rows, measure.width).mean(axis=1)
        held = sums_by_code(sources, mass, masses.size, measure.comm)
        inside = bool(np.all(held <= masses * (1 + tol) + tol))
        return super().contains(u, measure, tol) and inside


@dataclass
class KLBall(Domain):
    r"""Distributions whose relative entropy to the base measure is at most `radius`.

    .. math:: \sum_i w_i \log\frac{w_i}{D_i} \le \rho

    The largest expected loss over this set is the loss of distributionally robust optimisation. All rows may
    have a weight, and no single row has a cap: a share :math:`\varepsilon` of the rows can hold all the mass if
    :math:`\varepsilon \ge e^{-\rho}`. Guarantee: error at most :math:`\max(e^{-\rho}, e^{-G})` with entropy.

    Parameters
    ----------
    radius : float, default=1.0
        The limit :math:`\rho`; positive and finite.

    >>> import numpy as np
    >>> from maboost.mirror import BaseMeasure, Entropy, project
    >>> found = project(Entropy(), KLBall(0.5), np.array([9.0, 0.0, 0.0, 0.0]), BaseMeasure(np.ones(4)))
    >>> (found.density / 4).round(3)
    array([0.727, 0.091, 0.091, 0.091])
    """

    radius: float = 1.0

    def __post_init__(self) -> None:
        self._limit = _limit(self, Entropy())

    def divergence_limit(self) -> DivergenceLimit:
        return self._limit


@dataclass
class ChiSquareBall(Domain):
    r"""Distributions within a :math:`\chi^2` ball around the base measure.

    .. math:: \tfrac12 \sum_i D_i (u_i - 1)^2 \le \rho, \qquad u_i = w_i/D_i

    Over this set the largest expected loss is about the mean loss plus :math:`\sqrt{2\rho}` standard deviations. A
    share :math:`\varepsilon` of the rows can hold all the mass if :math:`\varepsilon \ge 1/(1+2\rho)`. Guarantee:
    error at most :math:`\max(1/(1+2\rho), 1/(1+2G))` with the Euclidean regularizer.

    Parameters
    ----------
    radius : float, default=1.0
        The limit :math:`\rho`; positive and finite.

    >>> import numpy as np
    >>> from maboost.mirror import BaseMeasure, Euclidean, project
    >>> found = project(Euclidean(), ChiSquareBall(0.5), np.array([9.0, 0.0, 0.0, 0.0]), BaseMeasure(np.ones(4)))
    >>> (found.density / 4).round(3)
    array([0.683, 0.106, 0.106, 0.106])
    """

    radius: float = 1.0

    def __post_init__(self) -> None:
        self._limit = _limit(self, Euclidean())

    def divergence_limit(self) -> DivergenceLimit:
        return self._limit


def _limit(ball: KLBall | ChiSquareBall, regularizer: Regularizer) -> DivergenceLimit:
    """Return the divergence limit of a ball, or raise ValueError where the radius is none."""
    name, radius = type(ball).__name__, ball.radius
    if not (isinstance(radius, Real) and 0.0 < radius < math.inf):
        raise ValueError(
            f"{name}: radius must be positive and finite, got {radius!r}; Simplex() is the set of all "
            "distributions"
        )
    return DivergenceLimit(regularizer, float(radius))


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
