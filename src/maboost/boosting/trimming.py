r"""Showing the learner only part of the rows.

The guarantees need the *true* edge of a hypothesis under the whole distribution, however it was
found. If it has edge :math:`\gamma'` on rows of mass :math:`1-\delta`, its true edge is at least
:math:`(1-\delta)\gamma' - \delta`, so :math:`\delta \le \gamma'/(2(1+\gamma'))` keeps half of it. That is
how much to hide; whether half was kept is not inferred, but measured on all rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maboost.comm import reproducible_sums
from maboost.mirror.coded import Coded
from maboost.mirror.measure import BaseMeasure
from maboost.mirror.tails import lower_tail

__all__ = ["Budget", "Estimate", "Sample", "Shown", "Trim", "Weighed", "sampled_rows", "shown_rows"]

Array = NDArray[np.float64]

_GOLDEN = 0.6180339887498949  # turns of it spread evenly over a circle
_SAMPLES = 3  # to try in a round before everything is shown
_KEEPS = 0.25  # of the edge over a sample that was held, over all rows
_PAYS = 0.5  # of the rows or less: to pick out more costs as much as to read all in their order
_BLOCK = 1 << 15  # rows that stay in the cache while their keys are computed
_LAST, _NEVER = 1e299, 1e300  # the largest key of a row that may be shown, and that of all others
LEVEL_BITS = 32  # of a sample's number that count draws
_HEAVIEST = 1e100  # factor on a weight: products with it stay numbers


@dataclass(frozen=True)
class Trim:
    """How much mass of the lightest rows to hide.

    Parameters
    ----------
    mass : float in [0, 1) or "auto", default=0.0
        A fixed mass, or the certified rule: nothing in the first round, then what keeps at least
        half of an edge as large as the last one, where that leaves out half of the rows or more. What
        is found there must have half of its edge over all rows.

    >>> Trim("auto").first_try(None), Trim("auto").first_try(0.5)
    (0.0, 0.16666666666666666)
    """

    mass: float | Literal["auto"] = 0.0
    samples: ClassVar[bool] = False  # whether the places of rows are needed

    def __post_init__(self) -> None:
        if self.mass != "auto" and not (
            isinstance(self.mass, (int, float)) and 0.0 <= self.mass < 1.0
        ):
            raise ValueError(
                f"trim must be 'auto', 'certain' or a mass in [0, 1), got {self.mass!r}"
            )

    def first_try(self, last_edge: float | None) -> float:
        """The mass to hide, given the edge of the round before (None in the first)."""
        if self.mass != "auto":
            return float(self.mass)
        return 0.0 if last_edge is None else last_edge / (2.0 * (1.0 + last_edge))

    def tries(self, last_edge: float | None, held: Sample) -> list[float]:
        """Masses to try in turn until a hypothesis is good enough; the last hides nothing."""
        delta = self.first_try(last_edge)
        return [delta, 0.5 * delta, 0.0] if delta > 0.0 else [0.0]

    def accepts(self, shown: Shown, edge: float, estimate: Estimate) -> bool:
        """Whether a hypothesis with this edge over all rows, and this one over those shown, will do."""
        return edge > max(0.0, shown.keeps * estimate.edge)

    def refused(self, shown: Shown, estimate: Estimate | None) -> Sample:
        """What is held once a hypothesis would not do, or none was found."""
        return shown.held.spent()

    def shown(self, rows: Weighed, delta: float, held: Sample) -> Shown:
        """The rows to show, given what is held from the rounds before."""
        some = shown_rows(rows.density, delta * rows.mass, rows.measure)
        if self.mass != "auto" or delta == 0.0:
            return Shown(some, None, held, hides=delta > 0.0)
        if _pays(some, rows.density, rows.measure.of_rows):
            return Shown(some, None, held, keeps=0.5, hides=True)
        return rows.all_shown(held)

    def again(self, rows: Weighed, held: Sample, number: int) -> Sample:
        """The sample of that number, which a round that is repeated held."""
        return held


@dataclass(frozen=True)
class Budget(Trim):
    r"""Show only so much of the base measure in every round: a sample, denser rows more likely.

    Rows are taken in the order of place / density, where a row's place is a number in [0, 1) from its
    content, turned a little every draw: the denser a row, the sooner it comes, and copies of a row stay
    together. The sample stands for the distribution: a row that came in with probability
    :math:`\pi < 1` is shown with :math:`1/\pi` of its weight (priority sampling).

    A sample is held for as many rounds as it stands for the distribution (Alafate and Freund, 2019):
    until its effective size (:meth:`Sample.effective_size`) is below half of what it was at the draw, or
    a hypothesis found on it keeps less than a quarter of its edge over all rows. (To ask for no more than
    some edge would not do: after a corrective step a hypothesis has none over all rows but for
    rounding, and may have one over the sample, which then gives it again and again.) While it is held
    its rows keep the :math:`1/\pi` of the draw and weigh what the distribution of the round gives them.

    Parameters
    ----------
    share : float in (0, 1), default=0.1
        Of the base measure that is shown. Where the hypothesis found has no edge over all rows, other
        samples are tried, and then everything.
    """

    share: float = 0.1
    samples: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0.0 < self.share < 1.0:
            raise ValueError(f"the share of rows to show must be in (0, 1), got {self.share!r}")

    def tries(self, last_edge: float | None, held: Sample) -> list[float]:
        """Shares to try in turn."""
        return [self.share] * _SAMPLES + [1.0]

    def shown(self, rows: Weighed, delta: float, held: Sample) -> Shown:
        """The sample that is held, or where it has worn out a new one within the budget."""
        if delta >= 1.0:
            return rows.all_shown(held)
        rows.need_places("a budget of rows")
        if held.lasts(rows.density, rows.measure):
            return Shown(held.rows, held.lift, held, _KEEPS, hides=True)
        new = Sample.drawn(rows, delta, held.draws)
        return Shown(new.rows, new.lift, new, hides=True)

    def again(self, rows: Weighed, held: Sample, number: int) -> Sample:
        """Drawn once more, unless it is held already."""
        if number == held.number:
            return held
        if number <= 0:
            return Sample(draws=-number)
        return Sample.drawn(rows, self.share, number - 1)


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows that stand for the distribution from one round to the next.

    Parameters
    ----------
    rows : array of shape (n_shown,)
        Rows of this shard, rising.
    lift : array of shape (n_shown,)
        One over the probability with which each was drawn: a factor on its weight.
    size : float
        The effective size at the draw; infinite where no sample is held.
    draws : int
        How many there were so far.
    level : int
        Where shares are found by the data: this one is two to the minus `level`. Where no sample is
        held, the share that an edge of one would ask for.
    grain : float
        There also: the measure of a row as it was drawn, copies included, on average.
    """

    rows: NDArray[np.intp] = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    lift: Array = field(default_factory=lambda: np.empty(0))
    size: float = math.inf
    draws: int = 0
    level: int = 0
    grain: float = 0.0

    @classmethod
    def drawn(cls, rows: Weighed, share: float, draws: int) -> Sample:
        """A new sample, with the places turned as far as so many draws before ask for."""
        density, measure, places = rows.density, rows.measure, rows.need_places("a sample")
        some, floor = sampled_rows(density, places, share, measure, draws)
        with np.errstate(over="ignore"):  # a row of no density to speak of: it wears the sample out
            lift = np.maximum(1.0, floor / density[some])
        lift = np.minimum(lift, _HEAVIEST)
        sample = cls(some, lift, draws=draws + 1)
        return replace(sample, size=sample.effective_size(density, measure))

    def effective_size(self, row_density: Array, measure: BaseMeasure) -> float:
        r"""The share of the base measure that the sample is worth: Kish's formula.

        .. math:: \Bigl(\sum_{i \in S} D_i v_i\Bigr)^2 \Big/ \sum_{i \in S} D_i v_i^2,
            \qquad v_i = u_i \max(1, \text{floor} / u_i^{\text{draw}}),

        with u the densities now and at the draw: the measure of the whole sample where all its rows
        have the same v, the smaller the more uneven they are. A row of weight two counts as two rows.
        """
        density = row_density[self.rows] * self.lift
        mass = measure.of_rows.base(self.rows) * density
        whole, square = reproducible_sums([mass, mass * density], measure.comm)
        return whole * whole / square if square > 0.0 else 0.0

    def lasts(self, row_density: Array, measure: BaseMeasure) -> bool:
        """Whether the effective size is at least half of what it was at the draw."""
        if math.isinf(self.size):
            return False
        return self.effective_size(row_density, measure) >= 0.5 * self.size

    @property
    def number(self) -> int:
        """How many draws it took to get here, and the level; negative where the last was given up."""
        number = self.draws + (self.level << LEVEL_BITS)
        return number if math.isfinite(self.size) else -number

    def spent(self, level: int = 0) -> Sample:
        """What is left when the sample is given up: the count of draws, and what was learnt."""
        return Sample(draws=self.draws, level=level)


