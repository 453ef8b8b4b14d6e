"""Sizes from which another method is faster. No result depends on them.

Code reads them at run time, so that a test can set one and cover a path with a small table.
"""

SHORT_TABLE = 1 << 14  # entries below which a full pass is faster than a list of some
SORTED = 1 << 12  # values below which sorting is faster than buckets
RANKED = 1 << 17  # values of equal weight below which partitioning at a rank is faster than buckets
SAMPLED = 1 << 13  # values of the sample that gives the first range
POOLED = 1 << 11  # entries of all shards together that one message may hold
TALL_TABLE = 1 << 12  # rows from which reading a table by column is faster
COUNTED = 1 << 17  # values from which a part of a node gets a histogram of its own
DIVIDED = 1 << 13  # rows from which a part of a node is partitioned by its own chunk
