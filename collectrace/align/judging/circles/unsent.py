"""A message to a hub that one of several senders alike left out, and for which the hub waits.

As where workers push to a server, which asks each for as many as in every round. The others did
the same with the hub from the same lines, and made the message where the one went past it, or have
not come so far.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from collectrace.align.judging import announced, choices
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case, once
from collectrace.align.judging.own_round import (
    LeftRound,
    kept_round,
    left_own_round,
    left_own_turn,
    program_of,
)
from collectrace.align.matching import habit
from collectrace.align.matching.deviations import CAN_OUTVOTE
from collectrace.align.matching.programs import Program
from collectrace.align.reading import chains, statements
from collectrace.align.reading.bindings import assignments
from collectrace.align.reading.evidence import ChannelKey
from collectrace.align.reading.rows import Rows
from collectrace.ops import ANY_SOURCE
from collectrace.records import Call
from collectrace.signature import is_user

_Message = tuple[str, int, tuple[str, ...]]
"""The op, the tag, and the user's frames."""


class Unsent(NamedTuple):
    """A message that one alone of its like left out."""

    left: LeftRound
    hub: int
    likes: tuple[int, ...]
    """Those that made it. There are two alike at least, of which one may not have come so far."""

    @property
    def rank(self) -> int:
        """Who left it out."""
        return self.left.rank


@once
def unsent(case: Case, candidate: Candidate) -> Unsent | None:
    """The one of a circle of two that left out what all of its like sent to the other."""
    cycle = candidate.cycle
    if len(cycle) != 2:
        return None
    for edge, after in (cycle, cycle[::-1]):
        awaited, back = edge.waiting.channel, after.waiting.channel
        if awaited is None or back is None:
            continue
        hub, rank = edge.waiting.rank, after.waiting.rank
        if (awaited.source, awaited.destination, back.source) == (rank, hub, hub):
            return _of_hub(case, awaited)
    return None


def _of_hub(case: Case, awaited: ChannelKey) -> Unsent | None:
    rank, hub = awaited.source, awaited.destination
    left = left_own_round(case, rank) or left_own_turn(case, rank)
    log, mine = case.log(hub), program_of(case, rank)
    if left is None or log is None or mine is None or not _is_left_out(left, mine, awaited):
        return None
    asked = {
        key.source: count
        for key, count in log.last_channel_seq.items()
        if key._replace(source=rank) == awaited
    }
    wanted = asked.pop(rank, 0)
    if ANY_SOURCE in asked or max(asked.values(), default=wanted) > wanted:
        return None  # it has asked others for more: so it may go by another number for each
    if not all(case.standings[one].waiting and kept_round(case, one) for one in (hub, *asked)):
        return None
    *done, _ = _with(mine, hub)
    rows = mine.log.channel_rows(awaited)
    usual = _message(awaited, rows, rows.position(left.usual.seq))
    likes = []
    for one in sorted(asked):
        program = program_of(case, one)
        theirs = _with(program, hub)[: len(done) + 1] if program is not None else []
        if theirs == [*done, usual]:
            likes.append(one)
        elif theirs != done[: len(theirs)]:
            return None  # it is none of their like
    if not likes or len(asked) + 1 < CAN_OUTVOTE:
        return None
    if may_be_told(case, mine, left.usual, left.made, hub):
        return None
    return Unsent(left, hub, tuple(likes))


def _is_left_out(left: LeftRound, program: Program, awaited: ChannelKey) -> bool:
    """Whether a rank went past a message, as it never had, to the receive that it waits in."""
    if not left.skipped or left.extra or left.rounds < habit.ENOUGH or left.key != awaited:
        return False
    is_last = program.call(len(program.steps) - 1) == left.made
    return is_last and (left.made.op, left.made.peer) == ("recv", awaited.destination)


def _with(program: Program, hub: int) -> list[_Message]:
    """What a rank exchanged with another, in its order."""
    found: list[tuple[int, _Message]] = []
    for key in program.keys:
        if isinstance(key, ChannelKey) and hub in (key.source, key.destination):
            rows = program.log.channel_rows(key)
            found += ((rows.offset[at], _message(key, rows, at)) for at in range(len(rows)))
    return [message for _, message in sorted(found)]


def _message(channel: ChannelKey, rows: Rows, at: int) -> _Message:
    seen = rows.vocabulary.appearances[rows.appearance[at]]
    return seen.op, channel.tag, seen.where


