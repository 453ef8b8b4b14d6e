"""The votes of all hypotheses of an ensemble on the rows of a shard.

A hypothesis is a short table of answers and a code for each row, of one or two bytes for trees. One pass over the
codes gives the votes of all hypotheses together, another pass their edges under a distribution. A pass costs one
table look-up for each row and hypothesis.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy as shallow_copy

import numpy as np
from numpy.typing import NDArray

from maboost.engine.multiclass import margins_of_votes, rewards_of_rows
from maboost.mirror.measure import BaseMeasure
from maboost.runtime.entries import value_at
from maboost.runtime.kernels import kernel
from maboost.runtime.parallel import chunks_of, parallel_for, slots
from maboost.runtime.threads import Threads

__all__ = ["VoteMatrix", "codes_of_scores"]

Array = NDArray[np.float64]
Codes = NDArray[np.unsignedinteger]

_STRIP = 1024  # rows whose votes and rewards stay in the first-level cache
_LEAST = 1 << 11  # rows of a chunk
_UNIT = 2.0**60  # the integer for a mass of one; sums of rewards then fit 64 bits
_ONE, _THREE = np.uint64(1), np.uint64(3)


@kernel
def _votes_of_chunk(codes, which, places, table, out, size, chunk, slot):
    first = chunk * size
    last = min(first + size, out.shape[0])
    flat, width = table.reshape(-1), np.uint64(table.shape[1])
    for a in range(first, last, _STRIP):
        b = min(a + _STRIP, last)
        rows = out[a:b]
        rows[:] = 0.0
        one = rows.reshape(-1)
        for t in which:
            place, its = np.uint64(places[t]), codes[t, a:b]
            if width == _ONE:
                for i in range(its.size):
                    one[i] += flat[place + its[i]]
            else:
                for i in range(its.size):
                    at = (place + its[i]) * width
                    for k in range(rows.shape[1]):
                        rows[i, k] += flat[at + np.uint64(k)]


@kernel
def _write_votes(team, codes, which, places, table, out):
    """Write the sum of the answers of some hypotheses on each row, in their order."""
    chunks, size = chunks_of(team, out.shape[0], _LEAST)
    parallel_for(team, chunks, _votes_of_chunk, (codes, which, places, table, out, size))


@kernel
def _signed_masses(density, base, labels, out, size, chunk, slot):
    for i in range(chunk * size, min((chunk + 1) * size, out.shape[0])):
        mass = value_at(base, i) * density[i]
        out[i, 0] = mass if labels[i] == 1 else -mass


@kernel
def _write_signed_masses(team, density, base, labels, out):
    """Write the mass of each row, negative if the label is the first class."""
    chunks, size = chunks_of(team, out.shape[0], _LEAST)
    parallel_for(team, chunks, _signed_masses, (density, base, labels, out, size))


@kernel
def _rewards_by_leaf(codes, which, places, rewards, sums, size, chunk, slot):
    first = chunk * size
    last = min(first + size, rewards.shape[0])
    width, mine = np.uint64(rewards.shape[1]), sums[slot]
    flat, copy = mine.reshape(-1), np.uint64(mine.shape[1] * mine.shape[2])
    mask = _THREE if mine.shape[0] == 4 else np.uint64(0)
    whole = np.empty((_STRIP, rewards.shape[1]), dtype=np.int64)
    one = whole.reshape(-1)
    for a in range(first, last, _STRIP):
        b = min(a + _STRIP, last)
        for i in range(a, b):
            for k in range(rewards.shape[1]):
                whole[i - a, k] = np.int64(np.rint(rewards[i, k] * _UNIT))
        for t in which:
            place, its = np.uint64(places[t]), codes[t, a:b]
            if width == _ONE:
                for i in range(its.size):
                    flat[(np.uint64(i) & mask) * copy + place + its[i]] += one[i]
            else:
                for i in range(its.size):
                    at = (np.uint64(i) & mask) * copy + (place + its[i]) * width
                    for k in range(rewards.shape[1]):
                        flat[at + np.uint64(k)] += whole[i, k]


@kernel
def _all_rewards_by_leaf(team, codes, which, places, rewards, leaves, copies):
    """Return sums of the rewards, as integers, over the rows of each leaf of some hypotheses.

    Neighbouring rows often share a leaf. With separate copies an addition need not wait for the previous one.
    """
    chunks, size = chunks_of(team, rewards.shape[0], _LEAST)
    sums = np.zeros(
        (slots(team) if chunks > 1 else 1, copies, leaves, rewards.shape[1]), dtype=np.int64
    )
    parallel_for(team, chunks, _rewards_by_leaf, (codes, which, places, rewards, sums, size))
    total = np.zeros((leaves, rewards.shape[1]), dtype=np.int64)
    for slot in range(sums.shape[0]):
        for copy in range(copies):
            total += sums[slot, copy]
    return total


@kernel
def _answers_times(sums, table, ends):
    """Return for each hypothesis the sum over its leaves of answer times reward."""
    found, start = np.zeros(ends.size), 0
    for t in range(ends.size):
        total = 0.0
        for leaf in range(start, ends[t]):
            for k in range(table.shape[1]):
                total += sums[leaf, k] / _UNIT * table[leaf, k]
        found[t] = total
        start = ends[t]
    return found


@kernel
def _look_up_rows(codes, which, rows, places, table, out, chunk, slot):
    """Write the answers of one hypothesis, whose codes then stay in a cache."""
    width, its, place, mine = table.shape[1], codes[which[chunk]], places[which[chunk]], out[chunk]
    if width == 1:
        flat = table.reshape(-1)
        for j in range(rows.size):
            mine[j] = flat[np.uint64(place) + np.uint64(its[rows[j]])]
        return
    for j in range(rows.size):
        leaf = place + np.int64(its[rows[j]])
        for k in range(width):
            mine[j * width + k] = table[leaf, k]


@kernel
def _answers_on(team, codes, which, rows, places, table, out):
    """Write the answers of some hypotheses on some rows."""
    parallel_for(team, which.size, _look_up_rows, (codes, which, rows, places, table, out))


def codes_of_scores(scores: Array) -> tuple[Array, NDArray[np.int64]]:
    """Return the distinct answers of a hypothesis, and the index of each row's answer.

    >>> codes_of_scores(np.array([1.0, -1.0, 1.0]))
    (array([-1.,  1.]), array([1, 0, 1]))
    """
    if scores.ndim == 1:
        answers, codes = np.unique(scores, return_inverse=True)
    else:
        answers, codes = np.unique(scores, axis=0, return_inverse=True)
    return answers, codes.reshape(-1)


class VoteMatrix:
    r"""The margins :math:`V_{it}` of hypotheses t on labelled rows i, as leaf codes.

    Parameters
    ----------
    labels : integer array of shape (n_rows,)
        Codes 0 to `n_classes` - 1.
    n_classes : int
    threads : Threads, optional

    >>> matrix = VoteMatrix(np.array([0, 1, 1]), 2)
    >>> matrix.append_scores(np.array([-1.0, 1.0, -1.0]))
    >>> matrix.append(np.array([0.5, 1.0]), np.array([0, 1, 0]))
    >>> matrix.margins(np.array([1.0, 3.0]))
    array([-0.5,  4. ,  0.5])
    """

    def __init__(
        self, labels: NDArray[np.integer], n_classes: int, threads: Threads | None = None
    ) -> None:
        self.labels = np.asarray(labels).astype(np.uint8 if n_classes <= 256 else np.uint16)
        self.n_classes = n_classes
        self.threads = threads or Threads()
        self._codes: Codes = np.empty((0, len(self.labels)), dtype=np.uint8)
        self._tables: list[Array] = []
        self._ends: list[int] = []
        self._joined: tuple[Array, NDArray[np.int64], NDArray[np.int64]] | None = None

    def __len__(self) -> int:
        return len(self._tables)

    @property
    def width(self) -> int:
        """The number of entries a row: one for two classes, and otherwise one for each wrong class."""
        return self.n_classes - 1

    @property
    def nbytes(self) -> int:
        """The memory that the codes take, in bytes."""
        return self._codes.nbytes

    def append(self, answers: Array, leaves: NDArray[np.integer]) -> None:
        """Add the hypothesis that answers ``answers[leaves]``: a number, or one a class."""
        table = np.ascontiguousarray(answers, dtype=np.float64).reshape(len(answers), -1)
        count, needed = len(self), np.min_scalar_type(max(len(table) - 1, 0))
        kind = np.promote_types(self._codes.dtype, needed)
        if count == len(self._codes) or kind != self._codes.dtype:
            rows = self._codes.shape[1]
            room = np.empty((max(8, count + 1 + count // 2), rows), dtype=kind)
            room[:count] = self._codes[:count]
            self._codes = room
        self._codes[count] = leaves
        self._tables.append(table)
        self._ends.append((self._ends[-1] if self._ends else 0) + len(table))
        self._joined = None

    def append_scores(self, scores: Array) -> None:
        """Add a hypothesis by its scores on all rows."""
        self.append(*codes_of_scores(scores))

    def copy(self) -> VoteMatrix:
        """Return a matrix of the same hypotheses, to which others can be appended."""
        other = shallow_copy(self)
        other._codes = self._codes[: len(self)].copy()
        other._tables, other._ends = list(self._tables), list(self._ends)
        return other

    def truncate(self, count: int) -> None:
        """Keep the first hypotheses only."""
        del self._tables[count:], self._ends[count:]
        self._joined = None

    def _table(self) -> tuple[Array, NDArray[np.int64], NDArray[np.int64]]:
        """Return all answers in one array, with the start and the end of each hypothesis in it."""
        if self._joined is None:
            ends = np.array(self._ends, dtype=np.int64)
            self._joined = np.concatenate(self._tables), np.append(0, ends[:-1]), ends
        return self._joined

    def votes(self, eta: Array) -> Array:
        """Return the weighted vote on each row: (n,) for two classes, (n, K) for more.

        The order and the precision of the sum are those of `decision_function`.
        """
        table, places, ends = self._table()
        out = np.zeros((len(self.labels), table.shape[1]))
        which = np.flatnonzero(eta)
        scaled = np.repeat(eta, np.diff(ends, prepend=0))[:, None] * table
        self.threads.run(_write_votes, self._codes, which, places, scaled, out)
        return out[:, 0] if self.n_classes == 2 else out

    def margins_of(self, votes: Array) -> Array:
        """Return the margins of all pairs, flat, from votes on each row."""
        if self.n_classes == 2:
            return np.where(self.labels == 1, votes, -votes)
        found = np.empty(len(self.labels) * self.width)
        self.threads.run(margins_of_votes, votes, self.labels, found)
        return found

    def margins(self, eta: Array) -> Array:
        r"""Return the margins of all pairs, :math:`V\eta`."""
        return self.margins_of(self.votes(eta))

    def edges(
        self,
        density: Array,
        measure: BaseMeasure,
        mass: float = 1.0,
        which: Sequence[int] | NDArray[np.integer] | None = None,
    ) -> Array:
        """Return the edge of each hypothesis under a density of this mass; zero for hypotheses not in `which`."""
        table, places, ends = self._table()
        rewards = np.empty((len(self.labels), table.shape[1]))
        if self.n_classes == 2:
            base = measure.base(slice(None))
            self.threads.run(_write_signed_masses, density, base, self.labels, rewards)
        else:
            weights = measure.rows_base / self.width
            self.threads.run(rewards_of_rows, density, weights, None, self.labels, rewards)
        if mass != 1.0:
            rewards /= mass
        chosen = np.arange(len(self)) if which is None else np.asarray(which, dtype=np.int64)
        copies = 4 if table.size <= 1 << 14 else 1
        sums = self.threads.run(
            _all_rewards_by_leaf, self._codes, chosen, places, rewards, len(table), copies
        )
        sums = measure.comm.allreduce(sums.reshape(-1), "sum").reshape(table.shape)
        found: Array = _answers_times(sums, table, ends)
        return found

    def columns(self, which: NDArray[np.integer], rows: NDArray[np.integer]) -> Array:
        """Return the margins of some hypotheses on some rows; each row of the result is a hypothesis."""
        table, places, _ = self._table()
        answers = np.empty((len(which), len(rows) * table.shape[1]))
        self.threads.run(
            _answers_on, self._codes, np.asarray(which, np.int64), np.asarray(rows, np.int64), places, table, answers
        )  # fmt: skip
        labels = self.labels[rows]
        if self.n_classes == 2:
            return np.where(labels == 1, answers, -answers)
        votes = answers.reshape(len(which), len(rows), self.n_classes)
        own = np.take_along_axis(votes, labels.astype(np.int64)[None, :, None], axis=2)
        wrong = np.arange(self.width)[None, :]
        wrong = wrong + (wrong >= labels[:, None])
        found: Array = own - np.take_along_axis(votes, wrong[None, :, :], axis=2)
        return found.reshape(len(which), -1)
