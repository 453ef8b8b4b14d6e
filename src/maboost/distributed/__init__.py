"""More than one machine: the same fit on the workers of a Dask cluster.

Every worker runs the ordinary training loop on the rows it holds. Global quantities (a sum, a maximum, a
histogram) go through :class:`maboost.distributed.collective.CollectiveCommunicator`. The model has the same
bits as on one machine, for any number of workers and any partitioning. Needs the extra ``dask``.

Each booster has a class here, named after it: ``DaskMABoostClassifier`` is ``MABoostClassifier`` on Dask.

Workers talk to each other over plain TCP sockets on ports that the system chooses, beside Dask's own
connections. Use it on networks whose machines trust each other.
"""

from typing import Any

from maboost.distributed.collective import CollectiveCommunicator, LostTouchError
from maboost.distributed.dask import CLASSIFIERS
from maboost.distributed.launch import WorkerLostError

__all__ = ["CollectiveCommunicator", "LostTouchError", "WorkerLostError"]
__all__ += CLASSIFIERS


def __getattr__(name: str) -> Any:
    if name in CLASSIFIERS:
        return CLASSIFIERS[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
