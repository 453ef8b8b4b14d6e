"""Histogram trees inside the boosters, against LightGBM, XGBoost and scikit-learn in the same run.

Every figure is a ratio of medians of interleaved rounds, ours including projection, step and
certificate. ``--write`` puts the tables and the plot under docs/.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import lightgbm
import numpy as np
import xgboost
from own_rounds import Prepared, run_of
from peers import REST, LightGBM, XGBoost, adaboost_round, rounds_of, table

from maboost import MABoostClassifier, SmoothBoostClassifier
from maboost.boosting import maboost, smooth, sparseboost
from maboost.learners.tree.grower import GrowthRules

DOCS = Path(__file__).parent.parent / "docs"
THREADS = 2


def dense_rounds(rows: int, repeats: int) -> list[str]:
    lines = two_classes(rows, repeats)
    # peers grow a tree a class, we one that answers for all
    many = table(rows, 50, classes=5)
    learner = Prepared(*many, GrowthRules(max_depth=3), THREADS)
    return [*lines, round_line("depth 3, five classes", 1.0, many, learner, 3, 8, repeats)]


def two_classes(rows: int, repeats: int) -> list[str]:
    X, y = table(rows, 50)
    lines = []
    base: Prepared | None = None
    for name, depth, leaves, aim in (
        ("stumps", 1, 2, 0.6), ("depth 3", 3, 8, 0.8), ("depth 6", 6, 64, 1.0), ("31 leaves", None, 31, 1.0),
    ):  # fmt: skip
        rules = GrowthRules(max_depth=depth, max_leaf_nodes=None if depth else leaves)
        learner = Prepared(X, y, rules, THREADS, base)
        base = base or learner
        lines.append(round_line(name, aim, (X, y), learner, depth, leaves, repeats))
    return lines


def round_line(
    name: str,
    aim: float,
    data: tuple[np.ndarray, np.ndarray],
    learner: Prepared,
    depth: int | None,
    leaves: int,
    repeats: int,
) -> str:
    """A round of MABoost and of the smooth booster against those of the peers."""
    X, y = data
    runs: dict[str, Callable[[], object]] = {}
    for label, booster in (("MABoost", maboost()), ("smooth", smooth(4.0))):
        run = run_of(booster, learner, y, THREADS)
        runs[label] = lambda run=run: next(run)
    for peer in (LightGBM, XGBoost):
        runs[peer.name] = peer(X, y, THREADS, depth, leaves).round
    t = rounds_of(runs, repeats)
    best = min(t["LightGBM"], t["XGBoost"])
    line = (
        f"| {name}, {len(y):.0e} x 50 | {t['MABoost'] / best:.2f} | {t['smooth'] / best:.2f} | "
        f"{aim} | {1e3 * t['MABoost']:.0f}, {1e3 * t['smooth']:.0f} ms; LightGBM "
        f"{1e3 * t['LightGBM']:.0f}, XGBoost {1e3 * t['XGBoost']:.0f} |"
    )
    print(line, flush=True)
    return line


class Stopwatch:
    """How long a learner takes to produce hypotheses."""

    def __init__(self, learner: Prepared) -> None:
        self.spent = 0.0
        self.produce = learner.producer.produce
        learner.producer.produce = self

    def __call__(self, *a: object) -> object:
        began = time.perf_counter()
        h = self.produce(*a)
        self.spent += time.perf_counter() - began
        return h


def share_not_tree(rows: int, rounds: int = 12) -> str:
    """How much of a smooth depth-3 round is step, projection and certificate."""
    X, y = table(rows, 50)
    learner = Prepared(X, y, GrowthRules(max_depth=3), THREADS)
    run = run_of(smooth(4.0), learner, y, THREADS)
    for _ in range(3):
        next(run)
    watch = Stopwatch(learner)
    began = time.perf_counter()
    for _ in range(rounds):
        next(run)
    whole = time.perf_counter() - began
    return f"| share of a smooth depth-3 round that is not tree, {rows:.0e} rows | {1 - watch.spent / whole:.2f} | 0.30 |"


def sparse_rounds(rows: int) -> list[str]:
    """A round on a distribution with a tenth of the rows, against a dense one."""
    X, y = table(rows, 50)
    base = Prepared(X, y, GrowthRules(max_depth=1), THREADS)
    deep = Prepared(X, y, GrowthRules(max_depth=6), THREADS, base)
    return [
        sparse_round(y, base, f"stumps, {rows:.0e} x 50", 0.25),
        sparse_round(y, deep, "depth 6", None),
    ]


def sparse_round(y: np.ndarray, learner: Prepared, name: str, aim: float | None) -> str:
    rows = len(y)
    dense = run_of(sparseboost(), learner, y, THREADS)
    sparse = run_of(sparseboost(), learner, y, THREADS)
    for run in (dense, sparse):
        next(run)
    keep = np.zeros(rows)
    keep[np.random.default_rng(0).choice(rows, rows // 10, replace=False)] = 1.0
    sparse.state = replace(sparse.state, theta=keep, density=keep, mass=0.1)

    runs = {"dense": dense, "sparse": sparse}
    starts = {name: run.snapshot() for name, run in runs.items()}
    watch, trees = Stopwatch(learner), {name: list[float]() for name in runs}

    def restore(name: str) -> None:
        """The same round again, from an array that no round has seen: some keep what they found in one."""
        run, state = runs[name], starts[name]["state"]
        run.restore(starts[name])
        density = state.density.copy()
        run.state = replace(state, theta=density, density=density)

    def timed(name: str) -> None:
        before = watch.spent
        next(runs[name])
        trees[name].append(watch.spent - before)

    t = rounds_of({name: partial(timed, name) for name in runs}, 9, before=restore)
    ours, whole = 1e3 * t["sparse"], 1e3 * t["dense"]
    tree = {name: 1e3 * np.median(spent) for name, spent in trees.items()}
    return (
        f"| {name}, a tenth of the rows nonzero, against dense | {ours / whole:.2f} ({ours:.0f} and {whole:.0f} ms, "
        f"of which the tree {tree['sparse']:.0f} and {tree['dense']:.0f}) | {aim or ''} |"
    )


def whole_fits(rows: int, rounds: int = 100) -> str:
    """All that a user waits for: bins, rounds, and what comes after them."""
    X, y = table(rows, 50)

    def peer(kind: type[LightGBM] | type[XGBoost]) -> None:
        model = kind(X, y, THREADS, 3, 8)
        for _ in range(rounds):
            model.round()

    model = MABoostClassifier(n_estimators=rounds, n_jobs=THREADS)
    runs = {"ours": lambda: model.fit(X, y)} | {
        kind.name: partial(peer, kind) for kind in (LightGBM, XGBoost)
    }
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(3):
        for name, run in runs.items():
            time.sleep(REST)
            began = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - began)
    t = {name: float(np.median(spent)) for name, spent in times.items()}
    best = min(t["LightGBM"], t["XGBoost"])
    return (
        f"| fit of {rounds} rounds of depth 3 from raw values, {rows:.0e} x 50 | {t['ours'] / best:.2f} "
        f"({t['ours']:.1f} s; LightGBM {t['LightGBM']:.1f}, XGBoost {t['XGBoost']:.1f}) | |"
    )


def against_adaboost() -> str:
    X, y = table(100_000, 50)
    run = run_of(
        maboost(), Prepared(X, y, GrowthRules(max_depth=1, votes=True), THREADS), y, THREADS
    )
    ours = rounds_of({"ours": lambda: next(run)}, 15)["ours"]
    return f"| stumps, 1e5 x 50, against scikit-learn's AdaBoost | {ours / adaboost_round(X, y):.4f} | 0.01 |"


def prediction(rows: int) -> str:
    X, y = table(rows, 50)
    small = slice(0, 50_000)
    model = MABoostClassifier(n_estimators=100, n_jobs=THREADS).fit(X[small], y[small])
    light = LightGBM(X[small], y[small], THREADS, 3, 8)
    extreme = XGBoost(X[small], y[small], THREADS, 3, 8)
    for _ in range(100):
        light.round()
        extreme.round()
    t = rounds_of(
        {
            "ours": lambda: model.decision_function(X),
            "LightGBM": lambda: light.booster.predict(X, raw_score=True, num_threads=THREADS),
            "XGBoost": lambda: extreme.booster.inplace_predict(X, predict_type="margin"),
        },
        3,
        warm=1,
    )
    best = min(t["LightGBM"], t["XGBoost"])
    return (
        f"| predict {rows:.0e} rows, 100 trees of depth 3 | {t['ours'] / best:.2f} ({t['ours']:.2f} s; "
        f"LightGBM {t['LightGBM']:.2f}, XGBoost {t['XGBoost']:.2f}) | 1.0 |"
    )


MEMORY = """
import sys
import numpy as np
sys.path.insert(0, {here!r})
from peers import LightGBM, table
from maboost import SmoothBoostClassifier
SmoothBoostClassifier(n_estimators=2).fit(*table(500, 50))  # imports and compiled code are not data
X, y = table({rows}, 50)
def rss(field):
    lines = open("/proc/self/status").read().splitlines()
    return int(next(line for line in lines if line.startswith(field)).split()[1])
