"""Threads that stay awake for a moment between two pieces of work.

To wake a thread that sleeps takes a tenth of a millisecond, on a virtual machine several times that:
as long as a whole pass over a hundred thousand rows. The passes of a boosting round follow each other
faster, so a helper watches a flag in memory for about a millisecond before it goes to sleep, and so does
the caller who waits for it. While they watch they hold no interpreter lock, and what they watch for is
written when its writer is about to give the lock back, or has: whoever sees it finds the lock free.
"""

from __future__ import annotations

import atexit
import os
import platform
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from maboost.runtime.kernels import kernel

__all__ = ["Crew", "available_cores", "take_next"]

_LOOKS = 32  # at a flag, about a microsecond, before the core is offered to others
_TURNS = 1 << 10  # of that before going to sleep
_GRACE = (
    200  # pauses from seeing work to asking for the interpreter lock, held until then by its giver
)
_ASKED, _DONE = 0, 8  # places of two flags, on cache lines of their own
_YIELDS = os.name == "posix"
_PAUSES = platform.machine().lower() in ("x86_64", "amd64")


def available_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@intrinsic
def _load(typingctx: Any, flags: Any, place: Any) -> Any:
    """What a flag is at this moment."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        return builder.load_atomic(builder.gep(data, [args[1]]), "acquire", 8)

    return types.int64(flags, types.intp), codegen


@intrinsic
def _store(typingctx: Any, flags: Any, place: Any, value: Any) -> Any:
    """Set a flag for others to see."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        builder.store_atomic(args[2], builder.gep(data, [args[1]]), "release", 8)
        return context.get_dummy_value()

    return types.void(flags, types.intp, types.int64), codegen


@intrinsic
def take_next(typingctx: Any, taken: Any, amount: Any) -> Any:
    """Add to a count that threads share; what it was before.

    So each takes the next piece of work when it is free, and none waits for a slower one.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        return builder.atomic_rmw("add", data, args[1], "monotonic")

    return types.int64(taken, types.int64), codegen


@intrinsic
def _pause(typingctx: Any) -> Any:
    """Tell the processor that this is a loop that waits."""
    return types.void(), _calls("llvm.x86.sse2.pause" if _PAUSES else None)


@intrinsic
def _yield(typingctx: Any) -> Any:
    """Leave the core to another thread, if one waits for it: perhaps the one that is waited for."""
    return types.void(), _calls("sched_yield" if _YIELDS else None)


def _calls(name: str | None) -> Any:
    """Code that calls a function of the C library or of the compiler, without arguments."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        if name is not None:
            result = ir.VoidType() if name.startswith("llvm.") else ir.IntType(32)
            call = ir.FunctionType(result, [])
            builder.call(cgutils.get_or_insert_function(builder.module, call, name), [])
        return context.get_dummy_value()

    return codegen


@kernel
def _watch(flags, tell, told, place, value, turns):
    """Set flag `tell` to `told`, then watch another until it reaches `value`; False if that lasts."""
    if tell >= 0:
        _store(flags, tell, told)
    for _ in range(turns):
        for _ in range(_LOOKS):
            if _load(flags, place) >= value:
                return True
            _pause()
        _yield()
    return False


@kernel
def _linger():
    """A few microseconds."""
    for _ in range(_GRACE):
        _pause()


