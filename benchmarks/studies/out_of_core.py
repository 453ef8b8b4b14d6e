"""Study 5: test error of training from disk, by the bytes read and the memory it takes, on real tables.

    python -m benchmarks.studies run write --only out_of_core    measures what is missing, writes docs/performance-disk-error.md

A table is copied several times into Parquet files, each copy in an order of its own. Every program runs in a
process of its own, which counts the bytes that it reads from files and its anonymous memory.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from benchmarks.bench_disk import parquet_iterator, parquet_sequences
from benchmarks.studies.store import Store
from benchmarks.tables import TABLES

__all__ = ["PROGRAMS", "measure", "page", "replicate", "run", "write"]

PAGE = Path(__file__).parents[2] / "docs" / "performance-disk-error.md"
COPIES = {"census": 6, "flights": 6}
PER_GROUP = 1 << 13
CHECKS = (10, 30, 60)  # rounds after which the error is measured
PASSES = (1, 2)  # the same of SGD
LEAVES, LEAF, RATE = 15, 20, 0.1  # for all programs; a leaf has at least LEAF rows of each copy

KEYS = ("table", "program", "rounds")
VALUES = ("peak_mib", "read_mib", "cpu_seconds", "error", "version")

Found = list[dict[str, Any]]
Votes = Callable[[np.ndarray], np.ndarray]


def numbers(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return a table with its categories as codes, and its classes."""
    X, y = TABLES[name]()
    kept = X.select_dtypes("number").columns
    columns = [X[c] if c in kept else X[c].cat.codes for c in X]
    return np.column_stack(columns).astype(np.float32), y


