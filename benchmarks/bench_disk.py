"""Training from disk under a memory limit: maboost, LightGBM and XGBoost on the same Parquet files.

Every program runs in a process of its own inside a control group whose memory, the page cache included, is
limited to a part of the size of the files; a program that needs more is killed by the system. Where no
control group can be made (it takes root), the limit is left out and the table says so. Reported are the
peak of memory that cannot be given back (anonymous pages), the seconds before the first round and a round,
and what a round read of the binned rows; the picture has the error of our boosters on test rows. ``--write`` puts the table and the plot
under docs/.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

DOCS = Path(__file__).parent.parent / "docs"
PER_FILE, PER_GROUP = 25_000, 1 << 13
TEST_PARTS = 8


def table(rows: int, columns: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, columns)).astype(np.float32)
    score = X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * X[:, 3] ** 2 - 0.5
    return X, (score + 0.5 * rng.normal(size=rows) > 0).astype(np.int64)


def make(folder: Path, rows: int, columns: int) -> None:
    for i, start in enumerate(range(0, rows, PER_FILE)):
        X, y = table(min(PER_FILE, rows - start), columns, seed=i)
        named = {f"x{j}": X[:, j] for j in range(columns)} | {"y": y}
        pq.write_table(pa.table(named), folder / f"part-{i:03d}.parquet", row_group_size=PER_GROUP)


def error_of(votes: Callable[[np.ndarray], np.ndarray], columns: int) -> np.ndarray:
    """The error on test rows, which are made a few at a time; `votes` gives one column a stage."""
    wrong = []
    for part in range(TEST_PARTS):
        X, y = table(5000, columns, seed=10_000 + part)
        wrong.append(np.mean((votes(X) > 0.0) != y[:, None], axis=0))
    return np.mean(wrong, axis=0)


class Peak:
    """The largest anonymous memory while it runs, in MiB over what there was before."""

    def __enter__(self) -> Peak:
        self.start, self.anonymous, self.on = self._now(), 0.0, True
        self.thread = threading.Thread(target=self._watch)
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.on = False
        self.thread.join()

    def _watch(self) -> None:
        while self.on:
            self.anonymous = max(self.anonymous, self._now() - self.start)
            time.sleep(0.02)

    @staticmethod
    def _now() -> float:
        lines = Path("/proc/self/status").read_text().splitlines()
        status = dict(line.split(":", 1) for line in lines)
        return int(status["RssAnon"].split()[0]) / 1024


def ours(folder: Path, columns: int, rounds: int, booster: str) -> dict[str, Any]:
    from maboost import SmoothBoostClassifier, SparseBoostClassifier

    model = {
        "smooth": SmoothBoostClassifier(smoothness=4.0, random_state=0),
        "trimmed": SmoothBoostClassifier(smoothness=4.0, trim="auto", random_state=0),
        "certain": SmoothBoostClassifier(smoothness=4.0, trim="certain", random_state=0),
        "sparse": SparseBoostClassifier(random_state=0),
        "sparsity": SparseBoostClassifier(sparsity=0.9, random_state=0),
    }[booster]
    with tempfile.TemporaryDirectory() as small:
        make(Path(small), 2000, columns)
        model.set_params(n_estimators=2).fit(small, "y")  # compile
    began = time.perf_counter()
    with Peak() as peak:
        model.set_params(n_estimators=rounds).fit(folder, "y")
    whole = time.perf_counter() - began
    seconds = model.history_["seconds"].astype(float)
    names = [f"x{j}" for j in range(columns)]
    curve = error_of(
        lambda X: np.column_stack(
            list(model.staged_decision_function(pa.table(dict(zip(names, X.T, strict=True)))))
        ),
        columns,
    )
    return {
        "anonymous": peak.anonymous, "before": whole - seconds.sum(), "round": float(np.median(seconds)),
        "error": curve[-1], "rows": model.history_["rows_used"].tolist(), "curve": curve.tolist(),
        "seconds": seconds.tolist(), "bytes": model.history_["bytes_read"].tolist(),
    }  # fmt: skip


def parquet_sequences(files: list[str]) -> list[Any]:
    """Files as LightGBM's sequences, which hold one row group at a time, of whichever file."""
    import lightgbm as lgb

    held: dict[str, Any] = {"at": None}  # one row group at a time, of whichever file

    class Rows(lgb.Sequence):
        batch_size = PER_GROUP

        def __init__(self, path: str) -> None:
            self.path, self.rows = path, pq.read_metadata(path).num_rows

        def __len__(self) -> int:
            return self.rows

        def __getitem__(self, index: Any) -> np.ndarray:
            if isinstance(index, slice):
                stop = min(index.stop, self.rows)
                parts = [self._row(a, stop) for a in range(index.start or 0, stop, PER_GROUP)]
                return np.concatenate(parts)
            return self._row(int(index), int(index) + 1)[0]

        def _row(self, a: int, stop: int) -> np.ndarray:
            group = a // PER_GROUP
            if held["at"] != (self.path, group):
                t = pq.ParquetFile(self.path).read_row_group(group).drop_columns(["y"])
                held["values"] = np.column_stack([c.to_numpy() for c in t.itercolumns()])
                held["at"] = (self.path, group)
            first = group * PER_GROUP
            return held["values"][a - first : min(stop, first + PER_GROUP) - first].astype(float)

    return [Rows(f) for f in files]


