"""What the commands share: errors in one line, column names, numbers as JSON has them."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.table import Table

from maboost.data.files import TableError

__all__ = [
    "INTERRUPTED",
    "Problem",
    "check_apart",
    "check_there",
    "check_writable",
    "decimal_option",
    "find_target",
    "is_number",
    "plain",
    "show_table",
    "some",
    "told_in_a_line",
]

TARGETS = ("target", "label", "class", "y", "outcome")
INTERRUPTED = 130
_ANY_WIDTH = 1_000_000

decimal_option = click.option(
    "--decimal",
    type=click.Choice([".", ","]),
    default=".",
    show_default=True,
    help="Decimal sign of numbers in CSV files.",
)


class Problem(click.ClickException):
    """Bad input: one line, exit code 2."""

    exit_code = 2

    def show(self, file: Any = None) -> None:
        click.echo(f"maboost: {self.format_message()}", err=True)


def told_in_a_line(command: Callable[..., Any]) -> Callable[..., Any]:
    """Turn what a user can cause into a :class:`Problem`; nobody sees a traceback for a bad file."""

    @wraps(command)
    def run(*args: Any, **options: Any) -> Any:
        try:
            return command(*args, **options)
        except BrokenPipeError:  # the reader of a pipe has gone
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise SystemExit(1) from None
        except (ValueError, OSError, MemoryError, ImportError) as error:
            raise Problem(" ".join(str(error).split())) from error
        except KeyboardInterrupt:
            click.echo("maboost: interrupted before the first round; nothing was written", err=True)
            raise SystemExit(INTERRUPTED) from None

    return run


def check_writable(path: Path | None, option: str) -> None:
    """Before hours of training, not after."""
    if path is None:
        return
    folder = path.parent
    if not folder.is_dir():
        raise TableError(f"{option} {path}: there is no folder {folder}")
    if (path.exists() and not path.is_file()) or not os.access(folder, os.W_OK):
        raise TableError(f"{option} {path}: cannot be written")


def check_apart(read: dict[str, Path | None], written: dict[str, Path | None]) -> None:
    """Refuse to write over a file that is read, and two things to one file; by what they are called."""
    known = {path.resolve(): name for name, path in read.items() if path is not None}
    for option, path in written.items():
        if path is not None and (other := known.setdefault(path.resolve(), option)) != option:
            raise TableError(f"{option} {path} is the file of {other}: give another path")


def check_there(asked: Iterable[str], names: list[str]) -> None:
    """Refuse names of columns that a table has not."""
    for name in asked:
        if name not in names:
            raise TableError(f"there is no column {name!r}; there are {some(names)}")


def find_target(names: list[str], asked: str | None) -> tuple[str, str]:
    """The column to predict, and how it was found."""
    if asked is not None:
        return asked, ""
    lower = {name.lower(): name for name in names}
    for name in TARGETS:
        if name in lower:
            return lower[name], "inferred from its name"
    return names[-1], "inferred: the last column"


def some(names: list[str], most: int = 12) -> str:
    """The first names, and how many there are; quoted where their ends would not be seen."""
    shown = [name if name and name == name.strip() else repr(name) for name in names[:most]]
    return ", ".join(shown) + (f", ... ({len(names)} in all)" if len(names) > most else "")


def show_table(table: Table) -> None:
    """Print a table whole: no name in it is markup, and none is cut off for want of room."""
    Console(highlight=False, markup=False, emoji=False, width=_ANY_WIDTH).print(table)


def plain(value: Any) -> Any:
    """A number or text as JSON has it, which knows no NaN and no infinity."""
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and not math.isfinite(value) else value


def is_number(text: str) -> bool:
    """Whether text is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True
