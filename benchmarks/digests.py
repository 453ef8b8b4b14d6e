"""Fit the boosters on small problems and print a digest of each model, to see whether a change altered any bits.

``python -m benchmarks.digests --check benchmarks/digests.csv`` compares with a stored file and calls every
fit *exact*, *last bits* (the same trees, and every summary equal to a relative 1e-9) or *real*.
``--threads 1,2`` repeats every fit with each number of threads and fails if two digests differ;
``--devices cpu,cuda`` repeats every fit of our own trees on a GPU.

Digests depend on the processor, whose instructions decide how the exponential is rounded: write the file
and check it on one machine.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import math
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from llvmlite.binding import get_host_cpu_name
from scipy.special import wrightomega, xlogy
from sklearn.tree import DecisionTreeClassifier
from tests.distributed.shards import fit_shards

from maboost import (
    CombinedBoostClassifier,
    HistTreeClassifier,
    MABoostClassifier,
    MadaBoostClassifier,
    SmoothBoostClassifier,
    SparseBoostClassifier,
)
from maboost.mirror import CappedSimplex, FermiDirac, Regularizer

Array = np.ndarray

TOLERANCE = 1e-9  # relative; two models closer than this differ in last bits only
NOT_COMPARED = {"seconds"}  # columns of the history that differ between equal fits


@dataclass
class Elastic(Regularizer):
    """A user's own regularizer, half Euclidean and half entropy."""

    strong_convexity = 1.0

    def phi(self, u: Array) -> Array:
        return 0.5 * u * u + xlogy(u, u) - u

    def grad(self, u: Array) -> Array:
        with np.errstate(divide="ignore"):
            return u + np.log(u)

    def grad_inverse(self, x: Array) -> Array:
        return wrightomega(x)


# --------------------------------------------------------------------------------------------------
# problems: X, y and what else `fit` takes


@dataclass(frozen=True)
class Problem:
    X: Any
    y: Array
    given: dict[str, Any]