class Weighed(NamedTuple):
    """The rows of a shard as a round finds them: what a choice among them may look at.

    Parameters
    ----------
    density : array of shape (n_rows,)
        Of the distribution times `mass`, averaged over the entries of a row.
    measure : BaseMeasure
    places : array of shape (n_rows,), optional
        A number in [0, 1) a row, from its content: samples are drawn by it.
    mass : float, default=1.0
        The integral of the density.
    """

    density: Array
    measure: BaseMeasure
    places: Array | None = None
    mass: float = 1.0

    def need_places(self, who: str) -> Array:
        """The places, which `who` cannot do without."""
        if self.places is None:
            raise ValueError(f"{who} needs the places of the rows: see Run")
        return self.places

    def all_shown(self, held: Sample) -> Shown:
        """Every row of positive density, with nothing hidden; what is held stays so."""
        return Shown(shown_rows(self.density, 0.0, self.measure), None, held)


class Shown(NamedTuple):
    """Rows to show (None: all), a factor on the weight of each (None: one), and what is held.

    A hypothesis must keep more than a share `keeps` of its edge over them when all rows are asked.
    `hides` says whether rows of positive weight may be missing, on this shard or another, and `worth`
    how many rows drawn one by one the sample is as good as, where somebody asks.
    """

    rows: NDArray[np.intp] | None
    lift: Array | None
    held: Sample
    keeps: float = 0.0
    hides: bool = False
    worth: float = 0.0

    def estimate(self, direction: Array | Coded, density: Array, measure: BaseMeasure) -> Estimate:
        """The edge of a hypothesis of this loss vector over the rows shown, as they were shown."""
        at: Any = self.rows
        if at is None:  # another shard may hide some even so
            at = slice(None)
        elif measure.width > 1:
            at = (at[:, None] * measure.width + np.arange(measure.width)).reshape(-1)
        mass = measure.entries[at] * density[at]
        if self.lift is not None:
            mass *= np.repeat(self.lift, measure.width)
        d = direction
        answers = d.values[d.codes[at]] if isinstance(d, Coded) else d[at]
        losses = mass * answers
        sums = reproducible_sums([losses, losses * answers, mass], measure.comm)
        loss, square = sums[0] / sums[2], sums[1] / sums[2]
        return Estimate(-loss, square - loss * loss)


