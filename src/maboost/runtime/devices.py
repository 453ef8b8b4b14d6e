"""The choice of the device on which trees grow."""

from __future__ import annotations

from importlib.util import find_spec

from numba import config

from maboost.runtime.optional_packages import missing_package

__all__ = ["cuda_problem", "require_cuda"]


def cuda_problem() -> ImportError | RuntimeError | None:
    """Return the error that says why no GPU can be used here; None if one can.

    numba's simulator (``NUMBA_ENABLE_CUDASIM=1``) counts as a GPU.
    """
    if not config.ENABLE_CUDASIM and find_spec("numba_cuda") is None:
        missing = missing_package("device='cuda'", "numba-cuda", "cuda")
        return ImportError(f"{missing}, or set device='cpu'")
    from numba import cuda

    if not cuda.is_available():
        return RuntimeError(
            "device='cuda' needs an NVIDIA GPU with its driver, and none is found (nvidia-smi lists those that "
            "are): set device='cpu', or 'auto' to use a GPU only where there is one"
        )
    return None


def require_cuda() -> None:
    """Raise an error that says what is missing if no GPU can be used."""
    problem = cuda_problem()
    if problem is not None:
        raise problem
