"""Several reductions in one message.

The cost of a message between shards is mostly waiting, not bytes. A round with half the messages is faster, even
if each message is longer.
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
    """Reduce small flat arrays of 8 bytes an entry, each by its own operation, in one message.

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
    header: NDArray[np.int64], entries: NDArray[np.float64], comm: Communicator
) -> tuple[NDArray[np.int64], NDArray[np.float64] | None]:
    """Exchange small arrays and, if there are few, the entries of all shards in one message.

    A shard that has all entries can continue without further messages.

    Parameters
    ----------
    header : array of shape (n_header,)
        Sent in any case.
    entries : array of shape (n_fields, n)
        Columns of this shard; the number of columns may differ between shards.

    Returns
    -------
    headers : array of shape (shards, n_header)
    entries : array of shape (n_fields, m) or None
        None where some shard has more entries than its share of the message.
    """
    if comm.size == 1:
        return header[None], entries
    fields, count = entries.shape
    room = thresholds.POOLED // comm.size
    packet = np.zeros(1 + header.size + fields * room, dtype=np.int64)
    packet[0], packet[1 : 1 + header.size] = count, header
    own = packet[1 + header.size :].reshape(fields, room)
    if count <= room:
        own[:, :count] = entries.view(np.int64)
    table = by_rank(packet, comm)
    counts, headers = table[:, 0], table[:, 1 : 1 + header.size]
    if counts.max() > room:
        return headers, None
    blocks = table[:, 1 + headers.shape[1] :].reshape(comm.size, fields, room).view(np.float64)
    parts = [block[:, :n] for block, n in zip(blocks, counts, strict=True)]
    return headers, np.concatenate(parts, axis=1)
