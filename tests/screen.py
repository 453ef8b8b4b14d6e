"""A terminal's screen, as far as rich and this project write to one."""

from __future__ import annotations

import re

from rich.cells import cell_len

_CONTROL = re.compile(r"\x1b\[(\??)(\d*)(?:;\d+)*([A-Za-z])")


class Screen:
    """The text on a screen of a given width, without a limit of lines."""

    def __init__(self, width):
        self.width = width
        self.text = [""]
        self.row = self.column = 0
        self.broken = []  # lines that were longer than the screen is wide

    def fed(self, text):
        """The screen after this output, in which a line end also returns to the left."""
        at = 0
        while at < len(text):
            found = _CONTROL.match(text, at)
            if found:
                self._control(*found.groups())
                at = found.end()
                continue
            self._write(text[at])
            at += 1
        return self

    def lines(self):
        """The lines, without spaces at their ends and without empty lines at the end."""
        return "\n".join(line.rstrip() for line in self.text).rstrip().splitlines()

    def _control(self, private, count, kind):
        assert private or kind in "AKm", f"a control {kind} that this screen does not know"
        if kind == "A":
            self.row = max(self.row - int(count or 1), 0)
        elif kind == "K":
            assert count == "2"
            self.text[self.row] = ""

    def _write(self, char):
        if char == "\r":
            self.column = 0
            return
        if char == "\n":
            self._down()
            return
        if self.column + cell_len(char) > self.width:
            self.broken.append(self.text[self.row])
            self._down()
        line = self.text[self.row].ljust(self.column)
        self.text[self.row] = line[: self.column] + char + line[self.column + 1 :]
        self.column += 1

    def _down(self):
        self.row, self.column = self.row + 1, 0
        if self.row == len(self.text):
            self.text.append("")
