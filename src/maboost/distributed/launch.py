"""The launcher: finds the workers that hold the rows, starts a fit there, and monitors it."""

from __future__ import annotations

import threading
import time
import uuid
import warnings
from collections import defaultdict
from contextlib import suppress
from typing import Any
from urllib.parse import urlparse

from distributed import Client, Future, wait

from maboost.distributed.collective import LostTouchError, abandon, start_tracker
from maboost.distributed.parts import blank, divided, lengths_of, recut
from maboost.distributed.worker import Order, Outcome, give_up, train

__all__ = ["WorkerLostError", "fit_on_workers", "loaded"]

_LOOK = 0.5  # seconds between two checks of the workers
_LAST_WORDS = 10.0  # seconds in which workers that lost touch should all have reported it
_ANSWER = 5.0  # seconds in which a healthy worker answers


class WorkerLostError(RuntimeError):
    """A worker died or became silent during a fit; the message names it.

    Attributes
    ----------
    workers : list of str
        The addresses of the lost workers, if known.
    """

    def __init__(self, message: str, workers: list[str] | None = None) -> None:
        super().__init__(message)
        self.workers = workers or []

    @classmethod
    def of(cls, workers: list[str], what: str) -> WorkerLostError:
        """Return the error for workers that did this, with the remedy."""
        return cls(f"{_named(workers)} {what}{_ADVICE}", workers)


def fit_on_workers(
    client: Client, kind: type, params: dict[str, Any], rows: dict[str, Any], timeout: int
) -> dict[str, Outcome]:
    """Fit a classifier on all workers that hold rows.

    Parameters
    ----------
    client : Client
    kind, params
        The classifier.
    rows : dict
        Dask collections by argument of `fit`.
    timeout : int
        Seconds of silence after which a worker counts as lost.

    Returns
    -------
    dict
        Outcomes by the addresses of the workers, in the order of ranks; the first one has the model.

    Raises
    ------
    WorkerLostError
        Naming the worker.
    Exception
        The error of a worker.
    """
    held = _placed(client, rows)
    workers = sorted(held)
    fit = f"maboost-{uuid.uuid4().hex}"
    host = urlparse(workers[0]).hostname
    futures: dict[str, Future] = {}
    try:
        tracker = client.run(start_tracker, fit, host, len(workers), workers=workers[:1])
        order = Order(
            fit, kind, params, {name: blank(values) for name, values in rows.items()},
            tracker[workers[0]], timeout,
        )  # fmt: skip
        for rank, address in enumerate(workers):
            futures[address] = client.submit(
                train, held[address], order, rank, workers=[address], allow_other_workers=False,
                pure=False, retries=0, key=f"{fit}-{rank}",
            )  # fmt: skip
        return _checked(_outcomes_of(client, fit, futures, timeout))
    finally:
        _end(client, fit, futures, workers[0])


def _placed(client: Client, rows: dict[str, Any]) -> dict[str, list[Future]]:
    """Return the partitions on every worker that holds some, computed there."""
    training = {n: v for n, v in rows.items() if not n.endswith("_val")}
    validation = {n: v for n, v in rows.items() if n.endswith("_val")}
    futures = loaded(client, training) + (loaded(client, validation) if validation else [])
    where = client.who_has(futures)
    held: dict[str, list[Future]] = defaultdict(list)
    for future in futures:
        holders = where[future.key]
        if not holders:
            raise WorkerLostError("a worker was lost while it loaded rows: fit again")
        held[min(holders, key=lambda address: (len(held[address]), address))].append(future)
    return {address: its for address, its in held.items() if its}


def loaded(client: Client, rows: dict[str, Any]) -> list[Future]:
    """Return collections that belong together as one dictionary for each partition of the first, on the workers."""
    futures = _computed(client, divided(rows))
    lengths = client.gather(client.map(lengths_of, futures, pure=False))
    if all(len(its) == len(rows) and len(set(its.values())) == 1 for its in lengths):
        return futures
    return _computed(client, recut(futures, lengths))


def _computed(client: Client, parts: list[Any]) -> list[Future]:
    futures: list[Future] = client.compute(parts)
    wait(futures)
    for future in futures:
        if future.status == "error":
            future.result()
    return futures


