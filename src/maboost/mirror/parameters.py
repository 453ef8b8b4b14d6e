"""`get_params` and `set_params` for regularizers, domains and steps, so that grid searches reach inside them."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from typing import Any, Self

import numpy as np

from maboost.runtime.parameter_errors import Message, Setting

__all__ = ["Component", "change_message", "described"]

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


class Component:
    """The base class of every pluggable dataclass: its parameters are its fields.

    The two methods follow scikit-learn's convention (`clone`, `GridSearchCV` over ``domain__caps``).
    They are written here because the mathematics does not depend on scikit-learn.
    """

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's arguments by name."""
        fields = dataclasses.fields(self)  # type: ignore[arg-type]  # every subclass is a dataclass
        return {f.name: getattr(self, f.name) for f in fields if f.init}

    def set_params(self, **params: Any) -> Self:
        """Set constructor arguments; an unknown name raises ValueError."""
        known = self.get_params()
        for name, value in params.items():
            if name not in known:
                raise ValueError(
                    f"{type(self).__name__} has no parameter {name!r}; it has {sorted(known)}"
                )
            setattr(self, name, value)
        if hasattr(self, "__post_init__"):
            self.__post_init__()
        return self


def described(value: Any) -> str:
    """Return a value as text that is the same in every process; arrays appear as a hash of their content.

    >>> from maboost.mirror import CappedSimplex
    >>> described(CappedSimplex(3.0))
    'CappedSimplex(caps=3.0)'
    >>> described([{"b", "a"}, {2}])
    "[{'a', 'b'}, {2}]"
    """
    if isinstance(value, np.ndarray) and value.dtype != object:
        content = np.ascontiguousarray(value).tobytes()
        digest = hashlib.blake2b(content, digest_size=8).hexdigest()
        return f"array({value.dtype}, {value.shape}, {digest})"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        inside = (
            f"{f.name}={described(getattr(value, f.name))}" for f in dataclasses.fields(value)
        )
        return f"{type(value).__name__}({', '.join(inside)})"
    if isinstance(value, set | frozenset):  # the order of text in a set differs between processes
        return f"{{{', '.join(sorted(map(described, value)))}}}"
    if isinstance(value, list | tuple) and any(isinstance(v, set | frozenset) for v in value):
        return f"[{', '.join(map(described, value))}]"
    value = value.item() if isinstance(value, np.generic) else value
    return _ADDRESS.sub("", repr(value))


def change_message(name: str, was: str, now: str) -> Message:
    """Return a message about a changed parameter; hashes of arrays are left out, since they tell a reader nothing.

    >>> str(change_message("depth", "3", "2"))
    'depth was 3 and is now 2'
    """
    if "array(" in was or "array(" in now:
        return Message(Setting(name), " has changed")
    return Message(Setting(name), f" was {was} and is now {now}")
