"""Options of the commands that say how a table is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from maboost.data.files import Source, StandardInput, TableError

__all__ = ["ReadOptions", "reading_options", "rows_source", "skip_unlabelled_option"]


def rows_source(value: str) -> Source:
    """Return the file of an argument, or standard input for ``-``."""
    return StandardInput() if value == "-" else Path(value)


_OPTIONS = (
    click.option(
        "--decimal",
        type=click.Choice([".", ","]),
        default=".",
        show_default=True,
        help="Decimal sign of numbers in CSV files.",
    ),
    click.option(
        "--sep",
        metavar="CHARACTER",
        help="Separator of cells in CSV files, or tab. [default: the most frequent of , ; | and tab in the first "
        "line]",
    ),
    click.option(
        "--numeric",
        multiple=True,
        metavar="COLUMN",
        help="Read a column of text as numbers; cells that are no numbers are missing values. May be repeated.",
    ),
)

skip_unlabelled_option = click.option(
    "--skip-unlabelled", is_flag=True, help="Leave out rows without a label, and say how many."
)


def reading_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say how a table is read."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@dataclass(frozen=True)
class ReadOptions:
    """How a table is read.

    Attributes
    ----------
    decimal : str
    separator : str or None
        The separator of cells; None to find it.
    numeric : tuple of str
        Columns in which cells that are no numbers are missing values.
    skip_unlabelled : bool
    """

    decimal: str = "."
    separator: str | None = None
    numeric: tuple[str, ...] = ()
    skip_unlabelled: bool = False

    @classmethod
    def of(cls, options: dict[str, Any]) -> ReadOptions:
        """Return the options of a command, whose names are those of the command line."""
        return cls(
            options["decimal"],
            _separator(options["sep"]),
            tuple(options["numeric"]),
            options.get("skip_unlabelled", False),
        )


def _separator(given: str | None) -> str | None:
    if given is None:
        return None
    character = {"tab": "\t", "\\t": "\t"}.get(given, given)
    if len(character) != 1 or not character.isascii() or character in '"\r\n':
        raise TableError(f"--sep {given!r} must be one ASCII character other than a quote, or tab")
    return character
