r"""A counterexample to lazy double projection: Euclidean, the orthant and then the simplex.

Ten rows. The orthant cuts off rows below zero; where less than a mass of one is left, the simplex gives
all rows the same 1 - n back, n the mass of the positive parts. The weight of a row far below zero,
1 - n, then depends on the others, which no potential allows: the dual point can go round a loop down the
stairs all the way. Rows 0 and 1 go round (one up, half of it over to the other, both down), row 2
stays wrong, and the seven others, far below zero, move by what makes every edge the same.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
from benchmarks.theory.common import Array, Table
from benchmarks.theory.lazy import Pair, uniform

from maboost.mirror import Euclidean, Orthant, Simplex

ROWS, BELOW = 10, 7  # rows, and how many of them are below zero
WRONG = 1.1  # the dual point of row 2: one minus its margin
LOW, HIGH = 0.02, 3.8
STAIRS = Pair("euclidean, orthant to simplex", Euclidean(), Orthant(), Simplex())


def loop(count: int) -> Array:
    """Dual points of rows 0 and 1 round the loop, the first again at the end."""
    corners = np.array([(LOW, LOW), (2.0 * HIGH - LOW, LOW), (HIGH, HIGH), (LOW, LOW)])
    at = np.linspace(0.0, 3.0, count + 1)
    return np.column_stack([np.interp(at, np.arange(4), corners[:, c]) for c in range(2)])


def moves_along(path: Array) -> tuple[Array, float]:
    """Moves of the whole dual point, each with <w, move>_D = -delta, and delta.

    The rows below go down by depths that add up to nothing round the loop, which fixes delta.
    """
    steps, here = np.diff(path, axis=0), path[:-1]
    given_back = 1.0 - (here.sum(axis=1) + WRONG) / ROWS
    costs = np.sum((here + given_back[:, None]) * steps, axis=1) / ROWS
    below = given_back * BELOW / ROWS
    delta = -np.sum(costs / below) / np.sum(1.0 / below)
    moves = np.zeros((len(steps), ROWS))
    moves[:, :2] = steps
    moves[:, ROWS - BELOW :] = -((costs + delta) / below)[:, None]
    return moves, float(delta)


def equal_moves(count: int) -> tuple[Array, float]:
    """The same loop in moves of about the same length in the largest coordinate."""
    path = loop(20 * count)
    for _ in range(5):
        lengths = np.abs(moves_along(path)[0]).max(axis=1)
        walked = np.concatenate([[0.0], np.cumsum(lengths)])
        at = np.linspace(0.0, walked[-1], 20 * count + 1)
        path = np.column_stack([np.interp(at, walked, path[:, c]) for c in range(2)])
    return moves_along(path[::20])


def counterexample(moves_a_loop: int = 1400, loops: int = 20, lead_in: int = 600) -> Table:
    """Edges that stay the same for ever, and an error that never falls; the step is the paper's.

    A lead-in, also with positive edges, brings the dual point from its start to the loop. Everything is
    measured by the library's own projections. One record every 50 rounds, and the extremes so far.
    """
    measure, moves = uniform(ROWS), equal_moves(moves_a_loop)[0]
    depth = float(np.abs(np.cumsum(moves[:, -1])).max()) + 1.0
    theta = np.ones(ROWS)
    target = np.array([LOW, LOW, WRONG] + [-depth] * BELOW)
    lead = [(target - theta) / lead_in] * lead_in
    table: Table = []
    squares, least_edge, least_error = 0.0, 1.0, 1.0
    for t, move in enumerate(itertools.chain(lead, *([moves] * loops)), start=1):
        w = measure.entries * STAIRS.points(theta, measure)[1]
        direction = move / math.sqrt(-math.fsum(w * move))  # the loss vector of a hypothesis
        if np.abs(direction).max() > 1.0:
            raise ValueError(
                f"moves_a_loop={moves_a_loop!r} is too small: no hypothesis moves so far"
            )
        edge = -math.fsum(w * direction)
        theta = theta + edge * direction
        squares += edge**2
        least_edge = min(least_edge, edge)
        error = float(np.mean(theta >= 1.0))
        least_error = min(least_error, error)
        if t % 50 == 0:
            table.append(
                {
                    "round": t,
                    "edge": edge,
                    "least_edge": least_edge,
                    "error": error,
                    "least_error": least_error,
                    "theorem_1_bound": STAIRS.bound(squares),
                    "theta_0": theta[0],
                    "theta_1": theta[1],
                    "theta_below": theta[-1],
                }
            )
    return table
