"""How kernels are compiled."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

from numba import njit

__all__ = ["kernel"]


def kernel(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """A function of arrays, compiled when it is first called, and kept on disk from then on.

    It lets other threads run. Nobody calls back kernels from C, and not to prepare for it saves an eighth
    of the time to compile. Where there is no folder to keep it in, every process compiles it anew: it is
    code that will be run, and no place for it is safe but the user's own.
    """
    if function is None:
        return partial(kernel, **options)
    options |= {"nogil": True, "no_cfunc_wrapper": True}
    try:
        return njit(cache=True, **options)(function)
    except RuntimeError as error:
        if "no locator available" not in str(error):
            raise
        warnings.warn(
            "neither the folder of the package nor the cache of the user can be written to: every process "
            "will compile the kernels anew, which takes some ten seconds; set NUMBA_CACHE_DIR to a folder of "
            "your own to keep them",
            UserWarning,
            stacklevel=1,  # here: so that it is said once, and not for every kernel
        )
        return njit(**options)(function)
