"""Study 4: how often a limit is called met that the population violates, by certify and by the usual habits.

    python -m benchmarks.studies run write --only certified    measures what is missing, writes docs/certify-measured.md

A run draws a population of known error with a classifier, and fresh rows from the population. The limit is a
multiple of the true error, so that a multiple below 1 is a limit that the population violates. Everything that is
compared is declared below.
"""

from __future__ import annotations

import functools
import itertools
import warnings
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
from benchmarks.bench_certify import CONFIDENCE, Case, Population
from benchmarks.studies.store import Store, versions
from benchmarks.tables import TABLES

import maboost
from maboost.certification.bounds import clopper_pearson
from maboost.noise import flip_rates_from_audit

__all__ = ["CASES", "Noise", "fair", "measure", "page", "run", "write"]

PAGE = Path(__file__).parents[2] / "docs" / "certify-measured.md"
RUNS = {"synthetic": 2000, "adult": 1000, "census": 500}
GROUPS = {"adult": "c9", "census": "c12"}  # sex
TRAIN, POPULATION = (
    2000,
    10_000,
)  # rows of a table: those to fit on, and those that are the population
FRESH = (500, 2000)
MULTIPLES = (0.75, 0.9, 0.99, 1.1, 1.25, 1.5)  # the limit over the true error
AUDITED = 400
HARD, EASY = 0.7, 0.1  # rates of class 1 where flips depend on the row; 0.4 in the mean

FAIR_RUNS, FAIR_TRAIN, FAIR_FRESH, FAIR_LIMITS = 500, 1000, 1000, (0.2, 0.22)

CERTIFY, GIVEN, CORRECTED = "certify", "point estimate", "corrected point estimate"
POPULATION_ITSELF, TRAINED = "the population itself", "training rows"

KEYS = ("population", "case", "fresh", "limit", "method")
VALUES = ("runs", "met", "wrong", "version")
FAIR_KEYS, FAIR_VALUES = ("limit", "method"), ("runs", "met", "wrong", "maboost", "fairlearn")


@dataclass(frozen=True)
class Noise:
    """A case of the study: how given labels differ from true ones, and what is known of it."""

    name: str
    rates: dict[int, float] = field(default_factory=dict)
    audited: bool = False
    by_row: bool = False
    groups: bool = False


ONE_SIDED = {1: 0.4}
CASES = (
    Noise("right labels"),
    Noise("right labels, a limit for every group", groups=True),
    Noise("40 % of class 1 flipped, rates known", ONE_SIDED),
    Noise("20 % of both classes flipped, rates known", {0: 0.2, 1: 0.2}),
    Noise("40 % of class 1 flipped, rates of an audit", ONE_SIDED, audited=True),
    Noise("40 % of class 1 flipped, hard rows more often", ONE_SIDED, by_row=True),
)


