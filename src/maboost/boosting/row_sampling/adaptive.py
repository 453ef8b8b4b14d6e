r"""Adaptive sampling: the learner sees as many rows as its decision needs.

The learner sees a small sample, which doubles until the edge on it is statistically certain (Alafate
and Freund, 2019). The certificates do not rest on the sample, since the edge over *all* rows is measured
in every round.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from maboost.boosting.row_sampling.policy import (
    LEVEL_BITS,
    Estimate,
    RoundRows,
    Sample,
    Showing,
    Subset,
)
from maboost.mirror.measure import BaseMeasure
from maboost.runtime.communicator import gathered_objects, reproducible_sums

__all__ = ["Certain", "deviation", "rows_needed"]

Array = NDArray[np.float64]

_DELTA = 1e-3  # the probability that an estimate is further off than the bound
_KEEPS = 0.5  # share of the sample's edge that must hold over all rows
_FINEST, _COARSEST = (
    10,
    3,
)  # levels: from a thousandth of the base measure to an eighth, then all rows
_LEVELS = 52  # at most
_UNIT = 2.0**52  # measures in this unit are integers whose sums are exact


def deviation(worth: float, variance: float) -> float:
    r"""Return a bound on how far a mean over `worth` rows falls below its expectation: empirical Bernstein.

    .. math:: \sqrt{\frac{2 V \log(2/\delta)}{n-1}} + \frac{14 \log(2/\delta)}{3(n-1)}, \qquad \delta = 10^{-3},

    for values in [-1, 1] of sample variance V; true with probability :math:`1-\delta` (Maurer and
    Pontil, 2009).

    >>> round(deviation(10_000, 1.0), 4), round(deviation(10_000, 0.05), 4)
    (0.0425, 0.0123)
    """
    if not worth > 1.0:
        return math.inf
    log = math.log(2.0 / _DELTA) / (worth - 1.0)
    return math.sqrt(2.0 * max(variance, 0.0) * log) + 14.0 / 3.0 * log


def rows_needed(edge: float, variance: float) -> float:
    """Return the number of rows at which :func:`deviation` is half the edge.

    >>> round(deviation(rows_needed(0.2, 0.19), 0.19), 12)
    0.1
    """
    if not edge > 0.0:
        return math.inf
    half = _KEEPS * edge
    # a quadratic equation in the root of log(2/delta) / (n - 1)
    wide = math.sqrt(2.0 * max(variance, 0.0))
    root = 2.0 * half / (wide + math.sqrt(wide * wide + 4.0 * half * 14.0 / 3.0))
    return 1.0 + math.log(2.0 / _DELTA) / (root * root)


@dataclass(frozen=True)
class Certain(Showing):
    r"""Sampling with a certain edge: the sample doubles until the edge on it is statistically certain.

    Samples are drawn, weighted and kept as by :class:`~maboost.boosting.row_sampling.budget.Budget`, but for a share
    :math:`2^{-l}` of the base measure. The next larger sample has the same rows and as many others, since the
    row hashes do not change, and neither does the order of rows of unchanged density. A hypothesis of
    edge :math:`\gamma'` on the sample is accepted if both

    - the edge is certain: :func:`deviation` is at most :math:`\gamma'/2`, with the variance of the losses
      over the sample, and n the number of independent draws that the sample is worth (Kish's
      effective size, where all copies of a row count as one);
    - its edge over all rows, which is measured, is more than :math:`\gamma'/2`.

    By the first, a hypothesis whose edge over all rows is :math:`\tfrac32\gamma'` or more would have
    shown more than :math:`\gamma'` on the sample with probability :math:`1-\delta` (if its
    losses vary as much as those of the one found). So a learner that takes the best of the sample gets at
    least a third of the best edge. This probability holds for a fresh sample with independently drawn rows. A kept
    sample, or one grown from a kept sample, has influenced the distribution on which it is used. The second
    condition guards against that: it detects a sample that was fitted too closely, and no error bound depends
    on any of this. If an eighth of the measure is not enough, all rows are shown, and again in later rounds
    until the edge of the previous round is so large that a sample of that size would do.

    Trees with real answers need few rows: a leaf that answers the mean of its labels has losses of
    variance :math:`\gamma(1-\gamma)`, so about :math:`170/\gamma` rows are enough, compared with
    :math:`60/\gamma^2` for votes.

    References
    ----------
    Alafate and Freund (2019), "Faster boosting with smaller memory".

    Examples
    --------
    >>> Certain().tries(None, Sample())[:3]
    [0.0009765625, 0.001953125, 0.00390625]
    """

    samples: ClassVar[bool] = True

    def tries(self, last_edge: float | None, held: Sample) -> list[float]:
        """Return the shares of the base measure to show."""
        first = _first_level(last_edge, held)
        return [*(2.0**-level for level in range(first, _COARSEST - 1, -1)), 1.0]

    def accepts(self, shown: Subset, edge: float, estimate: Estimate) -> bool:
        """Return whether the edge over the sample is certain, and half of it holds over all rows."""
        if (
            shown.hides
            and deviation(shown.effective_rows, estimate.variance) > _KEEPS * estimate.edge
        ):
            return False
        return super().accepts(shown, edge, estimate)

    def after_refusal(self, shown: Subset, estimate: Estimate | None) -> Sample:
        """Return an empty sample, with the level at which the next search starts."""
        edge, variance = estimate or (0.0, 1.0)
        if not edge > 0.0:  # the edge is too small for this sample to find
            edge = min(deviation(shown.effective_rows, 1.0), 1.0)
        needed = max(rows_needed(edge, variance), 2.0 * shown.effective_rows)
        share = min(2.0 * needed * edge**2 * shown.held.row_measure, 1.0)
        return shown.held.discarded(min(math.floor(-math.log2(share)), _LEVELS))

    def shown(self, rows: RoundRows, amount: float, held: Sample) -> Subset:
        """Return the kept sample if it has this share and is representative; otherwise a new one."""
        if amount >= 1.0:
            return rows.all_shown(held)
        rows.need_row_hashes("trim='certain'")
        level, some = round(-math.log2(amount)), math.isfinite(held.size)
        if some and held.level == level:
            size = held.effective_size(rows.density, rows.measure)
            if size >= 0.5 * held.size:
                return Subset(held.rows, held.factors, held, _KEEPS, True, size / held.row_measure)
        # grow the discarded sample: the same rows and more
        turn = held.draws if some else max(held.draws - 1, 0)
        new = _drawn(rows, level, turn)
        return Subset(new.rows, new.factors, new, _KEEPS, True, new.size / new.row_measure)

    def redraw(self, rows: RoundRows, held: Sample, number: int) -> Sample:
        """Draw the sample of this number again, unless it is the kept one."""
        if number == held.number:
            return held
        level, draws = abs(number) >> LEVEL_BITS, abs(number) & ((1 << LEVEL_BITS) - 1)
        if level > _LEVELS:
            raise ValueError(f"a sample has level {level}, and the finest is {_LEVELS}")
        if number <= 0:
            return Sample(draws=draws, level=level)
        return _drawn(rows, level, draws - 1)


def _first_level(last_edge: float | None, held: Sample) -> int:
    """Return the first level to try: that of the kept sample, or twice what the last edge would need."""
    if math.isfinite(held.size):
        return held.level
    if last_edge is None or held.draws == 0:
        return _FINEST
    return min(math.floor(held.level + 2.0 * math.log2(last_edge)), _FINEST)


def _drawn(rows: RoundRows, level: int, turn: int) -> Sample:
    """Return a sample of this level, and the mean measure of its rows."""
    measure, row_hashes = rows.measure, rows.need_row_hashes("a sample")
    sample = Sample.draw(rows, 2.0**-level, turn)
    base, density = measure.rows_base[sample.rows], rows.density[sample.rows] * sample.factors
    mass = base * density * density
    copies = mass * _with_copies(row_hashes[sample.rows], base, measure)
    whole, square = reproducible_sums([mass, copies], measure.comm)
    return replace(sample, level=level, row_measure=square / whole if whole > 0.0 else 1.0)


def _with_copies(row_hashes: Array, base: Array, measure: BaseMeasure) -> Array:
    """Return the measure of each row with all its copies, which are in a sample together or not at all.

    The unit makes the sums independent of the order; a row lighter than one unit counts for itself.
    """
    distinct, which = np.unique(row_hashes, return_inverse=True)
    here = np.bincount(which, np.rint(base * _UNIT), len(distinct))
    shards = gathered_objects((distinct, here), measure.comm)
    if len(shards) > 1:
        every, where = np.unique(np.concatenate([d for d, _ in shards]), return_inverse=True)
        sums = np.bincount(where, np.concatenate([h for _, h in shards]))
        here = sums[np.searchsorted(every, distinct)]
    return np.maximum(here[which] / _UNIT, base)
