r"""What a run promises, from its total gain alone.

Everything follows from one inequality (see :mod:`maboost.mirror.ascent`): for every distribution
:math:`w^*` of the domain, :math:`\sum w^*_i M_i \ge G - B_R(w^*, D)`. Putting :math:`w^*` on the rows
that are misclassified bounds the error; putting it on the worst rows bounds the margin.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maboost.boosting.history import History
from maboost.boosting.rounding import at_least, at_most
from maboost.mirror.ascent import MirrorAscent
from maboost.mirror.measure import BaseMeasure
from maboost.mirror.regularizers import Euclidean, Regularizer
from maboost.text import escaped

__all__ = ["Certificate", "ErrorBound", "GroupBound", "MarginBound"]

Array = NDArray[np.float64]

_ROUNDING = 1e-12  # of sums of gains, and of what follows from them: bounds are further off by that


@dataclass(frozen=True)
class ErrorBound:
    r"""The certified training error as a function of the total gain.

    .. math:: \varepsilon \le \max\bigl(1/\min_i k_i,\; (K-1)\,\beta^{-1}(G)\bigr)

    Off the plane of mass one a potential takes the place of :math:`\beta^{-1}(G)`. There the density that is
    one on the pairs that are wrong and zero elsewhere is a point of the domain too, and its divergence from
    the base measure is :math:`c(1-\varepsilon)` with :math:`c = \varphi(0) - \varphi(1) + \varphi'(1)`, so that

    .. math:: \varepsilon \le 1 - G/c .

    On the hypercube (MadaBoost, c = 1) that is :math:`\Phi = 1 - G`; on the orthant (SparseBoost, c = 1/2)
    :math:`1 - 2G`, which is :math:`\sum_i D_i s_i^2` without a penalty. It is never above :math:`\beta^{-1}(G)`:
    Theorem 4's :math:`1/(1+2G)` cannot fall under one half. With a penalty it holds all the more, since that
    is :math:`\eta_t\alpha_t(\varepsilon - 1) \le 0` for a density of mass :math:`\varepsilon`.

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

    @classmethod
    def of(cls, ascent: MirrorAscent, measure: BaseMeasure) -> ErrorBound:
        """The bound of a booster on these rows."""
        potential = _potential(ascent)
        if potential:
            return cls(ascent.regularizer, potential, measure.width, 0.0)
        caps = ascent.domain.row_caps()
        tightest = caps if isinstance(caps, float) else measure.minimum(caps)
        floor = max(1.0 / tightest, measure.width / ascent.regularizer.upper)
        return cls(ascent.regularizer, 0.0, measure.width, min(floor, 1.0))

    def pairs(self, gain: float) -> float:
        """The largest base mass of wrong pairs that a total gain allows, rounded up."""
        if not math.isfinite(gain):  # a step so long that it overflowed: nothing is known
            return 1.0
        if self.potential:
            return min(_left(self.potential * gain), 1.0)
        return min(self.regularizer.error_level(gain) * (1.0 + _ROUNDING), 1.0)

    def __call__(self, gain: float) -> float:
        return min(1.0, max(self.floor, self.width * self.pairs(gain)))

    def of_group(self, gain: float, share: float, limit: float | None) -> float:
        r"""The same for a data source of base mass `share`: :math:`\max(\ell_g, (K-1)\beta^{-1}(G)/\pi_g)`."""
        return min(1.0, max(limit or 0.0, self.width * self.pairs(gain) / share))


def _left(gain: float) -> float:
    """What is left of a potential of one, rounded up."""
    return max(1.0 - gain, 0.0) + _ROUNDING


def _potential(ascent: MirrorAscent) -> float:
    """What a unit of gain takes from the potential that bounds the error; 0 where there is none."""
    if ascent.domain.normalised:
        return 0.0
    zero, one = ascent.regularizer.phi(np.array([0.0, 1.0])).tolist()
    slope = float(ascent.regularizer.grad(np.array([1.0]))[0])
    return 1.0 / float(zero - one + slope)


@dataclass(frozen=True)
class MarginBound:
    r"""From the total gain to the certified unnormalised soft margin: :math:`G - \max_S B_R`.

    The maximum is :math:`\beta(1/k)` at the largest density k an entry can have: the cap, or all the
    mass on the lightest row, which makes the bound one on the smallest margin. Off the plane of mass one
    (see :class:`ErrorBound`) a density of x on the lightest entry, of measure D, and zero elsewhere says more.
    With x = 1 the bound is :math:`c(1 - (1 - G/c)/D)`; on the orthant in the Euclidean geometry the best x gives
    :math:`1 - \sqrt{(1 - 2G)/D}`.

    >>> import numpy as np
    >>> from maboost.boosting import smooth
    >>> bound = MarginBound.of(smooth(4.0).ascent, BaseMeasure(np.ones(100)))
    >>> round(bound(2.0), 4)  # 2 - log 4
    0.6137
    """

    start: float
    potential: float = 0.0
    lightest: float = 1.0
    squares: bool = False  # whether densities have no end and cost half their squares

    @classmethod
    def of(cls, ascent: MirrorAscent, measure: BaseMeasure) -> MarginBound:
        """For a mirror ascent over the rows of a measure."""
        potential = _potential(ascent)
        if potential:
            squares = type(ascent.regularizer) is Euclidean and not ascent.domain.is_hypercube
            return cls(0.0, potential, measure.smallest_row / measure.width, squares)
        highest = measure.maximum(np.minimum(ascent.domain.row_caps(), 1.0 / measure.rows_base))
        highest = min(highest * measure.width, ascent.regularizer.upper)
        return cls(ascent.regularizer.beta(1.0 / max(highest, 1.0)))

    def __call__(self, gain: float) -> float:
        if not math.isfinite(gain):
            return -math.inf
        if not self.potential:
            # a gain, however small, is the difference of two potentials
            return gain - self.start - _ROUNDING * (1.0 + abs(gain) + self.start)
        share = _left(self.potential * gain) / self.lightest
        if not self.squares:
            return (1.0 - share) / self.potential
        # no mass above one, which a penalty would count
        x = min(math.sqrt(share), 1.0 / self.lightest)
        return 1.0 - 0.5 * (x + share / x)


