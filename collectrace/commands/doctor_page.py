"""Print the doctor's answer: each source with its command, then what to set next time."""

from __future__ import annotations

from typing import Final, TextIO

from rich.console import Console
from rich.text import Text

from collectrace.doctor.known import Checkup, Row
from collectrace.report import text
from collectrace.report.layout import Page

_LABEL: Final = 17
"""Column of the text: after the longest name of a source."""

_PROMPT: Final = "$ "


def write(checkup: Checkup, out: TextIO) -> None:
    """Write the answer; with colours and fitted to the width if it goes to a terminal."""
    page = Page(Console(file=out))
    page.prose(Text(text.clean(checkup.headline), "bold"), hang=2)
    for note in checkup.notes:
        page.prose(Text(text.clean(note), "yellow"), indent=2)
    page.line()
    for row in checkup.rows:
        _row(page, row)
    if checkup.processes and not checkup.next_time:
        page.line()
        page.line(Text("next time".ljust(_LABEL), "bold") + "nothing more to set")
    if checkup.next_time:
        page.line()
        for n, line in enumerate(checkup.next_time):
            label = Text(("" if n else "next time").ljust(_LABEL), "bold")
            page.line(label + Text(text.clean(line), "cyan"))


def _row(page: Page, row: Row) -> None:
    label = Text(row.name.ljust(_LABEL), "bold green" if row.is_ready else "dim")
    for said in row.says:
        width = max(page.width - _LABEL, _LABEL)
        body = Text(text.clean(said), "" if row.is_ready else "dim")
        for line in body.wrap(page.console, width):
            page.line(label + line)
            label = Text(" " * _LABEL)
    if row.command is not None:
        # On one line of its own, so that it can be copied.
        page.line(Text(" " * _LABEL) + Text(_PROMPT, "dim") + Text(text.clean(row.command), "cyan"))
