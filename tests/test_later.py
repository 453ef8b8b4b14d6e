"""Modules left out until they are used: nobody may be able to tell, but for the time it takes."""

import inspect
import subprocess
import sys
import threading
from importlib import import_module
from importlib.util import find_spec

import pytest
import sklearn.utils.fixes

from maboost.later import later

RARE = "xml.dom.expatbuilder"  # of the standard library, and imported by nothing here


@pytest.fixture
def absent(monkeypatch):
    """A module that was not imported yet."""
    monkeypatch.delitem(sys.modules, RARE, raising=False)
    return RARE


def test_a_module_that_nobody_uses_is_not_imported(absent):
    with later(absent):
        import xml.dom.expatbuilder  # noqa: F401
    assert absent not in sys.modules
    import xml.dom.expatbuilder as now

    assert now.ExpatBuilder.__module__ == absent
    assert sys.modules[absent] is now


def test_a_module_that_is_used_in_the_block_is_imported(absent):
    with later(absent):
        from xml.dom.expatbuilder import ExpatBuilder
    assert ExpatBuilder is sys.modules[absent].ExpatBuilder


def test_a_stand_in_that_is_kept_finds_what_is_in_the_module(absent):
    with later(absent):
        import xml.dom.expatbuilder

        kept = sys.modules[absent]
    assert kept.ExpatBuilder is xml.dom.expatbuilder.ExpatBuilder
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = kept.no_such_name


def test_modules_that_are_there_or_cannot_be_had_are_left_alone():
    with later("json", "no_such_module"):
        import json

        assert sys.modules["json"] is json
        assert json.dumps([1]) == "[1]"
        with pytest.raises(ModuleNotFoundError, match="no_such_module"):
            import no_such_module  # noqa: F401


def test_an_error_in_the_block_leaves_no_stand_in(absent):
    with pytest.raises(ZeroDivisionError), later(absent):
        1 / 0  # noqa: B018
    assert absent not in sys.modules


def test_threads_that_ask_for_the_same_module_at_once_get_it(absent):
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(300):
            sys.modules.pop(absent, None)
            with later(absent):
                kept = sys.modules[absent]
            found, errors = asked_at_once(4, lambda kept=kept: kept.ExpatBuilder)
            assert not errors
            assert len(set(found)) == 1
    finally:
        sys.setswitchinterval(interval)


def asked_at_once(count, question):
    barrier, found, errors = threading.Barrier(count), [], []

    def ask():
        barrier.wait()
        try:
            found.append(question())
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=ask) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found, errors


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package that imports a module of its own, which counts how often that is executed."""
    name = f"package_{tmp_path.name}".replace("-", "_")
    folder = tmp_path / name
    folder.mkdir()
    (folder / "__init__.py").write_text("from .inner import Thing\nruns = []\n")
    (folder / "inner.py").write_text("import sys\nsys.inner_runs += 1\nclass Thing: pass\n")
    (folder / "other.py").write_text("from . import Thing\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "inner_runs", 0, raising=False)
    yield name
    for loaded in [key for key in sys.modules if key.split(".")[0] == name]:
        del sys.modules[loaded]


@pytest.mark.parametrize("asked", ["inner", "other"])
def test_a_module_inside_one_that_is_left_out_is_imported_once(package, asked):
    with later(package):
        inside = import_module(f"{package}.{asked}")
    whole = import_module(package)
    assert sys.inner_runs == 1
    assert inside.Thing is whole.Thing
    assert inside is sys.modules[f"{package}.{asked}"]
    assert inside.__spec__.origin.endswith(f"{asked}.py")
    assert whole.__spec__.origin.endswith("__init__.py")


def test_a_module_that_is_left_out_can_be_looked_for(absent):
    with later(absent):
        assert find_spec(absent).name == absent
    assert find_spec(absent).name == absent


def test_nothing_is_left_behind(absent):
    before = list(sys.meta_path)
    with later(absent):
        assert sys.meta_path != before
    assert sys.meta_path == before


# scikit-learn 1.6 asks pandas for its version when it is imported
ASKS_PANDAS = "if pd is not None and" in inspect.getsource(sklearn.utils.fixes)


@pytest.mark.parametrize(
    "before",
    [
        pytest.param(
            "",
            marks=pytest.mark.skipif(ASKS_PANDAS, reason="scikit-learn itself imports pandas"),
        ),
        "import pandas, scipy.stats, sklearn",
    ],
)
def test_a_fit_imports_neither_statistics_nor_frames_and_others_still_find_them(before):
    code = f"""
import sys
{before}
loaded = [name in sys.modules for name in ("scipy.stats", "pandas")]
import numpy as np
from maboost import SmoothBoostClassifier
X = np.random.default_rng(0).normal(size=(60, 3))
model = SmoothBoostClassifier(n_estimators=3).fit(X, X[:, 0] > 0)
assert loaded == [name in sys.modules for name in ("scipy.stats", "pandas")]

from sklearn.utils.fixes import _mode  # what scikit-learn itself needs of them
assert _mode(np.array([1, 2, 2])).mode == 2
import pandas, scipy.stats
assert scipy.stats.norm.cdf(0.0) == 0.5
assert model.predict(pandas.DataFrame(X).to_numpy()).shape == (60,)
from sklearn.model_selection import RandomizedSearchCV, cross_val_score
cut = scipy.stats.uniform(0.1, 0.5)
search = RandomizedSearchCV(SmoothBoostClassifier(n_estimators=2), {{"learning_rate": cut}}, n_iter=2, cv=2)
assert 0.1 <= search.fit(pandas.DataFrame(X, columns=list("abc")), X[:, 0] > 0).best_params_["learning_rate"] <= 0.6
"""
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)
