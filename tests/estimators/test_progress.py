"""What a fit shows while it runs: lines in a file, and on a terminal lines that fit its width."""

from __future__ import annotations

import io
import re
import sys
import unicodedata
import warnings
from contextlib import redirect_stderr
from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import make_classification
from tests.screen import Screen

from maboost import CombinedBoostClassifier, MABoostClassifier, SmoothBoostClassifier
from maboost.boosting.history import Record
from maboost.estimators.progress import Lines, display, figures, rows_done, showing

pytest.importorskip("rich")

from rich.console import Console

from maboost.estimators.terminal import Terminal

X, y = make_classification(200, 5, random_state=0, flip_y=0.1)
NAN = float("nan")
LONG = Record(
    round=99_999, edge=0.1234, step=0.1, gain=0.1, error_bound=1.234e-12, train_error=0.1234,
    val_error=0.1234, min_margin=NAN, soft_margin=NAN, margin_bound=NAN, smoothness=1.0, ess=1.0,
    nonzero=1.0, rows_used=1, seconds=0.1,
)  # fmt: skip


def shown(terminal, width):
    """The lines that the display has on the screen now, on a console of this width."""
    console = Console(file=io.StringIO(), width=width, record=True, force_terminal=True)
    console.print(terminal.bar.get_renderable())
    return console.export_text().splitlines()


@pytest.fixture
def terminal():
    opened = Terminal(Console(file=io.StringIO(), width=80, force_terminal=True))
    yield opened
    opened.close()


@pytest.mark.parametrize("width", [80, 60, 200])
@pytest.mark.parametrize(
    "record", [LONG, replace(LONG, val_error=NAN), replace(LONG, train_error=NAN, error_bound=1.0)]
)
def test_rounds_fit_the_width_and_break_between_words_only(terminal, record, width):
    terminal.rounds(0, 100_000)
    terminal.round(record, 100_000)
    terminal.phase("calibrating probabilities")
    lines = shown(terminal, width)
    assert all(len(line) <= width for line in lines), lines
    words = " ".join(lines).split()
    assert [word for word in figures(record).split() if word not in words] == []
    assert {"rounds", "99999/100000", "calibrating", "probabilities"} <= set(words)
    assert not any("…" in line for line in lines)


def test_a_pass_over_rows_fits_the_width(terminal):
    for done in (50_000_000, 100_000_000):
        terminal.rows("reading the sample", done, 100_000_000)
        (line,) = shown(terminal, 80)
        assert len(line) <= 80
        assert line.startswith("reading the sample ")
        assert f" {done:,} of 100,000,000 rows " in line


@pytest.mark.parametrize(("total", "left"), [(None, False), (100, True)])
def test_the_time_left_is_shown_while_rounds_run(terminal, total, left):
    terminal.rounds(0, 100) if total else terminal.phase("binning")
    assert ("left" in shown(terminal, 80)[0]) == left
    terminal.phase("next")
    assert not any("left" in line for line in shown(terminal, 80))


class Stream(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self):
        return True


