"""How kernels are compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit

__all__ = ["kernel"]


def kernel(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """A function of arrays, compiled when it is first called, and kept on disk from then on.

    It lets other threads run. Nobody calls back kernels from C, and not to prepare for it saves an eighth
    of the time to compile.
    """
    decorate = njit(nogil=True, cache=True, no_cfunc_wrapper=True, **options)
    return decorate if function is None else decorate(function)
