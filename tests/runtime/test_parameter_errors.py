"""Errors that carry their parameter, and tell it by other names."""

import pickle

import pytest

from maboost import CheckpointError, SmoothBoostClassifier
from maboost.data import RareCategoriesWarning
from maboost.runtime.parameter_errors import (
    Advice,
    Message,
    ParameterError,
    ParameterWarning,
    Setting,
)


def named(part):
    return f"<{part.name}>"


@pytest.mark.parametrize(
    "kind", [ParameterError, ParameterWarning, CheckpointError, RareCategoriesWarning]
)
def test_parts_survive_a_pickle(kind):
    inner = Message(Setting("tol", 1e-7), " and ", Advice("more", "some more"))
    told = pickle.loads(pickle.dumps(kind("look at ", inner, " here")))
    assert type(told) is kind
    assert str(told) == "look at tol=1e-07 and some more here"
    assert told.message.with_names(named) == "look at <tol> and <more> here"
    assert told.parameter == "tol"


@pytest.mark.parametrize("given", [(), (None,), (2.0,), (0.2, "web"), (0.2, None)], ids=str)
def test_a_setting_without_value_or_key_stays_so_in_a_pickle(given):
    setting = Setting("tol", *given)
    again = pickle.loads(pickle.dumps(setting))
    assert again == setting
    assert (again.has_value, again.has_key) == (len(given) > 0, len(given) > 1)
    assert str(again) == str(setting)


def test_a_message_may_name_no_parameter():
    assert ParameterError("no such thing").parameter is None
    assert str(ParameterError("no such thing")) == "no such thing"


@pytest.mark.parametrize(
    ("given", "parameter"),
    [
        ({"flip_rates": {0: 0.6, 1: 0.5}}, "flip_rates"),
        ({"class_weight": {0: 0.0, 1: 0.0}}, "class_weight"),
        ({"early_stopping": True, "validation_fraction": 1e-9}, "validation_fraction"),
    ],
    ids=lambda given: str(given),
)
def test_an_error_of_a_fit_knows_its_parameter(given, parameter):
    X, y = [[0.0], [1.0]] * 5, [0, 1] * 5
    with pytest.raises(ParameterError) as caught:
        SmoothBoostClassifier(**given).fit(X, y)
    assert caught.value.parameter == parameter
    assert parameter in str(caught.value)
