"""Interfaces for rules that choose the rows a learner sees.

The guarantees need the *true* edge of a hypothesis under the whole distribution, however it was found.
So a rule may show any rows, and the round measures the edge on all rows.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maboost.engine.leaf_codes import Direction, LeafCodes
from maboost.mirror.measure import BaseMeasure
from maboost.runtime.communicator import reproducible_sums
from maboost.runtime.kernels import kernel
from maboost.runtime.parallel import chunks_of, parallel_for
from maboost.runtime.selection import places_of_positive
from maboost.runtime.tail_sums import TIE, lower_tail

__all__ = ["Estimate", "RoundRows", "Sample", "Showing", "Subset", "drawn_rows", "support_rows"]

Array = NDArray[np.float64]

_GOLDEN = 0.6180339887498949  # multiples of it spread evenly over a circle
_LEAST = 1 << 11  # rows of a chunk
_LAST, _NEVER = (
    1e299,
    1e300,
)  # the largest key of a row that may be drawn, and the key of all others
LEVEL_BITS = 32  # the low bits of a sample's number, which count the draws
_HEAVIEST = 1e100  # the largest factor on a weight, so that products do not overflow


class Showing(ABC):
    """A rule that chooses the rows to show.

    Attributes
    ----------
    samples : bool
        Whether the rule needs row hashes, see :class:`RoundRows`.

    Examples
    --------
    A user-defined rule that shows every other row, and then all rows:

    >>> from dataclasses import replace
    >>> from maboost.boosting import maboost
    >>> class Halves(Showing):
    ...     def tries(self, last_edge, held):
    ...         return [0.5, 1.0]
    ...
    ...     def shown(self, rows, amount, held):
    ...         if amount == 1.0:
    ...             return rows.all_shown(held)
    ...         return Subset(np.arange(0, rows.measure.rows, 2), None, held, hides=True)
    >>> booster = replace(maboost(), trim=Halves())
    """

    samples: ClassVar[bool] = False

    @abstractmethod
    def tries(self, last_edge: float | None, held: Sample) -> list[float]:
        """Return the amounts to try in turn until a hypothesis is accepted; the last must hide nothing.

        `last_edge` is that of the previous round, None in the first; the rule defines the unit of an amount.
        """

    @abstractmethod
    def shown(self, rows: RoundRows, amount: float, held: Sample) -> Subset:
        """Return the rows to show, given the sample that earlier rounds kept."""

    def accepts(self, shown: Subset, edge: float, estimate: Estimate) -> bool:
        """Return whether to accept a hypothesis with this edge over all rows, and this estimate over those shown."""
        return edge > max(0.0, shown.edge_share * estimate.edge)

    def after_refusal(self, shown: Subset, estimate: Estimate | None) -> Sample:
        """Return the sample to keep after a hypothesis was refused, or none was found."""
        return shown.held.discarded()

    def redraw(self, rows: RoundRows, held: Sample, number: int) -> Sample:
        """Return the sample of this number, when a recorded round is repeated."""
        return held


@dataclass(frozen=True, eq=False)
class Sample:
    """A sample of rows that represents the distribution for several rounds.

    Parameters
    ----------
    rows : array of shape (n_shown,)
        Rows of this shard, in ascending order.
    factors : array of shape (n_shown,)
        One over the probability with which each row was drawn: a factor on its weight.
    size : float
        The effective size at the draw; infinite if no sample is kept.
    draws : int
        The number of draws so far.
    level : int
        For adaptive sampling: the share of this sample is two to the minus `level`. If no sample is
        kept, the level that an edge of one would need.
    row_measure : float
        For adaptive sampling: the mean measure of a drawn row, copies included.
    """

    rows: NDArray[np.intp] = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    factors: Array = field(default_factory=lambda: np.empty(0))
    size: float = math.inf
    draws: int = 0
    level: int = 0
    row_measure: float = 0.0

    @classmethod
    def draw(cls, rows: RoundRows, share: float, draws: int) -> Sample:
        """Return a new sample, with the row hashes rotated by the number of earlier draws."""
        density, measure, row_hashes = rows.density, rows.measure, rows.need_row_hashes("a sample")
        some, floor = drawn_rows(density, row_hashes, share, measure, draws)
        with np.errstate(
            over="ignore"
        ):  # a row of negligible density makes the sample unrepresentative
            factors = np.maximum(1.0, floor / density[some])
        factors = np.minimum(factors, _HEAVIEST)
        sample = cls(some, factors, draws=draws + 1)
        return replace(sample, size=sample.effective_size(density, measure))

    def effective_size(self, row_density: Array, measure: BaseMeasure) -> float:
        r"""Return the share of the base measure that the sample is worth: Kish's formula.

        .. math:: \Bigl(\sum_{i \in S} D_i v_i\Bigr)^2 \Big/ \sum_{i \in S} D_i v_i^2,
            \qquad v_i = u_i \max(1, \text{floor} / u_i^{\text{draw}}),

        with u the densities now and at the draw. It is the measure of the whole sample if all its rows have the same v,
        and decreases as they become uneven. A row of weight two counts as two rows.
        """
        density = row_density[self.rows] * self.factors
        mass = measure.of_rows.base(self.rows) * density
        whole, square = reproducible_sums([mass, mass * density], measure.comm)
        return whole * whole / square if square > 0.0 else 0.0

    def is_representative(self, row_density: Array, measure: BaseMeasure) -> bool:
        """Return whether the effective size is at least half of that at the draw."""
        if math.isinf(self.size):
            return False
        return self.effective_size(row_density, measure) >= 0.5 * self.size

    @property
    def number(self) -> int:
        """The number of draws and the level, as one integer; negative if the last sample was discarded."""
        number = self.draws + (self.level << LEVEL_BITS)
        return number if math.isfinite(self.size) else -number

    def discarded(self, level: int = 0) -> Sample:
        """Return the record of a discarded sample: the count of draws, and the level."""
        return Sample(draws=self.draws, level=level)


class RoundRows(NamedTuple):
    """The rows of a shard in a round, from which a rule chooses.

    Parameters
    ----------
    density : array of shape (n_rows,)
        The density of the distribution times `mass`, averaged over the entries of a row.
    measure : BaseMeasure
    row_hashes : array of shape (n_rows,), optional
        One number in [0, 1) for each row, from its content, for drawing samples.
    mass : float, default=1.0
        The integral of the density.
    """

    density: Array
    measure: BaseMeasure
    row_hashes: Array | None = None
    mass: float = 1.0

    def need_row_hashes(self, who: str) -> Array:
        """Return the row hashes; raise ValueError, naming `who` needs them, if there are none."""
        if self.row_hashes is None:
            raise ValueError(f"{who} needs the row hashes: see Run")
        return self.row_hashes

    def all_shown(self, held: Sample) -> Subset:
        """Return all rows of positive density, with nothing hidden, and keep the sample."""
        return Subset(support_rows(self.density, self.measure), None, held)


class Subset(NamedTuple):
    """The rows to show (None: all), a factor on the weight of each (None: one), and the kept sample.

    A hypothesis must keep more than a share `edge_share` of its edge on the shown rows when it is measured on all
    rows. `hides` says whether rows of positive weight may be missing, on this shard or another. `effective_rows` is the
    number of independent draws that the sample is worth, if the rule needs it.
    """

    rows: NDArray[np.intp] | None
    factors: Array | None
    held: Sample
    edge_share: float = 0.0
    hides: bool = False
    effective_rows: float = 0.0

    def estimate(self, direction: Direction, density: Array, measure: BaseMeasure) -> Estimate:
        """Return the edge of a hypothesis with this loss vector over the rows shown, under the weights shown."""
        at: Any = self.rows
        if at is None:  # another shard may still hide some
            at = slice(None)
        elif measure.width > 1:
            at = (at[:, None] * measure.width + np.arange(measure.width)).reshape(-1)
        mass = measure.entries[at] * density[at]
        if self.factors is not None:
            mass *= np.repeat(self.factors, measure.width)
        d = direction
        answers = d.values[d.codes[at]] if isinstance(d, LeafCodes) else d[at]
        losses = mass * answers
        sums = reproducible_sums([losses, losses * answers, mass], measure.comm)
        loss, square = sums[0] / sums[2], sums[1] / sums[2]
        return Estimate(-loss, square - loss * loss)


class Estimate(NamedTuple):
    """The edge of a hypothesis over the rows shown, under the weights shown, and the variance of its losses."""

    edge: float
    variance: float


def support_rows(row_density: Array, measure: BaseMeasure) -> NDArray[np.intp] | None:
    """Return the rows of positive density; None means all rows."""
    rows: NDArray[np.intp] | None = measure.threads.run(places_of_positive, row_density)
    return rows


@kernel
def _keys_of_chunk(row_density, row_hashes, turn, size, keys, chunk, slot):
    for i in range(chunk * size, min((chunk + 1) * size, keys.size)):
        turned = row_hashes[i] + turn
        turned -= np.floor(turned)
        if row_density[i] > 0.0:
            keys[i] = min(turned / row_density[i], _LAST)
        else:
            keys[i] = _NEVER


@kernel
def _all_keys(team, row_density, row_hashes, turn):
    """Return hash / density with rotated hashes; `_NEVER` where the density is zero."""
    keys = np.empty(row_hashes.size)
    chunks, size = chunks_of(team, keys.size, _LEAST)
    parallel_for(team, chunks, _keys_of_chunk, (row_density, row_hashes, turn, size, keys))
    return keys


def drawn_rows(
    row_density: Array, row_hashes: Array, share: float, measure: BaseMeasure, draws: int = 0
) -> tuple[NDArray[np.intp], float]:
    """Return the rows in the order of hash / density that hold at most a `share` of the base measure.

    The budget is never exceeded, except by a single row that is heavier than all of it.

    Returns
    -------
    rows : array
    floor : float
        A row was drawn with the probability density / floor, at most one; 0 if all rows
        of positive density fit.
    """
    rows = measure.of_rows
    turn = math.fmod(_GOLDEN * draws, 1.0)
    keys = rows.threads.run(_all_keys, row_density, row_hashes, turn)
    share *= 1.0 + TIE
    level = lower_tail(keys, rows.entries, share, rows).level
    chosen = np.flatnonzero(keys <= min(level, _LAST))
    if rows.total(rows.entries[chosen]) > share:
        below = chosen[keys[chosen] < level]
        if rows.comm.allreduce(np.array([below.size], dtype=np.int64), "sum")[0] > 0:
            chosen = below
    return chosen, 1.0 / level if 0.0 < level < _NEVER else 0.0
