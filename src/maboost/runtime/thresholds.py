"""Sizes from which another way of computing is faster. No result depends on them.

Code reads them when it runs, so that a test can set one and cover a path with a small table.
"""

SHORT_TABLE = 1 << 14  # entries over which a full pass takes less time than a list of some
SLEEPING = 4  # times as much work is worth a thread that sleeps as one that waits for work
