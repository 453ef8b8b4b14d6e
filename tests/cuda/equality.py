"""Fits on the processor and on a GPU, or in numba's simulator of one: every bit of a model must be the same.

``NUMBA_ENABLE_CUDASIM=1 python -m tests.cuda.equality`` fits small problems in the simulator, which is slow;
without the variable a GPU fits them. Prints a line for each case: its name and "equal", or the difference.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from benchmarks.digests import (
    Problem,
    categories,
    line_of,
    numbers,
    verdict,
    weighted,
    with_sources,
    with_validation,
)
from numba import config
from sklearn.base import clone

from maboost import (
    CombinedBoostClassifier,
    HistTreeClassifier,
    MABoostClassifier,
    MadaBoostClassifier,
    MarginBoostClassifier,
    SmoothBoostClassifier,
    SparseBoostClassifier,
)

BOOSTERS: dict[str, Any] = {
    "smooth": partial(SmoothBoostClassifier, smoothness=3.0),
    "maboost": MABoostClassifier,
    "mada": MadaBoostClassifier,
    "sparse": SparseBoostClassifier,
    "margin": MarginBoostClassifier,
}


def first(problem: Problem, rows: int) -> Problem:
    given = {name: value[:rows] for name, value in problem.given.items()}
    return Problem(problem.X[:rows], problem.y[:rows], given)


def sparse_rows() -> Problem:
    rng = np.random.default_rng(3)
    X = sp.random_array((70, 6), density=0.3, rng=rng, format="csr")
    return Problem(X, (X[:, [0]].toarray().ravel() + rng.normal(size=70) > 0.2).astype(int), {})


def fits() -> dict[str, tuple[Any, Problem]]:
    """By name a model and a problem, small enough for the simulator."""
    shared: dict[str, Any] = {"n_estimators": 2, "max_bins": 12, "random_state": 0, "n_jobs": 1}
    trees: dict[str, Any] = {"max_depth": 2} | shared
    smooth = BOOSTERS["smooth"](**trees)
    found: dict[str, tuple[Any, Problem]] = {}
    for classes in (2, 4):
        problem, name = numbers(70, classes, columns=4), f"{classes} classes"
        text = first(categories(classes), 90)
        for kind, booster in BOOSTERS.items():
            found[f"{kind}, {name}"] = booster(**trees), problem
        limits = {"audited": None, "scraped": 0.3, "guessed": 0.4}
        combined = CombinedBoostClassifier(**trees, error_limits=limits)
        found[f"combined, {name}"] = combined, with_sources(problem)
        for whole in (False, True):
            found[f"weights, whole {whole}, {name}"] = smooth, weighted(problem, whole)
        found[f"categories, {name}"] = smooth, text
        voting = HistTreeClassifier(max_depth=3, max_bins=12, response="sign")
        found[f"votes by categories, {name}"] = MABoostClassifier(voting, n_estimators=2), text
        found[f"best leaf first, {name}"] = MABoostClassifier(**shared, max_leaf_nodes=5), problem
        found[f"sampled rows, {name}"] = BOOSTERS["smooth"](**trees, max_samples=0.6), problem
        found[f"trimmed rows, {name}"] = MABoostClassifier(**trees, trim=0.1), problem
    two, validated = numbers(70, columns=4), with_validation(numbers(70, columns=6))
    validated.given.update(X_val=validated.given["X_val"][:40], y_val=validated.given["y_val"][:40])
    limited = {
        "min_samples_leaf": 8,
        "min_weight_fraction_leaf": 0.15,
        "max_depth": 4,
        "max_bins": 12,
    }
    found["limits of leaves"] = (
        MABoostClassifier(HistTreeClassifier(**limited), n_estimators=2),
        two,
    )
    found["monotone"] = MABoostClassifier(**trees, monotonic_cst=[1, -1, 0, 1]), two
    found["interactions"] = MABoostClassifier(**trees, interaction_cst=[[0, 1], [2, 3]]), two
    found["features drawn"] = MABoostClassifier(**shared, max_depth=3, max_features=2), two
    found["columns drawn"] = MABoostClassifier(**trees, max_features_per_tree=2), two
    found["sparse matrix"] = smooth, sparse_rows()
    found["held sample"] = BOOSTERS["smooth"](**trees, trim="certain"), two
    found["validation rows"] = smooth, validated
    # a column of 21 channels does not fit into shared memory
    found["20 classes"] = MABoostClassifier(**trees), numbers(60, 20, columns=4)
    return found


def difference(model: Any, problem: Problem) -> str:
    """ "equal", or how the model of a GPU differs from that of the processor."""
    lines = []
    for device in ("cpu", "cuda"):
        fitted = clone(model).set_params(device=device)
        fitted.fit(problem.X, problem.y, **problem.given)
        lines.append(line_of(device, fitted, problem.X))
    return "equal" if lines[0].bits == lines[1].bits else f"{verdict(*lines)}: {lines}"


def too_little_memory() -> str:
    """ "equal" if a fit that does not fit into the memory of the GPU says so, or goes to the processor for "auto"."""
    from maboost.learners.tree.cuda import device_table

    problem, real = numbers(70, columns=4), device_table.available_bytes
    try:
        device_table.available_bytes = lambda: 2.0**10
        model = BOOSTERS["smooth"](n_estimators=1, max_depth=1, random_state=0)
        auto = clone(model).set_params(device="auto").fit(problem.X, problem.y)
        try:
            clone(model).set_params(device="cuda").fit(problem.X, problem.y)
        except MemoryError as error:
            if "GiB" not in str(error) or "70 rows of 4 columns" not in str(error):
                return str(error)
        else:
            return "no error"
    finally:
        device_table.available_bytes = real
    scores = [
        fitted.decision_function(problem.X) for fitted in (auto, model.fit(problem.X, problem.y))
    ]
    return "equal" if np.array_equal(*scores) else "other scores"


def other_sizes() -> str:
    """ "equal" if other sizes of blocks and runs, and less memory at first, give the same models."""
    from maboost.learners.tree import growth
    from maboost.learners.tree.cuda import device_table

    sizes = {"_THREADS": 8, "_LANES": 3, "_COLUMNS": 3, "_RUN": 32, "_NODES_AT_ONCE": 1}
    old = {name: getattr(device_table, name) for name in sizes}
    problem, most = numbers(70, columns=4), growth._MOST_AT_FIRST
    deep = MABoostClassifier(n_estimators=1, max_depth=4, max_bins=6, min_samples_leaf=1)
    votes = HistTreeClassifier(max_depth=2, response="sign", max_bins=12)
    text = MABoostClassifier(votes, n_estimators=1), first(categories(4), 60)
    try:
        vars(device_table).update(sizes)
        growth._MOST_AT_FIRST = 1
        results = [difference(deep, problem), difference(*text)]
    finally:
        vars(device_table).update(old)
        growth._MOST_AT_FIRST = most
    return "equal" if set(results) == {"equal"} else str(results)


def cases() -> dict[str, Callable[[], str]]:
    found: dict[str, Callable[[], str]] = {
        name: lambda model=model, problem=problem: difference(model, problem)
        for name, (model, problem) in fits().items()
    }
    return found | {"too little memory": too_little_memory, "other sizes": other_sizes}


def shared_array(self: Any, shape: int, dtype: Any) -> Any:
    """Return the array in shared memory of a line of a kernel.

    The simulator's own looks the array up and then stores it, so that two threads of a block may get one each.
    """
    line = sys._getframe(1)
    array = np.empty(shape, dtype)
    return self._allocations.setdefault((line.f_code.co_filename, line.f_lineno), array)


def main(names: list[str]) -> int:
    if config.ENABLE_CUDASIM:
        from numba.cuda.simulator.kernelapi import FakeCUDAShared

        FakeCUDAShared.array = shared_array
        sys.setswitchinterval(1e-5)  # a thread of Python for each of the GPU's
    warnings.simplefilter("ignore")
    found = cases()
    results = []
    for name in names or found:
        results.append(found[name]())
        print(f"{name}: {results[-1]}", flush=True)
    return int(set(results) != {"equal"})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
