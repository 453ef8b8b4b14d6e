"""What several test files share: shards that talk, a pool of hypotheses to boost, oracles."""

from __future__ import annotations

import itertools
import math
import struct
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from scipy.special import wrightomega

from maboost.boosting.booster import Booster
from maboost.boosting.game import Game
from maboost.boosting.history import Record
from maboost.boosting.loop import Run
from maboost.engine import engine_for
from maboost.learners import Producer
from maboost.mirror import (
    BaseMeasure,
    CappedSimplex,
    Domain,
    Entropy,
    Euclidean,
    FermiDirac,
    Regularizer,
    Simplex,
)
from maboost.mirror.steps import Situation
from maboost.runtime.communicator import Communicator, SerialCommunicator, reproducible_sums
from maboost.runtime.threads import Threads

Array = np.ndarray


def examples(count: int) -> settings:
    """The settings of every property test: reproducible, and with no clock."""
    return settings(max_examples=count, deadline=None, derandomize=True, print_blob=False)


seeds = st.integers(0, 2**32 - 1)


# --------------------------------------------------------------------------------------------------
# shards: one thread each, in lockstep


class _Exchange:
    def __init__(self, size: int) -> None:
        self.slots: list = [None] * size
        self.barrier = threading.Barrier(size, timeout=20)


class ShardCommunicator:
    """A communicator between threads that also checks that all shards ask for the same thing."""

    def __init__(self, exchange: _Exchange, rank: int) -> None:
        self.exchange = exchange
        self.rank = rank
        self.size = len(exchange.slots)

    def allreduce(self, array: Array, op: str = "sum") -> Array:
        assert op != "sum" or array.dtype.kind == "i", "a sum of floats depends on its order"
        parts = np.stack(self._swap(op, array))
        return {"sum": np.sum, "max": np.max, "min": np.min}[op](parts, axis=0)

    def broadcast(self, array: Array, root: int = 0) -> Array:
        return self._swap(f"broadcast from {root}", array)[root]

    def _swap(self, question: str, array: Array) -> list[Array]:
        exchange = self.exchange
        exchange.slots[self.rank] = (question, array.shape, array.dtype), array.copy()
        exchange.barrier.wait()
        everyone = list(exchange.slots)
        exchange.barrier.wait()
        asked = {slot[0] for slot in everyone}
        assert len(asked) == 1, f"shards ask for different things: {asked}"
        return [slot[1] for slot in everyone]


def on_shards(count: int, work: Callable[[Communicator], object]) -> list:
    """The results of ``work(comm)`` on `count` shards, each with its own rank."""
    exchange = _Exchange(count)

    def guarded(rank: int) -> object:
        try:
            return work(ShardCommunicator(exchange, rank))
        except threading.BrokenBarrierError:
            return None  # another shard failed and will say why
        except BaseException:
            exchange.barrier.abort()
            raise

    with ThreadPoolExecutor(count) as pool:
        futures = [pool.submit(guarded, rank) for rank in range(count)]
        results = [future.result() for future in futures]
    assert not exchange.barrier.broken, "shards waited for each other in vain"
    return results


def cuts(n: int, count: int, rng: np.random.Generator) -> list[slice]:
    """`count` slices that cover n rows; some may be empty."""
    edges = [0, *sorted(rng.integers(0, n + 1, size=count - 1).tolist()), n]
    return [slice(a, b) for a, b in itertools.pairwise(edges)]


# --------------------------------------------------------------------------------------------------
# regularizers and domains


