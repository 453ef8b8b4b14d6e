"""A short run of benchmarks/bench_suspects.py."""

import numpy as np
import pandas as pd
import pytest


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(3000, 3)), columns=list("abc"))
    y = (rng.random(3000) < 1 / (1 + np.exp(-3 * X["a"]))).to_numpy().astype(int)
    return X, y


def test_suspects(table, tmp_path):
    bench = pytest.importorskip(
        "benchmarks.bench_suspects", exc_type=ImportError
    )  # cleanlab is a peer
    found = bench.study({"made": table}, rows=1000, shares=[0.4])
    assert len(found) == len(bench.KINDS)
    assert (found["known rates"] > 0.4).all()
    assert "\n".join(bench.lines(found)).count("| made |") == 2 * len(bench.KINDS)
    bench.figure(found, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").exists()
