"""The infrastructure below the mathematics: kernels, threads, exact sums, shards, row hashes, atomic files."""
