"""The base measure: the weights of the rows, and integrals against them."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maboost.runtime.communicator import (
    Communicator,
    SerialCommunicator,
    reproducible_sum,
    reproducible_sums,
    wide_sums,
)
from maboost.runtime.exact_sum import WideGrid
from maboost.runtime.extremes import extent
from maboost.runtime.rows import means_of_rows
from maboost.runtime.threads import Threads

__all__ = ["BaseMeasure"]

Array = NDArray[np.float64]

_MOST_PARTS = 32  # cached measures of some sources
_OUT_OF_REACH = 2.0**20  # a mass far beyond that of any row of a distribution


class Part(NamedTuple):
    """The rows of some sources: their indices in this shard, their share of all mass, and their measure.

    >>> import numpy as np
    >>> BaseMeasure(np.ones(4)).part(np.array([0, 1, 0, 2]), (0, 2)).rows
    array([0, 2, 3])
    """

    rows: NDArray[np.intp]
    share: float
    measure: BaseMeasure


class BaseMeasure:
    r"""A positive measure of total mass one over the rows of one shard.

    Parameters
    ----------
    weights : array of shape (n_rows,)
        Positive weights of this shard's rows, in any unit.
    width : int, default=1
        Entries a row: 1 in binary problems, K - 1 pairs (row, wrong class) otherwise. A row's mass is
        spread evenly over its entries.
    comm : Communicator, optional
        The communicator with the other shards.
    threads : Threads, optional
        The threads for passes over this shard's rows; no result depends on them.

    Attributes
    ----------
    count : int
        Entries over all shards.
    grid : WideGrid
        The grid of :meth:`integrals_of`.
    largest : float
        The largest measure of an entry over all shards.
    smallest_row : float
        The smallest measure of a row over all shards.
    alike : bool
        Whether all entries of all shards have the same measure.
    of_rows : BaseMeasure
        The same measure with one entry a row.

    >>> import numpy as np
    >>> measure = BaseMeasure(np.array([1.0, 3.0]))
    >>> measure.integral(np.array([1.0, 2.0]))
    1.75
    """

    def __init__(
        self,
        weights: Array,
        width: int = 1,
        comm: Communicator | None = None,
        threads: Threads | None = None,
    ) -> None:
        self.comm: Communicator = comm or SerialCommunicator()
        self.threads = threads or Threads()
        self.width = width
        weights = np.asarray(weights, dtype=np.float64)
        if np.any(weights <= 0.0) or not np.all(np.isfinite(weights)):
            raise ValueError(
                "BaseMeasure: weights must be positive and finite; drop rows of weight 0"
            )
        self.rows_base: Array = weights / reproducible_sum(weights, self.comm)
        # Not cached properties: in Python 3.11 they hold a lock, and shards that are threads of one process would
        # wait for each other on it.
        self.count = int(
            self.comm.allreduce(np.array([self.rows * width], dtype=np.int64), "sum")[0]
        )
        self.grid = WideGrid.of(self.count)
        self.largest = self.maximum(self.rows_base) / width
        self.smallest_row = self.minimum(self.rows_base)
        self.alike = self.smallest_row / width == self.largest
        # computed now, since this exchanges messages, which all shards must do together
        self.of_rows = self if width == 1 else BaseMeasure(self.rows_base, 1, comm, self.threads)
        self._highest: tuple[Array | float, tuple[float, float]] | None = None
        self._room: tuple[Array | float, Array] | None = None
        self._in_reach: tuple[Array | float, Array] | None = None
        self._logs: tuple[Array, Array] | None = None
        self._parts: tuple[NDArray[np.unsignedinteger], dict[tuple[int, ...], Part]] | None = None

    @property
    def rows(self) -> int:
        """The number of rows of this shard."""
        return int(self.rows_base.shape[0])

    @cached_property
    def entries(self) -> Array:
        """The measure of each entry, flat: rows times width."""
        if self.width == 1:
            return self.rows_base
        return np.repeat(self.rows_base / self.width, self.width)

    def base(self, part: slice | NDArray[np.intp]) -> Array | float:
        """Return the measure of some entries, for kernels: one number if all entries have the same.

        All entries have the same unless the user gives weights, and a number need not be read from memory.
        """
        return self.largest if self.alike else self.entries[part]

    def room(self, caps: Array | float) -> Array:
        """Return the most mass each row can hold under caps on its density; cached for the last caps."""
        known = self._room
        if known is None or not (known[0] is caps or np.array_equal(known[0], caps)):
            known = self._room = caps, np.minimum(caps * self.rows_base, 1.0)
        return known[1]

    def caps_in_reach(self, caps: Array | float) -> Array | float:
        """Return caps on the rows of a distribution, infinite where no row comes near; cached for the last caps.

        The highest finite cap sets the grid of sums. A cap that never matters would leave no bits for the others.
        Nothing here may depend on the rows of this shard: :meth:`highest_caps` sends a message when its argument is a new
        object, so all shards must agree on whether it is new. Hence the cache compares objects, not values, and the
        result is always a new array.
        """
        if isinstance(caps, float) and (
            math.isinf(caps) or caps * self.of_rows.largest <= _OUT_OF_REACH
        ):
            return caps
        if self._in_reach is None or self._in_reach[0] is not caps:
            far = caps * self.rows_base > _OUT_OF_REACH
            self._in_reach = caps, np.where(far, math.inf, caps)
        return self._in_reach[1]

    def part(self, sources: NDArray[np.unsignedinteger], which: tuple[int, ...]) -> Part:
        """Return the rows whose source is one of `which`, of which some shard must have at least one.

        Cached for the last `sources`. All shards must ask for the same parts in the same order, since a new measure
        exchanges messages.
        """
        if self._parts is None or self._parts[0] is not sources:
            self._parts = sources, {}
        kept = self._parts[1]
        if which not in kept:
            if len(kept) >= _MOST_PARTS:
                kept.clear()
            rows = np.flatnonzero(np.isin(sources, which))
            base = self.rows_base[rows]
            share = reproducible_sum(base, self.comm)
            kept[which] = Part(rows, share, BaseMeasure(base, self.width, self.comm, self.threads))
        return kept[which]

    def log_caps(self, caps: Array | float) -> Array | float:
        """Return the logarithms of caps; cached for the last caps."""
        if isinstance(caps, float):
            return math.log(caps)
        if self._logs is None or self._logs[0] is not caps:
            self._logs = caps, np.log(caps)
        return self._logs[1]

    def highest_caps(self, caps: Array | float) -> tuple[float, float]:
        """Return the highest cap over all shards, and the highest finite cap (minus infinity if there is none).

        Cached for the last caps, since a fit has the same caps in every round.
        """
        if isinstance(caps, float):
            return caps, caps if math.isfinite(caps) else -math.inf
        if self._highest is None or self._highest[0] is not caps:
            ends = [np.max(some, initial=-np.inf) for some in (caps, caps[np.isfinite(caps)])]
            highest, finite = self.comm.allreduce(np.array(ends), "max").tolist()
            self._highest = caps, (highest, finite)
        return self._highest[1]

    def integral(self, values: Array) -> float:
        """Return the sum of D * values over the entries of all shards, reproducibly."""
        return reproducible_sum(self.entries * values.reshape(-1), self.comm)

    def integrals(self, columns: list[Array]) -> list[float]:
        """Return several integrals from one message."""
        return reproducible_sums([self.entries * c.reshape(-1) for c in columns], self.comm)

    def integrals_of(self, columns: Callable[[slice], list[Array]], count: int) -> list[float]:
        """Integrals of `count` columns, which ``columns(part)`` returns for a slice of entries.

        The result equals that of :meth:`integrals` up to rounding, and takes one pass on all threads.
        """
        every = columns(slice(0, self.entries.size))
        sums = wide_sums(every, self.entries, self.grid, self.threads)
        found = self.unfolded(self.comm.allreduce(sums.reshape(-1), "sum"))
        # None: a value is huge or not finite, so use the method that finds the largest value first
        return self.integrals(every) if found is None else found

    def unfolded(self, total: NDArray[np.int64]) -> list[float] | None:
        """Return the values of such sums; None if a term does not fit the grid."""
        rows = total.reshape(-1, 4)
        if rows[:, 3].any():
            return None
        return [self.grid.value(*row[:3]) for row in rows.tolist()]

    def row_integral(self, values: Array) -> float:
        """Return the sum of D * values over rows, with one value for each row."""
        return reproducible_sum(self.rows_base * values, self.comm)

    def total(self, values: Array) -> float:
        """Return the plain sum over all shards, reproducibly."""
        return reproducible_sum(values, self.comm)

    def row_means(self, values: Array) -> Array:
        """Return the mean over each row's entries, which is the row's own density."""
        return values if self.width == 1 else means_of_rows(values, self.rows, self.threads)

    def maximum(self, values: Array) -> float:
        """Return the largest value over all shards (minus infinity if there is none)."""
        return float(self.comm.allreduce(np.array([extent(values, self.threads)[1]]), "max")[0])

    def minimum(self, values: Array) -> float:
        """Return the smallest value over all shards (infinity if there is none)."""
        return float(self.comm.allreduce(np.array([extent(values, self.threads)[0]]), "min")[0])

    def extent(self, values: Array) -> tuple[float, float]:
        """Return the smallest and the largest value over all shards."""
        low, high = extent(values, self.threads)
        low, high = self.comm.allreduce(np.array([-low, high]), "max").tolist()
        return -low, high
