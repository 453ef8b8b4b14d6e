"""What workers tell each other: the same values and types on the other side, and no code ever."""

from __future__ import annotations

import datetime
import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers import examples, on_shards

from maboost.runtime.communicator import gathered_objects
from maboost.runtime.encoding import DecodingError, decoded, encoded

plain = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary(max_size=20),
    st.sampled_from(["\ud800", -0.0, 2**70]),
)  # fmt: skip
values = st.recursive(
    plain,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(st.one_of(st.text(), st.integers(), st.none()), inner, max_size=4),
    ),
    max_leaves=12,
)


def told(value):
    """A form in which values of other types or bits differ."""
    return repr(value)


@given(value=values)
@examples(200)
def test_values_come_back(value):
    assert told(decoded(encoded(value) + bytes(5))) == told(value)


@pytest.mark.parametrize(
    "array",
    [
        np.array([-0.0, math.nan, math.inf, 5e-324]),
        np.arange(6, dtype=np.uint64).reshape(2, 3)[:, ::2],
        np.array(["a", "longer", ""]),
        np.array([], dtype="U3"),
        np.zeros((0, 4), dtype=np.float32),
        np.array([True, False]),
        np.array(["2020-01-01"], dtype="M8[D]"),
        np.array(3),
    ],
)
def test_arrays_keep_dtype_shape_and_bits(array):
    found = decoded(encoded([array, "after"]))[0]
    assert (found.dtype, found.shape) == (array.dtype, array.shape)
    assert found.tobytes() == array.tobytes()
    assert found.flags.writeable


def test_objects_and_scalars():
    labels = np.array(["a", None, 3, ("b",)], dtype=object)
    found = decoded(encoded(labels))
    assert found.dtype == object
    assert found.tolist() == labels.tolist()
    scalar = decoded(encoded(np.float32(0.1)))
    assert (type(scalar), scalar) == (np.float32, np.float32(0.1))
    assert decoded(encoded(np.str_(""))) == ""


@pytest.mark.parametrize("value", [datetime.date(2020, 1, 1), {1}, object(), np.array([{1}])])
def test_other_values_are_refused(value):
    with pytest.raises(TypeError, match="turn it into text"):
        encoded({"a": value})


class Hostile:
    ran = False

    def __reduce__(self):
        return setattr, (Hostile, "ran", True)


def message(text, buffers=b""):
    return len(text).to_bytes(8, "little") + text + buffers


@pytest.mark.parametrize(
    "content",
    [
        b"", b"\0" * 7, pickle.dumps(Hostile()), message(pickle.dumps(Hostile())),
        encoded(np.arange(9))[:-8], message(b"{}"), message(b"[" * 100_000),
        message(b'{"array": "O", "shape": [1]}', bytes(8)),
        message(b'{"array": "<i8,O", "shape": [1]}', bytes(16)),
        message(b'{"array": "<U0", "shape": [1000000000000]}'),
        message(b'{"array": "<i8", "shape": [1000000000000]}'),
        message(b'{"array": "<i8", "shape": [0, 1000000000000000000000000000000]}'),
        message(b'{"array": "<i8", "shape": [-1, -1]}', bytes(8)),
        message(b'{"array": "<i8"}'), message(b'{"bytes": -1}'), message(b'{"dict": [1]}'),
        message(b'{"dict": [[1], 2]}'), message(b'{"tuple": 3}'),
        message(b'{"objects": [1], "shape": [2]}'),
    ],
)  # fmt: skip
def test_hostile_messages_are_errors_and_run_nothing(content):
    with pytest.raises(DecodingError, match="cannot be read"):
        decoded(content)
    assert not Hostile.ran


def test_a_shard_that_sends_a_pickle_runs_nothing_on_the_others():
    class Lying:
        """A shard that replaces what it gathers by a pickle; other messages pass."""

        def __init__(self, comm):
            self.comm, self.rank, self.size = comm, comm.rank, comm.size

        def allreduce(self, array, op="sum"):
            if self.rank and array.size > self.size:
                content = pickle.dumps(Hostile()).ljust(8 * (array.size // 2), b"\0")
                half = np.frombuffer(content, dtype=np.int64)[: array.size // 2]
                array = np.concatenate([np.zeros_like(half), half])
            return self.comm.allreduce(array, op)

    def work(comm):
        with pytest.raises(DecodingError):
            gathered_objects("x" * 200, Lying(comm))

    on_shards(2, work)
    assert not Hostile.ran


def test_values_of_all_shards_by_rank():
    parts = [("a", None), {1: np.arange(3.0)}, b"\x00\xff"]
    for found in on_shards(3, lambda comm: gathered_objects(parts[comm.rank], comm)):
        assert told(found) == told(parts)
