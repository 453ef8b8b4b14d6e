"""Errors and warnings that name parameters, so that a front end can replace these by its own options."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["Advice", "Message", "ParameterError", "ParameterWarning", "Setting"]

_NO_VALUE = ...  # which stays the same object in a pickle


@dataclass(frozen=True)
class Setting:
    """A parameter in a message, with its value if it has one.

    >>> str(Setting("learning_rate", 2.0)), str(Setting("learning_rate"))
    ('learning_rate=2.0', 'learning_rate')
    >>> str(Setting("error_limits", 0.2, "web"))
    "error_limits['web']=0.2"
    """

    name: str
    value: Any = _NO_VALUE
    key: Any = _NO_VALUE  # of the value, if the parameter is a dict

    @property
    def has_value(self) -> bool:
        """Whether the message names the value."""
        return self.value is not _NO_VALUE

    @property
    def has_key(self) -> bool:
        """Whether the value is that of one key."""
        return self.key is not _NO_VALUE

    def __str__(self) -> str:
        name = f"{self.name}[{self.key!r}]" if self.has_key else self.name
        return f"{name}={self.value!r}" if self.has_value else name


@dataclass(frozen=True)
class Advice:
    """A remedy in a message, for users of Python; `name` identifies it for other front ends.

    >>> str(Advice("validation rows", "give X_val and y_val"))
    'give X_val and y_val'
    """

    name: str
    text: str

    def __str__(self) -> str:
        return self.text


class Message:
    """A text of several parts, some of which name parameters.

    >>> message = Message(Setting("n_estimators", 2), " is less than 3")
    >>> str(message)
    'n_estimators=2 is less than 3'
    >>> message.with_names(lambda part: f"--rounds {part.value}")
    '--rounds 2 is less than 3'
    """

    def __init__(self, *parts: str | Setting | Advice | Message) -> None:
        self.parts = parts

    def __str__(self) -> str:
        return self.with_names(str)

    def with_names(self, named: Callable[[Setting | Advice], str]) -> str:
        """Return the text with ``named(part)`` in place of each parameter and each advice."""
        texts = []
        for part in self.parts:
            if isinstance(part, Message):
                texts.append(part.with_names(named))
            else:
                texts.append(part if isinstance(part, str) else named(part))
        return "".join(texts)

    def settings(self) -> list[Setting]:
        """Return the parameters that the text names, in its order."""
        found: list[Setting] = []
        for part in self.parts:
            if isinstance(part, Message):
                found += part.settings()
            elif isinstance(part, Setting):
                found.append(part)
        return found


class _WithMessage(Exception):
    """The base class of errors and warnings whose text has several parts."""

    def __init__(self, *parts: str | Setting | Advice | Message) -> None:
        self.message = Message(*parts)
        super().__init__(str(self.message))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self.message.parts

    @property
    def parameter(self) -> str | None:
        """The parameter that the message names first."""
        settings = self.message.settings()
        return settings[0].name if settings else None


class ParameterError(_WithMessage, ValueError):
    """An error about parameters, in parts.

    >>> error = ParameterError(Setting("tol", -1.0), " must be at least 0")
    >>> str(error), error.parameter
    ('tol=-1.0 must be at least 0', 'tol')
    """


class ParameterWarning(_WithMessage, UserWarning):
    """A warning about parameters, in parts.

    >>> str(ParameterWarning(Setting("tol", 0.5), " is large"))
    'tol=0.5 is large'
    """
