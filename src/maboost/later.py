"""Modules that others import and may never use, left out until they do."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

__all__ = ["later"]


class _StandIn(ModuleType):
    """Takes the place of a module until something of it is asked for."""

    def __getattr__(self, name: str) -> Any:
        _take_away(self)
        return getattr(import_module(self.__name__), name)


def _take_away(stand_in: ModuleType) -> None:
    if sys.modules.get(stand_in.__name__) is stand_in:
        del sys.modules[stand_in.__name__]


@contextmanager
def later(*names: str) -> Iterator[None]:
    """What is imported in this block does without these modules as long as it asks for nothing of them.

    After it an import of one of them finds it as usual. Who got hold of a stand-in in the block, here or on
    another thread, finds in it what is in the module.

    >>> import sys
    >>> with later("xml.dom.pulldom"):
    ...     import xml.dom.pulldom as pulldom
    >>> "xml.dom.pulldom" in sys.modules
    False
    >>> pulldom.START_ELEMENT
    'START_ELEMENT'
    >>> "xml.dom.pulldom" in sys.modules
    True
    """
    absent = [name for name in names if name not in sys.modules and find_spec(name) is not None]
    stand_ins = [_StandIn(name) for name in absent]
    sys.modules.update({stand_in.__name__: stand_in for stand_in in stand_ins})
    try:
        yield
    finally:
        for stand_in in stand_ins:
            _take_away(stand_in)