@pytest.fixture
def stderr(monkeypatch):
    """A terminal, to which a test redirects: pytest would undo that between a fixture and its test."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm-256color")
    return Stream()


def test_on_a_terminal_the_rounds_stay_and_phases_go(stderr):
    with redirect_stderr(stderr):
        model = SmoothBoostClassifier(n_estimators=7, verbose=1, random_state=0).fit(X, y)
    for phase in ("reading the rows", "finding the cap", "binning", "calibrating probabilities"):
        assert phase in stderr.getvalue()
    lines = Screen(80).fed(stderr.getvalue()).lines()
    assert len(lines) == 2
    assert re.fullmatch(r"rounds ━+ 7/7 \d:\d\d:\d\d", lines[0])
    assert len(lines[0]) <= 80
    assert lines[1] == figures(model.history_.records[-1])
    with redirect_stderr(stderr):
        model.suspect_labels()
    assert "cross-fitting model 10 of 10" in stderr.getvalue()
    assert Screen(80).fed(stderr.getvalue()).lines() == lines


def test_what_others_print_stays_above_the_bar(stderr):
    click = pytest.importorskip("click")
    with redirect_stderr(stderr):
        with showing(1) as shown:
            shown.rounds(0, 10)
            print("a line of a callback", file=sys.stderr)
            shown.round(LONG, 10)
            click.echo("a note of the command line", err=True)
            shown.round(LONG, 10)
        print("after", file=sys.stderr)
    first, second, bar, below, after = Screen(80).fed(stderr.getvalue()).lines()
    assert (first, second) == ("a line of a callback", "a note of the command line")
    assert bar.startswith("rounds ")
    assert below == figures(LONG)
    assert after == "after"


def test_stdout_in_a_pipe_is_not_drawn_on_the_terminal(stderr, capsys):
    with redirect_stderr(stderr), showing(1) as shown:
        shown.phase("reading")
        print("data")
    assert capsys.readouterr().out == "data\n"
    assert "data" not in stderr.getvalue()


def test_a_failure_leaves_the_terminal_as_it_was(stderr):
    with redirect_stderr(stderr), pytest.raises(ValueError, match="missing labels"):
        MABoostClassifier(n_estimators=3, verbose=1).fit(X, np.full(len(X), np.nan))
    assert Screen(80).fed(stderr.getvalue()).lines() == []
    assert stderr.getvalue().rindex("\x1b[?25h") > stderr.getvalue().rindex("\x1b[?25l")


@pytest.mark.parametrize("reason", ["dumb", "no rich"])
def test_a_terminal_that_cannot_rewrite_lines_gets_lines(stderr, monkeypatch, reason):
    if reason == "dumb":
        monkeypatch.setenv("TERM", "dumb")
    else:
        monkeypatch.setitem(sys.modules, "maboost.estimators.terminal", None)
    with redirect_stderr(stderr):
        MABoostClassifier(n_estimators=2, verbose=1).fit(X, y)
    lines = stderr.getvalue().splitlines()
    assert lines[0] == "reading the rows"
    assert [line.split(":")[0] for line in lines if "edge" in line] == ["round 1/2", "round 2/2"]


@pytest.mark.parametrize("forced", [True, False])
def test_a_file_gets_no_control_characters(capsys, monkeypatch, forced):
    if forced:
        monkeypatch.setenv("FORCE_COLOR", "1")
    model = SmoothBoostClassifier(n_estimators=3, verbose=1, random_state=0).fit(X, y)
    model.suspect_labels()
    printed = capsys.readouterr()
    assert printed.out == ""
    assert not {c for c in printed.err if unicodedata.category(c) == "Cc" and c != "\n"}
    lines = printed.err.splitlines()
    assert lines[:5] == [
        "reading the rows", "binning", "finding the cap", "binning", "boosting, 3 rounds at most",
    ]  # fmt: skip
    assert [line.split(":")[0] for line in lines[5:8]] == ["round 1/3", "round 2/3", "round 3/3"]
    models = [f"cross-fitting model {i} of 10" for i in range(1, 11)]
    assert lines[8:] == ["calibrating probabilities", *models]


def test_names_are_shown_not_obeyed(stderr):
    with redirect_stderr(stderr), showing(1) as shown:
        shown.phase("reading \x1b[31m[red]x.csv")
    assert r"reading \x1b[31m[red]x.csv" in stderr.getvalue()
    stream = io.StringIO()
    Lines(1, stream).phase("reading \x1b[31m[red]x.csv\n")
    assert stream.getvalue() == "reading \\x1b[31m[red]x.csv\\n\n"


def test_without_verbose_nothing_is_shown(stderr):
    with redirect_stderr(stderr):
        model = SmoothBoostClassifier(n_estimators=3, random_state=0).fit(X, y)
        model.suspect_labels()
        rows_done("binning", 1, 2)
    assert stderr.getvalue() == ""


def test_fits_within_a_fit_show_nothing(capsys):
    source = np.where(np.arange(len(X)) % 2, "own", "bought")
    outer = MABoostClassifier(
        MABoostClassifier(n_estimators=2, verbose=1), n_estimators=2, verbose=1
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        outer.fit(X, y)
        model = CombinedBoostClassifier(
            n_estimators=2, verbose=1, flip_rates="trusted", trusted=["own"], random_state=0
        )
        model.fit(X, y, sample_domain=source)
    lines = capsys.readouterr().err.splitlines()
    assert lines.count("reading the rows") == lines.count("boosting, 2 rounds at most") == 2
    assert "estimating flip rates" in lines
    assert display() is not None


def test_the_display_ends_with_its_context(stderr):
    quiet = display()
    with redirect_stderr(stderr), showing(1) as outer:
        assert display() is outer
        with showing(1) as inner:
            assert inner is outer
        with showing(0):
            assert display() is quiet
        with showing(1, alone=True):
            assert display() is quiet
        assert display() is outer
    assert display() is quiet
