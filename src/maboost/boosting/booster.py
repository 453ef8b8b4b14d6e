"""The parts of a booster."""

from __future__ import annotations

from dataclasses import dataclass, field

from maboost.boosting.row_sampling.policy import Showing
from maboost.boosting.row_sampling.trim import Trim
from maboost.boosting.vote_policy import ErrorRefit, MarginRefit
from maboost.mirror.ascent import MirrorAscent
from maboost.mirror.parameters import Component
from maboost.mirror.steps import StepRule

__all__ = ["Booster", "L1Rule"]


@dataclass(frozen=True)
class L1Rule:
    r"""SparseBoost's penalty: :math:`\alpha_t = (1-\kappa)\gamma_t n_t`, or at most :math:`c/t^2` of it.

    >>> L1Rule(kappa=0.5)(edge=0.2, mass=1.0, round=1), L1Rule(0.5, 0.6)(0.2, 1.0, 10)
    (0.1, 0.006)
    """

    kappa: float = 1.0
    decay: float | None = None

    def __call__(self, edge: float, mass: float, round: int) -> float:
        alpha = (1.0 - self.kappa) * edge * mass
        return alpha if self.decay is None else min(alpha, self.decay / round**2)


@dataclass
class Booster(Component):
    """The parts of a booster; :mod:`maboost.boosting.recipes` has the named boosters.

    `step` is a step rule for the newest hypothesis, or says what problem all votes solve after each round.

    >>> from maboost.boosting import smooth
    >>> booster = smooth(4.0)
    >>> booster.ascent.domain, booster.step, booster.learning_rate
    (CappedSimplex(caps=4.0), Corrective(), 1.0)
    """

    ascent: MirrorAscent
    step: StepRule | ErrorRefit | MarginRefit
    learning_rate: float = 1.0
    trim: Showing = field(default_factory=Trim)
    l1: L1Rule = field(default_factory=L1Rule)

    def __post_init__(self) -> None:
        check = getattr(self.step, "check", None)
        if check is not None:
            check(self.ascent, self.learning_rate)

    @property
    def refits(self) -> bool:
        """Whether all votes are refitted after each round."""
        return isinstance(self.step, ErrorRefit | MarginRefit)
