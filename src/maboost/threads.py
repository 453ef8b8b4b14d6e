"""One pool of threads for all kernels of this process.

Kernels release the interpreter lock; results do not depend on how rows are divided, because sums are
sums of integers (see :mod:`maboost.comm`). Numba's own threading layers are not used: they abort
under concurrent use and hang after a fork.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TypeVar

__all__ = ["Threads"]

Result = TypeVar("Result")

_pools: dict[int, ThreadPoolExecutor] = {}
if hasattr(os, "register_at_fork"):  # a child has none of its parent's threads
    os.register_at_fork(after_in_child=_pools.clear)


class Threads:
    """Runs a piece of work over parts of the rows.

    Parameters
    ----------
    count : int, default=1
        Threads to use, the calling one included.
    block : int, default=32768
        Rows that are not worth dividing; parts begin at multiples of it.

    >>> Threads(2, block=2).over(17, lambda a, b: (a, b))
    [(0, 10), (10, 17)]
    """

    def __init__(self, count: int = 1, block: int = 1 << 15) -> None:
        self.count = count
        self.block = block

    def over(self, n: int, work: Callable[[int, int], Result]) -> list[Result]:
        """``work(start, stop)`` for parts that cover ``range(n)``, in order."""
        blocks = -(-n // self.block)
        parts = min(self.count, blocks // 4)  # waking a thread costs as much as a few blocks
        if parts <= 1:
            return [work(0, n)]
        edges = [min(-(-blocks * j // parts) * self.block, n) for j in range(parts + 1)]
        pool = _pools.get(self.count)
        if pool is None:
            pool = _pools.setdefault(
                self.count, ThreadPoolExecutor(self.count - 1, thread_name_prefix="maboost")
            )
        later = [pool.submit(work, a, b) for a, b in pairwise(edges[1:])]
        return [work(edges[0], edges[1]), *(future.result() for future in later)]
