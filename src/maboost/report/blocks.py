"""The blocks of a page: plain text, which the template escapes and formats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from maboost.data.labels import is_missing
from maboost.report.formats import number, plain, text

__all__ = [
    "Beside",
    "Cell",
    "Column",
    "Details",
    "Note",
    "Paragraph",
    "Preformatted",
    "Section",
    "Table",
    "Tile",
    "cell",
    "number_cell",
]


_TALL = 40  # rows
_LONG = 40  # letters


@dataclass(frozen=True)
class Paragraph:
    """A paragraph; text between backticks is code."""

    kind: ClassVar[str] = "paragraph"
    text: str


@dataclass(frozen=True)
class Note:
    """A sentence that says which part is left out, and why."""

    kind: ClassVar[str] = "note"
    text: str


@dataclass(frozen=True)
class Preformatted:
    """Text in the form of a terminal."""

    kind: ClassVar[str] = "preformatted"
    label: str
    text: str


@dataclass(frozen=True)
class Cell:
    """A cell of a table.

    Attributes
    ----------
    text : str
        The text that is shown.
    value : str
        The sort key of the cell; empty for a missing value, which is always last.
    style : str
        The style: "", "number", "missing", "name", "label", "flag", "code" or "long-text".
    bar : float or None
        The length of a bar beside the text, in per cent.
    """

    text: str
    value: str = ""
    style: str = ""
    bar: float | None = None


@dataclass(frozen=True)
class Column:
    """The head of a column."""

    label: str
    numeric: bool = False
    hint: str = ""


@dataclass(frozen=True)
class Table:
    """A table; the first column names the row.

    A sortable table also has a box to filter by text, and, with `flag`, one that leaves only the rows
    of `flags`.
    """

    kind: ClassVar[str] = "table"
    id: str
    caption: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    sortable: bool = False
    sorted_by: int | None = None
    flag: str = ""
    flags: Sequence[bool] = ()

    @property
    def tall(self) -> bool:
        """Whether the table scrolls in a box of its own."""
        return len(self.rows) > _TALL

    def __post_init__(self) -> None:
        assert all(len(row) == len(self.columns) for row in self.rows), self.id


@dataclass(frozen=True)
class Details:
    """Blocks that are hidden behind a summary line."""

    kind: ClassVar[str] = "details"
    summary: str
    blocks: Sequence[Any]


@dataclass(frozen=True)
class Beside:
    """Blocks side by side if there is room."""

    kind: ClassVar[str] = "beside"
    blocks: Sequence[Any]
    style: str = "charts"


@dataclass(frozen=True)
class Section:
    """A part of the page with a heading."""

    id: str
    title: str
    blocks: Sequence[Any] = field(default_factory=list)


@dataclass(frozen=True)
class Tile:
    """A key figure."""

    label: str
    value: str
    note: str
    tone: str = ""


def cell(value: Any, style: str = "") -> Cell:
    """Return a cell with any value of a table."""
    if is_missing(value):
        return Cell(text(None), "", "missing")
    value = plain(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Cell(text(value), repr(value), style or "number")
    written = text(value)
    return Cell(written, written, style or ("long-text" if len(written) > _LONG else ""))


def number_cell(value: Any, shown: str | None = None, bar: float | None = None) -> Cell:
    """Return a cell with a number, sorted by its value and not by its text."""
    if is_missing(value):
        return Cell(text(None), "", "missing")
    return Cell(number(value) if shown is None else shown, repr(plain(value)), "number", bar)