def light(folder: Path, columns: int, rounds: int) -> dict[str, Any]:
    import lightgbm as lgb

    params = {
        "objective": "binary", "verbosity": -1, "num_threads": 2, "num_leaves": 8, "max_depth": 3,
        "learning_rate": 0.3,
    }  # fmt: skip
    began = time.perf_counter()
    with Peak() as peak:
        files = sorted(map(str, folder.iterdir()))
        y = np.concatenate([pq.read_table(f, columns=["y"])["y"].to_numpy() for f in files])
        booster = lgb.Booster(params, lgb.Dataset(parquet_sequences(files), y, params=params))
        before = time.perf_counter() - began
        times = timed(rounds, lambda i: booster.update())
    error = error_of(lambda X: booster.predict(X, raw_score=True)[:, None], columns)
    return {"anonymous": peak.anonymous, "before": before, "round": times, "error": error[0]}


def parquet_iterator(folder: Path, columns: int, cache: str) -> Any:
    """Files as XGBoost's iterator, with a folder for its cache."""
    import xgboost as xgb

    class Rows(xgb.DataIter):
        def __init__(self) -> None:
            self.files, self.at = sorted(map(str, folder.iterdir())), 0
            super().__init__(cache_prefix=os.path.join(cache, "cache"))

        def reset(self) -> None:
            self.at = 0

        def next(self, input_data: Any) -> bool:
            if self.at == len(self.files):
                return False
            t = pq.read_table(self.files[self.at])
            self.at += 1
            X = np.column_stack([t[f"x{j}"].to_numpy() for j in range(columns)])
            input_data(data=X, label=t["y"].to_numpy())
            return True

    return Rows()


def extreme(folder: Path, columns: int, rounds: int) -> dict[str, Any]:
    import xgboost as xgb

    cache = tempfile.TemporaryDirectory()
    params = {
        "objective": "binary:logistic", "max_depth": 3, "nthread": 2, "max_bin": 255, "eta": 0.3,
    }  # fmt: skip
    began = time.perf_counter()
    with Peak() as peak:
        data = xgb.ExtMemQuantileDMatrix(
            parquet_iterator(folder, columns, cache.name), max_bin=255, nthread=2
        )
        booster = xgb.Booster(params, [data])
        before = time.perf_counter() - began
        times = timed(rounds, lambda i: booster.update(data, i))
    error = error_of(
        lambda X: booster.inplace_predict(X, predict_type="margin").reshape(-1, 1), columns
    )
    return {"anonymous": peak.anonymous, "before": before, "round": times, "error": error[0]}


def timed(rounds: int, work: Callable[[int], object]) -> float:
    times = []
    for i in range(rounds):
        began = time.perf_counter()
        work(i)
        times.append(time.perf_counter() - began)
    return float(np.median(times))


WHO: dict[str, Callable[[Path, int, int], dict[str, Any]]] = {
    "maboost, smooth (dense)": lambda f, c, r: ours(f, c, r, "smooth"),
    "maboost, smooth, trimmed": lambda f, c, r: ours(f, c, r, "trimmed"),
    "maboost, smooth, certain": lambda f, c, r: ours(f, c, r, "certain"),
    "maboost, sparse": lambda f, c, r: ours(f, c, r, "sparse"),
    "maboost, sparsity 90 %": lambda f, c, r: ours(f, c, r, "sparsity"),
    "LightGBM (Sequence)": light,
    "XGBoost (external memory)": extreme,
}


@contextmanager
def memory_limit(mebibytes: int) -> Iterator[Path | None]:
    """A control group (version 2 or 1) that processes can join by writing their number there."""
    two = Path("/sys/fs/cgroup/cgroup.controllers").exists()
    root = Path("/sys/fs/cgroup" if two else "/sys/fs/cgroup/memory")
    group = root / f"maboost-bench-{os.getpid()}"
    try:
        group.mkdir()
        name = "memory.max" if two else "memory.limit_in_bytes"
        (group / name).write_text(str(mebibytes << 20))
    except OSError as error:
        print(f"no memory limit: {error}", file=sys.stderr)
        yield None
        return
    try:
        yield group / "cgroup.procs"
    finally:
        group.rmdir()


