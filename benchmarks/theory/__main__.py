"""Run the studies; write or check what they found."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.theory.common import Table, as_csv, write_text
from benchmarks.theory.figures import draw
from benchmarks.theory.lazy import box_potential, conjecture
from benchmarks.theory.margins import cycling_margins, margin_study
from benchmarks.theory.page import page
from benchmarks.theory.rates import error_rates, madaboost_rates, margin_rates
from benchmarks.theory.sparsity import sparsity_study
from benchmarks.theory.stairs import counterexample

DOCS = Path(__file__).parents[2] / "docs"
TABLES = DOCS / "theory-evidence"
TIMED = "times"  # the one table that differs from run to run

STUDIES: dict[str, Callable[[], dict[str, Table]]] = {
    "rates": lambda: {"rates": error_rates() + margin_rates()},
    "madaboost": lambda: {"madaboost": madaboost_rates()},
    "margins": lambda: dict(zip(("margins", TIMED), margin_study(), strict=True)),
    "cycling": lambda: {"cycling": cycling_margins()},
    "sparsity": lambda: {"sparsity": sparsity_study()},
    "lazy": lambda: {"lazy": conjecture(), "boxes": box_potential()},
    "stairs": lambda: {"stairs": counterexample()},
}


def differing(tables: dict[str, Table], folder: Path) -> list[str]:
    """The tables that are not those in the folder; times are not compared."""
    return [
        name
        for name, table in tables.items()
        if name != TIMED and (folder / f"{name}.csv").read_text() != as_csv(table)
    ]


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.theory", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write tables, plots and the page")
    parser.add_argument("--check", action="store_true", help="compare with the committed tables")
    options = parser.parse_args()
    tables: dict[str, Table] = {}
    for name, study in STUDIES.items():
        began = time.perf_counter()
        tables |= study()
        print(f"{name}: {time.perf_counter() - began:.0f} s", flush=True)
    if options.check:
        wrong = differing(tables, TABLES)
        print(f"differ from the committed tables: {wrong}" if wrong else "all tables are the same")
        return 1 if wrong else 0
    if options.write:
        for name, table in tables.items():
            write_text(TABLES / f"{name}.csv", as_csv(table))
        draw(tables, DOCS / "images")
        write_text(DOCS / "theory-evidence.md", page(tables))
    return 0


if __name__ == "__main__":
    sys.exit(main())
