"""Several things in one message.

To wait for each other is what a message between shards costs, not its bytes: a round with half the
messages is the quicker one, even where each of them is longer.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from maboost.runtime import thresholds
from maboost.runtime.communicator import Communicator, Reduction, by_rank

__all__ = ["pooled", "reduced"]

_LOCALLY: dict[Reduction, Any] = {"sum": np.sum, "max": np.max, "min": np.min}


def reduced(parts: list[tuple[NDArray[Any], Reduction]], comm: Communicator) -> list[NDArray[Any]]:
    """Small flat arrays of 8 bytes an entry, each reduced by its own operation, in one message.

    >>> import numpy as np
    >>> from maboost.runtime.communicator import SerialCommunicator
    >>> reduced([(np.array([2]), "sum"), (np.array([0.5, 1.0]), "max")], SerialCommunicator())
    [array([2]), array([0.5, 1. ])]
    """
    if comm.size == 1:
        return [array for array, _ in parts]
    table = by_rank(np.concatenate([array.view(np.int64) for array, _ in parts]), comm)
    cells = np.split(table, np.cumsum([array.size for array, _ in parts])[:-1], axis=1)
    return [
        _LOCALLY[op](cell.view(array.dtype), axis=0)
        for cell, (array, op) in zip(cells, parts, strict=True)
    ]


def pooled(
    told: NDArray[np.int64], entries: NDArray[np.float64], comm: Communicator
) -> tuple[NDArray[np.int64], NDArray[np.float64] | None]:
    """What all shards tell by rank and, if they are few, the entries of all of them: one message.

    With all entries at hand a shard can go on alone.

    Parameters
    ----------
    told : array of shape (n_told,)
    entries : array of shape (n_fields, n)
        Columns of this shard, of which others may have more or fewer.

    Returns
    -------
    told : array of shape (shards, n_told)
    entries : array of shape (n_fields, m) or None
        None where some shard has more than its share of the room in a message.
    """
    if comm.size == 1:
        return told[None], entries
    fields, count = entries.shape
    room = thresholds.POOLED // comm.size
    packet = np.zeros(1 + told.size + fields * room, dtype=np.int64)
    packet[0], packet[1 : 1 + told.size] = count, told
    own = packet[1 + told.size :].reshape(fields, room)
    if count <= room:
        own[:, :count] = entries.view(np.int64)
    table = by_rank(packet, comm)
    counts, told = table[:, 0], table[:, 1 : 1 + told.size]
    if counts.max() > room:
        return told, None
    blocks = table[:, 1 + told.shape[1] :].reshape(comm.size, fields, room).view(np.float64)
    parts = [block[:, :n] for block, n in zip(blocks, counts, strict=True)]
    return told, np.concatenate(parts, axis=1)
