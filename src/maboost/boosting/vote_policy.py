r"""How votes are found after a round: that of the newest hypothesis, or all of them anew.

:class:`Stagewise` gives the newest hypothesis a vote by a step rule and moves the distribution along it. A totally
corrective booster refits all votes (:mod:`maboost.boosting.refit`):

- :class:`ErrorRefit` maximises :math:`G(V\eta)` over :math:`\eta \ge 0`;
- :class:`MarginRefit` maximises it over votes of a fixed sum, the capacity :math:`\lambda = 2\max_S B_R/\tau`, so that the soft
  margin is within :math:`\tau/2` of the largest that votes of these hypotheses reach. With entropy on caps of k that is
  ERLPBoost, with :math:`\lambda = 2\log(k)/\tau`.

Both set the distribution to :math:`w(V\eta)`, under which their certificates are exact.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from maboost.boosting.certificate import ErrorBound, MarginBound, Totals
from maboost.boosting.history import Record
from maboost.boosting.refit import Refit, refit_votes, spread_keys
from maboost.boosting.scale import next_scale
from maboost.boosting.search import ZERO_EDGE, SearchResult
from maboost.boosting.votes import Scores, Votes
from maboost.engine.base import Engine
from maboost.engine.dispatch import project
from maboost.engine.leaf_codes import Direction
from maboost.engine.vote_matrix import VoteMatrix
from maboost.mirror.ascent import AscentState, MirrorAscent
from maboost.mirror.measure import BaseMeasure
from maboost.mirror.parameters import Component
from maboost.mirror.potential import DualPotential
from maboost.mirror.steps import Situation, StepRule, scaled

__all__ = [
    "ErrorRefit",
    "MarginRefit",
    "Problem",
    "Refitting",
    "RoundVotes",
    "Stagewise",
    "VotePolicy",
]

Array = NDArray[np.float64]


_PART = 0.25  # of the edge of a new hypothesis: what a refit may leave of it
_LEAST_EDGE = 1e-8  # that a refit still tells from the rounding of edges


@dataclass(frozen=True)
class RoundVotes:
    """The votes after a round, and the distribution that they lead to.

    Attributes
    ----------
    step : float
        The vote of the newest hypothesis.
    gain : float
        The change of the total gain.
    state : AscentState
    totals : Totals
    direction : array, LeafCodes or None
        The margins still have to move by `step` along it; None where they have moved.
    weights : array or None
        The votes of all hypotheses, where they were refitted.
    ended : str or None
        Why no further round is possible.
    error_totals : Totals or None
        The certified gain of the same votes at the factor that is best for the error bound, where it is not one.
    """

    step: float
    gain: float
    state: AscentState
    totals: Totals
    direction: Direction | None = None
    weights: Array | None = None
    ended: str | None = None
    error_totals: Totals | None = None


class VotePolicy(Protocol):
    """Finds the votes of one run.

    Attributes
    ----------
    least_edge : float
        A hypothesis whose edge is not larger is not worth the next round.
    """

    @property
    def least_edge(self) -> float: ...

    def update(
        self, situation: Situation, found: SearchResult, totals: Totals, votes: Votes
    ) -> RoundVotes:
        """Return the votes after a round that found this hypothesis; write the margins, or leave it to `direction`."""

    def watch(self, step: float, scores: Scores, votes: Votes) -> None:
        """Write the votes on validation rows, where the newest hypothesis has these scores."""

    def why_done(self, record: Record, exact: bool) -> str | None:
        """Return why no further round is needed; None if one is. `exact` is that of the learner."""

    def snapshot(self) -> dict[str, Any]:
        """Return all that changes from round to round."""

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Go on where `snapshot` was taken."""


