"""Sizes from which another way of computing is faster. No result depends on them.

Code reads them when it runs, so that a test can set one and cover a path with a small table.
"""

SHORT_TABLE = 1 << 14  # entries over which a full pass takes less time than a list of some
SORTED = 1 << 12  # values that are sorted sooner than put into buckets
RANKED = 1 << 17  # values of one weight that are divided at a rank sooner than put into buckets
SAMPLED = 1 << 13  # values of a sample that says where to look first
POOLED = 1 << 11  # entries of all shards together that are worth a message
TALL_TABLE = 1 << 12  # rows of a table that is worth reading by column
COUNTED = 1 << 17  # values that are worth a histogram of their own while a node is counted
DIVIDED = 1 << 13  # rows that are worth a piece of their own while nodes are divided
