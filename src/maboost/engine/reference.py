"""The reference engine, built of :mod:`maboost.mirror`: slow and plain, the oracle of the compiled engines."""

from __future__ import annotations

import numpy as np

from maboost.engine.leaf_codes import Direction
from maboost.mirror.ascent import AscentState, MirrorAscent, Moved
from maboost.mirror.measure import BaseMeasure
from maboost.mirror.steps import Situation, Step

__all__ = ["ReferenceEngine"]


class ReferenceEngine:
    """Mirror ascent as :class:`maboost.mirror.MirrorAscent` states it; steps by a bracketed search."""

    def __init__(self, ascent: MirrorAscent, measure: BaseMeasure) -> None:
        self.ascent = ascent
        self.measure = measure

    def start(self) -> AscentState:
        return self.ascent.start(self.measure)

    def edge(self, state: AscentState, direction: Direction) -> float:
        return -self.measure.integral(state.density * np.asarray(direction)) / state.mass

    def corrective_step(self, situation: Situation) -> Step | None:
        return None

    def shift_after(
        self, situation: Situation, share: float, step: float, shift: float | None
    ) -> float | None:
        return None

    def move(
        self,
        state: AscentState,
        direction: Direction,
        step: float,
        l1: float = 0.0,
        guess: float | None = None,
    ) -> Moved:
        return self.ascent.move(state, np.asarray(direction), step, self.measure, l1, guess)
