"""Types and sizes that the stages of the tree share, with the reasons for them."""

from __future__ import annotations

import numpy as np

# A bin is one byte, so that a row of 50 features is less than a cache line. 255 values are for data
# and the last one for "missing", which may go either way at a split.
BIN = np.uint8
MISSING_BIN = 255
N_BINS = 256

# Histograms keep a few unused bins a feature. With 4096 bytes each, the first bins of all features would share
# one set of the cache, and rows of features with few values would evict each other.
ROOM = N_BINS + 20

# A cell of a histogram is one integer: weight in fixed point in the high bits, a true row count in
# the low ones. One add a cell gives both, and integer sums are the same for any order of rows.
CELL = np.int64

# Rows are numbered in 32 bits: half the memory traffic of the partition passes. Leaves are signed numbers;
# lists of rows are unsigned, so that a kernel need not check for negative indices.
ROW = np.int32
ROW_INDEX = np.uint32

# The number of a cell of a sparse column: half the memory of a pointer.
CELL_INDEX = np.uint32

# A node of a tree during growth. Its rows are `start` to `stop` of list number `side` of two, in ascending
# order. `count` is over all shards, `weight` is in the units of cells, answers are bounded by `low` and
# `high`. `slot` is the index of its histogram, -1 if there is none. `feature` is -1 until a split is found,
# `bin` is the last bin that goes left (numbers only), `left` is the left child, -1 until the node is split;
# the right child follows it.
NODE = np.dtype(
    [
        (name, np.int64)
        for name in (
            "depth",
            "start",
            "stop",
            "side",
            "count",
            "slot",
            "feature",
            "bin",
            "left",
        )
    ]
    + [(name, np.float64) for name in ("weight", "low", "high", "gain")],
    align=True,
)
