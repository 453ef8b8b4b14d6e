"""The search for the hypothesis of a round: rows and weights to the learner, then its true edge."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from maboost.boosting.game import Game
from maboost.boosting.row_sampling.policy import Estimate, RoundRows, Sample, Showing, Subset
from maboost.boosting.votes import Scores, negated
from maboost.engine.base import Engine
from maboost.engine.leaf_codes import Direction
from maboost.learners.base import Hypothesis, Negated, Producer, WeakLearner
from maboost.mirror.ascent import AscentState
from maboost.runtime.entries import value_at
from maboost.runtime.kernels import kernel
from maboost.runtime.parallel import chunks_of, parallel_for

__all__ = ["ZERO_EDGE", "HypothesisSearch", "SearchResult"]

Array = NDArray[np.float64]

ZERO_EDGE = 1e-12
_LEAST = 1 << 12  # rows of a chunk


@kernel
def _weigh_chunk(density, mass, weights, rows, out, size, chunk, slot):
    for j in range(chunk * size, min((chunk + 1) * size, out.size)):
        i = j if rows is None else rows[j]
        out[j] = value_at(weights, i) * (density[i] / mass)


@kernel
def _weigh(team, density, mass, weights, rows, out):
    """Write the weight of each row shown: its own, times its density of mass one."""
    chunks, size = chunks_of(team, out.size, _LEAST)
    parallel_for(team, chunks, _weigh_chunk, (density, mass, weights, rows, out, size))


@dataclass(frozen=True)
class SearchResult:
    """A hypothesis whose edge is large enough.

    Attributes
    ----------
    hypothesis : Hypothesis
    direction : array or LeafCodes
        The loss vector over all rows.
    scores : array or tuple
        The scores on all rows (:data:`maboost.boosting.votes.Scores`).
    edge : float
        The edge over all rows, including those hidden from the learner.
    rows_used : int
        The number of rows of this shard that the learner saw.
    exact : bool
        Whether no hypothesis of the class has a larger edge.
    """

    hypothesis: Hypothesis
    direction: Direction
    scores: Scores
    edge: float
    rows_used: int
    exact: bool


@dataclass
class HypothesisSearch:
    """The learner, the rows of one shard, and the choice of the rows to show.

    Attributes
    ----------
    learner, producer, game, engine, trim, row_hashes
        As in the run.
    weights : array of shape (n_rows,)
        The user's weights; the learner is shown these times the density.
    held : Sample
        The rows that are shown for several rounds, if the booster samples rows.
    """

    learner: WeakLearner
    producer: Producer
    game: Game
    weights: Array
    engine: Engine
    trim: Showing
    row_hashes: Array | None = None
    held: Sample = field(default_factory=Sample)

    def __post_init__(self) -> None:
        self.measure = self.engine.measure
        self._unit_weights = bool(np.all(self.weights == 1.0))

    def losses(self, h: Hypothesis) -> tuple[Direction, Scores]:
        """Return the loss vector of a hypothesis, as codes if it takes few values, and its scores as in `SearchResult`."""
        known = self.producer.training_leaves(h)
        if known is None or not self.game.takes_codes(len(known[0]), self.measure.count):
            scores = self.producer.training_scores(h)
            return self.game.loss(scores), scores if known is None else known
        return self.game.coded_loss(*known, self.measure.threads), known

    def find(
        self,
        state: AscentState,
        last_edge: float | None,
        random_state: np.random.RandomState,
        least: float = ZERO_EDGE,
    ) -> SearchResult | None:
        """Return a hypothesis with an edge above `least` over all rows, hiding rows only as far as that allows."""
        trim, weighed = self.trim, self.weighed(state)
        if trim.samples and math.isinf(self.held.size):
            self.hold(self.held)  # release the rows of a sample that the last round discarded
        for amount in trim.tries(last_edge, self.held):
            shown = trim.shown(weighed, amount, self.held)
            if shown.held is not self.held:
                self.hold(shown.held)
            found = self._found_on(shown, weighed.density, state, random_state, least)
            estimate = None
            if found is not None:
                estimate = Estimate(found.edge, 0.0)
                if shown.edge_share > 0.0:  # otherwise the estimate is not needed
                    estimate = shown.estimate(found.direction, state.density, self.measure)
                if trim.accepts(shown, found.edge, estimate) or not shown.hides:
                    return found
            if not shown.hides:
                break
            self.held = trim.after_refusal(shown, estimate)
        return None

    def weighed(self, state: AscentState) -> RoundRows:
        """Return the rows as this round sees them."""
        density, mass = state.density, state.mass
        return RoundRows(self.measure.row_means(density), self.measure, self.row_hashes, mass)

    def hold(self, sample: Sample) -> None:
        """Show this sample from now on; the producer may keep a copy of its rows, and of no others."""
        self.held = sample
        self.producer.hold(None if math.isinf(sample.size) else sample.rows)

    def _found_on(
        self,
        shown: Subset,
        rows_density: Array,
        state: AscentState,
        random_state: np.random.RandomState,
        least: float,
    ) -> SearchResult | None:
        """Return a hypothesis for these rows that has an edge above `least` over all rows."""
        rows, factors = shown.rows, shown.factors
        weights = self._shown_weights(rows_density, rows, state.mass)
        used = len(weights)
        if factors is not None:
            weights = weights * factors
            used = int(np.count_nonzero(weights))
        for rewards in self._reward_tries(rows, state):
            if rewards is not None and factors is not None:
                rewards = rewards * factors[:, None]
            h = self.producer.produce(weights, rows, rewards, random_state)
            d, scores = self.losses(h)
            edge = self.engine.edge(state, d)
            if edge < -ZERO_EDGE and self.learner.closed_under_negation:
                h, d, scores, edge = Negated(h), -d, negated(scores), -edge
            if edge > least:
                return SearchResult(
                    h, d, scores, edge, used, self.learner.exact and not shown.hides
                )
        return None

    def _shown_weights(
        self, rows_density: Array, rows: NDArray[np.intp] | None, mass: float
    ) -> Array:
        """Return the user's weights times the density of mass one, to be read only in this round.

        Without weights and with a mass of one the result is the density itself.
        """
        if rows is None and self._unit_weights and mass == 1.0:
            return rows_density
        out = np.empty(len(rows_density) if rows is None else len(rows))
        own = 1.0 if self._unit_weights else self.weights
        self.measure.threads.run(_weigh, rows_density, mass, own, rows, out)
        return out

    def _reward_tries(
        self, rows: NDArray[np.intp] | None, state: AscentState
    ) -> Iterator[Array | None]:
        if self.game.width == 1:
            yield None
            return
        if not self.learner.takes_costs:
            yield None
        weights = self.weights / (self.game.width * state.mass)
        yield self.game.rewards(state.density, weights, rows, self.measure.threads)
