"""Exponentials against those of numpy in long doubles."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers import examples, seeds

from maboost.runtime.exponential import exponentials, exponentials_into


@examples(100)
@given(seeds, st.sampled_from([1e-17, 1e-8, 0.3, 1.0, 30.0, 700.0]), st.integers(0, 70))
def test_they_are_right_to_a_unit_in_the_last_place(seed, scale, n):
    x = np.random.default_rng(seed).uniform(-scale, scale, n)
    found, true = exponentials(x), np.exp(x.astype(np.longdouble))
    assert np.all(np.abs(found - true) <= np.spacing(true.astype(np.float64)))
    exponentials_into(x, x)
    np.testing.assert_array_equal(x, found)


def test_they_rise():
    x = np.linspace(-20.0, 5.0, 100_001)
    assert np.all(np.diff(exponentials(x)) > 0.0)


def test_ends():
    x = np.array([-np.inf, -1e300, -746.0, 0.0, -0.0, 709.79, 1e300, np.inf])
    np.testing.assert_array_equal(exponentials(x), [0.0, 0.0, 0.0, 1.0, 1.0, *[np.inf] * 3])
    assert np.isnan(exponentials(np.array([np.nan]))[0])
    assert exponentials(np.array([709.78]))[0] == pytest.approx(np.exp(709.78), rel=1e-15)


def test_less_than_the_least_normal_number():
    """Whole multiples of the least number there is, the nearest or the next to it."""
    x = np.linspace(-745.1, -708.4, 1001)
    least = np.nextafter(0.0, 1.0)
    true = np.exp(x.astype(np.longdouble))
    assert np.all(np.abs(exponentials(x) - true) <= least + 1e-15 * true)