def may_be_told(case: Case, program: Program, left_out: Call, made: Call, hub: int) -> bool:
    """Whether a rank may have gone past a message by what others had told it, or by a plan of all.

    Then whoever waits for it is the one that forgot that. By a collective in which it got something
    of the hub since it last made the message; or where a condition that leads past it reads what
    had come from anybody: by the names of what the rank receives into, and of the functions that do
    so. Or reads an attribute that a function set which received something, or a table of the
    module. What a rank has only gathered, whatever of, tells what came of its own work; so does a
    gradient.

    Args:
        case: the run.
        program: of the rank that left the message out.
        left_out: the message, as the rank had made it before.
        made: what it called instead.
        hub: whom the message was for.

    """
    if _was_told_all(case, program, left_out, made, hub):
        return True
    usual = case.stack(program.rank, left_out)
    site = left_out.site
    past = choices.of_call(case, usual, case.stack(program.rank, made))
    if past is None:  # a line on the way may decide by itself
        sites = [chains.site(frame) for frame in usual]
        past = [line for one in sites for line in (*case.statements(one), *case.ways(one))]
    lines = [_GRADIENT.sub("", _TURN.sub("", line)) for line in past or case.ways(site)]
    if any(map(_TABLE.search, lines)):
        return True
    told, kept = _told_by_name(case, program, usual)
    if kept & {name for line in lines for name in _ATTRIBUTE.findall(line)}:
        return True
    read = {name for line in lines for name in _NAME.findall(line)}
    for line in case.assigned(site):
        text = _GRADIENT.sub("", line.split(" ", 2)[-1])
        given = [(name.rpartition(".")[2], ast.unparse(value)) for name, value in assignments(text)]
        values = [value for name, value in given if name in read]
        if not given and not _GATHERED.match(text):
            values = [text]
        read |= {name for value in values for name in _NAME.findall(value)}
    return bool(told & read)


def _told_by_name(case: Case, program: Program, usual: Sequence[str]) -> tuple[set[str], set[str]]:
    """The names of what a rank got of others and of the functions that got it; of what those set.

    ``usual``: the frames above the message that was left out; their functions tell nothing.
    """
    names, kept = set[str](), set[str]()
    known = {chains.scope(one) for one in usual}
    for told in announced.between(program.log):
        is_message = isinstance(told.key, ChannelKey)
        if not announced.came_to(program.rank, told) or not (is_message or _is_of_each(told.call)):
            continue
        for frame in (one for one in told.where if chains.scope(one) not in known):
            names.add(chains.scope(frame)[1].rpartition(".")[2])
            kept |= _set_in(case, frame)
        pattern = _BUFFER if is_message else _NAME
        for line in case.statements(chains.site(told.where[0]))[-1:] if told.where else ():
            names |= {*pattern.findall(_GRADIENT.sub("", statements.code_of(line)))}
    return names - _OF_NOTHING, kept


def _is_of_each(call: Call) -> bool:
    """Whether a collective of the user's may tell ranks apart: sums that count nothing do not."""
    return is_user(call) and (call.op != "all_reduce" or announced.carries_numbers(call))


def _set_in(case: Case, frame: str) -> set[str]:
    """The names that the innermost function around a frame's line gives a value."""
    line = chains.line(frame)
    scopes = case.bindings(chains.site(frame)).scopes[1:]
    around = [one for one in scopes if one.span.holds(line)]
    return {*around[-1].times} if around else set()


def _was_told_all(case: Case, program: Program, left_out: Call, made: Call, hub: int) -> bool:
    """Whether a collective from the hub came between a message and what was called instead."""
    told = announced.telling(program.log, case.comparison.groups, left_out, made)
    return any(one.call.root == hub for one in told)


_BUFFER: Final = re.compile(
    r"\bi?recv(?:_object_list)?[(,] *(?:(?:tensor|object_list) *= *)?"
    r"(?:[A-Za-z_]\w*\.)*([A-Za-z_]\w*) *[,)\[]"
)
"""What is received into, the last of its names: also where it is handed on with the op."""
_NAME: Final = re.compile(r"[A-Za-z_]\w*")
_GRADIENT: Final = re.compile(r"[\w.]+\.grad\b")
"""Of what was received it tells nothing."""
_TURN: Final = re.compile(r"\bfor .* in\b")
"""What a loop gives a value, which decides nothing."""
_ATTRIBUTE: Final = re.compile(r"\.([A-Za-z_]\w*)\b(?! *\()")
"""One that is read, and not called."""
_TABLE: Final = re.compile(r"\b[A-Z][A-Z_\d]+(?:\.get\(|\[)|(?:\bin|[!=]=) [A-Z][A-Z_\d]+\b")
"""A look into what the module gives all ranks: a plan."""
_OF_NOTHING: Final = frozenset({"dist", "torch", "distributed", "self", "rank"})
"""Names that stand in whatever line."""
_GATHERED: Final = re.compile(r"[\w.]+ *(\+|-|\*|/|\||&)=")
