"""Threads that stay awake: whoever waits for them gets what they did, whatever happens meanwhile."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from numba import njit

from maboost.runtime import crew
from maboost.runtime.crew import Crew
from maboost.runtime.threads import Threads


@njit(nogil=True, cache=True)
def busy(turns):
    total = 0.0
    for i in range(turns):
        total += 1.0 / (i + 1.0)
    return total


@pytest.mark.parametrize("turns", [0, 1 << 10])
@pytest.mark.parametrize("helpers", [1, 2, 5])
def test_results_come_in_the_order_of_the_tasks(monkeypatch, helpers, turns):
    """Awake or not: with no turns a helper goes to sleep at once, and so does who waits for it."""
    monkeypatch.setattr(Crew, "_free", {})
    monkeypatch.setattr(crew, "_TURNS", turns)
    chance = random.Random(helpers)
    for trial in range(300):
        lengths = [chance.choice([0, 10, 20_000]) for _ in range(helpers + 1)]
        tasks = [lambda k=k, n=n, t=trial: (busy(n), t, k)[1:] for k, n in enumerate(lengths)]
        assert Crew.run(tasks) == [(trial, k) for k in range(helpers + 1)]
        if trial % 50 == 0:
            time.sleep(0.01)  # all are asleep by now
    assert len(Crew._free[helpers]) == 1


@pytest.mark.parametrize("who", [0, 1, 2])
def test_an_error_reaches_the_caller_after_all_have_ended(who):
    done = []

    def task(k):
        if k == who:
            raise ZeroDivisionError(f"task {k}")
        busy(200_000)
        done.append(k)

    for _ in range(20):
        done.clear()
        with pytest.raises(ZeroDivisionError, match=f"task {who}"):
            Crew.run([lambda k=k: task(k) for k in range(3)])
        assert sorted(done) == [k for k in range(3) if k != who]
    assert Crew.run([lambda: 1, lambda: 2, lambda: 3]) == [1, 2, 3]


def test_many_callers_at_once_and_work_that_divides_its_own():
    def inner(a, b):
        return sum(Threads(2, block=1).over(b - a, lambda c, d: busy(200) * 0 + d - c, worth=1))

    found, callers = {}, 6

    def call(k):
        threads = Threads(3, block=1)
        found[k] = [sum(threads.over(50 + k, inner, worth=1)) for _ in range(100)]

    running = [threading.Thread(target=call, args=(k,)) for k in range(callers)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert found == {k: [50 + k] * 100 for k in range(callers)}


def test_nothing_is_kept_alive_by_an_idle_helper():
    import weakref

    class Result:
        pass

    def made():
        return Result()

    watched = weakref.ref(made)
    results = [weakref.ref(r) for r in Crew.run([made, made])]
    del made
    assert watched() is None
    assert [r() for r in results] == [None, None]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_has_helpers_of_its_own():
    Crew.run([lambda: None, lambda: None])
    child = os.fork()
    if child == 0:  # pragma: no cover
        os._exit(0 if Crew.run([lambda: 1, lambda: 2]) == [1, 2] else 1)
    for _ in range(300):
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            break
        time.sleep(0.1)
    else:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        pytest.fail("the child waited for helpers that it does not have")
    assert status == 0


SCRIPT = """
import signal, sys, time
from maboost.runtime.crew import Crew
def work(seconds):
    time.sleep(seconds)
    return seconds
assert Crew.run([lambda: work(0.0), lambda: work(0.01)]) == [0.0, 0.01]
signal.signal(signal.SIGALRM, signal.default_int_handler)
for who in ([0.5, 0.0], [0.0, 0.5]):
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    try:
        Crew.run([lambda s=s: work(s) for s in who])
    except KeyboardInterrupt:
        print("interrupted", flush=True)
assert Crew.run([lambda: 1, lambda: 2]) == [1, 2]
print("goes on", flush=True)
if sys.argv[1] == "error":
    raise SystemExit(3)
"""


@pytest.mark.parametrize(("how", "code"), [("plain", 0), ("error", 3)])
def test_interrupts_reach_the_caller_and_the_process_ends(how, code):
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT, how], capture_output=True, text=True, timeout=60
    )
    assert ended.stdout.split("\n") == ["interrupted", "interrupted", "goes on", ""]
    assert (ended.returncode, ended.stderr) == (code, "")


def test_sums_of_a_divided_array_are_those_of_the_whole():
    values = np.arange(100_000)
    for count in (1, 2, 3):
        parts = Threads(count).over(values.size, lambda a, b: int(values[a:b].sum()), worth=1)
        assert sum(parts) == int(values.sum())


def test_a_thread_that_sleeps_is_woken_only_for_more_work(monkeypatch):
    monkeypatch.setattr(Crew, "_free", {})
    monkeypatch.setattr("maboost.runtime.thresholds.SLEEPING", 4)
    threads = Threads(2, block=1)

    def divided(n):
        return len(threads.over(n, lambda a, b: None, worth=10)) == 2

    assert not Crew.is_awake(1)  # there is none yet
    assert not divided(79)
    assert divided(80)
    (crew,) = Crew._free[1]
    for helper in crew.helpers:
        helper.turns = 1 << 30  # watches from its next piece of work on
    assert divided(80)
    assert Crew.is_awake(1)
    assert divided(20)
    assert not divided(19)
    Crew._free.clear()
    crew.dismiss()
    assert threads.each([1, 2], lambda item: item) == [1, 2]
    assert threads.each([], lambda item: item) == []
