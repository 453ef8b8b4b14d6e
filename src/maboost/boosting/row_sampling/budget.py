"""Showing the learner a sample of a given size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from maboost.boosting.row_sampling.policy import RoundRows, Sample, Showing, Subset

__all__ = ["Budget"]

_SAMPLES = 3  # to try in a round before everything is shown
_KEEPS = 0.25  # of the edge over a sample that was held, over all rows


@dataclass(frozen=True)
class Budget(Showing):
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
        """Shares of the base measure to show."""
        return [self.share] * _SAMPLES + [1.0]

    def shown(self, rows: RoundRows, amount: float, held: Sample) -> Subset:
        """The sample that is held, or where it has worn out a new one within the budget."""
        if amount >= 1.0:
            return rows.all_shown(held)
        rows.need_row_hashes("a budget of rows")
        if held.is_representative(rows.density, rows.measure):
            return Subset(held.rows, held.factors, held, _KEEPS, hides=True)
        new = Sample.draw(rows, amount, held.draws)
        return Subset(new.rows, new.factors, new, hides=True)

    def redraw(self, rows: RoundRows, held: Sample, number: int) -> Sample:
        """Drawn once more, unless it is held already."""
        if number == held.number:
            return held
        if number <= 0:
            return Sample(draws=-number)
        return Sample.draw(rows, self.share, number - 1)
