"""Studies 1 and 2: the error on true labels of classifiers that were trained on wrong ones.

A cell is a table, a number of training rows, a kind of noise and a method. The method draws `DRAWS` settings, fits each
to four fifths of the noisy training rows of split 0, and keeps the one of least loss on the other fifth, whose labels
are as noisy. That setting is then fitted to all noisy training rows of each of the splits 1 to `SPLITS`, and measured on
test rows with true labels.
"""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pandas as pd
from benchmarks.studies import data
from benchmarks.studies.declared import DRAWS, KNOWN, SPLITS, methods_under, stages
from benchmarks.studies.methods import METHODS, OURS, Method, Rates, draw, forward, generalised
from benchmarks.studies.noise import NONE, ONE_SIDED, UNIFORM, given_labels, true_rates
from benchmarks.studies.store import FOLDER, Store
from numpy.typing import NDArray
from sklearn.metrics import balanced_accuracy_score, log_loss, roc_auc_score
from sklearn.model_selection import train_test_split

from maboost.noise import flip_rates_from_trusted

__all__ = ["Cell", "cells", "measured", "run", "store", "write"]

PAGE = Path(__file__).parents[2] / "docs" / "accuracy.md"
SUMMARIES = (Path(__file__).parents[2] / "README.md", PAGE.parent / "why.md")
FACTS = FOLDER / "tables.csv"

KEYS = ("table", "n", "noise", "method")
METRICS = ("error", "balanced_error", "auc", "log_loss")
VALUES = (
    *METRICS, "error_sd", "tuning_seconds", "fit_seconds", "draws", "splits", "library", "setting",
)  # fmt: skip

LIBRARIES = {
    "SmoothBoost": "maboost",
    "LightGBM": "lightgbm",
    "LightGBM, cleanlab": "cleanlab",
    "XGBoost": "xgboost-cpu",
    "CatBoost": "catboost",
    "EBM": "interpret-core",
}

_CLIP = 1e-6  # of probabilities, before a log loss


def store(folder: Path = FOLDER) -> Store:
    """Return the results of the study."""
    return Store("accuracy", KEYS, VALUES, folder)


@dataclass(frozen=True)
class Cell:
    """A table, a number of training rows and a kind of noise, for all methods."""

    table: str
    n: int
    noise: str

    def row_keys(self) -> list[tuple[str, ...]]:
        """Return the keys of its rows in the store."""
        return [(self.table, str(self.n), self.noise, name) for name in methods_under(self.noise)]


def cells() -> Iterator[Cell]:
    """Return all cells in the order in which they are measured.

    Within a stage the tables follow one another in a random order and have all kinds of noise of the stage, so that
    a run that was stopped has complete comparisons on a random choice of the tables.
    """
    names = data.names()
    order = [names[i] for i in np.random.default_rng(31).permutation(len(names))]
    rows = {name: len(data.load(name).y) for name in order}
    for n, noises in stages():
        for name in order:
            if data.takes_part(rows[name], n):
                for noise in noises:
                    yield Cell(name, n, noise)


def measured(cell: Cell, names: list[str]) -> Iterator[dict[str, Any]]:
    """Measure methods in a cell; one row of the store each."""
    for name in names:
        found = _measured(cell, METHODS[name], name)
        yield {"table": cell.table, "n": cell.n, "noise": cell.noise, "method": name} | found


def _measured(cell: Cell, method: Method, name: str) -> dict[str, Any]:
    began = time.process_time()
    setting = chosen(cell, method, name)
    tuned = time.process_time()
    library = LIBRARIES.get(name, LIBRARIES.get(name.partition(",")[0], "scikit-learn"))
    return evaluated(cell, method, setting) | {
        "tuning_seconds": tuned - began,
        "draws": DRAWS,
        "splits": SPLITS,
        "library": f"{library} {version(library)}",
        "setting": json.dumps(setting),
    }


def evaluated(cell: Cell, method: Method, setting: dict[str, Any]) -> dict[str, float]:
    """Return the mean metrics of a setting over the splits."""
    table = data.load(cell.table)
    seconds, scores = [], []
    for seed in range(1, SPLITS + 1):
        rows, given = noisy(cell, table, seed)
        rates = told(method.rates, cell.noise, rows, given, seed)
        start = time.process_time()
        predict = method.fit(setting, rows.X, given, rates, seed)
        seconds.append(time.process_time() - start)
        scores.append(metrics(rows.y_test, predict(rows.X_test)))
    frame = pd.DataFrame(scores)
    return frame.mean().to_dict() | {
        "error_sd": float(frame["error"].std()),
        "fit_seconds": float(np.mean(seconds)),
    }


def noisy(cell: Cell, table: data.Table, seed: int) -> tuple[data.Split, NDArray[np.int64]]:
    """Return the rows of a split and the given labels of its training rows."""
    rows = data.split(table, cell.n, seed)
    return rows, given_labels(cell.noise, rows, seed)


