r"""Step rules, which choose the length of a step along a hypothesis.

=============  ==================================================  ================================
name           step :math:`\eta_t`                                 for
=============  ==================================================  ================================
`paper`        :meth:`MirrorAscent.paper_step` (:math:`\gamma_t`)  Theorems 1 and 3 to 5 literally
`maxmargin`    the paper's step over :math:`\sqrt t`               Theorem 2
`corrective`   the maximiser of the gain                           the default
`adaboostv`    AdaBoost's step less that of the least edge so far  the largest margin
=============  ==================================================  ================================

The gain is concave in the step and its derivative is the edge of the hypothesis under the *next*
distribution, so the corrective step makes that edge zero. With entropy, the
simplex and votes it is AdaBoost's :math:`\tfrac12\log\frac{1+\gamma}{1-\gamma}`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Real
from typing import Any, Protocol

import numpy as np
import scipy
from numpy.typing import NDArray

from maboost.mirror.ascent import AscentState, MirrorAscent, Projection, project_onto
from maboost.mirror.measure import BaseMeasure
from maboost.mirror.parameters import Component
from maboost.mirror.regularizers import Entropy
from maboost.mirror.soft_margin import linear_minimum

__all__ = ["AdaBoostV", "Corrective", "MaxMargin", "Paper", "Situation", "Step", "StepRule"]

Array = NDArray[np.float64]

LONGEST_STEP = 64.0
CLEARLY_POSITIVE = 1e-9  # an edge larger than the rounding of any projection
_ZERO_EDGE = 1e-13


@dataclass(frozen=True)
class Step:
    """A step, and whether it reaches the floor of the error bound.

    `guess` is a guess of the projection's next shift; it only saves time.

    >>> Step(0.5)
    Step(size=0.5, final=False, guess=None)
    """

    size: float
    final: bool = False
    guess: float | None = None


class StepFinder(Protocol):
    """An object that finds corrective steps and shifts of projections faster than a bracketed search."""

    def corrective_step(self, situation: Situation) -> Step | None:
        """Return the step of largest gain; None if it is not found."""

    def shift_after(
        self, situation: Situation, share: float, step: float, shift: float | None
    ) -> float | None:
        """Return the projection's shift after a share of a step; None if it is not known."""


@dataclass(frozen=True, eq=False)
class Situation:
    """The information that a step rule may use.

    Attributes
    ----------
    ascent, state, measure
        The mirror ascent, its state, and the base measure.
    direction : array or LeafCodes
        The loss vector d of the hypothesis, as codes and a table if it takes few values.
    edge : float
        Its edge under the current distribution.
    round : int
        The number of the round, from one.
    error : float
        Training error of the ensemble before this round (over pairs), one before the first.
    gain : float
        The total gain so far.
    l1 : float
        The l1 factor of this round.
    engine : Engine, optional
        Finds the corrective step by Newton's method, where it can.
    projection : callable
        The projection onto a domain, with the arguments of :func:`maboost.mirror.project`.
    least_edge : float
        The smallest edge of the hypotheses before this one.

    Examples
    --------
    >>> import numpy as np
    >>> from maboost.mirror import BaseMeasure, Entropy, MirrorAscent, Simplex
    >>> ascent, measure = MirrorAscent(Entropy(), Simplex()), BaseMeasure(np.ones(4))
    >>> d = np.array([1.0, -1.0, -1.0, -1.0])  # one row of four is wrong
    >>> situation = Situation(ascent, ascent.start(measure), measure, d, edge=0.5)
    >>> from maboost.mirror.steps import Corrective, Paper
    >>> Paper()(situation).size, round(Corrective()(situation).size, 4)
    (0.5, 0.5493)
    """

    ascent: MirrorAscent
    state: AscentState
    measure: BaseMeasure
    direction: Any
    edge: float
    round: int = 1
    error: float = 1.0
    gain: float = 0.0
    l1: float = 0.0
    engine: StepFinder | None = None
    projection: Projection = project_onto
    least_edge: float = math.inf

    @cached_property
    def dense(self) -> Array:
        """The direction as an array."""
        return np.asarray(self.direction, dtype=np.float64)


class StepRule(Protocol):
    """A function that chooses the step of a round.

    The certificates of the simplex, of capped sets and of MadaBoost hold for every positive step, and so
    does that of SparseBoost without a penalty. Rates are guaranteed for the built-in rules
    only: a step that is too long has a negative gain. A rule may have a method ``check(ascent, learning_rate)``
    that raises ValueError for a booster in which it means nothing.

    >>> from maboost import MABoostClassifier
    >>> def constant(situation):
    ...     return Step(0.1)
    >>> booster = MABoostClassifier(step=constant)
    """

    def __call__(self, situation: Situation, /) -> Step:
        """Return the step for this situation."""


