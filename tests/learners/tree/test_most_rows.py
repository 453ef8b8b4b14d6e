"""Where most rows are shown all are read, the others with empty cells: no bit of the tree differs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maboost.learners.tree import learner as module
from maboost.learners.tree.grower import GrowthRules
from maboost.learners.tree.learner import TreeLearner
from maboost.runtime.threads import Threads

RULES = [
    GrowthRules(max_depth=1, votes=True),
    GrowthRules(max_depth=3),
    GrowthRules(max_depth=None, max_leaf_nodes=6),
    GrowthRules(max_depth=4, min_samples_leaf=40),
    GrowthRules(max_depth=3, min_samples_leaf=10**6),  # no split at all
]


@pytest.mark.parametrize("rules", RULES)
@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 10**6), n=st.integers(20, 6000), threads=st.integers(1, 2))
def test_the_tree_is_that_of_the_rows_shown(rules, seed, n, threads):
    rng = np.random.default_rng(seed)
    X, labels = rng.normal(size=(n, 6)), rng.integers(0, 2, size=n)
    producer = TreeLearner(rules, threads=Threads(threads)).prepare(X, labels, 2)
    rows = np.flatnonzero(rng.random(n) < 0.85)
    weights = rng.exponential(size=len(rows))
    wanted = None
    for most in (2.0, 0.0):  # never, always
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "_MOST", most)
            hypothesis = producer.produce(weights, rows, None, np.random.RandomState(0))
        answers, leaves = producer.training_leaves(hypothesis)
        found = (hypothesis.tree, answers, leaves.copy())
        wanted = wanted or found
    assert wanted[0].feature.tolist() == found[0].feature.tolist()
    for name in ("threshold", "left", "right", "gain", "value", "missing_left"):
        np.testing.assert_array_equal(getattr(wanted[0], name), getattr(found[0], name))
    np.testing.assert_array_equal(wanted[1], found[1])
    np.testing.assert_array_equal(wanted[2], found[2])
