r"""The loop of every booster.

A round: show the learner rows and weights, measure the true edge of what it returns, find votes, move the
distribution, add up the gain. What differs between boosters (geometry, set, update, step) is in the
:class:`Booster`; whether a round finds one vote or all of them anew is in its vote policy
(:mod:`maboost.boosting.vote_policy`); what differs between one machine and many is in the measure's communicator.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maboost.boosting.booster import Booster
from maboost.boosting.certificate import ErrorBound, MarginBound, Totals
from maboost.boosting.game import Game, Validation
from maboost.boosting.groups import Groups
from maboost.boosting.history import Record, Round
from maboost.boosting.row_sampling.policy import Sample
from maboost.boosting.search import ZERO_EDGE, HypothesisSearch, SearchResult
from maboost.boosting.vote_policy import (
    ErrorRefit,
    MarginRefit,
    Refitting,
    RoundVotes,
    Stagewise,
    VotePolicy,
)
from maboost.boosting.votes import Votes
from maboost.engine.base import Engine
from maboost.engine.dispatch import engine_for, project
from maboost.engine.settle import RowSums, Settled, settle
from maboost.learners.base import Hypothesis, WeakLearner
from maboost.mirror.measure import BaseMeasure
from maboost.mirror.soft_margin import linear_minimum
from maboost.mirror.steps import Situation

__all__ = ["Run"]

Array = NDArray[np.float64]


class Run:
    """A run of a booster over one shard of rows.

    Parameters
    ----------
    booster : Booster
    learner : WeakLearner
    X, game
        The rows, which only the learner reads, and their labels.
    weights : array of shape (n_rows,)
        The user's positive weights; the learner is shown these times the density.
    measure : BaseMeasure
        The same weights, normalised, with the game's width.
    random_state : RandomState
        The seeds of the learners.
    validation : Validation, optional
    groups : Groups, optional
        Whose errors are recorded every round, and whose largest densities where some have caps.
    row_hashes : array of shape (n_rows,), optional
        Numbers in [0, 1) from the content of each row, where the booster has a budget of rows or refits all votes.

    Attributes
    ----------
    votes : Votes
        The votes of the ensemble on all rows, with the margins M of all pairs.
    weight_sum, margin_sum : arrays of shape (n_rows,)
        Sums over the rounds of each row's density and normalised margin.
    totals : Totals
        Sums of gains, steps and penalties so far.
    ended : str or None
        The reason why no further round is possible.

    Examples
    --------
    >>> import numpy as np
    >>> from itertools import islice
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from maboost.boosting import maboost
    >>> from maboost.learners import EstimatorLearner
    >>> X = np.arange(20.0)[:, None]
    >>> labels = (X[:, 0] % 7 < 3).astype(int)
    >>> learner = EstimatorLearner(DecisionTreeClassifier(max_depth=1), np.array([0, 1]))
    >>> weights = np.ones(20)
    >>> run = Run(
    ...     maboost(), learner, X, Game(labels, 2), weights, BaseMeasure(weights),
    ...     np.random.RandomState(0),
    ... )
    >>> [bool(r.record.train_error <= r.record.error_bound) for r in islice(run, 3)]
    [True, True, True]
    """

    def __init__(
        self,
        booster: Booster,
        learner: WeakLearner,
        X: Any,
        game: Game,
        weights: Array,
        measure: BaseMeasure,
        random_state: np.random.RandomState,
        validation: Validation | None = None,
        groups: Groups | None = None,
        row_hashes: Array | None = None,
    ) -> None:
        self.booster = booster
        self.learner = learner
        self.game = game
        self.measure = measure
        self.random_state = random_state
        self.validation = validation
        self.groups = groups
        self.engine = engine_for(booster.ascent, measure)
        producer = learner.prepare(X, game.labels, game.n_classes)
        self.search = HypothesisSearch(
            learner, producer, game, weights, self.engine, booster.trim, row_hashes
        )
        self.state = self.engine.start()  # first, since it checks that the domain fits the rows
        self.bound = ErrorBound.of(booster.ascent, measure)
        self.margin_bound = MarginBound.of(booster.ascent, measure)
        self.votes = Votes(game, measure.threads)
        self.weight_sum, self.margin_sum = np.zeros(measure.rows), np.zeros(measure.rows)
        self.largest_densities = np.zeros(len(groups.names) if groups is not None else 0)
        self.totals = Totals()
        self.error = 1.0  # error over pairs, of the ensemble so far
        self.last_edge: float | None = None
        self.least_edge = math.inf
        self.exact = True
        self.sample_numbers: list[int] = []  # Sample.number of the sample kept after each round
        self.ended: str | None = None
        watching = None
        if validation is not None:
            self.validation = replace(validation, X=producer.watching(validation.X))
            watching = self.validation_votes = Votes(validation.game, measure.threads)
        self.policy = _policy_of(booster, self.engine, self.votes, watching, row_hashes)

    _KEPT = (
        "state", "weight_sum", "margin_sum", "totals", "error", "last_edge", "least_edge", "exact", "held", "ended",
        "sample_numbers", "largest_densities",
    )  # fmt: skip

    @property
    def margins(self) -> Array:
        """Unnormalised margins M of all pairs."""
        return self.votes.margins

    @property
    def gain(self) -> float:
        """The total gain G."""
        return self.totals.gain

    @property
    def densities_by_group(self) -> dict[Any, float]:
        """The largest density that a row of each group had so far; empty where no group has caps."""
        if self.groups is None or not self.groups.capped:
            return {}
        return dict(zip(self.groups.names, self.largest_densities.tolist(), strict=True))

    @property
    def total_step(self) -> float:
        """The sum of the steps."""
        return self.totals.steps

    @property
    def rounds(self) -> int:
        """The number of rounds so far."""
        return self.totals.rounds

    def snapshot(self) -> dict[str, Any]:
        """Return all that changes from round to round, from which another run over the same rows can continue."""
        kept = {name: getattr(self, name) for name in self._KEPT}
        kept |= {name: kept[name].copy() for name in ("weight_sum", "margin_sum", "sample_numbers")}
        # the engine overwrites the arrays of a state in the second round after it
        state = self.state
        kept["state"] = replace(state, theta=state.theta.copy(), density=state.density.copy())
        kept["votes"] = self.votes.state.copy()
        kept["policy"] = self.policy.snapshot()
        if self.validation is not None:
            kept["validation_votes"] = self.validation_votes.state.copy()
        kept["random_state"] = self.random_state.get_state()
        return kept

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Continue from a `snapshot`; the next round has the same bits as in the first run."""
        snapshot = dict(snapshot)
        self.random_state = np.random.RandomState()
        self.random_state.set_state(snapshot.pop("random_state"))
        self.votes.state = snapshot.pop("votes")
        self.policy.restore(snapshot.pop("policy"))
        watched = snapshot.pop("validation_votes", None)
        if self.validation is not None and watched is not None:
            self.validation_votes.state = watched
        for name, value in snapshot.items():
            setattr(self, name, value.copy() if isinstance(value, np.ndarray | list) else value)

    def close(self) -> None:
        """Release the rows, of which the learner may have copies: no further round is possible, but all sums stay."""
        self.ended = self.ended or "the run was closed"
        del self.search.producer

    def __iter__(self) -> Iterator[Round]:
        return self

    def __next__(self) -> Round:
        if self.ended is None:
            self.ended = self.booster.ascent.why_over(self.state.mass, self.error)
        if self.ended is not None:
            raise StopIteration
        began, read = time.perf_counter(), self.search.producer.bytes_read
        least = self.policy.least_edge
        found = self.search.find(self.state, self.last_edge, self.random_state, least)
        if found is None:
            above = f" above {least:g}" if least > ZERO_EDGE else ""
            self.ended = f"the learner found no edge{above}"
            raise StopIteration
        round = self._advance(found, self.search.producer.bytes_read - read, began)
        self.sample_numbers.append(self.held.number)
        return round

    @property
    def held(self) -> Sample:
        """The rows that are shown for several rounds, if the booster samples rows."""
        return self.search.held

    @held.setter
    def held(self, sample: Sample) -> None:
        self.search.hold(sample)

    def repeat(self, hypothesis: Hypothesis, record: Record, sample: int) -> Round:
        """Repeat a round whose hypothesis is known, for example from a file, without the search.

        `sample` is the :attr:`Sample.number` of the sample kept after it.

        Raises
        ------
        ValueError
            If its edge differs from that of the record, since the rows are then others.
        """
        over = self.ended or self.booster.ascent.why_over(self.state.mass, self.error)
        if over is not None:
            raise ValueError(f"round {record.round} comes after the end of the run: {over}")
        held = self.booster.trim.redraw(self.search.weighed(self.state), self.held, sample)
        if held is not self.held:
            self.held = held
        hypothesis = self.search.producer.restored(hypothesis)
        d, scores = self.search.losses(hypothesis)
        edge = self.engine.edge(self.state, d)
        if edge != record.edge:
            raise ValueError(
                f"the hypothesis of round {record.round} had an edge of {record.edge!r} and has one of "
                f"{edge!r} here: rows, labels, weights or the booster have changed"
            )
        known = SearchResult(hypothesis, d, scores, edge, 0, self.exact)
        round = self._advance(known, 0, time.perf_counter())
        self.sample_numbers.append(sample)
        kept = {name: getattr(record, name) for name in ("rows_used", "bytes_read", "seconds")}
        return replace(round, record=replace(round.record, **kept))

    def _advance(self, found: SearchResult, bytes_read: int, began: float) -> Round:
        booster, measure = self.booster, self.measure
        t = self.totals.rounds + 1
        d, edge = found.direction, found.edge
        l1 = booster.l1(edge, self.state.mass, t)
        situation = Situation(
            booster.ascent,
            self.state,
            measure,
            d,
            edge,
            t,
            self.error,
            self.totals.gain,
            l1,
            self.engine,
            project,
            self.least_edge,
        )
        self.least_edge = min(self.least_edge, edge)
        before = self.state
        new = self.policy.update(situation, found, self.totals, self.votes)
        self.state, self.totals = new.state, new.totals
        sums = RowSums(self.votes.margins, self.weight_sum, self.margin_sum)
        counts = (found.rows_used, bytes_read)
        settled = settle(measure, new.direction, before, new.step, new.totals.steps, sums, counts)
        self.last_edge = max(edge, ZERO_EDGE)  # refitted votes may take a hypothesis without one
        self.exact = self.exact and found.exact
        self.error = self._error_of_pairs(settled)
        self.ended = new.ended or self.ended
        val_error = self._validate(found.hypothesis, new.step)
        group_errors = {}
        if self.groups is not None:
            group_errors = self.groups.errors(settled.worst <= 0.0, measure)
            if self.groups.capped:
                now = self.groups.largest(measure.row_means(self.state.density), measure)
                self.largest_densities = np.maximum(self.largest_densities, now)
        record = self._record(found, settled, new, l1, val_error, began)
        self.ended = self.ended or self.policy.why_done(record, self.exact)
        return Round(found.hypothesis, record, group_errors, new.weights)

    def _error_of_pairs(self, settled: Settled) -> float:
        if self.measure.width == 1:
            return settled.error
        (error,) = self.measure.integrals_of(
            lambda part: [(self.margins[part] <= 0.0).astype(np.float64)], 1
        )
        return error

    def _validate(self, hypothesis: Hypothesis, step: float) -> float:
        """Return the error on the validation rows after this round."""
        if self.validation is None:
            return math.nan
        v = self.validation
        self.policy.watch(step, hypothesis.scores(v.X), self.validation_votes)
        wrong = v.game.worst_margins(self.validation_votes.margins) <= 0.0
        return float(self.measure.total(v.base * wrong))

    def _record(
        self,
        found: SearchResult,
        settled: Settled,
        new: RoundVotes,
        l1: float,
        val_error: float,
        began: float,
    ) -> Record:
        ascent, totals = self.booster.ascent, self.totals
        extent = settled.smallest_margin, settled.largest_margin
        soft = linear_minimum(
            self.margins,
            ascent.domain,
            self.measure,
            ascent.regularizer.upper,
            extent,
            settled.worst,
            project,
        )
        margin = self.margin_bound.of_run(totals, self.bound.rounding(totals), self.state)
        return Record(
            round=totals.rounds,
            edge=found.edge,
            step=new.step,
            gain=new.gain,
            error_bound=self.bound.of_run(new.error_totals or totals, self.state),
            train_error=settled.error,
            val_error=val_error,
            min_margin=settled.smallest_margin / totals.steps,
            soft_margin=soft / totals.steps,
            margin_bound=margin / totals.steps,
            smoothness=settled.largest_density,
            ess=1.0 / settled.square,
            nonzero=settled.nonzero,
            rows_used=settled.counts[0],
            bytes_read=settled.counts[1],
            seconds=time.perf_counter() - began,
            penalty=new.step * l1,
        )


def _policy_of(
    booster: Booster,
    engine: Engine,
    votes: Votes,
    validation_votes: Votes | None,
    row_hashes: Array | None,
) -> VotePolicy:
    """The way in which the votes of this booster are found."""
    if isinstance(booster.step, ErrorRefit | MarginRefit):
        problem = booster.step.problem(booster.ascent, engine.measure)
        return Refitting(
            problem, booster.ascent, engine.measure, votes, validation_votes, row_hashes
        )
    return Stagewise(booster.step, booster.learning_rate, engine)
