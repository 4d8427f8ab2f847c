"""Show the last known stacks of ranks that others wait for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Final

from collectrace import dumps
from collectrace.align.code.files import Frame, Gap
from collectrace.align.code.program import Program
from collectrace.align.excerpts.marks import seconds_in
from collectrace.align.judging.case import Case
from collectrace.align.ranks import detail
from collectrace.align.ranks.last_seen import last_seen
from collectrace.findings import KINDS, Finding, RankStack

_MOST: Final = 4
"""Stacks shown for one finding."""

_MOST_FRAMES: Final = 30
"""Innermost frames of a stack that are shown."""

_SPAWNED: Final = "<string>:1 <module>"
"""The outermost frame of a process that multiprocessing started with ``python -c``."""

_STATES: Final = ("busy", "silent", "died")
"""States of ranks that are in no known call."""


def stacks(case: Case, finding: Finding, program: Program) -> tuple[RankStack, ...]:
    """Return where the awaited ranks are, with ranks of equal stacks grouped."""
    if not KINDS[finding.kind].is_absence:
        return ()
    absent = {rank for side in finding.sides if side.call is None for rank in side.ranks}
    found: dict[object, RankStack] = {}
    for rank in sorted(absent | {*finding.suspects}):
        standing = case.standings[rank]
        seen = last_seen(standing.log) if standing.state in _STATES else None
        if seen is None or not (frames := _shown(program, rank, detail.whole_at_work(seen.stacks))):
            continue
        held = seconds_in(standing, standing.last_issued)
        awaited = standing.host_wait.what if standing.host_wait is not None else None
        first = RankStack(ranks=(), frames=frames, left=seen.left, waits_for=awaited)
        key = frames, seen.left, awaited
        known = found.setdefault(key, first)
        found[key] = replace(known, ranks=(*known.ranks, rank), held=max(known.held, held))
    return tuple(found.values())[:_MOST]


def _shown(program: Program, rank: int, stack: Sequence[str]) -> tuple[str, ...]:
    """Return the frames up to the user's outermost one, with qualified names, innermost first."""
    frames = [*takewhile(_is_of_program, (f for f in reversed(stack) if dumps.TRACER not in f))]
    own = {*dumps.own(frames)}
    while own and frames[-1] not in own:
        frames.pop()
    return tuple(
        _qualified(program, rank, frame) if frame in own else frame
        for frame in [*_ends(frames, own)][:_MOST_FRAMES]
    )


def _is_of_program(frame: str) -> bool:
    """Return whether a frame is of the program, not of its launcher: runpy, or a spawned child."""
    return "runpy>" not in frame and "/runpy.py:" not in frame and frame != _SPAWNED


def _ends(frames: Sequence[str], own: Iterable[str]) -> Iterator[str]:
    """Yield the user's frames, and the first and last library frame between them."""
    for n, frame in enumerate(frames):
        around = (frames[n - 1] if n else None), (frames[n + 1] if n + 1 < len(frames) else None)
        if frame in own or any(one is None or one in own for one in around):
            yield frame


def _qualified(program: Program, rank: int, text: str) -> str:
    frame = Frame.parse(text)
    found = program.files.function(rank, frame)
    return text if isinstance(found, Gap) else replace(frame, function=found.qualified).text
