"""Sampling of a share of the rows, all with the same probability, anew in every round."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import ClassVar

import numpy as np

from maboost.boosting.row_sampling.policy import RoundRows, Sample, Showing, Subset
from maboost.runtime.kernels import kernel
from maboost.runtime.parallel import chunks_of, parallel_for

__all__ = ["Uniform"]

_SAMPLES = 3  # samples to try in a round before all rows are shown
_LEAST = 1 << 12  # rows of a chunk
_TURN = 0x9E3779B97F4A7C15  # odd, so that no two draws of a run have the same key
_WORD = (1 << 64) - 1


@kernel
def _mark_chunk(row_hashes, density, key, share, shown, size, chunk, slot):
    for i in range(chunk * size, min((chunk + 1) * size, shown.size)):
        z = np.uint64(row_hashes[i] * 9007199254740992.0) ^ key  # 2**53
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
        shown[i] = (np.float64(z >> np.uint64(11)) < share * 9007199254740992.0) & (density[i] > 0)


@kernel
def _mark(team, row_hashes, density, key, share):
    """Mark the rows whose hash, mixed with the key, is in the lowest share."""
    shown = np.empty(row_hashes.size, dtype=np.bool_)
    chunks, size = chunks_of(team, shown.size, _LEAST)
    parallel_for(team, chunks, _mark_chunk, (row_hashes, density, key, share, shown, size))
    return shown


@dataclass(frozen=True)
class Uniform(Showing):
    """Uniform sampling: every round shows each row with the same probability.

    A hash of the row's content, the seed and the number of the draw decides, so that the sample does not depend on
    the order of rows or on how they are divided among machines. Rows of equal content are shown together. Weights are
    those of the distribution. The edge is measured on all rows, so certificates hold as without sampling. If a
    hypothesis has no edge over all rows, other samples are tried, and then all rows.

    Parameters
    ----------
    share : float in (0, 1)
        The probability of each row. The size of a sample varies around this share of the rows.
    seed : int, default=0

    References
    ----------
    Friedman (2002), "Stochastic gradient boosting".

    Examples
    --------
    >>> from maboost.boosting.row_sampling.policy import Sample
    >>> Uniform(0.5).tries(None, Sample())
    [0.5, 0.5, 0.5, 1.0]
    """

    share: float
    seed: int = 0
    samples: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not (isinstance(self.share, Real) and 0.0 < self.share < 1.0):
            raise ValueError(f"the share of rows to show must be in (0, 1), got {self.share!r}")

    def tries(self, last_edge: float | None, held: Sample) -> list[float]:
        """Return the shares to show."""
        return [float(self.share)] * _SAMPLES + [1.0]

    def shown(self, rows: RoundRows, amount: float, held: Sample) -> Subset:
        """Return a new sample; all rows if it is empty on all shards."""
        held = Sample(draws=held.draws + 1)
        if amount >= 1.0:
            return rows.all_shown(held)
        hashes = rows.need_row_hashes("max_samples")
        key = np.uint64((self.seed * 0xD1B54A32D192ED03 + held.draws * _TURN) & _WORD)
        measure = rows.measure
        marks = measure.threads.run(_mark, hashes, rows.density, key, amount)
        some = np.flatnonzero(marks)
        if measure.comm.allreduce(np.array([some.size], dtype=np.int64), "sum")[0] == 0:
            return rows.all_shown(held)
        return Subset(some, None, held, hides=True)

    def redraw(self, rows: RoundRows, held: Sample, number: int) -> Sample:
        """Return the sample of this number: only the count of draws decides the next one."""
        return Sample(draws=abs(number))