def _outcomes_of(
    client: Client, fit: str, futures: dict[str, Future], timeout: int
) -> dict[str, Outcome]:
    """Return the outcomes of all workers, or raise an error that names the workers without one.

    If a worker failed by itself, its error is raised; the launcher waits for the others for at most `timeout`.
    Some silent workers may only be slow to notice that they lost touch; they still answer the client.
    """
    outcomes: dict[str, Outcome] = {}
    failed_since = None
    while len(outcomes) < len(futures):
        open_ = [f for a, f in futures.items() if a not in outcomes]
        with suppress(TimeoutError):
            wait(open_, timeout=_LOOK, return_when="FIRST_COMPLETED")
        for address, future in futures.items():
            if address not in outcomes and future.status == "finished":
                with suppress(Exception):  # lost with its worker, which is checked below
                    outcomes[address] = future.result(timeout=_LAST_WORDS)
        silent = [a for a in futures if a not in outcomes]
        gone = sorted(set(silent) - set(client.nthreads()))
        if gone:
            raise WorkerLostError.of(gone, "died during the fit")
        failed = [a for a in silent if futures[a].status in ("error", "cancelled", "lost")]
        if failed:
            raise WorkerLostError.of(failed, "lost its part of the fit")
        errors = [o.error for o in outcomes.values() if o.error is not None]
        if not errors or not silent:
            continue
        failed_since = failed_since or time.monotonic()
        lost_touch = [isinstance(error, LostTouchError) for error in errors]
        if time.monotonic() - failed_since > (_LAST_WORDS if any(lost_touch) else timeout):
            if all(lost_touch):
                well = _notified(client, fit, silent)
                lost = [address for address in silent if address not in well]
                raise WorkerLostError.of(lost or silent, "did not answer the other workers")
            break
    return {address: outcomes[address] for address in futures if address in outcomes}


_ADVICE = (
    "; the cluster's logs may say why. With checkpoint=PATH a fit with resume=True continues from its "
    "last checkpoint"
)


def _named(addresses: list[str]) -> str:
    word = "worker" if len(addresses) == 1 else "workers"
    return f"{word} {', '.join(addresses)}"


def _checked(outcomes: dict[str, Outcome]) -> dict[str, Outcome]:
    """Raise the error of the worker that failed first; the others only lost touch with it."""
    failed = {a: o for a, o in outcomes.items() if o.error is not None}
    causes = {a: o for a, o in failed.items() if not isinstance(o.error, LostTouchError)}
    for address, outcome in (causes or failed).items():
        error = outcome.error
        assert error is not None
        if isinstance(error, LostTouchError):
            raise WorkerLostError.of(list(failed), f"lost touch with the others ({error})")
        error.add_note(f"raised on worker {address}:\n{outcome.trace}")
        raise error
    first = next(iter(outcomes.values()))
    for warning in first.heard:
        warnings.warn(warning, stacklevel=4)
    return outcomes


def _end(client: Client, fit: str, futures: dict[str, Future], host: str) -> None:
    """Clean up: leave no tracker, and no worker that waits for another.

    A worker can wait for a message that will never come, beyond any timeout of the collective.
    Only a new process helps, and Dask computes its rows again. Dask's own restart is not used: a
    nanny that cannot stop such a process in five seconds gives up, and the cluster loses a worker.
    """
    open_ = {address: future for address, future in futures.items() if future.status == "pending"}
    alive = _notified(client, fit, [a for a in {host, *open_} if a in client.nthreads()])
    waiting = [future for address, future in open_.items() if address in alive]
    with suppress(TimeoutError):
        if waiting:
            wait(waiting, timeout=_LAST_WORDS)
    caught = [a for a, future in open_.items() if future.status == "pending" and a in alive]
    if caught:
        for future in futures.values():
            future.cancel()
        with suppress(Exception):  # the process ends before it can answer
            client.run(give_up, workers=caught, on_error="ignore")
        deadline = time.monotonic() + _LAST_WORDS
        while set(caught) & set(client.nthreads()) and time.monotonic() < deadline:
            time.sleep(0.1)


def _notified(client: Client, fit: str, workers: list[str]) -> list[str]:
    """Tell workers that a fit is over; return those that have answered in time.

    Each call has a thread of its own, since a stopped or disconnected process does not answer.
    """
    heard: list[str] = []

    def tell(address: str) -> None:
        with suppress(Exception):  # the worker may leave during the call
            client.run(abandon, fit, workers=[address])
            heard.append(address)

    threads = [threading.Thread(target=tell, args=(a,), daemon=True) for a in workers]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + _ANSWER
    for thread in threads:
        thread.join(max(deadline - time.monotonic(), 0.0))
    return list(heard)
