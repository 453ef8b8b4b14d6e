r"""The certificates of a run, which follow from its total gain alone.

Everything follows from one inequality (see :mod:`maboost.mirror.ascent`): for every distribution
:math:`w^*` of the domain, :math:`\sum w^*_i M_i \ge G - B_R(w^*, D)`. Putting :math:`w^*` on the rows
that are misclassified bounds the error; putting it on the worst rows bounds the margin.
"""

from __future__ import annotations

import math
import sys
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maboost.boosting.history import History, Record
from maboost.boosting.rounding import at_least, at_most
from maboost.mirror.ascent import AscentState, MirrorAscent
from maboost.mirror.balls import largest_divergence
from maboost.mirror.measure import BaseMeasure
from maboost.mirror.regularizers import Euclidean, Regularizer
from maboost.runtime.text import escaped

__all__ = ["Certificate", "ErrorBound", "GroupBound", "MarginBound", "Totals"]

Array = NDArray[np.float64]

_ROUNDING = 1e-12  # of evaluating a bound, relative to it or to a potential of one
_PER_ROUND = 1e-12  # the error in the mass of a projection, at most
_PER_STEP = 1e-13  # the same for a projection that moves its shift by a whole step
_PER_VALUE = 32.0 * sys.float_info.epsilon  # relative to the terms of a round's gain


@dataclass(frozen=True)
class Totals:
    r"""Sums over the rounds of a run.

    Attributes
    ----------
    rounds : int
    gain : float
        Total gain G.
    magnitude : float
        The sum of the absolute gains, or of the larger terms from which they were computed (`Moved.magnitude`).
    steps : float
        The sum of the steps.
    penalty : float
        :math:`A = \sum_t \eta_t\alpha_t`, zero unless the booster is SparseBoost with a penalty.

    >>> Totals().plus(gain=0.25, step=0.5).plus(gain=-0.125, step=1.0)
    Totals(rounds=2, gain=0.125, magnitude=0.375, steps=1.5, penalty=0.0)
    """

    rounds: int = 0
    gain: float = 0.0
    magnitude: float = 0.0
    steps: float = 0.0
    penalty: float = 0.0

    def plus(
        self, gain: float, step: float, penalty: float = 0.0, magnitude: float = 0.0
    ) -> Totals:
        """Return the sums after one more round; the magnitude is at least the absolute gain."""
        return Totals(
            self.rounds + 1,
            self.gain + gain,
            self.magnitude + max(abs(gain), magnitude),
            self.steps + step,
            self.penalty + penalty,
        )

    @classmethod
    def of(cls, records: Iterable[Record]) -> Totals:
        """Return the sums over the rounds of a history."""
        totals = cls()
        for record in records:
            totals = totals.plus(record.gain, record.step, record.penalty)
        return totals