def one(who: str, folder: str, options: argparse.Namespace, procs: Path | None) -> dict[str, Any]:
    """A program in a process of its own; with "failed" where it did not come to an end."""

    def join() -> None:
        if procs is not None:
            procs.write_text(str(os.getpid()))

    sizes = ["--columns", str(options.columns), "--rounds", str(options.rounds)]
    done = subprocess.run(
        [sys.executable, __file__, *sizes, "--one", who, folder],
        capture_output=True, text=True, check=False, preexec_fn=join,
    )  # fmt: skip
    if done.returncode == 0:
        return json.loads(done.stdout.splitlines()[-1])
    said = done.stderr.strip().splitlines()[-1:] or [""]
    return {"failed": "killed" if done.returncode == -9 else said[0][:80]}


def row_of(who: str, r: dict[str, Any], options: argparse.Namespace) -> str:
    if "failed" in r:
        return f"| {who} | {r['failed']} | | | | |"
    shown = f"{np.mean(r['rows']) / options.rows:.0%}" if "rows" in r else "100%"
    read = f"{np.mean(r['bytes']) / 2**20:.0f}" if "bytes" in r else ""
    return (
        f"| {who} | yes | {r['anonymous']:.0f} | {r['before']:.0f} | {1e3 * r['round']:.0f} | "
        f"{shown}{', ' + read if read else ''} |"
    )


def draw(found: dict[str, dict[str, Any]]) -> None:
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(1, 3, figsize=(11, 3.4), constrained_layout=True)
    marks = {
        "maboost, smooth (dense)": "-",
        "maboost, smooth, trimmed": ":",
        "maboost, smooth, certain": (0, (5, 1, 1, 1, 1, 1)),
        "maboost, sparse": "--",
        "maboost, sparsity 90 %": "-.",
    }
    for (who, style), colour in zip(
        marks.items(), ("#0072B2", "#56B4E9", "#D55E00", "#E69F00", "#009E73"), strict=True
    ):
        if "curve" not in found.get(who, {}):
            continue
        r = found[who]
        error = 100.0 * np.array(r["curve"])
        look = {"linestyle": style, "color": colour, "label": who.removeprefix("maboost, ")}
        axes[0].plot(np.cumsum(r["bytes"]) / 2**30, error, **look)
        axes[1].plot(np.cumsum(r["seconds"]), error, **look)
        axes[2].plot(np.arange(1, len(error) + 1), np.array(r["rows"]) / 1e6, **look)
    axes[0].set(xlabel="binned data read, GiB", ylabel="test error, %")
    axes[1].set(xlabel="seconds of training", ylabel="test error, %")
    axes[2].set(xlabel="round", ylabel="rows shown, millions", ylim=(0, None))
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].legend(frameon=False)
    fig.savefig(DOCS / "images" / "disk.png", dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=600_000)
    parser.add_argument("--columns", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--limit", type=int, default=448, help="MiB for each program")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        who, folder = options.one
        print(json.dumps(WHO[who](Path(folder), options.columns, options.rounds)))
        return
    lines = [
        "| | finished | peak that cannot be given back, MiB | before the first round, s | a round, ms | "
        "rows shown and MiB of bins read a round |",
        "|---|---|---|---|---|---|",
    ]
    found = {}
    with tempfile.TemporaryDirectory() as name, memory_limit(options.limit) as procs:
        make(Path(name), options.rows, options.columns)
        size = sum(f.stat().st_size for f in Path(name).iterdir()) / 2**20
        limit = (
            f"{options.limit} MiB for each program" if procs else "no limit (not permitted here)"
        )
        head = (
            f"{options.rows:,} rows of {options.columns} numbers, {size:.0f} MiB of Parquet; memory: "
            f"{limit}, page cache included; {options.rounds} rounds of depth 3, 2 threads"
        )
        print(head)
        for who in WHO:
            found[who] = one(who, name, options, procs)
            lines.append(row_of(who, found[who], options))
            print(lines[-1], flush=True)
    if options.write:
        draw(found)
        (DOCS / "performance-disk.md").write_text(
            f"# From disk\n\nWritten by `make bench-disk`. {head}. Every program reads the same files in "
            "batches; memory is counted above what the program takes before it sees the data (about "
            "250 MiB of libraries, which the limit includes). *Error by data read* (docs/performance-disk-error.md) "
            "compares the errors, on real tables. The picture is about our boosters alone: in "
            f"{options.rounds} rounds SmoothBoost at its rate of 0.3 comes less far than SparseBoost with whole steps, so compare "
            "the curves within a booster.\n\n" + "\n".join(lines)
            + "\n\n![Test error by data read and by time, and rows shown a round](images/disk.png)\n\n"
            f"{platform.machine()}, {os.cpu_count()} cores.\n"
        )  # fmt: skip


if __name__ == "__main__":
    main()
