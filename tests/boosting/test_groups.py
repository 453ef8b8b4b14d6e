"""The errors of groups of rows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers import cuts, examples, on_shards, seeds

from maboost.boosting import Groups
from maboost.mirror import BaseMeasure


def problem(seed, n, count, alike):
    rng = np.random.default_rng(seed)
    members = np.concatenate([np.arange(count), rng.integers(0, count, size=n)])
    weights = np.ones(len(members)) if alike else rng.exponential(size=len(members)) + 1e-3
    return members, weights, rng.random(len(members)) < 0.3


@given(seed=seeds, n=st.integers(0, 300), count=st.integers(1, 40), alike=st.booleans())
@examples(100)
def test_the_error_of_a_group_is_the_weight_of_its_wrong_rows(seed, n, count, alike):
    members, weights, wrong = problem(seed, n, count, alike)
    measure, groups = BaseMeasure(weights), Groups(range(count), members)
    errors, shares = groups.errors(wrong, measure), groups.shares(measure)
    for name in range(count):
        its = weights[members == name]
        assert shares[name] == pytest.approx(its.sum() / weights.sum(), rel=1e-12)
        expected = its[wrong[members == name]].sum() / its.sum()
        assert errors[name] == pytest.approx(expected, rel=1e-12, abs=1e-15)
    assert set(groups.errors(np.ones_like(wrong), measure).values()) == {1.0}


@given(seed=seeds, n=st.integers(4, 100), count=st.integers(1, 9), shards=st.integers(2, 4))
@examples(30)
def test_shards_change_no_bit(seed, n, count, shards):
    """Though a shard may have no row of a group."""
    members, weights, wrong = problem(seed, n, count, alike=False)
    parts = cuts(len(members), shards, np.random.default_rng(seed))

    def on(part, comm=None):
        measure = BaseMeasure(weights[part], comm=comm)
        return Groups(range(count), members[part]).errors(wrong[part], measure)

    alone = on(slice(None))
    assert on_shards(shards, lambda comm: on(parts[comm.rank], comm)) == [alone] * shards


def test_more_groups_than_two_bytes_tell_apart():
    count = (1 << 16) + 1
    groups, wrong = Groups(range(count), np.arange(count)), np.zeros(count, dtype=bool)
    wrong[-1] = True
    errors = groups.errors(wrong, BaseMeasure(np.ones(count)))
    assert [name for name, error in errors.items() if error] == [count - 1]


def test_errors_are_those_of_the_measure_asked():
    groups, wrong = Groups("ab", np.array([0, 0, 1])), np.array([True, False, False])
    assert groups.errors(wrong, BaseMeasure(np.ones(3)))["a"] == pytest.approx(0.5)
    assert groups.errors(wrong, BaseMeasure(np.array([3.0, 1.0, 1.0])))["a"] == pytest.approx(0.75)


@pytest.mark.parametrize("weight", [1e-27, 1e-100, 1e-300])
def test_a_light_group_is_known_as_well_as_a_heavy_one(weight):
    members = np.arange(8) % 2
    weights = np.where(members == 0, 1.0, weight * (1.0 + np.arange(8)))
    measure, groups = BaseMeasure(weights), Groups("ab", members)
    wrong = np.arange(8) >= 5
    its = weights[members == 1]
    assert groups.shares(measure)["b"] == pytest.approx(its.sum() / weights.sum(), rel=1e-12)
    errors = groups.errors(wrong, measure)
    assert errors["a"] == pytest.approx(0.25)
    assert errors["b"] == pytest.approx(14.0 / 20.0, rel=1e-12)
    assert set(groups.errors(np.ones(8, dtype=bool), measure).values()) == {1.0}