open("/proc/self/clear_refs", "w").write("5")  # the peak starts again from here
before = rss("VmRSS")
if {ours}:
    SmoothBoostClassifier(n_estimators=10, n_jobs=2).fit(X, y)
else:
    light = LightGBM(X, y, 2, 3, 8)
    for _ in range(10):
        light.round()
print(rss("VmHWM") - before)
"""


def memory(rows: int) -> str:
    here = str(Path(__file__).parent)
    ours, peer = (MEMORY.format(rows=rows, ours=ours, here=here) for ours in (True, False))
    grown = [
        int(
            subprocess.run(
                [sys.executable, "-c", code], capture_output=True, check=True, text=True
            ).stdout
        )
        for code in (ours, ours, peer)  # the first compiles what only large tables need
    ][1:]
    return (
        f"| peak memory above the input, {rows:.0e} x 50, against LightGBM | {grown[0] / grown[1]:.2f} "
        f"({grown[0] / 1024:.0f} and {grown[1] / 1024:.0f} MiB) | 1.3 |"
    )


SMALL_FIT = """
import time
began = time.perf_counter()
import numpy as np
from maboost import SmoothBoostClassifier
X = np.random.default_rng(0).normal(size=(1000, 5))
SmoothBoostClassifier(n_estimators=10).fit(X, (X[:, 0] > 0).astype(int))
print(time.perf_counter() - began)
"""


def first_fit() -> list[str]:
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | {"NUMBA_CACHE_DIR": cache}
        cold, warm = (
            float(
                subprocess.run(
                    [sys.executable, "-c", SMALL_FIT],
                    capture_output=True,
                    check=True,
                    text=True,
                    env=environment,
                ).stdout
            )
            for _ in range(2)
        )
    return [
        f"| import and first small fit, cold compile cache, seconds | {cold:.1f} | 15 |",
        f"| the same, warm cache | {warm:.2f} | 1.5 |",
    ]


def growth(rows: int) -> dict[str, list[tuple[int, float, float]]]:
    """Milliseconds a depth-3 round, ours and LightGBM's, by rows and by features."""
    found: dict[str, list[tuple[int, float, float]]] = {"rows": [], "features": []}
    cases = [("rows", n, 20) for n in (10**4, 10**5, 10**6, 10**7) if n <= rows]
    cases += [("features", 10**5, f) for f in (10, 50, 200, 500)]
    for kind, n, f in cases:
        X, y = table(n, f)
        run = run_of(smooth(4.0), Prepared(X, y, GrowthRules(max_depth=3), THREADS), y, THREADS)
        t = rounds_of(
            {"ours": lambda run=run: next(run), "light": LightGBM(X, y, THREADS, 3, 8).round},
            5 if n * f > 10**7 else 40, 2,
        )  # fmt: skip
        found[kind].append((n if kind == "rows" else f, 1e3 * t["ours"], 1e3 * t["light"]))
        print(kind, found[kind][-1], flush=True)
        del X, run
    return found


