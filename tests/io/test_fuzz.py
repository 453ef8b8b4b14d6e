"""A short run of benchmarks/fuzz_model_file.py."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from maboost import load_model
from maboost.io.container import pack, unpack


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


def test_damaged_checkpoints_go_on_or_are_refused(fuzz):
    outcomes = fuzz.run_checkpoints(150, seed=0)
    assert set(outcomes) == {"loaded", "refused"}, outcomes


@pytest.mark.parametrize("size", [10_000, 300_000, 3_000_000])
def test_files_take_little_more_memory_than_they_have_bytes(fuzz, size, tmp_path):
    """Those that are built to take more are refused, or load and predict within the limit."""
    for made in fuzz.BOMBS:
        try:
            content = made(size)
        except ValueError:  # too long to be written
            continue
        outcome, trace = fuzz.judged(content, tmp_path / "m")
        assert outcome in ("loaded", "refused"), (made.__name__, outcome, trace)


@pytest.mark.parametrize(
    "made", ["long_class", "long_class_of_two", "long_parameter", "many_values", "wide_text"]
)
def test_a_file_that_would_take_gigabytes_is_refused(fuzz, made, tmp_path):
    outcome, trace = fuzz.judged(getattr(fuzz, made)(3_000_000), tmp_path / "m")
    assert (outcome, trace) == ("refused", "")


def test_many_small_trees_beside_a_deeper_one_have_the_votes_of_each(fuzz, tmp_path):
    """Trees that would be padded too much are walked node by node, with the same bits."""
    rng = np.random.default_rng(0)
    arrays, document = unpack(fuzz.padded_trees(200 * 5000))
    arrays["value"] = rng.uniform(-1.0, 1.0, arrays["value"].shape)
    (tmp_path / "m").write_bytes(pack(arrays, document))
    model = load_model(tmp_path / "m")
    X = rng.normal(size=(7, model.n_features_in_))
    assert len(model) == 5001
    stages = list(model.staged_decision_function(X))
    assert (model.decision_function(X) == stages[-1]).all()
    assert (model[:3000].decision_function(X) == stages[2999]).all()