class Estimate(NamedTuple):
    """The edge of a hypothesis over the rows shown, as they were shown, and the variance of its losses."""

    edge: float
    variance: float


def _keys(row_density: Array, places: Array, draws: int, measure: BaseMeasure) -> Array:
    """Turned place / density; `_NEVER` where there is no density."""
    keys, turn = np.empty(len(places)), math.fmod(_GOLDEN * draws, 1.0)

    def work(a: int, b: int) -> None:
        with np.errstate(over="ignore"):
            for start in range(a, b, _BLOCK):
                part = slice(start, min(start + _BLOCK, b))
                turned = places[part] + turn
                turned -= np.floor(turned)
                positive = row_density[part] > 0.0
                turned = np.divide(turned, row_density[part], out=turned, where=positive)
                keys[part] = np.where(positive, np.minimum(turned, _LAST), _NEVER)

    measure.threads.over(len(keys), work)
    return keys


def sampled_rows(
    row_density: Array, places: Array, share: float, measure: BaseMeasure, draws: int = 0
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
    keys = _keys(row_density, places, draws, rows)
    level = lower_tail(keys, rows.entries, share, rows).level
    last = min(level, _LAST)
    parts = rows.threads.over(len(keys), lambda a, b: a + np.flatnonzero(keys[a:b] <= last))
    chosen = np.concatenate(parts)
    if rows.total(rows.entries[chosen]) > share * (1.0 + 1e-12):
        below = chosen[keys[chosen] < level]
        if rows.comm.allreduce(np.array([below.size], dtype=np.int64), "sum")[0] > 0:
            chosen = below
    return chosen, 1.0 / level if 0.0 < level < _NEVER else 0.0


def _pays(rows: NDArray[np.intp] | None, row_density: Array, measure: BaseMeasure) -> bool:
    """Whether some rows are few enough among those of positive density, over all shards."""
    shown = measure.entries if rows is None else measure.entries[rows]
    some, whole = reproducible_sums([shown, measure.entries[row_density > 0.0]], measure.comm)
    return some <= _PAYS * whole


def shown_rows(row_density: Array, delta: float, measure: BaseMeasure) -> NDArray[np.intp] | None:
    """The rows to show when a mass of at most `delta` may be hidden; None means all.

    Rows of density zero are never shown. The lightest are chosen by density, not by weight, and rows
    of equal density stay together: otherwise a row of weight two would differ from the row twice.
    """
    if delta == 0.0:
        support = measure.support(row_density)
        return None if support.everything else support.places
    level = lower_tail(row_density, measure.rows_base * row_density, delta, measure).level
    least = max(level, math.ulp(0.0))
    parts = measure.threads.over(
        row_density.size, lambda a, b: a + np.flatnonzero(row_density[a:b] >= least)
    )
    rows = np.concatenate(parts)
    return None if rows.size == row_density.size else rows
