"""Fits in forked children, concurrent threads and loky workers, beside each threading layer of numba."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SCRIPT = """
import hashlib, os, sys, threading

import numba
import numpy as np

numba.config.THREADING_LAYER = sys.argv[1]


@numba.njit(parallel=True)
def total(values):
    found = 0.0
    for i in numba.prange(values.size):
        found += values[i]
    return found


try:
    total(np.ones(1000))  # another library has started the layer, with all of its threads
except ValueError as error:
    assert "threading layer" in str(error).lower()
    sys.exit(77)
assert numba.threading_layer() == sys.argv[1]

from joblib import Parallel, delayed
from sklearn.datasets import make_classification

from maboost import SmoothBoostClassifier

X, y = make_classification(20_000, 6, n_informative=4, flip_y=0.1, random_state=0)


def votes(seed, threads=2):
    model = SmoothBoostClassifier(
        n_estimators=4, smoothness=3.0, early_stopping=False, max_features=0.5, random_state=seed,
        n_jobs=threads,
    ).fit(X, y)
    return hashlib.sha256(model.decision_function(X).tobytes()).hexdigest()


wanted = [votes(seed, threads=1) for seed in range(4)]
assert len(set(wanted)) == 4
assert [votes(seed) for seed in range(4)] == wanted

if hasattr(os, "fork"):
    child = os.fork()
    if child == 0:
        os._exit(0 if votes(1) == wanted[1] else 3)
    assert os.waitpid(child, 0)[1] == 0

found = [None] * 4


def fit(seed):
    found[seed] = votes(seed)


threads = [threading.Thread(target=fit, args=(seed,)) for seed in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert found == wanted

assert Parallel(n_jobs=2, backend="loky")(delayed(votes)(seed) for seed in range(4)) == wanted
assert votes(2) == wanted[2]
"""


@pytest.mark.parametrize("layer", ["omp", "tbb", "workqueue"])
def test_fits_are_equal_wherever_they_run(layer, tmp_path):
    script = tmp_path / "fits.py"
    script.write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(script), layer],
        capture_output=True,
        text=True,
        timeout=600,
        env=os.environ,
    )
    if done.returncode == 77:
        pytest.skip(f"numba has no threading layer {layer!r} here")
    assert done.returncode == 0, done.stderr
