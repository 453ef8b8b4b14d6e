"""The one home of dtypes and sizes that the tree stages share, and why they are what they are."""

from __future__ import annotations

import numpy as np

# A bin is one byte, so that a row of 50 features is less than a cache line. 255 values are for data
# and the last one for "missing", which may go either way at a split.
BIN = np.uint8
MISSING_BIN = 255
N_BINS = 256

# Histograms keep a few bins of room a feature: with 4096 bytes each, the first bins of all features
# would share one set of the cache, and rows of features with few values would wait for each other.
ROOM = N_BINS + 20

# A cell of a histogram is one integer: weight in fixed point in the high bits, a true row count in
# the low ones. One add a cell gives both, and integer sums are the same for any order of rows.
CELL = np.int64

# Rows are numbered in 32 bits: half the memory traffic of the partition passes.
ROW = np.int32
