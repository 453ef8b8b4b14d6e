"""Parallel loops inside compiled kernels.

A kernel runs ``parallel_for(team, chunks, body, args)``: helper threads and the caller take the chunks
0 to ``chunks - 1`` one by one and call ``body(*args, chunk, slot)`` for each, where `slot` numbers the
threads. The loop ends when all chunks are done. No chunk needs the interpreter lock, so a loop costs
microseconds however many threads there are, and a kernel may run many.

The helpers stay inside a compiled function while they wait for a loop, for about a millisecond after the
last one. Then they sleep until the next kernel is called. Each caller has a team of its own, so concurrent
fits do not share one. A forked process starts without teams. Numba's own parallel loops offer neither: its
OpenMP layer ends a forked child, and its work queue aborts when two threads use it.
"""

from __future__ import annotations

import atexit
import os
import platform
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from maboost.runtime.kernels import kernel

__all__ = [
    "Team",
    "available_cores",
    "chunks_of",
    "folded_slots",
    "parallel_for",
    "run_kernel",
    "slots",
]

# Words of a team's shared memory. Words that threads write often have a cache line (8 words) each.
_CLAIM = 0  # the number of the loop in the high half, its unclaimed chunks in the low half
_DONE = 8  # chunks of the loop that are finished
_BODY, _ARGUMENTS, _FAILED, _HELPERS = 16, 17, 18, 19
_LEAVE = 24  # set when the helpers must end
_WORDS = 32

_LOOKS = 32  # reads of a flag, about a microsecond, before the helper yields its core
_PATIENCE = 1 << 10  # rounds of such reads before a helper goes to sleep
_YIELDS = os.name == "posix"
_PAUSES = platform.machine().lower() in ("x86_64", "amd64")


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _address(context: Any, builder: Any, array_type: Any, array: Any, place: Any) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    return builder.gep(data, [place])


@intrinsic
def _load(typingctx: Any, words: Any, place: Any) -> Any:
    """Read a word that another thread may have written."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        where = _address(context, builder, signature.args[0], *args[:2])
        return builder.load_atomic(where, "acquire", 8)

    return types.int64(words, types.intp), codegen


@intrinsic
def _store(typingctx: Any, words: Any, place: Any, value: Any) -> Any:
    """Write a word for other threads, after all earlier writes."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        where = _address(context, builder, signature.args[0], *args[:2])
        builder.store_atomic(args[2], where, "release", 8)
        return context.get_dummy_value()

    return types.void(words, types.intp, types.int64), codegen


@intrinsic
def _add(typingctx: Any, words: Any, place: Any, value: Any) -> Any:
    """Add to a word that threads share; return the old value."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        where = _address(context, builder, signature.args[0], *args[:2])
        return builder.atomic_rmw("add", where, args[2], "acq_rel")

    return types.int64(words, types.intp, types.int64), codegen


@intrinsic
def _replace(typingctx: Any, words: Any, place: Any, old: Any, new: Any) -> Any:
    """Replace a word if it still is `old`; return whether it was."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        where = _address(context, builder, signature.args[0], *args[:2])
        pair = builder.cmpxchg(where, args[2], args[3], "acq_rel", "acquire")
        return builder.extract_value(pair, 1)

    return types.boolean(words, types.intp, types.int64, types.int64), codegen


def _call_without_arguments(name: str | None) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        if name is not None:
            result = ir.VoidType() if name.startswith("llvm.") else ir.IntType(32)
            function = cgutils.get_or_insert_function(
                builder.module, ir.FunctionType(result, []), name
            )
            builder.call(function, [])
        return context.get_dummy_value()

    return codegen


@intrinsic
def _pause(typingctx: Any) -> Any:
    """Tell the processor that this is a spin loop."""
    return types.void(), _call_without_arguments("llvm.x86.sse2.pause" if _PAUSES else None)


@intrinsic
def _yield_core(typingctx: Any) -> Any:
    """Yield the core to another thread."""
    return types.void(), _call_without_arguments("sched_yield" if _YIELDS else None)


_CHUNK_FUNCTION = ir.FunctionType(
    ir.VoidType(), [ir.IntType(8).as_pointer(), ir.IntType(64), ir.IntType(64), ir.IntType(64)]
)