def numbers(rows: int = 600, classes: int = 2, seed: int = 0, columns: int = 6) -> Problem:
    """Columns with ties, missing values and zeros of either sign; noisy labels."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, columns))
    X[:, 1] = np.round(X[:, 1], 1)
    X[:, 2] = rng.integers(0, 4, rows) * rng.choice([-1.0, 1.0], rows)
    X[rng.random(rows) < 0.1, 3] = np.nan
    votes = X[:, 0] + np.sin(3.0 * X[:, 1]) + 0.5 * X[:, 2] + rng.normal(size=rows) * 0.7
    ends = np.quantile(votes, np.arange(1, classes) / classes)
    return Problem(X, np.searchsorted(ends, votes), {})


def weighted(problem: Problem, whole: bool) -> Problem:
    rng = np.random.default_rng(1)
    n = len(problem.y)
    weights = rng.integers(1, 4, n).astype(float) if whole else rng.exponential(size=n) + 0.05
    return replace(problem, given={"sample_weight": weights})


def categories(classes: int = 2) -> Problem:
    """Text with missing values, a column of many rare categories, and numbers."""
    rng = np.random.default_rng(2)
    n = 800
    city = rng.integers(0, 12, n)
    product = rng.zipf(1.4, n) % 60
    number = rng.normal(size=n)
    X = pd.DataFrame(
        {
            "city": pd.Categorical([None if c == 11 else f"city {c}" for c in city]),
            "product": pd.Categorical([f"product {p}" for p in product]),
            "number": np.where(rng.random(n) < 0.1, np.nan, number),
        }
    )
    votes = np.sin(city) + 0.5 * (product % 3) + number + rng.normal(size=n)
    return Problem(
        X, np.searchsorted(np.quantile(votes, np.arange(1, classes) / classes), votes), {}
    )


def sparse_matrix() -> Problem:
    rng = np.random.default_rng(3)
    X = sp.random_array((700, 30), density=0.15, rng=rng, format="csr")
    votes = np.asarray(X[:, :5].sum(axis=1)).ravel() + 0.3 * rng.normal(size=700)
    return Problem(X, (votes > np.median(votes)).astype(int), {})


def with_sources(problem: Problem) -> Problem:
    names = np.array(["audited", "scraped", "guessed"])
    sources = names[np.random.default_rng(4).choice(3, len(problem.y), p=[0.3, 0.4, 0.3])]
    y = problem.y.copy()
    wrong = (sources == "guessed") & (np.random.default_rng(5).random(len(y)) < 0.3)
    y[wrong] = (y[wrong] + 1) % (y.max() + 1)
    return Problem(problem.X, y, {"sample_domain": sources})


def with_validation(problem: Problem) -> Problem:
    other = numbers(400, int(problem.y.max()) + 1, seed=9)
    return replace(problem, given={"X_val": other.X, "y_val": other.y})


TWO, FIVE = numbers(), numbers(classes=5)
LONG = numbers(40_000, seed=6)  # long enough to be divided among threads
LONG_FIVE = numbers(20_000, 5, seed=7)

# --------------------------------------------------------------------------------------------------
# fits: a name, a model and a problem


def fits() -> list[tuple[str, Any, Problem]]:
    shared: dict[str, Any] = {"n_estimators": 8, "random_state": 0}
    quick: dict[str, Any] = {"n_estimators": 5, "random_state": 0}
    found: list[tuple[str, Any, Problem]] = []

    def add(name: str, kind: type, problem: Problem, **given: Any) -> None:
        found.append((name, kind(**shared | given), problem))

    ma, smooth, sparse = MABoostClassifier, SmoothBoostClassifier, SparseBoostClassifier
    mada, combined = MadaBoostClassifier, CombinedBoostClassifier
    cap = CappedSimplex(4.0)
    for classes, problem in ((2, TWO), (5, FIVE)):
        for regularizer in ("entropy", "euclidean"):
            for place, domain in (("simplex", "simplex"), ("capped", cap)):
                for update in ("active", "lazy"):
                    for step in ("corrective", "paper"):
                        name = f"maboost {regularizer} {place} {update} {step} {classes} classes"
                        add(name, ma, problem, regularizer=regularizer, domain=domain, update=update,
                            step=step)  # fmt: skip
            add(f"maboost {regularizer} maxmargin {classes} classes", ma, problem,
                regularizer=regularizer, step="maxmargin")  # fmt: skip
            add(f"smooth {regularizer} {classes} classes", smooth, problem, smoothness=3.0,
                regularizer=regularizer)  # fmt: skip
        add(f"maboost fermi-dirac {classes} classes", ma, problem, regularizer=FermiDirac(4.0))
        add(f"maboost own regularizer {classes} classes", ma, problem, regularizer=Elastic())
        add(f"maboost own regularizer lazy {classes} classes", ma, problem, regularizer=Elastic(),
            domain=cap, update="lazy", step="paper")  # fmt: skip
        add(f"smooth auto {classes} classes", smooth, problem)
        add(f"sparse {classes} classes", sparse, problem)
        add(f"sparse kappa {classes} classes", sparse, problem, kappa=0.5, l1_decay=0.5)
        add(f"sparse budget {classes} classes", sparse, problem, sparsity=0.7)
        add(f"mada {classes} classes", mada, problem)
        add(f"mada paper {classes} classes", mada, problem, step="paper")
        for whole, kind in ((True, "whole"), (False, "fractional")):
            rows = weighted(problem, whole)
            add(f"maboost {kind} weights {classes} classes", ma, rows)
            add(f"smooth {kind} weights {classes} classes", smooth, rows, smoothness=3.0)
            add(f"sparse {kind} weights {classes} classes", sparse, rows)
            add(f"mada {kind} weights {classes} classes", mada, rows)
        sources = with_sources(problem)
        limits = {"audited": None, "scraped": 0.3, "guessed": 0.4}
        add(f"combined {classes} classes", combined, sources, error_limits=limits)
        add(f"combined mass {classes} classes", combined, sources,
            error_limits=limits | {"guessed": None}, source_mass={"guessed": 0.1})  # fmt: skip
        add(f"combined euclidean lazy {classes} classes", combined, sources, error_limits=limits,
            regularizer="euclidean", update="lazy")  # fmt: skip
        add(f"categories {classes} classes", ma, categories(classes))
        add(f"categories in few bins {classes} classes", smooth, categories(classes),
            smoothness=3.0, max_bins=16)  # fmt: skip
        add(f"flip rates {classes} classes", smooth, problem, smoothness=3.0, flip_rates=0.1)
        add(f"early stopping {classes} classes", smooth, with_validation(problem), smoothness=3.0,
            n_estimators=30, learning_rate=1.0, n_iter_no_change=3)  # fmt: skip
        add(f"leaf-wise {classes} classes", ma, problem, max_leaf_nodes=9)
        add(f"level-wise depth 6 {classes} classes", ma, problem, max_depth=6)
        add(f"stumps {classes} classes", ma, problem, max_depth=1)
        add(f"voting trees {classes} classes", ma, problem,
            estimator=HistTreeClassifier(max_depth=2, response="sign"))  # fmt: skip
        add(f"feature sampling {classes} classes", ma, problem, max_features=0.5)
        add(f"foreign learner {classes} classes", smooth, problem, smoothness=3.0,
            estimator=DecisionTreeClassifier(max_depth=3, random_state=0))  # fmt: skip
        add(f"foreign probabilities {classes} classes", ma, problem, response="proba",
            estimator=DecisionTreeClassifier(max_depth=3, random_state=0))  # fmt: skip
    add("sparse matrix maboost", ma, sparse_matrix())
    add("sparse matrix smooth", smooth, sparse_matrix(), smoothness=3.0)
    add("monotone constraints", ma, TWO, monotonic_cst=[1, 0, 1, 0, -1, 0], max_depth=5)
    add("long maboost", ma, LONG, **quick)
    add("long maboost depth 6", ma, LONG, **quick, max_depth=6)
    add("long smooth", smooth, LONG, **quick, smoothness=3.0)
    add("long smooth euclidean", smooth, weighted(LONG, False), **quick, smoothness=3.0,
        regularizer="euclidean")  # fmt: skip
    add("long sparse", sparse, LONG, **quick, sparsity=0.7)
    add("long mada", mada, LONG, **quick)
    add("long early stopping", smooth, LONG, **quick, smoothness="auto")
    add("long trim auto", smooth, LONG, **quick, smoothness=3.0, trim="auto")
    add("long trim certain", smooth, LONG, **quick, smoothness=3.0, trim="certain")
    add("long 5 classes maboost", ma, LONG_FIVE, **quick)
    add("long 5 classes smooth", smooth, LONG_FIVE, **quick, smoothness=3.0)
    add("long 5 classes combined", combined, with_sources(LONG_FIVE), **quick,
        error_limits={"audited": None, "scraped": 0.4, "guessed": 0.4})  # fmt: skip
    for trim in (0.1, "auto", "certain"):
        add(f"trim {trim}", smooth, TWO, smoothness=3.0, trim=trim)
        add(f"trim {trim} maboost 5 classes", ma, FIVE, trim=trim)
    return found


def on_three_shards() -> list[tuple[str, Any, Problem]]:
    """Fits whose rows are divided unevenly; each must be that of one shard."""
    wanted = {
        "maboost entropy simplex active corrective 2 classes",
        "maboost euclidean capped lazy paper 5 classes",
        "smooth fractional weights 2 classes",
        "sparse budget 2 classes",
        "mada 5 classes",
        "combined mass 2 classes",
        "long trim certain",
    }
    return [(name, model, problem) for name, model, problem in fits() if name in wanted]


def stream(threads: int) -> MadaBoostClassifier:
    """MadaBoost on batches that pass by."""
    batches = [numbers(2000, seed=seed) for seed in range(20, 28)]
    model = MadaBoostClassifier(n_estimators=4, random_state=0, n_jobs=threads)
    return model.fit_stream([(p.X, p.y) for p in batches], classes=[0, 1], sample_size=1500)


def shards(model: Any, problem: Problem) -> Any:
    n = len(problem.y)
    order = np.random.default_rng(8).permutation(n)
    parts = [order[: n // 6], order[n // 6 : n // 2], order[n // 2 :]]
    return fit_shards(model, parts, problem.X, problem.y, **problem.given)[0]


def cases() -> dict[str, Callable[[int], tuple[Any, Any]]]:
    """By name a function of the number of threads that returns a fitted model and rows to score."""
    found: dict[str, Callable[[int], tuple[Any, Any]]] = {}

    def whole(model: Any, problem: Problem, threads: int) -> tuple[Any, Any]:
        model.set_params(n_jobs=threads)
        return model.fit(problem.X, problem.y, **problem.given), problem.X

    def divided(model: Any, problem: Problem, threads: int) -> tuple[Any, Any]:
        return shards(model.set_params(n_jobs=threads), problem), problem.X

    for name, model, problem in fits():
        found[name] = lambda threads, model=model, problem=problem: whole(model, problem, threads)
    for name, model, problem in on_three_shards():
        found[f"3 shards: {name}"] = lambda threads, model=model, problem=problem: divided(
            model, problem, threads
        )
    found["stream"] = lambda threads: (stream(threads), TWO.X)
    return found


def on_device(device: str) -> dict[str, Callable[[], tuple[Any, Any]]]:
    """The fits of our own trees on a device, by the name of the same fit on the processor."""

    def fitted(model: Any, problem: Problem) -> tuple[Any, Any]:
        model.set_params(n_jobs=1, device=device)
        return model.fit(problem.X, problem.y, **problem.given), problem.X

    return {
        name: lambda model=model, problem=problem: fitted(model, problem)
        for name, model, problem in fits()
        if model.estimator is None or isinstance(model.estimator, HistTreeClassifier)
    }


# --------------------------------------------------------------------------------------------------
# digests


@dataclass(frozen=True)
class Line:
    """What is stored of a fit: digests of all bits, and summaries that show how large a difference is."""

    name: str
    trees: str  # digest of features, thresholds, children, categories and counts
    bits: str  # digest of everything, floats included
    rounds: int
    error_bound: float
    train_error: float
    votes: float
    values: float
    gains: float
    weights: float
    records: float
    scores: float


def summary(values: list[Array]) -> float:
    """A weighted mean of the finite numbers: it moves if any of them does, by as much as they do."""
    together = np.concatenate([np.ravel(v).astype(np.float64) for v in values])
    together = together[np.isfinite(together)]
    factors = np.random.default_rng(0).uniform(0.5, 1.5, together.size)
    return math.fsum(factors * together) / max(1, together.size)


def flat(value: Any) -> list[Array]:
    """The arrays in a value, nested ones in the order of their keys."""
    if isinstance(value, dict):
        return [array for key in sorted(value) for array in flat(value[key])]
    if isinstance(value, list | tuple):
        return [array for item in value for array in flat(item)]
    return [] if value is None else [np.asarray(value)]


def parts_of_tree(estimator: Any) -> tuple[list[Array], dict[str, Array]]:
    """Structure of a tree of this library or of scikit-learn, and its values, gains and weights."""
    tree = estimator.tree_
    if hasattr(tree, "children_left"):
        structure = [tree.children_left, tree.children_right, tree.feature, tree.threshold]
        weights = tree.weighted_n_node_samples
        return structure, {"value": tree.value, "gain": tree.impurity, "weight": weights}
    parts = {field.name: getattr(tree, field.name) for field in fields(tree)}
    floats = {name: parts.pop(name) for name in ("value", "gain", "weight")}
    return flat(parts), floats


def digest(arrays: list[Array]) -> str:
    state = hashlib.blake2b(digest_size=12)
    for array in arrays:
        state.update(f"{array.dtype.str}{array.shape}".encode())
        state.update(np.ascontiguousarray(array).tobytes())
    return state.hexdigest()


def line_of(name: str, model: Any, X: Any) -> Line:
    trees = [parts_of_tree(estimator) for estimator in model.estimators_]
    structure = [array for arrays, _ in trees for array in arrays]
    floats = {
        "votes": [model.estimator_weights_],
        "values": [parts["value"] for _, parts in trees],
        "gains": [parts["gain"] for _, parts in trees],
        "weights": [parts["weight"] for _, parts in trees],
        "records": [*flat(model.history_.group_errors), np.array([model.probability_scale_])],
        "scores": [model.decision_function(X)],
    }
    for column in model.history_.columns:
        values = model.history_[column]
        if column not in NOT_COMPARED:  # counts are equal or not, and larger than all other numbers
            (structure if values.dtype.kind in "iu" else floats["records"]).append(values)
    structure.append(np.array([model.n_iter_, model.best_iteration_]))
    last = model.history_.records[-1]
    return Line(
        name, digest(structure), digest([*structure, *flat(floats)]), model.n_iter_, last.error_bound,
        last.train_error, **{group: summary(arrays) for group, arrays in floats.items()},
    )  # fmt: skip


def verdict(old: Line, new: Line) -> str:
    """*exact*, *last bits* or *real*."""
    if old.bits == new.bits:
        return "exact"
    numbers = [(getattr(old, f.name), getattr(new, f.name)) for f in fields(Line)[3:]]
    close = all(math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=1e-12) for a, b in numbers)
    return "last bits" if old.trees == new.trees and close else "real"


def differs(device: str, fit: Callable[[], tuple[Any, Any]], line: Line) -> bool:
    """Whether a fit on a device differs from the one on the processor; prints how."""
    other = line_of(line.name, *fit())
    if other.bits == line.bits:
        return False
    print(f"  {device} differs from cpu: {verdict(line, other)}")
    return True


# --------------------------------------------------------------------------------------------------
# files and the command line


def written(lines: list[Line], file: Any) -> None:
    file.write(f"# processor {get_host_cpu_name()}\n")
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([f.name for f in fields(Line)])
    for line in lines:
        writer.writerow(
            [
                f"{value:.13g}" if isinstance(value, float) else value
                for value in vars(line).values()
            ]
        )


def read(path: Path) -> tuple[str, dict[str, Line]]:
    """The processor that a file was written on, and its lines by name."""
    with path.open() as file:
        processor = file.readline().removeprefix("# processor ").strip()
        lines = [
            Line(**{f.name: row[f.name] if f.type == "str" else float(row[f.name]) for f in fields(Line)})
            for row in csv.DictReader(file)
        ]  # fmt: skip
    return processor, {line.name: line for line in lines}


def compare(path: Path, lines: list[Line], everything: bool) -> bool:
    """Print how the fits differ from those of a file; true if none does really."""
    processor, stored = read(path)
    if processor != get_host_cpu_name():
        print(
            f"{path} was written on {processor} and this is {get_host_cpu_name()}: last bits may differ"
        )
    counts = {"exact": 0, "last bits": 0, "real": 0, "new": 0}
    for line in lines:
        old = stored.pop(line.name, None)
        kind = "new" if old is None else verdict(old, line)
        counts[kind] += 1
        if old is not None and kind != "exact":
            print(
                f"{kind}: {line.name}: error bound {old.error_bound:.13g} -> {line.error_bound:.13g}, "
                f"training error {old.train_error:.6g} -> {line.train_error:.6g}, "
                f"rounds {old.rounds:g} -> {line.rounds}"
            )
    print(", ".join(f"{count} {kind}" for kind, count in counts.items()))
    if stored and everything:
        print(f"not fitted any more: {', '.join(stored)}")
    return not counts["real"] and not (stored and everything)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--threads", default="1", help="numbers of threads, such as 1,2")
    parser.add_argument("--devices", default="cpu", help="cpu, or cpu,cuda to compare with a GPU")
    parser.add_argument("--only", default="", help="fit only what has this in its name")
    parser.add_argument("--check", type=Path, help="compare with this file")
    parser.add_argument("--write", type=Path, help="write the digests into this file")
    options = parser.parse_args(arguments)
    threads = [int(count) for count in options.threads.split(",")]
    devices = {device: on_device(device) for device in options.devices.split(",")[1:]}
    warnings.simplefilter("ignore")
    began = time.perf_counter()
    lines, unequal = [], 0
    for name, fit in cases().items():
        if options.only not in name:
            continue
        first, *others = (line_of(name, *fit(count)) for count in threads)
        lines.append(first)
        print(
            f"{name}: {first.bits} ({first.rounds} rounds, error bound {first.error_bound:.6g}, "
            f"training error {first.train_error:.4g})",
            flush=True,
        )
        for count, other in zip(threads[1:], others, strict=True):
            if other.bits != first.bits:
                unequal += 1
                print(f"  {count} threads differ from {threads[0]}: {verdict(first, other)}")
        unequal += sum(
            differs(device, fits[name], first) for device, fits in devices.items() if name in fits
        )
    by_name = {line.name: line for line in lines}
    for line in lines:
        one = by_name.get(line.name.removeprefix("3 shards: "))
        if one is not None and one.bits != line.bits:
            unequal += 1
            print(f"{line.name} differs from one shard: {verdict(one, line)}")
    print(f"{len(lines)} fits, {time.perf_counter() - began:.0f} s")
    if options.write:
        with options.write.open("w") as file:
            written(lines, file)
    same = compare(options.check, lines, not options.only) if options.check else True
    if unequal:
        print(f"{unequal} fits depend on the number of threads or shards, or on the device")
    return 0 if same and not unequal else 1


if __name__ == "__main__":
    sys.exit(main())
