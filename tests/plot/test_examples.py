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


def test_all_labels_of_the_first_picture_had_been_changed(tmp_path):
    """As the README and the first page of the documentation say."""
    example = runpy.run_path(str(EXAMPLES / "plot_found_labels.py"))
    shown = []
    example["main"].__globals__["draw"] = lambda X, table, changed: shown.append(
        changed[table.index]
    )
    example["main"](str(tmp_path / "picture.png"))
    plt.close("all")
    assert len(shown[0]) == 16
    assert shown[0].all()


def test_emphasis(capsys):
    runpy.run_path(str(EXAMPLES / "emphasis.py"))["main"]("1")
    lines = capsys.readouterr().out.splitlines()
    assert sum("malignant" in line for line in lines) == 4


def test_noisy_labels():
    example = runpy.run_path(str(EXAMPLES / "noisy_labels.py"))
    study, wine = example["study"], "wine, second kind"
    study.__globals__["data_sets"] = lambda: {wine: example["data_sets"]()[wine]}
    found = study(2)[wine]
    assert {result.shape for result in found.values()} == {(2, 2)}
    assert all(0.0 <= best <= last < 0.6 for r in found.values() for last, best in r)
