"""The README's code runs as written, top to bottom."""

import re
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def test_code_blocks_run():
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    assert len(blocks) == 4
    names = {"__name__": "readme"}
    for block in blocks:
        exec(compile(block, str(README), "exec"), names)
    assert names["model"].certificate_.measured_error <= names["model"].certificate_.error_bound


def test_linked_files_exist():
    links = re.findall(r"\]\(([^)#]+)\)", README.read_text())
    missing = [link for link in links if not (README.parent / link).exists()]
    assert links
    assert not missing