@dataclass(frozen=True)
class GroupBound:
    """Certified and measured error on one data source.

    >>> GroupBound(share=0.5, limit=0.2, error_bound=0.2, measured_error=0.13).limit
    0.2
    """

    share: float
    limit: float | None
    error_bound: float
    measured_error: float


@dataclass(frozen=True)
class Certificate:
    r"""What is promised, what was measured, and under which assumption.

    Attributes
    ----------
    rounds : int
        Hypotheses in the ensemble.
    gain : float
        Total certified gain G.
    error_bound, measured_error : float
        Training error under the base measure: at most, and as counted (a tie is an error).
    margin_bound, soft_margin, min_margin : float
        Soft margin over the domain: at least, and as measured; and the smallest margin of a row. All
        divided by the sum of steps. On the simplex the soft margin is the smallest margin.
    best_margin_bound : float
        The smallest edge: no ensemble of this class can have a larger soft margin, if `exact`.
    exact : bool
        Whether the learner is known to return the best edge of its class, so that
        `best_margin_bound` is rigorous and not only indicative.
    floor : float
        The error below which the domain promises nothing more.
    stopped : str
        Why the run ended.
    groups : mapping
        Per data source, for combined boosting.
    inert_rows : int
        Rows that took no part: weight zero, or so small that it underflowed.

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
    inert_rows: int = 0
    groups: Mapping[Any, GroupBound] = field(default_factory=dict)
    bound: ErrorBound | None = field(default=None, repr=False, compare=False)

    def upto(self, history: History, stopped: str) -> Certificate:
        """The same booster's certificate after the rounds of `history`."""
        records = history.records
        gain = sum(r.gain for r in records)
        last = records[-1] if records else None
        one_class = self.n_classes == 1  # nothing can be wrong
        streamed = self.bound is None and not one_class  # margins are not known then
        groups = {}
        for name, group in self.groups.items():
            if self.bound is None:  # one class only
                groups[name] = group
                continue
            errors = history.group_errors.get(name, [])
            groups[name] = replace(
                group,
                error_bound=self.bound.of_group(gain, group.share, group.limit),
                measured_error=errors[-1] if errors else 1.0,
            )
        return replace(
            self,
            rounds=len(records),
            gain=gain,
            error_bound=last.error_bound if last else 0.0 if one_class else 1.0,
            measured_error=last.train_error if last else 0.0 if one_class else 1.0,
            margin_bound=last.margin_bound if last else -math.inf,
            soft_margin=last.soft_margin if last else math.nan if streamed else 0.0,
            min_margin=last.min_margin if last else math.nan if streamed else 0.0,
            best_margin_bound=min((r.edge for r in records), default=1.0),
            exact=self.exact and bool(records),
            last_gain=last.gain if last else 0.0,
            stopped=stopped,
            groups=groups,
        )

    @property
    def gap(self) -> float:
        """How far the soft margin may be from the best: `best_margin_bound - soft_margin`."""
        return self.best_margin_bound - self.soft_margin

    def rounds_needed(self, target_error: float) -> int | None:
        """Rounds still needed to certify `target_error` if every round gains what the last did.

        None where the domain's floor or a last gain of zero makes it unreachable.
        """
        if self.error_bound <= target_error:
            return 0
        if target_error < self.floor or not self.last_gain > 0.0 or self.bound is None:
            return None
        bound, gain, more = self.bound, self.gain, self.last_gain
        longest = 10**12
        if bound(gain + longest * more) > target_error:
            return None
        return bisect_left(
            range(longest), True, key=lambda rounds: bound(gain + rounds * more) <= target_error
        )

    def __str__(self) -> str:
        unknown = math.isnan(self.measured_error)  # a stream that ended with its last round
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
            lines.append(
                f"  {escaped(str(name)):<16} certified <= {at_most(group.error_bound)}   measured "
                f"{group.measured_error:.4g}   ({limit}, share {group.share:.3g})"
            )
        if self.inert_rows:
            lines.append(f"  {self.inert_rows} rows of no weight took no part")
        lines.append("  assumes: nothing beyond the training rows and their weights")
        return "\n".join(lines)
