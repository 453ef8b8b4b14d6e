"""A real browser. Without one the tests are skipped, and say so."""

import os
import shutil
from pathlib import Path

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def chromium() -> str | None:
    """The browser: the one named by $CHROMIUM, else one on the path."""
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


@pytest.fixture(scope="session")
def browser():
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: make test-browser installs it"
    )
    path = chromium()
    if path is None:
        pytest.skip("no Chromium found: install the package chromium, or set $CHROMIUM")
    # Chromium refuses to run as root inside its own sandbox
    flags = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    with playwright.sync_playwright() as started:
        running = started.chromium.launch(executable_path=path, args=flags)
        yield running
        running.close()


@pytest.fixture(scope="session")
def pictures(tmp_path_factory) -> Path:
    """Where screenshots go: $SCREENSHOTS, if that is set."""
    folder = Path(os.environ.get("SCREENSHOTS") or tmp_path_factory.mktemp("screenshots"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder
