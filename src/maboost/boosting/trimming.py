r"""Showing the learner only part of the rows.

The guarantees need the *true* edge of a hypothesis under the whole distribution, however it was
found. If it has edge :math:`\gamma'` on rows of mass :math:`1-\delta`, its true edge is at least
:math:`(1-\delta)\gamma' - \delta`, so :math:`\delta \le \gamma'/(2(1+\gamma'))` keeps half of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maboost.mirror.measure import BaseMeasure
from maboost.mirror.tails import lower_tail

__all__ = ["Budget", "Shown", "Trim", "sampled_rows", "shown_rows"]

Array = NDArray[np.float64]

_GOLDEN = 0.6180339887498949  # turns of it spread evenly over a circle


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

    def hides(self, delta: float) -> bool:
        """Whether rows of positive weight are hidden."""
        return delta > 0.0

    def shown(
        self,
        row_density: Array,
        delta: float,
        measure: BaseMeasure,
        places: Array | None,
        round: int,
    ) -> Shown:
        """The rows to show."""
        return Shown(shown_rows(row_density, delta, measure))


@dataclass(frozen=True)
class Budget(Trim):
    r"""Show only so much of the base measure in every round: a sample, denser rows more likely.

    Rows are taken in the order of place / density, where a row's place is a number in [0, 1) from its
    content, turned a little every round: the denser a row, the sooner it comes, and copies of a row stay
    together. The sample stands for the distribution: a row that came in with probability
    :math:`\pi < 1` is shown with :math:`1/\pi` of its weight (priority sampling).

    Parameters
    ----------
    share : float in (0, 1), default=0.1
        Of the base measure that is shown. Where the hypothesis found has no edge over all rows, twice as
        much is shown, and then everything.
    """

    share: float = 0.1

    def __post_init__(self) -> None:
        if not 0.0 < self.share < 1.0:
            raise ValueError(f"the share of rows to show must be in (0, 1), got {self.share!r}")

    def tries(self, last_edge: float | None) -> list[float]:
        """Shares to try in turn."""
        return [self.share, min(2.0 * self.share, 1.0), 1.0]

    def accepts(self, delta: float, edge: float, shown_edge: float) -> bool:
        """Any edge over all rows will do."""
        return edge > 0.0

    def hides(self, delta: float) -> bool:
        """Whether rows of positive weight may be hidden."""
        return delta < 1.0

    def shown(
        self,
        row_density: Array,
        delta: float,
        measure: BaseMeasure,
        places: Array | None,
        round: int,
    ) -> Shown:
        """A sample within the budget."""
        if delta >= 1.0:
            return Shown(shown_rows(row_density, 0.0, measure))
        if places is None:
            raise ValueError("a budget of rows needs the places of the rows: see Run")
        return sampled_rows(row_density, np.modf(places + _GOLDEN * round)[0], delta, measure)


class Shown(NamedTuple):
    """Rows to show (None: all), each with a density of at least `floor`."""

    rows: NDArray[np.intp] | None
    floor: float = 0.0


def sampled_rows(row_density: Array, places: Array, share: float, measure: BaseMeasure) -> Shown:
    """Rows in the order of place / density that hold at most a `share` of the base measure.

    The budget is never exceeded, but for a single row that is heavier than all of it.
    """
    rows, positive = measure.of_rows, row_density > 0.0
    keys = np.divide(places, row_density, out=np.full(len(places), 1e300), where=positive)
    base = np.where(positive, rows.entries, 0.0)
    level = lower_tail(keys, base, share, rows).level
    keep = positive & (keys <= level)
    if rows.integral(keep.astype(float)) > share * (1.0 + 1e-12):
        below = positive & (keys < level)
        if rows.maximum(below.astype(float)) > 0.0:
            keep = below
    if rows.minimum(keep.astype(float)) > 0.0:
        return Shown(None)
    return Shown(np.flatnonzero(keep), 1.0 / level if level > 0.0 else 0.0)


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
