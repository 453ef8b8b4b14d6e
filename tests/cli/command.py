"""The command line for its tests: in this process, or in one of its own as a user runs it."""

import contextlib
import io
import subprocess
import sys
import warnings
from pathlib import Path

from maboost.cli import main

COMMAND = [sys.executable, "-m", "maboost"]


def run_process(*arguments):
    """The command in a process of its own: what the shell sees, for the price of every import."""
    return subprocess.run(
        [*COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=120
    )


def run(*arguments, cwd=None):
    """The command in this process: a process of its own would import for two seconds.

    It is stricter than the shell, too: a warning is an error here, and so is an exception that the
    command does not turn into a line.
    """
    words = list(map(str, arguments))
    stdout, stderr = io.StringIO(), io.StringIO()
    with (
        contextlib.chdir(cwd or Path.cwd()),
        warnings.catch_warnings(),  # a module imported by the command may set filters
        contextlib.redirect_stdout(stdout),
        contextlib.redirect_stderr(stderr),
    ):
        try:
            main(words, prog_name="maboost")
        except SystemExit as ended:
            code = ended.code
    return subprocess.CompletedProcess(words, code, stdout.getvalue(), stderr.getvalue())


def refused(message, *arguments, run=run, **where):
    """Exit code 2, one line that names the problem, no traceback, nothing on stdout."""
    done = run(*arguments, **where)
    lines = done.stderr.strip().splitlines()
    assert done.returncode == 2, done
    assert "Traceback" not in done.stderr
    assert lines[-1].startswith("maboost: "), done.stderr
    assert message in lines[-1], lines[-1]
    assert done.stdout == ""
    return lines
