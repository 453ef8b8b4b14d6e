"""Domains: which densities they hold."""

import numpy as np
import pytest

from maboost.mirror import BaseMeasure, CappedSimplex, Hypercube, Orthant, Simplex


@pytest.mark.parametrize(
    ("domain", "density", "inside"),
    [
        (Simplex(), [3.0, 0.0, 1.0, 0.0], True),
        (Simplex(), [3.0, 0.0, 1.1, 0.0], False),
        (Simplex(), [3.1, -0.1, 1.0, 0.0], False),
        (CappedSimplex(1.5), [3.0, 0.0, 1.0, 0.0], True),  # a cap is on the mean of a row
        (CappedSimplex(1.4), [3.0, 0.0, 1.0, 0.0], False),
        (CappedSimplex([1.5, 0.4]), [3.0, 0.0, 1.0, 0.0], False),
        (Orthant(), [9.0, 0.0, 0.0, 0.0], True),
        (Orthant(), [9.0, 0.0, 0.0, -0.1], False),
        (Hypercube(), [1.0, 1.0, 0.5, 0.0], True),
        (Hypercube(), [1.1, 0.0, 0.5, 0.0], False),
    ],
)
def test_what_a_domain_holds(domain, density, inside):
    """Two rows of two entries each."""
    assert domain.contains(np.array(density), BaseMeasure(np.ones(2), 2)) is inside


@pytest.mark.parametrize("caps", [np.nan, [1.0, np.nan], [2.0, 0.0], -1.0, [[2.0]]])
def test_caps_that_are_none(caps):
    with pytest.raises(ValueError, match="caps must be positive"):
        CappedSimplex(caps)
