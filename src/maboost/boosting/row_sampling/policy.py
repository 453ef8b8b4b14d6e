"""How a round chooses the rows it shows to the learner: what every rule for it needs.

The guarantees need the *true* edge of a hypothesis under the whole distribution, however it was found;
so a rule may show what it likes, and the round measures what is found on all rows.
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

_GOLDEN = 0.6180339887498949  # turns of it spread evenly over a circle
_LEAST = 1 << 11  # rows of a chunk
_LAST, _NEVER = 1e299, 1e300  # the largest key of a row that may be shown, and that of all others
LEVEL_BITS = 32  # of a sample's number that count draws
_HEAVIEST = 1e100  # factor on a weight: products with it stay numbers


class Showing(ABC):
    """A rule for which rows to show.

    Attributes
    ----------
    samples : bool
        Whether the row_hashes of rows are needed, see :class:`RoundRows`.

    Examples
    --------
    A rule of one's own: every other row, until all are asked for.

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
        """Amounts to try in turn until a hypothesis is good enough; with the last nothing is hidden.

        `last_edge` is that of the round before, None in the first; the rule knows what an amount is of.
        """

    @abstractmethod
    def shown(self, rows: RoundRows, amount: float, held: Sample) -> Subset:
        """The rows to show, given what is held from the rounds before."""

    def accepts(self, shown: Subset, edge: float, estimate: Estimate) -> bool:
        """Whether a hypothesis with this edge over all rows, and this one over those shown, will do."""
        return edge > max(0.0, shown.edge_share * estimate.edge)

    def after_refusal(self, shown: Subset, estimate: Estimate | None) -> Sample:
        """What is held once a hypothesis would not do, or none was found."""
        return shown.held.discarded()

    def redraw(self, rows: RoundRows, held: Sample, number: int) -> Sample:
        """The sample of that number, which a round that is repeated held."""
        return held


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows that stand for the distribution from one round to the next.

    Parameters
    ----------
    rows : array of shape (n_shown,)
        Rows of this shard, rising.
    factors : array of shape (n_shown,)
        One over the probability with which each was drawn: a factor on its weight.
    size : float
        The effective size at the draw; infinite where no sample is held.
    draws : int
        How many there were so far.
    level : int
        Where shares are found by the data: this one is two to the minus `level`. Where no sample is
        held, the share that an edge of one would ask for.
    row_measure : float
        There also: the measure of a row as it was drawn, copies included, on average.
    """

    rows: NDArray[np.intp] = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    factors: Array = field(default_factory=lambda: np.empty(0))
    size: float = math.inf
    draws: int = 0
    level: int = 0
    row_measure: float = 0.0

    @classmethod
    def draw(cls, rows: RoundRows, share: float, draws: int) -> Sample:
        """A new sample, with the row_hashes turned as far as so many draws before ask for."""
        density, measure, row_hashes = rows.density, rows.measure, rows.need_row_hashes("a sample")
        some, floor = drawn_rows(density, row_hashes, share, measure, draws)
        with np.errstate(over="ignore"):  # a row of no density to speak of: it wears the sample out
            factors = np.maximum(1.0, floor / density[some])
        factors = np.minimum(factors, _HEAVIEST)
        sample = cls(some, factors, draws=draws + 1)
        return replace(sample, size=sample.effective_size(density, measure))

    def effective_size(self, row_density: Array, measure: BaseMeasure) -> float:
        r"""The share of the base measure that the sample is worth: Kish's formula.

        .. math:: \Bigl(\sum_{i \in S} D_i v_i\Bigr)^2 \Big/ \sum_{i \in S} D_i v_i^2,
            \qquad v_i = u_i \max(1, \text{floor} / u_i^{\text{draw}}),

        with u the densities now and at the draw: the measure of the whole sample where all its rows
        have the same v, the smaller the more uneven they are. A row of weight two counts as two rows.
        """
        density = row_density[self.rows] * self.factors
        mass = measure.of_rows.base(self.rows) * density
        whole, square = reproducible_sums([mass, mass * density], measure.comm)
        return whole * whole / square if square > 0.0 else 0.0

    def is_representative(self, row_density: Array, measure: BaseMeasure) -> bool:
        """Whether the effective size is at least half of what it was at the draw."""
        if math.isinf(self.size):
            return False
        return self.effective_size(row_density, measure) >= 0.5 * self.size

    @property
    def number(self) -> int:
        """How many draws it took to get here, and the level; negative where the last was given up."""
        number = self.draws + (self.level << LEVEL_BITS)
        return number if math.isfinite(self.size) else -number

    def discarded(self, level: int = 0) -> Sample:
        """What is left when the sample is given up: the count of draws, and what was learnt."""
        return Sample(draws=self.draws, level=level)


class RoundRows(NamedTuple):
    """The rows of a shard as a round finds them: what a choice among them may look at.

    Parameters
    ----------
    density : array of shape (n_rows,)
        Of the distribution times `mass`, averaged over the entries of a row.
    measure : BaseMeasure
    row_hashes : array of shape (n_rows,), optional
        A number in [0, 1) a row, from its content: samples are drawn by it.
    mass : float, default=1.0
        The integral of the density.
    """

    density: Array
    measure: BaseMeasure
    row_hashes: Array | None = None
    mass: float = 1.0

    def need_row_hashes(self, who: str) -> Array:
        """The row_hashes, which `who` cannot do without."""
        if self.row_hashes is None:
            raise ValueError(f"{who} needs the row hashes: see Run")
        return self.row_hashes

    def all_shown(self, held: Sample) -> Subset:
        """Every row of positive density, with nothing hidden; what is held stays so."""
        return Subset(support_rows(self.density, self.measure), None, held)


class Subset(NamedTuple):
    """Rows to show (None: all), a factor on the weight of each (None: one), and what is held.

    A hypothesis must keep more than a share `edge_share` of its edge over them when all rows are asked.
    `hides` says whether rows of positive weight may be missing, on this shard or another, and `effective_rows`
    how many rows drawn one by one the sample is as good as, where somebody asks.
    """

    rows: NDArray[np.intp] | None
    factors: Array | None
    held: Sample
    edge_share: float = 0.0
    hides: bool = False
    effective_rows: float = 0.0

    def estimate(self, direction: Direction, density: Array, measure: BaseMeasure) -> Estimate:
        """The edge of a hypothesis of this loss vector over the rows shown, as they were shown."""
        at: Any = self.rows
        if at is None:  # another shard may hide some even so
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
    """The edge of a hypothesis over the rows shown, as they were shown, and the variance of its losses."""

    edge: float
    variance: float


def support_rows(row_density: Array, measure: BaseMeasure) -> NDArray[np.intp] | None:
    """The rows of positive density; None means all."""
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
    """Turned hash / density; `_NEVER` where there is no density."""
    keys = np.empty(row_hashes.size)
    chunks, size = chunks_of(team, keys.size, _LEAST)
    parallel_for(team, chunks, _keys_of_chunk, (row_density, row_hashes, turn, size, keys))
    return keys


def drawn_rows(
    row_density: Array, row_hashes: Array, share: float, measure: BaseMeasure, draws: int = 0
) -> tuple[NDArray[np.intp], float]:
    """Rows in the order of place / density that hold at most a `share` of the base measure.

    The budget is never exceeded, but for a single row that is heavier than all of it.

    Returns
    -------
    rows : array
    floor : float
        A row was drawn with the probability density / floor, or surely from there on; 0 where all rows
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
