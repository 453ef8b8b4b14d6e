"""Pictures are drawn without a screen, and work is divided by its size alone, in tests and in doctests."""

import os

import pytest

os.environ.setdefault("MPLBACKEND", "Agg")


@pytest.fixture(autouse=True)
def threads_as_good_as_awake(monkeypatch):
    """Whether a thread sleeps is a matter of time; tests of divided work are to find it divided."""
    monkeypatch.setattr("maboost.threads._WAKING", 1)
