"""The rows of a table for training and for measuring the error: those with labels, and those held out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from maboost.cli.console import print_lines
from maboost.data.files import Source, TableError

__all__ = [
    "HELD_OUT",
    "filtered",
    "held_out_share",
    "is_lumpy",
    "labelled",
    "report_rows",
    "what_is_lost",
]

HELD_OUT = 0.2
_LUMPY = 1.5


def held_out_share(certify: float | None, valid: str | None) -> float | None:
    """Return the share of the rows to hold out: that of --certify, else a fifth unless --valid is given.

    >>> held_out_share(0.3, "0.1"), held_out_share(None, None), held_out_share(None, "0")
    (0.3, 0.2, None)
    """
    if certify is not None:
        return certify
    return HELD_OUT if valid is None else None


def what_is_lost(out: Any, labels: Any, sources: Any) -> str:
    """Return why the rows without those held out are too few to train on; empty if they are enough."""
    if not out.any():
        return "is no row"
    for what, values in (("classes", labels), ("sources", sources)):
        if values is not None:
            left, total = len(np.unique(values[~out])), len(np.unique(values))
            if left < total:
                return f"leaves {left} of {total} {what} to train on"
    return ""


def is_lumpy(out: Any, fraction: float) -> bool:
    """Return whether far more rows are held out than asked for, since equal rows are held out together."""
    return float(np.mean(out)) > _LUMPY * fraction


def report_rows(fresh: dict[str, Any] | None) -> dict[str, Any]:
    """Return the held-out rows as arguments of `write_report`, which takes no weights for them."""
    if fresh is None or fresh["sample_weight"] is not None:
        return {}
    return {"X_test": fresh["X"], "y_test": fresh["y"]}


def labelled(path: Source, table: Any, target: str) -> Any:
    """Return which rows have a label, and print how many have none."""
    has = table.column(target).is_valid().to_numpy()
    if not has.any():
        raise TableError(f"{path}: no row has a label in {target!r}")
    if lost := len(has) - int(has.sum()):
        print_lines(
            f"maboost: {path}: {lost} of {len(has)} rows have no label in {target!r} and are left out",
            err=True,
        )
    return has


def filtered(table: Any, chosen: Any) -> Any:
    """Return some rows of a table, with string views as text, since pyarrow cannot filter those."""
    views = [field.name for field in table.schema if field.type == pa.string_view()]
    for name in views:
        place = table.column_names.index(name)
        table = table.set_column(place, name, table.column(name).cast(pa.large_string()))
    return table.filter(chosen)
