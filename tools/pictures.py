#!/usr/bin/env python3
"""Draws the README's pictures from a run of its own example: what they show is what is printed.

    python tools/pictures.py            # into collectrace/docs/pictures

The script on the first page is run on three ranks, hangs, and is killed; the report of its logs is
drawn as a terminal shows it, and its page as Chromium does, which must be there.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Final

from rich.console import Console
from rich.terminal_theme import MONOKAI

from collectrace.align import align
from collectrace.align.follow import Follower
from collectrace.report import page, terminal

ROOT: Final = Path(__file__).resolve().parents[1]

PICTURES: Final = ROOT / "collectrace" / "docs" / "pictures"

RANKS: Final = 3
"""Of the example."""

_WIDTH: Final = 84
"""Columns of the terminal that is drawn."""


def example(page: str) -> str:
    """The script on the first page: its first block of Python.

    Raises:
        ValueError: there is none.

    """
    found = re.search(r"```python\n(.*?)```", page, re.DOTALL)
    if found is None:
        raise ValueError("no block of Python on the page")
    return found[1]


def hang(script: str, folder: Path) -> str:
    """Run a script that hangs, as ``train.py`` in a folder, until its logs prove it; then kill it.

    Returns:
        What the ranks said on standard error. Their logs are in ``folder/logs``.

    Raises:
        RuntimeError: a rank ended by itself.

    """
    (folder / "train.py").write_text(script)
    said = folder / "said.txt"
    with said.open("w") as errors, contextlib.ExitStack() as stack:
        ranks = stack.enter_context(_ranks(folder, errors.fileno()))
        # Until the logs show it, however long the machine takes.
        while not _hangs(Follower(folder / "logs")):
            if any(rank.poll() is not None for rank in ranks):
                raise RuntimeError(said.read_text())
    return said.read_text()


@contextlib.contextmanager
def _ranks(folder: Path, errors: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = os.environ | {
        "WORLD_SIZE": str(RANKS), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
        "GLOO_SOCKET_IFNAME": "lo",
        "PYTHONPATH": str(ROOT),
    }  # fmt: skip
    ranks = [
        subprocess.Popen(
            [sys.executable, "train.py"], cwd=folder, stderr=errors,
            env=environment | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
        )
        for rank in range(RANKS)
    ]  # fmt: skip
    try:
        yield ranks
    finally:
        for rank in ranks:  # none is to see another's end
            rank.send_signal(signal.SIGSTOP)
        for rank in ranks:
            rank.kill()
            rank.wait()


def _hangs(follower: Follower) -> bool:
    """Whether a look at the logs, the last one at the latest, shows that every rank waits."""
    return any(
        seen is not None
        and seen.status == "diverged"
        and all(rank.state == "blocked" for rank in seen.ranks)
        for seen in follower.looks(Event())
    )


def draw(folder: Path) -> str:
    """The report of ``folder/logs`` on a terminal in that folder, as SVG."""
    console = Console(
        record=True, width=_WIDTH, file=io.StringIO(), force_terminal=True,
        color_system="truecolor", legacy_windows=False,
    )  # fmt: skip
    with contextlib.chdir(folder):
        terminal.render(align("logs"), console)
    return console.export_svg(title="python -m collectrace.align logs/", theme=MONOKAI)


def photograph(folder: Path) -> bytes:
    """The page of ``folder/logs`` in a browser, as PNG.

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
    with tempfile.TemporaryDirectory() as made:
        hang(example((ROOT / "README.md").read_text()), Path(made))
        (folder / "report.svg").write_text(draw(Path(made)))
        (folder / "page.png").write_bytes(photograph(Path(made)))
    print(f"drawn: report.svg and page.png in {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
