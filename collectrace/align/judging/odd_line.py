"""A message that one rank alone made, from a line at which none of its like ever was.

As where each worker pushes to a server in turn, and one that had done so pushes once more: its
messages meet what they were not meant for, be it a few later. The server treats all alike, and the
others' fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from collectrace.align.judging import announced
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case, once
from collectrace.align.judging.may_be_told import may_be_asked_for
from collectrace.align.judging.odd_message import End, Made, made, with_other
from collectrace.align.judging.own_round import program_of, stacks_of
from collectrace.align.matching import habit, programs
from collectrace.align.matching.comparison import ChannelIssue
from collectrace.align.reading import chains, statements
from collectrace.align.reading.evidence import ChannelKey, RankLog
from collectrace.records import Call
from collectrace.signature import is_user


class OddLine(NamedTuple):
    """A message of a rank that none of its like made."""

    rank: int
    call: Call
    """The rank's end of it."""
    hub: int
    """At the other end."""
    likes: tuple[int, ...]
    """Who else exchanged messages with the hub, which fit."""
    usual: Call | None
    """What the first of these made in its place; None: it has not come so far."""
    is_extra: bool
    """Behind it the rank went on as its like do; else it is the one that does not fit."""


@once
def odd_line(case: Case, candidate: Candidate) -> OddLine | None:
    """Which message of a rank put those behind it out of step with their other ends; else None."""
    issue = candidate.source
    if not isinstance(issue, ChannelIssue) or issue.attribute not in ("dtype", "count"):
        return None
    if issue.send is None or issue.recv is None or issue.is_from_any or issue.taken:
        return None
    if not (is_user(issue.send) and is_user(issue.recv)):
        return None
    ends: tuple[End, ...] = "source", "destination"
    found = [one for end in ends if (one := _of_end(case, issue, end)) is not None]
    return found[0] if len(found) == 1 else None


def _of_end(case: Case, issue: ChannelIssue, end: End) -> OddLine | None:
    """The rank at one end; the hub is at the other."""
    channel = issue.channel
    rank, hub = channel.source, channel.destination
    if end == "destination":
        rank, hub = hub, rank
    log, other = case.log(rank), case.log(hub)
    if log is None or other is None or not (programs.is_whole(log) and programs.is_whole(other)):
        return None
    mine = _lines(made(log, channel, issue.seq))
    likes = _likes(case, issue, end, rank, other)
    places = {_odd_one(mine, _lines(made(theirs, way))) for theirs, way in likes}
    at = places.pop() if len(places) == 1 else None
    if at is None or at < habit.ENOUGH:
        return None  # it has not done as they do for long
    if _may_be_meant(case, rank, hub, mine, at):
        return None
    (model, way), call = likes[0], log.channel_call(channel, at + 1)
    if call is None:
        return None
    usual, others = model.channel_call(way, at + 1), tuple(theirs.rank for theirs, _ in likes)
    return OddLine(rank, call, hub, others, usual, is_extra=at + 1 < issue.seq)


def _likes(
    case: Case, issue: ChannelIssue, end: End, rank: int, hub: RankLog
) -> list[tuple[RankLog, ChannelKey]]:
    """Who else exchanges with a hub, each with its channel; none where it treats them unlike."""
    treated = _lines(made(hub, issue.channel, issue.seq))
    ways = [with_other(issue.channel, end, like) for like in issue.group.ranks if like != rank]
    ways = [way for way in ways if way in hub.last_channel_seq]
    logs = [case.log(way.source if end == "source" else way.destination) for way in ways]
    found = [
        (log, way)
        for log, way in zip(logs, ways, strict=True)
        if log is not None and programs.is_whole(log) and way in log.last_channel_seq
    ]
    is_alike = len(found) == len(ways) and all(
        _is_treated_alike(case, hub, way, treated) for _, way in found
    )
    return found if is_alike else []


def _may_be_meant(
    case: Case, rank: int, hub: int, mine: Sequence[tuple[str, ...]], at: int
) -> bool:
    """Whether a message may be one rank's by design, or have been asked for; or is not alone."""
    if not case.statements(chains.site(mine[at][0])) or _is_of_rank(case, mine, at):
        return True
    program = program_of(case, rank)
    if program is None or may_be_asked_for(case, program, mine[at], hub):
        return True
    if announced.was_told(case, rank) or announced.may_be_by_store(case):
        return True
    return any(mine[at] in stacks_of(case, one) for one in case.standings if one != rank)


def _lines(messages: list[Made]) -> list[tuple[str, ...]]:
    return [frames for frames, _ in messages]


def _is_treated_alike(
    case: Case, hub: RankLog, channel: ChannelKey, treated: list[tuple[str, ...]]
) -> bool:
    """Whether a hub made as much of another channel, from the same lines, and all that fitted."""
    unfit = {one.channel for one in case.comparison.channels if one.attribute in ("dtype", "count")}
    lines = _lines(made(hub, channel))
    n = min(len(lines), len(treated))
    return channel not in unfit and n >= len(treated) - 1 and lines[:n] == treated[:n]


def _odd_one(mine: list[tuple[str, ...]], usual: list[tuple[str, ...]]) -> int | None:
    """The place of the one message of a row that is none of another row's; None: there is none.

    All before it are the same in both, and all behind it, as far as they go.
    """
    foreign = [n for n, one in enumerate(mine) if one not in usual]
    if len(foreign) != 1 or not usual:
        return None
    (at,) = foreign
    rest = [*mine[:at], *mine[at + 1 :]]
    n = min(len(rest), len(usual))
    return at if rest[:n] == usual[:n] and n >= at else None


def _is_of_rank(case: Case, mine: Sequence[tuple[str, ...]], at: int) -> bool:
    """Whether a line is one rank's by design, so that the hub may have forgotten that one.

    A condition around it, or around its callers, asks for the rank, and is around none of what the
    rank exchanged else.
    """
    rest = (frames for n, frames in enumerate(mine) if n != at)
    usual = {line for frames in rest for _, line in case.branches(frames)}
    return any(
        statements.tells_ranks_apart(case.spelled_out(site, line[1]))
        for site, line in case.branches(mine[at])
        if line not in usual
    )
