"""Write constraints that pin every requirement of pyproject.toml to its declared minimum.

``make test-lowest`` installs these versions and runs the tests with them.
"""

import re
import sys
import tomllib
from pathlib import Path

PROJECT = Path(__file__).parent.parent / "pyproject.toml"
REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)(\[[\w,]+\])?>=(?P<version>[\d.]+)")


def lowest_versions(project: dict) -> dict[str, str]:
    """Return the minimum version of each requirement, extras included.

    A requirement that several extras repeat must have the same minimum in all of them: an environment
    with all extras could not test the lower one.

    >>> lowest_versions({"name": "me", "dependencies": ["numpy>=2.0", "me[plot]", "dask[array]>=2024.8"]})
    {'numpy': '2.0', 'dask': '2024.8'}
    """
    versions: dict[str, str] = {}
    extras = project.get("optional-dependencies", {}).values()
    for requirement in sum(extras, start=project["dependencies"]):
        if requirement.startswith(f"{project['name']}["):
            continue
        found = REQUIREMENT.fullmatch(requirement)
        if found is None:
            raise ValueError(f"{requirement!r} declares no minimum version; write name>=version")
        name, version = found["name"], found["version"]
        if versions.setdefault(name, version) != version:
            raise ValueError(f"{name} has two minimum versions, {versions[name]} and {version}")
    return versions


def main() -> None:
    project = tomllib.loads(PROJECT.read_text())["project"]
    running = ".".join(map(str, sys.version_info[:2]))
    if project["requires-python"] != f">={running}":
        raise SystemExit(
            f"the lowest versions are tested with the lowest Python ({project['requires-python']}), "
            f"this is {running}: give another with make PYTHON=..."
        )
    for name, version in lowest_versions(project).items():
        print(f"{name}=={version}")


if __name__ == "__main__":
    main()
