"""The docstrings of the boosters describe every parameter and attribute once."""

import ast
import re
from inspect import signature

import pytest
from numpydoc.docscrape import NumpyDocString
from numpydoc.validate import validate
from sklearn.base import clone
from sklearn.datasets import load_iris

from maboost.estimators import BOOSTERS
from maboost.estimators.documentation import documented

every_booster = pytest.mark.parametrize("booster", BOOSTERS.values(), ids=BOOSTERS)


def names_of(entries):
    return [name for entry in entries for name in entry.name.split(", ")]


@every_booster
def test_every_parameter_is_described_once_in_the_order_of_the_signature(booster):
    described = NumpyDocString(booster.__doc__)["Parameters"]
    assert names_of(described) == list(signature(booster).parameters)
    assert all("".join(entry.desc).strip() for entry in described)


@every_booster
def test_the_defaults_described_are_those_of_the_signature(booster):
    parameters = signature(booster).parameters
    for entry in NumpyDocString(booster.__doc__)["Parameters"]:
        if "," in entry.name:
            continue
        default = parameters[entry.name].default
        stated = re.search(r"default=(.+)$", entry.type)
        assert (ast.literal_eval(stated[1]) if stated else None) == default, entry.name
        assert stated or entry.type.endswith("optional")


@every_booster
def test_every_attribute_described_is_there_after_a_fit(booster):
    described = names_of(NumpyDocString(booster.__doc__)["Attributes"])
    assert len(set(described)) == len(described)
    model = booster(n_estimators=2).fit(*load_iris(return_X_y=True, as_frame=True))
    assert [name for name in described if not hasattr(model, name)] == []


@every_booster
def test_numpydoc_finds_no_fault_in_the_sections(booster):
    # GL01 to GL03, RT and SA are matters of taste; PR01, PR02, PR03: parameters missing, unknown, out of order
    found = {code for code, _ in validate(f"maboost.{booster.__name__}")["errors"]}
    assert found.isdisjoint({"GL06", "GL07", "GL08", "PR01", "PR02", "PR03", "SS01", "EX01"})


def test_a_parameter_without_description_is_an_error():
    class Booster:
        """Boost."""

        def __init__(self, *, strange=1): ...

    with pytest.raises(TypeError, match=r"docstring of Booster must describe \['strange'\]"):
        documented(Booster)


def test_a_description_of_no_parameter_is_an_error():
    class Booster:
        """Boost.

        Parameters
        ----------
        strange : int
            It is not there.
        """

        def __init__(self, *, tol=1): ...

    with pytest.raises(TypeError, match=r"must not describe \['strange'\]"):
        documented(Booster)


@every_booster
def test_the_constructor_stores_exactly_its_parameters(booster):
    names = list(signature(booster).parameters)
    given = {name: object() for name in names}
    model = booster(**given)
    assert vars(model) == given
    other = {name: [] for name in names}
    assert vars(clone(model.set_params(**other))) == other


@every_booster
def test_a_subclass_may_have_parameters_of_its_own(booster):
    class Own(booster):
        def __init__(self, more=1, n_estimators=7):
            super().__init__(n_estimators=n_estimators)
            self.more = more

    model = clone(Own(more=3, n_estimators=5))
    assert (model.more, model.n_estimators, model.tol) == (3, 5, booster().tol)
