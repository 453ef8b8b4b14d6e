"""Kill a worker of a fit over and over: the client must name it in time, and the fit go on from its checkpoint.

``python benchmarks/kill_workers.py 20`` kills one 20 times at each point: while it joins the others, in
binning, in the allreduce of a histogram, in a projection, between rounds, and where it is the one that hosts
the tracker. After each, every process must be there again and none be left over, and the fit, resumed, must
end with the bits of one that was never disturbed. ``--write`` puts the table under docs/.
"""

from __future__ import annotations

import argparse
import signal
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from bench_distributed import DOCS, cluster, ours, placed, table

sys.path.insert(0, str(Path(__file__).parent.parent))
ROWS, COLUMNS, WORKERS, ROUNDS = 3999, 8, 3, 8
LIMIT = 60.0
HUNG = 300  # seconds after which a fit that has not ended never will

# by name of a row of the table: the point of tests.distributed.faults, the victim if it is always the same
# one (by rank; the first hosts the tracker), and below which number of messages (or milliseconds) it dies
KILLS: dict[str, tuple[str, int | None, int]] = {
    "joining the others": ("joining", None, 60),
    "binning": ("binning", None, 5),
    "the allreduce of a histogram": ("histogram", None, 12),
    "a projection": ("projection", None, 8),
    "between rounds": ("between rounds", None, 7),
    "the host of the tracker, joining": ("joining", 0, 60),
    "the host of the tracker, in a histogram": ("histogram", 0, 12),
}


def all_there(client: Any) -> tuple[Any, Any]:
    """Rows on all workers, none of which is to die."""
    from tests.distributed import faults

    client.wait_for_workers(WORKERS, timeout=120)
    client.run(faults.forget)
    return placed(client, ROWS, COLUMNS)


def kill(client: Any, name: str, path: Path, rng: np.random.Generator, whole: Any) -> float:
    """Kill one worker; the seconds from the call of fit until the client knew."""
    from tests.distributed import faults
    from tests.distributed.shards import assert_same

    from maboost.distributed import DaskSmoothBoostClassifier, WorkerLostError

    point, rank, below = KILLS[name]
    data = all_there(client)
    params = ours(ROUNDS, 3, checkpoint=path, checkpoint_every=1)
    model = DaskSmoothBoostClassifier(**params, client=client)
    victim = sorted(client.nthreads())[int(rng.integers(WORKERS)) if rank is None else rank]
    before = client.run(_pid)
    client.run(faults.plan, point, int(rng.integers(below)), workers=[victim])
    signal.alarm(HUNG)
    began, told = time.perf_counter(), "nothing"
    try:
        model.fit(*data)
    except WorkerLostError as error:
        told = str(error)
    seconds = time.perf_counter() - began
    if victim not in told or seconds > LIMIT:
        fail(f"{name}: {victim} died, and after {seconds:.1f} s the client knew: {told}")
    assert_same(model.set_params(resume=True).fit(*all_there(client)), whole)
    signal.alarm(0)
    check_nothing_is_left(client, before, before[victim])
    return seconds


def fail(why: str) -> None:
    """Say it now: a cluster that cannot close hides what came before."""
    print(why, flush=True)
    raise SystemExit(why)


def _pid() -> int:
    return psutil.Process().pid


def _trackers() -> int:
    from maboost.distributed import collective

    return len(collective._trackers)


def check_nothing_is_left(client: Any, before: dict[str, int], victim: int) -> None:
    """No process that died and was not buried, none too many, and no tracker that still waits."""
    now = client.run(_pid)
    kept = set(before.values()) & set(now.values())
    if victim in kept or len(now) != WORKERS or any(client.run(_trackers).values()):
        fail(f"workers were {before} and are {now}: not one of them new, or trackers are left")
    family = psutil.Process().children(recursive=True)
    dead = [process for process in family if process.status() == psutil.STATUS_ZOMBIE]
    gone = set(before.values()) - kept
    if dead or gone & {process.pid for process in family}:
        fail(f"processes that should be gone: {dead or gone}")


def page(found: dict[str, list[float]]) -> str:
    """The table."""
    lines = [
        "# Workers that die", "",
        f"Written by `python benchmarks/kill_workers.py {len(next(iter(found.values())))} --write`. A fit of {ROUNDS} rounds "
        f"on {WORKERS} workers, one of which is killed (`kill -9`) at a moment drawn at random within the phase. Each time the "
        "client raised `WorkerLostError` naming that worker, no process and no tracker was left over, and the fit, resumed from its "
        "checkpoint, ended with the bits of one that was never disturbed.", "",
        "| killed in | times | from the call of `fit` to the error, median | at most |", "|---|---|---|---|",
    ]  # fmt: skip
    lines += [
        f"| {name} | {len(seconds)} | {statistics.median(seconds):.1f} s | {max(seconds):.1f} s |"
        for name, seconds in found.items()
    ]
    lines += ["", "So the time up to the kill is in it.", ""]
    return "\n".join(lines)


def main() -> None:
    from maboost import SmoothBoostClassifier

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("times", type=int)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    parts = [table(ROWS // WORKERS, COLUMNS, seed) for seed in range(WORKERS)]
    X, y = (np.concatenate([part[j] for part in parts]) for j in (0, 1))
    whole = SmoothBoostClassifier(**ours(ROUNDS, 3)).fit(X, y)
    found: dict[str, list[float]] = {}
    with cluster(WORKERS) as client, tempfile.TemporaryDirectory() as folder:
        for place, name in enumerate(KILLS):
            paths = [Path(folder, f"{place}.{i}") for i in range(options.times)]
            found[name] = [kill(client, name, path, rng, whole) for path in paths]
            print(
                f"{name}: {options.times} kills, {max(found[name]):.1f} s from fit to error at most",
                flush=True,
            )
    print(page(found))
    if options.write:
        (DOCS / "performance-faults.md").write_text(page(found))


if __name__ == "__main__":
    main()
