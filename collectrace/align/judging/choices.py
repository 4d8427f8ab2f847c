"""What may leave a call out of a round, by the source: conditions, loops, and ways past it.

Of the call's own line and of its callers', up to the function in which the round goes on to what
comes behind. Whether a condition was ever true, it does not tell; that there is none, it does.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from collectrace import exceptions
from collectrace.align.judging.case import Case
from collectrace.align.reading import (
    chains,
    code_lines,
    project_files,
    rank_tests,
    statements,
)


def conditions(case: Case, apart: Sequence[str], there: str) -> list[str] | None:
    """The conditions around a call, as ``number text``, that are not around another line as well.

    Not those of loops. None where they are not all known.

    Args:
        case: the run.
        apart: the frames above the call, innermost first, as far as the two differ.
        there: the frame of the other line, in the function of the last of them.

    """
    scopes = [chains.scope(frame) for frame in apart]
    if scopes[-1] in scopes[:-1]:
        return None  # recursion: which of them the other line is in is not known
    found: list[str] = []
    for frame in apart:
        own = statements.own(case.statements(chains.site(frame)))
        if not own:
            return None
        within = statements.loops(own)
        found += _beside(
            case, frame, there, [n for n in statements.branches(own) if n not in within]
        )
        found += own[-1:] if statements.decides_itself(own) else []
    return [line for line in found if "__name__" not in line]


def loops(case: Case, apart: Sequence[str], there: str) -> list[str]:
    """The loops around a call, as ``number text``, but for those around the other line as well.

    And for those that go so often whatever comes.
    """
    return [
        line
        for frame in apart
        for line in _beside(
            case, frame, there, statements.loops(case.statements(chains.site(frame)))
        )
        if not statements.is_of_fixed_length(line, case.bindings(chains.site(frame)).numbers)
    ]


def _beside(case: Case, frame: str, there: str, around: Sequence[str]) -> list[str]:
    """Of what is around a frame's line that which is not around the other."""
    if chains.file(frame) != chains.file(there):
        return list(around)
    return [line for line in around if line not in case.statements(chains.site(there))]


def of_call(
    case: Case, call: Sequence[str], behind: Sequence[str], *, is_first: bool = False
) -> list[str] | None:
    """All that may leave a call out of a round that goes on behind it, as ``number text``.

    Loops that go so often whatever comes, and conditions on nothing but the rank, may not. A way
    past the call is told as a ``source`` record has it, with what it leaves by.

    Args:
        case: the run.
        call: the frames above the call, innermost first.
        behind: those above what comes behind it.
        is_first: it is the first of its round, to which no later turn of a loop belongs.

    Returns:
        None where it is not known; nor is it where a line on the way may call what it likes.

    """
    common = chains.shared(call, behind)
    if common >= min(len(call), len(behind)):
        return None
    apart, there = call[: len(call) - common], behind[-1 - common]
    if chains.scope(apart[-1]) != chains.scope(there):
        return None
    if not all(calls_it_alone(case, *pair) for pair in pairwise(apart)):
        return None
    return of_frames(case, apart, there, is_first=is_first)


def of_frames(
    case: Case, apart: Sequence[str], there: str, *, is_first: bool = False
) -> list[str] | None:
    """The same, by the frames above the call as far as they count; ``there``: another line."""
    around = conditions(case, apart, there)
    if around is None:
        return None
    sites = [chains.site(frame) for frame in apart]
    lasting = {
        line
        for site in sites
        for line in case.statements(site)
        if rank_tests.asks_alone(case.spelled_out(site, line))
    }
    found = [line for line in around if line not in lasting]
    found += loops(case, apart, there)
    for site in sites:
        for way in case.ways(site):
            is_behind = statements.number_of(way) >= chains.split(site)[1]
            leaves, _ = statements.way_of(way)
            if not (leaves == "raise" or (is_first and is_behind)):
                found.append(way)
    return list(dict.fromkeys(found))


def calls_it_alone(case: Case, frame: str, caller: str) -> bool:
    """Whether a caller's line calls the function of a frame by a name that nothing else has.

    ``PARTS[kind](x)`` and ``map(take, files)`` may call others; so may ``part.take(x)``, where
    another class has a ``take``, too, or may have one, and ``part`` be an object of either.
    """
    owner, _, name = chains.scope(frame)[1].rpartition(".")
    line = statements.code_of(next(reversed(case.statements(chains.site(caller))), ""))
    called: list[str] = re.findall(rf"([\w.)\]]*\.)?\b{re.escape(name)}\(", line)
    theirs = case.bindings(chains.site(caller))
    if not called:
        return False
    kind = owner.rpartition(".")[2]
    kinds = {theirs.class_of(one.removesuffix("."), chains.line(caller)) for one in called}
    if kind in kinds and all(kinds):
        return True
    is_method, is_attribute = kind not in ("", "<locals>"), any(called)
    is_elsewhere = chains.file(frame) != chains.file(caller)
    if is_method and (is_elsewhere or not is_attribute or _is_derived(case, (frame, caller), name)):
        return False
    if is_elsewhere and theirs.times(name) + is_attribute > 1:
        return False  # the file gives the name, or an attribute of it, a value of its own
    times = case.bindings(chains.site(frame)).times(name)
    return times == 1 or (times == 0 and not is_attribute)


def _is_derived(case: Case, frames: Sequence[str], name: str) -> bool:
    """Whether a class in another file of the project, derived from some, has a method so named.

    ``frames``: that of the method that is known, and its caller's.
    """
    own = chains.file(frames[0])
    files = project_files.reached(case.code, {chains.file(one) for one in (*frames, *case.frames)})
    return any(name in case.code.spans(file).bindings.derived for file in files if file != own)


def is_error_handler(case: Case, way: str, stack: Sequence[str]) -> bool:
    """Whether a way past a call takes errors alone, by which no program finds its way.

    ``way``: as :func:`of_call` tells it, ``number leaves except ...``; ``stack``: the frames above
    the call.
    """
    _, line = statements.way_of(way)
    head = statements.code_of(line)
    if not head.startswith("except"):
        return False
    names = _NAMES.findall(head.removeprefix("except").partition(" as ")[0])
    files = [case.bindings(chains.site(frame)) for frame in stack]
    return bool(names) and all(
        exceptions.is_error(name) and not any(file.times(name.rpartition(".")[2]) for file in files)
        for name in names
    )


_NAMES: Final = re.compile(r"[\w.]+")


def fork(case: Case, one: str, two: str) -> str | None:
    """The ``if``, as ``number text``, of which two lines of one function are in different arms.

    As they are where who has been at the one returns, or begins the next turn, before the other.
    None: no run of the function is seen to go past one of them.
    """
    found = code_lines.parting_if(case.code, one, two)
    if found is not None:
        return found
    for inside, behind in ((one, two), (two, one)):
        around = statements.numbers_around(case.statements(inside))
        for text in case.ways(behind):
            leaves, line = statements.way_of(text)
            is_if = statements.code_of(line).startswith(("if ", "elif "))
            if is_if and leaves in ("return", "continue") and statements.number_of(line) in around:
                return line
    return None
