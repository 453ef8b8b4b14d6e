"""How anything runs: compiled kernels, threads, exact sums, shards, row hashes, files written whole."""
