"""The first page of the README, run: its script hangs, and its screen is what is said of it."""

from __future__ import annotations

import io
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from threading import Event
from typing import Final

from rich.console import Console

from collectrace.align import align
from collectrace.align.follow import Follower
from collectrace.report import terminal

README: Final = (Path(__file__).parents[2] / "README.md").read_text()

_CHANGES: Final = (
    (re.compile(r"\d{4}-\d\d-\d\d [\d:]+ to .*"), "DATE"),
    (re.compile(r" on \S+$", re.MULTILINE), " on HOST"),
)


def block(language: str) -> str:
    """The first of the page."""
    found = re.search(rf"```{language}\n(.*?)```", README, re.DOTALL)
    assert found is not None
    return found[1]


def lasting(screen: str) -> list[str]:
    """The lines of a screen, without what differs from run to run."""
    for pattern, name in _CHANGES:
        screen = pattern.sub(name, screen)
    return [line for line in screen.splitlines() if line]


def _hangs(follower: Follower) -> bool:
    """Whether a look at the logs, the last one at the latest, shows that every rank waits."""
    return any(
        seen is not None
        and seen.status == "diverged"
        and all(rank.state == "blocked" for rank in seen.ranks)
        for seen in follower.looks(Event())
    )


def test_the_first_page_is_true(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(block("python"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = os.environ | {
        "WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
        "GLOO_SOCKET_IFNAME": "lo",
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }  # fmt: skip
    with (tmp_path / "said.txt").open("w") as said:
        ranks = [
            subprocess.Popen(
                [sys.executable, "train.py"], cwd=tmp_path, stderr=said,
                env=environment | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            )
            for rank in range(3)
        ]  # fmt: skip
    try:
        # Until the logs show it, however long the machine takes.
        while not _hangs(Follower(tmp_path / "logs")):
            assert all(one.poll() is None for one in ranks), (tmp_path / "said.txt").read_text()
    finally:
        for one in ranks:  # none is to see another's end
            one.send_signal(signal.SIGSTOP)
        for one in ranks:
            one.kill()
            one.wait()
    assert (tmp_path / "said.txt").read_text().count("collectrace: recording to ") == 1
    out = io.StringIO()
    here = Path.cwd()
    os.chdir(tmp_path)
    try:
        terminal.render(align("logs"), Console(file=out, width=80, color_system=None))
    finally:
        os.chdir(here)
    shown = block("console").splitlines()
    assert shown[0] == "$ python -m collectrace.align logs/"
    assert shown[-1] == "  ..."
    real = iter(lasting(out.getvalue()))
    for line in lasting("\n".join(shown[1:-1])):
        assert line in real, f"not there, or not in this order: {line}\n{out.getvalue()}"
