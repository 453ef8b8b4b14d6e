r"""Hiding the lightest rows from the learner.

If a hypothesis has edge :math:`\gamma'` on rows of mass :math:`1-\delta`, its true edge is at least
:math:`(1-\delta)\gamma' - \delta`, so :math:`\delta \le \gamma'/(2(1+\gamma'))` keeps half of it. The rule hides
that much; the edge on all rows is then measured, not inferred.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from maboost.boosting.row_sampling.policy import RoundRows, Sample, Showing, Subset, support_rows
from maboost.mirror.measure import BaseMeasure
from maboost.runtime.communicator import reproducible_sums
from maboost.runtime.tail_sums import TIE, lower_tail

__all__ = ["Trim", "shown_rows"]

Array = NDArray[np.float64]

_PAYS = (
    0.5  # share of the rows above which selecting them costs as much as reading all rows in order
)


@dataclass(frozen=True)
class Trim(Showing):
    """Trimming: the rule hides a mass of the lightest rows.

    Parameters
    ----------
    mass : float in [0, 1) or "auto", default=0.0
        A fixed mass, or the certified rule: nothing in the first round, then the mass that keeps at least
        half of an edge as large as the last one, if that leaves out half of the rows or more. A hypothesis is accepted if
        half of its edge holds over all rows.

    >>> Trim("auto").first_try(None), Trim("auto").first_try(0.5)
    (0.0, 0.16666666666666666)
    """

    mass: float | Literal["auto"] = 0.0

    def __post_init__(self) -> None:
        if self.mass != "auto" and not (isinstance(self.mass, Real) and 0.0 <= self.mass < 1.0):
            raise ValueError(
                f"trim must be 'auto', 'certain' or a mass in [0, 1), got {self.mass!r}"
            )

    def first_try(self, last_edge: float | None) -> float:
        """Return the mass to hide, given the edge of the previous round (None in the first)."""
        if self.mass != "auto":
            return float(self.mass)
        return 0.0 if last_edge is None else last_edge / (2.0 * (1.0 + last_edge))

    def tries(self, last_edge: float | None, held: Sample) -> list[float]:
        """Return the masses to hide."""
        mass = self.first_try(last_edge)
        return [mass, 0.5 * mass, 0.0] if mass > 0.0 else [0.0]

    def shown(self, rows: RoundRows, amount: float, held: Sample) -> Subset:
        """Return all rows but the lightest, up to a mass of `amount`."""
        some = shown_rows(rows.density, amount * rows.mass, rows.measure)
        if self.mass != "auto" or amount == 0.0:
            return Subset(some, None, held, hides=amount > 0.0)
        if _pays(some, rows.density, rows.measure.of_rows):
            return Subset(some, None, held, edge_share=0.5, hides=True)
        return rows.all_shown(held)


def _pays(rows: NDArray[np.intp] | None, row_density: Array, measure: BaseMeasure) -> bool:
    """Return whether the rows are few enough among those of positive density, over all shards."""
    shown = measure.entries if rows is None else measure.entries[rows]
    some, whole = reproducible_sums([shown, measure.entries[row_density > 0.0]], measure.comm)
    return some <= _PAYS * whole * (1.0 + TIE)


def shown_rows(row_density: Array, mass: float, measure: BaseMeasure) -> NDArray[np.intp] | None:
    """Return the rows to show if a mass of at most `mass` may be hidden; None means all rows.

    Rows of density zero are never shown. The lightest are chosen by density, not by weight, and rows
    of equal density, up to rounding, stay together: otherwise a row of weight two would differ from the row twice.
    """
    if mass == 0.0:
        return support_rows(row_density, measure)
    weights = measure.rows_base * row_density
    level = lower_tail(row_density, weights, mass * (1.0 + TIE), measure).level
    # rows may reach the same density in different ways, with different rounding
    least = max(level * (1.0 - TIE), math.ulp(0.0))
    rows = np.flatnonzero(row_density >= least)
    return None if rows.size == row_density.size else rows
