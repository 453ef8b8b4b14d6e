"""The communicator between processes, on XGBoost's collective.

Workers find each other through a *tracker*, a small server in one of them, and then exchange messages over
plain TCP sockets, each with its neighbours. Nothing is encrypted or authenticated: use it only on networks whose
machines trust each other (see ``docs/distributed.md``).
"""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maboost.runtime.communicator import Reduction
from maboost.runtime.optional_packages import missing_package

try:
    from xgboost import collective
    from xgboost.core import XGBoostError
    from xgboost.tracker import RabitTracker
except ImportError as error:  # pragma: no cover
    raise ImportError(missing_package("maboost.distributed", "xgboost", "dask")) from error

__all__ = [
    "CollectiveCommunicator",
    "LostTouchError",
    "Traffic",
    "abandon",
    "joined",
    "start_tracker",
    "stop_tracker",
]

_OPERATIONS = {
    "sum": collective.Op.SUM, "max": collective.Op.MAX, "min": collective.Op.MIN,
}  # fmt: skip

_trackers: dict[str, RabitTracker] = {}
_abandoned: set[str] = set()


class LostTouchError(RuntimeError):
    """Another worker of the fit died, failed or was silent for too long."""


@dataclass
class Traffic:
    """Statistics of a worker's messages: their number, the bytes that it sent, and the seconds they took.

    `slots` has the same numbers by kind: "sum", "max", "min" and "broadcast".
    """

    messages: int = 0
    bytes: int = 0
    seconds: float = 0.0
    slots: dict[str, list[float]] = field(default_factory=dict)

    def add(self, kind: str, size: int, seconds: float) -> None:
        """Count one more message."""
        self.messages += 1
        self.bytes += size
        self.seconds += seconds
        slot = self.slots.setdefault(kind, [0, 0, 0.0])
        slot[0] += 1
        slot[1] += size
        slot[2] += seconds


class CollectiveCommunicator:
    """A :class:`maboost.runtime.communicator.Communicator` on ``xgboost.collective``.

    It belongs to the thread that joined the others (see :func:`joined`).

    Parameters
    ----------
    fit : str
        The name of the fit; after :func:`abandon` every message raises an error.

    Attributes
    ----------
    rank, size : int
    traffic : Traffic
    """

    def __init__(self, fit: str = "") -> None:
        self.fit = fit
        self.rank = int(collective.get_rank())
        self.size = int(collective.get_world_size())
        self.traffic = Traffic()

    def allreduce(self, array: NDArray[Any], op: Reduction = "sum") -> NDArray[Any]:
        with self._message(op, array.nbytes):
            found: NDArray[Any] = collective.allreduce(array, _OPERATIONS[op])
        return found.reshape(array.shape)

    def broadcast(self, array: NDArray[Any], root: int = 0) -> NDArray[Any]:
        # A sum of bytes, since the collective's own broadcast pickles, and unpickling can run code.
        content = array.tobytes() if self.rank == root else bytes(array.nbytes)
        with self._message("broadcast", array.nbytes):
            total = collective.allreduce(np.frombuffer(content, np.uint8), collective.Op.SUM)
        found: NDArray[Any] = total.view(array.dtype).reshape(array.shape)
        return found

    @contextmanager
    def _message(self, kind: str, size: int) -> Iterator[None]:
        if self.fit in _abandoned:
            raise LostTouchError("the client gave up this fit")
        began = time.perf_counter()
        try:
            yield
        except XGBoostError as error:
            raise LostTouchError(_first_line(error)) from None
        self.traffic.add(kind, size, time.perf_counter() - began)


@contextmanager
def joined(
    tracker: dict[str, Any], place: int, timeout: int, fit: str = ""
) -> Iterator[CollectiveCommunicator]:
    """Join the other workers of a fit, and leave them at the end.

    Leaving closes the sockets. If this worker leaves early because it failed, the others notice it
    at their next message.

    Parameters
    ----------
    tracker : dict
        The result of :func:`start_tracker`.
    place : int
        The rank of this worker.
    timeout : int
        Seconds to wait for a message from the others.
    fit : str
    """
    try:
        # One attempt to connect: all workers listen before the addresses are sent. With more attempts, a worker that
        # leaves after the tracker is gone would retry many times before it could report its error.
        collective.init(**tracker, dmlc_task_id=f"{place:08d}", dmlc_timeout=timeout, dmlc_retry=1)
    except XGBoostError as error:
        raise LostTouchError(_first_line(error)) from None
    try:
        yield CollectiveCommunicator(fit)
    except BaseException:
        with suppress(XGBoostError), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the error is reported anyway
            collective.finalize()
        raise
    try:
        collective.finalize()
    except XGBoostError as error:
        raise LostTouchError(_first_line(error)) from None


def start_tracker(fit: str, host: str, size: int) -> dict[str, Any]:
    """Start the tracker of a fit in this process; return the data that its workers need to find each other.

    It waits for them without a limit, since a worker may first have other tasks to finish. The process that
    started the fit stops it (see :func:`stop_tracker`).
    """
    tracker = RabitTracker(n_workers=size, host_ip=host, sortby="task")
    tracker.start()
    _trackers[fit] = tracker
    return dict(tracker.worker_args())


def stop_tracker(fit: str) -> None:
    """Stop the tracker of a fit, if it is in this process; workers that still wait there get an error.

    It runs in a thread of its own, since the tracker may wait for workers that are gone.
    """
    tracker = _trackers.pop(fit, None)
    if tracker is not None:
        threading.Thread(target=_free, args=(tracker,), daemon=True).start()


def _free(tracker: RabitTracker) -> None:
    with suppress(XGBoostError):
        tracker.free()


def abandon(fit: str) -> None:
    """Make every worker of a fit in this process raise an error at its next message."""
    _abandoned.add(fit)
    stop_tracker(fit)


def _first_line(error: Exception) -> str:
    """Return the first line of an error, without addresses of functions."""
    lines = [line.strip("- ") for line in str(error).split("Stack trace")[0].splitlines()]
    reasons = [line for line in lines if line.startswith("[")]
    return reasons[-1] if reasons else " ".join(lines)
