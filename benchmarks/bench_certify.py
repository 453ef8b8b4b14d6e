"""Measure how often the bounds of maboost.certify hold, on populations of known error.

    python benchmarks/bench_certify.py [--populations 2000] [--out docs/certify-coverage.csv]

A population has 64 kinds of rows with a share, a group, a weight and class probabilities each, all drawn anew for
every population, and a classifier whose errors are therefore known exactly. In each population the classifier is
certified once at 95% (a model that is fitted and stopped early 20 times, on new rows). A cell of the study counts in how many populations the interval overall holds, all
intervals of groups together, and all of classes together.
"""

from __future__ import annotations

import argparse
import csv
import math
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from maboost import SmoothBoostClassifier, certify
from maboost.certification.bounds import clopper_pearson
from maboost.noise import transition_matrix

KINDS, CONFIDENCE = 64, 0.95
BITS = (np.arange(KINDS)[:, None] >> np.arange(6)) & 1
AUDITED = 400  # rows of each class with both labels
COLUMNS = ("case", "rows", "populations", "overall", "groups", "classes", "mean_width")


@dataclass(frozen=True)
class Case:
    """What is certified: flip rates of all rows or by group, groups, weights, classes, or a model that was stopped early.

    `draws` samples are drawn from every population: more than one where a model is fitted, which takes time.
    """

    name: str
    rows: int
    rates: tuple[float, ...] = ()
    groups: bool = False
    weighted: bool = False
    audited: bool = False
    stopped: bool = False
    draws: int = 1
    classes: int = 2
    by_group: tuple[tuple[float, ...], ...] = ()  # the rates of each group


CASES = [
    Case("given labels", 50, groups=True),
    Case("given labels", 500, groups=True),
    Case("model stopped early", 300, groups=True, stopped=True, draws=20),
    Case("weights", 300, weighted=True),
    Case("weights", 2000, weighted=True),
    Case("flip rates 0.4 and 0", 100, rates=(0.4, 0.0)),
    Case("flip rates 0.4 and 0", 1000, rates=(0.4, 0.0), groups=True),
    Case("flip rates 0.2 and 0.2", 500, rates=(0.2, 0.2), groups=True),
    Case("flip rates, weights", 500, rates=(0.3, 0.1), weighted=True),
    Case("flip rates in intervals of an audit", 1000, rates=(0.4, 0.1), audited=True),
    Case("flip rates, three classes", 1000, rates=(0.3, 0.0, 0.2), classes=3),
    Case("flip rates by group", 1000, groups=True, by_group=((0.4, 0.0), (0.0, 0.0), (0.1, 0.3))),
    Case(
        "flip rates by group, weights",
        1000,
        groups=True,
        weighted=True,
        by_group=((0.4, 0.0), (0.0, 0.0), (0.1, 0.3)),
    ),
]


class Table:
    """A classifier that looks its answers up."""

    def __init__(self, answers: Any, classes: int) -> None:
        self.answers, self.classes_ = answers, np.arange(classes)

    def predict(self, kinds: Any) -> Any:
        return self.answers[kinds]


