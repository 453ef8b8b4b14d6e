"""Milliseconds a boosting round by threads, rows and depth, against LightGBM and XGBoost in the same run.

All contenders have the same bins (50 columns of up to 255) and depth, and the same number of threads; binning
is not timed, and projection, step and certificate of our rounds are. A figure is the median of rounds that
take turns with those of the others. It runs wherever numpy, scikit-learn and numba are; a peer that
is not installed is left out.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import os
import platform
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from types import FrameType
from typing import Any

from own_rounds import Prepared, run_of
from peers import LightGBM, XGBoost, rounds_of, table

import maboost
from maboost.boosting import maboost as mirror_ascent
from maboost.boosting import smooth
from maboost.learners.tree.grower import GrowthRules

DOCS = Path(__file__).parent.parent / "docs"
COLUMNS = 50
OWN = {"MABoost": mirror_ascent, "smooth": lambda: smooth(4.0)}
PEERS: dict[str, Any] = {"lightgbm": LightGBM, "xgboost": XGBoost}


@dataclass(frozen=True)
class Cell:
    """Milliseconds a round of one contender."""

    rows: int
    depth: int
    threads: int
    name: str
    milliseconds: float
    against_peers: float  # over the faster peer; NaN without peers
    speed_up: float  # from the fewest threads that were measured to these


class Budget:
    """A number of seconds after which no further cell is begun."""

    def __init__(self, seconds: float) -> None:
        self.end = time.perf_counter() + seconds

    @property
    def spent(self) -> bool:
        return time.perf_counter() >= self.end


def installed_peers() -> dict[str, Any]:
    """The peers that can be imported; a line is printed for each of the others."""
    found = {}
    for module, peer in PEERS.items():
        try:
            importlib.import_module(module)
        except (ImportError, OSError) as error:
            print(f"{peer.name} is left out: {error}", flush=True)
        else:
            found[peer.name] = peer
    return found


def cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Data:
    """A problem with the bins of every contender, shared by all depths and numbers of threads."""

    def __init__(self, rows: int, peers: dict[str, Any], threads: int) -> None:
        self.X, self.y = table(rows, COLUMNS)
        self.peers = peers
        self.bins = Prepared(self.X, self.y, GrowthRules(max_depth=3), threads)
        self.prepared = {
            name: peer(self.X, self.y, threads, 3, 8).data for name, peer in peers.items()
        }

    def rounds(self, depth: int, threads: int) -> dict[str, Callable[[], object]]:
        """A function for a round of each contender."""
        rules = GrowthRules(max_depth=depth)
        runs: dict[str, Callable[[], object]] = {}
        for name, booster in OWN.items():
            learner = Prepared(self.X, self.y, rules, threads, self.bins)
            run = run_of(booster(), learner, self.y, threads)
            runs[name] = lambda run=run: next(run)
        for name, peer in self.peers.items():
            runs[name] = peer(self.X, self.y, threads, depth, 2**depth, self.prepared[name]).round
        return runs


def measured(
    rows: list[int], depths: list[int], threads: list[int], repeats: int, seconds: float
) -> Iterator[Cell]:
    """All cells that fit into the budget, small problems first."""
    budget, peers = Budget(seconds), installed_peers()
    for n in rows:
        if budget.spent:
            break
        data = Data(n, peers, max(threads))
        for depth in depths:
            fewest: dict[str, float] = {}
            for count in threads:
                if budget.spent:
                    break
                times = rounds_of(data.rounds(depth, count), repeats)
                best = min((times[name] for name in peers), default=float("nan"))
                for name, spent in times.items():
                    one = fewest.setdefault(name, spent)
                    yield Cell(n, depth, count, name, 1e3 * spent, spent / best, one / spent)
    if budget.spent:
        print(f"stopped after {seconds:g} seconds; some cells are missing", flush=True)


def calls_of_a_round(rows: int, threads: int) -> tuple[int, int]:
    """Python calls of one smooth round on this thread, and the files of the library that they are in."""
    X, y = table(rows, COLUMNS)
    run = run_of(smooth(4.0), Prepared(X, y, GrowthRules(max_depth=3), threads), y, threads)
    for _ in range(3):
        next(run)
    files: Counter[str] = Counter()

    def count(frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            files[frame.f_code.co_filename] += 1

    sys.setprofile(count)
    try:
        next(run)
    finally:
        sys.setprofile(None)
    package = str(Path(maboost.__file__).parent)
    return sum(files.values()), sum(name.startswith(package) for name in files)


def as_lines(cells: list[Cell]) -> list[str]:
    """A markdown table, one line for each number of rows, depth and number of threads."""
    names = list(dict.fromkeys(cell.name for cell in cells))
    lines = [
        "| rows | depth | threads | "
        + " | ".join(f"{name}, ms" for name in names)
        + " | "
        + " | ".join(f"{name} / faster peer | {name}: times as fast" for name in OWN)
        + " |",
        "|---" * (3 + len(names) + 2 * len(OWN)) + "|",
    ]
    places = dict.fromkeys((cell.rows, cell.depth, cell.threads) for cell in cells)
    for place in places:
        its = {c.name: c for c in cells if (c.rows, c.depth, c.threads) == place}
        times = [f"{its[name].milliseconds:.2f}" for name in names]
        ours = [f"{its[name].against_peers:.2f} | {its[name].speed_up:.1f}" for name in OWN]
        lines.append(f"| {place[0]:.0e} | {place[1]} | {place[2]} | {' | '.join(times + ours)} |")
    return lines


def machine() -> str:
    """What the figures depend on."""
    from llvmlite.binding import get_host_cpu_name

    versions = [f"Python {platform.python_version()}"]
    for module in ("numba", *PEERS):
        try:
            versions.append(f"{module} {importlib.import_module(module).__version__}")
        except (ImportError, OSError):
            continue
    return f"{platform.machine()} ({get_host_cpu_name()}), {cores()} cores, {', '.join(versions)}"


def write(cells: list[Cell], calls: tuple[int, int]) -> None:
    with (DOCS / "performance-threads.csv").open("w") as file:
        writer = csv.DictWriter(file, [f.name for f in fields(Cell)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(cell) for cell in cells)
    (DOCS / "performance-threads.md").write_text(
        "# Threads\n\nThis page has the time of a boosting round by threads, rows and depth. `make bench-threads` writes it. "
        f"All have {COLUMNS} columns of up to 255 bins. Ratios below one: ours is faster. \"Times as fast\" "
        "compares with the first number of threads.\n\n" + "\n".join(as_lines(cells))
        + f"\n\nA smooth round makes {calls[0]} Python calls, in {calls[1]} files of the library.\n\n{machine()}.\n"
    )  # fmt: skip


def numbers(text: str) -> list[int]:
    return [int(float(number)) for number in text.split(",")]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=numbers, default=[10**4, 10**5, 10**6])
    parser.add_argument("--depth", type=numbers, default=[3, 6])
    parser.add_argument("--threads", type=numbers, default=[1, 2, 4, 8, 16])
    parser.add_argument("--repeats", type=int, default=15, help="timed rounds of each contender")
    parser.add_argument(
        "--seconds", type=float, default=600.0, help="begin no cell after this time"
    )
    parser.add_argument(
        "--write", action="store_true", help="write the page and the CSV under docs/"
    )
    options = parser.parse_args(arguments)
    threads = [count for count in options.threads if count <= cores()]
    print(machine(), flush=True)
    calls = calls_of_a_round(min(options.rows), min(threads))  # compiles, too
    print(
        f"a smooth round: {calls[0]} Python calls, in {calls[1]} files of the library", flush=True
    )
    cells = []
    for cell in measured(options.rows, options.depth, threads, options.repeats, options.seconds):
        cells.append(cell)
        print(
            f"{cell.rows:>8} rows, depth {cell.depth}, {cell.threads:>2} threads, {cell.name:>8}: "
            f"{cell.milliseconds:8.2f} ms, {cell.against_peers:5.2f} of the faster peer, "
            f"{cell.speed_up:5.2f} times as fast as with {threads[0]}",
            flush=True,
        )
    print(*as_lines(cells), sep="\n")
    if options.write:
        write(cells, calls)


if __name__ == "__main__":
    main()
