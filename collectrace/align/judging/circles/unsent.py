"""A message to a hub that one of several senders alike left out, and for which the hub waits.

As where workers push to a server, which asks each for as many as in every round. The others did
the same with the hub from the same lines, and made the message where the one went past it, or have
not come so far.
"""

from __future__ import annotations

from typing import NamedTuple

from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case, once
from collectrace.align.judging.may_be_told import may_be_told
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
from collectrace.align.reading.evidence import ChannelKey
from collectrace.align.reading.rows import Rows
from collectrace.ops import ANY_SOURCE

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
