"""The display of a fit on a terminal, drawn by rich, which keeps it in motion while a round lasts."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Self, TextIO

from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    Progress,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Column
from rich.text import Text

from maboost.boosting.history import Record
from maboost.estimators.progress import Display, figures
from maboost.runtime.text import escaped

__all__ = ["Terminal"]


class Terminal(Display):
    """A line for the present phase; the rounds, with their last figures, stay on the screen."""

    def __init__(self, console: Console) -> None:
        self.bar = _Bar(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=None, table_column=Column(ratio=1)),
            TextColumn("{task.fields[count]}", markup=False),
            TimeElapsedColumn(table_column=Column(no_wrap=True)),
            _TimeLeft(table_column=Column(no_wrap=True)),
            console=console,
            expand=True,
            refresh_per_second=8,
            # what is printed meanwhile appears above the bar, unless it goes to a file or a pipe
            redirect_stdout=sys.stdout.isatty(),
            redirect_stderr=sys.stderr.isatty(),
        )
        self.present: TaskID | None = None
        self.boosting: TaskID | None = None
        self.purpose = ""
        self.bar.start()

    @classmethod
    def on(cls, stream: TextIO) -> Self | None:
        """Return a display on a terminal; None if the terminal cannot rewrite lines."""
        console = Console(file=stream)
        return cls(console) if console.is_interactive else None

    def phase(self, name: str) -> None:
        self._end()
        self.present = self.bar.add_task(escaped(name), total=None, count="")

    def rows(self, purpose: str, done: int, total: int) -> None:
        if self.purpose != purpose or self.present is None:
            self.phase(purpose)
            self.purpose = purpose
        assert self.present is not None
        count = f"{done:,} of {total:,} rows"
        self.bar.update(self.present, completed=done, total=total, count=count)

    def rounds(self, done: int, total: int) -> None:
        self._end()
        count = f"{done}/{total}"
        self.boosting = self.bar.add_task("rounds", completed=done, total=total, count=count)

    def round(self, record: Record, total: int) -> None:
        assert self.boosting is not None
        self.bar.figures = figures(record)
        count = f"{record.round}/{total}"
        self.bar.update(self.boosting, completed=record.round, count=count)

    def close(self) -> None:
        self._end()
        self.bar.live.transient = self.boosting is None
        self.bar.stop()

    def _end(self) -> None:
        """End the present phase."""
        self.purpose = ""
        if self.present is not None:
            self.bar.remove_task(self.present)
            self.present = None
        if self.boosting is not None:
            self.bar.stop_task(self.boosting)


class _Bar(Progress):
    """Bars, and the figures of the last round below them, which wrap between words."""

    figures = ""

    def get_renderables(self) -> Iterable[RenderableType]:
        if self.tasks:
            yield self.make_tasks_table(self.tasks)
        if self.figures:
            yield Text(self.figures)


class _TimeLeft(TimeRemainingColumn):
    """The time until all rounds or rows are done, while they run."""

    max_refresh = 0.0  # otherwise the time would stay for half a second after the end

    def render(self, task: Task) -> Text:
        if task.total is None or task.finished or task.stop_time is not None:
            return Text("")
        return Text.assemble("left ", super().render(task))
