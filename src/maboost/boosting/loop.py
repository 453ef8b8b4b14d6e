r"""The one loop of every booster.

A round: show the learner rows and weights, measure the true edge of what it returns, choose a step,
move the distribution, add up the gain. What differs between boosters (geometry, set, update, step) is
in the :class:`Booster`; what differs between one machine and many is in the measure's communicator.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maboost.boosting.certificate import ErrorBound, MarginBound
from maboost.boosting.game import Game
from maboost.boosting.history import Record
from maboost.boosting.trimming import Trim
from maboost.learners.base import Hypothesis, Negated, Producer, WeakLearner
from maboost.mirror.ascent import MirrorAscent
from maboost.mirror.coded import Coded
from maboost.mirror.kernels import row_statistics
from maboost.mirror.measure import BaseMeasure
from maboost.mirror.params import Component
from maboost.mirror.steps import Situation, StepRule, scaled
from maboost.mirror.tails import linear_minimum

__all__ = ["Booster", "L1Rule", "Round", "Run", "Validation"]

Array = NDArray[np.float64]

ZERO_EDGE = 1e-12
ZERO_MASS = 1e-12


@dataclass(frozen=True)
class L1Rule:
    r"""SparseBoost's penalty: :math:`\alpha_t = (1-\kappa)\gamma_t n_t`, or at most :math:`c/t^2` of it.

    >>> L1Rule(kappa=0.5)(edge=0.2, mass=1.0, round=1), L1Rule(0.5, 0.6)(0.2, 1.0, 10)
    (0.1, 0.006)
    """

    kappa: float = 1.0
    decay: float | None = None

    def __call__(self, edge: float, mass: float, round: int) -> float:
        alpha = (1.0 - self.kappa) * edge * mass
        return alpha if self.decay is None else min(alpha, self.decay / round**2)


@dataclass
class Booster(Component):
    """A booster as its parts; the named ones are in :mod:`maboost.boosting.recipes`.

    >>> from maboost.boosting import smooth
    >>> booster = smooth(4.0)
    >>> booster.ascent.domain, booster.step, booster.learning_rate
    (CappedSimplex(caps=4.0), Corrective(), 1.0)
    """

    ascent: MirrorAscent
    step: StepRule
    learning_rate: float = 1.0
    trim: Trim = field(default_factory=Trim)
    l1: L1Rule = field(default_factory=L1Rule)


@dataclass(frozen=True)
class Validation:
    """Rows that only watch: `base` is their own normalised measure.

    >>> import numpy as np
    >>> X, labels = np.eye(2), np.array([0, 1])
    >>> watching = Validation(X, Game(labels, 2), np.full(2, 0.5))
    """

    X: Any
    game: Game
    base: Array


@dataclass(frozen=True)
class Round:
    """What a round produced: a hypothesis, its step, and the record of it.

    >>> list(Round.__dataclass_fields__)
    ['hypothesis', 'record', 'group_errors']
    """

    hypothesis: Hypothesis
    record: Record
    group_errors: dict[Any, float] = field(default_factory=dict)


@dataclass(frozen=True)
class _Found:
    hypothesis: Hypothesis
    density: Array
    direction: Array
    edge: float
    rows: int
    exact: bool
    coded: Coded | None


class Run:
    """A run of a booster over one shard of rows.

    Parameters
    ----------
    booster : Booster
    learner : WeakLearner
    X, game
        The rows (opaque here: only the learner looks inside) and their labels.
    weights : array of shape (n_rows,)
        The user's own positive weights; the learner is shown these times the density.
    measure : BaseMeasure
        The same, normalised, with the game's width.
    random_state : RandomState
        Where learners get their seeds.
    validation : Validation, optional
    groups : dict of boolean arrays, optional
        Rows whose error is recorded every round, by name.
    places : array of shape (n_rows,), optional
        Numbers in [0, 1) from the content of each row, where the booster has a budget of rows.

    Attributes
    ----------
    margins : array
        Unnormalised margins M of all pairs.
    push, trust : arrays of shape (n_rows,)
        Sums over the rounds of each row's density and normalised margin: how hard the booster pushed
        on it, and what came of it.
    gain, total_step, rounds
        Sums so far.
    ended : str or None
        Why no further round is possible.

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
        groups: dict[Any, NDArray[np.bool_]] | None = None,
        places: Array | None = None,
    ) -> None:
        self.booster = booster
        self.learner = learner
        self.game = game
        self.weights = weights
        self.measure = measure
        self.random_state = random_state
        self.validation = validation
        self.groups = groups or {}
        self.places = places
        self.producer: Producer = learner.prepare(X, game.labels, game.n_classes)
        self.bound = ErrorBound.of(booster.ascent, measure)
        self.margin_bound = MarginBound.of(booster.ascent, measure)
        self.state = booster.ascent.start(measure)
        self.margins = np.zeros(measure.entries.size)
        self.push, self.trust = np.zeros(measure.rows), np.zeros(measure.rows)
        self.gain = 0.0
        self.total_step = 0.0
        self.rounds = 0
        self.error = 1.0  # over pairs, of the ensemble so far
        self.last_edge: float | None = None
        self.smallest_edge = 1.0
        self.exact = True
        self.ended: str | None = None
        if validation is not None:
            self.validation_margins = np.zeros(len(validation.base) * validation.game.width)

    _KEPT = (
        "state", "margins", "push", "trust", "gain", "total_step", "rounds", "error", "last_edge",
        "smallest_edge", "exact", "ended",
    )  # fmt: skip

    def snapshot(self) -> dict[str, Any]:
        """All that changes from round to round: with it another run over the same rows goes on."""
        kept = {name: getattr(self, name) for name in self._KEPT}
        kept |= {name: kept[name].copy() for name in ("margins", "push", "trust")}
        if self.validation is not None:
            kept["validation_margins"] = self.validation_margins.copy()
        kept["random_state"] = self.random_state.get_state()
        return kept

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Go on where `snapshot` was taken; the next round has the same bits as there."""
        snapshot = dict(snapshot)
        self.random_state = np.random.RandomState()
        self.random_state.set_state(snapshot.pop("random_state"))
        for name, value in snapshot.items():
            setattr(self, name, value.copy() if isinstance(value, np.ndarray) else value)

    def __iter__(self) -> Iterator[Round]:
        return self

    def __next__(self) -> Round:
        if self.ended is None and self.bound.hypercube and self.error <= 0.0:
            self.ended = "every row is right"  # MadaBoost's step is a multiple of the error
        if self.ended is None and self.state.mass <= ZERO_MASS:
            self.ended = "no row has weight left"  # the error is below that, and so are all steps
        if self.ended is not None:
            raise StopIteration
        began = time.perf_counter()
        found = self._find()
        if found is None:
            self.ended = "the learner found no edge"
            raise StopIteration
        return self._advance(found, began)

    @property
    def density(self) -> Array:
        """The density of the current distribution, of mass one."""
        state = self.state
        if state.mass == 1.0:
            return state.density
        out = np.empty_like(state.density)
        self.measure.threads.over(
            out.size, lambda a, b: np.divide(state.density[a:b], state.mass, out=out[a:b])
        )
        return out

    def _losses(self, h: Hypothesis) -> tuple[Coded | None, Array]:
        """The loss vector of a hypothesis, with its codes where it takes few values."""
        leaves = getattr(self.producer, "training_leaves", None)  # not every producer has any
        known: tuple[Array, NDArray[np.int32]] | None = None
        if leaves is not None and self.game.width == 1:
            known = leaves(h)
        if known is None:
            return None, self.game.loss(self.producer.training_scores(h))
        coded = self.game.coded_loss(*known, self.measure.threads)
        return coded, coded.array(self.measure)

    def _edge(self, density: Array, d: Array, coded: Coded | None) -> float:
        if coded is not None:
            return -math.fsum(coded.values * coded.masses(density, self.measure))
        (loss,) = self.measure.integrals_of(lambda part: [density[part] * d[part]], 1)
        return -loss

    def _find(self) -> _Found | None:
        """A hypothesis with a positive edge over all rows, hiding rows only as far as that allows."""
        density = self.density
        rows_density = self.measure.row_means(density)
        trim = self.booster.trim
        for delta in trim.tries(self.last_edge):
            rows, floor = trim.shown(rows_density, delta, self.measure, self.places, self.rounds)
            shown = slice(None) if rows is None else rows
            weights = self._shown_weights(rows_density)[shown]
            lift = np.maximum(1.0, floor / rows_density[shown]) if floor > 0.0 else None
            if lift is not None:
                weights *= lift
            for rewards in self._reward_tries(density, shown):
                if rewards is not None and lift is not None:
                    rewards = rewards * lift[:, None]
                h = self.producer.produce(weights, rows, rewards, self.random_state)
                coded, d = self._losses(h)
                edge = self._edge(density, d, coded)
                if edge < -ZERO_EDGE and self.learner.closed_under_negation:
                    h, d, edge, coded = Negated(h), -d, -edge, None
                if edge <= ZERO_EDGE:
                    continue
                shown_edge = edge
                if trim.hides(delta):
                    shown_edge = self._shown_edge(density * d, rows_density, rows)
                if trim.accepts(delta, edge, shown_edge):
                    exact = self.learner.exact and not trim.hides(delta)
                    return _Found(h, density, d, edge, len(weights), exact, coded)
                break
        return None

    def _shown_weights(self, rows_density: Array) -> Array:
        out = np.empty_like(rows_density)
        self.measure.threads.over(
            out.size, lambda a, b: np.multiply(self.weights[a:b], rows_density[a:b], out=out[a:b])
        )
        return out

    def _reward_tries(self, density: Array, shown: Any) -> Iterator[Array | None]:
        if self.game.width == 1:
            yield None
            return
        if not self.learner.takes_costs:
            yield None
        pairs = np.repeat(self.weights / self.game.width, self.game.width) * density
        yield self.game.rewards(pairs)[shown]

    def _shown_edge(
        self, losses: Array, rows_density: Array, rows: NDArray[np.intp] | None
    ) -> float:
        kept = np.zeros(self.measure.rows)
        kept[slice(None) if rows is None else rows] = 1.0  # another shard may hide some even so
        edge, mass = self.measure.integrals(
            [
                -losses * np.repeat(kept, self.measure.width),
                np.repeat(kept * rows_density, self.measure.width),
            ]
        )
        return edge / mass

    def _advance(self, found: _Found, began: float) -> Round:
        booster, measure = self.booster, self.measure
        t = self.rounds + 1
        d, edge = found.direction, found.edge
        l1 = booster.l1(edge, self.state.mass, t)
        situation = Situation(
            booster.ascent, self.state, measure, d, edge, t, self.error, self.gain, l1, found.coded
        )
        step = scaled(booster.step(situation), booster.learning_rate)
        moved = booster.ascent.move(self.state, d, step.size, measure, l1, step.guess)
        self.state = moved.state
        self.gain += moved.gain
        self.total_step += step.size
        self._add_margins(step.size, d)
        self.rounds = t
        self.last_edge = edge
        self.smallest_edge = min(self.smallest_edge, edge)
        self.exact = self.exact and found.exact
        if step.final:
            self.ended = "the target is reached: one hypothesis is right on all the domain can hold"
        val_error = self._watch(found.hypothesis, step.size)
        record = self._record(found.density, found, step.size, moved.gain, val_error)
        record = replace(record, seconds=time.perf_counter() - began)
        return Round(found.hypothesis, record, self._group_errors())

    def _add_margins(self, step: float, d: Array) -> None:
        def work(a: int, b: int) -> None:
            self.margins[a:b] -= step * d[a:b]

        self.measure.threads.over(d.size, work)

    def _add_evidence(self, rows_density: Array, worst: Array) -> None:
        def work(a: int, b: int) -> None:
            self.push[a:b] += rows_density[a:b]
            self.trust[a:b] += worst[a:b] / self.total_step

        self.measure.threads.over(self.push.size, work)

    def _group_errors(self) -> dict[Any, float]:
        if not self.groups:
            return {}
        wrong = self.game.worst_margins(self.margins) <= 0.0
        columns = [column for rows in self.groups.values() for column in (rows, rows & wrong)]
        sums = self.measure.of_rows.integrals([c.astype(np.float64) for c in columns])
        return {
            name: wrongs / share
            for name, share, wrongs in zip(self.groups, sums[::2], sums[1::2], strict=True)
        }

    def _watch(self, hypothesis: Hypothesis, step: float) -> float:
        """The error on the validation rows after this round."""
        if self.validation is None:
            return math.nan
        v = self.validation
        self.validation_margins -= step * v.game.loss(hypothesis.scores(v.X))
        wrong = v.game.worst_margins(self.validation_margins) <= 0.0
        return float(self.measure.total(v.base * wrong))

    def _statistics(self, worst: Array, rows_density: Array) -> tuple[float, float, float]:
        """Training error, integral of the squared density, and the fraction of rows with weight."""
        rows = self.measure.of_rows
        scale, low = rows.grid.factors
        counts: list[int] = []

        def block(part: slice) -> NDArray[np.int64]:
            sums, nonzero = row_statistics(
                worst[part], rows_density[part], rows.entries[part], scale, low
            )
            counts.append(nonzero)
            found: NDArray[np.int64] = sums
            return found

        found = rows.folded(block)
        if found is None:  # a density beyond the grid
            found = rows.integrals([(worst <= 0.0).astype(np.float64), rows_density**2])
        total = rows.comm.allreduce(np.array([sum(counts)], dtype=np.int64), "sum")
        return found[0], found[1], int(total[0]) / rows.count

    def _record(
        self, density: Array, found: _Found, step: float, gain: float, val_error: float
    ) -> Record:
        measure, ascent = self.measure, self.booster.ascent
        rows_density = measure.row_means(density)
        worst = self.game.worst_margins(self.margins)
        self._add_evidence(rows_density, worst)
        train_error, square, nonzero = self._statistics(worst, rows_density)
        self.error = train_error
        if measure.width > 1:
            self.error = measure.integral((self.margins <= 0.0).astype(np.float64))
        smallest = measure.minimum(self.margins)
        soft = linear_minimum(self.margins, ascent.domain, measure, ascent.regularizer.upper)
        return Record(
            round=self.rounds,
            edge=found.edge,
            step=step,
            gain=gain,
            error_bound=self.bound(self.gain),
            train_error=train_error,
            val_error=val_error,
            min_margin=smallest / self.total_step,
            soft_margin=soft / self.total_step,
            margin_bound=self.margin_bound(self.gain) / self.total_step,
            smoothness=measure.maximum(rows_density),
            ess=1.0 / square,
            nonzero=nonzero,
            rows_used=found.rows,
            seconds=0.0,
        )
