"""A round's search: rows and weights to the learner, a hypothesis with a true edge back."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from maboost.boosting.game import Game
from maboost.boosting.row_sampling.policy import Estimate, RoundRows, Sample, Showing, Subset
from maboost.boosting.votes import Scores
from maboost.engine.base import Engine
from maboost.engine.leaf_codes import Direction
from maboost.learners.base import Hypothesis, Negated, Producer, WeakLearner
from maboost.mirror.ascent import AscentState
from maboost.runtime.entries import value_at
from maboost.runtime.kernels import kernel
from maboost.runtime.parallel import chunks_of, parallel_for

__all__ = ["HypothesisSearch", "SearchResult"]

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
    """A hypothesis with a positive edge.

    Attributes
    ----------
    hypothesis : Hypothesis
    direction : array or LeafCodes
        Its loss vector over all rows.
    scores : array, tuple or None
        Its scores on all rows (:data:`maboost.boosting.votes.Scores`); None with two classes, where the loss
        vector tells them.
    edge : float
        Over all rows, those hidden from the learner included.
    rows_used : int
        Rows of this shard that the learner looked at.
    exact : bool
        Whether no hypothesis of the class has a larger edge.
    """

    hypothesis: Hypothesis
    direction: Direction
    scores: Scores | None
    edge: float
    rows_used: int
    exact: bool


@dataclass
class HypothesisSearch:
    """The learner, with the rows of one shard and what is shown of them.

    Attributes
    ----------
    learner, producer, game, engine, trim, row_hashes
        As of the run.
    weights : array of shape (n_rows,)
        The user's own; the learner is shown these times the density.
    held : Sample
        The rows that are shown from round to round, where the booster has a budget of rows.
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

    def losses(self, h: Hypothesis) -> tuple[Direction, Scores | None]:
        """The loss vector of a hypothesis, as codes where it takes few values; and its scores, as in `SearchResult`."""
        known = self.producer.training_leaves(h)
        many = self.game.width > 1
        if known is None or not self.game.takes_codes(len(known[0]), self.measure.count):
            scores = self.producer.training_scores(h)
            return self.game.loss(scores), scores if many else None
        return self.game.coded_loss(*known, self.measure.threads), known if many else None

    def find(
        self, state: AscentState, last_edge: float | None, random_state: np.random.RandomState
    ) -> SearchResult | None:
        """A hypothesis with a positive edge over all rows, hiding rows only as far as that allows."""
        trim, weighed = self.trim, self.weighed(state)
        if trim.samples and math.isinf(self.held.size):
            self.hold(self.held)  # none: what the last round gave up is not kept for this one
        for amount in trim.tries(last_edge, self.held):
            shown = trim.shown(weighed, amount, self.held)
            if shown.held is not self.held:
                self.hold(shown.held)
            found = self._found_on(shown, weighed.density, state, random_state)
            estimate = None
            if found is not None:
                estimate = Estimate(found.edge, 0.0)
                if shown.edge_share > 0.0:  # otherwise nobody asks
                    estimate = shown.estimate(found.direction, state.density, self.measure)
                if trim.accepts(shown, found.edge, estimate):
                    return found
            if not shown.hides:
                break
            self.held = trim.after_refusal(shown, estimate)
        return None

    def weighed(self, state: AscentState) -> RoundRows:
        """The rows as this round finds them."""
        density, mass = state.density, state.mass
        return RoundRows(self.measure.row_means(density), self.measure, self.row_hashes, mass)

    def hold(self, sample: Sample) -> None:
        """From now on show this sample; the producer may keep its rows at hand, and no others."""
        self.held = sample
        self.producer.hold(None if math.isinf(sample.size) else sample.rows)

    def _found_on(
        self,
        shown: Subset,
        rows_density: Array,
        state: AscentState,
        random_state: np.random.RandomState,
    ) -> SearchResult | None:
        """A hypothesis for these rows that has a positive edge over all rows."""
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
                h, d, edge = Negated(h), -d, -edge
            if edge > ZERO_EDGE:
                return SearchResult(
                    h, d, scores, edge, used, self.learner.exact and not shown.hides
                )
        return None

    def _shown_weights(
        self, rows_density: Array, rows: NDArray[np.intp] | None, mass: float
    ) -> Array:
        """The user's weights times the density of mass one, to be read only in this round.

        With no weights and a mass of one it is the density itself.
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
