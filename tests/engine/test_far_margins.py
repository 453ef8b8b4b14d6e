"""Projections under entropy and caps where many entries lie far above their caps, as at a large capacity."""

import numpy as np
import pytest

from maboost.engine.dispatch import project
from maboost.mirror import BaseMeasure, CappedSimplex, Entropy
from maboost.mirror.projection import project_generic


@pytest.mark.parametrize("off", [0.0, 3.0, -9.0, 40.0, -300.0])
@pytest.mark.parametrize("caps", ["scalar", "rows"])
def test_a_guess_finds_the_projection(caps, off):
    rng = np.random.default_rng(0)
    n = 4000
    theta = 277.0 * rng.choice([-1.0, -0.2, 0.0, 0.3, 1.0], n) + rng.normal(size=n)
    measure = BaseMeasure(rng.uniform(0.5, 2.0, n))
    limit = 2.0 if caps == "scalar" else np.where(np.arange(n) % 7, rng.uniform(1.2, 3.0, n), 9.0)
    domain = CappedSimplex(limit)
    expected = project_generic(Entropy(), domain, theta, measure)
    shift = expected.center + expected.tau
    found = project(Entropy(), domain, theta, measure, shift + off)
    np.testing.assert_allclose(found.density, expected.density, rtol=1e-9, atol=1e-12)
    assert found.center + found.tau == pytest.approx(shift, abs=1e-9)
    np.testing.assert_allclose(
        np.maximum(found.dual, -600), np.maximum(expected.dual, -600), atol=1e-8
    )
