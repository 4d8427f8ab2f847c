"""Lines of the user's code, by their files as they are now."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from collectrace import given
from collectrace.align.reading import arms, chains, code_files, statements
from collectrace.align.reading.bindings import Bindings
from collectrace.findings import SourceLine
from collectrace.ways import described

_LONGEST: Final = 200
"""Characters of a line that are told."""


def of_site(site: str | None) -> SourceLine | None:
    """The line that a site names, without its indentation."""
    file, number = chains.split(site)
    lines = code_files.lines(file)
    if not 0 < number <= len(lines):
        return None
    line = lines[number - 1].strip()[:_LONGEST]
    return SourceLine(site=site or "", text=line) if line else None


def way_out(file: str, number: int) -> int | None:
    """The first ``break`` or ``return`` by which a loop, at a line, can be left before its end.

    None where there is none, or the file cannot be read.
    """
    return code_files.spans(file).ways_out.get(number)


def handlers(site: str | None) -> list[str]:
    """The ``except`` clauses of each ``try`` whose body a line is in, as ``number text``.

    Innermost first, of the file as it is now; empty where it cannot be read.
    """
    file, number = chains.split(site)
    lines = code_files.lines(file)
    around = [one for one in code_files.spans(file).tries if one[0] <= number <= one[1]]
    found = [n for _, _, those in sorted(around, reverse=True) for n in those]
    return [f"{n} {lines[n - 1].strip()[:_LONGEST]}" for n in found]


def has_yielded(site: str | None) -> bool:
    """Whether the function of a line yields before it: then who drives it may stop there."""
    file, number = chains.split(site)
    function = _innermost(code_files.spans(file).functions, number) or (number, number)
    before = code_files.lines(file)[function[0] : number - 1]
    return any(_YIELD.search(line) for line in before)


_YIELD: Final = re.compile(r"\byield\b")


def counted(site: str | None) -> set[str]:
    """The names that are counted up by a number in the loops around a line: ``step += 1``.

    Of its own function; of the file as it is now.
    """
    file, number = chains.split(site)
    spans, lines = code_files.spans(file), code_files.lines(file)
    function = _innermost(spans.functions, number) or (1, len(lines))
    around = [one for one in spans.loops if one[0] <= number <= one[1] and one[0] >= function[0]]
    first, last = min(around, default=(1, 0))
    found = (_COUNTED.match(line) for line in lines[first - 1 : last])
    return {one[1] for one in found if one is not None}


_COUNTED: Final = re.compile(r"\s*([A-Za-z_][\w.]*) \+= \d+\b(?!\.)")


def loop_before(site: str | None, inside: str | None) -> int | None:
    """The first line of the outermost loop that ``inside`` is in and ``site`` stands behind.

    None where there is none, or the two are not in one function. It holds for the file as it is
    now, which may have been changed since the run.
    """
    file, number = chains.split(site)
    other_file, within = chains.split(inside)
    if file != other_file or number <= within:
        return None
    spans = code_files.spans(file)
    if _innermost(spans.functions, number) != _innermost(spans.functions, within):
        return None
    found = [loop for loop in spans.loops if loop[0] <= within <= loop[1] < number]
    return min(found)[0] if found else None


def enclosing(site: str | None) -> list[str]:
    """The statements around a line, as a ``source`` record has them, by the file as it is now.

    ``number text`` of the first line of each ``if``, ``for``, ``while``, ``with``, ``try``,
    function and class that it is inside of, outermost first, and the line itself last; empty where
    the file cannot be read. An ``else`` is told as ``arms`` has it.
    """
    file, number = chains.split(site)
    lines = code_files.lines(file)
    if of_site(site) is None:
        return []
    around = {
        n
        for head, part, first, last in code_files.spans(file).blocks
        if first <= number <= last
        for n in (head, part)
        if n < number
    }
    return arms.told([f"{n} {lines[n - 1][:_LONGEST]}" for n in (*sorted(around), number)])


def ways(site: str | None) -> list[str]:
    """What may lead past a line, as a ``source`` record has it, by the file as it is now."""
    file, number = chains.split(site)
    lines = code_files.lines(file)
    return [described(way, lines, _LONGEST) for way in code_files.spans(file).ways.past(number)]


def assignments(site: str | None, heads: Sequence[str]) -> list[str]:
    """What gave conditions in a site's file their values, as a ``source`` record has it.

    By the file as it is now; ``heads``: the conditions, as ``number text``.
    """
    file, _ = chains.split(site)
    lines = code_files.lines(file)
    return [
        given.described(head, n, lines, _LONGEST)
        for head in dict.fromkeys(statements.number_of(statements.head_of(one)) for one in heads)
        for n in code_files.spans(file).given.of(head)
    ]


def bindings(site: str | None) -> Bindings:
    """What the file of a line gives each name, as the file is now."""
    return code_files.spans(chains.split(site)[0]).bindings


def is_fork(site: str | None, line: str) -> bool:
    """Whether an ``if``, given as ``number text``, has another way for whom it does not let in.

    An ``else``; or what stands behind it, where its own way ends in leaving. So it is taken to
    where the file cannot be read, or is another by now.
    """
    file, _ = chains.split(site)
    at, source = statements.number_of(line), code_files.lines(file)
    if not 0 < at <= len(source):
        return True
    spans, text = code_files.spans(file), line.partition(" ")[2]
    return source[at - 1].strip() != text.strip() or at in spans.forked or at in spans.leaving


def is_called_either_way(site: str | None, line: str, names: Collection[str]) -> bool:
    """Whether an ``if`` of a site's file, given as ``number text``, calls the same in every arm.

    Whatever it decides, it does not decide about that. False where the file cannot be read, or is
    another by now.
    """
    file, _ = chains.split(site)
    head, source = statements.head_of(line), code_files.lines(file)
    at, text = statements.number_of(head), statements.code_of(head)
    if not 0 < at <= len(source) or source[at - 1].strip() != text.strip():
        return False
    return not code_files.spans(file).either_way.get(at, frozenset()).isdisjoint(names)


def parting_if(site: str | None, other: str | None) -> str | None:
    """The innermost ``if`` of which two lines stand in different branches, as ``number text``.

    None where there is none, or the file cannot be read.
    """
    file, number = chains.split(site)
    other_file, other_number = chains.split(other)
    if file != other_file:
        return None
    spans_of: dict[int, list[tuple[int, int]]] = {}
    for line, _, first, last in code_files.spans(file).blocks:
        spans_of.setdefault(line, []).append((first, last))
    found = [
        line
        for line, spans in spans_of.items()
        if line in code_files.spans(file).forked
        and (mine := _innermost(spans, number)) is not None
        and (theirs := _innermost(spans, other_number)) is not None
        and mine != theirs
    ]
    return f"{max(found)} {code_files.lines(file)[max(found) - 1][:_LONGEST]}" if found else None


def _innermost(spans: Iterable[tuple[int, int]], line: int) -> tuple[int, int] | None:
    return max((span for span in spans if span[0] <= line <= span[1]), default=None)
