"""The command line: train, predict, evaluate, certify, inspect, demo."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from maboost.runtime.optional_packages import missing_package

try:
    import click
    import pyarrow  # noqa: F401
    from rich.console import Console
except ImportError as error:  # pragma: no cover
    raise SystemExit(missing_package("maboost's command line", str(error.name), "cli")) from error

import maboost
from maboost.runtime.text import escaped

__all__ = ["main"]

_MODULE_OF = {
    "certify": "certifying",
    "demo": "demo",
    "evaluate": "evaluating",
    "inspect": "model_commands",
    "predict": "model_commands",
    "train": "training",
}


class _Group(click.Group):
    """The group of commands: lazy imports, and escaped messages of click, since they contain names of files."""

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        with _escaped_errors():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with _escaped_errors():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_MODULE_OF)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _MODULE_OF:
            return None
        with _starting():
            module = import_module(f"maboost.cli.{_MODULE_OF[cmd_name]}")
        command: click.Command = getattr(module, cmd_name)
        return command


@contextmanager
def _starting() -> Iterator[None]:
    """Show on a terminal that a command starts: the imports may take seconds."""
    if not sys.stderr.isatty():
        yield
        return
    with Console(stderr=True).status("starting"):
        yield


@contextmanager
def _escaped_errors() -> Iterator[None]:
    try:
        yield
    except click.UsageError as error:
        raise click.UsageError(escaped(error.format_message()), error.ctx) from None


@click.group(
    cls=_Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(maboost.__version__, prog_name="maboost")
def main() -> None:
    """Boosting where you choose the distribution, with a certificate."""
