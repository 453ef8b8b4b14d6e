"""How the C library keeps memory that is given back to it."""

from __future__ import annotations

import numpy as np

__all__ = ["keep_freed_arrays"]

_BYTES = 31 << 20


def keep_freed_arrays() -> None:
    """Let arrays of some megabytes that are freed stay with the process for the next ones.

    A round makes and drops several arrays of a number a row. The GNU C library gives freed memory back
    to the system where more lies free than twice the largest block that was mapped and freed so far, and
    fetching it again, page by page, can take longer than the round. To free one large block, of which no
    page was ever touched, sets that mark high enough once and for all (32 MiB is the most it learns from).
    """
    np.empty(_BYTES, dtype=np.uint8)