def chosen(cell: Cell, method: Method, name: str) -> dict[str, Any]:
    """Return the drawn setting of least loss on noisy validation rows."""
    rows, given = noisy(cell, data.load(cell.table), 0)
    a, b = train_test_split(np.arange(cell.n), test_size=0.2, stratify=given, random_state=0)
    rates = told(method.rates, cell.noise, rows, given, 0)
    # all entries of one library see the same draws
    text = f"{cell.table} {cell.n} {cell.noise} {name.partition(',')[0]}"
    rng = np.random.default_rng(crc32(text.encode()))
    settings = [draw(method.space, rng) for _ in range(DRAWS)]
    losses = []
    for setting in settings:
        p = method.fit(setting, rows.X.iloc[a], given[a], rates, 0)(rows.X.iloc[b])
        losses.append(_loss(method.loss, given[b], p, rates))
    return settings[int(np.argmin(losses))]


def _loss(loss: str, given: NDArray[np.int64], p: NDArray[np.float64], rates: Rates) -> float:
    if loss == "robust":
        return float(np.mean(generalised(given, p, 0.7)))
    q = forward(p, rates) if loss == "forward" else p
    return float(log_loss(given, np.clip(q, _CLIP, 1.0 - _CLIP), labels=[0, 1]))


def told(
    kind: str | None, noise: str, rows: data.Split, given: NDArray[np.int64], seed: int
) -> Rates:
    """Return the flip rates that a method is told; their sum stays below 0.9, where labels still say something."""
    if kind is None:
        return None
    trusted = kind == "trusted"
    rates = _from_trusted(rows, given) if trusted else true_rates(noise, rows.y, given)
    if kind == "off":
        rates = {k: rate * (1.25 if seed % 2 == 0 else 0.75) for k, rate in rates.items()}
    scale = min(1.0, 0.9 / max(sum(rates.values()), 1e-9))
    return {k: scale * rate for k, rate in rates.items()}


def _from_trusted(rows: data.Split, given: NDArray[np.int64]) -> dict[int, float]:
    from lightgbm import LGBMClassifier

    model = LGBMClassifier(
        n_estimators=50,
        num_leaves=8,
        n_jobs=1,
        deterministic=True,
        force_row_wise=True,
        verbosity=-1,
    )
    calibration = "isotonic" if len(given) >= 5_000 else "sigmoid"
    found = flip_rates_from_trusted(
        model, rows.X_trusted, rows.y_trusted, rows.X, given, calibration=calibration
    )
    return {k: float(found.rates[k]) for k in (0, 1)}


def metrics(y: NDArray[np.int64], p: NDArray[np.float64]) -> dict[str, float]:
    """Return the metrics of probabilities of class 1 on true labels."""
    label = (p > 0.5).astype(int)
    return {
        "error": float(np.mean(label != y)),
        "balanced_error": float(1.0 - balanced_accuracy_score(y, label)),
        "auc": float(roc_auc_score(y, p)),
        "log_loss": float(log_loss(y, np.clip(p, _CLIP, 1.0 - _CLIP), labels=[0, 1])),
    }


def _job(cell: Cell, names: list[str]) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the rows of a cell, and what went wrong with the methods that have none."""
    rows, failures = [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in names:
            try:
                rows += measured(cell, [name])
            except Exception as error:  # the other methods are worth hours
                failures.append(f"{cell} {name}: {error!r}")
    return rows, failures


def write() -> None:
    """Make the page and its picture from the results."""
    from benchmarks.studies.accuracy_page import page, pictured, with_summary
    from benchmarks.studies.pictures import save_differences

    found = store().frame()
    PAGE.write_text(page(found, pd.read_csv(FACTS)))
    for each in SUMMARIES:
        each.write_text(with_summary(each.read_text(), found))
    if not pictured(found):
        return
    others = [
        name for name in METHODS if name != KNOWN and not name.startswith(f"{OURS}, rates 25")
    ]
    plain = [name for name in others if METHODS[name].rates is None and name != OURS]
    panels = [
        ("40 % of one class mislabelled,\nours knows the rates", KNOWN, others, ONE_SIDED),
        ("Right labels", OURS, plain, (NONE,)),
        ("Every fifth label wrong", OURS, plain, (UNIFORM,)),
    ]
    save_differences(found, 500, panels, PAGE.parent / "images" / "accuracy.png")


def _missing(results: Store) -> list[tuple[Cell, list[str]]]:
    """Return the cells with methods that are not measured yet."""
    done = results.done()
    found = [(cell, [key[3] for key in cell.row_keys() if key not in done]) for cell in cells()]
    return [(cell, names) for cell, names in found if names]


def run(processes: int, hours: float | None = None) -> None:
    """Measure all cells that are missing, in processes of one thread; start none after so many hours."""
    results = store()
    FACTS.parent.mkdir(parents=True, exist_ok=True)
    data.facts().to_csv(FACTS, index=False, float_format="%.6g")
    for name in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = "1"  # for the processes that start now
    began, failures = time.time(), 0
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        waiting = {pool.submit(_job, *job): job[0] for job in _missing(results)}
        for future in as_completed(waiting):
            if future.cancelled():
                continue
            rows, failed = future.result()
            for row in rows:
                results.append(row)
            failures += len(failed)
            minutes = (time.time() - began) / 60
            print(f"{minutes:.1f} min {waiting[future]}", *failed, sep="\n", flush=True)
            if hours is not None and minutes > 60 * hours:
                pool.shutdown(wait=False, cancel_futures=True)
    if failures:
        raise RuntimeError(f"{failures} cells could not be measured")
