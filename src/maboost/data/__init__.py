"""Training data: tables in memory and on disk, labels, weights, hold-out."""

from maboost.data.categories import RareCategoriesWarning
from maboost.data.parquet import OnDisk
from maboost.data.weights import InertRowsWarning

__all__ = ["InertRowsWarning", "OnDisk", "RareCategoriesWarning"]


def __dir__() -> list[str]:
    return __all__
