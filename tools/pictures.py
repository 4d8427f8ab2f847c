#!/usr/bin/env python3
"""Draw the README's pictures from a run of its example, so that they show what is printed.

    python tools/pictures.py            # into collectrace/docs/pictures

The README's script runs on three ranks and hangs. ``report.svg`` is the report of its logs as a
terminal shows it, and ``page.png`` is the page as Chromium shows it, which must be installed.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.terminal_theme import MONOKAI

from collectrace.align import align
from collectrace.report import page, terminal

ROOT: Final = Path(__file__).resolve().parents[1]

PICTURES: Final = ROOT / "collectrace" / "docs" / "pictures"

_WIDTH: Final = 90
"""Columns of the terminal that is drawn."""

LOADED: Final = re.compile(r"@import|url\((?!#)|(?:href|src)=|https?://(?!www\.w3\.org/2000/svg)")
"""Matches what would load something from elsewhere, or names an address."""

_SVG: Final = re.sub(r"@font-face \{\{.*?\}\}|<!--.*?-->", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
"""rich's template without its web fonts: the viewer takes its own fixed-width font."""


def example(page: str) -> str:
    """Return the README's script: the first block of Python on the page.

    Raises:
        ValueError: there is none.

    """
    found = re.search(r"```python\n(.*?)```", page, re.DOTALL)
    if found is None:
        raise ValueError("no block of Python on the page")
    return found[1]


@contextlib.contextmanager
def hanging(command: Sequence[str], folder: Path, variables: Mapping[str, str]) -> Iterator[None]:
    """Run a job in a folder until it has printed an error; end it after the block.

    Raises:
        RuntimeError: the job ended by itself.

    """
    printed = folder / "printed.txt"
    with printed.open("w") as errors:
        job = subprocess.Popen(command, cwd=folder, env=variables, stderr=errors)
    try:
        while "error[CT" not in printed.read_text():
            if job.poll() is not None:
                raise RuntimeError(printed.read_text())
            time.sleep(0.1)
        yield
    finally:
        job.terminate()
        job.wait()


def draw(folder: Path) -> str:
    """Return the report of ``folder/logs`` as SVG, as a terminal in that folder shows it."""
    console = Console(
        record=True, width=_WIDTH, file=io.StringIO(), force_terminal=True,
        color_system="truecolor", legacy_windows=False,
    )  # fmt: skip
    with contextlib.chdir(folder):
        terminal.render(align("logs"), console)
    return console.export_svg(title="collectrace align logs/", theme=MONOKAI, code_format=_SVG)


def photograph(folder: Path) -> bytes:
    """Return the page of ``folder/logs`` in a browser, as PNG.

    Raises:
        RuntimeError: there is no browser.

    """
    from playwright.sync_api import sync_playwright

    browser = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
    if browser is None:
        raise RuntimeError("no Chromium in PATH")
    file = folder / "report.html"
    with contextlib.chdir(folder), file.open("w") as out:
        page.write(align("logs"), out)
    with sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        shown = chromium.new_page(viewport={"width": 1280, "height": 800})
        shown.goto(file.as_uri())
        shown.wait_for_selector("html[data-ready=yes]")
        shown.evaluate("new Promise(requestAnimationFrame)")
        taken = shown.screenshot()
        chromium.close()
    return taken


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--to", type=Path, default=PICTURES, metavar="DIR")
    folder = parser.parse_args().to
    folder.mkdir(parents=True, exist_ok=True)
    job = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=3"]
    variables = os.environ | {
        "PYTHONPATH": str(ROOT), "GLOO_SOCKET_IFNAME": "lo", "COLLECTRACE_STALL_AFTER": "2",
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as made:
        (Path(made) / "train.py").write_text(example((ROOT / "README.md").read_text()))
        with hanging([*job, "train.py"], Path(made), variables):
            (folder / "report.svg").write_text(draw(Path(made)))
            (folder / "page.png").write_bytes(photograph(Path(made)))
    print(f"drawn: report.svg and page.png in {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
