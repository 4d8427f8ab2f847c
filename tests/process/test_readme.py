"""The first page of the README, run: its script hangs, and its screen is what is said of it."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Final

from rich.console import Console

from collectrace.align import align
from collectrace.report import terminal
from tools import pictures

README: Final = (pictures.ROOT / "README.md").read_text()

_CHANGES: Final = ((re.compile(r" on \S+ · .* UTC"), " on HOST · TIME"),)


def lasting(screen: str) -> list[str]:
    """The lines of a screen, without what differs from run to run."""
    for pattern, name in _CHANGES:
        screen = pattern.sub(name, screen)
    return [line for line in screen.splitlines() if line]


def test_the_first_page_is_true(tmp_path: Path) -> None:
    said = pictures.hang(pictures.example(README), tmp_path)
    assert said.count("collectrace: recording to ") == 1
    out = io.StringIO()
    with contextlib.chdir(tmp_path):
        terminal.render(align("logs"), Console(file=out, width=80, color_system=None))
    console = re.search(r"```console\n(.*?)```", README, re.DOTALL)
    assert console is not None
    shown = console[1].splitlines()
    assert shown[0] == "$ python -m collectrace.align logs/"
    assert shown[-1] == "  ..."
    real = iter(lasting(out.getvalue()))
    for line in lasting("\n".join(shown[1:-1])):
        assert line in real, f"not there, or not in this order: {line}\n{out.getvalue()}"
    # What the picture shows of it is the same text.
    drawn = pictures.draw(tmp_path)
    assert "<svg" in drawn
    assert "false&#160;on&#160;rank&#160;1" in drawn
