"""A short run of benchmarks/fuzz_model_file.py."""

import importlib.util
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def fuzz():
    path = Path(__file__).parents[2] / "benchmarks" / "fuzz_model_file.py"
    spec = importlib.util.spec_from_file_location("fuzz_model_file", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_damaged_files_load_or_are_refused(fuzz):
    outcomes = fuzz.run(2000, seed=0)
    assert set(outcomes) == {"loaded", "refused"}, outcomes
    assert outcomes["loaded"] > 100  # damage that is still a model reaches prediction too
