"""Selecting the few entries that a pass has marked."""

from __future__ import annotations

import numpy as np

from maboost.runtime.entries import value_at
from maboost.runtime.kernels import kernel
from maboost.runtime.parallel import chunks_of, parallel_for

__all__ = ["list_marked", "marked_codes", "marked_entries", "marks_for", "places_of_positive"]

_LEAST = 1 << 13  # entries of a chunk
_LEAST_PICKED = 1 << 11  # marked entries of a chunk: they lie far apart


@kernel
def marks_for(n):
    """Allocate one mark an entry, in whole words."""
    marks = np.empty((n + 7) // 8 * 8, dtype=np.uint8)
    for i in range(n, marks.size):
        marks[i] = 0
    return marks


@kernel
def _write_places(marks, offsets, size, rows, chunk, slot):
    # eight marks at a time, since nearly all are zero
    n = offsets[chunk]
    if n == offsets[chunk + 1]:
        return
    first = chunk * size
    words = marks[first : min(first + size, marks.size)].view(np.uint64)
    for word in range(words.size):
        if words[word] != 0:
            for i in range(first + 8 * word, first + 8 * word + 8):
                if marks[i]:
                    rows[n] = i
                    n += 1


@kernel
def list_marked(team, marks, counts, size):
    """Return the indices of all marks in order; `counts` has the number of marks in each chunk of `size` entries.

    `marks` comes from :func:`marks_for`, and `size` is a multiple of eight unless there is one chunk.
    """
    offsets = np.zeros(counts.size + 1, dtype=np.int64)
    for chunk in range(counts.size):
        offsets[chunk + 1] = offsets[chunk] + counts[chunk]
    rows = np.empty(offsets[counts.size], dtype=np.int64)
    if counts.size == 1:
        size = marks.size
    parallel_for(team, counts.size, _write_places, (marks, offsets, size, rows))
    return rows


@kernel
def _pick_entries(rows, values, base, caps, found, size, chunk, slot):
    for j in range(chunk * size, min((chunk + 1) * size, rows.size)):
        i = rows[j]
        found[0, j] = values[i]
        found[1, j] = value_at(base, i)
        found[2, j] = value_at(caps, i)


@kernel
def marked_entries(team, rows, values, base, caps):
    """Return the values, bases and caps of these entries, as the rows of a small array."""
    found = np.empty((3, rows.size))
    chunks, size = chunks_of(team, rows.size, _LEAST_PICKED)
    parallel_for(team, chunks, _pick_entries, (rows, values, base, caps, found, size))
    return found


@kernel
def _pick_codes(rows, codes, found, size, chunk, slot):
    for j in range(chunk * size, min((chunk + 1) * size, rows.size)):
        found[j] = codes[rows[j]]


@kernel
def marked_codes(team, rows, codes):
    """Return these entries' codes."""
    found = np.empty(rows.size, dtype=codes.dtype)
    chunks, size = chunks_of(team, rows.size, _LEAST_PICKED)
    parallel_for(team, chunks, _pick_codes, (rows, codes, found, size))
    return found


@kernel
def _mark_positive(values, marks, counts, size, chunk, slot):
    n = 0
    for i in range(chunk * size, min((chunk + 1) * size, values.size)):
        positive = values[i] > 0.0
        marks[i] = positive
        n += positive
    counts[chunk] = n


@kernel
def places_of_positive(team, values):
    """Return the indices of positive values in order; None if all values are positive."""
    chunks, size = chunks_of(team, values.size, _LEAST)
    marks, counts = marks_for(values.size), np.empty(chunks, dtype=np.int64)
    parallel_for(team, chunks, _mark_positive, (values, marks, counts, size))
    if counts.sum() == values.size:
        return None
    return list_marked(team, marks, counts, size)
