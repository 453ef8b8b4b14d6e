r"""Optimisation of all votes of an ensemble at once: totally corrective boosting without a linear program.

With :math:`V_{it}` the margin of hypothesis t on entry i, two problems over the votes, both smooth and convex:

- the **error** problem, :math:`\max_{\eta \ge 0} G(V\eta)`. At the maximum no hypothesis has a positive edge under
  :math:`w(V\eta)`, and hypotheses with a vote have edge zero. There is no maximum once some votes have a positive soft
  margin over the domain: then G is unbounded, and :func:`refit_votes` stops when it is large enough.
- the **soft margin** problem at capacity :math:`\lambda`, :math:`\max G(V\eta)` over :math:`\eta \ge 0` with
  :math:`\sum_t\eta_t = \lambda`. The soft margin of its solution is within :math:`\max_S B_R/\lambda` of the largest.

The derivative by :math:`\eta_t` is the edge of hypothesis t under :math:`w(V\eta)`
(:mod:`maboost.mirror.potential`). The method is Newton's with an active set: a step minimises the quadratic model
over the allowed votes. Edges are exact. If there are many rows, the Hessian is estimated from a sample that prefers
rows of large weight in it, so the method then converges linearly, at a rate set by the sample.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from maboost.engine.quadratic import minimum_over_cone, weighted_gram
from maboost.engine.vote_matrix import VoteMatrix
from maboost.mirror.balls import Penalised
from maboost.mirror.measure import BaseMeasure
from maboost.mirror.potential import DualPotential, Hardest
from maboost.mirror.regularizers import Regularizer
from maboost.runtime.communicator import gathered

__all__ = ["Refit", "refit_votes", "spread_keys"]

Array = NDArray[np.float64]

_SAMPLE = 3_000  # rows of a sampled Hessian, at least
_PER_VOTE = 20  # the same, for each vote
_DIRECT = 12  # steps at the given capacity, before smaller capacities are tried
_FIRST_SHARE, _RISE = 0.01, 2.0  # the first share of the capacity, and the factor to the next
_RIDGE = 1e-7  # of the largest entry of a Hessian, which may be singular
_NEARBY = 1e-5  # of a dual point: the width of a difference quotient
_ENOUGH = 1e-4  # the least share of the gain that the model predicts
_SHORTEST = 2.0**-30  # the shortest step
_BLUR = 1e-14  # of a gain of one: the rounding of its potentials
_BLIND = 5  # steps whose gain is below rounding, at most


@dataclass(frozen=True)
class Refit:
    """Votes that solve one of the two problems.

    Attributes
    ----------
    eta : array of shape (n_hypotheses,)
    margins : array
        The margins of all pairs.
    hardest : Hardest
        The distribution under these votes, and their gain.
    edges : array of shape (n_hypotheses,)
        The edges of all hypotheses under that distribution.
    violation : float
        The distance of the votes from an optimum, as an edge: see :func:`refit_votes`.
    steps : int
        The number of Newton steps.
    bounded : bool
        False if the gain reached `enough`, so that the votes are not a maximum.
    """

    eta: Array
    margins: Array
    hardest: Hardest
    edges: Array
    violation: float
    steps: int
    bounded: bool


def spread_keys(count: int) -> Array:
    """Return one number in [0, 1) for each row, spread evenly over any run of rows.

    >>> spread_keys(3).round(3)
    array([0.618, 0.236, 0.854])
    """
    found: Array = np.mod((1.0 + np.arange(count)) * (0.5 * (math.sqrt(5.0) - 1.0)), 1.0)
    return found


def refit_votes(
    matrix: VoteMatrix,
    potential: DualPotential,
    start: Array | Refit,
    *,
    capacity: float | None = None,
    tolerance: float = 1e-4,
    enough: float = math.inf,
    keys: Array | None = None,
    most_steps: int = 200,
) -> Refit:
    r"""Solve the error problem, or the soft margin problem if a capacity is given.

    Parameters
    ----------
    matrix : VoteMatrix
        The hypotheses on the rows.
    potential : DualPotential
    start : array of shape (n_hypotheses,) or Refit
        Votes to start from; the closer to the solution, the fewer steps. Or the solution of the same problem for the
        first hypotheses of the matrix; the others then begin without a vote.
    capacity : float, optional
        The sum :math:`\lambda` of the votes. None means the error problem.
    tolerance : float, default=1e-4
        Stop when the votes are within this of optimal, as an edge. In the error problem that is the largest positive edge,
        or the largest absolute edge of a hypothesis with a vote. In the soft margin problem it is the largest edge
        less the mean edge under the votes, which also bounds the distance of :math:`G/\lambda` from its maximum.
    enough : float, default=inf
        Stop when the gain reaches this.
    keys : array of shape (n_rows,), optional
        Numbers in [0, 1) that choose the sample of the Hessian; chosen by position if not given.
    most_steps : int, default=200

    Examples
    --------
    >>> from maboost.mirror import CappedSimplex, Entropy
    >>> labels = np.array([0, 0, 1, 1])
    >>> matrix = VoteMatrix(labels, 2)
    >>> matrix.append_scores(np.array([-1.0, 1.0, 1.0, 1.0]))
    >>> matrix.append_scores(np.array([-1.0, -1.0, -1.0, 1.0]))
    >>> matrix.append_scores(np.array([1.0, -1.0, 1.0, 1.0]))
    >>> potential = DualPotential(Entropy(), CappedSimplex(2.0), BaseMeasure(np.ones(4)))
    >>> found = refit_votes(matrix, potential, np.zeros(3), capacity=3.0)
    >>> found.eta.round(2), found.edges.round(2)
    (array([1., 1., 1.]), array([0.36, 0.36, 0.36]))
    """
    if capacity is None:
        solver = _Newton(matrix, potential, None, keys)
        return solver.solve(start, tolerance, enough, most_steps)

    def at(share: float, start: Array | Refit, steps: int) -> Refit:
        solver = _Newton(matrix, potential, share * capacity, keys)
        if not isinstance(start, Refit):
            total, part = math.fsum(start), share * capacity
            start = (
                start * (part / total) if total > 0.0 else np.full(len(start), part / len(start))
            )
        return solver.solve(start, tolerance, enough, steps)

    found = at(1.0, start, _DIRECT)
    taken, share = found.steps, _FIRST_SHARE
    while found.violation > tolerance and taken < most_steps:
        # The problem is nearly a linear program: solve smoother forms first.
        eta = found.eta
        while share < 1.0 and taken < most_steps:
            nearer = at(share, eta, _DIRECT)
            eta, taken, share = nearer.eta, taken + nearer.steps, _RISE * share
        found = at(1.0, eta, max(most_steps - taken, 1))
        taken += found.steps
    return replace(found, steps=taken)


class _Newton:
    def __init__(
        self,
        matrix: VoteMatrix,
        potential: DualPotential,
        capacity: float | None,
        keys: Array | None,
    ) -> None:
        self.matrix = matrix
        self.potential = potential
        self.measure: BaseMeasure = potential.measure
        self.capacity = capacity
        self.keys = spread_keys(self.measure.rows) if keys is None else keys

    def begin(self, start: Array | Refit) -> tuple[Array, Array, Hardest, Array]:
        """The votes to start from, their margins, the distribution and the edges under it."""
        matrix, measure = self.matrix, self.measure
        if not isinstance(start, Refit):
            margins = matrix.margins(start)
            hardest = self.potential.hardest(margins)
            return start, margins, hardest, matrix.edges(hardest.density, measure, hardest.mass)
        known, hardest = len(start.eta), start.hardest
        new = np.arange(known, len(matrix))
        edges = matrix.edges(hardest.density, measure, hardest.mass, new)
        edges[:known] = start.edges
        eta = np.append(start.eta, np.zeros(len(new)))
        return eta, start.margins, hardest, edges

    def solve(
        self, start: Array | Refit, tolerance: float, enough: float, most_steps: int
    ) -> Refit:
        matrix, potential = self.matrix, self.potential
        eta, margins, hardest, edges = self.begin(start)
        damping, steps, blind = 0.0, 0, 0
        while True:
            violation = self.violation(eta, edges)
            if violation <= tolerance or hardest.gain >= enough or steps >= most_steps:
                break
            goal = self.goal(eta, edges, hardest, damping)
            promised = math.fsum(edges * (goal - eta))
            blur = _BLUR * (1.0 + abs(hardest.gain))
            blind += (
                promised <= blur
            )  # the gain is below rounding: only the edges measure the progress
            if not promised > 0.0 or blind > _BLIND:
                break
            share, goal_margins, next_hardest = self.search(margins, goal, promised, hardest, blur)
            if next_hardest is None:
                break
            gained = next_hardest.gain - hardest.gain
            damping = _next_damping(damping, share, gained, promised)
            if share == 1.0:
                eta, margins = goal, goal_margins
            else:  # recompute in the precision of decision_function
                eta = np.maximum(eta + share * (goal - eta), 0.0)
                margins = matrix.margins(eta)
                next_hardest = potential.hardest(margins, next_hardest.shift)
            hardest = next_hardest
            edges = matrix.edges(hardest.density, self.measure, hardest.mass)
            steps += 1
        bounded = not hardest.gain >= enough
        return Refit(eta, margins, hardest, edges, violation, steps, bounded)

    def violation(self, eta: Array, edges: Array) -> float:
        """Return the distance of the votes from an optimum, as an edge."""
        if not edges.size:
            return 0.0
        if self.capacity is not None:
            return float(edges.max()) - math.fsum(edges * eta) / self.capacity
        return float(max(edges.max(), -edges[eta > 0.0].min(initial=0.0)))

    def goal(self, eta: Array, edges: Array, hardest: Hardest, damping: float) -> Array:
        """Return the votes that maximise the quadratic model of the gain within the trust region."""
        level = 0.0 if self.capacity is None else math.fsum(edges * eta) / self.capacity
        open_ = np.flatnonzero((eta > 0.0) | (edges > level))
        hessian = self.hessian(open_, hardest)
        diagonal = hessian.diagonal()
        top = max(float(diagonal.max(initial=0.0)), 1e-12)
        hessian[np.diag_indices_from(hessian)] += (_RIDGE + damping) * top
        found = minimum_over_cone(hessian, -edges[open_], eta[open_], self.capacity is not None)
        goal = np.zeros_like(eta)
        goal[open_] = found
        change, reach = float(np.abs(goal - eta).sum()), 1.0 + 2.0 * float(eta.sum())
        if change > reach:  # the model is not valid so far away
            goal = eta + (reach / change) * (goal - eta)
        return goal

    def search(
        self, margins: Array, goal: Array, promised: float, hardest: Hardest, blur: float
    ) -> tuple[float, Array, Hardest | None]:
        """Return a share of the step to `goal` whose gain is a sufficient part of the predicted gain."""
        ahead = self.matrix.margins(goal)
        share, guess = 1.0, hardest.shift
        while share >= _SHORTEST:
            at = ahead if share == 1.0 else margins + share * (ahead - margins)
            found = self.potential.hardest(at, guess)
            gained = found.gain - hardest.gain
            if gained >= _ENOUGH * share * promised - blur:
                return share, ahead, found
            # the parabola through the two gains and the slope at the start has its maximum there
            top = 0.5 * share * promised / max(share * promised - gained, 1e-300)
            share *= min(max(top, 0.1), 0.5) if math.isfinite(gained) else 0.1
        return 0.0, ahead, None

    def hessian(self, which: NDArray[np.intp], hardest: Hardest) -> Array:
        """Return minus the second derivative of the gain by some votes, from all rows or a sample."""
        measure, width = self.measure, self.measure.width
        weights, groups, pull = self.curvature(hardest)
        by_row = weights.reshape(measure.rows, width).sum(axis=1)
        size = max(_SAMPLE, _PER_VOTE * len(which)) // width
        if measure.count // width <= size:
            rows = np.flatnonzero(by_row)
            chance = np.ones(len(rows))
        else:
            mean = size / max(measure.total(by_row), 1e-300)
            rows = np.flatnonzero(self.keys < mean * by_row)
            chance = np.minimum(mean * by_row[rows], 1.0)
        # ordered by content: the order must not depend on that of the rows, nor on the shards
        order = np.lexsort([self.matrix.labels[rows], by_row[rows], self.keys[rows]])
        rows, chance = rows[order], chance[order]
        at = (rows[:, None] * width + np.arange(width)).reshape(-1)
        columns = np.ascontiguousarray(self.matrix.columns(which, rows).T)
        if pull is not None:
            columns = np.column_stack([columns, pull[at]])
        weights, groups = weights[at] / np.repeat(chance, width), groups[at]
        if measure.comm.size > 1:
            content = np.column_stack([self.keys[rows], by_row[rows], self.matrix.labels[rows]])
            columns, weights, groups = self.of_all_shards(columns, weights, groups, content)
        columns = _centred(columns, weights, groups)
        if pull is not None:
            columns = _without_last(columns, weights)
        return weighted_gram(columns, weights, measure.threads)

    def of_all_shards(
        self, columns: Array, weights: Array, groups: NDArray[np.int64], content: Array
    ) -> tuple[Array, Array, NDArray[np.int64]]:
        """Return the sampled entries of all shards, ordered by the content of their rows."""
        comm, width = self.measure.comm, self.measure.width
        table = np.column_stack(
            [columns, weights, groups.astype(np.float64), np.repeat(content, width, axis=0)]
        )
        table = np.concatenate(gathered(table, comm))
        order = np.lexsort(table[::width, :-4:-1].T)
        table = table[(order[:, None] * width + np.arange(width)).reshape(-1)]
        groups = table[:, -4].astype(np.int64)
        return np.ascontiguousarray(table[:, :-5]), np.ascontiguousarray(table[:, -5]), groups

    def curvature(self, hardest: Hardest) -> tuple[Array, NDArray[np.int64], Array | None]:
        """Return how fast each entry's mass falls with its margin, and the group of entries that share a shift.

        Group 0 shares the shift of the whole distribution. A row at its cap has one of its own, and so has a
        source at its largest mass. Minus one: no shift. The third is the derivative of the divergence by each
        density, where the divergence is the largest allowed: the distribution moves at right angles to it.
        """
        measure, regularizer, domain = (
            self.measure,
            self.potential.regularizer,
            self.potential.domain,
        )
        density, width = hardest.density, measure.width
        dual, groups, own_shifts = hardest.theta, np.zeros(density.size, dtype=np.int64), False
        if not domain.normalised:
            groups -= 1
            free = density < domain.entry_cap()
            slope = np.where(free, _slope(regularizer, dual), 0.0)
            return measure.entries * slope, groups, None
        limit = domain.divergence_limit()
        if limit is not None and hardest.multiplier > 0.0:
            both = Penalised(regularizer, limit, hardest.multiplier)
            slope, pull = both.curvature(density)
            return measure.entries * slope, groups, pull
        limits, capped = domain.source_caps(), np.zeros(measure.rows, dtype=bool)
        if not domain.unbounded:
            capped = measure.row_means(density) >= domain.row_caps() * (1.0 - 1e-12)
        if limits is not None or (width > 1 and capped.any()):
            own_shifts = True
            with np.errstate(divide="ignore"):
                dual = regularizer.grad(np.minimum(density, regularizer.upper))
        slope = _slope(regularizer, dual)
        if own_shifts:
            slope[density <= 0.0] = 0.0  # the dual point may lie anywhere below
        if limits is not None:
            groups = np.repeat(limits.sources.astype(np.int64), width)
        if width == 1:
            slope[capped] = 0.0
        elif capped.any():
            first = 0 if limits is None else limits.masses.size
            before = (
                measure.count // width * measure.comm.rank
            )  # no two shards have a number in common
            own = first + 1 + before + np.arange(measure.rows)
            groups = np.where(np.repeat(capped, width), np.repeat(own, width), groups)
        return measure.entries * slope, groups, None


def _slope(regularizer: Regularizer, dual: Array) -> Array:
    """Return the derivative of the density by the dual point, by a central difference."""
    with np.errstate(over="ignore", invalid="ignore"):
        rise = regularizer.point(dual + _NEARBY) - regularizer.point(dual - _NEARBY)
    found: Array = np.nan_to_num(rise / (2.0 * _NEARBY), nan=0.0, posinf=0.0)
    return found


def _centred(columns: Array, weights: Array, groups: NDArray[np.int64]) -> Array:
    """Return the entries less the weighted mean of their group, which a shift of the group removes."""
    if not len(groups) or groups[0] < 0:
        return columns
    distinct, code = np.unique(groups, return_inverse=True)
    if len(distinct) == 1:
        total = math.fsum(weights)
        sums = np.add.reduce(weights[:, None] * columns, axis=0)
        return columns - (sums / total if total > 0.0 else 0.0)
    totals = np.bincount(code, weights)
    sums = np.zeros((len(distinct), columns.shape[1]))
    np.add.at(sums, code, weights[:, None] * columns)
    return columns - (sums / np.where(totals > 0.0, totals, 1.0)[:, None])[code]


def _without_last(columns: Array, weights: Array) -> Array:
    """All columns but the last, less their weighted regression on it."""
    columns, last = np.ascontiguousarray(columns[:, :-1]), columns[:, -1:]
    square = math.fsum(weights * last[:, 0] ** 2)
    if not square > 0.0:
        return columns
    found: Array = columns - last * (
        np.add.reduce(weights[:, None] * last * columns, axis=0) / square
    )
    return found


def _next_damping(damping: float, share: float, gained: float, promised: float) -> float:
    """Return more damping after a step that was shortened, less after one that gained what the model predicted."""
    if share < 0.5:
        return max(damping, 1e-4) / max(share, 0.1)
    part = gained / promised
    if share < 1.0 or part < 0.25:
        return max(2.0 * damping, 1e-4)
    if part < 0.4:
        return damping
    return (0.1 if part > 0.75 else 0.4) * damping if damping > 1e-7 else 0.0
