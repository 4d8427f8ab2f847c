"""The report in Markdown, for pull requests, issues and GitHub's step summaries.

Text from a log never acts as Markdown, HTML, a link, a mention or a reference.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TextIO

from rich.console import Console

from collectrace.findings import Alignment
from collectrace.report import ending, opening, terminal, text, verbose
from collectrace.report.document import Document, Prose, document, titled
from collectrace.report.layout import SEPARATOR, Page

_MOST_OTHERS: Final = 20
_WIDTH: Final = 100

# Characters with a meaning anywhere in a line, and those with one only at its beginning.
_INLINE: Final = re.compile(r"([\\`*_\[\]|~$>])")
_LEADING: Final = re.compile(r"^(\s*)(?:([#+=-])|(\d+)(?=[.)]))")
# GitHub reads these after Markdown: @name notifies a user, #12 and GH-12 refer to an issue, and
# :name: is an emoji.
_REFERENCE: Final = re.compile(
    r"(?<=[@#])(?=\w)|(?<=\bGH)(?=-\d)|(?<=:)(?=[\w+-]*[a-z+-][\w+-]*:)", re.IGNORECASE
)
# GitHub makes links of these: www. and a scheme.
_LINK: Final = re.compile(r"(?i)\b(www)(?=\.)|\b(https?|ftp|mailto|xmpp)(?=:)")
_TICKS: Final = re.compile(r"`+")
_GAP: Final = "\u200b"
"""A space of no width: it splits a word."""

_PLACE: Final = "\ue000"
"""Placeholder of a quotation. :func:`text.clean` removes this character from text of a log."""

_UTF: Final = "utf-8"


def escaped(log: str) -> str:
    """Return Markdown that shows this text literally, as a separate line or within one."""
    return _escaped(text.clean(log).strip())


def _escaped(line: str) -> str:
    line = line.replace("&", "&amp;").replace("<", "&lt;")
    line = _INLINE.sub(r"\\\1", line)
    line = _LEADING.sub(lambda m: m[1] + (f"\\{m[2]}" if m[2] else f"{m[3]}\\"), line)
    line = _REFERENCE.sub(_GAP, line)
    return _LINK.sub(lambda found: found[0] + _GAP, line)


def sentence(log: str) -> str:
    """Return text as :func:`escaped` does, but with quotations of the program as code."""
    parts = text.pieces(text.clean(log).strip())
    quotations = iter([part for is_code, part in parts if is_code])
    line = _escaped("".join(_PLACE if is_code else part for is_code, part in parts))
    return re.sub(_PLACE, lambda _: f"`{next(quotations)}`", line)


def write(alignment: Alignment, out: TextIO) -> None:
    """Write the whole report, with ``&#9664;`` for a character that the stream cannot encode."""
    encoding = out.encoding or _UTF
    page = "\n".join(_lines(alignment, encoding)).rstrip("\n") + "\n"
    out.write(page.encode(encoding, "xmlcharrefreplace").decode(encoding))


def _lines(alignment: Alignment, encoding: str) -> Iterator[str]:
    outcome, *parts = opening.told(alignment)
    yield from (f"### collectrace: {outcome}", "", SEPARATOR.join(map(escaped, parts)), "")
    whole, others = terminal.chosen(alignment)
    for n in whole:
        yield from _finding(document(alignment, n), encoding)
    for n in others[:_MOST_OTHERS]:
        yield f"- {_title(titled(alignment.findings[n]))}"
    yield ""
    for line in _screen(lambda page: ending.show(page, alignment, whole)):
        yield from (sentence(line), "")
    yield from ("<details><summary>all that is known</summary>", "")
    yield from _fenced(_screen(lambda page: _rest(page, alignment, whole), encoding))
    yield from ("", "</details>")


def _finding(told: Document, encoding: str) -> Iterator[str]:
    yield from (_title(told), "")
    shown = [block for block in told.blocks if not isinstance(block, Prose)]
    if shown:
        yield from (*_fenced(_screen(lambda page: terminal.blocks(page, shown), encoding)), "")
    for block in told.blocks:
        if isinstance(block, Prose):
            label = f"**{block.label}:** " if block.label else ""
            yield from (label + _prose(block.text), "")


def _title(told: Document) -> str:
    return f"**{escaped(told.title)}** {sentence(told.headline)}"


def _rest(page: Page, alignment: Alignment, findings: Sequence[int]) -> None:
    for n in findings:
        terminal.blocks(page, list(verbose.blocks(alignment, n)))
        page.line()
    verbose.closing(page, alignment)


def _screen(show: Callable[[Page], None], encoding: str = _UTF) -> list[str]:
    """Return the lines that a terminal of this encoding would show."""
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding, errors="replace", newline="\n")
    show(Page(Console(file=out, width=_WIDTH, color_system=None)))
    out.flush()
    return raw.getvalue().decode(encoding).strip("\n").split("\n")


def _fenced(lines: Sequence[str]) -> Iterator[str]:
    """Yield lines as a fenced block, with a fence longer than any run of backticks in them."""
    ticks = max((len(found) for line in lines for found in _TICKS.findall(line)), default=0)
    fence = "`" * max(3, ticks + 1)
    yield from (fence, *lines, fence)


def _prose(prose: str) -> str:
    """Return sentences as Markdown; lines that are indented by four spaces are code."""
    told: list[str] = []
    block: list[str] = []
    for line in [*prose.split("\n"), ""]:
        if line.startswith("    "):
            block.append(line[4:])
            continue
        if block:
            told += ["", *_fenced(block), ""]
            block = []
        told.append(sentence(line))
    return "\n".join(told).rstrip("\n")
