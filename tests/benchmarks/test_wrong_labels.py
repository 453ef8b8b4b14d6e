"""Short runs of benchmarks/bench_suspects.py and benchmarks/bench_sources.py."""

import numpy as np
import pandas as pd
import pytest

from benchmarks import bench_sources


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


def test_sources(table):
    found = bench_sources.study({"made": table}, share=0.4, trusted=300, others=1500, splits=1)
    assert (found["CombinedBoost | accuracy"] > found["pooled | accuracy"] - 5).all()
    text = "\n".join(bench_sources.lines(found))
    assert text.count("| made |") == len(bench_sources.KINDS) * len(bench_sources.MEASURES)
