"""Bounds hold as often as they say, on populations whose error is known."""

import math

import pytest
from benchmarks.bench_certify import CASES, CONFIDENCE, study

POPULATIONS = 200


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.name}-{case.rows}")
def test_coverage_is_nominal(case):
    (found,) = study([case], POPULATIONS, seed=1)
    slack = 3.0 * math.sqrt(CONFIDENCE * (1.0 - CONFIDENCE) / POPULATIONS)
    for kind in ("overall", "groups", "classes"):
        if found[kind] is not None:
            assert found[kind] >= CONFIDENCE - slack, kind
    assert found["mean_width"] < 0.5
