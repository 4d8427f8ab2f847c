"""One rank's calls as a table that a person reads."""

from __future__ import annotations

from typing import Final, TextIO

from rich.console import Console
from rich.text import Text

from collectrace import words
from collectrace.ops import POINT_TO_POINT
from collectrace.report import text
from collectrace.report.layout import INDENT, Page
from collectrace.report.opening import moment
from collectrace.views import CallRow, CallsOfRank

_NARROW: Final = 70
_STYLE: Final = {"failed": "red", "pending": "yellow", "done": "", "": ""}


def write(calls: CallsOfRank, out: TextIO) -> None:
    """Write the table: with a terminal's width and colours, or plain if ``out`` is none."""
    page = Page(Console(file=out))
    where = f" on {text.clean(calls.host)}, pid {calls.pid}" if calls.host else ""
    who = f"rank {calls.rank} of {words.counted(calls.world_size, 'rank')}{where}"
    first = moment(calls.calls[0].wall) if calls.calls else None
    day = f", {first:%Y-%m-%d} UTC" if first is not None else ""
    page.prose(Text.assemble((who, "bold"), f"; run {text.clean(calls.run)}{day}"), hang=INDENT)
    page.line()
    if not calls.calls:
        page.line("no calls were recorded", indent=INDENT)
    else:
        if calls.before:
            page.line(
                Text(f"{words.counted(calls.before, 'call')} before these", "dim"), indent=INDENT
            )
        file = text.only_file(row.call for row in calls.calls)
        if file:
            page.line(Text(f"lines of {file}", "dim"), indent=INDENT)
        lines = _table(calls, file)
        if page.width < _NARROW:
            lines = [([cells[0], *cells[2:]], style) for cells, style in lines]  # without the time
        page.columns(lines, indent=INDENT, fixed=4 if page.width >= _NARROW else 3)
        if calls.after:
            page.line(
                Text(f"{words.counted(calls.after, 'call')} after these", "dim"), indent=INDENT
            )
    page.line()
    for n in dict.fromkeys(row.finding for row in calls.calls):
        if n is not None:
            page.prose(text.clean(calls.headlines[n]), indent=INDENT, hang=INDENT, label="")
    detail = " ".join(text.clean(calls.detail).split())
    state = text.STATES[calls.state]
    told = f"then {state}: {detail}" if detail and detail != state else f"then {state}"
    page.prose(told, indent=INDENT, hang=INDENT)


def _table(calls: CallsOfRank, file: str) -> list[tuple[list[str], str]]:
    infos = {info.name: info for info in calls.groups}
    groups = [
        text.named_group(c.group) if info is None else text.clean(words.group(info))
        for c in (row.call for row in calls.calls)
        for info in [infos.get(c.group)]
    ]
    shows_groups = {*groups} != {words.DEFAULT_GROUP}
    lines = [(["", "time", "call", "", "", "by", *(["group"] if shows_groups else [])], "bold")]
    for row, group in zip(calls.calls, groups, strict=True):
        c = row.call
        mark = "cause >" if row.finding is not None else ""
        cells = [mark, _time(row), _number(row), row.fate, text.call(c), _by(row, file)]
        cells += [group] if shows_groups else []
        lines.append((cells, "bold red" if mark else _STYLE[row.fate]))
    return lines


def _time(row: CallRow) -> str:
    when = moment(row.wall)
    return f"{when:%H:%M:%S}.{when.microsecond // 1000:03d}" if when is not None else ""


def _number(row: CallRow) -> str:
    """Return the number of a call; ``m7`` for a message, as messages are numbered per channel."""
    return f"m{row.call.seq}" if row.call.op in POINT_TO_POINT else str(row.call.seq)


def _by(row: CallRow, file: str) -> str:
    """Return who issued the call and its line; without the file's name if that is ``file``."""
    who, line = text.short_issuer(row.call), text.short_site(row.call.site or "")
    told = who if line in who else f"{who} {line}".strip()
    return told.replace(f"{file}:", ":") if file else told
