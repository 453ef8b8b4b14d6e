"""``python -m benchmarks.accuracy [tune | run | report]``; without a word, all three in this order.

``tune`` measures the pools on the tuning data sets and writes ``benchmarks/accuracy/grids.json``; ``run``
measures the contestants; ``report`` writes the page. What was measured is kept, so that a run which is
stopped goes on where it was.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.accuracy import data, defaults, grids, long_servedio, pictures, report
from benchmarks.accuracy.methods import POOLS
from benchmarks.accuracy.noise import KINDS
from benchmarks.accuracy.page import page
from benchmarks.accuracy.portfolio import portfolio
from benchmarks.accuracy.study import Task, results, run

ROOT = Path(__file__).parents[2]
CACHE = ROOT / ".accuracy"
DOCS = ROOT / "docs"


def say(line: str) -> None:
    print(line, flush=True)


def tune(processes: int) -> None:
    """The portfolios of the pools, into grids.json."""
    single = {f"{method}#{i}": [s] for method, pool in POOLS.items() for i, s in enumerate(pool)}
    tasks = [Task(name, kind, 0) for name in data.tuning() for kind in defaults.KINDS]
    run(tasks, single, CACHE / "tuning", processes, say)
    found = results(tasks, single, CACHE / "tuning")
    errors = found.pivot_table(index=["data", "noise"], columns="method", values="error")
    picked = {}
    for method, pool in POOLS.items():
        columns = [f"{method}#{i}" for i in range(len(pool))]
        picked[method] = portfolio(errors[columns].set_axis(range(len(pool)), axis=1))
    grids.keep(picked)


def tasks_of(splits: int) -> list[Task]:
    """Split by split and kind by kind, so that a run that is stopped early has whole ones."""
    names = data.reported()
    return [Task(n, kind, split) for split in range(splits) for kind in KINDS for n in names]


def write(splits: int, seeds: int) -> None:
    """The table, the pictures and the page of docs/, from what was run."""
    found = results(tasks_of(splits), grids.grids(), CACHE / "study")
    by_noise = report.rankings(found)
    images = {}
    for noise, ranking in by_noise.items():
        name = "accuracy_" + noise.replace(" %", "").replace(" ", "_").replace("-", "_") + ".png"
        pictures.save_ranking(ranking, noise, DOCS / "images" / name)
        images[noise] = f"images/{name}"
    pictures.save_overview(report.rank_table(by_noise), DOCS / "images" / "accuracy_overview.png")
    found.drop(columns="seconds").to_csv(DOCS / "accuracy.csv", index=False, float_format="%.6f")
    costs = defaults.errors(CACHE / "defaults")
    trap = long_servedio.errors(seeds, CACHE / "long_servedio")
    text = page(found, by_noise, images, grids.grids(), costs, trap, splits)
    (DOCS / "accuracy.md").write_text(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="?", choices=["tune", "run", "report"])
    parser.add_argument("--splits", type=int, default=1)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=5, help="of Long and Servedio's construction")
    options = parser.parse_args()
    if options.what in ("tune", None):
        tune(options.processes)
    if options.what in ("run", None):
        run(tasks_of(options.splits), grids.grids(), CACHE / "study", options.processes, say)
        variants = defaults.variants()
        run(defaults.tasks(), variants, CACHE / "defaults", options.processes, say)
        long_servedio.run(options.seeds, CACHE / "long_servedio", options.processes, say)
    if options.what in ("report", None):
        write(options.splits, options.seeds)


if __name__ == "__main__":
    main()
