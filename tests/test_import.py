"""Importing the library changes nothing in the process, and costs little more than its dependencies."""

import subprocess
import sys

import pytest

import maboost

SNAPSHOT = """
import os, signal, sys, threading, warnings

def snapshot():
    handlers = {n: signal.getsignal(n) for n in signal.valid_signals()}
    return [
        list(sys.meta_path), list(sys.path_hooks), list(warnings.filters), dict(os.environ),
        threading.enumerate(), handlers, sys.excepthook, sys.getswitchinterval(),
    ]
"""

DEPENDENCIES = """
import numba, numpy, scipy.optimize, scipy.sparse, scipy.special, sklearn.base, sklearn.dummy, sklearn.pipeline
import narwhals, sklearn.metrics
"""

USE = """
for name in maboost.__all__:
    getattr(maboost, name)
for name in ("certification", "data", "noise", "testing"):
    getattr(maboost, name)
"""


def run(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("before", "after"),
    [("", ""), (DEPENDENCIES, USE)],
    ids=["import maboost", "every public name"],
)
def test_the_import_changes_no_global_state(before, after):
    run(
        f"{SNAPSHOT}{before}\nstate = snapshot()\nimport maboost{after}\n"
        "for old, new in zip(state, snapshot(), strict=True):\n    assert old == new, (old, new)\n"
    )


def test_the_import_alone_imports_no_dependency():
    heavy = {"numba", "numpy", "pandas", "scipy", "sklearn"}
    run(f"import sys, maboost\nassert not {heavy!r} & set(sys.modules)")


def test_dir_lists_public_names_only():
    names = dir(maboost)
    assert set(maboost.__all__) <= set(names)
    assert [name for name in names if name.startswith("_")] == ["__version__"]
    assert all(getattr(maboost, name) is not None for name in names)


@pytest.mark.parametrize("name", sorted(set(dir(maboost)) - set(maboost.__all__)))
def test_dir_of_a_module_lists_public_names_only(name):
    if name == "distributed":
        pytest.importorskip("distributed")
    module = getattr(maboost, name)
    others = {"online", "steps"} if name == "mirror" else set()
    assert set(dir(module)) == set(module.__all__) | others
    assert all(getattr(module, public) is not None for public in module.__all__)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        maboost.nothing  # noqa: B018
