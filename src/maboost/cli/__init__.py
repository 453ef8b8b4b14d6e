"""The command line: train, predict, evaluate, inspect, demo."""

from __future__ import annotations

try:
    import click
    import pyarrow  # noqa: F401
    import rich  # noqa: F401
except ImportError as error:  # pragma: no cover
    raise SystemExit(
        f"maboost's command line needs {error.name}: pip install 'maboost[cli]'"
    ) from error

import maboost
from maboost.cli.demo import demo
from maboost.cli.training import train
from maboost.cli.using import evaluate, inspect, predict

__all__ = ["main"]


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(maboost.__version__, prog_name="maboost")
def main() -> None:
    """Boosting where you choose the distribution, with a certificate."""


for command in (train, predict, evaluate, inspect, demo):
    main.add_command(command)
