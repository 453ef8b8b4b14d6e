"""Modules that others import and may never use, left out until they do."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

__all__ = ["later"]

_LOCK = threading.Lock()


class _StandIn(ModuleType):
    """Takes the place of a module until something of it is asked for."""

    def __init__(self, spec: ModuleSpec) -> None:
        super().__init__(spec.name)
        self.__spec__ = spec

    def __getattr__(self, name: str) -> Any:
        _take_away(self)
        return getattr(import_module(self.__name__), name)


def _take_away(stand_in: ModuleType) -> None:
    with _LOCK:
        if sys.modules.get(stand_in.__name__) is stand_in:
            del sys.modules[stand_in.__name__]


class _Known(MetaPathFinder, Loader):
    """Finds modules that were imported along with their package, when that was asked for their sake.

    Python looks for a submodule, asks the stand-in of its package where to, and by then it may be there: it
    would be imported a second time.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        there = fullname in sys.modules and target is None  # otherwise it is to be loaded again
        return ModuleSpec(fullname, self) if there else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = sys.modules[spec.name]
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        module.__spec__ = module.__spec__.loader_state


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
    specs = [find_spec(name) for name in names if name not in sys.modules]
    stand_ins = [_StandIn(spec) for spec in specs if spec is not None]
    known = _Known()
    sys.meta_path.insert(0, known)
    sys.modules.update({stand_in.__name__: stand_in for stand_in in stand_ins})
    try:
        yield
    finally:
        for stand_in in stand_ins:
            _take_away(stand_in)
        sys.meta_path.remove(known)