class Stagewise:
    """The vote of the newest hypothesis by a step rule; earlier votes stay."""

    least_edge = ZERO_EDGE

    def __init__(self, rule: StepRule, learning_rate: float, engine: Engine) -> None:
        self.rule = rule
        self.learning_rate = learning_rate
        self.engine = engine

    def update(
        self, situation: Situation, found: SearchResult, totals: Totals, votes: Votes
    ) -> RoundVotes:
        l1, d = situation.l1, found.direction
        step = scaled(self.rule(situation), self.learning_rate, situation)
        moved = self.engine.move(situation.state, d, step.size, l1, step.guess)
        totals = totals.plus(moved.gain, step.size, step.size * l1, moved.magnitude)
        moving: Direction | None = d
        if votes.game.width > 1:
            votes.add(step.size, found.scores)
            moving = None
        ended = None
        if step.final:
            ended = "one hypothesis is right under all weights that the domain allows"
        return RoundVotes(step.size, moved.gain, moved.state, totals, moving, None, ended)

    def watch(self, step: float, scores: Scores, votes: Votes) -> None:
        votes.add(step, scores)

    def why_done(self, record: Record, exact: bool) -> str | None:
        return None

    def snapshot(self) -> dict[str, Any]:
        return {}

    def restore(self, snapshot: dict[str, Any]) -> None:
        return


class Problem(NamedTuple):
    """The optimisation problem of a refit.

    Attributes
    ----------
    capacity : float or None
        The sum of the votes; None leaves it free.
    tolerance : float
        How far from optimal the votes may be, as an edge.
    enough : float
        A gain from which on the error bound promises no more.
    gap : float or None
        How far the soft margin may be from the best when the run ends; None where it is no goal.
    """

    capacity: float | None
    tolerance: float
    enough: float = math.inf
    gap: float | None = None


@dataclass
class ErrorRefit(Component):
    """All votes minimise the dual potential, and so the error bound.

    Past hypotheses end with edges of at most `tolerance`, and of a quarter of the edge of the newest if that is less.
    Where the gain has no maximum, the run ends with the error bound at its floor.

    >>> from maboost.boosting import maboost
    >>> maboost(step="total", update="lazy").step
    ErrorRefit(tolerance=0.001)
    """

    tolerance: float = 1e-3

    def problem(self, ascent: MirrorAscent, measure: BaseMeasure) -> Problem:
        """Return the problem over these rows."""
        return Problem(None, self.tolerance, ErrorBound.of(ascent, measure).gain_at_floor(measure))


@dataclass
class MarginRefit(Component):
    r"""All votes maximise the soft margin, to within a quarter of `tolerance` beside the smoothing, which costs half.

    >>> from maboost.boosting import softmargin
    >>> softmargin(4.0, tolerance=0.02).step
    MarginRefit(tolerance=0.02)
    """

    tolerance: float = 0.01
    accuracy: ClassVar[float] = 0.25

    def problem(self, ascent: MirrorAscent, measure: BaseMeasure) -> Problem:
        """Return the problem over these rows."""
        farthest = MarginBound.of(ascent, measure).start
        capacity = max(2.0 * farthest / self.tolerance, 1.0)
        return Problem(capacity, self.accuracy * self.tolerance, gap=self.tolerance)


