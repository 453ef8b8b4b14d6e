"""Loops inside kernels: every chunk once, on any number of threads, for concurrent callers and after a fork."""

import multiprocessing
import os
import sys
import threading

import numpy as np
import pytest

from maboost.runtime.kernels import kernel
from maboost.runtime.parallel import Team, parallel_for, run_kernel


@kernel
def _count(times, weights, chunk, slot):
    times[chunk] += 1
    weights[slot] += np.int64(chunk)


@kernel
def _count_all(team, times, weights, loops):
    for _ in range(loops):
        parallel_for(team, times.size, _count, (times, weights))
    return loops


@kernel
def _need_memory(sizes, chunk, slot):
    np.empty(sizes[chunk])


@kernel
def _need_too_much(team, sizes):
    parallel_for(team, sizes.size, _need_memory, (sizes,))


def check(threads, chunks=7, loops=300):
    times, weights = np.zeros(chunks, dtype=np.int64), np.zeros(threads, dtype=np.int64)
    assert run_kernel(threads, _count_all, times, weights, loops) == loops
    np.testing.assert_array_equal(times, loops)
    assert weights.sum() == loops * chunks * (chunks - 1) // 2
    return True


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
@pytest.mark.parametrize("chunks", [0, 1, 2, 33])
def test_every_chunk_runs_once_in_every_loop(threads, chunks):
    check(threads, chunks)


def test_concurrent_callers_have_teams_of_their_own():
    failures = []

    def work():
        try:
            for _ in range(20):
                check(3, loops=50)
        except BaseException as error:
            failures.append(error)

    callers = [threading.Thread(target=work) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert not failures


def test_helpers_that_sleep_are_woken():
    check(2, loops=1)
    (team,) = Team._idle[2][-1:]
    for _ in range(1000):
        if all(team._asleep):
            break
        threading.Event().wait(0.01)
    assert all(team._asleep)
    check(2)


@pytest.mark.skipif(not hasattr(os, "fork") or sys.platform == "darwin", reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_has_its_own_teams():
    check(2)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(check, [1, 2, 3, 4]) == [True] * 4
    check(2)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_chunk_without_memory_is_an_error(threads):
    sizes = np.full(4, 1 << 59)
    with pytest.raises(MemoryError, match="memory"):
        run_kernel(threads, _need_too_much, sizes)
    check(threads)  # and the team goes on


@kernel
def _read_after_allocating(values, out, chunk, slot):
    other = np.full(values.size, -1.0)  # takes the memory of `values` if that is free already
    out[chunk] = values[chunk] + other[chunk] + 1.0


@kernel
def _pass_an_array_that_is_not_used_again(team, n):
    out = np.empty(n)
    parallel_for(team, n, _read_after_allocating, (np.arange(n) * 1.0, out))
    return out


@pytest.mark.parametrize("count", [1, 2])
def test_arrays_live_until_the_loop_ends(count):
    found = run_kernel(count, _pass_an_array_that_is_not_used_again, 64)
    np.testing.assert_array_equal(found, np.arange(64))


@kernel
def _copy_from(source, found, chunk, slot):
    room = np.empty_like(source)  # takes the memory of `source` if that is free
    room[:] = -1
    found[chunk] = source[chunk] + room.size + room.sum()


@kernel
def _copy_temporary(team, found):
    source = np.arange(found.size)
    parallel_for(team, found.size, _copy_from, (source, found))


@pytest.mark.parametrize("threads", [1, 2])
def test_arrays_made_for_one_loop_live_until_its_end(threads):
    for _ in range(20):
        found = np.zeros(50, dtype=np.int64)
        run_kernel(threads, _copy_temporary, found)
        np.testing.assert_array_equal(found, np.arange(50))
