"""A short run of benchmarks/bench_ensembles.py, and its linear program against that of the tests."""

import math

import numpy as np
import pandas as pd
import pytest
from benchmarks.soft_margin_program import soft_margin, solved
from tests.linear_program import best_soft_margin

from benchmarks import bench_ensembles
from maboost.mirror import BaseMeasure, CappedSimplex, Simplex


@pytest.mark.parametrize("cap", [1.5, 4.0, math.inf])
def test_both_programs_have_the_same_soft_margin(cap):
    rng = np.random.default_rng(0)
    columns = np.where(rng.random((12, 50)) < 0.65, 1.0, -1.0)
    w, best, votes = solved(columns, cap)
    domain = Simplex() if math.isinf(cap) else CappedSimplex(cap)
    assert best == pytest.approx(best_soft_margin(columns, BaseMeasure(np.ones(50)), domain))
    assert soft_margin(votes @ columns, cap) == pytest.approx(best, abs=1e-8)
    assert (columns @ w).max() == pytest.approx(best, abs=1e-8)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(1800, 3)), columns=list("abc"))
    X["d"] = pd.Categorical(np.where(X["c"] > 0, "x", "y"))
    y = (rng.random(1800) < 1 / (1 + np.exp(-4 * X["a"]))).to_numpy().astype(int)
    return {"made": (X, y)}


def test_reweighting_raises_the_soft_margin_and_reaches_that_of_highs(table):
    models = ["LightGBM", "shallow forest"]
    found = bench_ensembles.study(table, models, rows=900, splits=1)
    assert (found["new margin"] >= found["margin"] - 0.01).all()
    assert (found["kept"] < found["members"]).all()
    assert (found["error on the rows"] <= found["certified error"]).all()
    peers = bench_ensembles.against_highs(table, models, [300])
    assert peers["true gap"].between(-1e-9, 0.01).all()
    assert (peers["true gap"] <= peers["certified gap"] + 1e-9).all()
    page = bench_ensembles.page(found, peers, 900)
    assert "made | shallow forest | 200 →" in page
