"""Milliseconds a boosting round on a GPU, against XGBoost with ``device="cuda"`` in the same run, and the memory of a fit.

Both have the same bins (50 columns of up to 255) and depth. A figure is the median of the rounds of one fit. Binning and the
first rounds, which compile the kernels, are not counted; projection, step and certificate of our rounds are.
"""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import xgboost as xgb
from numba import cuda
from peers import table

import maboost
from maboost import MABoostClassifier, SmoothBoostClassifier
from maboost.learners.tree.cuda.device_table import needed_bytes
from maboost.learners.tree.growth import first_slots

DOCS = Path(__file__).parent.parent / "docs"
COLUMNS, WARM = 50, 5
OWN: dict[str, Callable[..., object]] = {
    "MABoost": MABoostClassifier,
    "smooth": lambda **given: SmoothBoostClassifier(
        smoothness=4.0, learning_rate=1.0, early_stopping=False, **given
    ),
}


class Times(xgb.callback.TrainingCallback):
    """The seconds of each round of XGBoost."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def before_iteration(self, model: object, epoch: int, evals_log: object) -> bool:
        self.began = time.perf_counter()
        return False

    def after_iteration(self, model: object, epoch: int, evals_log: object) -> bool:
        cuda.synchronize()
        self.seconds.append(time.perf_counter() - self.began)
        return False


def of_xgboost(data: xgb.DMatrix, depth: int, rounds: int) -> float:
    times = Times()
    params = {
        "device": "cuda", "tree_method": "hist", "max_bin": 255, "max_depth": depth, "eta": 0.1,
        "objective": "binary:logistic", "min_child_weight": 0.0,
    }  # fmt: skip
    xgb.train(params, data, rounds + WARM, callbacks=[times])
    return float(np.median(times.seconds[WARM:]))


def of_ours(name: str, X: np.ndarray, y: np.ndarray, depth: int, rounds: int, device: str) -> float:
    model = OWN[name](
        n_estimators=rounds + WARM,
        max_depth=depth,
        min_samples_leaf=1,
        device=device,
        random_state=0,
    )
    model.fit(X, y)
    return float(np.median(model.history_["seconds"][WARM:]))


def machine() -> str:
    versions = f"Python {platform.python_version()}, xgboost {xgb.__version__}, maboost {maboost.__version__}"
    return f"{cuda.get_current_device().name.decode()}, {platform.machine()}, {versions}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", default="1e6,1e7", help="numbers of rows")
    parser.add_argument("--depth", default="1,3,6")
    parser.add_argument("--rounds", type=int, default=30, help="timed rounds of each fit")
    parser.add_argument("--write", action="store_true", help="write docs/performance-cuda.md")
    options = parser.parse_args()
    lines = [
        "| rows | depth | XGBoost, ms | " + " | ".join(f"{n}, ms | {n}, ratio | {n} on the processor, ms" for n in OWN)
        + " | our memory, GiB |",
        "|---" * (4 + 3 * len(OWN)) + "|",
    ]  # fmt: skip
    print(machine(), *lines, sep="\n", flush=True)
    for rows in [int(float(number)) for number in options.rows.split(",")]:
        X, y = table(rows, COLUMNS)
        data = xgb.QuantileDMatrix(X, y, max_bin=255)
        for depth in [int(number) for number in options.depth.split(",")]:
            peer = of_xgboost(data, depth, options.rounds)
            cells = [f"{rows:.0e}", f"{depth}", f"{1e3 * peer:.2f}"]
            for name in OWN:
                ours = of_ours(name, X, y, depth, options.rounds, "cuda")
                cpu = of_ours(name, X, y, depth, options.rounds, "cpu")
                cells += [f"{1e3 * ours:.2f}", f"{ours / peer:.2f}", f"{1e3 * cpu:.2f}"]
            memory = needed_bytes(rows, COLUMNS, 2, first_slots(depth, None)) / 2**30
            lines.append("| " + " | ".join([*cells, f"{memory:.2f}"]) + " |")
            print(lines[-1], flush=True)
    if options.write:
        (DOCS / "performance-cuda.md").write_text(
            "# GPU\n\nThis page has the time of a boosting round on a GPU. `python benchmarks/bench_cuda.py --write` writes it. Both "
            f"have {COLUMNS} columns of up to 255 bins. Ratios below one: ours is faster. The memory is computed from sizes.\n\n"
            + "\n".join(lines) + f"\n\n{machine()}.\n"
        )  # fmt: skip


if __name__ == "__main__":
    main()
