"""List the runs of a folder, each as soon as it is read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TextIO

from rich.console import Console
from rich.text import Text

from collectrace import words
from collectrace.report import text
from collectrace.report.layout import INDENT, Page, unbroken
from collectrace.report.opening import STATUS_STYLE, moment
from collectrace.views import RunRow

_LONGEST_SCRIPT: Final = 60


def write(rows: Iterable[RunRow], out: TextIO) -> None:
    """Write the lines of each run as soon as ``rows`` yields it."""
    page = Page(Console(file=out))
    for row in rows:
        _run(page, row)


def _run(page: Page, row: RunRow) -> None:
    style = f"bold {STATUS_STYLE.get(row.verdict, 'yellow')}"
    when = moment(row.began)
    began = f"{when:%Y-%m-%d %H:%M:%S} UTC" if when is not None else "time not known"
    verdict = f"{row.verdict} so far" if row.is_alive else row.verdict
    parts = [began, *_extent(row)]
    page.prose(
        Text.assemble(
            (text.clean(row.run), "bold"), "  ", (verdict, style), unbroken(f"  {', '.join(parts)}")
        ),
        hang=INDENT,
    )
    script = text.clean(row.script)
    if len(script) > _LONGEST_SCRIPT:
        script = script[: _LONGEST_SCRIPT - 2] + ".."
    if script:
        page.prose(script, indent=INDENT, hang=INDENT)
    if row.headline:
        page.prose(text.clean(row.headline), indent=INDENT, hang=INDENT)


def _extent(row: RunRow) -> list[str]:
    """Return how long the run took, its ranks and hosts, and the ranks without a file here."""
    parts = []
    if row.began is not None and row.ended is not None:
        parts.append(words.seconds(row.ended - row.began))
    if row.world_size:
        parts.append(words.counted(row.world_size, "rank"))
    if row.missing_ranks:
        here = words.counted(len(row.hosts), "host") if row.hosts else "no host"
        parts.append(f"no file of {words.ranks(row.missing_ranks)} (files of {here} are here)")
    elif len(row.hosts) > 1:
        parts.append(words.counted(len(row.hosts), "host"))
    return parts
