"""Output on a terminal: names and labels are shown, not obeyed, and lines fit its width; CSV may be made safe."""

from __future__ import annotations

import csv
import io
import json
import unicodedata
from contextlib import chdir, redirect_stderr, redirect_stdout, suppress

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from tests.cli.command import refused, run
from tests.screen import Screen

from maboost.cli import main
from maboost.runtime.text import escaped

EVIL = "\x1b[31m[red]x\r\n\x07\x9b2J\u202ey\u2028"
SHOWN = r"\x1b[31m[red]x\r\n\x07\x9b2J\u202ey\u2028"


def controls(text):
    """The characters that a terminal obeys, but for ends of lines."""
    return {c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Zl") and c != "\n"}


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """Rows whose columns, categories, sources, labels and path hold controls, and a model of them."""
    folder = tmp_path_factory.mktemp("evil\x1b[1m\n[b]")
    frame = pd.DataFrame(
        {
            f"{EVIL}1": range(60),
            "category": [f"{EVIL}{i % 2}" for i in range(60)],
            f"{EVIL}source": [EVIL if i % 3 else f"{EVIL}b" for i in range(60)],
            f"{EVIL}label": [f"{EVIL}{i // 30}" for i in range(60)],
        }
    )
    data, model = folder / "rows.parquet", folder / "m.maboost"
    frame.to_parquet(data)
    limits = ("--domain-limit", f"{EVIL}=0.2", "--domain-limit", f"{EVIL}b=none")
    roles = ("--target", f"{EVIL}label", "--domain-column", f"{EVIL}source", *limits)
    trained = run("train", data, "--rounds", 2, *roles, "--out", model)
    assert trained.returncode == 0, trained.stderr
    return folder, data, model, roles, trained


def test_training_shows_no_control(hostile):
    _, data, _, roles, done = hostile
    assert not controls(done.stdout + done.stderr)
    assert f"source {SHOWN}" in done.stdout
    assert f"{SHOWN}label" in done.stderr.replace("\n", "")
    assert escaped(str(data)) in done.stderr.replace("\n", "")
    found = run("train", data, "--rounds", 2, *roles, "--json", "--quiet")
    assert not controls(found.stdout + found.stderr)
    assert json.loads(found.stdout)["target"] == f"{EVIL}label"


@pytest.mark.parametrize("command", ["inspect", "evaluate"])
def test_looking_at_a_model_shows_no_control(hostile, command):
    _, data, model, _, _ = hostile
    rows = [data] if command == "evaluate" else []
    done = run(command, model, *rows)
    assert done.returncode == 0, done.stderr
    assert not controls(done.stdout + done.stderr)
    assert f"{SHOWN}0" in done.stdout
    printed = run(command, model, *rows, "--json").stdout
    assert not controls(printed)
    assert json.loads(printed)["classes"] == [f"{EVIL}0", f"{EVIL}1"]


def test_errors_show_no_control_and_are_one_line(hostile):
    folder, data, model, _, _ = hostile
    calls = [
        ("train", folder / EVIL.replace("/", "")),
        ("train", data, "--target", EVIL),
        ("train", data, "--drop", f"{EVIL}none"),
        ("train", data, "--out", f"{folder / 'none'}/{EVIL}"),
        ("predict", model, data, "--keep", f"{EVIL}other"),
        ("predict", data, data),
        ("inspect", folder / "none\x1b"),
    ]
    for call in calls:
        assert len(refused("", *call)) == 1
        assert not controls(run(*call).stderr)
    for call in [
        ("train", data, f"extra{EVIL}"),
        (f"no{EVIL}",),
        ("train", data, "--rounds", EVIL),
    ]:
        done = run(*call)
        assert done.returncode == 2
        assert SHOWN in done.stderr
        assert not controls(done.stderr)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_predictions_are_escaped_on_a_terminal_and_whole_in_a_pipe(hostile):
    _, data, model, _, _ = hostile
    words = ["predict", str(model), str(data), "--keep", "category"]
    terminal = Terminal()
    with redirect_stdout(terminal), redirect_stderr(Terminal()), suppress(SystemExit):
        main(words, prog_name="maboost")
    assert not controls(terminal.getvalue())
    assert len(terminal.getvalue().splitlines()) == 61
    found = list(csv.reader(io.StringIO(run(*words).stdout, newline="")))
    assert found[1] == [f"{EVIL}0", f"{EVIL}0"]


@pytest.fixture
def rows(tmp_path):
    draw = np.random.default_rng(0)
    frame = pd.DataFrame(draw.normal(size=(300, 9)), columns=[f"measurement_{j}" for j in range(9)])
    wrong = draw.random(300) < 0.1
    frame["kind"] = draw.choice(["red", "green"], 300)
    frame["label"] = np.where((frame["measurement_0"] > 0.0) ^ wrong, "malignant", "benign")
    frame.to_csv(tmp_path / "rows.csv", index=False)
    return tmp_path


def on_a_screen(folder, *words):
    """The output of a command on a terminal of 80 columns, and the screen on which it was shown."""
    terminal = Terminal()
    with (
        chdir(folder),
        pytest.MonkeyPatch.context() as patch,
        redirect_stdout(terminal),
        redirect_stderr(terminal),
        suppress(SystemExit),
    ):
        patch.setenv("COLUMNS", "80")
        patch.setenv("TERM", "xterm-256color")
        main(list(map(str, words)), prog_name="maboost")
    return terminal.getvalue(), Screen(80).fed(terminal.getvalue())


TRAINING = (
    "train", "rows.csv", "--rounds", 20, "--suspects", "suspects.csv", "--report", "report.html",
)  # fmt: skip


def test_training_fits_80_columns_and_breaks_between_words_only(rows):
    printed, screen = on_a_screen(rows, *TRAINING)
    assert screen.broken == []
    for phase in (
        "starting",
        "reading rows.csv",
        "finding the cap",
        "cross-fitting model 10 of 10",
    ):
        assert phase in printed
        assert phase not in "\n".join(screen.lines())
    lines = screen.lines()
    (bar,) = [line for line in lines if line.startswith("rounds ━")]
    assert " 20/20 " in bar
    piped = run(*TRAINING, cwd=rows)
    for line in piped.stdout.splitlines():
        words = " ".join(lines).split()
        assert [word for word in line.split() if word not in words] == []
    assert not any(line.endswith(" ") for line in piped.stdout.splitlines())
    assert not controls(piped.stdout + piped.stderr)


@pytest.mark.parametrize("command", ["train", "evaluate"])
def test_notes_about_a_table_are_below_the_progress_of_its_reading(rows, command):
    table = pd.read_csv(rows / "rows.csv").astype({"measurement_0": object})
    table.loc[3, "measurement_0"] = "unknown"
    table.to_csv(rows / "odd.csv", index=False)
    options = ("odd.csv", "--numeric", "measurement_0")
    if command == "evaluate":
        made = ("--rounds", 2, "--smoothness", 4, "--out", "odd.maboost")
        assert run("train", *options, *made, cwd=rows).returncode == 0
        options = ("odd.maboost", *options)
    printed, screen = on_a_screen(
        rows, command, *options, *(("--rounds", 2, "--smoothness", 4) if command == "train" else ())
    )
    assert printed.rindex("reading odd.csv") < printed.index("maboost: odd.csv: column ")
    assert [line for line in screen.lines() if line.startswith("maboost: odd.csv: column ")]


def test_other_commands_fit_80_columns(rows):
    assert run("train", "rows.csv", "--rounds", 20, "--out", "m", cwd=rows).returncode == 0
    for call in (("inspect", "m"), ("evaluate", "m", "rows.csv"), ("certify", "m", "rows.csv")):
        printed, screen = on_a_screen(rows, *call)
        assert ("reading rows.csv" in printed) == (call[0] != "inspect")
        assert screen.broken == []
        lines = run(*call, cwd=rows).stdout.splitlines()
        words = " ".join(screen.lines()).split()
        assert len(words) > 20
        assert [word for line in lines for word in line.split() if word not in words] == []


def test_a_training_without_out_says_that_the_model_is_not_kept(rows):
    done = run("train", "rows.csv", "--rounds", 2, cwd=rows)
    assert "model     will not be kept: --out FILE writes it" in done.stderr
    assert done.stdout.splitlines()[-1].split() == [
        "model",
        "not",
        "kept:",
        "--out",
        "FILE",
        "writes",
        "it",
    ]
    kept = run("train", "rows.csv", "--rounds", 2, "--out", "m", cwd=rows)
    assert "kept" not in kept.stdout + kept.stderr
    assert kept.stdout.splitlines()[-1].split() == ["model", "m"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain [b] \\x", "plain [b] \\x"), ("größe 尺寸　\xa0😀", "größe 尺寸　\xa0😀"),
        ("a\tb\x7f", "a\\tb\\x7f"), ("\u2066a\u2069", "\\u2066a\\u2069"), ("\udc80", "\\udc80"),
        ("\u0645\u06cc\u200c\u062e", "\u0645\u06cc\u200c\u062e"),
    ],
)  # fmt: skip
def test_text_is_shown_and_controls_are_escaped(text, shown):
    assert escaped(text) == shown


