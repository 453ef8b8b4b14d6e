"""A round's search: rows and weights to the learner, a hypothesis with a true edge back."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from maboost.boosting.game import Game
from maboost.boosting.showing import Estimate, Sample, Showing, Shown, Weighed
from maboost.boosting.votes import Scores
from maboost.learners.base import Hypothesis, Negated, Producer, WeakLearner
from maboost.mirror.ascent import AscentState
from maboost.mirror.coded import Coded
from maboost.mirror.measure import BaseMeasure
from maboost.runtime.threads import PICKED

__all__ = ["Finder", "Found"]

Array = NDArray[np.float64]

ZERO_EDGE = 1e-12


@dataclass(frozen=True)
class Found:
    """A hypothesis with a positive edge.

    Attributes
    ----------
    hypothesis : Hypothesis
    direction : array or Coded
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
    direction: Array | Coded
    scores: Scores | None
    edge: float
    rows_used: int
    exact: bool


@dataclass
class Finder:
    """The learner, with the rows of one shard and what is shown of them.

    Attributes
    ----------
    learner, producer, game, measure, trim, places
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
    measure: BaseMeasure
    trim: Showing
    places: Array | None = None
    held: Sample = field(default_factory=Sample)

    def __post_init__(self) -> None:
        self._unit_weights = bool(np.all(self.weights == 1.0))

    def losses(self, h: Hypothesis) -> tuple[Array | Coded, Scores | None]:
        """The loss vector of a hypothesis, as codes where it takes few values; and its scores, as in `Found`."""
        known = self.producer.training_leaves(h)
        many = self.game.width > 1
        if known is None or not self.game.takes_codes(len(known[0]), self.measure.count):
            scores = self.producer.training_scores(h)
            return self.game.loss(scores), scores if many else None
        return self.game.coded_loss(*known, self.measure.threads), known if many else None

    def edge(self, d: Array | Coded, state: AscentState) -> float:
        """The edge of the hypothesis with these losses."""
        density, mass = state.density, state.mass
        if isinstance(d, Coded):
            return -math.fsum(d.values * d.masses(density, self.measure, mass)) / mass
        (loss,) = self.measure.integrals_of(lambda part: [density[part] * d[part]], 1)
        return -loss / mass

    def find(
        self, state: AscentState, last_edge: float | None, random_state: np.random.RandomState
    ) -> Found | None:
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
                if shown.keeps > 0.0:  # otherwise nobody asks
                    estimate = shown.estimate(found.direction, state.density, self.measure)
                if trim.accepts(shown, found.edge, estimate):
                    return found
            if not shown.hides:
                break
            self.held = trim.refused(shown, estimate)
        return None

    def weighed(self, state: AscentState) -> Weighed:
        """The rows as this round finds them."""
        density, mass = state.density, state.mass
        return Weighed(self.measure.row_means(density), self.measure, self.places, mass)

    def hold(self, sample: Sample) -> None:
        """From now on show this sample; the producer may keep its rows at hand, and no others."""
        self.held = sample
        self.producer.hold(None if math.isinf(sample.size) else sample.rows)

    def _found_on(
        self,
        shown: Shown,
        rows_density: Array,
        state: AscentState,
        random_state: np.random.RandomState,
    ) -> Found | None:
        """A hypothesis for these rows that has a positive edge over all rows."""
        rows, lift = shown.rows, shown.lift
        weights = self._shown_weights(rows_density, rows, state.mass)
        used = len(weights)
        if lift is not None:
            weights = weights * lift
            used = int(np.count_nonzero(weights))
        for rewards in self._reward_tries(rows, state):
            if rewards is not None and lift is not None:
                rewards = rewards * lift[:, None]
            h = self.producer.produce(weights, rows, rewards, random_state)
            d, scores = self.losses(h)
            edge = self.edge(d, state)
            if edge < -ZERO_EDGE and self.learner.closed_under_negation:
                h, d, edge = Negated(h), -d, -edge
            if edge > ZERO_EDGE:
                return Found(h, d, scores, edge, used, self.learner.exact and not shown.hides)
        return None

    def _shown_weights(
        self, rows_density: Array, rows: NDArray[np.intp] | None, mass: float
    ) -> Array:
        """The user's weights times the density of mass one, to be read only in this round.

        With no weights and a mass of one it is the density itself.
        """
        if rows is None and self._unit_weights and mass == 1.0:
            return rows_density
        out = self.measure.of_rows.array() if rows is None else np.empty(len(rows))

        def work(a: int, b: int) -> None:
            at = slice(a, b) if rows is None else rows[a:b]
            np.divide(rows_density[at], mass, out=out[a:b])
            if not self._unit_weights:
                np.multiply(self.weights[at], out[a:b], out=out[a:b])

        self.measure.threads.over(len(out), work, None if rows is None else PICKED)
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