@dataclass(frozen=True)
class Population:
    """Shares of the kinds, probabilities of their classes, weights, groups, and the classifier's answers."""

    shares: Any
    likely: Any
    weights: Any
    groups: Any
    answers: Any

    @classmethod
    def drawn(cls, case: Case, rng: np.random.Generator) -> Population:
        shares = rng.dirichlet(np.ones(KINDS))
        likely = rng.dirichlet(np.full(case.classes, 0.15), KINDS)
        weights = rng.choice([0.5, 1.0, 2.0, 4.0], KINDS) if case.weighted else np.ones(KINDS)
        groups = rng.integers(0, 3, KINDS)
        answers = likely.argmax(axis=1)
        worse = rng.random(KINDS) < rng.uniform(0.0, 0.3)
        answers = np.where(worse, rng.integers(0, case.classes, KINDS), answers)
        found = cls(shares, likely, weights, groups, answers)
        if not case.stopped:
            return found
        kinds, y = found.sample(400, rng)
        model = SmoothBoostClassifier(
            n_estimators=15, max_depth=2, early_stopping=True, n_iter_no_change=3, random_state=0
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            answers = model.fit(BITS[kinds], y).predict(BITS)
        return cls(shares, likely, weights, groups, answers)

    def sample(self, rows: int, rng: np.random.Generator) -> tuple[Any, Any]:
        """Kinds and true labels of rows."""
        kinds = rng.choice(KINDS, rows, p=self.shares)
        below = np.cumsum(self.likely, axis=1)[kinds]
        labels = np.sum(rng.random(rows)[:, None] > below, axis=1)
        return kinds, np.minimum(labels, self.likely.shape[1] - 1)

    def error(self, where: Any = None, label: int | None = None) -> float:
        """The true error in some kinds of rows, or on the rows of a class."""
        mass = (self.shares * self.weights)[:, None] * self.likely
        if where is not None:
            mass = mass * where[:, None]
        wrong = np.arange(mass.shape[1]) != self.answers[:, None]
        if label is not None:
            mass, wrong = mass[:, label], wrong[:, label]
        return float((mass * wrong).sum() / mass.sum()) if mass.sum() > 0.0 else math.nan


def flipped(y: Any, rates: tuple[float, ...], rng: np.random.Generator) -> Any:
    """Given labels of true ones."""
    K = len(rates)
    flips = rng.random(len(y)) < np.asarray(rates)[y]
    return np.where(flips, (y + rng.integers(1, K, len(y))) % K, y)


def audit(rates: tuple[float, ...], rng: np.random.Generator) -> dict[int, tuple[float, float]]:
    """Exact intervals of rates, which hold together with half of the error probability."""
    delta = (1.0 - CONFIDENCE) / 2.0 / len(rates)
    counts = rng.binomial(AUDITED, rates)
    return {label: clopper_pearson(int(k), AUDITED, delta) for label, k in enumerate(counts)}


def holds(error: Any, truth: float) -> bool:
    return math.isnan(truth) or error.lower <= truth <= error.upper


def once(
    case: Case, population: Population, rng: np.random.Generator
) -> tuple[bool, bool, bool, float]:
    """Whether the intervals of one sample hold: overall, of groups, of classes; and the width overall."""
    kinds, y = population.sample(case.rows, rng)
    options: dict[str, Any] = {}
    if case.rates:
        y = flipped(y, case.rates, rng)
        known = transition_matrix(dict(enumerate(case.rates)), range(case.classes))
        options["flip_rates"] = audit(case.rates, rng) if case.audited else known
    if case.by_group:
        group = population.groups[kinds]
        y = np.choose(group, [flipped(y, rates, rng) for rates in case.by_group])
        known = {("group", g): dict(enumerate(rates)) for g, rates in enumerate(case.by_group)}
        options["flip_rates"] = {key: rates for key, rates in known.items() if key[1] in group}
    if case.groups:
        options["groups"] = population.groups[kinds]
    if case.weighted:
        options["sample_weight"] = population.weights[kinds]
    classifier = Table(population.answers, case.classes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = certify(classifier, kinds, y, confidence=CONFIDENCE, **options)
    groups = [holds(e, population.error(population.groups == g)) for g, e in found.groups.items()]
    classes = [holds(e, population.error(label=c)) for c, e in found.classes.items()]
    overall = found.overall
    return (
        holds(overall, population.error()),
        all(groups),
        all(classes),
        overall.upper - overall.lower,
    )


def study(cases: list[Case], populations: int, seed: int = 0) -> Iterator[dict[str, Any]]:
    """The shares of populations in which the bounds hold, case by case."""
    for i, case in enumerate(cases):
        rng = np.random.default_rng([seed, i])
        held = np.array(
            [
                once(case, population, rng)
                for population in (
                    Population.drawn(case, rng) for _ in range(populations // case.draws)
                )
                for _ in range(case.draws)
            ]
        )
        overall, groups, classes, width = held.mean(axis=0)
        yield {
            "case": case.name,
            "rows": case.rows,
            "populations": populations,
            "overall": float(overall),
            "groups": float(groups) if case.groups else None,
            "classes": float(classes),
            "mean_width": float(width),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--populations", type=int, default=2000)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    began, rows = time.perf_counter(), []
    print("| case | rows | overall | all groups | all classes | mean width |")
    print("|---|---:|---:|---:|---:|---:|")
    for row in study(CASES, arguments.populations):
        rows.append(row)
        shares = [row["overall"], row["groups"], row["classes"]]
        shown = " | ".join("" if s is None else f"{100.0 * s:.1f} %" for s in shares)
        print(f"| {row['case']} | {row['rows']} | {shown} | {row['mean_width']:.3f} |", flush=True)
    print(f"{time.perf_counter() - began:.0f} s")
    if arguments.out is not None:
        with arguments.out.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows({k: "" if v is None else v for k, v in row.items()} for row in rows)


if __name__ == "__main__":
    main()