@dataclass(frozen=True)
class ErrorBound:
    r"""The certified training error as a function of the total gain G.

    .. math:: \varepsilon \le \max\bigl(1/\min_i k_i,\; (K-1)\,\beta^{-1}(G)\bigr)

    Off the plane of mass one a potential takes the place of :math:`\beta^{-1}(G)`. There the density that is
    one on the pairs that are wrong and zero elsewhere is a point of the domain too, and its divergence from
    the base measure is :math:`c(1-\varepsilon)` with :math:`c = \varphi(0) - \varphi(1) + \varphi'(1)`, so that

    .. math:: \varepsilon \le 1 - G/c .

    On the hypercube (MadaBoost, c = 1) that is :math:`\Phi = 1 - G`.

    On the orthant in the Euclidean geometry (SparseBoost) the state s gives a better bound. Every round adds
    at least :math:`\eta_t(d_{t,i} - \alpha_t)` to :math:`s_i`, which starts at one. So
    :math:`s_i \ge 1 - M_i - A` with :math:`A = \sum_t\eta_t\alpha_t`. A wrong pair has
    :math:`M_i \le 0` and keeps :math:`s_i \ge 1 - A`, hence

    .. math:: \varepsilon \le (K-1)\,\min\Bigl(\frac{\|s_T\|_D^2}{(1-A)^2},\; \frac{n_T}{1-A}\Bigr),
              \qquad \|s_T\|_D^2 = \sum_i D_i s_i^2 = 1 - 2A - 2G, \qquad n_T = \sum_i D_i s_i .

    A step rule with :math:`G \ge 0`, such as every rule of this library, has :math:`A \le 1/2`. If the steps of
    another rule bring A to one or more, there is no bound. The first term is at most :math:`1 - 2G`,
    which is at most Theorem 4's :math:`1/(1+2G)`.

    **Rounding.** A gain is a difference of two potentials. Its rounding error grows with the terms from which it
    was computed, and these are at most a multiple of the sums in :class:`Totals`: :meth:`certified` is the
    total gain less a bound on all rounding errors.

    Sources with a largest mass below one (:class:`maboost.mirror.SourceCapped`) may be wrong on all rows, so
    their base mass is added to the bound of the others. The run then starts at
    :math:`u_1 = \Pi_S(1) \ne 1`, and :math:`G + B_R(u_1, 1)` replaces :math:`G`.

    In a ball of radius :math:`\rho` (:class:`maboost.mirror.KLBall`, :class:`maboost.mirror.ChiSquareBall`) all mass
    may lie evenly on a share :math:`\varepsilon` of the pairs if :math:`\beta_\psi(\varepsilon) \le \rho`, with the
    function :math:`\psi` of the ball. So the floor is :math:`(K-1)\beta_\psi^{-1}(\rho)`.

    >>> import numpy as np
    >>> from maboost.boosting import smooth
    >>> bound = ErrorBound.of(smooth(4.0).ascent, BaseMeasure(np.ones(100)))
    >>> round(bound(1.0), 4), bound(10.0)  # e^-1, and then the floor 1/4
    (0.3679, 0.25)
    """

    regularizer: Regularizer
    potential: float  # what a unit of gain takes from it, 1/c; 0 where there is none
    width: int
    floor: float
    squares: bool = False  # whether the state s of the orthant bounds the error
    uncertified: float = 0.0  # base mass of the sources with a largest mass below one
    start: float = 0.0  # the divergence of the first distribution from the base measure
    radius: float = math.inf  # the largest divergence of a distribution of the domain

    @classmethod
    def of(cls, ascent: MirrorAscent, measure: BaseMeasure) -> ErrorBound:
        """Return the bound of a booster on these rows."""
        potential = _potential(ascent)
        if potential:
            squares = _euclidean_orthant(ascent)
            return cls(ascent.regularizer, potential, measure.width, 0.0, squares)
        caps, limits, uncertified = ascent.domain.row_caps(), ascent.domain.source_caps(), 0.0
        if limits is not None:
            uncertified = measure.row_integral(limits.capped.astype(np.float64))
            caps = np.where(limits.capped, math.inf, caps)
        tightest = caps if isinstance(caps, float) else measure.minimum(caps)
        floor = uncertified + max(1.0 / tightest, measure.width / ascent.regularizer.upper)
        limit, radius = ascent.domain.divergence_limit(), math.inf
        if limit is not None:  # that of all mass evenly on a share of the pairs
            radius = limit.radius
            level = limit.regularizer.error_level(radius) * (1.0 + _ROUNDING)
            floor = max(floor, measure.width * level)
        return cls(
            ascent.regularizer, 0.0, measure.width, min(floor, 1.0), False, min(uncertified, 1.0),
            _start_divergence(ascent, measure), radius,
        )  # fmt: skip

    def pairs(self, gain: float) -> float:
        """Return the largest base mass of wrong pairs that a total gain allows, rounded up.

        Pairs of sources with a largest mass below one do not count.
        """
        if not math.isfinite(gain):  # a step so long that it overflowed: there is no bound
            return 1.0
        if self.potential:
            return min(_left(self.potential * gain), 1.0)
        return min(self.regularizer.error_level(gain + self.start) * (1.0 + _ROUNDING), 1.0)

    def __call__(self, gain: float, penalty: float = 0.0) -> float:
        """Return the bound after a total gain, with the total penalty A."""
        if self.squares and math.isfinite(gain):
            squares = max(1.0 - 2.0 * (gain + penalty), 0.0)
            room = 1.0 - (min(penalty, 0.5) if gain >= 0.0 else penalty)
            return self._of_squares(squares, math.inf, room)
        return min(1.0, max(self.floor, self.uncertified + self.width * self.pairs(gain)))

    def of_run(self, totals: Totals, state: AscentState) -> float:
        """Return the bound of a run that has reached `state`, with room for rounding errors."""
        if not self.squares:
            return self(self.certified(totals))
        room = 1.0 - totals.penalty - self.rounding(totals)
        return self._of_squares(2.0 * state.potential, state.mass, room)

    def _of_squares(self, squares: float, mass: float, room: float) -> float:
        """Return the bound from the integrals of s^2 and s, and the least s of a wrong pair."""
        if not (room > 0.0 and math.isfinite(squares)):
            return 1.0
        pairs = min(squares / room**2, mass / room) * (1.0 + _ROUNDING) + _ROUNDING
        return min(1.0, self.width * pairs)

    def rounding(self, totals: Totals) -> float:
        r"""Return a bound on the rounding error of the total gain, over all rounds.

        A dual point has entries within :math:`|\varphi'(1)| + 2\sum_t\eta_t` of zero: a step changes the differences
        between entries by at most twice its length, a projection onto distributions leaves entries on both
        sides of :math:`\varphi'(1)`, and clipping brings entries closer together. A potential is an integral
        over a mass of one; where the mass is free, the mass and the potential grow no faster than the sum of
        absolute gains and penalties. In a ball of radius :math:`\rho` an error in the divergence of a projection counts
        times its multiplier, which is at most the range of the dual point over :math:`\rho`.
        """
        largest = self._at_start + 2.0 * totals.steps
        added = totals.magnitude + totals.penalty
        largest = largest * (1.0 + added) if self.potential else largest + added
        largest *= 1.0 + 1.0 / self.radius
        every_round: float = totals.rounds * (_PER_ROUND + _PER_VALUE * largest)
        return every_round + _PER_STEP * totals.steps

    @cached_property
    def _at_start(self) -> float:
        """The magnitudes of phi(0), phi(1) and phi'(1) together."""
        zero, one = self.regularizer.phi(np.array([0.0, 1.0])).tolist()
        slope = float(self.regularizer.grad(np.array([1.0]))[0])
        total: float = abs(zero) + abs(one) + abs(slope)
        return total

    def gain_at_floor(self, measure: BaseMeasure) -> float:
        """Return a gain from which on the bound promises no more: it is at its floor, or below every row."""
        if self.potential:
            return (1.0 - 0.5 * measure.smallest_row / self.width) / self.potential
        level = max(0.5 * measure.smallest_row, self.floor - self.uncertified) / self.width
        target = self.regularizer.beta(max(min(level, 1.0), 1.0 / self.regularizer.upper))
        return target * (1.0 + 1e-9) + 1e-9

    def certified(self, totals: Totals) -> float:
        """Return the total gain, rounded down by its rounding error."""
        return totals.gain - self.rounding(totals)

    def of_group(
        self, gain: float, share: float, limit: float | None, mass: float | None = None
    ) -> float:
        r"""Return the bound for a data source of base mass `share`: :math:`\max(\ell_g, (K-1)\beta^{-1}(G)/\pi_g)`.

        It is one, which certifies nothing, if the source has a largest mass.
        """
        if mass is not None:
            return 1.0
        return min(1.0, max(limit or 0.0, self.width * self.pairs(gain) / share))


