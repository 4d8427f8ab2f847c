"""Calls that are made from time to time: each n-th turn of a loop, or since a certain one.

Or whenever a value has become better than another.

That one rank alone ever came to such a call proves nothing of it: another may come there at other
times, and each of the two may be the one that counts wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from collectrace.align.judging.case import Case
from collectrace.align.reading import chains, code_lines, statements

_MODULO: Final = re.compile(r"[\w)\]]\s*%\s*[\w(]")
"""Not the formatting of a string."""

_METHOD: Final = re.compile(r"(el)?if (not )?(\w+\.)+\w+\(\):")
"""A condition that is a method alone, such as ``save.due()``: what that counts is not seen."""


_BETTER: Final = re.compile(r"(el)?if [A-Za-z_][\w.]* [<>]=? (\w+\.)*[a-z_]\w*:")
"""One value against another, such as ``loss < best``: each rank has its own, and gets there when it
does. A literal, or a constant, is the same for all."""


def decides(case: Case, mine: Sequence[str], others: Sequence[str]) -> bool:
    """Whether it is for an interval that a call is made, and not where the others are.

    Not where another condition decides about it as well.

    Args:
        case: the run.
        mine: the user's frames above the call, innermost first.
        others: those above the call of the others.

    """
    foreign = {line for frame in others for line in case.statements(chains.site(frame))}
    apart = mine[: max(1, len(mine) - chains.shared(mine, others))]
    known = [
        _is_interval(case, frame, line)
        for frame in apart
        for line in statements.branches(case.statements(chains.site(frame)))
        if line not in foreign
    ]
    if known:
        return all(known)
    return any(
        _is_interval(case, frame, line) for frame in apart for line in ways_before(case, frame)
    )


def is_by_turns(case: Case, site: str, line: str) -> bool:
    """Whether a condition on a line's way is alike on all ranks that are at one turn of a loop.

    As each n-th: a counter of turns modulo a constant, and nothing else.
    """
    return _is_each_nth(case, site, statements.code_of(statements.head_of(line)))


def is_asked_by_turns(case: Case, site: str, line: str) -> bool:
    """Whether what a condition asks last is asked at the same turns of a loop on all ranks.

    As ``if step % 10 == 0 and not any_left():``, whose call is made behind its ``and`` alone.
    """
    head = statements.code_of(statements.head_of(line))
    first, joined, rest = head.partition(" and ")
    if not joined or " or " in rest or not head.startswith(("if ", "elif ")):
        return False
    return _is_each_nth(case, site, f"{first}:")


def _is_each_nth(case: Case, site: str, head: str) -> bool:
    found = _EACH_NTH.fullmatch(head)
    return found is not None and found["counter"] in _counters(case, site)


_CONSTANT: Final = r"(\d+|[A-Z][A-Z_\d]*)"
_EACH_NTH: Final = re.compile(
    rf"(el)?if (not )?\(?(?P<counter>[\w.]+)( \+ 1)?\)? ?% ?{_CONSTANT}( ?[=!]= ?{_CONSTANT})?:"
)


def ways_before(case: Case, frame: str) -> Iterator[str]:
    """As ``number text`` the guards before a line that lead past it in this turn."""
    site = chains.site(frame)
    for way in case.ways(site):
        leaves, line = statements.way_of(way)
        if leaves in ("return", "continue") and statements.number_of(line) < chains.line(frame):
            yield line


def _is_interval(case: Case, frame: str, line: str) -> bool:
    """Whether a condition around or before a line, or what it goes back to, looks at a counter.

    And not at the rank: that lets one through by who it is.
    """
    site = chains.site(frame)
    head = statements.head_of(line)
    number = str(statements.number_of(head))
    if statements.asks(case.spelled_out(site, head)) == "rank":
        return False
    given = (one.partition(" ") for one in case.assigned(site))
    asked = [head, *(line for known, _, line in given if known == number)]
    counters = _counters(case, frame)
    return (
        any(
            statements.asks(one) != "rank"
            and (_MODULO.search(text := statements.code_of(one)) or _compares(text, counters))
            for one in asked
        )
        or _METHOD.fullmatch(statements.code_of(head)) is not None
        or _BETTER.fullmatch(statements.code_of(head)) is not None
    )


def _counters(case: Case, frame: str) -> set[str]:
    """The names that the loops around a line count their turns by."""
    site = chains.site(frame)
    heads = [statements.code_of(line) for line in statements.loops(case.statements(site))]
    turns = (re.match(r"(?:async )?for (.*?) in ", head) for head in heads)
    limited = (re.match(r"while ([\w.]+) <", head) for head in heads)
    return {
        *(name for head in turns if head for name in re.findall(r"\w+", head[1]) if name != "_"),
        *(head[1] for head in limited if head),
        *code_lines.counted(case.code, site),
    }


def _compares(text: str, counters: set[str]) -> bool:
    """Whether a counter is compared with what is given by a name, or looked for there."""
    if not counters:
        return False
    name = rf"(?<![\w.])({'|'.join(map(re.escape, sorted(counters)))})\b(?![.\[(])"
    than, other = r"\s*(?:[<>]=?|==)\s*", r"[A-Za-z_][\w.]*\b(?!\()"
    among = rf"{name} (?:not )?in {other}"
    return re.search(f"{name}{than}{other}|{other}{than}{name}|{among}", text) is not None
