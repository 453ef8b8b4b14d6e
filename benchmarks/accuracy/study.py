"""Runs contestants over data sets, kinds of noise and splits; what is done is kept in a folder.

One file a (data set, noise, split), written whole or not at all, so that a run can be stopped at any
time and goes on where it was. An entry is used again only if its contestant's grid is still the same,
and its library: the version of another, every character of the source of maboost.
"""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from benchmarks.accuracy.data import Table, load, split
from benchmarks.accuracy.methods import Settings, made_by, make
from benchmarks.accuracy.noise import noisy
from numpy.typing import NDArray
from sklearn import config_context
from sklearn.model_selection import StratifiedKFold
from threadpoolctl import threadpool_limits

INNER_FOLDS = 2

Grids = dict[str, list[Settings]]


@dataclass(frozen=True)
class Task:
    """One data set, one kind of noise, one split; the split's number is the only seed."""

    data: str
    noise: str
    split: int

    @property
    def file(self) -> str:
        return f"{self.data}_{self.noise.replace(' %', '').replace(' ', '-')}_{self.split}.json"


def fitted(model: Any, X: NDArray[Any], y: NDArray[Any]) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """The predictor of a fit; labels are shown without gaps, as XGBoost wants them."""
    classes, codes = np.unique(y, return_inverse=True)
    if len(classes) == 1:
        return lambda rows: np.full(len(rows), classes[0])
    model.fit(X, codes)
    return lambda rows: classes[np.asarray(model.predict(rows), dtype=int)]


def chosen(
    method: str, grid: list[Settings], X: NDArray[Any], y: NDArray[Any], seed: int
) -> Settings:
    """The setting of least error in folds of the (noisy) training rows; the first of equals."""
    if len(grid) == 1:
        return grid[0]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The least populated class")
        folds = list(StratifiedKFold(INNER_FOLDS, shuffle=True, random_state=seed).split(X, y))
    wrong = [
        sum(
            np.sum(fitted(make(method, settings, seed), X[a], y[a])(X[b]) != y[b]) for a, b in folds
        )
        for settings in grid
    ]
    return grid[int(np.argmin(wrong))]


def result(table: Table, task: Task, method: str, grid: list[Settings]) -> dict[str, Any]:
    """Search, fit once more on all training rows, and count the errors on clean test labels."""
    rows = split(table, task.split)
    given = noisy(task.noise, rows.X_train, rows.y_train, task.split)
    settings = chosen(method, grid, rows.X_train, given, task.split)
    model = make(method, settings, task.split)
    began = time.process_time()
    predictor = fitted(model, rows.X_train, given)
    seconds = time.process_time() - began  # of the processor: others may use the machine
    error = float(np.mean(predictor(rows.X_test) != rows.y_test))
    return _key(method, grid) | {"chosen": settings, "error": error, "seconds": seconds}


def _key(method: str, grid: list[Settings]) -> dict[str, Any]:
    """What a result depends on, besides its task."""
    return {"grid": grid, "by": made_by(method)}


def _current(found: dict[str, Any], method: str, grid: list[Settings]) -> bool:
    return _key(method, grid).items() <= found.get(method, {}).items()


def do(task: Task, grids: Grids, folder: Path, loader: Callable[[str], Table] = load) -> str:
    """All contestants on one task, but for those whose results are there."""
    path = folder / task.file
    found = json.loads(path.read_text()) if path.exists() else {}
    missing = [m for m, grid in grids.items() if not _current(found, m, grid)]
    if not missing:
        return task.file
    table = loader(task.data)
    # the checks of scikit-learn are not what is compared; results are the same without
    unchecked = config_context(assume_finite=True, skip_parameter_validation=True)
    with threadpool_limits(1), unchecked, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        for method in missing:
            found[method] = result(table, task, method, grids[method])
    keep(path, found)
    return task.file


def keep(path: Path, found: Any) -> None:
    """Write what was found, whole or not at all."""
    beside = path.with_suffix(f".{os.getpid()}.part")
    beside.write_text(json.dumps(found))
    beside.replace(path)


def run(
    tasks: Iterable[Task], grids: Grids, folder: Path, processes: int, say: Callable[[str], None]
) -> None:
    """All tasks, in processes."""
    folder.mkdir(parents=True, exist_ok=True)
    in_processes(do, [(task, grids, folder) for task in tasks], processes, say)


def in_processes(
    job: Callable[..., str],
    calls: list[tuple[Any, ...]],
    processes: int,
    say: Callable[[str], None],
) -> None:
    """Every call of a job, which returns its name, in processes of one thread each."""
    for name in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS"):
        os.environ[name] = "1"  # for the processes that start now
    began = time.perf_counter()
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        waiting = [pool.submit(job, *call) for call in calls]
        for done, future in enumerate(as_completed(waiting), start=1):
            minutes = (time.perf_counter() - began) / 60
            say(f"{done}/{len(calls)} {minutes:.1f} min {future.result()}")


def results(tasks: Iterable[Task], grids: Grids, folder: Path) -> pd.DataFrame:
    """One line a (data set, noise, split, method)."""
    return pd.DataFrame(list(_lines(tasks, grids, folder)))


def _lines(tasks: Iterable[Task], grids: Grids, folder: Path) -> Iterator[dict[str, Any]]:
    for task in tasks:
        found = json.loads((folder / task.file).read_text())
        for method, grid in grids.items():
            if not _current(found, method, grid):
                raise ValueError(f"{task.file} has no result of {method} as it is now: run first")
            entry = found[method]
            yield {
                "data": task.data,
                "noise": task.noise,
                "split": task.split,
                "method": method,
                "error": entry["error"],
                "seconds": entry["seconds"],
                "chosen": json.dumps(entry["chosen"]),
            }
