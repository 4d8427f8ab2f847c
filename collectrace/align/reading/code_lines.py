"""Lines of the user's code, by the texts that the ranks ran."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Final

from collectrace.align.reading import chains, statements
from collectrace.align.reading.bindings import Bindings
from collectrace.align.reading.code_files import CodeFiles
from collectrace.findings import SourceLine

_LONGEST: Final = 200
"""Characters of a line that are told."""


def of_site(code: CodeFiles, site: str | None) -> SourceLine | None:
    """Return the line that a site names, without its indentation; None if it is not known."""
    around = code.at(site).statements
    text = around[-1].partition(" ")[2].strip() if around else ""
    return SourceLine(site=site or "", text=text) if text else None


def way_out(code: CodeFiles, file: str, number: int) -> int | None:
    """The first ``break`` or ``return`` by which a loop, at a line, can be left before its end.

    None if there is none, or the text of the file is not known.
    """
    return code.spans(file).ways_out.get(number)


def handlers(code: CodeFiles, site: str | None) -> list[str]:
    """The ``except`` clauses of each ``try`` whose body a line is in, as ``number text``.

    Innermost first; empty if the text of the file is not known.
    """
    file, number = chains.split(site)
    lines = code.lines(file)
    around = [one for one in code.spans(file).tries if one[0] <= number <= one[1]]
    found = [n for _, _, those in sorted(around, reverse=True) for n in those]
    return [f"{n} {lines[n - 1].strip()[:_LONGEST]}" for n in found]


def has_yielded(code: CodeFiles, site: str | None) -> bool:
    """Whether the function of a line yields before it: then who drives it may stop there."""
    file, number = chains.split(site)
    function = _innermost(code.spans(file).functions, number) or (number, number)
    before = code.lines(file)[function[0] : number - 1]
    return any(_YIELD.search(line) for line in before)


_YIELD: Final = re.compile(r"\byield\b")


def counted(code: CodeFiles, site: str | None) -> set[str]:
    """The names that are counted up by a number in the loops around a line: ``step += 1``.

    Of its own function.
    """
    file, number = chains.split(site)
    spans, lines = code.spans(file), code.lines(file)
    function = _innermost(spans.functions, number) or (1, len(lines))
    around = [one for one in spans.loops if one[0] <= number <= one[1] and one[0] >= function[0]]
    first, last = min(around, default=(1, 0))
    found = (_COUNTED.match(line) for line in lines[first - 1 : last])
    return {one[1] for one in found if one is not None}


_COUNTED: Final = re.compile(r"\s*([A-Za-z_][\w.]*) \+= \d+\b(?!\.)")


def loop_before(code: CodeFiles, site: str | None, inside: str | None) -> int | None:
    """The first line of the outermost loop that ``inside`` is in and ``site`` stands behind.

    None if there is none, or the two are not in one function.
    """
    file, number = chains.split(site)
    other_file, within = chains.split(inside)
    if file != other_file or number <= within:
        return None
    spans = code.spans(file)
    if _innermost(spans.functions, number) != _innermost(spans.functions, within):
        return None
    found = [loop for loop in spans.loops if loop[0] <= within <= loop[1] < number]
    return min(found)[0] if found else None


def bindings(code: CodeFiles, site: str | None) -> Bindings:
    """What the file of a line gives each name."""
    return code.spans(chains.split(site)[0]).bindings


def is_fork(code: CodeFiles, site: str | None, line: str) -> bool:
    """Whether an ``if``, given as ``number text``, has another way for whom it does not let in.

    An ``else``; or what stands behind it, where its own way ends in leaving. So it is taken to
    if the text of the file is not known.
    """
    file, _ = chains.split(site)
    at, source = statements.number_of(line), code.lines(file)
    if not 0 < at <= len(source):
        return True
    spans, text = code.spans(file), line.partition(" ")[2]
    return source[at - 1].strip() != text.strip() or at in spans.forked or at in spans.leaving


def is_called_either_way(
    code: CodeFiles, site: str | None, line: str, names: Collection[str]
) -> bool:
    """Whether an ``if`` of a site's file, given as ``number text``, calls the same in every arm.

    Whatever it decides, it does not decide about that. False if the text of the file is not
    known.
    """
    file, _ = chains.split(site)
    head, source = statements.head_of(line), code.lines(file)
    at, text = statements.number_of(head), statements.code_of(head)
    if not 0 < at <= len(source) or source[at - 1].strip() != text.strip():
        return False
    return not code.spans(file).either_way.get(at, frozenset()).isdisjoint(names)


def parting_if(code: CodeFiles, site: str | None, other: str | None) -> str | None:
    """The innermost ``if`` of which two lines stand in different branches, as ``number text``.

    None if there is none, or the text of the file is not known.
    """
    file, number = chains.split(site)
    other_file, other_number = chains.split(other)
    if file != other_file:
        return None
    spans_of: dict[int, list[tuple[int, int]]] = {}
    for line, _, first, last in code.spans(file).blocks:
        spans_of.setdefault(line, []).append((first, last))
    found = [
        line
        for line, spans in spans_of.items()
        if line in code.spans(file).forked
        and (mine := _innermost(spans, number)) is not None
        and (theirs := _innermost(spans, other_number)) is not None
        and mine != theirs
    ]
    return f"{max(found)} {code.lines(file)[max(found) - 1][:_LONGEST]}" if found else None


def _innermost(spans: Iterable[tuple[int, int]], line: int) -> tuple[int, int] | None:
    return max((span for span in spans if span[0] <= line <= span[1]), default=None)
