"""Training from disk: maboost, LightGBM and XGBoost on the same Parquet files, each in a process of its own.

Every process reads the files in batches. What is reported is the peak of memory that cannot be given back
(anonymous pages) and of all resident memory (mapped files too, which the system may drop), the seconds
before the first round and a round, and the error on test rows. ``--write`` puts the table and the plot
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
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

DOCS = Path(__file__).parent.parent / "docs"
COLUMNS = 50


def make(folder: Path, rows: int, per_file: int = 250_000) -> None:
    for i, start in enumerate(range(0, rows, per_file)):
        X, y = table(min(per_file, rows - start), seed=i)
        columns = {f"x{j}": X[:, j] for j in range(COLUMNS)} | {"y": y}
        pq.write_table(pa.table(columns), folder / f"part-{i:03d}.parquet", row_group_size=1 << 16)


def table(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, COLUMNS)).astype(np.float32)
    score = X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * X[:, 3] ** 2 - 0.5
    return X, (score + 0.5 * rng.normal(size=rows) > 0).astype(np.int64)


class Peaks:
    """The largest anonymous and resident memory while it runs, in MiB over what there was before."""

    def __enter__(self) -> Peaks:
        self.start, self.anonymous, self.resident, self.on = self._now(), 0.0, 0.0, True
        self.thread = threading.Thread(target=self._watch)
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.on = False
        self.thread.join()

    def _watch(self) -> None:
        while self.on:
            anonymous, resident = self._now()
            self.anonymous = max(self.anonymous, anonymous - self.start[0])
            self.resident = max(self.resident, resident - self.start[1])
            time.sleep(0.02)

    @staticmethod
    def _now() -> tuple[float, float]:
        status = dict(
            line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines()
        )
        return tuple(int(status[key].split()[0]) / 1024 for key in ("RssAnon", "VmRSS"))  # type: ignore[return-value]


def ours(folder: Path, rounds: int, booster: str) -> dict[str, float]:
    from maboost import SmoothBoostClassifier, SparseBoostClassifier

    models = {
        "smooth": SmoothBoostClassifier(smoothness=4.0, n_estimators=rounds, random_state=0),
        "sparse": SparseBoostClassifier(n_estimators=rounds, random_state=0),
        "sparse 90 %": SparseBoostClassifier(n_estimators=rounds, sparsity=0.9, random_state=0),
    }
    warm = Path(tempfile.mkdtemp())
    make(warm, 2000)
    models[booster].set_params(n_estimators=2).fit(warm, "y")  # compile
    began = time.perf_counter()
    with Peaks() as peaks:
        model = models[booster].set_params(n_estimators=rounds).fit(folder, "y")
    whole = time.perf_counter() - began
    seconds = model.history_["seconds"]
    X, y = table(200_000, seed=10_000)
    return {
        "anonymous": peaks.anonymous, "resident": peaks.resident, "before": whole - seconds.sum(),
        "round": float(np.median(seconds)), "error": 1.0 - model.score(X, y),
        "rows": float(model.history_["rows_used"].mean()), "rounds": model.n_iter_,
        "curve": [1.0 - s for s in model.staged_score(X[:50_000], y[:50_000])],
    }  # fmt: skip


def light(folder: Path, rounds: int) -> dict[str, float]:
    import lightgbm as lgb

    class Rows(lgb.Sequence):
        batch_size = 1 << 16

        def __init__(self, path: str) -> None:
            self.file = pq.ParquetFile(path)

        def __len__(self) -> int:
            return self.file.metadata.num_rows

        def __getitem__(self, index: object) -> np.ndarray:
            if isinstance(index, slice):
                return self._rows(index.start or 0, index.stop)
            return self._rows(int(index), int(index) + 1)[0]

        def _rows(self, a: int, b: int) -> np.ndarray:
            group, size = a // (1 << 16), 1 << 16
            got = []
            while group * size < b:
                t = self._group(group)
                got.append(t[max(a - group * size, 0) : b - group * size])
                group += 1
            return np.concatenate(got)

        def _group(self, group: int) -> np.ndarray:
            if getattr(self, "held", None) != group:
                t = self.file.read_row_group(group, columns=[f"x{j}" for j in range(COLUMNS)])
                self.values = np.column_stack([c.to_numpy() for c in t.itercolumns()]).astype(float)
                self.held = group
            return self.values

    began = time.perf_counter()
    with Peaks() as peaks:
        files = sorted(map(str, folder.iterdir()))
        y = np.concatenate([pq.read_table(f, columns=["y"])["y"].to_numpy() for f in files])
        params = {
            "objective": "binary", "verbosity": -1, "num_threads": 2, "num_leaves": 8, "max_depth": 3,
            "learning_rate": 0.3,
        }  # fmt: skip
        data = lgb.Dataset([Rows(f) for f in files], y, params=params)
        booster = lgb.Booster(params, data)
        before = time.perf_counter() - began
        times = []
        for _ in range(rounds):
            t = time.perf_counter()
            booster.update()
            times.append(time.perf_counter() - t)
    X, y = table(200_000, seed=10_000)
    error = float(np.mean((booster.predict(X) > 0.5) != y))
    return {
        "anonymous": peaks.anonymous, "resident": peaks.resident, "before": before,
        "round": float(np.median(times)), "error": error,
    }  # fmt: skip


def extreme(folder: Path, rounds: int) -> dict[str, float]:
    import xgboost as xgb

    cache = tempfile.mkdtemp()

    class Rows(xgb.DataIter):
        def __init__(self) -> None:
            self.files, self.at = sorted(map(str, folder.iterdir())), 0
            super().__init__(cache_prefix=os.path.join(cache, "cache"))

        def reset(self) -> None:
            self.at = 0

        def next(self, input_data: object) -> bool:
            if self.at == len(self.files):
                return False
            t = pq.read_table(self.files[self.at])
            self.at += 1
            X = np.column_stack([t[f"x{j}"].to_numpy() for j in range(COLUMNS)])
            input_data(data=X, label=t["y"].to_numpy())
            return True

    began = time.perf_counter()
    with Peaks() as peaks:
        data = xgb.ExtMemQuantileDMatrix(Rows(), max_bin=255, nthread=2)
        params = {
            "objective": "binary:logistic",
            "max_depth": 3,
            "nthread": 2,
            "max_bin": 255,
            "eta": 0.3,
        }
        booster = xgb.Booster(params, [data])
        before = time.perf_counter() - began
        times = []
        for i in range(rounds):
            t = time.perf_counter()
            booster.update(data, i)
            times.append(time.perf_counter() - t)
    X, y = table(200_000, seed=10_000)
    error = float(np.mean((booster.inplace_predict(X) > 0.5) != y))
    return {
        "anonymous": peaks.anonymous, "resident": peaks.resident, "before": before,
        "round": float(np.median(times)), "error": error,
    }  # fmt: skip


WHO = {
    "maboost, smooth": lambda f, r: ours(f, r, "smooth"),
    "maboost, sparse": lambda f, r: ours(f, r, "sparse"),
    "maboost, sparsity 90 %": lambda f, r: ours(f, r, "sparse 90 %"),
    "LightGBM (Sequence)": light,
    "XGBoost (external memory)": extreme,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        who, folder = options.one
        print(json.dumps(WHO[who](Path(folder), options.rounds)))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make(folder, options.rows)
        size = sum(f.stat().st_size for f in folder.iterdir()) / 2**20
        raw = options.rows * COLUMNS * 8 / 2**20
        head = (
            f"{options.rows:,} rows of {COLUMNS} numbers: {size:.0f} MiB of Parquet, {raw:.0f} MiB as floats; "
            f"{options.rounds} rounds of depth 3, 2 threads"
        )
        lines = [
            "| | peak memory, MiB: not to be given back, and all resident | before the first round, s | a round, ms | rows shown | test error |",
            "|---|---|---|---|---|---|",
        ]
        print(head)
        found = {}
        for who in WHO:
            done = subprocess.run(
                [sys.executable, __file__, "--rounds", str(options.rounds), "--one", who, name],
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            if done.returncode:
                lines.append(f"| {who} | failed: {done.stderr.strip().splitlines()[-1]} | | | | |")
            else:
                r = found[who] = json.loads(done.stdout.splitlines()[-1])
                share = f"{r['rows'] / options.rows:.0%}" if "rows" in r else "100%"
                lines.append(
                    f"| {who} | {r['anonymous']:.0f}, {r['resident']:.0f} | {r['before']:.1f} | "
                    f"{1e3 * r['round']:.0f} | {share} | {100 * r['error']:.2f} % |"
                )
            print(lines[-1], flush=True)
    if options.write:
        (DOCS / "performance-disk.md").write_text(
            f"# From disk\n\nWritten by `make bench-disk`. {head}. Every program reads the same files in batches, in "
            "a process of its own; memory is counted above what the program takes before it sees the data.\n\n"
            + "\n".join(lines) + f"\n\n{platform.machine()}, {os.cpu_count()} cores.\n"
        )  # fmt: skip


if __name__ == "__main__":
    main()
