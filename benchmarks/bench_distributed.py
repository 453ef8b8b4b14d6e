"""Several workers: against one process with as many threads, against peers, and what workers say to each other.

A cluster of processes on this machine, one thread each. Measured in one run: the time of a fit on the
cluster and in one process (the models must have the same bits), XGBoost and LightGBM on the same cluster and
rows, messages, bytes and seconds of allreduce a round by depth and number of features, and the cost of one
allreduce by its size and the number of workers. From these a model predicts a round at 10, 100 and 1000
workers. ``--write`` puts the page and the plot under docs/.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

DOCS = Path(__file__).parent.parent / "docs"
WORKERS = 2
BYTES_A_CELL = 8


def table(rows: int, columns: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, columns)).astype(np.float32)
    score = X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * X[:, 3] ** 2 - 0.5
    return X, (score + rng.normal(size=rows) > 0).astype(np.int64)


@contextmanager
def cluster(workers: int) -> Iterator[Any]:
    """A cluster that gives no worker up.

    Dask looks 15 s after it lost a worker whether one of that name is there, and closes it for good if not:
    one that is killed again at that moment would never come back.
    """
    import dask
    from distributed import Client, LocalCluster

    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "1 hour"}),
        LocalCluster(
            n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=":0",
            memory_limit=None, silence_logs=50,
        ) as made,
        Client(made) as client,
    ):  # fmt: skip
        yield client


def placed(client: Any, rows: int, columns: int) -> tuple[Any, Any]:
    """Rows that were made on the workers, one part each."""
    import dask.array as da
    from dask import delayed
    from distributed import wait

    names = sorted(client.nthreads())
    share = rows // len(names)
    Xs, ys = [], []
    for seed, name in enumerate(names):
        pair = client.submit(table, share, columns, seed, workers=[name], pure=False)
        wait([pair])
        X, y = (client.submit(lambda both, j=j: both[j], pair, workers=[name]) for j in (0, 1))
        Xs.append(da.from_delayed(delayed(X), (share, columns), np.float32))
        ys.append(da.from_delayed(delayed(y), (share,), np.int64))
    return client.persist([da.concatenate(Xs), da.concatenate(ys)])


def ours(rounds: int, depth: int, **more: Any) -> dict[str, Any]:
    from maboost import HistTreeClassifier

    tree = HistTreeClassifier(max_depth=depth, min_weight_fraction_leaf=1e-6)
    return dict(estimator=tree, smoothness=4.0, n_estimators=rounds, random_state=0, **more)


def timed(fit: Any) -> tuple[float, Any]:
    began = time.perf_counter()
    model = fit()
    return time.perf_counter() - began, model


def milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:.1f}" if seconds > 0.0 else "not resolved"


def round_seconds(model: Any) -> float:
    return float(np.median(model.history_["seconds"]))


# ------------------------------------------------------------------------------- one against several


def one_process(rows: int, columns: int, rounds: int, out: Any) -> None:
    """A fit in this process with as many threads as there are workers; its digest says what it is."""
    from maboost import SmoothBoostClassifier
    from maboost.distributed.worker import model_digest

    parts = [table(rows // WORKERS, columns, seed) for seed in range(WORKERS)]
    X, y = (np.concatenate([part[j] for part in parts]) for j in (0, 1))
    SmoothBoostClassifier(**ours(2, 3, n_jobs=WORKERS)).fit(X[:4000], y[:4000])
    seconds, model = timed(
        lambda: SmoothBoostClassifier(**ours(rounds, 3, n_jobs=WORKERS)).fit(X, y)
    )
    out.put((seconds, round_seconds(model), model_digest(model).hex()))


def in_process(work: Any, *args: Any) -> Any:
    """The result of ``work(*args, queue)`` in a process of its own."""
    context = multiprocessing.get_context("spawn")
    out = context.Queue()
    process = context.Process(target=work, args=(*args, out))
    process.start()
    found = out.get()
    process.join()
    return found


def against(rows: int, columns: int, rounds: int) -> list[dict[str, Any]]:
    """A fit in one process and on a cluster, and the peers on the same cluster."""
    from lightgbm import DaskLGBMClassifier
    from xgboost.dask import DaskXGBClassifier

    from maboost.distributed import DaskSmoothBoostClassifier
    from maboost.distributed.worker import model_digest

    seconds, one_round, digest = in_process(one_process, rows, columns, rounds)
    found = [
        {"name": f"maboost, 1 process x {WORKERS} threads", "fit": seconds, "round": one_round}
    ]
    with cluster(WORKERS) as client:
        warm, data = placed(client, 4000, columns), placed(client, rows, columns)
        DaskSmoothBoostClassifier(**ours(2, 3), client=client).fit(*warm)
        seconds, model = timed(
            lambda: DaskSmoothBoostClassifier(**ours(rounds, 3), client=client).fit(*data)
        )
        assert model_digest(model.to_local()).hex() == digest, "the models differ"
        traffic = model.traffic_[0]
        found.append(
            {
                "name": f"maboost, {WORKERS} workers x 1 thread", "fit": seconds,
                "round": round_seconds(model), "allreduce": traffic.seconds / seconds,
            }
        )  # fmt: skip
        peers = {
            "XGBoost": DaskXGBClassifier(
                n_estimators=rounds, max_depth=3, tree_method="hist", max_bin=255, n_jobs=1
            ),
            "LightGBM": DaskLGBMClassifier(
                n_estimators=rounds, max_depth=3, num_leaves=8, max_bin=255, tree_learner="data",
                verbosity=-1, client=client, n_jobs=1,
            ),
        }  # fmt: skip
        for name, peer in peers.items():
            if name == "XGBoost":
                peer.client = client
            peer.fit(*warm)
            seconds, _ = timed(lambda peer=peer: peer.fit(*data))
            found.append({"name": f"{name}, {WORKERS} workers x 1 thread", "fit": seconds})
    return found


# ------------------------------------------------------------------------------------ what is said


def traffic(rows: int, depths: list[int], widths: list[int]) -> list[dict[str, float]]:
    """Messages, bytes and seconds a round: the difference of a long fit and a short one."""
    from maboost.distributed import DaskSmoothBoostClassifier

    found = []
    with cluster(WORKERS) as client:
        for columns in widths:
            data = placed(client, rows, columns)
            for depth in depths:
                fits = [
                    DaskSmoothBoostClassifier(**ours(rounds, depth), client=client).fit(*data)
                    for rounds in (2, 22)
                ]
                short, long = (fit.traffic_[0] for fit in fits)
                found.append(
                    {
                        "depth": depth, "features": columns,
                        "messages": (long.messages - short.messages) / 20,
                        "bytes": (long.bytes - short.bytes) / 20,
                        "seconds": (long.seconds - short.seconds) / 20,
                        "round": round_seconds(fits[1]),
                    }
                )  # fmt: skip
    return found


def _talk(tracker: dict[str, Any], place: int, sizes: list[int], out: Any) -> None:
    from maboost.distributed.collective import joined

    with joined(tracker, place, 60) as comm:
        found = []
        for size in sizes:
            array = np.zeros(size // BYTES_A_CELL, dtype=np.int64)
            repeats = max(10, min(300, (1 << 24) // size))
            times = []
            for _ in range(repeats):
                began = time.perf_counter()
                comm.allreduce(array)
                times.append(time.perf_counter() - began)
            found.append(statistics.median(times))
        if comm.rank == 0:
            out.put(found)


def allreduce_costs(sizes: list[int], counts: list[int]) -> dict[int, list[float]]:
    """Seconds of one allreduce by number of workers and size, between bare processes."""
    from maboost.distributed.collective import start_tracker, stop_tracker

    context = multiprocessing.get_context("spawn")
    found = {}
    for count in counts:
        tracker = start_tracker(f"bench-{count}", "127.0.0.1", count)
        out = context.Queue()
        processes = [
            context.Process(target=_talk, args=(tracker, place, sizes, out))
            for place in range(count)
        ]
        for process in processes:
            process.start()
        found[count] = out.get()
        for process in processes:
            process.join()
        stop_tracker(f"bench-{count}")
    return found


@dataclass(frozen=True)
class Costs:
    """Seconds of an allreduce in a ring of W workers: a step to each neighbour, and the bytes twice around.

    ``t = (W - 1) * step + 2 (W - 1)/W * bytes * per_byte``
    """

    step: float
    per_byte: float

    @classmethod
    def fitted(cls, sizes: list[int], measured: dict[int, list[float]]) -> Costs:
        """Least squares in relative errors."""
        rows, times = [], []
        for count, seconds in measured.items():
            for size, time_ in zip(sizes, seconds, strict=True):
                rows.append([(count - 1) / time_, 2 * (count - 1) / count * size / time_])
                times.append(1.0)
        step, per_byte = np.linalg.lstsq(np.array(rows), np.array(times), rcond=None)[0]
        return cls(max(float(step), 0.0), max(float(per_byte), 0.0))

    def round(self, workers: np.ndarray, messages: float, bytes_: float) -> np.ndarray:
        """All of a round's messages."""
        ring = 2 * (workers - 1) / workers
        return messages * (workers - 1) * self.step + ring * bytes_ * self.per_byte


