"""A real Chromium, without a network; and axe-core, which npm fetches for the session."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from collectrace.align.alignment import align
from collectrace.findings import Alignment
from collectrace.report.page import write
from tests.support.synthetic import Run

BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome")
AXE: Final = "axe-core@4.14.1"

Open = Callable[..., Page]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        if os.environ.get("CI") or os.environ.get("NEEDS_BROWSER"):
            pytest.fail(f"none of {', '.join(BROWSERS)} is in PATH")
        pytest.skip("no Chromium in PATH; tools/test installs it where it may")
    with sync_playwright() as driver:
        # A container's root has no user namespace for the browser's own sandbox.
        chromium = driver.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Iterator[Open]:
    """Opens the page of a run: every error and every request of it fails the test."""
    contexts = []
    wrong: list[str] = []

    def open_page(
        run: Run | Alignment, fragment: str = "", *, before: str = "", **options: Any
    ) -> Page:
        """``before``: a script that runs before the page's own."""
        if isinstance(run, Run):
            run.write(tmp_path / "logs")
            run = align(tmp_path / "logs")
        file = tmp_path / "report.html"
        with file.open("w") as out:
            write(run, out)
        settings: dict[str, Any] = {
            "viewport": {"width": 1280, "height": 800},
            "offline": True,
        } | options
        context = browser.new_context(**settings)
        contexts.append(context)
        page = context.new_page()
        page.add_init_script(before)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda said: wrong.append(said.text))
        page.on("request", lambda asked: wrong.append(asked.url))
        page.goto(file.as_uri() + fragment)
        page.wait_for_selector("html[data-ready=yes]")
        page.evaluate("new Promise(requestAnimationFrame)")
        return page

    yield open_page
    for context in contexts:
        context.close()
    own = (tmp_path / "report.html").as_uri()
    assert [one for one in wrong if one.partition("#")[0] != own] == []


@pytest.fixture(scope="session")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The source of axe-core."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("no npm to fetch axe-core with")
    folder = tmp_path_factory.mktemp("axe")
    fetched = subprocess.run(
        [npm, "pack", "--silent", AXE], cwd=folder, capture_output=True, text=True, timeout=120,
        check=False,
    )  # fmt: skip
    if fetched.returncode:
        pytest.skip(f"npm cannot fetch {AXE}: {fetched.stderr.strip()[-200:]}")
    with tarfile.open(next(folder.glob("*.tgz"))) as archive:
        script = archive.extractfile("package/axe.min.js")
        assert script is not None
        return script.read().decode()
