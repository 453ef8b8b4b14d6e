"""A short run of benchmarks/bench_flip_rates.py."""

import numpy as np
import pandas as pd
import pytest

from benchmarks import bench_flip_rates as bench


@pytest.fixture(scope="module")
def found():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(4500, 3)), columns=list("abc"))
    y = (rng.random(4500) < 1 / (1 + np.exp(-3 * X["a"]))).to_numpy().astype(int)
    return bench.study({"made": (X, y)}, rows=1500, trusted=200, splits=1, shares=[0.4])


def test_known_rates_help(found):
    for name in ("LightGBM, weights", "LightGBM, probabilities"):
        errors = {
            condition: found[f"{name} | {condition}"].mean()
            for condition in (bench.CLEAN, bench.AS_IS, bench.KNOWN, bench.TRUSTED)
        }
        assert errors[bench.CLEAN] < errors[bench.KNOWN] < errors[bench.AS_IS]
        assert errors[bench.TRUSTED] < errors[bench.AS_IS]


def test_the_page_has_a_row_for_each_cell(found):
    text = "\n".join(bench.lines(found))
    assert text.count("| made | 40% of class 1 |") == len(bench.methods()) + 1
    assert text.count("| gain kept |") == len(bench.methods())
    assert "nan" not in text.replace("± nan", "")  # one split has no spread
