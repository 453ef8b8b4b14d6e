"""The threads that a fit may use.

The loops of a round run inside compiled kernels (:mod:`maboost.runtime.parallel`). One-time preparation in
Python runs on a pool of threads that ends with it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from maboost.runtime.parallel import available_cores, run_kernel

__all__ = ["Threads", "available_threads"]

Item = TypeVar("Item")
Result = TypeVar("Result")


def available_threads(n_jobs: int | None = None) -> int:
    """Return the number of threads that `n_jobs` asks for.

    None means all cores this process may use, within ``OMP_NUM_THREADS`` if that is set (joblib
    sets it in its workers, so that nested parallelism does not overload the machine). No result depends
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
    """A number of threads.

    Parameters
    ----------
    count : int, default=1
        Threads to use, the calling one included.

    Attributes
    ----------
    run : callable
        ``run(kernel, *args)`` returns ``kernel(team, *args)``, of a kernel with parallel loops of its own.
    """

    def __init__(self, count: int = 1) -> None:
        self.count = count
        self.run: Callable[..., Any] = partial(run_kernel, count)

    def each(self, items: Sequence[Item], work: Callable[[Item], Result]) -> list[Result]:
        """Return ``work(item)`` for all items, in order.

        Starting the threads takes about a millisecond. This is for Python work that is done once a fit, such as
        sorting columns, and that releases the interpreter lock.

        >>> Threads(2).each([1, 2, 3], lambda item: item + 1)
        [2, 3, 4]
        """
        count = min(self.count, len(items))
        if count <= 1:
            return [work(item) for item in items]
        with ThreadPoolExecutor(count, thread_name_prefix="maboost") as pool:
            return list(pool.map(work, items))

    def parts(self, n: int, least: int) -> list[tuple[int, int]]:
        """Divide ``range(n)`` into a few parts a thread; all sizes but the last are multiples of `least`.

        >>> Threads(2).parts(30, 8)
        [(0, 8), (8, 16), (16, 24), (24, 30)]
        >>> Threads().parts(30, 8)
        [(0, 30)]
        """
        if self.count == 1:
            return [(0, n)]
        size = -(-max(n, 1) // (4 * self.count * least)) * least
        return [(a, min(a + size, n)) for a in range(0, max(n, 1), size)]
