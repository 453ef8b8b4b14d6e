"""A shelf hands out no array that somebody holds."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers import examples

from maboost.memory import Shelf


@given(moves=st.lists(st.tuples(st.sampled_from(["whole", "part", "drop"]), st.integers(0, 9))))
@examples(200)
def test_what_is_held_keeps_its_content(moves):
    shelf, held = Shelf(6, np.int64), {}
    for time, (move, place) in enumerate(moves):
        held.pop(place, None)
        if move == "drop":
            continue
        array = shelf.array()
        array[:] = time
        held[place] = (time, array if move == "whole" else array[2:4])
        del array
        for written, kept in held.values():
            np.testing.assert_array_equal(kept, written)
    addresses = [kept.__array_interface__["data"][0] for _, kept in held.values()]
    assert len(set(addresses)) == len(addresses)


def test_what_nobody_holds_is_used_again():
    shelf = Shelf(5)
    places = set()
    for _ in range(20):
        first, second = shelf.array(), shelf.array()
        places |= {first.__array_interface__["data"][0], second.__array_interface__["data"][0]}
        del first, second
    assert len(places) == 2


def test_every_array_is_as_asked():
    array = Shelf(3, np.int32).array()
    assert array.dtype == np.int32
    assert array.shape == (3,)
