"""Sampling of a fixed share of the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from maboost.boosting.row_sampling.policy import RoundRows, Sample, Showing, Subset

__all__ = ["Budget"]

_SAMPLES = 3  # samples to try in a round before all rows are shown
_KEEPS = 0.25  # share of a kept sample's edge that must hold over all rows


@dataclass(frozen=True)
class Budget(Showing):
    r"""Sampling with a budget: every round shows a share of the base measure, dense rows with higher probability.

    Rows are taken in the order of hash / density, where the hash is a number in [0, 1) from a row's content,
    rotated a little for every draw. So dense rows come first, and copies of a row stay together. A row that came in with
    probability :math:`\pi < 1` is shown with :math:`1/\pi` of its weight (priority sampling), so the sample represents
    the distribution.

    A sample is kept as long as it represents the distribution (Alafate and Freund, 2019):
    until its effective size (:meth:`Sample.effective_size`) falls below half of that at the draw, or
    a hypothesis found on it keeps less than a quarter of its edge over all rows. A positive edge alone would
    not be enough: after a corrective step a hypothesis has no edge over all rows except for rounding, and may have
    one over the sample, so the learner could return it again and again. While the sample is kept, its rows keep the
    :math:`1/\pi` of the draw, times their weight in the distribution of the round.

    Parameters
    ----------
    share : float in (0, 1), default=0.1
        The share of the base measure that is shown. If the hypothesis found has no edge over all rows, other
        samples are tried, and then all rows.

    >>> from maboost.boosting.row_sampling.policy import Sample
    >>> Budget(share=0.2).tries(None, Sample())
    [0.2, 0.2, 0.2, 1.0]
    """

    share: float = 0.1
    samples: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0.0 < self.share < 1.0:
            raise ValueError(f"the share of rows to show must be in (0, 1), got {self.share!r}")

    def tries(self, last_edge: float | None, held: Sample) -> list[float]:
        """Return the shares of the base measure to show."""
        return [self.share] * _SAMPLES + [1.0]

    def shown(self, rows: RoundRows, amount: float, held: Sample) -> Subset:
        """Return the kept sample, or a new one within the budget if it is no longer representative."""
        if amount >= 1.0:
            return rows.all_shown(held)
        rows.need_row_hashes("a budget of rows")
        if held.is_representative(rows.density, rows.measure):
            return Subset(held.rows, held.factors, held, _KEEPS, hides=True)
        new = Sample.draw(rows, amount, held.draws)
        return Subset(new.rows, new.factors, new, hides=True)

    def redraw(self, rows: RoundRows, held: Sample, number: int) -> Sample:
        """Draw the sample of this number again, unless it is the kept one."""
        if number == held.number:
            return held
        if number <= 0:
            return Sample(draws=-number)
        return Sample.draw(rows, self.share, number - 1)
