r"""Online mirror descent for losses that arrive one at a time.

In round t the player plays a point :math:`w_t` of a convex set and sees a loss vector :math:`g_t` (a linear loss,
or a subgradient of a convex one at :math:`w_t`). The regret is the difference between the paid losses and those of
the best fixed point. Boosting is the dual of this game; here it is played directly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maboost.mirror.ascent import AscentState, MirrorAscent, Update
from maboost.mirror.balls import largest_divergence
from maboost.mirror.domains import Domain, Simplex
from maboost.mirror.measure import BaseMeasure
from maboost.mirror.regularizers import Entropy, Regularizer
from maboost.mirror.soft_margin import linear_minimum

__all__ = ["OnlineMirrorDescent"]

Array = NDArray[np.float64]


@dataclass
class OnlineMirrorDescent:
    r"""Mirror descent on linear or convex losses, with its regret and a bound on it.

    .. math:: w_{t+1} = \arg\min_{w \in S}\; \eta\langle g_t, w\rangle + \eta\alpha\lVert w\rVert_1
                        + B_R(w, \cdot)

    **Guarantee.** For losses in [-1, 1], Entropy on the simplex and
    :math:`\eta = \sqrt{2\log n/T}` the regret is at most :math:`\sqrt{2T\log n}`. The attribute
    `regret_bound` is computed from the gains of the actual rounds, and is never worse.

    Parameters
    ----------
    n : int
        Number of coordinates.
    learning_rate : float, default=0.1
        The step :math:`\eta`.
    regularizer : Regularizer, default=Entropy()
    domain : Domain, default=Simplex()
    update : {"active", "lazy"}, default="active"
    l1 : float, default=0.0
        Composite (COMID) penalty; Euclidean on the orthant.
    optimistic : bool, default=False
        Play as if the next loss were the hint (the last loss unless one is given). The regret is small if
        losses change slowly (Rakhlin and Sridharan, 2013).
    via : Domain, optional
        Double projection through this larger set; active update only.
    base : array, optional
        Base measure over coordinates, uniform by default.

    References
    ----------
    Hazan (2009), "A survey: the convex optimization approach to regret minimization";
    Naghibi and Pfister (2014), "A boosting framework on grounds of online learning".

    Examples
    --------
    >>> import numpy as np
    >>> game = OnlineMirrorDescent(3, learning_rate=0.2)
    >>> for t in range(200):
    ...     _ = game.observe(np.array([0.1, 0.5, 0.9]))
    >>> game.point.round(3)
    array([1., 0., 0.])
    >>> bool(0 <= game.regret <= game.regret_bound)
    True
    """

    n: int
    learning_rate: float = 0.1
    regularizer: Regularizer = field(default_factory=Entropy)
    domain: Domain = field(default_factory=Simplex)
    update: Update = "active"
    l1: float = 0.0
    optimistic: bool = False
    via: Domain | None = None
    base: ArrayLike | None = None

    def __post_init__(self) -> None:
        if not self.learning_rate > 0.0:
            raise ValueError(f"learning_rate must be positive, got {self.learning_rate!r}")
        if self.l1 < 0.0:
            raise ValueError(f"l1 must not be negative, got {self.l1!r}")
        weights = np.ones(self.n) if self.base is None else self._checked("base", self.base)
        self._measure = BaseMeasure(weights)
        self._ascent = MirrorAscent(self.regularizer, self.domain, self.update, self.via)
        self._state = self._ascent.start(self._measure)
        self._played = self._state
        self._gain = 0.0
        self._total = np.zeros(self.n)
        self.rounds = 0
        self.loss = 0.0

    @property
    def point(self) -> Array:
        """The point to play now: a distribution if the domain is a set of distributions."""
        return self._measure.entries * self._played.density

    def observe(self, gradient: ArrayLike, hint: ArrayLike | None = None) -> float:
        """Pay for the point played, learn from `gradient`, move; return the loss that was paid.

        Parameters
        ----------
        gradient : array of shape (n,)
            The loss vector, or a subgradient of a convex loss at `point`.
        hint : array of shape (n,), optional
            The expected next loss, for the optimistic update.
        """
        g = self._checked("gradient", gradient)
        following = g if hint is None else self._checked("hint", hint)
        paid = self._measure.total(self.point * (g + self.l1))
        moved = self._move(self._state, g)
        self._state = moved[0]
        self._gain += moved[1]
        self._total += g
        self.loss += paid
        self.rounds += 1
        self._played = self._state
        if self.optimistic:
            self._played = self._move(self._state, following)[0]
        return paid

    def _checked(self, name: str, values: ArrayLike) -> Array:
        array = np.asarray(values, dtype=float)
        if array.shape != (self.n,) or not np.all(np.isfinite(array)):
            raise ValueError(f"{name} must be {self.n} finite numbers, got shape {array.shape}")
        return array

    def _move(self, state: AscentState, g: Array) -> tuple[AscentState, float]:
        moved = self._ascent.move(state, -g, self.learning_rate, self._measure, self.l1)
        return moved.state, moved.gain

    def regret_against(self, point: ArrayLike) -> float:
        """Return the regret against playing `point` in every round."""
        w = np.asarray(point, dtype=float)
        return self.loss - self._measure.total(w * (self._total + self.rounds * self.l1))

    @property
    def regret(self) -> float:
        """Regret against the best fixed point of the domain (for convex losses, an upper bound)."""
        if self.domain.normalised:
            upper = self.regularizer.upper
            best = linear_minimum(self._total, self.domain, self._measure, upper)
            return self.loss - best  # without a penalty, which acts only if the mass is free
        cap = self.domain.entry_cap()
        if math.isinf(cap):
            raise ValueError(
                "on the orthant a fixed point can be arbitrarily good; use regret_against(point)"
            )
        costs = np.minimum(self._total + self.rounds * self.l1, 0.0)
        return self.loss - self._measure.total(cap * self._measure.entries * costs)

    @property
    def regret_bound(self) -> float:
        r"""A bound on `regret` from the gains: :math:`\sum\langle g_t,w_t\rangle - (G - \max_S B_R)/\eta`."""
        if not self.domain.normalised:
            raise ValueError("the bound is stated for sets of distributions")
        caps = np.minimum(self.domain.row_caps(), self.regularizer.upper)
        highest = self._measure.maximum(np.minimum(caps, 1.0 / self._measure.entries))
        radius = self.regularizer.beta(1.0 / max(highest, 1.0))
        limit = self.domain.divergence_limit()
        if limit is not None:
            radius = min(radius, largest_divergence(self.regularizer, limit, highest))
        return self.loss - (self._gain - radius) / self.learning_rate
