"""The command line: train, predict, evaluate, certify, inspect, demo."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from maboost.runtime.optional_packages import missing_package

try:
    import click
    import pyarrow  # noqa: F401
    import rich  # noqa: F401
except ImportError as error:  # pragma: no cover
    raise SystemExit(missing_package("maboost's command line", str(error.name), "cli")) from error

import maboost
from maboost.cli.certifying import certify
from maboost.cli.demo import demo
from maboost.cli.evaluating import evaluate
from maboost.cli.model_commands import inspect, predict
from maboost.cli.training import train
from maboost.runtime.text import escaped

__all__ = ["main"]


class _Group(click.Group):
    """The group of commands; click's messages are escaped, since they contain names of files."""

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        with _escaped_errors():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with _escaped_errors():
            return super().invoke(ctx)


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


for command in (train, predict, evaluate, certify, inspect, demo):
    main.add_command(command)