def _left(gain: float) -> float:
    """Return the rest of a potential of one after a gain, rounded up."""
    return max(1.0 - gain, 0.0) + _ROUNDING


def _start_divergence(ascent: MirrorAscent, measure: BaseMeasure) -> float:
    """Return the divergence of the first distribution from the base measure, rounded down.

    It is computed if sources have a largest mass. Elsewhere it is zero, unless some row cap is below one.
    """
    if ascent.domain.source_caps() is None:
        return 0.0
    start = ascent.start(measure).density
    (cost,) = measure.integrals([ascent.regularizer.phi(start)])
    one = float(ascent.regularizer.phi(np.array([1.0]))[0])
    return max(cost - one - _ROUNDING * (1.0 + abs(cost) + abs(one)), 0.0)


def _potential(ascent: MirrorAscent) -> float:
    """Return the fall per unit of gain of the potential that bounds the error; 0 if there is no such potential."""
    if ascent.domain.normalised:
        return 0.0
    zero, one = ascent.regularizer.phi(np.array([0.0, 1.0])).tolist()
    slope = float(ascent.regularizer.grad(np.array([1.0]))[0])
    return 1.0 / float(zero - one + slope)


def _euclidean_orthant(ascent: MirrorAscent) -> bool:
    """Return whether densities are unbounded and the regularizer is half their squares."""
    domain = ascent.domain
    return type(ascent.regularizer) is Euclidean and not (domain.normalised or domain.is_hypercube)


