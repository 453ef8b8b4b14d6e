"""Rounds to a target error against the rates of Theorems 1 to 5, and MadaBoost's two rates."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from benchmarks.theory.common import ORDERS, Table, rounds, stingy_run
from scipy.optimize import brentq

from maboost.boosting.booster import Booster
from maboost.boosting.recipes import maboost, madaboost, smooth, sparseboost
from maboost.mirror.steps import Corrective, Paper, Situation, Step, StepRule

TARGETS = (0.3, 0.1, 0.03, 0.01, 0.003)
SHORTFALLS = (0.8, 0.6, 0.4, 0.3, 0.2)


@dataclass
class Seen:
    """Sums over the rounds so far that the theorems speak of; `before` is the error before the round."""

    squares: float = 0.0
    masses: float = 0.0
    error: float = 1.0
    smallest_before: float = 1.0


@dataclass(frozen=True)
class Theorem:
    """A booster (for a target error), its bound from what was seen, and its rounds beforehand."""

    name: str
    booster: Callable[[float], Booster]
    bound: Callable[[Seen, float], float]
    rounds: Callable[[float, float], float]
    lagging: bool = False  # whether the bound is on the best error of the rounds before
    one_by_one: bool = False  # whether the booster depends on the target


def exponential(seen: Seen, target: float) -> float:
    return math.exp(-0.5 * seen.squares)


THEOREMS = (
    Theorem(
        "1, entropy",
        lambda target: maboost(step="paper"),
        exponential,
        lambda target, edge: 2.0 * math.log(1.0 / target) / edge**2,
    ),
    Theorem(
        "1, euclidean",
        lambda target: maboost("euclidean", step="paper"),
        lambda seen, target: 1.0 / (1.0 + seen.squares),
        lambda target, edge: (1.0 / target - 1.0) / edge**2,
    ),
    Theorem(
        "3, smooth",  # the smoothness is what the target asks for
        lambda target: smooth(1.0 / target, step="paper"),
        lambda seen, target: max(target, exponential(seen, target)),
        lambda target, edge: 2.0 * math.log(1.0 / target) / edge**2,
        one_by_one=True,
    ),
    Theorem(
        "4, sparse",  # beforehand from n_t >= eps_t, which is better than the paper's 1/N
        lambda target: sparseboost(step="paper"),
        lambda seen, target: 1.0 / (1.0 + seen.masses),
        lambda target, edge: (1.0 / target - 1.0) / (edge * target) ** 2,
    ),
    Theorem(
        "5, MadaBoost",
        lambda target: madaboost(step="paper"),
        lambda seen, target: math.sqrt(2.0 / seen.squares),
        lambda target, edge: 2.0 / (target * edge) ** 2,
        lagging=True,
    ),
)


def rounds_to(
    theorem: Theorem, targets: tuple[float, ...], n: int, edge: float, order: str, most: int
) -> tuple[dict[float, int], float]:
    """The first round with an error of at most each target, and the largest ratio of error to bound."""
    run = stingy_run(theorem.booster(min(targets)), n, edge, order)
    seen, worst, hits = Seen(), 0.0, dict[float, int]()
    for _ in range(most):
        mass = run.state.mass
        produced = next(run, None)
        if produced is None:
            break
        record = produced.record
        seen.squares += record.edge**2
        seen.masses += (record.edge * mass) ** 2
        seen.smallest_before = min(seen.smallest_before, seen.error)
        seen.error = record.train_error
        compared = seen.smallest_before if theorem.lagging else seen.error
        worst = max(worst, compared / theorem.bound(seen, min(targets)))
        hits |= {e: record.round for e in targets if e not in hits and seen.error <= e}
        if len(hits) == len(targets):
            break
    return hits, worst


def error_rates(
    n: int = 1000,
    edges: tuple[float, ...] = (0.1, 0.2, 0.4),
    targets: tuple[float, ...] = TARGETS,
    most: int = 12_000,
) -> Table:
    """Theorems 1 and 3 to 5; the smooth booster, made for a target, has a run for each."""
    table: Table = []
    for theorem, order, edge in itertools.product(THEOREMS, ORDERS, edges):
        for together in [(e,) for e in targets] if theorem.one_by_one else [targets]:
            hits, worst = rounds_to(theorem, together, n, edge, order, most)
            table += [
                {
                    "theorem": theorem.name,
                    "learner": order,
                    "edge": edge,
                    "target": target,
                    "rounds": hits.get(target, math.nan),
                    "theorem_rounds": math.ceil(theorem.rounds(target, edge)),
                    "largest_ratio_to_bound": worst,
                }
                for target in together
            ]
    return table


def margin_shortfall(rounds: float, edge: float, n: int) -> float:
    """Theorem 2's nu after so many rounds, with the half that the supplement drops."""
    root = math.sqrt(rounds + 1.0) - 1.0
    return (edge * (1.0 + math.log(rounds)) / 4.0 + math.log(n) / (2.0 * edge)) / root