@intrinsic
def _publish(typingctx: Any, words: Any, body: Any, args: Any) -> Any:
    """Write the addresses of the chunk function and of its arguments to the team's memory.

    The chunk function unpacks the arguments, calls `body` and sets a flag if that fails.
    The arguments stay on the stack of the kernel that runs the loop, which outlives the loop.
    """
    signature = body.get_call_type(typingctx, (*args.types, types.int64, types.int64), {})

    def codegen(context: Any, builder: Any, outer: Any, values: Any) -> Any:
        found = body.dispatcher.overloads[signature.args]
        context.add_linking_libs([found.library])
        packed = cgutils.alloca_once_value(builder, values[2])
        module, word = builder.module, ir.IntType(64)
        function = ir.Function(module, _CHUNK_FUNCTION, module.get_unique_name("maboost.chunk"))
        function.linkage = "internal"
        inner = ir.IRBuilder(function.append_basic_block("entry"))
        tuple_ = inner.load(inner.bitcast(function.args[0], packed.type))
        unpacked = [inner.extract_value(tuple_, i) for i in range(len(args.types))]
        callee = context.declare_function(module, found.fndesc)
        status, _ = context.call_conv.call_function(
            inner, callee, found.fndesc.restype, found.fndesc.argtypes,
            [*unpacked, function.args[1], function.args[2]],
        )  # fmt: skip
        with inner.if_then(status.is_error, likely=False):
            flag = inner.inttoptr(function.args[3], word.as_pointer())
            inner.store_atomic(word(1), flag, "release", 8)
        inner.ret_void()
        for place, pointer in ((_BODY, function), (_ARGUMENTS, packed)):
            where = _address(context, builder, outer.args[0], values[0], word(place))
            builder.store(builder.ptrtoint(pointer, word), where)
        return context.get_dummy_value()

    return types.void(words, body, args), codegen


@intrinsic
def _keep(typingctx: Any, args: Any) -> Any:
    """Do nothing. Called after a loop, since numba frees an array after its last use, which must come later."""
    return types.void(args), _call_without_arguments(None)