@dataclass(frozen=True)
class MarginBound:
    r"""The certified unnormalised soft margin as a function of the total gain: :math:`G - \max_S B_R`.

    The maximum is :math:`\beta(1/k)` at the largest density k an entry can have: the cap, or all the
    mass on the lightest row, which makes the bound one on the smallest margin. Where sources have a largest
    mass, that takes the place of all the mass, and the divergence of the first distribution is added. In a ball the
    maximum is the radius, or a bound on it where the regularizer is another function than the ball's. Off the plane of mass one
    (see :class:`ErrorBound`) a density of x on the lightest entry, of measure D, and zero elsewhere says more.
    With x = 1 the bound is :math:`c(1 - (1 - G/c)/D)`; on the orthant in the Euclidean geometry the best x gives
    :math:`1 - \sqrt{(1 - 2G)/D}`. There the state of a run gives more still, since :math:`s_i \ge 1 - M_i - A` (see
    :class:`ErrorBound`) while :math:`D s_i^2 \le \|s_T\|_D^2` and :math:`D s_i \le n_T`:

    .. math:: M_i \ge 1 - A - \min\Bigl(\sqrt{\|s_T\|_D^2/D},\; n_T/D\Bigr) .

    >>> import numpy as np
    >>> from maboost.boosting import smooth
    >>> bound = MarginBound.of(smooth(4.0).ascent, BaseMeasure(np.ones(100)))
    >>> round(bound(2.0), 4)  # 2 - log 4
    0.6137
    """

    start: float
    potential: float = 0.0
    lightest: float = 1.0
    squares: bool = (
        False  # whether densities are unbounded and the regularizer is half their squares
    )

    @classmethod
    def of(cls, ascent: MirrorAscent, measure: BaseMeasure) -> MarginBound:
        """Return the bound for a mirror ascent over the rows of a measure."""
        potential = _potential(ascent)
        if potential:
            lightest = measure.smallest_row / measure.width
            return cls(0.0, potential, lightest, _euclidean_orthant(ascent))
        limits, most = ascent.domain.source_caps(), 1.0 / measure.rows_base
        if limits is not None:
            most *= np.minimum(limits.masses[limits.sources], 1.0)
        highest = measure.maximum(np.minimum(ascent.domain.row_caps(), most))
        highest = min(highest * measure.width, ascent.regularizer.upper)
        farthest = ascent.regularizer.beta(1.0 / max(highest, 1.0))
        limit = ascent.domain.divergence_limit()
        if limit is not None:
            farthest = min(farthest, largest_divergence(ascent.regularizer, limit, highest))
        return cls(farthest - _start_divergence(ascent, measure))

    def of_run(self, totals: Totals, rounding: float, state: AscentState) -> float:
        """Return the bound of a run that has reached `state`; `rounding` is that of its total gain."""
        if not self.squares:
            return self(totals.gain - rounding)
        left = min(math.sqrt(2.0 * state.potential / self.lightest), state.mass / self.lightest)
        left = left * (1.0 + _ROUNDING) + _ROUNDING
        bound = 1.0 - totals.penalty - rounding - left
        return bound if math.isfinite(bound) else -math.inf

    def __call__(self, gain: float) -> float:
        if not math.isfinite(gain):
            return -math.inf
        if not self.potential:
            # even a small gain is the difference of two potentials
            return gain - self.start - _ROUNDING * (1.0 + abs(gain) + abs(self.start))
        share = _left(self.potential * gain) / self.lightest
        if not self.squares:
            return (1.0 - share) / self.potential
        # no mass above one, which a penalty would count
        x = min(math.sqrt(share), 1.0 / self.lightest)
        return 1.0 - 0.5 * (x + share / x)


