"""Escaping of text from data for a terminal."""

from __future__ import annotations

import unicodedata

__all__ = ["escaped"]

_JOINERS = "\u200c\u200d"  # Persian, Indic scripts and emoji are written with them


def escaped(text: str) -> str:
    r"""Return text with control characters, line ends and bidirectional marks escaped.

    Otherwise a name from a file could recolour, overwrite or reorder the output of a terminal, or add lines.

    >>> print(escaped("a\x1b[31m\nb\u202e"))
    a\x1b[31m\nb\u202e
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(c.encode("unicode_escape").decode() if _is_control(c) else c for c in text)


def _is_control(character: str) -> bool:
    hidden = unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp")
    return hidden and character not in _JOINERS
