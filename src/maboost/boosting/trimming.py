r"""Showing the learner only part of the rows.

The guarantees need the *true* edge of a hypothesis under the whole distribution, however it was
found. If it has edge :math:`\gamma'` on rows of mass :math:`1-\delta`, its true edge is at least
:math:`(1-\delta)\gamma' - \delta`, so :math:`\delta \le \gamma'/(2(1+\gamma'))` keeps half of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from maboost.mirror.measure import BaseMeasure
from maboost.mirror.tails import lower_tail

__all__ = ["Trim", "shown_rows"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Trim:
    """How much mass of the lightest rows to hide.

    Parameters
    ----------
    mass : float in [0, 1) or "auto", default=0.0
        A fixed mass, or the certified rule: nothing in the first round, then what keeps at least
        half of an edge as large as the last one.

    >>> Trim("auto").first_try(None), Trim("auto").first_try(0.5)
    (0.0, 0.16666666666666666)
    """

    mass: float | Literal["auto"] = 0.0

    def __post_init__(self) -> None:
        if self.mass != "auto" and not (
            isinstance(self.mass, (int, float)) and 0.0 <= self.mass < 1.0
        ):
            raise ValueError(f"trim must be 'auto' or a mass in [0, 1), got {self.mass!r}")

    def first_try(self, last_edge: float | None) -> float:
        """The mass to hide, given the edge of the round before (None in the first)."""
        if self.mass != "auto":
            return float(self.mass)
        return 0.0 if last_edge is None else last_edge / (2.0 * (1.0 + last_edge))

    def tries(self, last_edge: float | None) -> list[float]:
        """Masses to try in turn until a hypothesis is good enough; the last hides nothing."""
        delta = self.first_try(last_edge)
        return [delta, 0.5 * delta, 0.0] if delta > 0.0 else [0.0]

    def accepts(self, delta: float, edge: float, shown_edge: float) -> bool:
        """Whether a hypothesis found with `delta` hidden will do."""
        if not edge > 0.0:
            return False
        return self.mass != "auto" or delta <= shown_edge / (2.0 * (1.0 + shown_edge))


def shown_rows(row_density: Array, delta: float, measure: BaseMeasure) -> NDArray[np.intp] | None:
    """The rows to show when a mass of at most `delta` may be hidden; None means all.

    Rows of density zero are never shown. The lightest are chosen by density, not by weight, and rows
    of equal density stay together: otherwise a row of weight two would differ from the row twice.
    """
    level = 0.0
    if delta > 0.0:
        level = lower_tail(row_density, measure.rows_base * row_density, delta, measure).level
    elif measure.minimum(row_density) > 0.0:
        return None
    keep = (row_density >= level) & (row_density > 0.0)
    return None if keep.all() else np.flatnonzero(keep)
