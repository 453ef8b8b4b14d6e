"""What is known of a round when its step is to be chosen."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from maboost.mirror.ascent import AscentState, MirrorAscent
from maboost.mirror.coded import Coded, whole_direction
from maboost.mirror.measure import BaseMeasure
from maboost.mirror.passes import Pass, pass_for

__all__ = ["Situation"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Situation:
    """What a step rule may look at.

    Attributes
    ----------
    ascent, state, measure
        The engine, where it stands, and the base measure.
    direction : array or Coded
        The loss vector d of the hypothesis, as codes and a table where it takes few values.
    edge : float
        Its edge under the current distribution.
    round : int
        One for the first round.
    error : float
        Training error of the ensemble before this round (over pairs), one before the first.
    gain : float
        The total gain so far.
    l1 : float
        The l1 factor of this round.

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
    direction: Array | Coded
    edge: float
    round: int = 1
    error: float = 1.0
    gain: float = 0.0
    l1: float = 0.0
    _rows: list[Pass | None] = field(default_factory=list, init=False, repr=False, compare=False)

    @cached_property
    def dense(self) -> Array:
        """The direction as an array."""
        return whole_direction(self.direction)

    @property
    def rows(self) -> Pass | None:
        """The quickest pass over the rows, kept; None where none is quick.

        (Not a cached property: in Python 3.11 those hold a lock, and shards talk to each other here.)
        """
        if not self._rows:
            found = pass_for(self.ascent, self.state, self.direction, self.measure, self.l1)
            self._rows.append(found)
        return self._rows[0]
