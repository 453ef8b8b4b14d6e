"""The list of boosters, and all who read it."""

import pickle
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris

import maboost
from maboost.estimators import BOOSTERS

ROOT = Path(__file__).parents[2]

every_booster = pytest.mark.parametrize("name", BOOSTERS)


@every_booster
def test_is_exported_and_documented(name):
    booster = BOOSTERS[name]
    assert getattr(maboost, booster.__name__) is booster
    assert booster.__name__ in maboost.__all__
    assert f"   {booster.__name__}\n" in (ROOT / "docs/reference/index.md").read_text()


@every_booster
def test_is_saved_and_loaded(name, tmp_path):
    X, y = load_iris(return_X_y=True)
    model = BOOSTERS[name](n_estimators=3, random_state=0).fit(X, y)
    model.save(tmp_path / "model")
    loaded = maboost.load_model(tmp_path / "model")
    assert type(loaded) is BOOSTERS[name]
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))


@every_booster
def test_is_on_dask(name):
    distributed = pytest.importorskip("maboost.distributed")
    dask_name = f"Dask{BOOSTERS[name].__name__}"
    on_dask = getattr(distributed, dask_name)
    assert issubclass(on_dask, BOOSTERS[name])
    assert dask_name in distributed.__all__
    assert pickle.loads(pickle.dumps(on_dask)) is on_dask
    assert BOOSTERS[name].__name__ in on_dask.__doc__
    assert clone(on_dask(n_estimators=3, timeout=9)).get_params()["timeout"] == 9
    assert f"   {dask_name}\n" in (ROOT / "docs/reference/index.md").read_text()


def test_is_a_choice_of_the_command_line():
    training = pytest.importorskip("maboost.cli.training")
    (option,) = [o for o in training.train.params if o.name == "booster"]
    assert list(option.type.choices) == list(BOOSTERS)