def margin_rates(
    n: int = 100,
    edges: tuple[float, ...] = (0.2, 0.4, 0.6),
    shortfalls: tuple[float, ...] = SHORTFALLS,
    most: int = 12_000,
) -> Table:
    """Theorem 2: rounds until the smallest margin is within a share of the edge of the edge."""
    table: Table = []
    for order in ORDERS:
        for edge in edges:
            run = stingy_run(maboost(step="maxmargin"), n, edge, order)
            margins, worst = [], 0.0
            for produced in rounds(run, most):
                margins.append(produced.record.min_margin)
                allowed = margin_shortfall(len(margins), edge, n)
                worst = max(worst, (edge - margins[-1]) / allowed)
                if margins[-1] >= edge * (1.0 - min(shortfalls)):
                    break
            for share in shortfalls:
                reached = np.flatnonzero(np.array(margins) >= edge * (1.0 - share))
                promised = brentq(
                    lambda x, nu=share * edge, g=edge: margin_shortfall(math.exp(x), g, n) - nu,
                    0.0,
                    40.0,
                )
                table.append(
                    {
                        "theorem": "2, margin",
                        "learner": order,
                        "edge": edge,
                        "target": share,
                        "rounds": int(reached[0]) + 1 if reached.size else math.nan,
                        "theorem_rounds": math.ceil(math.exp(promised)),
                        "largest_ratio_to_bound": worst,
                    }
                )
    return table


def half_log(s: Situation) -> Step:
    """AdaBoost's step."""
    return Step(math.atanh(s.edge))


MADA_STEPS: dict[str, StepRule] = {
    "paper": Paper(),
    "half log": half_log,
    "corrective": Corrective(),
}


def madaboost_rates(
    n: int = 1000,
    edge: float = 0.2,
    targets: tuple[float, ...] = (0.3, 0.2, 0.1, 0.05, 0.03, 0.02, 0.01, 0.005),
    most: int = 12_000,
) -> Table:
    """MadaBoost with the paper's step and with ours: rounds, and what is left of the two sums."""
    table: Table = []
    for step, rule in MADA_STEPS.items():
        for order in ORDERS:
            run = stingy_run(madaboost(step=rule), n, edge, order)
            hits: dict[float, int] = {}
            before, slow, fast = 1.0, 0.0, 0.0
            for produced in rounds(run, most):
                record = produced.record
                slow += (before * record.edge) ** 2
                fast += before * record.edge**2
                before = record.train_error
                hits |= {e: record.round for e in targets if e not in hits and before <= e}
                if len(hits) == len(targets):
                    break
            for target in targets:
                table.append(
                    {
                        "step": step,
                        "learner": order,
                        "edge": edge,
                        "target": target,
                        "rounds": hits.get(target, math.nan),
                        "paper_rounds": math.ceil(2.0 / (target * edge) ** 2),
                        "our_rounds": math.ceil(2.0 / (target * edge**2)),
                        "sum_eps2_gamma2": slow,
                        "sum_eps_gamma2": fast,
                        "error_at_end": before,
                    }
                )
    return table


def slope(table: Table) -> float:
    """The exponent p of rounds ~ (1/target)^p over the smaller half of the targets reached."""
    points = [(row["target"], row["rounds"]) for row in table if row["rounds"] == row["rounds"]]
    points = sorted(points)[: max(2, len(points) // 2)]
    x, y = np.log([1.0 / p[0] for p in points]), np.log([p[1] for p in points])
    return float(np.polyfit(x, y, 1)[0])
