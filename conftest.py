"""Pictures are drawn without a screen, interrupts arrive, small tables reach the paths of large ones."""

import os
import signal

import pytest

from maboost.runtime import thresholds

os.environ.setdefault("MPLBACKEND", "Agg")
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell's background ignores

MATHEMATICS = {"mirror", "engine", "boosting", "row_sampling", "theory"}


@pytest.fixture(autouse=True)
def small_tables_as_good_as_long(request, monkeypatch):
    """Tests of the mathematics have small tables, and reach what is for long ones only.

    Other tests keep the threshold: some compare with processes of their own, which do not see it set.
    """
    if request.path.parent.name in MATHEMATICS:
        monkeypatch.setattr(thresholds, "SHORT_TABLE", 100)
