"""Messages about missing packages name an extra that has the package."""

import ast
import tomllib
from pathlib import Path

import maboost
from maboost.runtime.optional_packages import missing_package

SOURCE = Path(maboost.__file__).parent
PROJECT = Path(__file__).parents[2] / "pyproject.toml"


def calls():
    """The arguments of every call of `missing_package`, where they are constants."""
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "missing_package":
                yield [arg.value for arg in node.args if isinstance(arg, ast.Constant)]


def test_every_extra_exists_and_has_the_package():
    extras = tomllib.loads(PROJECT.read_text())["project"]["optional-dependencies"]
    found = [call for call in calls() if len(call) == 3]
    assert len(found) >= 8
    for _, package, extra in found:
        # xgboost-cpu is the package xgboost
        assert any(need.startswith(package) for need in extras[extra]), (package, extra)


def test_no_other_message_says_how_to_install():
    saying = [path.name for path in SOURCE.rglob("*.py") if "pip install" in path.read_text()]
    assert saying == ["optional_packages.py"]


def test_the_command_is_named():
    message = missing_package("to_onnx()", "onnx", "onnx")
    assert message.startswith("to_onnx() needs onnx: run pip install '.[onnx]'")
    assert missing_package("this", "pandas") == "this needs pandas: run pip install pandas"
