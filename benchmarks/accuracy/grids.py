"""The settings each contestant may choose from: places in its pool, as ``tune`` prints them."""

from __future__ import annotations

from benchmarks.accuracy.methods import POOLS, Settings

PICKED: dict[str, list[int]] = {method: [0, 1, 2, 3] for method in POOLS}

GRIDS: dict[str, list[Settings]] = {
    method: [POOLS[method][i] for i in picked] for method, picked in PICKED.items()
}
