"""Projection and corrective step, measured side by side with numpy passes and a sort.

Prints a table and writes it to docs/performance.md. Every figure is the median of repeated, interleaved runs, so
that all columns of a row see the same machine; ratios are what to read.
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path

import numba
import numpy as np

from maboost.engine import engine_for, project
from maboost.mirror import BaseMeasure, CappedSimplex, Entropy, Euclidean, MirrorAscent
from maboost.mirror.steps import Corrective, Situation
from maboost.runtime.threads import Threads

CAP = 2.0
SIZES = (10**5, 10**6, 10**7)


def interleaved(work: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Median seconds of each piece of work, run in turn, each three times before it is timed.

    So all find caches and branch predictors as they like them, whatever came before: after one run only,
    the same work still takes up to a quarter longer.
    """
    times: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(repeats):
        for name, run in work.items():
            for _ in range(3):
                run()
            began = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - began)
    return {name: float(np.median(t)) for name, t in times.items()}


def sorted_euclidean(theta: np.ndarray, base: np.ndarray, k: float) -> np.ndarray:
    """The textbook way: sort all breakpoints, accumulate the piecewise linear mass, find the piece."""
    points = np.concatenate([theta, theta - k])
    slopes = np.concatenate([base, -base])
    order = np.argsort(points)[::-1]
    points, slopes = points[order], slopes[order]
    slope = np.cumsum(slopes)
    mass = np.concatenate([[0.0], np.cumsum(slope[:-1] * -np.diff(points))])
    at = int(np.searchsorted(mass, 1.0)) - 1
    tau = points[at] - (1.0 - mass[at]) / slope[at]
    return np.clip(theta - tau, 0.0, k)


def sorted_entropy(theta: np.ndarray, base: np.ndarray, k: float) -> np.ndarray:
    """The textbook way: sort, then the number of capped entries from two running sums."""
    p = np.exp(theta - theta.max())
    order = np.argsort(p)[::-1]
    sorted_p, sorted_base = p[order], base[order]
    capped = np.concatenate([[0.0], np.cumsum(sorted_base * k)])[:-1]
    free = np.cumsum((sorted_base * sorted_p)[::-1])[::-1]
    s = (1.0 - capped) / free
    at = int(np.argmax((s * sorted_p < k) & (s > 0.0)))
    return np.minimum(s[at] * p, k)


def bench(n: int, threads: int, repeats: int) -> dict[str, float]:
    rng = np.random.default_rng(0)
    theta = rng.normal(size=n)
    weights = rng.random(n) + 0.5
    one, many = BaseMeasure(weights), BaseMeasure(weights, threads=Threads(threads))
    base, domain, out = one.entries, CappedSimplex(CAP), np.empty(n)
    for ours, theirs in ((Euclidean(), sorted_euclidean), (Entropy(), sorted_entropy)):
        difference = project(ours, domain, theta, one).density - theirs(theta, base, CAP)
        assert np.max(np.abs(difference)) < 1e-8
    direction = np.sign(rng.normal(size=n) - 0.5)
    work: dict[str, Callable[[], object]] = {
        "np.sum": lambda: theta.sum(),
        "np.exp": lambda: np.exp(theta, out=out),
    }
    for name, regularizer, by_sort in (
        ("euclidean", Euclidean(), sorted_euclidean),
        ("entropy", Entropy(), sorted_entropy),
    ):
        work[f"{name} 1"] = lambda r=regularizer: project(r, domain, theta, one, out=out)
        work[f"{name} {threads}"] = lambda r=regularizer: project(r, domain, theta, many, out=out)
        work[f"{name} sort"] = lambda s=by_sort: s(theta, base, CAP)
        ascent = MirrorAscent(regularizer, domain)
        engine = engine_for(ascent, many)
        state = engine.start()
        for _ in range(2):  # a state in the middle of a run, with rows at their caps
            d = np.where(rng.random(n) < 0.3, 1.0, -1.0)
            state = engine.move(state, d, 0.5).state
        edge = -many.integral(state.density * direction)
        situation = Situation(ascent, state, many, direction, edge, engine=engine)
        work[f"{name} step"] = lambda s=situation: Corrective()(s)
    return interleaved(work, repeats)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--largest", type=int, default=max(SIZES))
    parser.add_argument("--write", action="store_true", help="write docs/performance.md")
    options = parser.parse_args()
    threads = min(os.cpu_count() or 1, 2)
    head = (
        f"| N | euclidean / np.sum (aim ≤ 25), 1 and {threads} threads | sort / euclidean (≥ 5) | "
        f"entropy / np.exp (aim ≤ 4), 1 and {threads} threads | sort / entropy (≥ 5) | ns per row, "
        "euclidean and entropy | corrective step / projection, euclidean and entropy |"
    )
    lines, yardsticks = [head, "|---|---|---|---|---|---|---|"], []
    for n in SIZES:
        if n > options.largest:
            break
        t = bench(n, threads, repeats=max(5, min(31, 3 * 10**7 // n)))
        best = {
            name: min(t[f"{name} 1"], t[f"{name} {threads}"]) for name in ("euclidean", "entropy")
        }
        lines.append(
            f"| {n:.0e} "
            f"| {t['euclidean 1'] / t['np.sum']:.1f}, {t[f'euclidean {threads}'] / t['np.sum']:.1f} "
            f"| {t['euclidean sort'] / best['euclidean']:.1f} "
            f"| {t['entropy 1'] / t['np.exp']:.1f}, {t[f'entropy {threads}'] / t['np.exp']:.1f} "
            f"| {t['entropy sort'] / best['entropy']:.1f} "
            f"| {1e9 * t['euclidean 1'] / n:.1f}, {1e9 * t['entropy 1'] / n:.1f} "
            f"| {t['euclidean step'] / best['euclidean']:.1f}, "
            f"{t['entropy step'] / best['entropy']:.1f} |"
        )
        print(lines[-1], flush=True)
        yardsticks.append(f"{1e9 * t['np.exp'] / n:.1f}")
    table = "\n".join(lines)
    print("\n" + table)
    if options.write:
        page = Path(__file__).parent.parent / "docs" / "performance.md"
        page.write_text(
            "# Performance\n\nWritten by `make bench`. Projection onto the capped simplex (cap 2, random dual point "
            "and base measure, no warm start; into memory that is there, as np.exp with out=). Both projections are linear in N: time per row is flat but for the "
            f"caches.\n\n{table}\n\nnp.exp takes {', '.join(yardsticks)} ns an entry here; numpy has a vectorised one only where there "
            "is AVX-512 (about 1 ns), and there the ratio to it is several times as large.\n\n"
            f"{platform.machine()}, {os.cpu_count()} cores, Python "
            f"{platform.python_version()}, numpy {np.__version__}, numba {numba.__version__}.\n"
        )


if __name__ == "__main__":
    main()