@dataclass(frozen=True)
class Prediction:
    """A round by number of workers: rows are divided, words are not."""

    costs: Costs
    messages: float
    bytes: float
    row_seconds: float

    def seconds(self, rows: float, workers: np.ndarray) -> np.ndarray:
        local = rows * self.row_seconds / workers
        return local + self.costs.round(workers, self.messages, self.bytes)

    def best(self, rows: float) -> tuple[int, float]:
        workers = np.unique(np.round(np.geomspace(1, 10_000, 4000)))
        found = self.seconds(rows, workers)
        at = int(np.argmin(found))
        return int(workers[at]), float(found[at])


# ------------------------------------------------------------------------------------------ the page


def plot(prediction: Prediction, costs: dict[int, list[float]], sizes: list[int]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    workers = np.geomspace(1, 3000, 300)
    for rows, colour in ((2e6, "C0"), (2e7, "C1"), (2e8, "C2"), (2e9, "C3")):
        left.loglog(
            workers, prediction.seconds(rows, workers), color=colour, label=f"{rows:.0e} rows"
        )
        at, seconds = prediction.best(rows)
        left.plot([at], [seconds], "o", color=colour)
    left.set(
        xlabel="workers", ylabel="seconds a round", title="Predicted; a dot where it stops scaling"
    )
    left.legend()
    kilobytes = np.array(sizes) / 1024
    for count, seconds in costs.items():
        line = right.loglog(kilobytes, np.array(seconds) * 1e3, "o", label=f"{count} processes")[0]
        model = [prediction.costs.round(np.array(float(count)), 1, size) * 1e3 for size in sizes]
        right.loglog(kilobytes, model, "-", color=line.get_color())
    right.set(xlabel="KiB", ylabel="ms", title="One allreduce: measured (dots) and as modelled")
    right.legend()
    (DOCS / "images").mkdir(exist_ok=True)
    figure.savefig(DOCS / "images" / "distributed.png", dpi=110)


def page(results: dict[str, Any], prediction: Prediction) -> str:
    rows, columns = results["rows"], results["columns"]
    compared, said = results["against"], results["traffic"]
    first = compared[0]
    lines = [
        "# Several workers", "",
        f"Written by `make bench-distributed`. {rows:,} rows of {columns} numbers, {results['rounds']} rounds of "
        f"depth 3, a cluster of {WORKERS} processes with one thread each on this machine; fits from the call to "
        "the model. The models of one process and of the cluster have the same bits.", "",
        "| | fit, s | a round, ms | in allreduce | against one process |", "|---|---|---|---|---|",
    ]  # fmt: skip
    for row in compared:
        a_round = f"{1e3 * row['round']:.0f}" if "round" in row else ""
        share = f"{row['allreduce']:.0%}" if "allreduce" in row else ""
        lines.append(
            f"| {row['name']} | {row['fit']:.1f} | {a_round} | {share} | {row['fit'] / first['fit']:.2f} |"
        )
    lines += [
        "", "## What workers say in a round", "",
        f"{results['said_rows']:,} rows; bytes are those of one worker. All are differences of a fit of 22 rounds and one of 2; "
        "where the workers waited longer for each other at the start of the shorter one, the time is not resolved.", "",
        "| depth | features | messages | KiB | ms in allreduce | ms a round |", "|---|---|---|---|---|---|",
    ]  # fmt: skip
    lines += [
        f"| {r['depth']} | {r['features']} | {r['messages']:.0f} | {r['bytes'] / 1024:.0f} | "
        f"{milliseconds(r['seconds'])} | {1e3 * r['round']:.1f} |"
        for r in said
    ]
    costs = prediction.costs
    lines += [
        "", "## A model of more workers", "",
        "A round takes what its rows take, divided by the workers, and its messages: XGBoost's allreduce goes "
        "around a ring, so that W workers wait for W - 1 steps, and every byte passes twice. Measured here: "
        f"{1e6 * costs.step:.0f} µs a step and {1e-6 / max(costs.per_byte, 1e-15):.0f} MB/s between processes of "
        f"one machine, {1e9 * prediction.row_seconds:.0f} ns a row and round, {prediction.messages:.0f} messages "
        f"and {prediction.bytes / 1024:.0f} KiB a round. A network has other figures; the shape is the same.", "",
        "| rows | 1 worker | 10 | 100 | 1000 | best | there |", "|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for size in (2e6, 2e7, 2e8, 2e9):
        at = prediction.seconds(size, np.array([1.0, 10.0, 100.0, 1000.0]))
        best, there = prediction.best(size)
        cells = " | ".join(f"{s:.3g} s" for s in at)
        lines.append(f"| {size:,.0f} | {cells} | {best} workers | {there:.3g} s |")
    lines += [
        "", "It stops scaling where the steps around the ring take as long as the rows of a worker: beyond the "
        "number under *best* more workers make a round slower.", "",
        "![predicted seconds a round by workers](images/distributed.png)", "",
        f"{platform.machine()}, {os.cpu_count()} cores.", "",
    ]  # fmt: skip
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--columns", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--said-rows", type=int, default=200_000)
    parser.add_argument("--quick", action="store_true", help="few sizes, to see that it runs")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    depths, widths = ([1, 3], [10, 50]) if options.quick else ([1, 3, 6], [10, 50, 200])
    sizes = [8, 1 << 12, 1 << 17, 1 << 20] + ([] if options.quick else [1 << 22, 1 << 24])
    compared = against(options.rows, options.columns, options.rounds)
    said = traffic(options.said_rows, depths, widths)
    costs = allreduce_costs(sizes, [2, 4] if options.quick else [2, 4, 8])
    typical = next(row for row in said if row["depth"] == 3 and row["features"] == 50)
    row_seconds = compared[0]["round"] * WORKERS / options.rows
    prediction = Prediction(
        Costs.fitted(sizes, costs), typical["messages"], typical["bytes"], row_seconds
    )
    results = {
        "rows": options.rows, "columns": options.columns, "rounds": options.rounds,
        "said_rows": options.said_rows, "against": compared, "traffic": said,
        "costs": costs, "sizes": sizes,
    }  # fmt: skip
    print(json.dumps(results, indent=1))
    text = page(results, prediction)
    print(text)
    if options.write:
        plot(prediction, costs, sizes)
        (DOCS / "performance-distributed.md").write_text(text)


if __name__ == "__main__":
    main()
