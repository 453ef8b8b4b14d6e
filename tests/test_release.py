"""What is handed out: the wheel has all of the package, and version and names are said once."""

import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml

import maboost
from tests.lowest import lowest_versions

ROOT = Path(__file__).parent.parent
CACHES = shutil.ignore_patterns("__pycache__", "*.egg-info")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Names and metadata of a wheel built from a copy, with the setuptools of this environment."""
    source = tmp_path_factory.mktemp("release") / "source"
    shutil.copytree(ROOT / "src", source / "src", ignore=CACHES)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    build = "from setuptools import build_meta; build_meta.build_wheel('out')"
    subprocess.run([sys.executable, "-c", build], cwd=source, check=True, capture_output=True)
    with zipfile.ZipFile(next((source / "out").glob("*.whl"))) as archive:
        names = archive.namelist()
        metadata = next(name for name in names if name.endswith(".dist-info/METADATA"))
        yield set(names), archive.read(metadata).decode()


def test_the_wheel_has_every_file_of_the_package(wheel):
    package = ROOT / "src" / "maboost"
    files = {
        str(path.relative_to(package.parent))
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    names, _ = wheel
    assert files == {name for name in names if ".dist-info/" not in name}
    assert "maboost/py.typed" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_the_version_is_said_once(wheel):
    _, metadata = wheel
    assert f"\nVersion: {maboost.__version__}\n" in metadata
    assert version("maboost") == maboost.__version__
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    assert newest[1] == maboost.__version__


def test_extras_of_the_readme_and_of_the_docs_exist():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    texts = [path.read_text() for path in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"))]
    named = re.findall(r"pip install '\.\[([\w,-]+)\]'", " ".join(texts))
    assert len(set(named)) >= 3
    assert set(",".join(named).split(",")) <= set(project["optional-dependencies"])


def test_a_minimum_is_the_same_in_all_extras():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {"numpy", "scikit-learn", "onnx", "xgboost-cpu"} <= set(lowest_versions(project))
    for wrong in ("pyarrow", "numpy>=1.0", "scipy==1.13"):
        changed = project | {"dependencies": [*project["dependencies"], wrong]}
        with pytest.raises(ValueError, match=wrong.split(">")[0]):
            lowest_versions(changed)


def test_the_citation_names_software_and_paper():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["authors"] == [{"name": "The maboost developers"}]
    (paper,) = citation["references"]
    assert [author["family-names"] for author in paper["authors"]] == ["Naghibi", "Pfister"]
    assert paper["year"] == 2014