@intrinsic
def _run_chunk(typingctx: Any, words: Any, chunk: Any, slot: Any) -> Any:
    """Call the published code for one chunk."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word = ir.IntType(64)

        def at(place: int) -> Any:
            return _address(context, builder, signature.args[0], args[0], word(place))

        code = builder.inttoptr(builder.load(at(_BODY)), _CHUNK_FUNCTION.as_pointer())
        arguments = builder.inttoptr(builder.load(at(_ARGUMENTS)), ir.IntType(8).as_pointer())
        flag = builder.ptrtoint(at(_FAILED), word)
        builder.call(code, [arguments, args[1], args[2], flag])
        return context.get_dummy_value()

    return types.void(words, types.int64, types.int64), codegen


@kernel
def _take_chunks(team, slot):
    """Run chunks of the current loop until none is left to take.

    A chunk is taken by replacing the claim, which changes with every loop and every chunk. So a helper that
    read the claim of a loop that has ended since takes nothing, and the address of the code that it reads
    after the claim belongs to that claim.
    """
    while True:
        claim = _load(team, _CLAIM)
        left = claim & np.int64(0xFFFFFFFF)
        if left == 0:
            return
        if _replace(team, _CLAIM, claim, claim - 1):
            _run_chunk(team, left - 1, slot)
            _add(team, _DONE, 1)


@kernel
def _serve(team, slot, patience):
    """Run chunks of loops until no loop has come for a while."""
    waited = 0
    while waited < patience and _load(team, _LEAVE) == 0:
        for _ in range(_LOOKS):
            if _load(team, _CLAIM) & np.int64(0xFFFFFFFF) != 0:
                _take_chunks(team, slot)
                waited = 0
            _pause()
        waited += 1
        _yield_core()


@kernel
def _run_loop(team, chunks):
    """Run the published loop; return when all its chunks are done."""
    if team[_HELPERS] == 0 or chunks == 1:
        for chunk in range(chunks):
            _run_chunk(team, chunk, 0)
        return
    _store(team, _DONE, 0)
    number = (team[_CLAIM] >> np.int64(32)) + 1
    _store(team, _CLAIM, (number & np.int64(0x7FFFFFFF)) << np.int64(32) | chunks)
    _take_chunks(team, 0)
    looks = 0
    while _load(team, _DONE) < chunks:
        _pause()
        looks += 1
        if looks % 1024 == 0:
            _yield_core()


@kernel(inline="always")
def parallel_for(team, chunks, body, args):
    """Call ``body(*args, chunk, slot)`` for every chunk from 0 to `chunks` - 1, on all threads of the team.

    Chunks run in any order, several at once. Their writes must not overlap, unless they are integer sums that
    each slot keeps for itself. `body` must not run a loop itself.
    """
    if chunks > 0:
        _publish(team, body, args)
        _run_loop(team, np.int64(chunks))
        _keep(args)


@kernel
def slots(team):
    """Return the number of threads of a team."""
    return team[_HELPERS] + 1


@kernel
def chunks_of(team, n, least):
    """Return the number and the size of chunks of n rows: a few chunks a thread, of at least `least` rows.

    A pass over a chunk should take several microseconds, many times the cost of claiming one.
    """
    threads = team[_HELPERS] + 1
    if threads == 1 or n < 2 * least:
        return 1, n
    size = max(-(-n // (4 * threads)), least)
    size = (size + 63) // 64 * 64  # no two chunks share a cache line
    return -(-n // size), size


@kernel
def folded_slots(sums):
    """Return the sums over all slots."""
    total = np.zeros(sums.shape[1], dtype=np.int64)
    for slot in range(sums.shape[0]):
        for k in range(total.size):
            total[k] += sums[slot, k]
    return total


class Team:
    """A number of threads that run the loops of one kernel at a time.

    Parameters
    ----------
    count : int
        Threads, the calling one included.

    Attributes
    ----------
    words : integer array
        The memory that the threads share, which kernels take as their first argument.
    """

    _idle: dict[int, list[Team]] = {}
    _all: list[Team] = []
    _process: int | None = None

    def __init__(self, count: int) -> None:
        self.words: NDArray[np.int64] = np.zeros(_WORDS, dtype=np.int64)
        self.words[_HELPERS] = count - 1
        # A spinning helper would occupy a core that another thread needs.
        self._patience = _PATIENCE if count <= available_cores() else 0
        self._gates = [threading.Semaphore(0) for _ in range(count - 1)]
        self._asleep = [True] * (count - 1)
        self._threads = [
            threading.Thread(target=self._serve, args=(slot,), name="maboost", daemon=True)
            for slot in range(count - 1)
        ]
        for thread in self._threads:
            thread.start()

    def _serve(self, slot: int) -> None:
        gate, words = self._gates[slot], self.words
        while True:
            gate.acquire()
            if words[_LEAVE]:
                return
            _serve(words, slot + 1, max(self._patience, 1))
            self._asleep[slot] = True

    def wake(self) -> None:
        """Wake all helpers that sleep."""
        asleep = self._asleep
        for slot, gate in enumerate(self._gates):
            if asleep[slot]:
                asleep[slot] = False
                gate.release()

    def dismiss(self) -> None:
        """End all helpers."""
        self.words[_LEAVE] = 1
        for gate in self._gates:
            gate.release()

    @classmethod
    def borrow(cls, count: int) -> Team:
        """Return a team that no other caller uses."""
        if cls._process != os.getpid():  # a forked process has none of its parent's threads
            if cls._process is None:
                atexit.register(cls._dismiss_all)
            cls._idle, cls._all, cls._process = {}, [], os.getpid()
        try:
            return cls._idle.setdefault(count, []).pop()
        except IndexError:
            team = cls(count)
            cls._all.append(team)
            return team

    def give_back(self) -> None:
        """Make this team available to other callers."""
        Team._idle.setdefault(len(self._gates) + 1, []).append(self)

    @classmethod
    def _dismiss_all(cls) -> None:
        """End all helpers before the interpreter ends, since a thread inside a kernel would crash then."""
        if cls._process != os.getpid():
            return
        for team in cls._all:
            team.dismiss()
        for team in cls._all:
            for thread in team._threads:
                thread.join(1.0)


def run_kernel(count: int, function: Callable[..., Any], *args: Any) -> Any:
    """Return ``function(team, *args)``, a kernel whose parallel loops run on `count` threads.

    Raises
    ------
    MemoryError
        If a chunk of a loop failed: kernels raise no other error.
    """
    if count == 1:
        words = np.zeros(_WORDS, dtype=np.int64)
        result = function(words, *args)
    else:
        team = Team.borrow(count)
        words = team.words
        try:
            team.wake()
            result = function(words, *args)
        finally:
            team.give_back()
    if words[_FAILED]:
        words[_FAILED] = 0
        raise MemoryError("a compiled kernel could not get the memory that it needs")
    return result
