"""Kernels where nothing can be written."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from numba.core.caching import _CacheLocator

from maboost.jit import kernel


def refuse(locator):
    raise OSError("a folder that cannot be written to")


def test_kernels_work_where_they_cannot_be_kept(monkeypatch):
    """As in a container whose user has no home and does not own the package; it is said once."""
    monkeypatch.setattr(_CacheLocator, "ensure_cache_path", refuse)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("default")
        doubled = kernel(lambda x: x + x)
        halved = kernel(inline="always")(lambda x: 0.5 * x)
    assert [w.category for w in said] == [UserWarning]
    assert "set NUMBA_CACHE_DIR" in str(said[0].message)
    np.testing.assert_array_equal(doubled(np.arange(3.0)), [0.0, 2.0, 4.0])
    assert halved(3.0) == 1.5


def test_other_faults_of_the_compiler_are_not_hidden(monkeypatch):
    def broken(locator):
        raise RuntimeError("something else")

    monkeypatch.setattr(_CacheLocator, "ensure_cache_path", broken)
    with pytest.raises(RuntimeError, match="something else"):
        kernel(lambda x: x)
