"""The settings each contestant may choose from: places in its pool, in grids.json, written by ``tune``."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.accuracy.methods import POOLS, Settings

FILE = Path(__file__).with_name("grids.json")


def keep(picked: dict[str, list[int]]) -> None:
    """Write what was picked, a contestant a line."""
    lines = ",\n".join(f"  {json.dumps(m)}: {json.dumps(places)}" for m, places in picked.items())
    FILE.write_text("{\n" + lines + "\n}\n")


def grids() -> dict[str, list[Settings]]:
    """The settings of each contestant."""
    picked = json.loads(FILE.read_text())
    return {method: [POOLS[method][i] for i in places] for method, places in picked.items()}
