"""The dual potential: its value, its gradient, and the inequality for any votes."""

import math

import clarabel
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from tests.helpers import divergence, examples, seeds, vertex
from tests.implementations import DOMAINS, REGULARIZERS

from maboost.boosting import certificate_of
from maboost.mirror import BaseMeasure, CappedSimplex, Entropy, Euclidean, Simplex, project
from maboost.mirror.potential import DualPotential

ROWS = 12  # as the domains of the conformance list


def geometries() -> list:
    """Every regularizer on every domain that is not empty for it."""
    found = []
    for regularizer in REGULARIZERS:
        for domain in DOMAINS:
            try:
                capped = domain.with_row_caps_at_most(regularizer.upper)
                (capped if domain.normalised else domain).check(BaseMeasure(np.ones(ROWS)))
            except ValueError:
                continue
            found.append((regularizer, domain))
    return found


GEOMETRIES = geometries()


def feasible(regularizer, domain, measure) -> bool:
    """Whether the domain holds a distribution for this base measure."""
    try:
        domain.check(measure)
        if domain.normalised and math.isfinite(regularizer.upper):
            domain.with_row_caps_at_most(regularizer.upper).check(measure)
    except ValueError:
        return False
    return True


def some_margins(rng: np.random.Generator, size: int) -> np.ndarray:
    """Margins of an arbitrary ensemble: bounded votes, unbounded scores, or ties."""
    kind = rng.integers(4)
    if kind == 0:
        return rng.uniform(-1.0, 1.0, size)
    if kind == 1:
        return rng.normal(size=size) * 10.0 ** rng.uniform(-3.0, 2.0)
    if kind == 2:
        return np.abs(rng.normal(size=size)) * rng.choice([-1.0, 1.0, 1.0, 1.0], size)
    votes = rng.choice([-1.0, 1.0, 1.0], size=(size, 5))
    return votes @ rng.exponential(size=5)


@pytest.mark.parametrize("part", range(4))
def test_the_inequality_holds_for_any_votes(part):
    """1,000 arbitrary ensembles over all geometries: no violation, at any point of the domain."""
    for seed in range(250):
        rng = np.random.default_rng([part, seed])
        regularizer, domain = GEOMETRIES[(250 * part + seed) % len(GEOMETRIES)]
        width = int(rng.integers(1, 4))
        weights = np.ones(ROWS) if rng.random() < 0.5 else rng.uniform(0.5, 2.0, ROWS)
        measure = BaseMeasure(weights, width)
        if not feasible(regularizer, domain, measure):
            measure = BaseMeasure(np.ones(ROWS), width)
        margins = some_margins(rng, ROWS * width)
        hardest = DualPotential(regularizer, domain, measure, project).hardest(margins)
        start = DualPotential(regularizer, domain, measure).hardest(np.zeros_like(margins)).density
        base, one = measure.entries, np.ones(margins.size)
        points = [
            project(regularizer, domain, rng.normal(size=margins.size) * size, measure).density
            for size in (0.3, 3.0, 30.0)
        ]
        points += [start, hardest.density]
        if domain.normalised and domain.single_shift:
            orders = (margins, -margins, rng.normal(size=margins.size))
            points += [vertex(order, measure, domain, regularizer.upper) for order in orders]
        limit = domain.divergence_limit()
        if (
            limit is not None and regularizer.upper == math.inf
        ):  # close to the worst one for these margins
            theta = -1e4 * margins / np.abs(margins).max()
            points.append(project(limit.regularizer, domain, theta, measure).density)
        if not domain.normalised:
            points.append((margins <= 0.0).astype(float))
        for u in points:
            cost = divergence(regularizer, u, one, base) - divergence(regularizer, start, one, base)
            reached = math.fsum(base * u * margins)
            slack = 1e-9 * (1.0 + abs(cost) + abs(reached) + abs(hardest.gain))
            assert reached >= hardest.gain - cost - slack, (regularizer, domain, seed)
        found = certificate_of(margins, measure, regularizer, domain)
        assert found.measured_error <= found.error_bound + 1e-12
        assert found.error_bound >= found.floor


@pytest.mark.parametrize(("regularizer", "domain"), GEOMETRIES)
def test_the_plain_projection_and_the_fast_one_agree(regularizer, domain):
    rng = np.random.default_rng(0)
    measure, margins = BaseMeasure(np.ones(ROWS)), rng.normal(size=ROWS)
    plain = DualPotential(regularizer, domain, measure).hardest(margins)
    fast = DualPotential(regularizer, domain, measure, project).hardest(margins)
    assert fast.gain == pytest.approx(plain.gain, rel=1e-10, abs=1e-11)
    np.testing.assert_allclose(fast.density, plain.density, rtol=1e-9, atol=1e-11)


