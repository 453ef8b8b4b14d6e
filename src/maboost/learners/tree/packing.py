"""Cells: the weight and the count of a row in one integer.

A cell holds ``(weight << count_bits) + count`` with the weight in fixed point. The weights shown to a
learner are normalised to a sum of one; with c bits for the count they keep 62 - c bits, 42 at most: a
resolution of 2^-41 of the total mass or better up to a million rows. A row lighter than half of that
has a count but no weight. If all sample weights are small integer multiples of the lightest, a row
counts as often as it would have to be repeated, so that rules about the number of rows in a leaf treat a
weight of two as the row twice.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from maboost.learners.tree.layout import CELL
from maboost.runtime.communicator import Communicator, global_count
from maboost.runtime.kernels import kernel
from maboost.runtime.parallel import chunks_of, parallel_for
from maboost.runtime.row_hash import whole_weights
from maboost.runtime.threads import Threads

__all__ = ["Packing", "channels_of", "copies_of", "counted_rows", "pack_rewards", "pack_weights"]

Array = NDArray[np.float64]

_LEAST = 1 << 11  # rows of a chunk
_MOST_COPIES = 255
_WEIGHT_BITS = 42  # more would resolve only the rounding of floats


@dataclass(frozen=True)
class Packing:
    """The format of a cell: `count_bits` low bits of count, and the value of one unit of weight."""

    count_bits: int
    unit: float

    @classmethod
    def of(cls, rows: int, total: float) -> Packing:
        """Return the format for `rows` counted rows (over all shards, copies included) of weight `total`.

        The unit is a power of two, so that the last bits of `total` do not matter.
        """
        bits = int(rows).bit_length()
        return cls(bits, math.ldexp(1.0, math.frexp(total)[1] - min(62 - bits, _WEIGHT_BITS)))


def copies_of(base: Array, comm: Communicator) -> NDArray[np.uint8] | None:
    """Return how many rows each row stands for if all weights are small integer multiples of the lightest.

    None if all weights are equal, or some are no such multiples.
    """
    found = whole_weights(base, _MOST_COPIES, comm)
    if found is None:
        return None
    whole, _ = found
    alike = comm.allreduce(np.array([np.all(whole == 1)], dtype=np.int64), "min")[0]
    return None if alike else whole.astype(np.uint8)


def counted_rows(base: Array, comm: Communicator) -> int:
    """Return the number of rows over all shards, each counted as often as it would have to be repeated."""
    found = whole_weights(base, _MOST_COPIES, comm)
    return global_count(len(base) if found is None else int(found[0].sum()), comm)


@kernel
def _clear_chunk(out, size, chunk, slot):
    for i in range(chunk * size, min((chunk + 1) * size, out.size)):
        out[i] = 0


@kernel
def _pack_chunk(weights, copies, rows, per_unit, count_bits, size, out, chunk, slot):
    """Write cells of single rows; `copies` None: each row stands for itself; `rows` None: all rows in order."""
    for i in range(chunk * size, min((chunk + 1) * size, weights.size)):
        times = np.int64(1 if copies is None else copies[i])
        cell = (times * np.int64(weights[i] / times * per_unit + 0.5) << count_bits) + times
        out[i if rows is None else rows[i]] = cell


@kernel
def _pack(team, weights, copies, rows, per_unit, count_bits, clear, out):
    if clear:
        chunks, size = chunks_of(team, out.size, _LEAST)
        parallel_for(team, chunks, _clear_chunk, (out, size))
    chunks, size = chunks_of(team, weights.size, _LEAST)
    args = (weights, copies, rows, per_unit, count_bits, size, out)
    parallel_for(team, chunks, _pack_chunk, args)


def pack_weights(
    weights: Array,
    packing: Packing,
    threads: Threads | None = None,
    out: NDArray[np.int64] | None = None,
    rows: NDArray[np.intp] | None = None,
    copies: NDArray[np.uint8] | None = None,
    clear: bool = False,
) -> NDArray[np.int64]:
    """Return cells of single rows, written to `out` if given: weight in the high bits, count in the low ones.

    Cells of `rows` go to their places there; the others keep their content, or become zero with `clear`. A
    row that stands for several, as `copies` says, weighs and counts exactly as much as they would: rounding
    must not decide between splits that are equally good.
    """
    cells = np.empty(len(weights), dtype=CELL) if out is None else out
    per_unit = 1.0 / packing.unit  # a power of two: exact
    (threads or Threads()).run(
        _pack, weights, copies, rows, per_unit, packing.count_bits, clear, cells
    )
    return cells


@kernel
def _pack_rewards_chunk(
    rewards, copies, rows, per_unit, count_bits, weights, size, out, chunk, slot
):
    """Write rewards as integers in the high bits of channels, then the cell of the row's weight, then zeros."""
    classes = rewards.shape[1]
    for i in range(chunk * size, min((chunk + 1) * size, weights.size)):
        times, row = np.int64(1 if copies is None else copies[i]), i if rows is None else rows[i]
        for k in range(classes):
            whole = np.int64(np.rint(rewards[i, k] / times * per_unit))
            out[row, k] = times * whole << count_bits
        own = np.int64(weights[i] / times * per_unit + 0.5)
        out[row, classes] = (times * own << count_bits) + times
        for k in range(classes + 1, out.shape[1]):
            out[row, k] = 0


@kernel
def _pack_rewards(team, rewards, copies, rows, per_unit, count_bits, weights, out):
    chunks, size = chunks_of(team, weights.size, _LEAST)
    args = (rewards, copies, rows, per_unit, count_bits, weights, size, out)
    parallel_for(team, chunks, _pack_rewards_chunk, args)


def pack_rewards(
    rewards: Array,
    weights: Array,
    packing: Packing,
    threads: Threads,
    out: NDArray[np.int64],
    rows: NDArray[np.intp] | None = None,
    copies: NDArray[np.uint8] | None = None,
) -> None:
    """Return cells of rows of several classes: one channel of rewards for each class, then weight and count."""
    per_unit = 1.0 / packing.unit
    threads.run(_pack_rewards, rewards, copies, rows, per_unit, packing.count_bits, weights, out)


def channels_of(classes: int) -> int:
    """Return the number of channels of a cell: rewards by class, then weight and count, rounded up to a multiple of four."""
    return -(-(classes + 1) // 4) * 4
