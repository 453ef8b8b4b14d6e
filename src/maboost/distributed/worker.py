"""The work of a worker: the ordinary fit, on its own rows, with a communicator to the others."""

from __future__ import annotations

import hashlib
import os
import pickle
import threading
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any

import numpy as np
from distributed import Worker, get_worker

from maboost.distributed.collective import CollectiveCommunicator, Traffic, joined
from maboost.distributed.parts import together

__all__ = ["Order", "Outcome", "give_up", "model_digest", "train"]

# tests of faults replace this function, which gets each communicator and returns one
wrap_communicator: Any = None


@dataclass(frozen=True)
class Order:
    """The description of a fit that all workers get.

    Attributes
    ----------
    fit : str
        The name of the fit.
    kind : type
        The classifier to fit.
    params : dict
    blank : dict
        By argument of `fit` an array or frame without rows, for workers that have none.
    tracker : dict
    timeout : int
    """

    fit: str
    kind: type
    params: dict[str, Any]
    blank: dict[str, Any]
    tracker: dict[str, Any]
    timeout: int


@dataclass
class Outcome:
    """The result of a worker; the model is that of rank 0, since all are equal."""

    error: Exception | None = None
    trace: str = ""
    model: Any = None
    heard: list[Warning] = field(default_factory=list)
    traffic: Traffic = field(default_factory=Traffic)


def train(parts: list[dict[str, Any]], order: Order, rank: int) -> Outcome:
    """Fit on these partitions together with the other workers; errors are returned, since Dask would retry.

    The fit runs in a thread of its own, to which the collective belongs. If it fails, the error is returned at
    once, and the thread leaves the collective afterwards: if the worker with the tracker is
    silent, leaving takes two more timeouts.
    """
    outcomes: SimpleQueue[Outcome] = SimpleQueue()
    arguments = (parts, order, rank, get_worker(), outcomes)
    threading.Thread(target=_train, args=arguments, daemon=True).start()
    return outcomes.get()


def _train(
    parts: list[dict[str, Any]],
    order: Order,
    rank: int,
    worker: Worker,
    outcomes: SimpleQueue[Outcome],
) -> None:
    """Put the outcome of the fit into `outcomes`, of which only the first is read."""
    try:
        with (
            _no_profile(worker),
            joined(order.tracker, rank, order.timeout, order.fit) as comm,
        ):
            try:
                outcome = _together(parts, order, comm, worker)
            except Exception as error:
                outcomes.put(_failed(error))
                raise
    except BaseException as error:
        outcome = _failed(error)
    outcomes.put(outcome)


def _together(
    parts: list[dict[str, Any]], order: Order, comm: CollectiveCommunicator, worker: Worker
) -> Outcome:
    """Fit with the other workers, and check that all have the same model."""
    outcome = Outcome()
    used = comm if wrap_communicator is None else wrap_communicator(comm)
    model = _fitted(parts, order, used, worker, outcome)
    _check_alike(model, used)
    outcome.traffic = comm.traffic
    if comm.rank == 0:
        outcome.model = model
    return outcome


def _failed(error: BaseException) -> Outcome:
    trace = "".join(traceback.format_exception(error))
    return Outcome(error=_portable(error), trace=trace)


def give_up(dask_worker: Worker) -> None:
    """End this process, if a nanny will start a new one."""
    if dask_worker.nanny is not None:
        os._exit(1)


@contextmanager
def _no_profile(worker: Worker) -> Iterator[None]:
    """Stop Dask's own profiler during a fit.

    The profiler reads the stacks of all threads a hundred times a second, with the interpreter's lock held.
    Every worker then waits for the one that was delayed last.
    """
    profile = worker.periodic_callbacks.get("profile")  # None if the profiler is disabled
    if profile is None:
        yield
        return
    worker.loop.add_callback(profile.stop)
    try:
        yield
    finally:  # another fit in this process may have started it already
        worker.loop.add_callback(lambda: None if profile.is_running() else profile.start())


def _fitted(
    parts: list[dict[str, Any]],
    order: Order,
    comm: CollectiveCommunicator,
    worker: Worker,
    outcome: Outcome,
) -> Any:
    rows = {
        name: together([part[name] for part in parts if name in part] or [blank])
        for name, blank in order.blank.items()
    }
    model = order.kind(**order.params)
    if model.n_jobs is None:
        model.n_jobs = worker.state.nthreads
    if comm.rank:
        model.verbose = 0
    model._comm = comm
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        model.fit(**rows)
    outcome.heard = [w.message for w in heard if isinstance(w.message, UserWarning)]
    for of_this_shard in ("_comm", "_distribution", "_evidence", "_training"):
        model.__dict__.pop(of_this_shard, None)
    model.set_params(**order.params)
    return model


def model_digest(model: Any) -> bytes:
    """Return a hash of everything in a model except its timings."""
    digest = hashlib.blake2b(digest_size=8)
    columns = [c for c in model.history_.columns if c != "seconds"]
    content = (
        model.classes_.tolist(), model.n_iter_, model.probability_scale_, model.ensemble_.heaviest,
        [model.history_[column].tolist() for column in columns], model.history_.group_errors,
        str(model.certificate_),
    )  # fmt: skip
    digest.update(repr(content).encode())
    digest.update(np.asarray(model.estimator_weights_).tobytes())
    for hypothesis in model.ensemble_.hypotheses:
        tree = hypothesis.tree
        asked = tree.feature, tree.threshold, tree.missing_left, tree.category_set, *tree.categories
        rare = (tree.rare or {}).values()
        for array in (*asked, tree.left, tree.value, *rare):
            digest.update(np.ascontiguousarray(array).tobytes())
    return digest.digest()


def _check_alike(model: Any, comm: CollectiveCommunicator) -> None:
    """Raise RuntimeError unless all shards made the same model."""
    own = np.frombuffer(model_digest(model), dtype=np.int64)
    if comm.allreduce(own, "min") != comm.allreduce(own, "max"):
        raise RuntimeError(
            "the workers ended with different models: are their machines or their versions of numpy "
            "and maboost different? If not, please report it"
        )


def _portable(error: BaseException) -> Exception:
    """Return an error that the client can unpickle."""
    if not isinstance(error, Exception):  # Dask would end the worker
        return RuntimeError(f"{type(error).__name__}: {error}")
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
