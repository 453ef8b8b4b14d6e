"""Communicators: how shards of the rows talk to each other. The code is in :mod:`maboost.runtime`."""

from maboost.runtime.communicator import Communicator, SerialCommunicator, reproducible_sum

__all__ = ["Communicator", "SerialCommunicator", "reproducible_sum"]


def __dir__() -> list[str]:
    return __all__
