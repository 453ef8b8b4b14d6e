"""`get_params` / `set_params` for small parts, so that grid searches reach inside them."""

from __future__ import annotations

import dataclasses
from typing import Any, Self


class Component:
    """Base of every pluggable dataclass: its parameters are its fields.

    The two methods are scikit-learn's convention (`clone`, `GridSearchCV` over ``domain__caps``);
    they are written here because the mathematics does not depend on scikit-learn.
    """

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's arguments by name."""
        fields = dataclasses.fields(self)  # type: ignore[arg-type]  # every subclass is a dataclass
        return {f.name: getattr(self, f.name) for f in fields if f.init}

    def set_params(self, **params: Any) -> Self:
        """Set constructor arguments; an unknown name is an error."""
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