@dataclass(frozen=True)
class GroupBound:
    """Certified and measured error on one data source.

    `mass` is the largest share of the distribution that the source may have; None without such a limit. With a
    limit no error is certified, and `error_bound` is 1.

    >>> GroupBound(share=0.5, limit=0.2, error_bound=0.2, measured_error=0.13).limit
    0.2
    """

    share: float
    limit: float | None
    error_bound: float
    measured_error: float
    mass: float | None = None


@dataclass(frozen=True)
class Certificate:
    r"""The certified and the measured error and margin of a run, with their assumptions.

    Attributes
    ----------
    rounds : int
        The number of hypotheses in the ensemble.
    gain : float
        Total gain G. The bounds use it after a bound on all rounding errors is subtracted.
    error_bound, measured_error : float
        Training error under the base measure: its bound, and its measured value (a tie is an error).
    margin_bound, soft_margin, min_margin : float
        Soft margin over the domain: its bound and its measured value; and the smallest margin of a row. All
        are divided by the sum of steps. On the simplex the soft margin is the smallest margin.
    best_margin_bound : float
        The smallest edge. If `exact`, no ensemble of this class can have a larger soft margin.
    exact : bool
        Whether the learner is known to return the best edge of its class, so that
        `best_margin_bound` is rigorous and not only indicative.
    floor : float
        The error below which the domain certifies nothing more.
    stopped : str
        The reason why the run ended.
    penalty : float
        Total penalty :math:`A = \sum_t\eta_t\alpha_t` of SparseBoost; at most 1/2 with the steps of this library.
    last_gain, last_penalty : float
        The last round's contribution to `gain` and `penalty`.
    groups : mapping
        Per data source, for combined boosting.
    inert_rows : int
        Rows that took no part: their weight is zero, or so small that it underflowed.
    given_labels : bool
        Whether flip rates were given. The certificate is then about the weighted error on the given labels of
        the training rows; the last line of its text is all that it says about their true labels.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from maboost import MABoostClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> certificate = MABoostClassifier(n_estimators=20, random_state=0).fit(X, y).certificate_
    >>> certificate.measured_error <= certificate.error_bound
    True
    """

    regularizer: str
    domain: str
    update: str
    rounds: int
    gain: float
    error_bound: float
    measured_error: float
    margin_bound: float
    soft_margin: float
    min_margin: float
    best_margin_bound: float
    exact: bool
    floor: float
    stopped: str
    n_classes: int = 2
    last_gain: float = 0.0
    penalty: float = 0.0
    last_penalty: float = 0.0
    inert_rows: int = 0
    groups: Mapping[Any, GroupBound] = field(default_factory=dict)
    given_labels: bool = False
    bound: ErrorBound | None = field(default=None, repr=False, compare=False)

    def upto(self, history: History, stopped: str) -> Certificate:
        """Return the certificate of the same booster after the rounds of `history`."""
        records = history.records
        totals = Totals.of(records)
        last = records[-1] if records else None
        one_class = self.n_classes == 1  # nothing can be wrong
        streamed = self.bound is None and not one_class  # the margins are unknown then
        groups = {}
        for name, group in self.groups.items():
            if self.bound is None:  # one class only
                groups[name] = group
                continue
            errors = history.group_errors.get(name, [])
            groups[name] = replace(
                group,
                error_bound=self.bound.of_group(
                    self.bound.certified(totals), group.share, group.limit, group.mass
                ),
                measured_error=errors[-1] if errors else 1.0,
            )
        return replace(
            self,
            rounds=len(records),
            gain=totals.gain,
            penalty=totals.penalty,
            error_bound=last.error_bound if last else 0.0 if one_class else 1.0,
            measured_error=last.train_error if last else 0.0 if one_class else 1.0,
            margin_bound=last.margin_bound if last else -math.inf,
            soft_margin=last.soft_margin if last else math.nan if streamed else 0.0,
            min_margin=last.min_margin if last else math.nan if streamed else 0.0,
            best_margin_bound=min((r.edge for r in records), default=1.0),
            exact=self.exact and bool(records),
            last_gain=last.gain if last else 0.0,
            last_penalty=last.penalty if last else 0.0,
            stopped=stopped,
            groups=groups,
        )

    @property
    def gap(self) -> float:
        """An upper bound on the distance of the soft margin from the best: `best_margin_bound - soft_margin`."""
        return self.best_margin_bound - self.soft_margin

    def rounds_needed(self, target_error: float, group: Any = None) -> int | None:
        """Return the rounds still needed to certify `target_error` if every round gains as much as the last.

        With `group`, a name in `groups`, the error is that on this data source. None if the domain's floor, the limit of
        the source or a last gain of zero makes it unreachable.
        """
        its = None if group is None else self.groups[group]
        if (self.error_bound if its is None else its.error_bound) <= target_error:
            return 0
        if not self.last_gain > 0.0 or self.bound is None:
            return None
        bound = self.bound

        def reached(rounds: int) -> bool:
            gain = self.gain + rounds * self.last_gain
            if its is not None:
                return bound.of_group(gain, its.share, its.limit, its.mass) <= target_error
            return bound(gain, self.penalty + rounds * self.last_penalty) <= target_error

        longest = 10**12
        if not reached(longest):
            return None
        return 1 + bisect_left(range(1, longest), True, key=reached)

    def __str__(self) -> str:
        unknown = math.isnan(self.measured_error)  # the stream ended with its last round
        measured = "not measured" if unknown else f"measured {self.measured_error:.4g}"
        lines = [
            f"{self.rounds} rounds, {self.regularizer} on {self.domain}, {self.update} update; "
            f"stopped: {escaped(str(self.stopped))}",
            f"  training error   certified <= {at_most(self.error_bound)}   {measured}"
            + (f"   (nothing is promised below {at_most(self.floor)})" if self.floor > 0 else ""),
        ]
        if math.isnan(self.soft_margin):
            lines.append(
                "  assumes: rows of the stream are drawn independently; holds with the confidence asked for"
            )
            return "\n".join(lines)
        lines.append(
            f"  soft margin      certified >= {at_least(self.margin_bound)}   measured {self.soft_margin:.4g}"
            f"   (smallest margin {self.min_margin:.4g})"
        )
        if self.exact:
            lines.append(
                f"  best possible    <= {at_most(self.best_margin_bound)}, gap {at_most(self.gap)}"
            )
        else:
            lines.append(
                f"  smallest edge    {self.best_margin_bound:.4g}   (no bound of the best margin: the learner "
                "is not exact over its class)"
            )
        for name, group in self.groups.items():
            limit = "primary" if group.limit is None else f"limit {group.limit:.4g}"
            certified = f"certified <= {at_most(group.error_bound)}"
            if group.mass is not None:
                limit, certified = f"at most {group.mass:.4g} of the weight", "not certified"
            lines.append(
                f"  {escaped(str(name)):<16} {certified}   measured {group.measured_error:.4g}   "
                f"({limit}, share {group.share:.3g})"
            )
        if self.inert_rows:
            lines.append(f"  {self.inert_rows} rows of no weight took no part")
        lines.append("  assumes: nothing beyond the training rows and their weights")
        if self.given_labels:
            lines.append(
                "  bounds: the weighted error on given labels of the training rows; the error on their true "
                "labels is at most the error on given labels plus the share of wrong labels"
            )
        return "\n".join(lines)
