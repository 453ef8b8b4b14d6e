"""The examples run, and write the picture they are asked for."""

import runpy
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
PICTURES = sorted(path.stem for path in EXAMPLES.glob("plot_*.py") if path.stem != "plot_overview")


@pytest.mark.parametrize("name", PICTURES)
def test_picture(name, tmp_path):
    target = tmp_path / "picture.png"
    runpy.run_path(str(EXAMPLES / f"{name}.py"))["main"](str(target))
    plt.close("all")
    assert target.read_bytes().startswith(b"\x89PNG")


def test_emphasis(capsys):
    runpy.run_path(str(EXAMPLES / "emphasis.py"))["main"]("1")
    lines = capsys.readouterr().out.splitlines()
    assert sum("malignant" in line for line in lines) == 4
