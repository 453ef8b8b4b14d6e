"""Every code block of the README and of the documentation runs as written, page by page from the top.

A fence says how: ``python`` runs, ``pycon`` runs and must print what it shows, and of ``console`` the
lines that call ``maboost`` run, while targets, extras and scripts of the others must exist. All blocks of a
page share their names and an empty folder, in which a table lies as CSV files.
"""

import doctest
import importlib
import re
import shlex
import textwrap
import tomllib
from importlib.util import find_spec
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
from click.testing import CliRunner
from sklearn.datasets import load_breast_cancer

from maboost.cli import main

ROOT = Path(__file__).parent.parent
WRITTEN = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md"]
GENERATED = {ROOT / "docs" / "gallery", ROOT / "docs" / "reference" / "generated"}
PAGES = WRITTEN + [
    page for page in sorted(ROOT.glob("docs/**/*.md")) if not GENERATED & set(page.parents)
]
PUBLIC = [
    "maboost", "maboost.boosting", "maboost.certification", "maboost.data", "maboost.distributed", "maboost.learners",
    "maboost.mirror", "maboost.mirror.online", "maboost.mirror.steps", "maboost.noise", "maboost.plot",
    "maboost.testing",
]  # fmt: skip


def blocks(page):
    """Language, first line and text of each fenced block."""
    text = page.read_text()
    for found in re.finditer(r"^( *)```(\w+)\n(.*?)^\1```", text, flags=re.DOTALL | re.MULTILINE):
        yield found[2], text.count("\n", 0, found.start(3)), textwrap.dedent(found[3])


def run_script(page, line, text, names):
    exec(compile("\n" * line + text, str(page), "exec"), names)


def run_session(page, line, text, names):
    test = doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), line)
    test.globs = names
    said = []
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    doctest.DocTestRunner(optionflags=flags).run(test, out=said.append, clear_globs=False)
    assert not said, "".join(said)


def run_commands(page, line, text, names):
    for command in re.sub(r"\\\n", "", text).splitlines():
        words = shlex.split(command, comments=True)
        if words[:1] == ["maboost"]:
            result = CliRunner().invoke(main, words[1:])
            assert result.exit_code == 0, f"{command}\n{result.output}"
        elif words:
            check_command(words)


def check_command(words):
    """A command that is not run here: what it names must be there."""
    program, *arguments = words
    if program == "make":
        targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
        assert set(arguments) <= set(targets), f"{words}: the Makefile has {targets}"
    elif program == "pip":
        known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        extras = re.findall(r"\[([\w,]+)\]", " ".join(arguments))
        assert set(",".join(extras).split(",")) - {""} <= set(known["optional-dependencies"])
    else:
        scripts = [argument for argument in arguments if argument.endswith(".py")]
        assert program.startswith((".venv/bin/", "python", "git", "cd"))
        assert all((ROOT / script).exists() for script in scripts)


# words of a block, and the module without which it cannot run
NEEDED = {
    ".set_callbacks(": "sklearn.callback",  # scikit-learn 1.9 and later
    "from cleanlab": "cleanlab",
    "skops": "skops",
    "mlflow": "mlflow",
    "optuna": "optuna",
}


def missing_modules(text):
    return {module for word, module in NEEDED.items() if word in text and find_spec(module) is None}


RUN = {"python": run_script, "pycon": run_session, "console": run_commands}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where the blocks of a page run, with the files that command lines speak of."""
    monkeypatch.chdir(tmp_path)
    frame = load_breast_cancer(as_frame=True).frame.rename(columns={"target": "diagnosis"})
    frame[::2].to_csv("rows.csv", index=False)
    frame[1::2].to_csv("test.csv", index=False)
    frame[1::2].drop(columns="diagnosis").to_csv("new.csv", index=False)
    yield tmp_path
    plt.close("all")


@pytest.mark.filterwarnings("ignore:::mlflow")  # MLflow warns of its own code and of what it calls
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_code_blocks_run(page, folder):
    names = {"__name__": "__main__"}  # as a script: what stands under its guard runs too
    missing = set()
    for language, line, text in blocks(page):
        if missing_modules(text):
            missing |= missing_modules(text)
        elif language in RUN:
            RUN[language](page, line, text, names)
    if missing:
        pytest.skip(f"the other blocks ran; some need {', '.join(sorted(missing))}")


def test_the_tutorial_is_short():
    page = ROOT / "docs" / "design.md"
    scripts = [text for language, _, text in blocks(page) if language == "python"]
    assert scripts
    assert max(len(script.splitlines()) for script in scripts) < 60


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_linked_files_exist(page):
    links = re.findall(r"\]\(((?!https?:|#)[^)#\s]+)", page.read_text())
    missing = [link for link in links if not (page.parent / link).exists()]
    assert not missing


@pytest.mark.parametrize("page", ["docs/inside.md", "CONTRIBUTING.md"])
def test_named_files_and_folders_exist(page):
    """Names in code style with a slash or a suffix are paths, from the root of the repository or of the package."""
    names = re.findall(
        r"`((?!https?:)[\w.-]*(?:/[\w./-]*|\.(?:py|md|toml|ini)))`", (ROOT / page).read_text()
    )
    assert len(names) > 10
    missing = [n for n in names if not ((ROOT / n).exists() or (ROOT / "src/maboost" / n).exists())]
    assert not missing


@pytest.mark.parametrize("module", PUBLIC)
def test_public_names_are_in_the_reference_with_an_example(module):
    page = (ROOT / "docs" / "reference" / "index.md").read_text()
    listed = {
        f"{section[1]}.{name}"
        for section in re.finditer(
            r"currentmodule:: (\S+)(.*?)(?=\.\. currentmodule|```)", page, re.S
        )
        for name in re.findall(r"^   (\w+)$", section[2], flags=re.MULTILINE)
    }
    found = importlib.import_module(module)
    names = [name for name in found.__all__ if name != "__version__"]
    assert {f"{module}.{name}" for name in names} <= listed
    if module == "maboost.distributed":  # its example is a page: it takes a cluster
        return
    assert [name for name in names if ">>>" not in getattr(found, name).__doc__] == []