class _Helper:
    """One thread, and the one piece of work that it has at a time.

    Python's part of the state (`asked`, `done`, `asleep`, `awaited`) changes under the interpreter lock,
    each side writing its own before it reads the other's: so none sleeps through what it waits for.
    """

    def __init__(self, turns: int) -> None:
        self.turns = turns
        self.flags = np.zeros(16, dtype=np.int64)
        self.asked, self.done = 0, 0
        self.asleep, self.awaited, self.woken = False, False, False
        self.work_to_do: SimpleQueue[None] = SimpleQueue()  # what wakes it
        self.work_done: SimpleQueue[None] = SimpleQueue()  # what wakes who waits for it
        self.task: Callable[[], Any] | None = None
        self.result: Any = None
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._serve, name="maboost", daemon=True)
        self.thread.start()

    def ask(self, task: Callable[[], Any]) -> None:
        """Give it a piece of work, which it has none of now."""
        self.task = task
        self.asked += 1
        self.flags[_ASKED] = self.asked
        self.woken = self.asleep
        if self.woken:
            self.work_to_do.put(None)

    def wait(self) -> None:
        """Until the work is done."""
        turns = 0 if self.woken else self.turns  # one that wakes may be given the core of who waits
        if _watch(self.flags, -1, 0, _DONE, self.asked, turns):
            return
        self.awaited = True
        while self.done < self.asked:
            self.work_done.get()
        self.awaited = False

    def taken(self) -> tuple[Any, BaseException | None]:
        """The result of the work that is done, or the error."""
        found = self.result, self.error
        self.result = self.error = None
        return found

    def dismiss(self) -> None:
        """Let the thread end once it has no work."""
        self.asked += 1
        self.flags[_ASKED] = self.asked
        self.work_to_do.put(None)

    def _serve(self) -> None:
        while True:
            coming = self.done + 1
            if _watch(self.flags, _DONE, self.done, _ASKED, coming, self.turns):
                _linger()
            else:
                self.asleep = True
                while self.asked < coming:
                    self.work_to_do.get()
                self.asleep = False
            if self.task is None:
                return
            try:
                self.result = self.task()
            except BaseException as error:
                self.error = error
            self.task = None
            self.done += 1
            if self.awaited:
                self.work_done.put(None)


class Crew:
    """Helpers that work for one caller at a time.

    >>> Crew.run([lambda: 1, lambda: 2, lambda: 3])
    [1, 2, 3]
    """

    _free: dict[int, list[Crew]] = {}
    _all: list[Crew] = []

    def __init__(self, count: int) -> None:
        # who watches takes a core from who works
        turns = _TURNS if count < available_cores() else 0
        self.helpers = [_Helper(turns) for _ in range(count)]
        Crew._all.append(self)

    @classmethod
    def is_awake(cls, count: int) -> bool:
        """Whether so many helpers are watching for work at this moment."""
        next_crew = cls._free.get(count, [])[-1:]  # a slice: another thread may take it in between
        return any(not any(helper.asleep for helper in crew.helpers) for crew in next_crew)

    @classmethod
    def run(cls, tasks: list[Callable[[], Any]]) -> list[Any]:
        """The results of all tasks, the first of which the caller does itself.

        Whatever happens to it, all have ended when this returns.
        """
        free = cls._free.setdefault(len(tasks) - 1, [])
        try:
            crew = free.pop()
        except IndexError:  # all are at work for others
            crew = cls(len(tasks) - 1)
        try:
            for helper, task in zip(crew.helpers, tasks[1:], strict=True):
                helper.ask(task)
            first = tasks[0]()
        finally:
            found = crew._ended()
            free.append(crew)
        for _, error in found:
            if error is not None:
                raise error
        return [first, *(result for result, _ in found)]

    def _ended(self) -> list[tuple[Any, BaseException | None]]:
        """What came of all work, once it has ended."""
        try:
            for helper in self.helpers:
                helper.wait()
        except BaseException:  # interrupted: they may be at work still
            self.dismiss()
            raise
        return [helper.taken() for helper in self.helpers]

    def dismiss(self) -> None:
        """Let all its threads end."""
        Crew._all.remove(self)
        for helper in self.helpers:
            helper.dismiss()


def _forget() -> None:
    """A forked child has none of its parent's threads."""
    Crew._free.clear()
    Crew._all.clear()


def _dismiss_all() -> None:
    """Before the interpreter ends, which threads in the middle of a kernel would not survive."""
    crews = list(Crew._all)
    for crew in crews:
        crew.dismiss()
    for crew in crews:
        for helper in crew.helpers:
            helper.thread.join(1.0)


atexit.register(_dismiss_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
