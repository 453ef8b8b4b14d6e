"""Results of a study in a CSV file, to which a run appends and from which it resumes."""

from __future__ import annotations

import csv
import subprocess
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd

__all__ = ["Store", "commit", "versions"]

FOLDER = Path(__file__).parent / "results"


class Store:
    """Rows of one study, each with a key that tells what was measured.

    A row is appended as soon as it is measured, so that a run that was stopped continues where it was.
    Every row holds the commit of the code that measured it.

    Parameters
    ----------
    name : str
        The file is ``benchmarks/studies/results/{name}.csv``.
    keys : sequence of str
        The columns that identify a row.
    values : sequence of str
        The measured columns.
    folder : Path
    """

    def __init__(
        self, name: str, keys: Sequence[str], values: Sequence[str], folder: Path = FOLDER
    ) -> None:
        self.path = folder / f"{name}.csv"
        self.keys, self.values = list(keys), list(values)
        self._columns = [*self.keys, *self.values, "commit"]
        self._commit = commit()

    def frame(self) -> pd.DataFrame:
        """Return all rows. Of a key that was measured twice, the last row counts."""
        if not self.path.exists():
            return pd.DataFrame(columns=self._columns)
        kinds = dict.fromkeys([*self.keys, "commit"], str)
        return pd.read_csv(self.path, dtype=kinds).drop_duplicates(self.keys, keep="last")

    def done(self) -> set[tuple[str, ...]]:
        """Return the keys that have been measured, as text."""
        return set(self.frame()[self.keys].itertuples(index=False, name=None))

    def append(self, row: Mapping[str, Any]) -> None:
        """Append one row."""
        if missing := set(self.keys + self.values) ^ set(row):
            raise ValueError(f"the row has other columns than {self.keys + self.values}: {missing}")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        fresh = not self.path.exists()
        with self.path.open("a", newline="") as file:
            writer = csv.DictWriter(file, self._columns, lineterminator="\n")
            if fresh:
                writer.writeheader()
            writer.writerow({k: _text(v) for k, v in row.items()} | {"commit": self._commit})


def _text(value: Any) -> Any:
    return f"{value:.6g}" if isinstance(value, float) else value


def commit() -> str:
    """Return the commit of the code; a ``+`` follows it if src/ has uncommitted changes."""
    root = Path(__file__).parents[2]
    git = ["git", "-C", str(root)]
    head = subprocess.run([*git, "rev-parse", "--short=10", "HEAD"], capture_output=True, text=True)
    changed = subprocess.run(
        [*git, "status", "--porcelain", "--", "src"], capture_output=True, text=True
    )
    return (head.stdout.strip() or "unknown") + ("+" if changed.stdout.strip() else "")


def versions(packages: Sequence[str]) -> dict[str, str]:
    """Return the versions of installed packages, by name."""
    return {name: version(name) for name in packages}
