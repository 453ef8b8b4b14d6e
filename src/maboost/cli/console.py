"""Shared output of the commands: lines and tables for a person, errors, column names, numbers for JSON.

All output for a person goes through :func:`print_lines`, :func:`print_table` or a console with `escaped` text,
since names and labels come from files.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from maboost.data.files import Source, TableError
from maboost.estimators.progress import showing
from maboost.runtime.text import escaped

__all__ = [
    "INTERRUPTED",
    "InputError",
    "check_columns",
    "check_different_files",
    "check_writable",
    "find_target",
    "is_number",
    "json_value",
    "print_lines",
    "print_table",
    "report_errors",
    "safe_csv_option",
    "shortened",
    "working",
]

TARGETS = ("target", "label", "class", "y", "outcome")
INTERRUPTED = 130
_ANY_WIDTH = 1_000_000

safe_csv_option = click.option(
    "--safe-csv",
    is_flag=True,
    help="Put ' before cells of a CSV file that a spreadsheet would run as a formula.",
)


# lines for stderr while `working` shows its progress there
_held_back: ContextVar[list[str] | None] = ContextVar("held_back", default=None)


def print_lines(*lines: str, err: bool = False) -> None:
    """Print lines, with control characters and line ends escaped; on a terminal they break between words."""
    held = _held_back.get()
    if err and held is not None:
        held.extend(lines)
        return
    console = _console(sys.stderr if err else sys.stdout)
    for line in lines:
        for part in Text(escaped(line)).wrap(console, console.width) or [Text()]:
            click.echo(part.plain, err=err)


def _console(stream: Any) -> Console:
    """Return a console as wide as a terminal; lines in files and pipes have any width."""
    width = None if stream.isatty() else _ANY_WIDTH
    return Console(file=stream, highlight=False, markup=False, emoji=False, width=width)


class InputError(click.ClickException):
    """An error in the input: a line for each problem, exit code 2."""

    exit_code = 2

    def __init__(self, *problems: str) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems

    def show(self, file: Any = None) -> None:
        print_lines(*(f"maboost: {problem}" for problem in self.problems), err=True)


@contextmanager
def working(phase: str, quiet: bool = False) -> Iterator[None]:
    """Show on a terminal what a command does; elsewhere an error is the only line on stderr.

    Lines that are printed on stderr meanwhile would break the line that shows it, and appear at the end.
    """
    token = _held_back.set([])
    try:
        with showing(0 if quiet or not sys.stderr.isatty() else 1) as shown:
            shown.phase(phase)
            yield
    finally:
        lines = _held_back.get() or []
        _held_back.reset(token)
        print_lines(*lines, err=True)


def report_errors(command: Callable[..., Any]) -> Callable[..., Any]:
    """Turn errors that a user can cause into :class:`InputError`, so that a bad file gives no traceback."""

    @wraps(command)
    def run(*args: Any, **options: Any) -> Any:
        try:
            return command(*args, **options)
        except BrokenPipeError:  # the reader of a pipe has closed it
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise SystemExit(1) from None
        except (ValueError, OSError, MemoryError, ImportError) as error:
            problems = error.problems if isinstance(error, TableError) else (str(error),)
            raise InputError(*(" ".join(problem.split()) for problem in problems)) from error
        except KeyboardInterrupt:
            print_lines(
                "maboost: interrupted before the first round; nothing was written", err=True
            )
            raise SystemExit(INTERRUPTED) from None

    return run


def check_writable(path: Path | None, option: str) -> None:
    """Check that a file can be written, before hours of training."""
    if path is None:
        return
    folder = path.parent
    if not folder.is_dir():
        raise TableError(f"{option} {path}: there is no folder {folder}")
    if (path.exists() and not path.is_file()) or not os.access(folder, os.W_OK):
        raise TableError(f"{option} {path}: cannot be written")


def check_different_files(read: dict[str, Source | None], written: dict[str, Path | None]) -> None:
    """Refuse to overwrite a file that is read, and to write two outputs to one file."""
    known: dict[Source, str] = {
        path.resolve(): name for name, path in read.items() if path is not None
    }
    for option, path in written.items():
        if path is not None and (other := known.setdefault(path.resolve(), option)) != option:
            raise TableError(f"{option} {path} is the file of {other}: give another path")


def check_columns(asked: Iterable[str], names: list[str]) -> None:
    """Refuse names of columns that a table does not have."""
    missing = [name for name in dict.fromkeys(asked) if name not in names]
    if missing:
        raise TableError(
            f"there is no column {', '.join(map(repr, missing))}; there are {shortened(names)}"
        )


def find_target(names: list[str], asked: str | None) -> tuple[str, str]:
    """Return the column to predict, and how it was found."""
    if asked is not None:
        return asked, ""
    lower = {name.lower(): name for name in names}
    for name in TARGETS:
        if name in lower:
            return lower[name], "inferred from its name"
    return names[-1], "inferred: the last column"


def shortened(names: list[str], most: int = 12) -> str:
    """Return the first names and the number of names, quoted if spaces at their ends would be invisible."""
    shown = [name if name and name == name.strip() else repr(name) for name in names[:most]]
    return ", ".join(shown) + (f", ... ({len(names)} in all)" if len(names) > most else "")


def print_table(rows: Iterable[Iterable[str]], head: Iterable[str] = ()) -> None:
    """Print a whole table: names are escaped, not interpreted as markup, and never cut off.

    On a terminal its last column breaks between words. A table whose other columns fill the terminal is not broken.
    """
    titles = [escaped(title) for title in head]
    table = Table(*titles, box=None, show_header=bool(titles), pad_edge=bool(titles))
    for row in rows:
        table.add_row(*map(escaped, row))
    for column in table.columns[:-1]:
        column.no_wrap = True
    console = _console(sys.stdout)
    if console.measure(table).minimum > console.width:
        console.width = _ANY_WIDTH
    with console.capture() as printed:
        console.print(table)
    for line in printed.get().splitlines():
        click.echo(line.rstrip())


def json_value(value: Any) -> Any:
    """Return a number or text for JSON, which has neither NaN nor infinity."""
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and not math.isfinite(value) else value


def is_number(text: str) -> bool:
    """Return whether text is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True
