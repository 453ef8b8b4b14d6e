"""More than one machine: the same fit on the workers of a Dask cluster.

Every worker runs the ordinary training loop on the rows it holds; what is global (a sum, a maximum, a
histogram) goes through :class:`maboost.distributed.collective.CollectiveCommunicator`. The model has the
bits of a fit on one machine, for any number of workers and any partitioning. Needs ``maboost[dask]``.

Workers talk to each other over plain TCP sockets on ports the system chooses, beside Dask's own
connections: run it on networks whose machines trust each other.
"""

from maboost.distributed.collective import CollectiveCommunicator, LostTouchError
from maboost.distributed.dask import (
    DaskCombinedBoostClassifier,
    DaskMABoostClassifier,
    DaskMadaBoostClassifier,
    DaskSmoothBoostClassifier,
    DaskSparseBoostClassifier,
)
from maboost.distributed.launch import WorkerLostError

__all__ = [
    "CollectiveCommunicator",
    "DaskCombinedBoostClassifier",
    "DaskMABoostClassifier",
    "DaskMadaBoostClassifier",
    "DaskSmoothBoostClassifier",
    "DaskSparseBoostClassifier",
    "LostTouchError",
    "WorkerLostError",
]
