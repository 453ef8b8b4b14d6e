"""The display of a running fit on stderr: its phase, passes over rows on disk, and its rounds.

:func:`showing` opens the display, and code below it reports to :func:`display` without passing it on. On a terminal
rich draws it. Elsewhere, and where rich is not installed, it is lines of text without control characters.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TextIO

from maboost.boosting.history import Record
from maboost.boosting.rounding import at_most
from maboost.runtime.text import escaped

__all__ = ["Display", "Lines", "display", "figures", "rows_done", "showing"]


class Display:
    """A display that shows nothing, and the interface of the others."""

    def phase(self, name: str) -> None:
        """Begin a phase of unknown length, which ends with the next call of any kind."""

    def rows(self, purpose: str, done: int, total: int) -> None:
        """Report that a pass over rows has done some of them."""

    def rounds(self, done: int, total: int) -> None:
        """Begin the rounds, of which `done` are from an earlier fit."""

    def round(self, record: Record, total: int) -> None:
        """Report the end of a round."""

    def close(self) -> None:
        """End the display."""


class Lines(Display):
    """A line for the beginning of a phase, the end of a pass, and every `every`-th round."""

    def __init__(self, every: int, stream: TextIO) -> None:
        self.every = every
        self.stream = stream
        self.began = time.perf_counter()
        self.purpose = ""

    def phase(self, name: str) -> None:
        self._begin("")
        self._print(name)

    def rows(self, purpose: str, done: int, total: int) -> None:
        if self.purpose != purpose:
            self._begin(purpose)
        if done == total:
            self._print(f"{purpose}: {done:,} of {total:,} rows, {self._seconds()}")
            self._begin("")

    def rounds(self, done: int, total: int) -> None:
        self.phase(f"boosting, {total} rounds at most")

    def round(self, record: Record, total: int) -> None:
        if record.round % self.every == 0:
            self._print(f"round {record.round}/{total}: {figures(record)}, {self._seconds()}")

    def _begin(self, purpose: str) -> None:
        self.purpose, self.began = purpose, time.perf_counter()

    def _seconds(self) -> str:
        return f"{time.perf_counter() - self.began:.0f} s"

    def _print(self, text: str) -> None:
        print(escaped(text), file=self.stream, flush=True)


_SILENT = Display()
_CURRENT: ContextVar[Display] = ContextVar("display", default=_SILENT)


def display() -> Display:
    """Return the display of the fit that runs in this thread."""
    return _CURRENT.get()


def rows_done(purpose: str, done: int, total: int) -> None:
    """Report rows of a pass to the display; tables keep this function, not a display."""
    display().rows(purpose, done, total)


@contextmanager
def showing(verbose: int, alone: bool = False) -> Iterator[Display]:
    """Open a display, or go on with the one that is open; 0 shows nothing.

    With `alone` nothing is shown inside another display: the rounds of a fit within a fit would mix with its own.
    """
    opened = None
    shown = display() if verbose else _SILENT
    if alone and shown is not _SILENT:
        shown = _SILENT
    elif verbose and shown is _SILENT:
        shown = opened = _on_terminal(sys.stderr) or Lines(int(verbose), sys.stderr)
    token = _CURRENT.set(shown)
    try:
        yield shown
    finally:
        _CURRENT.reset(token)
        if opened is not None:
            opened.close()


def _on_terminal(stream: TextIO) -> Display | None:
    """Return a display by rich; None if it is not installed or the stream is no terminal that can rewrite lines."""
    if not stream.isatty():
        return None
    try:
        from maboost.estimators.terminal import Terminal
    except ImportError:
        return None
    return Terminal.on(stream)


def figures(r: Record) -> str:
    """Return the figures of a round."""
    trained, validation = (
        "" if math.isnan(error) else f", {of} error {error:.4f}"
        for of, error in (("train", r.train_error), ("validation", r.val_error))
    )
    return f"edge {r.edge:.4f}{trained}, certified <= {at_most(r.error_bound)}{validation}"
