"""Reads a report back: headings, tables, text, ids."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

VOID = {"meta", "link", "input", "wbr", "br", "path"}


class Page(HTMLParser):
    """A page as a reader of its source would see it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.source = Path(path).read_text(encoding="utf-8")
        self.tags: list[tuple[str, dict]] = []
        self.headings: list[tuple[str, str]] = []
        self.tables: dict[str, list[list[str]]] = {}
        self.paragraphs: list[str] = []
        self.tiles: dict[str, str] = {}
        self.pre = ""
        self.open: list[str] = []
        self._table = ""
        self._text = ""
        self._term = ""
        self.feed(self.source)
        self.close()
        assert not self.open, f"not closed: {self.open}"

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self._table = dict(attrs)["id"]
            self.tables[self._table] = []
        if tag == "tr":
            self.tables[self._table].append([])
        if tag in ("td", "th", "p", "h1", "h2", "h3", "pre", "dt", "dd", "summary", "script"):
            self._text = ""

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self._text += data

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
        text = self._text.strip()
        if tag in ("td", "th"):
            self.tables[self._table][-1].append(text)
        elif tag == "p":
            self.paragraphs.append(text)
        elif tag in ("h1", "h2", "h3"):
            self.headings.append((tag, text))
        elif tag == "pre":
            self.pre = self._text
        elif tag == "dt":
            self._term = text
        elif tag == "dd":
            self.tiles.setdefault(self._term, text)

    @property
    def text(self) -> str:
        """All paragraphs."""
        return "\n".join(self.paragraphs)

    def all(self, tag: str) -> list[dict]:
        """The attributes of all elements of a kind."""
        return [attrs for name, attrs in self.tags if name == tag]

    def column(self, table: str, label: str) -> list[str]:
        """The cells below a head."""
        head, *rows = self.tables[table]
        return [row[head.index(label)] for row in rows]