class Refitting:
    """All votes anew after each round.

    Parameters
    ----------
    problem : Problem
    ascent : MirrorAscent
    measure : BaseMeasure
    votes, validation_votes : Votes
        Of the training rows, and of validation rows where there are any.
    row_hashes : array of shape (n_rows,), optional
        Choose the sample of rows for second derivatives; by position unless given.
    """

    def __init__(
        self,
        problem: Problem,
        ascent: MirrorAscent,
        measure: BaseMeasure,
        votes: Votes,
        validation_votes: Votes | None,
        row_hashes: Array | None,
    ) -> None:
        self.problem = problem
        self.potential = DualPotential(ascent.regularizer, ascent.domain, measure, project)
        self.keys = spread_keys(measure.rows) if row_hashes is None else row_hashes
        self.bound = ErrorBound.of(ascent, measure)
        self.last: Refit | None = None
        self.factor = 0.0  # of the votes, that was best for the error bound
        self.best_edge = math.inf
        self.matrix = _empty_matrix(votes)
        self.validation = None if validation_votes is None else _empty_matrix(validation_votes)

    @property
    def least_edge(self) -> float:
        """The smallest edge with which a hypothesis can improve the votes.

        With a capacity it takes votes from others, which have lower edges as long as the soft margin is negative.
        """
        problem, last = self.problem, self.last
        if problem.capacity is None:
            return _LEAST_EDGE
        if last is None or math.fsum(last.edges * last.eta) < 0.0:
            return -math.inf
        return ZERO_EDGE

    def update(
        self, situation: Situation, found: SearchResult, totals: Totals, votes: Votes
    ) -> RoundVotes:
        _append(self.matrix, found.scores)
        start = np.zeros(1) if self.last is None else self.last
        refit = self.last = self._solve(start, found.edge)
        self._write(refit, votes)
        hardest = refit.hardest
        state = AscentState(hardest.theta, hardest.density, hardest.mass, hardest.potential)
        gain, steps = hardest.gain, math.fsum(refit.eta)
        now = Totals(totals.rounds + 1, gain, max(abs(gain), abs(hardest.potential)), steps)
        for_error = None
        if (
            self.problem.capacity is not None
        ):  # their sum is given, and is not the best for the error
            self.factor, for_error = next_scale(
                refit.margins, self.potential, self.bound, self.factor
            )
        ended = None
        if not refit.bounded:
            ended = "the error bound is at its floor, and no refit of the votes can lower it"
        vote = float(refit.eta[-1])
        return RoundVotes(
            vote, gain - totals.gain, state, now, None, refit.eta.copy(), ended, for_error
        )

    def _write(self, refit: Refit, votes: Votes) -> None:
        if votes.game.width == 1:  # a margin is the vote or its negative
            votes.state = refit.margins
        else:
            votes.replace(self.matrix.votes(refit.eta))

    def _solve(self, start: Array | Refit, edge: float) -> Refit:
        problem = self.problem
        tolerance = problem.tolerance
        if problem.capacity is None:  # a new hypothesis may have a smaller edge than that
            tolerance = min(tolerance, _PART * edge)
        return refit_votes(
            self.matrix, self.potential, start, capacity=problem.capacity, tolerance=tolerance,
            enough=problem.enough, keys=self.keys,
        )  # fmt: skip

    def watch(self, step: float, scores: Scores, votes: Votes) -> None:
        assert self.validation is not None
        assert self.last is not None
        _append(self.validation, scores)
        votes.replace(self.validation.votes(self.last.eta))

    def why_done(self, record: Record, exact: bool) -> str | None:
        if self.problem.gap is None:
            return None
        # an edge of a learner that is not exact says nothing of the edges of other rounds
        self.best_edge = min(self.best_edge, record.edge) if exact else record.edge
        gap = self.best_edge - record.soft_margin
        if gap > self.problem.gap:
            return None
        if exact:
            return f"the soft margin is within tolerance={self.problem.gap:g} of the best"
        return (
            f"the edge of the last hypothesis is within tolerance={self.problem.gap:g} of the soft margin "
            "(indicative: the learner is not exact over its class)"
        )

    def snapshot(self) -> dict[str, Any]:
        validation = None if self.validation is None else self.validation.copy()
        return {
            "last": self.last,
            "matrix": self.matrix.copy(),
            "validation": validation,
            "factor": self.factor,
            "best_edge": self.best_edge,
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        self.last, self.matrix = snapshot["last"], snapshot["matrix"].copy()
        self.factor, self.best_edge = snapshot["factor"], snapshot["best_edge"]
        if self.validation is not None and snapshot["validation"] is not None:
            self.validation = snapshot["validation"].copy()


def _empty_matrix(votes: Votes) -> VoteMatrix:
    return VoteMatrix(votes.game.labels, votes.game.n_classes, votes.threads)


def _append(matrix: VoteMatrix, scores: Scores) -> None:
    if isinstance(scores, tuple):
        matrix.append(*scores)
    else:
        matrix.append_scores(scores)