@dataclass(frozen=True)
class World:
    """A population of kinds of rows: shares, labels by chance, groups, hardness, and a classifier's answers."""

    shares: np.ndarray
    positive: np.ndarray  # the probability of class 1
    groups: np.ndarray
    hard: np.ndarray
    answers: np.ndarray

    def error(self, where: np.ndarray | None = None) -> float:
        """Return the true error, of all rows or of some."""
        wrong = np.where(self.answers == 1, 1.0 - self.positive, self.positive)
        mass = self.shares if where is None else self.shares * where
        return float((mass * wrong).sum() / mass.sum())

    def sample(
        self, noise: Noise, rows: int, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return kinds, true labels and given labels of fresh rows."""
        kinds = rng.choice(len(self.shares), rows, p=self.shares)
        true = (rng.random(rows) < self.positive[kinds]).astype(int)
        return kinds, true, flipped(true, self.hard[kinds], noise, rng)


class Lookup:
    """A classifier that looks its answers up."""

    classes_ = np.arange(2)

    def __init__(self, answers: np.ndarray) -> None:
        self.answers = answers

    def predict(self, kinds: Any) -> Any:
        return self.answers[kinds]


def flipped(
    true: np.ndarray, hard: np.ndarray, noise: Noise, rng: np.random.Generator
) -> np.ndarray:
    """Return given labels of true ones."""
    rates = np.array([noise.rates.get(0, 0.0), noise.rates.get(1, 0.0)])[true]
    if noise.by_row:
        rates = np.where(true == 1, np.where(hard, HARD, EASY), 0.0)
    return np.where(rng.random(len(true)) < rates, 1 - true, true)


def halves(score: np.ndarray, mass: np.ndarray) -> np.ndarray:
    """Return which rows are in the half of the mass with the lower scores."""
    order = np.argsort(score, kind="stable")
    hard = np.empty(len(score), dtype=bool)
    hard[order] = np.cumsum(mass[order]) <= 0.5 * mass.sum()
    return hard


def synthetic(noise: Noise, rng: np.random.Generator) -> World:
    """Return a population of 64 kinds; its classifier is right on most of them."""
    p = Population.drawn(Case("", 0), rng)
    positive = p.likely[:, 1]
    hard = halves(positive, p.shares * positive)  # of class 1, the least typical half
    answers = (
        np.where(hard & (rng.random(len(hard)) < 0.5), 0, p.answers) if noise.by_row else p.answers
    )
    return World(p.shares, positive, p.groups, hard, answers)


@functools.cache
def _codes(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return columns as numbers, classes and groups of a table."""
    X, y = TABLES[name]()
    numbers = X.select_dtypes("number").columns
    columns = [X[c] if c in numbers else X[c].cat.codes for c in X]
    return np.column_stack(columns).astype(float), y, X[GROUPS[name]].cat.codes.to_numpy()


def real(name: str, noise: Noise, rng: np.random.Generator) -> World:
    """Return rows of a table as the population, with LightGBM fitted on the given labels of other rows of it."""
    X, y, groups = _codes(name)
    drawn = rng.permutation(len(y))[: 2 * TRAIN + POPULATION]
    train, other, rows = np.split(drawn, [TRAIN, 2 * TRAIN])
    hard = {}
    for part, where in (("train", train), ("rows", rows)):
        if noise.by_row:
            score = _fitted(X[other], y[other]).predict_proba(X[where])[:, 1]
            hard[part] = halves(score, y[where].astype(float))
        else:
            hard[part] = np.zeros(len(where), dtype=bool)
    given = flipped(y[train], hard["train"], noise, rng)
    answers = _fitted(X[train], given).predict(X[rows])
    shares = np.full(len(rows), 1.0 / len(rows))
    return World(shares, y[rows].astype(float), groups[rows], hard["rows"], answers)


def _fitted(X: np.ndarray, y: np.ndarray) -> Any:
    import lightgbm

    return lightgbm.LGBMClassifier(
        n_estimators=30, num_leaves=15, random_state=0, verbosity=-1, n_jobs=1
    ).fit(X, y)


def verdicts(
    world: World, noise: Noise, rows: int, rng: np.random.Generator
) -> tuple[float, dict[str, float]]:
    """Return the true error that is limited, and by method the least limit that it calls met."""
    kinds, _, given = world.sample(noise, rows, rng)
    options: dict[str, Any] = {}
    if noise.groups:
        options["groups"] = world.groups[kinds]
    if noise.audited:
        _, truth, labels = world.sample(noise, AUDITED, rng)
        # the intervals of both classes hold together with half of the error probability
        options["flip_rates"] = flip_rates_from_audit(
            labels, truth, confidence=1.0 - (1.0 - CONFIDENCE) / 4.0
        )
    elif noise.rates:
        options["flip_rates"] = noise.rates
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = maboost.certify(Lookup(world.answers), kinds, given, CONFIDENCE, **options)
    wrong = world.answers[kinds] != given
    if noise.groups:
        names = np.unique(world.groups[kinds])
        truth = max(world.error(world.groups == g) for g in np.unique(world.groups))
        return truth, {
            CERTIFY: max(e.upper for e in found.groups.values()),
            GIVEN: max(float(wrong[world.groups[kinds] == g].mean()) for g in names),
        }
    least = {CERTIFY: found.overall.upper, GIVEN: float(wrong.mean())}
    if noise.rates:
        least[CORRECTED] = found.overall.estimate
    return world.error(), least


def measure(population: str, noise: Noise, runs: int) -> list[dict[str, Any]]:
    """Return a row of results for each number of fresh rows, limit and method."""
    met: Counter[tuple[int, float, str]] = Counter()
    used = versions(["maboost"])["maboost"]
    for i in range(runs):
        rng = np.random.default_rng([list(RUNS).index(population), CASES.index(noise), i])
        world = synthetic(noise, rng) if population == "synthetic" else real(population, noise, rng)
        for rows in FRESH:
            truth, least = verdicts(world, noise, rows, rng)
            for multiple, (method, value) in itertools.product(MULTIPLES, least.items()):
                met[rows, multiple, method] += value <= multiple * truth
    methods = (CERTIFY, GIVEN, CORRECTED) if noise.rates else (CERTIFY, GIVEN)
    found = []
    for rows, multiple, method in itertools.product(FRESH, MULTIPLES, methods):
        count = met[rows, multiple, method]
        found.append({
            "population": population, "case": noise.name, "fresh": rows, "limit": multiple, "method": method,
            "runs": runs, "met": count, "wrong": count if multiple < 1.0 else 0, "version": used,
        })  # fmt: skip
    return found


def _reduced(limit: float, seed: int) -> dict[str, bool]:
    """Return by method whether the errors of both sexes are within the limit, for one model of fairlearn."""
    from fairlearn.reductions import BoundedGroupLoss, ExponentiatedGradient, ZeroOneLoss
    from sklearn.tree import DecisionTreeClassifier

    X, y, groups = _codes("adult")
    rng = np.random.default_rng([seed, round(1000 * limit)])
    train, rows = np.split(rng.permutation(len(y))[: FAIR_TRAIN + POPULATION], [FAIR_TRAIN])
    model = ExponentiatedGradient(
        DecisionTreeClassifier(max_depth=4, random_state=0),
        BoundedGroupLoss(ZeroOneLoss(), upper_bound=limit),
    ).fit(X[train], y[train], sensitive_features=groups[train])
    share = model.weights_[model.weights_ > 0.0]
    members = [model.predictors_[k] for k in share.index]

    def largest(where: np.ndarray) -> float:
        """The larger error of the two sexes of the randomized classifier."""
        wrong = sum(
            w * (m.predict(X[where]) != y[where]) for w, m in zip(share, members, strict=True)
        )
        return max(float(wrong[groups[where] == g].mean()) for g in np.unique(groups))

    fresh = rng.choice(rows, FAIR_FRESH)
    drawn = rng.choice(len(members), FAIR_FRESH, p=share / share.sum())  # a member for each row
    answers = np.stack([m.predict(X[fresh]) for m in members])[drawn, np.arange(FAIR_FRESH)]
    found = maboost.certify(
        Lookup(answers), np.arange(FAIR_FRESH), y[fresh], CONFIDENCE, groups=groups[fresh]
    )
    return {
        POPULATION_ITSELF: largest(rows) <= limit,
        TRAINED: largest(train) <= limit + 1e-9,
        GIVEN: max(e.estimate for e in found.groups.values()) <= limit,
        CERTIFY: max(e.upper for e in found.groups.values()) <= limit,
    }


def fair(limit: float, runs: int) -> list[dict[str, Any]]:
    """Return a row of results for each method that judges models of fairlearn."""
    found = pd.DataFrame([_reduced(limit, seed) for seed in range(runs)])
    used = versions(["maboost", "fairlearn"])
    return [
        {"limit": limit, "method": method, "runs": runs, "met": int(found[method].sum())}
        | {"wrong": int((found[method] & ~found[POPULATION_ITSELF]).sum())}
        | used
        for method in found
    ]


def store() -> Store:
    """Return the results about populations and tables."""
    return Store("certified", KEYS, VALUES)


def fair_store() -> Store:
    """Return the results about models of fairlearn."""
    return Store("certified-fairlearn", FAIR_KEYS, FAIR_VALUES)


def run(processes: int = 1) -> None:
    """Measure the cells that the results do not have."""
    results, fairness = store(), fair_store()
    done = {key[:2] for key in results.done()}
    jobs = [
        (results, joblib.delayed(measure)(population, noise, runs))
        for population, runs in RUNS.items()
        for noise in CASES
        if (population, noise.name) not in done
    ]
    done_limits = {key[0] for key in fairness.done()}
    jobs += [
        (fairness, joblib.delayed(fair)(limit, FAIR_RUNS))
        for limit in FAIR_LIMITS
        if str(limit) not in done_limits
    ]
    work = joblib.Parallel(processes, return_as="generator")(job for _, job in jobs)
    for (target, _), found in zip(jobs, work, strict=True):
        for row in found:
            target.append(row)
        print(f"certified: {found[0]}", flush=True)


def _share(count: int, runs: int, interval: bool = True) -> str:
    """Return a share in per cent, with its exact 95 % interval."""
    if not interval:
        return f"{100.0 * count / runs:.0f}"
    low, high = clopper_pearson(int(count), int(runs), 0.05)
    return f"{100.0 * count / runs:.1f} ({100.0 * low:.1f} to {100.0 * high:.1f})"


def _table(found: pd.DataFrame) -> list[str]:
    heads = [f"{m:g} times" for m in MULTIPLES]
    text = ["| population | fresh rows | method | " + " | ".join(heads) + " |"]
    text.append("|---|---:|---|" + "---:|" * len(heads))
    for (name, fresh, method), part in found.groupby(["population", "fresh", "method"], sort=False):
        part = part.set_index("limit")
        cells = [_share(part.loc[m, "met"], part.loc[m, "runs"], m < 1.0) for m in MULTIPLES]
        text.append(f"| {name} | {fresh:,} | {method} | " + " | ".join(cells) + " |")
    return text


def _worst(found: pd.DataFrame, method: str) -> str:
    """Return the largest share of wrong verdicts of a method in any cell."""
    part = found[(found["method"] == method) & (found["limit"] < 1.0)]
    row = part.loc[(part["wrong"] / part["runs"]).idxmax()]
    return f"{_share(row['wrong'], row['runs'])} % of the runs"


def _fair_table(found: pd.DataFrame) -> list[str]:
    text = [
        "| limit | judged by | met, % of runs | met, though the population violates it, % of runs |"
    ]
    text.append("|---:|---|---:|---:|")
    for row in found.itertuples():
        wrong = "" if row.method == POPULATION_ITSELF else _share(row.wrong, row.runs)
        text.append(f"| {row.limit:.0%} | {row.method} | {_share(row.met, row.runs)} | {wrong} |")
    return text


def page(found: pd.DataFrame, fairness: pd.DataFrame) -> str:
    """Return the page about these results."""
    found = found.astype({"limit": float, "fresh": int})
    fairness = fairness.astype({"limit": float})
    promised = found[found["case"] != CASES[-1].name]
    right = found[found["case"].isin([noise.name for noise in CASES[:2]])]
    near = promised[(promised["limit"] == 1.25) & (promised["method"] == CERTIFY)]
    open_share = 1.0 - near["met"] / near["runs"]
    runs = ", ".join(
        f"{part['runs'].iloc[0]:,} runs of {name}"
        for name, part in found.groupby("population", sort=False)
    )
    commits = sorted({*found["commit"], *fairness["commit"]})
    lines = [
        "# How often a met limit is violated",
        "",
        "For readers who must decide by fresh rows whether an error is below a limit, and want to know how often `certify` and "
        "the usual habits are wrong. Written by `python -m benchmarks.studies run write --only certified` from "
        "`benchmarks/studies/results/certified.csv`, which the same command measures. "
        "[How often the bounds hold](certify.md#how-often-the-bounds-hold) has the coverage of the intervals.",
        "",
        "## What was compared",
        "",
        f"A run draws a population of known error, a classifier, and fresh rows from the population ({runs}). The populations:",
        "",
        "- *synthetic*: 64 kinds of rows with their own shares and class probabilities, and a classifier that is right on most.",
        f"- *adult*, *census*: {POPULATION:,} rows of the table are the population, and fresh rows are drawn from them with "
        f"replacement. The classifier is LightGBM with 30 trees on {TRAIN:,} other rows, with the flips of the case.",
        "",
        "The limit is a multiple of the true error: 0.75, 0.9 and 0.99 times are limits that the population **violates**, so that "
        "every \"met\" is wrong. 1.1, 1.25 and 1.5 times are limits that it keeps, so that every \"met\" is right. Each method "
        "says \"met\" or not:",
        "",
        f"- *{CERTIFY}*: the upper bound of `maboost.certify` at a confidence of 95 % is at most the limit. It promises to be wrong "
        "in at most 2.5 % of the runs.",
        f"- *{GIVEN}*: the error on the fresh rows, by their given labels, is at most the limit.",
        f"- *{CORRECTED}*: the unbiased estimate of the true error at the known or audited rates is at most the limit. "
        "This is `certify` without its bounds.",
        "",
        "Tables show in how many of 100 runs the verdict is \"met\", with exact 95 % intervals (Clopper and Pearson) where it is "
        "wrong.",
        "",
        "## In short",
        "",
        f"- Where its assumptions hold, `certify` is wrong in at most {_worst(promised, CERTIFY)} in any cell. The point estimate "
        f"is wrong in up to {_worst(right, GIVEN)} with right labels, and in up to {_worst(promised, GIVEN)} with flipped ones; the "
        f"corrected point estimate in up to {_worst(promised, CORRECTED)}.",
        f"- The price: of limits 1.25 times the true error, `certify` leaves between {100 * open_share.min():.0f} and "
        f"{100 * open_share.max():.0f} % open, depending on the cell. A point estimate decides always.",
        "- Where flips depend on the row, the assumption of `certify` is broken, and its verdict is worth nothing: "
        f"it is wrong in up to {_worst(found[found['case'] == CASES[-1].name], CERTIFY)}.",
        "",
    ]  # fmt: skip
    for noise in CASES:
        lines += [f"## {noise.name[0].upper()}{noise.name[1:]}", "", *_NOTES.get(noise.name, [])]
        lines += [*_table(found[found["case"] == noise.name]), ""]
    packages = f"maboost {', '.join(sorted(set(found['version'])))}"
    if len(fairness):
        packages += f", fairlearn {', '.join(sorted(set(fairness['fairlearn'])))}"
        lines += [
            "## Limits for groups, and fairlearn",
            "",
            "`ExponentiatedGradient` of fairlearn with `BoundedGroupLoss(ZeroOneLoss())` looks for a randomized classifier whose errors "
            f"on women and on men are both within the limit. It is fitted on {FAIR_TRAIN:,} rows of adult, with trees of depth 4; the "
            f"population is {POPULATION:,} other rows, of which {FAIR_FRESH:,} are drawn with replacement as fresh rows; {FAIR_RUNS} "
            "runs for each limit. The reduction keeps its limit on its *training rows*, and promises nothing about others beyond a "
            "rate of convergence. The table judges the same models by their training rows, by the errors of both groups on the fresh "
            "rows, and by `certify` on the fresh rows. The methods on fresh rows need these rows in addition.",
            "",
            *_fair_table(fairness),
            "",
        ]  # fmt: skip
    lines += [f"{packages}; commits {', '.join(commits)}.", ""]
    return "\n".join(lines)


_NOTES = {
    CASES[1].name: [
        'One limit for all groups, a multiple of the largest error of a group; "met" if every group is. Groups are three in the '
        "synthetic population and the sexes in the tables.",
        "",
    ],
    CASES[2].name: [
        "The classifiers of the tables are fitted on flipped labels and agree with the flips, so that the given labels make them "
        "look better than they are.",
        "",
    ],
    CASES[4].name: [
        f"{AUDITED} rows with both labels give the rates: their intervals for `certify`, the plain estimate for the corrected "
        "point estimate.",
        "",
    ],
    CASES[5].name: [
        f"`certify` is told the rate of 0.4, which is right in the mean. But the less typical half of class 1 is flipped at {HARD} "
        f"and the other half at {EASY}. This breaks the assumption that [the page on certify](certify.md#true-labels) states.",
        "",
    ],
}


def write() -> None:
    """Write the page from the results."""
    PAGE.write_text(page(store().frame(), fair_store().frame()))
