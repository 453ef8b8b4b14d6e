"""The parameter `device` where there is no GPU, and where it cannot be used."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.tree import DecisionTreeClassifier

import maboost
from maboost import MABoostClassifier, SmoothBoostClassifier
from maboost.runtime import devices
from tests.helpers import on_shards

X, y = make_classification(n_samples=80, random_state=0)


@pytest.fixture
def no_extra(monkeypatch):
    monkeypatch.setattr(devices, "find_spec", lambda name: None)


@pytest.fixture
def no_gpu(monkeypatch):
    from numba import cuda

    monkeypatch.setattr(devices, "find_spec", lambda name: object())
    monkeypatch.setattr(cuda, "is_available", lambda: False)


def test_without_the_extra_the_error_names_it(no_extra):
    model = MABoostClassifier(n_estimators=2, device="cuda")
    with pytest.raises(ImportError, match=r"pip install '\.\[cuda\]' .*, or set device='cpu'"):
        model.fit(X, y)
    assert not hasattr(model, "classes_")


def test_without_a_gpu_the_error_says_so(no_gpu):
    with pytest.raises(RuntimeError, match=r"none is found .*set device='cpu', or 'auto'"):
        SmoothBoostClassifier(n_estimators=2, device="cuda").fit(X, y)


@pytest.mark.parametrize("missing", ["no_extra", "no_gpu"])
def test_auto_is_the_processor_without_a_gpu(request, missing):
    request.getfixturevalue(missing)
    model = MABoostClassifier(n_estimators=3, random_state=0)
    auto = clone(model).set_params(device="auto").fit(X, y)
    assert np.array_equal(auto.decision_function(X), model.fit(X, y).decision_function(X))


def test_other_values_are_refused():
    with pytest.raises(ValueError, match="The 'device' parameter"):
        MABoostClassifier(device="gpu").fit(X, y)


def test_another_estimator_does_not_grow_on_a_gpu():
    stump = DecisionTreeClassifier(max_depth=1)
    with pytest.raises(ValueError, match="device='cuda' grows the booster's own trees"):
        MABoostClassifier(stump, device="cuda").fit(X, y)
    auto = MABoostClassifier(stump, n_estimators=2, device="auto").fit(X, y)
    assert len(auto) == 2


def test_several_shards_are_refused():
    def fit(comm):
        model = MABoostClassifier(n_estimators=2, device="cuda")
        model._comm = comm
        return model.fit(X[comm.rank :: 2], y[comm.rank :: 2])

    with pytest.raises(ValueError, match="device='cuda' needs all rows on one machine"):
        on_shards(2, fit)


def test_a_file_does_not_hold_the_device(tmp_path):
    model = MABoostClassifier(n_estimators=2, device="auto", random_state=0).fit(X, y)
    model.save(tmp_path / "model.maboost")
    assert maboost.load_model(tmp_path / "model.maboost").device == "cpu"
