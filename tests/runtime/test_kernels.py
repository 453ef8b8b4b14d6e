"""Kernels where nothing can be written, and where what was written is damaged."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings

import numpy as np
import pytest
from numba.core.caching import _CacheLocator

from maboost.runtime.kernels import kernel


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


# ------------------------------------------------------------------------- damaged files of the cache

SCRIPT = """
import warnings
import numpy as np
from maboost.runtime.kernels import kernel

warnings.simplefilter("always")

@kernel
def doubled(x):
    return x + x

print(doubled(np.arange(3.0)).tolist())
print(sum(doubled.stats.cache_hits.values()))
"""


def compiled_and_called(tmp_path):
    """What a process says that calls a kernel, with the cache in a folder of its own."""
    script = tmp_path / "script.py"
    if not script.exists():  # numba compares its time
        script.write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=120,
        env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    result, hits = done.stdout.splitlines()
    assert result == "[0.0, 2.0, 4.0]"
    return int(hits), done.stderr


def flipped(content):
    """One bit in the middle, which is machine code: pickle would not notice."""
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


def test_damaged_files_of_the_cache_are_named_and_replaced(tmp_path):
    """Cut off as by a crash, zeroed, longer, or with another bit in the machine code."""
    assert compiled_and_called(tmp_path) == (0, "")
    assert compiled_and_called(tmp_path) == (1, "")
    damages = [
        (".nbi", lambda content: content[: len(content) // 2]),
        (".nbi", lambda content: b""),
        (".nbc", lambda content: bytes(len(content))),
        (".nbc", flipped),
    ]
    for suffix, damage in damages:
        files = (tmp_path / "cache").rglob(f"*{suffix}")
        (file,) = (path for path in files if "doubled" in path.name)
        file.write_bytes(damage(file.read_bytes()))
        hits, said = compiled_and_called(tmp_path)
        assert hits == 0
        assert str(file) in said
        assert "is damaged: it is compiled again" in said
        assert said.count("UserWarning") == 1
    assert compiled_and_called(tmp_path) == (1, "")


def test_without_compilation_kernels_are_functions(tmp_path):
    code = "from maboost.runtime.kernels import kernel; print(kernel(lambda x: x + x)(2))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120,
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
    )  # fmt: skip
    assert done.stdout == "4\n", done.stderr
