"""Work divided among threads.

Kernels release the interpreter lock; results do not depend on how rows are divided, because sums are
sums of integers (see :mod:`maboost.runtime.exact_sum`). Numba's own threading layers are not used: they abort
under concurrent use and hang after a fork.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable
from functools import partial
from itertools import accumulate, pairwise
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from maboost.runtime import thresholds
from maboost.runtime.crew import Crew, available_cores
from maboost.runtime.parallel import run_kernel

__all__ = ["PICKED", "Threads", "available_threads"]

PICKED = 1 << 14  # rows picked out here and there, or of several entries, that are worth a thread
Item = TypeVar("Item")
Result = TypeVar("Result")


def available_threads(n_jobs: int | None = None) -> int:
    """How many threads `n_jobs` asks for.

    None means all cores this process may use, within ``OMP_NUM_THREADS`` where that is set (joblib
    sets it in its workers, so that nested parallelism does not crowd the machine); no result depends
    on the number. Negative numbers count from all cores, as in joblib.
    """
    cores = available_cores()
    if n_jobs is None:
        limit = os.environ.get("OMP_NUM_THREADS", "")
        return max(1, min(cores, int(limit))) if limit.isdigit() else cores
    if n_jobs == 0:
        raise ValueError("n_jobs == 0 has no meaning; use None for all cores, or a positive number")
    return n_jobs if n_jobs > 0 else max(1, cores + 1 + n_jobs)


class Threads:
    """Runs a piece of work over parts of the rows.

    Parameters
    ----------
    count : int, default=1
        Threads to use, the calling one included.
    block : int, default=4096
        Parts begin at multiples of it.

    >>> Threads(2, block=2).over(33, lambda a, b: (a, b), worth=4)
    [(0, 18), (18, 33)]
    """

    def __init__(self, count: int = 1, block: int = 1 << 12) -> None:
        self.count = count
        self.block = block
        self.worth = 16 * block  # a light pass over these takes as long as to wake a thread

    def run(self, function: Callable[..., Any], *args: Any) -> Any:
        """``function(team, *args)``: a kernel with parallel loops of its own."""
        return run_kernel(self.count, function, *args)

    def over(
        self, n: int, work: Callable[[int, int], Result], worth: int | None = None
    ) -> list[Result]:
        """``work(start, stop)`` for parts that cover ``range(n)``, in order.

        A part has at least `worth` rows (16 blocks unless told), and several times that where threads have
        to be woken for it.
        """
        worth = worth or self.worth
        parts = n // worth
        if parts > 1 and not Crew.is_awake(min(parts, self.count) - 1):
            parts = n // (thresholds.SLEEPING * worth)
        return self._in_parts(n, min(parts, self.count), work)

    def _in_parts(self, n: int, parts: int, work: Callable[[int, int], Result]) -> list[Result]:
        if parts <= 1:
            return [work(0, n)]
        blocks = -(-n // self.block)
        parts = min(parts, blocks)
        edges = [min(-(-blocks * j // parts) * self.block, n) for j in range(parts + 1)]
        return Crew.run([partial(work, a, b) for a, b in pairwise(edges)])

    def summed(
        self, n: int, work: Callable[[int, int], Any], worth: int | None = None
    ) -> NDArray[np.int64]:
        """The sum of what :meth:`over` returns: integers, all parts the same number of them.

        >>> Threads().summed(3, lambda a, b: (a, b))
        array([0, 3])
        """
        first, *others = self.over(n, work, worth)
        total = np.asarray(first, dtype=np.int64)
        for other in others:
            total = total + other
        return total

    def over_many(
        self, sizes: list[int], work: Callable[[int, int, int], Result], worth: int | None = None
    ) -> list[list[Result]]:
        """``work(j, start, stop)`` for parts that cover every ``range(sizes[j])``, by j and in order.

        The ranges are laid end to end and divided as one, so that threads are woken once for all.

        >>> Threads(2, block=2).over_many([3, 0, 14], lambda j, a, b: (a, b), worth=2)
        [[(0, 3)], [], [(0, 7), (7, 14)]]
        """
        ends = list(accumulate(sizes))
        if self.count == 1 or not ends or ends[-1] < 2 * (worth or self.worth):  # in one part
            return [[work(j, 0, size)] if size else [] for j, size in enumerate(sizes)]

        def some(start: int, stop: int) -> list[tuple[int, Result]]:
            found = []
            for j in range(bisect_right(ends, start), len(sizes)):
                first = ends[j] - sizes[j]
                if first >= stop:
                    break
                if sizes[j]:
                    a, b = max(start - first, 0), min(stop - first, sizes[j])
                    found.append((j, work(j, a, b)))
            return found

        results: list[list[Result]] = [[] for _ in sizes]
        for part in self.over(ends[-1], some, worth):
            for j, result in part:
                results[j].append(result)
        return results

    def each(self, items: list[Item], work: Callable[[Item], Result]) -> list[Result]:
        """``work(item)`` for all items, in order; one is worth a thread.

        >>> Threads(2).each([1, 2, 3], lambda item: item + 1)
        [2, 3, 4]
        """
        several = Threads(self.count, block=1)
        found = several._in_parts(
            len(items),
            min(len(items), self.count),
            lambda a, b: [work(item) for item in items[a:b]],
        )
        return [result for part in found for result in part]