def parts(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return training and test rows; a quarter are test rows."""
    order = np.random.default_rng(0).permutation(len(numbers(name)[1]))
    return np.split(order, [3 * len(order) // 4])[:2]


def replicate(folder: Path, X: np.ndarray, y: np.ndarray, copies: int) -> None:
    """Write a Parquet file for each copy."""
    for i in range(copies):
        order = np.random.default_rng(i).permutation(len(y))
        named = {f"x{j}": X[order, j] for j in range(X.shape[1])} | {"y": y[order]}
        path = folder / f"part-{i:03d}.parquet"
        pq.write_table(pa.table(named), path, row_group_size=PER_GROUP, use_dictionary=False)


class Meter:
    """The largest anonymous memory of this process, and the bytes of its read calls, since the start."""

    def __init__(self) -> None:
        self._start, self._cpu = self._now(), time.process_time()
        self.peak, self.curve, self._on = 0.0, [(time.perf_counter(), 0.0, 0.0)], True
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._on = False
        self._thread.join()

    def now(self) -> tuple[float, float]:
        """Return MiB read and CPU seconds."""
        return self._now()[1] - self._start[1], time.process_time() - self._cpu

    def at(self, seconds: Sequence[float]) -> list[tuple[float, float]]:
        """Return MiB read and CPU seconds at times of the clock."""
        when, read, cpu = np.array(self.curve).T
        return list(zip(np.interp(seconds, when, read), np.interp(seconds, when, cpu), strict=True))

    def _watch(self) -> None:
        while self._on:
            anonymous, _ = self._now()
            self.peak = max(self.peak, anonymous - self._start[0])
            self.curve.append((time.perf_counter(), *self.now()))
            time.sleep(0.02)

    @staticmethod
    def _now() -> tuple[float, float]:
        status = dict(
            line.split(":", 1)
            for name in ("status", "io")
            for line in Path(f"/proc/self/{name}").read_text().splitlines()
        )
        return int(status["RssAnon"].split()[0]) / 1024, int(status["rchar"]) / 2**20


def ours(booster: str, **options: Any) -> Callable[..., Any]:
    """Return a program that fits one of our boosters."""

    def fit(folder: Path, copies: int, width: int) -> tuple[Meter, list[tuple[float, float]], Any]:
        import maboost

        model = getattr(maboost, booster)(
            max_leaf_nodes=LEAVES, min_samples_leaf=LEAF * copies, learning_rate=RATE,
            n_estimators=2, early_stopping=False, random_state=0, n_jobs=1, **options,
        )  # fmt: skip
        with tempfile.TemporaryDirectory() as small:  # compile
            rng = np.random.default_rng(0)
            replicate(Path(small), rng.normal(size=(4000, width)), rng.integers(0, 2, 4000), 1)
            model.fit(small, "y")
        meter = Meter()
        model.set_params(n_estimators=CHECKS[-1]).fit(folder, "y")
        ended = time.perf_counter()
        meter.stop()
        seconds = np.cumsum(model.history_["seconds"].astype(float))
        checks = [min(c, len(seconds)) - 1 for c in CHECKS]
        costs = meter.at(list(ended - seconds[-1] + seconds[checks]))
        bins = np.cumsum(model.history_["bytes_read"].astype(float))[checks] / 2**20  # mapped
        costs = [(read + more, cpu) for (read, cpu), more in zip(costs, bins, strict=True)]

        def stages(X: np.ndarray) -> Iterator[np.ndarray]:
            rows = pa.table({f"x{j}": column for j, column in enumerate(X.T)})
            for i, votes in enumerate(model.staged_decision_function(rows)):
                if i in checks:
                    yield votes

        return meter, costs, stages

    return fit


def light(folder: Path, copies: int, width: int) -> Any:
    import lightgbm as lgb

    params = {
        "objective": "binary", "verbosity": -1, "num_threads": 1, "num_leaves": LEAVES,
        "min_data_in_leaf": LEAF * copies, "learning_rate": RATE,
    }  # fmt: skip
    meter, costs = Meter(), []
    files = sorted(map(str, folder.iterdir()))
    y = np.concatenate([pq.read_table(f, columns=["y"])["y"].to_numpy() for f in files])
    booster = lgb.Booster(params, lgb.Dataset(parquet_sequences(files), y, params=params))
    for i in range(CHECKS[-1]):
        booster.update()
        if i + 1 in CHECKS:
            costs.append(meter.now())
    meter.stop()
    return (
        meter,
        costs,
        lambda X: (booster.predict(X, raw_score=True, num_iteration=c) for c in CHECKS),
    )


def extreme(folder: Path, copies: int, width: int) -> Any:
    import xgboost as xgb

    params = {
        "objective": "binary:logistic", "nthread": 1, "max_bin": 255, "eta": RATE, "max_depth": 0,
        "max_leaves": LEAVES, "grow_policy": "lossguide", "min_child_weight": copies,
    }  # fmt: skip
    meter, costs = Meter(), []
    with tempfile.TemporaryDirectory() as cache:
        rows = parquet_iterator(folder, width, cache)
        data = xgb.ExtMemQuantileDMatrix(rows, max_bin=255, nthread=1)
        booster = xgb.Booster(params, [data])
        for i in range(CHECKS[-1]):
            booster.update(data, i)
            if i + 1 in CHECKS:
                costs.append(meter.now())
    meter.stop()

    def stages(X: np.ndarray) -> Iterator[np.ndarray]:
        for c in CHECKS:
            yield booster.predict(xgb.DMatrix(X), iteration_range=(0, c), output_margin=True)

    return meter, costs, stages


def linear(folder: Path, copies: int, width: int) -> Any:
    """SGD on standardized columns and, of columns with up to 1,000 different whole numbers, an indicator of each."""
    from scipy import sparse
    from sklearn.linear_model import SGDClassifier
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    meter, costs, votes = Meter(), [], []
    files = sorted(folder.iterdir())
    sample = pq.ParquetFile(files[0])
    first = columns_of(sample.read_row_groups(range(min(8, sample.num_row_groups))), width)
    whole = [
        j for j in range(width)
        if np.all(first[:, j] == np.round(first[:, j])) and len(np.unique(first[:, j])) <= 1000
    ]  # fmt: skip
    scaler = StandardScaler().fit(first)
    encoder = OneHotEncoder(handle_unknown="ignore").fit(first[:, whole])
    classifier = SGDClassifier(loss="log_loss", alpha=1e-6, average=True, random_state=0)

    def encoded(X: np.ndarray) -> Any:
        scaled = np.nan_to_num(scaler.transform(X))
        return sparse.hstack([scaled, encoder.transform(X[:, whole])], format="csr")

    for i in range(PASSES[-1]):
        for path in files:
            file = pq.ParquetFile(path)
            for group in range(0, file.num_row_groups, 4):
                t = file.read_row_groups(range(group, min(group + 4, file.num_row_groups)))
                classifier.partial_fit(encoded(columns_of(t, width)), t["y"].to_numpy(), [0, 1])
        if i + 1 in PASSES:
            costs.append(meter.now())
            votes.append((classifier.coef_.copy(), classifier.intercept_.copy()))
    meter.stop()
    return meter, costs, lambda X: ((encoded(X) @ w.T + b).ravel() for w, b in votes)


def columns_of(t: pa.Table, width: int) -> np.ndarray:
    return np.column_stack([t[f"x{j}"].to_numpy() for j in range(width)])


PROGRAMS: dict[str, tuple[Callable[..., Any], str]] = {
    "SmoothBoost": (ours("SmoothBoostClassifier"), "maboost"),
    "SmoothBoost, trim certain": (ours("SmoothBoostClassifier", trim="certain"), "maboost"),
    "SmoothBoost, smoothness 4": (ours("SmoothBoostClassifier", smoothness=4.0), "maboost"),
    "SparseBoost": (ours("SparseBoostClassifier"), "maboost"),
    "SparseBoost, sparsity 90 %": (ours("SparseBoostClassifier", sparsity=0.9), "maboost"),
    "LightGBM (Sequence)": (light, "lightgbm"),
    "XGBoost (external memory)": (extreme, "xgboost-cpu"),
    "SGD, one pass and two": (linear, "scikit-learn"),
}


def program(name: str, table: str, folder: Path, copies: int) -> Found:
    """Fit in this process; a row of results for each check."""
    fit, package = PROGRAMS[name]
    width = len(pq.read_schema(next(folder.iterdir())).names) - 1
    meter, costs, stages = fit(folder, copies, width)
    X, y = numbers(table)  # only now: freed memory would be used again and not seen
    _, test = parts(table)
    X, y = X[test], y[test]
    rounds = PASSES if fit is linear else CHECKS
    return [
        {
            "rounds": count, "peak_mib": meter.peak, "read_mib": read, "cpu_seconds": cpu,
            "error": float(np.mean((votes > 0.0) != y)), "version": version(package),
        }
        for count, (read, cpu), votes in zip(rounds, costs, stages(X), strict=True)
    ]  # fmt: skip


@contextmanager
def replicated(table: str, copies: int) -> Iterator[Path]:
    """A temporary folder with the copies of the training rows."""
    X, y = numbers(table)
    train, _ = parts(table)
    with tempfile.TemporaryDirectory() as name:
        replicate(Path(name), X[train], y[train], copies)
        yield Path(name)


def measure(name: str, table: str, folder: Path, copies: int) -> Found:
    """Return the rows of results of a program, which runs in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.studies.out_of_core"]
    done = subprocess.run(
        [*command, name, table, str(folder), str(copies)],
        stdout=subprocess.PIPE, text=True, check=True, env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    rows = json.loads(done.stdout.splitlines()[-1])
    return [{"table": table, "program": name} | row for row in rows]


def store() -> Store:
    return Store("out-of-core", KEYS, VALUES)


def run(processes: int = 1) -> None:
    """Measure what the results do not have; programs run one after another, whatever `processes` is."""
    results = store()
    done = {key[:2] for key in results.done()}
    for table, copies in COPIES.items():
        missing = [name for name in PROGRAMS if (table, name) not in done]
        if not missing:
            continue
        with replicated(table, copies) as folder:
            for name in missing:
                for row in measure(name, table, folder, copies):
                    results.append(row)
                    print(row, flush=True)


def _table(found: pd.DataFrame) -> list[str]:
    text = [
        "| | peak, MiB | CPU seconds | "
        + " | ".join(f"after {c} rounds" for c in CHECKS) + " |",
        "|---|---:|---:|" + "---:|" * len(CHECKS),
    ]  # fmt: skip
    for name, part in found.groupby("program", sort=False):
        last = part.iloc[-1]
        shown = [f"{100.0 * r.error:.2f} % ({r.read_mib:,.0f})" for r in part.itertuples()]
        shown += [""] * (len(CHECKS) - len(shown))
        text.append(
            f"| {name} | {last['peak_mib']:.0f} | {last['cpu_seconds']:.0f} | "
            + " | ".join(shown) + " |"
        )  # fmt: skip
    return text


def _verdict(found: pd.DataFrame) -> str:
    """Return who is best, by error and by memory, and by how much ours are not."""
    last = found.groupby("program", sort=False).last()
    own = last.index.str.contains("Boost") & ~last.index.str.contains("XGBoost")
    said = []
    for column, unit, factor in (("error", "points", 100.0), ("peak_mib", "MiB", 1.0)):
        ours_best, other = last.loc[own, column].idxmin(), last.loc[~own, column].idxmin()
        gap = factor * (last.loc[ours_best, column] - last.loc[other, column])
        word = "larger" if gap > 0.0 else "smaller"
        what = "error" if column == "error" else "peak of memory"
        said.append(
            f"The smallest {what} of ours is that of {ours_best}: {abs(gap):.{2 if unit == 'points' else 0}f} "
            f"{unit} {word} than that of {other}, the smallest of the others."
        )
    return " ".join(said)


def page(found: pd.DataFrame) -> str:
    """Return the page about these results."""
    found = found.astype({"rounds": int})
    sgd = (
        "SGD is linear (`SGDClassifier`, log loss, averaged), with standardized columns and indicators of codes; it makes one pass "
        "and then a second one, in the columns of the first two numbers of rounds. "
        if found["program"].str.startswith("SGD").any()
        else ""
    )
    lines = [
        "# Error by data read",
        "",
        "For readers whose table is larger than memory, and who want to know what error they get for which memory and how much "
        "reading. Written by `python -m benchmarks.studies run write --only out_of_core` from "
        "`benchmarks/studies/results/out-of-core.csv`.",
        "",
        "Three quarters of a real table are written to Parquet "
        + " and ".join(f"{COPIES[name]} times ({name})" for name in found["table"].unique())
        + ", each copy in an order of its own: plain copies without jitter, which hold no more information than one. Categories "
        f"are codes, alike for all programs. Trees have {LEAVES} leaves of at least {LEAF} rows of each copy (XGBoost: a Hessian "
        f"of one for each copy), the learning rate is {RATE}, and nothing else is set or tuned; there is no early stopping. "
        + sgd
        + "One thread.",
        "",
        "Every program runs in a process of its own. *Peak* is the anonymous memory, which cannot be given back, above that of "
        "the process before it sees the data; bins that are mapped from a file are not in it. In brackets are the MiB that the "
        "program has read from files until then: the bytes of its read calls, and for our boosters the bins (one byte a value) that "
        "rounds read from their mapped file. XGBoost maps its file of bins, too, and how much of it a round reads is not counted. "
        "LightGBM reads the files and then holds the bins in memory. "
        "SmoothBoost without a given smoothness makes a trial run on up to 200,000 different rows with all their copies, which "
        "takes most of its peak here: the copies make it as large as the table. "
        "One run each; errors are on the other quarter of the table, and have standard errors of "
        "about 0.08 points (census) and 0.13 points (flights).",
        "",
    ]  # fmt: skip
    for name, part in found.groupby("table", sort=False):
        lines += [f"**{name}.** {_verdict(part)}", "", *_table(part), ""]
    used = [
        f"{PROGRAMS[name][1]} {', '.join(sorted(set(part['version'])))}"
        for name, part in found.groupby("program", sort=False)
    ]
    lines += [
        f"{', '.join(dict.fromkeys(used))}; commits {', '.join(sorted(set(found['commit'])))}.",
        "",
    ]
    return "\n".join(lines)


def write() -> None:
    """Write the page from the results."""
    PAGE.write_text(page(store().frame()))


if __name__ == "__main__":
    who, which, where, count = sys.argv[1:]
    print(json.dumps(program(who, which, Path(where), int(count))))
