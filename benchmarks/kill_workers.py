"""Kill a worker of a fit over and over: the client must name it in time, and the fit go on from its checkpoint.

``python benchmarks/kill_workers.py 20`` kills one 20 times at each point: in binning, in the allreduce of a
histogram, in a projection, between rounds.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from bench_distributed import cluster, ours, placed, table

sys.path.insert(0, str(Path(__file__).parent.parent))
ROWS, COLUMNS, WORKERS = 3999, 8, 3
LIMIT = 60.0


def all_there(client: Any) -> tuple[Any, Any]:
    """Rows on all workers, none of which is to die."""
    from tests.distributed import faults

    client.wait_for_workers(WORKERS, timeout=120)
    client.run(faults.forget)
    return placed(client, ROWS, COLUMNS)


def kill(client: Any, point: str, path: Path, rng: np.random.Generator, whole: Any) -> float:
    """Kill one worker; the seconds until the client knew."""
    from tests.distributed import faults
    from tests.distributed.shards import assert_same

    from maboost.distributed import DaskSmoothBoostClassifier, WorkerLostError

    data = all_there(client)
    params = ours(8, 3, checkpoint=path, checkpoint_every=1)
    model = DaskSmoothBoostClassifier(**params, client=client)
    victim = sorted(client.nthreads())[int(rng.integers(WORKERS))]
    client.run(faults.plan, point, int(rng.integers(12)), workers=[victim])
    began, told = time.perf_counter(), ""
    try:
        model.fit(*data)
    except WorkerLostError as error:
        told = str(error)
    seconds = time.perf_counter() - began
    if victim not in told or seconds > LIMIT:
        raise SystemExit(f"{point}: {victim} died, and after {seconds:.1f} s: {told!r}")
    assert_same(model.set_params(resume=True).fit(*all_there(client)), whole)
    return seconds


def main() -> None:
    from tests.distributed import faults

    from maboost import SmoothBoostClassifier

    times, rng = int(sys.argv[1]), np.random.default_rng(0)
    parts = [table(ROWS // WORKERS, COLUMNS, seed) for seed in range(WORKERS)]
    X, y = (np.concatenate([part[j] for part in parts]) for j in (0, 1))
    whole = SmoothBoostClassifier(**ours(8, 3)).fit(X, y)
    with cluster(WORKERS) as client, tempfile.TemporaryDirectory() as folder:
        for point in faults.POINTS:
            path = Path(folder, point)
            seconds = [
                kill(client, point, path.with_suffix(f".{i}"), rng, whole) for i in range(times)
            ]
            print(f"{point}: {times} kills, known after {max(seconds):.1f} s at most", flush=True)


if __name__ == "__main__":
    main()
