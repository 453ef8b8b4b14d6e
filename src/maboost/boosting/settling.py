"""After a step: the rows' margins and evidence, and what the record says of them, in one pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maboost.boosting.game import Game
from maboost.messages import reduced
from maboost.mirror.coded import Coded, advance
from maboost.mirror.kernels import settle_rows
from maboost.mirror.measure import BaseMeasure

__all__ = ["RowSums", "Settled", "Settlement"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Settled:
    """What the pass finds over all shards.

    Attributes
    ----------
    error : float
        The measure of rows that are not right.
    square : float
        The integral of the squared density of rows.
    nonzero : float
        The fraction of rows with weight.
    smallest_margin, largest_density : float
    counts : list of int
        The sums of what was to be counted along with it.
    """

    error: float
    square: float
    nonzero: float
    smallest_margin: float
    largest_density: float
    counts: list[int]


class RowSums(NamedTuple):
    """Sums over the rounds, for every row of a shard.

    Attributes
    ----------
    margins : array
        Unnormalised margins of all pairs.
    push, trust : arrays of shape (n_rows,)
        Each row's density, and its normalised margin.
    """

    margins: Array
    push: Array
    trust: Array


@dataclass(frozen=True)
class Settlement:
    """A round to be added to the sums: a step along `direction`, found under `density`."""

    game: Game
    measure: BaseMeasure
    direction: Array | Coded
    density: Array
    step: float
    total_step: float

    def added_to(self, sums: RowSums, counts: tuple[int, ...] = ()) -> Settled:
        """Add it, and tell what became of the rows; counts of this shard go along in the message."""
        rows = self.measure.of_rows
        others: list[tuple[int, float, float]] = []

        def block(part: slice) -> NDArray[np.int64]:
            found, other = self._part_added_to(sums, part)
            others.append(other)
            return found

        folded = rows.folded_here(block)
        held = sum(nonzero for nonzero, _, _ in others)
        ends = np.array([(-least, most) for _, least, most in others] or [(-np.inf, -np.inf)])
        counted = np.array([held, *counts], dtype=np.int64)
        folded, counted, ends = reduced(
            [(folded, "sum"), (counted, "sum"), (ends.max(axis=0), "max")], rows.comm
        )
        both = rows.unfolded(folded)
        if both is None:  # a density beyond the grid
            wrong = self.game.worst_margins(sums.margins) <= 0.0
            square = self.measure.row_means(self.density) ** 2
            both = rows.integrals([wrong.astype(np.float64), square])
        held, *counted = counted.tolist()
        return Settled(
            both[0], both[1], held / rows.count, -float(ends[0]), float(ends[1]), counted
        )

    def _part_added_to(
        self, sums: RowSums, part: slice
    ) -> tuple[NDArray[np.int64], tuple[int, float, float]]:
        """Some rows: folded sums; how many densities are not zero, least margin, most density."""
        rows, width = self.measure.of_rows, self.measure.width
        entries = slice(part.start * width, part.stop * width)
        advance(sums.margins, self.direction, entries, -self.step, sums.margins)
        worst, density = self.game.worst_margins(sums.margins[entries]), self.density[entries]
        density = density if width == 1 else density.reshape(-1, width).mean(axis=1)
        found, nonzero = settle_rows(
            worst, density, rows.entries[part], 1.0 / self.total_step, sums.push[part],
            sums.trust[part], *rows.grid.factors,
        )  # fmt: skip
        least, most = np.min(worst, initial=np.inf), np.max(density, initial=-np.inf)
        return found, (nonzero, float(least), float(most))