# ------------------------------------------------------------------------------------------- formulas

FORMULAS = ["=1+1", "+A1", "-cmd|' /C calc'!A0", "@SUM(A1)", "\t=1", "\r=1", "\uff1d1", "-", "+1-1"]
HARMLESS = ["-1.5", "+2", "-1,5", "1e-9", "-2E+3", "a=b", "'=1", "a-b"]


@pytest.fixture(scope="module")
def spreadsheet(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sheet")
    cells = (FORMULAS + HARMLESS) * 4
    names = ["@no", "=yes"]
    frame = pd.DataFrame(
        {
            "x": [float(i % 2) for i in range(len(cells))],
            "=note": cells,
            "label": [names[i % 2 if i % 9 else (i + 1) % 2] for i in range(len(cells))],
        }
    )
    data, model = folder / "rows.csv", folder / "m.maboost"
    frame.to_csv(data, index=False, quoting=csv.QUOTE_ALL)
    suspects = folder / "suspects.csv"
    call = ("train", data, "--drop", "=note", "--rounds", 3, "--out", model, "--suspects", suspects)
    done = run(*call, "--safe-csv")
    assert done.returncode == 0, done.stderr
    return folder, data, model, cells, suspects


def rows_of(text):
    return list(csv.reader(io.StringIO(text, newline="")))


def test_safe_csv_quotes_formulas_and_leaves_numbers(spreadsheet):
    folder, data, model, cells, suspects = spreadsheet
    out = folder / "p.csv"
    call = ("predict", model, data, "--keep", "=note", "--proba")
    assert run(*call, "--out", out, "--safe-csv").returncode == 0
    shown = run(*call, "--safe-csv").stdout
    for text in (out.read_bytes().decode(), shown):
        head, *rows = rows_of(text)
        assert head == ["'=note", "prediction", "probability_=yes", "probability_@no"]
        assert [row[0] for row in rows] == [f"'{c}" if c in FORMULAS else c for c in cells]
        assert {row[1] for row in rows} == {"'=yes", "'@no"}
        assert all(0.0 <= float(row[2]) <= 1.0 for row in rows)
    found = pd.read_csv(suspects)
    assert len(found)
    assert set(found["given_label"]) <= {"'=yes", "'@no"}


def test_without_safe_csv_cells_are_as_they_are(spreadsheet):
    _, data, model, cells, _ = spreadsheet
    head, *rows = rows_of(run("predict", model, data, "--keep", "=note").stdout)
    assert head == ["=note", "prediction"]
    assert [row[0] for row in rows] == cells


def test_safe_csv_is_refused_where_it_does_nothing(spreadsheet):
    folder, data, model, cells, _ = spreadsheet
    parquet = folder / "p.parquet"
    refused("--safe-csv is for CSV", "predict", model, data, "--out", parquet, "--safe-csv")
    refused("--safe-csv is for CSV", "train", data, "--suspects", parquet, "--safe-csv")
    refused("--safe-csv needs --suspects", "train", data, "--safe-csv")
    assert run("predict", model, data, "--keep", "=note", "--out", parquet).returncode == 0
    assert pq.read_table(parquet).column("=note").to_pylist() == cells
