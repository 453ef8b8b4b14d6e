"""The interface of engines, and the records that pass between their operations."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from maboost.engine.leaf_codes import Direction, LeafCodes
from maboost.mirror.ascent import AscentState, MirrorAscent, Moved
from maboost.mirror.measure import BaseMeasure
from maboost.mirror.steps import Situation, Step

__all__ = ["Engine", "Moments", "PendingStep", "Potentials", "StepResult"]

Array = NDArray[np.float64]


class PendingStep(NamedTuple):
    """The dual point ``start + step * (direction - less) - shift`` before it is written."""

    start: Array
    direction: Direction
    step: float
    less: float
    shift: float

    @property
    def rise(self) -> float:
        """The largest change of an entry, for a direction of leaf codes."""
        assert isinstance(self.direction, LeafCodes)
        return (
            self.step * (float(np.maximum.reduce(self.direction.values)) - self.less) - self.shift
        )


class Potentials(NamedTuple):
    """Integrals of theta u - phi(u), of dual u - phi(u), and of u, for the density u of a projection."""

    theta: float
    dual: float
    mass: float


class StepResult(NamedTuple):
    """The projection of a dual point, the dual point of that projection, and the potentials there."""

    density: Array
    dual: Array
    potentials: Potentials


class Moments(Protocol):
    """The sums over rows that Newton's method needs for one direction.

    Attributes
    ----------
    clipped : bool
        Whether a density exceeded the grid of the last sums.
    by_factors : bool
        Whether a step from here multiplies densities by a factor for each code, until a cap is reached.
    """

    clipped: bool
    by_factors: bool

    def sums(self, step: float, shift: float) -> list[float]:
        """Return mass and loss of the next distribution, and the three moments of the Hessian."""


class Engine(Protocol):
    """Mirror ascent over the rows of one shard.

    Attributes
    ----------
    ascent : MirrorAscent
        The geometry, the set and the update.
    measure : BaseMeasure
    """

    ascent: MirrorAscent
    measure: BaseMeasure

    def start(self) -> AscentState:
        """Return the base measure, projected onto the domain."""

    def edge(self, state: AscentState, direction: Direction) -> float:
        """Return the edge of the hypothesis that has this loss vector."""

    def corrective_step(self, situation: Situation) -> Step | None:
        """Return the step of largest gain; None where only a bracketed search finds it."""

    def shift_after(
        self, situation: Situation, share: float, step: float, shift: float | None
    ) -> float | None:
        """Return the projection's shift after a share of a step; None if only the projection finds it."""

    def move(
        self,
        state: AscentState,
        direction: Direction,
        step: float,
        l1: float = 0.0,
        guess: float | None = None,
    ) -> Moved:
        """Return the state after a step, and its certified gain."""