@dataclass
class Blend(Regularizer):
    r"""A user's own regularizer: :math:`\varphi(u) = u^2/2 + u\log u - u`."""

    strong_convexity: float = field(default=1.0, init=False)

    def phi(self, u: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            return 0.5 * u * u + np.where(u > 0.0, u * np.log(u), 0.0) - u

    def grad(self, u: Array) -> Array:
        with np.errstate(divide="ignore"):
            return u + np.log(u)

    def grad_inverse(self, x: Array) -> Array:
        return wrightomega(x)


@dataclass
class Quadratic(Regularizer):
    r"""A user's own regularizer: :math:`\varphi(u) = c u^2`."""

    factor: float = 5.0

    def __post_init__(self) -> None:
        self.strong_convexity = 2.0 * self.factor

    def phi(self, u: Array) -> Array:
        return self.factor * u * u

    def grad(self, u: Array) -> Array:
        return 2.0 * self.factor * u

    def grad_inverse(self, x: Array) -> Array:
        return x / (2.0 * self.factor)


REGULARIZERS: dict[str, Regularizer] = {
    "entropy": Entropy(),
    "euclidean": Euclidean(),
    "fermi-dirac": FermiDirac(2.5),
    "user's own": Blend(),
}


def divergence(regularizer: Regularizer, u: Array, z: Array, base: Array) -> float:
    """The Bregman divergence of two densities, from its definition."""
    phi, grad = regularizer.phi, regularizer.grad
    with np.errstate(invalid="ignore"):
        slope = np.where(u == z, 0.0, grad(z) * (u - z))
    return math.fsum(base * (phi(u) - phi(z) - slope))


def random_domain(
    kind: str, base: Array, rng: np.random.Generator, upper: float = math.inf
) -> Domain:
    """A simplex, a scalar cap, or a cap a row of which some are infinite and some below one.

    Rows hold a mass of at least one in all, also if no density may exceed `upper`.
    """
    if kind == "simplex":
        return Simplex()
    if kind == "cap":
        return CappedSimplex(float(rng.uniform(1.05, 4.0)))
    caps = rng.uniform(0.3, 4.0, size=base.size)
    caps[rng.random(base.size) < 0.3] = math.inf
    while base @ np.minimum(caps, upper) < 1.02:
        caps *= 1.1
    return CappedSimplex(caps)


DOMAINS = ("simplex", "cap", "caps")


# --------------------------------------------------------------------------------------------------
# oracles


def vertex(values: Array, measure: BaseMeasure, domain: Domain, upper: float = math.inf) -> Array:
    """The density of least integral of `values`: entries in ascending order, each as full as it gets.

    An entry is full at `upper`, a row at its cap, and all together at mass one.
    """
    base, width = measure.entries, measure.width
    caps = np.broadcast_to(domain.row_caps(), (measure.rows,))
    room = [float(cap * d) for cap, d in zip(caps, measure.rows_base, strict=True)]
    left, u = 1.0, np.zeros(base.size)
    for i in np.argsort(values, kind="stable"):
        amount = min(left, room[i // width], upper * base[i])
        u[i] = amount / base[i]
        room[i // width] -= amount
        left -= amount
    return u


def ordinal(x: float) -> int:
    """The place of a float among all floats."""
    bits = struct.unpack("<q", struct.pack("<d", x))[0]
    return bits if bits >= 0 else -(bits & 0x7FFFFFFFFFFFFFFF)


def from_ordinal(place: int) -> float:
    bits = place if place >= 0 else -place | -0x8000000000000000
    return struct.unpack("<d", struct.pack("<q", bits))[0]


def bisect_floats(low: float, high: float, is_low: Callable[[float], bool]) -> float:
    """The largest float for which `is_low` holds, between one where it does and one where not."""
    a, b = ordinal(low), ordinal(high)
    while b - a > 1:
        middle = (a + b) // 2
        if is_low(from_ordinal(middle)):
            a = middle
        else:
            b = middle
    return from_ordinal(a)


def with_engine(situation: Situation) -> Situation:
    """The same situation of a run, which has an engine that finds corrective steps fast."""
    return replace(situation, engine=engine_for(situation.ascent, situation.measure))


# --------------------------------------------------------------------------------------------------
# boosting a finite pool of hypotheses


@dataclass(frozen=True)
class Listed:
    """A hypothesis given by its scores; rows are numbers into them."""

    table: Array

    def scores(self, X: Array) -> Array:
        return self.table[X]


@dataclass(frozen=True)
class Pool:
    """The exact learner over finitely many hypotheses: scores of shape (m, n) or (m, n, K).

    Where several are best up to rounding it takes the first, so that runs that should agree do.
    """

    tables: Array
    closed_under_negation: bool = False
    comm: Communicator = field(default_factory=SerialCommunicator)
    exact: bool = True
    takes_costs: bool = True

    def prepare(self, X: Array, labels: Array, n_classes: int) -> PoolProducer:
        return PoolProducer(self, X, labels)


@dataclass(frozen=True)
class PoolProducer(Producer):
    pool: Pool
    X: Array
    labels: Array

    def produce(
        self, weights: Array, rows: Array | None, rewards: Array | None, random_state: object
    ) -> Listed:
        shown = slice(None) if rows is None else rows
        tables = self.pool.tables[:, self.X[shown]]
        if rewards is None:
            signs = 2.0 * self.labels[shown] - 1.0
            margins = tables if tables.ndim == 2 else tables[:, :, 1] - tables[:, :, 0]
            worth = weights * signs * margins
        else:
            worth = (rewards * tables).sum(axis=2)
        *edges, total = reproducible_sums([*worth, weights], self.pool.comm)
        edges = np.array(edges) / total
        if self.pool.closed_under_negation:
            edges = np.abs(edges)
        return Listed(self.pool.tables[np.flatnonzero(edges >= edges.max() - 1e-9)[0]])

    def training_scores(self, hypothesis: Listed) -> Array:
        return hypothesis.scores(self.X)


@dataclass(frozen=True)
class Problem:
    """Labels, weights and a pool."""

    labels: Array
    weights: Array
    tables: Array
    n_classes: int = 2
    closed_under_negation: bool = False

    @property
    def n(self) -> int:
        return len(self.labels)

    @property
    def base(self) -> Array:
        return self.weights / self.weights.sum()

    def losses(self) -> Array:
        """The loss vector of every hypothesis, one a row."""
        game = Game(self.labels, self.n_classes)
        return np.array([game.loss(table) for table in self.tables])

    def run(
        self,
        booster: Booster,
        rows: Array | None = None,
        weights: Array | None = None,
        comm: Communicator | None = None,
        threads: Threads | None = None,
    ) -> Run:
        """A run over all rows, or over the given ones with the given weights."""
        rows = np.arange(self.n) if rows is None else rows
        weights = self.weights[rows] if weights is None else weights
        comm = comm or SerialCommunicator()
        return Run(
            booster,
            Pool(self.tables, self.closed_under_negation, comm),
            rows,
            Game(self.labels[rows], self.n_classes),
            weights,
            BaseMeasure(weights, self.n_classes - 1, comm, threads),
            np.random.RandomState(0),
        )


def random_problem(
    rng: np.random.Generator,
    n: int = 9,
    pool: int = 5,
    n_classes: int = 2,
    response: str = "votes",
    weighted: bool = True,
    skill: float = 0.7,
) -> Problem:
    """Hypotheses that are right with probability `skill`; real ones also abstain now and then."""
    labels = rng.integers(0, n_classes, size=n)
    weights = rng.uniform(0.2, 3.0, size=n) if weighted else np.ones(n)
    right = rng.random((pool, n)) < skill
    other = (labels + rng.integers(1, n_classes, size=(pool, n))) % n_classes
    votes = np.where(right, labels, other)
    sure = (
        np.ones((pool, n)) if response == "votes" else rng.choice([0.0, 0.1, 0.5, 1.0], (pool, n))
    )
    if response == "real":
        sure = np.minimum(sure * rng.uniform(0.5, 1.0, size=(pool, n)), 1.0)
    if n_classes == 2:
        return Problem(labels, weights, sure * (2.0 * votes - 1.0), 2, bool(rng.integers(2)))
    scores = sure[:, :, None] * np.eye(n_classes)[votes]
    scores += (1.0 - sure)[:, :, None] * rng.dirichlet(np.ones(n_classes), size=(pool, n))
    return Problem(labels, weights, scores, n_classes)


def rounds(run: Run, count: int) -> Iterator[Record]:
    """The records of up to `count` rounds, one at a time."""
    for _ in range(count):
        produced = next(run, None)
        if produced is None:
            return
        yield produced.record


def comparable(records: Iterable[Record]) -> list[Record]:
    """Records without what differs between equal runs, seconds, and NaN, which differs from itself."""
    return [replace(r, seconds=0.0, val_error=0.0, val_score=0.0) for r in records]