@dataclass
class Paper(Component):
    r"""The step of the proofs.

    On a set of distributions every whole step gains at least :math:`\tfrac12\sigma\gamma_t^2`.

    >>> from maboost import MABoostClassifier
    >>> booster = MABoostClassifier(step=Paper())  # the same as step="paper"
    """

    def __call__(self, s: Situation, /) -> Step:
        return Step(s.ascent.paper_step(s.edge, s.state.mass, s.error, s.l1))


@dataclass
class MaxMargin(Component):
    r"""The paper's step over :math:`\sqrt t`.

    With an exact learner, on the simplex, the smallest margin converges to the largest margin of any ensemble of
    the learner's class (Theorem 2).

    >>> from maboost import MABoostClassifier
    >>> booster = MABoostClassifier(step=MaxMargin())  # the same as step="maxmargin"
    """

    def __call__(self, s: Situation, /) -> Step:
        return Step(s.ascent.paper_step(s.edge, s.state.mass, s.error, s.l1) / math.sqrt(s.round))


@dataclass
class AdaBoostV(Component):
    r"""AdaBoost's step less the step of the margin that is still possible.

    .. math:: \eta_t = \tfrac12\log\frac{1+\gamma_t}{1-\gamma_t} - \tfrac12\log\frac{1+\varrho_t}{1-\varrho_t},
              \qquad \varrho_t = \min_{s \le t}\gamma_s - \nu

    Every edge is at least the largest smallest margin :math:`\varrho^*` of an ensemble of the class if the learner
    is exact, and :math:`\varrho_t` is the estimate of that margin from the edges so far.

    **Guarantee.** Entropy on the simplex, whole steps: after :math:`2\log(1/D_{\min})/\nu^2` rounds, where
    :math:`D_{\min}` is the measure of the lightest row (or pair), the smallest margin is at least
    :math:`\min_t\gamma_t - \nu`, which is at least :math:`\varrho^* - \nu` with an exact learner. The certificates
    of this library hold in every round.

    Parameters
    ----------
    nu : float in (0, 1), default=0.1
        How far the margin may be from the largest.

    References
    ----------
    Rätsch and Warmuth (2005), "Efficient margin maximizing with boosting", who call it AdaBoost* with accuracy nu.

    >>> from maboost import MABoostClassifier
    >>> booster = MABoostClassifier(step=AdaBoostV(0.05))  # nu is 0.1 in step="adaboostv"
    """

    nu: float = 0.1

    def __post_init__(self) -> None:
        if not (isinstance(self.nu, Real) and 0.0 < self.nu < 1.0):
            raise ValueError(f"AdaBoostV: nu must be in (0, 1), got {self.nu!r}")

    def check(self, ascent: MirrorAscent, learning_rate: float) -> None:
        """Raise ValueError unless whole steps are taken under entropy on the simplex."""
        plain = ascent.domain.normalised and ascent.domain.unbounded and ascent.via is None
        if not (plain and ascent.regularizer == Entropy()):
            raise ValueError(
                f"step='adaboostv' is defined for entropy on the simplex, and this booster has "
                f"{ascent.regularizer!r} on {ascent.domain!r}: use step='maxmargin', or MABoostClassifier with its "
                "default regularizer and domain"
            )
        if learning_rate != 1.0:
            raise ValueError(
                f"step='adaboostv' needs whole steps, got learning_rate={learning_rate!r}: set it to 1.0"
            )

    def __call__(self, s: Situation, /) -> Step:
        if s.edge >= 1.0 - _ZERO_EDGE:  # right on all the mass, which is on all rows
            return Corrective()(s)
        least = min(s.least_edge, s.edge)
        return Step(math.atanh(s.edge) - math.atanh(least - self.nu))


