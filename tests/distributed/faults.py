"""Workers that die at a given point: what a test tells them with ``client.run(plan, ...)``."""

from __future__ import annotations

import os
import signal
import threading
import traceback
from typing import Any

import numpy as np

from maboost.distributed import worker

_joined = worker.joined

# by name of the point: the function that must be at work when a message is sent
POINTS = {
    "checks": "warn_of_large_integers",
    "weights": "row_weights",
    "binning": "find_bins",
    "histogram": "_exchange",
    "projection": "move",
    "between rounds": "settle",
}


STUCK = 0  # instead of the number of a signal: wait for ever


class Deadly:
    """A communicator that ends its process at the n-th message of a kind, or never goes on from there."""

    def __init__(self, comm: Any, function: str, after: int, number: int) -> None:
        self.comm = comm
        self.function = function
        self.after = after
        self.number = number

    def __getattr__(self, name: str) -> Any:
        return getattr(self.comm, name)

    def _look(self) -> None:
        if any(frame.name == self.function for frame in traceback.extract_stack()):
            self.after -= 1
            if self.after < 0 and self.number == STUCK:
                threading.Event().wait()
            if self.after < 0:
                os.kill(os.getpid(), self.number)

    def allreduce(self, array: np.ndarray, op: Any = "sum") -> np.ndarray:
        self._look()
        return self.comm.allreduce(array, op)

    def broadcast(self, array: np.ndarray, root: int = 0) -> np.ndarray:
        self._look()
        return self.comm.broadcast(array, root)


def plan(point: str, after: int, number: int = signal.SIGKILL) -> None:
    """Let this process die at a point, after so many messages there.

    Where it is "joining" there are no messages yet: `after` so many milliseconds in it.
    """
    if point == "joining":
        worker.joined = lambda *args: _dying(after / 1000.0, number, *args)
    else:
        worker.wrap_communicator = lambda comm: Deadly(comm, POINTS[point], after, number)


def _dying(delay: float, number: int, *args: Any) -> Any:
    """What joins the others, in a process that has not long to live."""
    if delay == 0.0:
        os.kill(os.getpid(), number)
    threading.Timer(delay, os.kill, (os.getpid(), number)).start()
    return _joined(*args)


def forget() -> None:
    """Live on."""
    worker.wrap_communicator, worker.joined = None, _joined