@examples(60)
@given(seeds)
def test_the_derivative_of_the_gain_is_the_edge(seed):
    rng = np.random.default_rng(seed)
    regularizer, domain = GEOMETRIES[rng.integers(len(GEOMETRIES))]
    measure = BaseMeasure(np.ones(ROWS))
    potential = DualPotential(regularizer, domain, measure, project)
    margins, column = rng.normal(size=ROWS), rng.uniform(-1.0, 1.0, ROWS)
    edge = measure.integral(potential.hardest(margins).density * column)
    step = 1e-4
    below, middle, above = (potential.gain(margins + x * column) for x in (-step, 0.0, step))
    # concave: the chords on the two sides hold the derivative between them
    assert (above - middle) / step - 1e-7 <= edge <= (middle - below) / step + 1e-7


def conic_gain(margins: np.ndarray, base: np.ndarray, cap: float, entropy: bool) -> float:
    """G(M) by clarabel: the minimum of <w, M> + R(w) - R(D) over the capped simplex."""
    n = margins.size
    bounded = [sp.csc_matrix(np.ones((1, n))), -sp.eye(n), sp.eye(n)]
    right = [np.ones(1), np.zeros(n), cap * base]
    cones = [clarabel.ZeroConeT(1), clarabel.NonnegativeConeT(2 * n)]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-10
    if not entropy:  # R = 1/2 sum w^2 / D
        quadratic, linear = sp.diags(1.0 / base).tocsc(), margins
        matrix = sp.vstack(bounded).tocsc()
        constant = -0.5
    else:  # t_i >= w_i log(w_i / D_i): (-t, w, D) in the exponential cone
        quadratic, linear = sp.csc_matrix((2 * n, 2 * n)), np.concatenate([margins, np.ones(n)])
        wide = [sp.hstack([block, sp.csc_matrix((block.shape[0], n))]) for block in bounded]
        rows, right_cone = [], []
        for i in range(n):
            block = sp.lil_matrix((3, 2 * n))
            block[0, n + i], block[1, i] = 1.0, -1.0  # s = b - A x
            rows.append(block.tocsc())
            right_cone += [0.0, 0.0, base[i]]
        matrix = sp.vstack(wide + rows).tocsc()
        right.append(np.array(right_cone))
        cones += [clarabel.ExponentialConeT()] * n
        constant = 0.0
    solver = clarabel.DefaultSolver(
        quadratic, linear, matrix, np.concatenate(right), cones, settings
    )
    return solver.solve().obj_val + constant


@pytest.mark.parametrize("cap", [1.5, 4.0, 1e6])
@pytest.mark.parametrize("regularizer", [Entropy(), Euclidean()])
def test_the_gain_is_that_of_a_conic_solver(regularizer, cap):
    rng = np.random.default_rng(1)
    measure = BaseMeasure(rng.uniform(0.5, 2.0, 30))
    margins = 2.0 * rng.normal(size=30)
    gain = DualPotential(regularizer, CappedSimplex(cap), measure, project).gain(margins)
    expected = conic_gain(margins, measure.entries, cap, isinstance(regularizer, Entropy))
    assert gain == pytest.approx(expected, abs=1e-7)


def test_the_error_bound_takes_the_best_scale():
    rng = np.random.default_rng(2)
    measure, margins = BaseMeasure(np.ones(50)), rng.normal(0.7, 1.0, 50)
    found = certificate_of(margins, measure)
    potential = DualPotential(Entropy(), Simplex(), measure)
    best = max(potential.gain(c * margins) for c in np.geomspace(1e-2, 10.0, 400))
    assert found.error_bound == pytest.approx(math.exp(-best), rel=1e-3)
    assert found.error_bound <= math.exp(-best) * (1.0 + 1e-6)
    again = certificate_of(1e6 * margins, measure, scale=1e6)
    assert again.error_bound == pytest.approx(found.error_bound, rel=1e-9)
    assert again.soft_margin == pytest.approx(found.soft_margin, rel=1e-12)


def test_an_ensemble_that_is_right_everywhere_has_a_bound_below_every_row():
    measure = BaseMeasure(np.array([1.0, 2.0, 3.0]))
    found = certificate_of([0.1, 0.5, 0.2], measure)
    assert found.error_bound < 1 / 6
    assert found.min_margin == found.soft_margin == 0.1


@pytest.mark.parametrize(
    ("margins", "message"),
    [([0.1, 0.2], "margins must have one number"), ([0.1, 0.2, math.nan], "finite")],
)
def test_margins_that_cannot_be_certified_are_refused(margins, message):
    with pytest.raises(ValueError, match=message):
        certificate_of(margins, BaseMeasure(np.ones(3)))
