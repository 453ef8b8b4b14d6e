"""Options of ``maboost train`` from a TOML file."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from maboost.data.files import TableError

__all__ = ["configured"]

NAMES = {
    "json": "as_json",
    "domain_limit": "limits",
    "flip_rate": "flip_rates",
}  # option names that differ from their parameters
PAIRS = ("limits", "class_weight", "flip_rates")  # NAME=VALUE, or a table of them


def configured(context: click.Context, config: Path, options: dict[str, Any]) -> dict[str, Any]:
    """Return options, with those of a TOML file where the command line has none."""
    if not config.is_file():
        raise TableError(f"--config {config}: no such file")
    try:
        given = tomllib.loads(config.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise TableError(f"--config {config}: {error}") from error
    known = {p.name: p for p in context.command.params if p.name not in ("config", "data")}
    options = dict(options)
    for key, value in given.items():
        name = NAMES.get(key.replace("-", "_"), key.replace("-", "_"))
        if name not in known:
            raise TableError(f"--config {config}: unknown option {key!r}")
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            continue
        if name in PAIRS and isinstance(value, dict):
            value = [f"{k}={v}" for k, v in value.items()]
        try:
            options[name] = _converted(context, known[name], key, value)
        except TableError as error:
            raise TableError(f"--config {config}: {error}") from error
    return options


def _converted(context: click.Context, option: Any, key: str, value: Any) -> Any:
    """Return a value of TOML in the option's type, without any conversion between types."""
    if option.multiple and not isinstance(value, list):
        raise TableError(f"{key} = {value!r} is not a list, as in {key} = [{value!r}]")
    what, fits = _type_of(option)
    for item in value if option.multiple else [value]:
        if not fits(item):
            raise TableError(f"{key} = {item!r} is not {what}")
    try:
        return option.type_cast_value(context, value)
    except click.BadParameter as error:
        raise TableError(f"{key} = {value!r}: {error.message}") from error


def _type_of(option: Any) -> tuple[str, Callable[[Any], bool]]:
    """Return a description and a test of the values that an option accepts in the file."""
    if option.is_flag:
        return "true or false", lambda value: isinstance(value, bool)
    if option.type is click.INT:
        return "a whole number", lambda value: type(value) is int
    if option.type is click.FLOAT or option.name == "valid":
        more = str if option.name == "valid" else float
        what = "a number" if more is float else "text or a number"
        return what, lambda value: type(value) in (int, float, more)
    return "text", lambda value: isinstance(value, str)
