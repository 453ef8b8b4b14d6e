"""Machine code of the stages, compiled without a GPU: no operation on doubles may be contracted into a fused one."""

import re
from importlib.util import find_spec
from types import SimpleNamespace

import pytest

if find_spec("numba_cuda") is None:
    pytest.skip("needs numba-cuda, of the extra cuda", allow_module_level=True)

from numba import cuda, types

from maboost.learners.tree.cuda import stages

BYTE, INDEX, LEAF, CELL, GAIN, FLAG = (
    types.uint8, types.uint32, types.int32, types.int64, types.float64, types.boolean,
)  # fmt: skip


def array(dtype, dimensions):
    return types.Array(dtype, dimensions, "C")


CELLS, NUMBERS = array(CELL, 2), array(CELL, 1)
LIMITS = (CELL, CELL, CELL, GAIN, FLAG)
FOUND = (array(GAIN, 2), CELLS, CELLS, array(BYTE, 2))
SPLIT = (array(BYTE, 2), array(INDEX, 2), FLAG, CELLS, NUMBERS, NUMBERS, array(BYTE, 2))
SIGNATURES = {
    "clear_histograms": (CELLS, NUMBERS),
    "subtract_histograms": (CELLS, CELLS),
    "add_histograms": (
        array(BYTE, 2), CELLS, array(BYTE, 1), FLAG, array(INDEX, 2), FLAG, CELLS, NUMBERS, CELL, CELL, CELLS,
    ),
    "find_splits_of_two": (
        CELLS, NUMBERS, CELLS, array(GAIN, 1), array(GAIN, 1), CELLS, NUMBERS, array(BYTE, 1), NUMBERS,
        *LIMITS, *FOUND,
    ),
    "find_splits_of_many": (
        CELLS, NUMBERS, CELLS, CELLS, NUMBERS, array(BYTE, 1), CELL, *LIMITS, *FOUND,
    ),
    "choose_features": (array(GAIN, 2), CELLS, CELLS),
    "divide_rows": (*SPLIT, CELLS),
    "number_rows": (*SPLIT, NUMBERS, array(LEAF, 1)),
    "write_leaves": (array(INDEX, 2), CELLS, NUMBERS, array(LEAF, 1)),
    "send_down": (array(BYTE, 2), array(LEAF, 1), array(LEAF, 1), array(BYTE, 2), array(LEAF, 1)),
}  # fmt: skip


@pytest.fixture(autouse=True)
def a_device(monkeypatch):
    """The compute capability of an H100, since numba asks the GPU for its own."""
    from numba.cuda import dispatcher

    device = SimpleNamespace(compute_capability=(9, 0))
    monkeypatch.setattr(dispatcher, "get_current_device", lambda: device)


def test_every_kernel_is_compiled_here():
    names = {name for name in stages.__all__ if hasattr(getattr(stages, name), "py_func")}
    assert names - {"times"} == set(SIGNATURES)


@pytest.mark.parametrize("name", SIGNATURES)
def test_no_operation_is_contracted(name):
    kernel = getattr(stages, name)
    code, _ = cuda.compile_ptx(kernel.py_func, SIGNATURES[name], cc=(9, 0))
    found = re.findall(
        r"\b(?:fma|mad)\S*f64|\bmul\.f64", code
    )  # ptxas may contract a plain product
    assert not found
    if name.startswith("find_splits"):
        assert "mul.rn.f64" in code
        assert "div.rn.f64" in code