def plot(found: dict[str, list[tuple[int, float, float]]]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
    titles = {"rows": "20 features, by rows", "features": "100,000 rows, by features"}
    for axis, (kind, points) in zip(axes, found.items(), strict=True):
        x, ours, light = zip(*points, strict=True)
        axis.loglog(x, ours, "o-", color="#4269d0", label="maboost (smooth)")
        axis.loglog(x, light, "s--", color="#ff725c", label="LightGBM")
        axis.set(xlabel=kind, ylabel="ms a round", title=titles[kind])
        axis.yaxis.set_major_formatter("{x:g}")
        axis.yaxis.set_minor_formatter("")
        axis.set_yticks([t for t in (1, 3, 10, 30, 100, 300) if min(ours) / 2 < t < 2 * max(light)])
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(frameon=False)
    figure.suptitle("One boosting round with a tree of depth 3, 2 threads")
    figure.savefig(DOCS / "images" / "tree_growth.png", dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10**6)
    parser.add_argument(
        "--growth", type=int, default=10**7, help="largest number of rows in the plot"
    )
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    SmoothBoostClassifier(n_estimators=2, n_jobs=THREADS).fit(*table(1000, 50))  # compile
    rounds = dense_rounds(options.rows, 15)
    others = [*sparse_rounds(options.rows), against_adaboost(), prediction(options.rows)]
    others += [
        whole_fits(options.rows),
        memory(options.rows),
        share_not_tree(options.rows),
        *first_fit(),
    ]
    print(*others, sep="\n", flush=True)
    if not options.write:
        return
    plot(growth(options.growth))
    (DOCS / "performance-trees.md").write_text(
        "# Trees\n\nWritten by `make bench`. Ratios below one: ours is faster. Our rounds include projection, step and "
        "certificate; bins, depth and threads (2) are the same for all.\n\n"
        "| a round | MABoost / faster peer | smooth / faster peer | aim | medians |\n|---|---|---|---|---|\n"
        + "\n".join(rounds) + "\n\n| what | figure | aim |\n|---|---|---|\n" + "\n".join(others)
        + "\n\nA tree on a tenth of the rows takes more than a tenth of the time: rows picked here and there are fetched from "
        "memory one by one. The rest of a round are passes over all rows, which none can do without: a row of weight zero "
        "comes back in the round that errs on it, and margins, evidence and certificate are those of all rows.\n\n![Time a round by rows and by features](images/tree_growth.png)\n\n"
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, LightGBM "
        f"{lightgbm.__version__}, XGBoost {xgboost.__version__}, peak RSS of this run "
        f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.1f} GiB.\n"
    )  # fmt: skip


if __name__ == "__main__":
    main()
