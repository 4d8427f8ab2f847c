"""The differences between two runs of one program, for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TextIO

from rich.console import Console
from rich.text import Text

from collectrace import roles, words
from collectrace.records import Call
from collectrace.report import text
from collectrace.report.layout import INDENT, Page
from collectrace.views import Count, Place, ScheduleDiff, Side

_MOST_PLACES: Final = 4
_MOST_COUNTS: Final = 30


def write(diff: ScheduleDiff, out: TextIO) -> None:
    """Write the differences, then the counts."""
    page = Page(Console(file=out))
    for name, side in ("A", diff.a), ("B", diff.b):
        page.prose(_side(side), label=name, indent=INDENT + 1, hang=INDENT)
    page.line()
    ranks = words.ranks(diff.compared)
    if diff.is_same:
        page.prose(Text(f"{ranks}: the same calls in the same order", "green"))
        page.line()
    _places(page, "another call", diff.schedule)
    _places(page, "the same calls, other tensors", diff.tensors)
    _places(page, "the same calls as far as both go", diff.ended)
    if diff.left_out:
        page.prose(
            f"Not compared: {words.ranks(diff.left_out)}, whose logs lack calls.", hang=INDENT
        )
        page.line()
    if diff.a.world_size != diff.b.world_size:
        page.prose(
            "The jobs are of different sizes: element counts and roots were not compared.",
            hang=INDENT,
        )
        page.line()
    if diff.counts:
        _counts(page, diff.counts)


def _side(side: Side) -> str:
    size = words.counted(side.world_size, "rank")
    return f"{text.clean(side.path)}, run {text.clean(side.run)}: {size}, {side.verdict}"


def _places(page: Page, title: str, places: Sequence[Place]) -> None:
    if not places:
        return
    page.line(Text(title, "bold underline"))
    for place in places[:_MOST_PLACES]:
        at = f"{words.ranks(place.ranks)}, call {place.position} of {_each(place)}"
        page.prose(Text(at, "bold"), indent=INDENT, hang=INDENT)
        for name, call in ("A", place.a), ("B", place.b):
            page.prose(_call(call), indent=2 * INDENT + 1, label=name, hang=INDENT)
    rest = [rank for place in places[_MOST_PLACES:] for rank in place.ranks]
    if rest:
        page.prose(f"and {words.ranks(rest)}, elsewhere (see --json)", indent=INDENT)
    page.line()


def _each(place: Place) -> str:
    return "the rank" if len(place.ranks) == 1 else "each"


def _call(call: Call | None) -> str:
    if call is None:
        return "no call: the log has ended"
    group = text.named_group(call.group)
    by = " ".join(dict.fromkeys((text.short_issuer(call), text.short_site(call.site or ""))))
    of = "" if group == words.DEFAULT_GROUP else f" of {group}"
    return " ".join(part for part in (text.call(call) + of, by) if part)


def _counts(page: Page, counts: Sequence[Count]) -> None:
    """Write for each kind of call how often a rank issued it in each run."""
    page.line(Text("calls per rank", "bold underline"))
    header = ["", "A", "B", "op", "issued by", "group"]
    lines = [(header, "bold")]
    for row in counts[:_MOST_COUNTS]:
        mark = "" if row.a == row.b else "other >"
        cells = [
            mark, _span(row.a), _span(row.b), text.clean(row.op),
            text.clean(roles.short(row.role)), text.clean(row.group),
        ]  # fmt: skip
        lines.append((cells, "" if row.a == row.b else "yellow"))
    page.columns(lines, indent=INDENT, fixed=3)
    if len(counts) > _MOST_COUNTS:
        page.line(f"and {len(counts) - _MOST_COUNTS} more kinds (see --json)", indent=INDENT)


def _span(span: tuple[int, int]) -> str:
    return f"{span[0]:,}" if span[0] == span[1] else f"{span[0]:,}-{span[1]:,}"
