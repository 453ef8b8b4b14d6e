"""Steps where next to nothing is left: of the mass, or of the rows that are wrong."""

import numpy as np
import pytest
from tests.helpers import Problem, rounds

from maboost.boosting import maboost, madaboost, smooth
from maboost.mirror import BaseMeasure
from maboost.mirror.steps import Corrective, Situation, gain_slope


def test_a_corrective_step_on_a_tiny_mass():
    """MadaBoost once only rows of a trillionth of the weight are left, and a small edge on them."""
    ascent, measure = madaboost().ascent, BaseMeasure(np.array([1.0, 1e-12, 1e-12, 1e-12]))
    state = ascent.move(ascent.start(measure), np.array([-1.0, 0.0, 0.0, 0.0]), 40.0, measure).state
    assert state.mass == pytest.approx(3e-12, rel=1e-3)
    d = np.array([0.0, -0.505, -0.505, 1.0])
    edge = -measure.integral(state.density * d) / state.mass
    assert edge == pytest.approx(0.01 / 3.0, rel=1e-3)
    situation = Situation(ascent, state, measure, d, edge)
    step = Corrective()(situation)
    assert 0.0 < step.size < 1.0
    assert abs(gain_slope(situation, step.size)) < 1e-9 * edge * state.mass


def test_a_hypothesis_that_is_right_on_all_the_weight_and_wrong_on_a_row():
    """Its edge is exactly one, and the caps keep the wrong row from ever carrying the mass."""
    ascent, measure = smooth(1.5).ascent, BaseMeasure(np.ones(4))
    down = np.array([-1.0, 0.0, 0.0, 0.0])
    state = ascent.move(ascent.start(measure), down, 1000.0, measure).state
    np.testing.assert_allclose(state.density, [0.0, 4 / 3, 4 / 3, 4 / 3])
    d = np.array([1.0, -1.0, -1.0, -1.0])
    step = Corrective()(Situation(ascent, state, measure, d, 1.0))
    assert not step.final
    assert 1.0 < step.size <= 64.0
    assert ascent.move(state, d, step.size, measure).gain >= 0.5


def test_half_of_the_mass_on_a_row_that_weighs_next_to_nothing():
    """The square of its density is beyond the grid of sums taken block by block."""
    labels, weights = np.ones(3, dtype=int), np.array([1.0, 1.0, 1e-30])
    tables = np.array([[1.0, 1.0, -1.0], [-1.0, 1.0, 1.0]])
    first, second = rounds(Problem(labels, weights, tables).run(maboost()), 2)
    assert first.ess == pytest.approx(1.0)
    assert second.smoothness == pytest.approx(1e30)
    assert second.ess == pytest.approx(2e-30)
    assert second.edge == pytest.approx(0.5)
