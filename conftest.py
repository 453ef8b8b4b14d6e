"""Pictures are drawn without a screen, interrupts arrive, work is divided by its size alone: in all tests."""

import os
import signal

import pytest

os.environ.setdefault("MPLBACKEND", "Agg")
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell's background ignores


@pytest.fixture(autouse=True)
def threads_as_good_as_awake(monkeypatch):
    """Whether a thread sleeps is a matter of time; tests of divided work are to find it divided."""
    monkeypatch.setattr("maboost.runtime.threads._WAKING", 1)


@pytest.fixture(autouse=True)
def tables_that_are_not_short(request, monkeypatch):
    """What is for long tables only is to be met by tests of the mathematics, whose tables are small.

    Not by all tests: other processes, with which some compare, know nothing of it.
    """
    if request.path.parent.name in ("mirror", "boosting", "theory"):
        monkeypatch.setattr("maboost.mirror.passes._SHORT", 100)
