"""A fit on a GPU, in numba's simulator, has the bits of a fit on the processor.

`make test-cuda` runs all cases of `equality.py` on a GPU; those here are as many as take seconds.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cuda.equality import cases

ROOT = Path(__file__).parent.parent.parent

CASES = [
    "smooth, 2 classes",
    "smooth, 4 classes",
    "maboost, 2 classes",
    "maboost, 4 classes",
    "mada, 4 classes",
    "sparse, 2 classes",
    "margin, 2 classes",
    "combined, 4 classes",
    "weights, whole False, 2 classes",
    "weights, whole True, 4 classes",
    "categories, 2 classes",
    "categories, 4 classes",
    "sampled rows, 2 classes",
    "monotone",
    "interactions",
    "features drawn",
    "sparse matrix",
    "too little memory",
    "other sizes",
]


@pytest.fixture(scope="module")
def results():
    """By name the result of each case, from a process of its own: numba chooses the simulator when it is imported."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.cuda.equality", *CASES],
        env=os.environ | {"NUMBA_ENABLE_CUDASIM": "1"},
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.stdout, done.stderr
    return dict(line.split(": ", 1) for line in done.stdout.splitlines())


@pytest.mark.parametrize("name", CASES)
def test_a_model_has_the_same_bits_as_on_the_processor(results, name):
    assert results.get(name) == "equal"


def test_the_cases_exist():
    assert set(CASES) <= set(cases())