@dataclass
class Corrective(Component):
    r"""The step of largest gain: the root of the next edge.

    If there is no finite root, let v be the smallest edge of the hypothesis over the domain.

    - The hypothesis is right on every row: the step is so long that the error bound falls to its
      floor, and the run ends.
    - v > 0, but some rows are wrong (caps keep them from carrying all the mass): any step gains at least
      v times its length, and one hypothesis would already bring the error bound to its floor.
      The soft margin and unseen rows still profit from more hypotheses, so the step is AdaBoost's for the
      same edge, :math:`\tfrac12\log\frac{1+\gamma}{1-\gamma}` (the paper's if that is longer), and
      the run continues.
    - v = 0 (the hypothesis abstains on rows that could carry all the mass): the step is 64.

    If the edge vanishes on a whole interval, the step is the smallest root.

    >>> from maboost import MABoostClassifier
    >>> booster = MABoostClassifier(step=Corrective())  # the default, step="corrective"
    """

    def __call__(self, s: Situation, /) -> Step:
        if s.ascent.via is not None:
            raise ValueError(
                "the corrective step is not defined with double projection, whose gain is not "
                "differentiable through the edge; use step='paper' or 'maxmargin'"
            )
        found = None if s.engine is None else s.engine.corrective_step(s)
        return found or self._search(s)

    def _search(self, s: Situation) -> Step:
        """Bracket the root of the gain's derivative, then use Brent's method."""

        def slope(step: float) -> float:
            return gain_slope(s, step) - _ZERO_EDGE * s.state.mass

        worst = -math.inf if s.l1 else smallest_edge(s)  # a penalty exceeds any edge in the end
        if s.ascent.domain.normalised and worst > CLEARLY_POSITIVE:
            # no distribution of the set has an edge of zero: there is no root
            return self._without_root(s, worst)
        near = 0.0
        far = min(max(2.0 * s.ascent.paper_step(s.edge, s.state.mass, s.error, s.l1), 1e-3), 1.0)
        while slope(far) > 0.0:
            if far >= LONGEST_STEP and worst > 0.0:
                return self._without_root(s, worst)
            if far >= LONGEST_STEP and worst > -1e-12:
                return Step(LONGEST_STEP)
            near, far = far, 2.0 * far
            if far > 1e12:
                return Step(near)
        return Step(
            float(scipy.optimize.brentq(slope, near, far, xtol=1e-15, rtol=8.9e-16, maxiter=200))
        )

    def _without_root(self, s: Situation, worst: float) -> Step:
        """Return the step if the edge stays positive: up to the floor of the bound if h is right on every row."""
        shortest = s.ascent.paper_step(s.edge, s.state.mass, s.error, s.l1)
        if s.measure.maximum(s.dense) < 0.0:
            return Step(max(self._reaching_step(s, worst), shortest), final=True)
        return Step(max(math.atanh(min(s.edge, 1.0 - 1e-15)), shortest))

    @staticmethod
    def _reaching_step(s: Situation, worst: float) -> float:
        """Return a step so long that the error bound falls to its floor: each unit gains at least `worst`."""
        measure, domain = s.measure, s.ascent.domain
        # the hypercube: e^(theta - step * worst) must fall below half the lightest row
        if not domain.normalised:
            top = max(measure.maximum(s.state.theta), 0.0)
            return (top + math.log(2.0 * measure.width / measure.smallest_row)) / worst
        caps = measure.maximum(np.atleast_1d(domain.row_caps()))
        level = max(0.5 * measure.smallest_row, 1.0 / min(caps, s.ascent.regularizer.upper))
        target = s.ascent.regularizer.beta(level / measure.width)
        if not math.isfinite(target):
            target = s.ascent.regularizer.beta(1.0 / s.ascent.regularizer.upper)
        return max(target - s.gain, 1.0) * 1.001 / worst


def gain_slope(s: Situation, step: float) -> float:
    """Return the derivative of the gain at `step`: the unnormalised edge of the next distribution."""
    theta = s.state.theta + step * (s.dense - s.l1)
    density = s.projection(s.ascent.regularizer, s.ascent.domain, theta, s.measure, None).density
    columns = [-s.dense * density]
    if s.l1:
        columns.append(density)
    edge, *mass = s.measure.integrals(columns)
    return edge + s.l1 * (mass[0] - 1.0) if mass else edge


def smallest_edge(s: Situation) -> float:
    """Return the smallest edge of the hypothesis over the domain."""
    upper = s.ascent.regularizer.upper
    return linear_minimum(-s.dense, s.ascent.domain, s.measure, upper, projection=s.projection)


def scaled(step: Step, learning_rate: float, situation: Situation) -> Step:
    """Return the step times the learning rate; a final step stays whole, since it must reach its target.

    If the shift of the projection is cheap to find, it becomes the guess.
    """
    if not isinstance(step, Step):
        raise TypeError(f"a step rule must return a maboost.mirror.steps.Step, got {step!r}")
    # votes must be positive, and NaN would break every certificate
    if not (isinstance(step.size, float | Real) and 0.0 < step.size < math.inf):
        raise ValueError(
            f"a step rule must return a Step of positive and finite size, got {step!r} in round "
            f"{situation.round} for an edge of {situation.edge:.3g}"
        )
    share = 1.0 if step.final else learning_rate
    if share == 1.0 and step.guess is not None:
        return step
    guess = None
    if situation.engine is not None:
        guess = situation.engine.shift_after(situation, share, step.size, step.guess)
    return replace(step, size=share * step.size, guess=guess)
