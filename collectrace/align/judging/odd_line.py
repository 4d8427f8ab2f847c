"""A message that one rank alone made, from a line at which none of its like ever was.

As where each worker pushes to a server in turn, and one pushes once more: its messages meet what
they were not meant for, be it a few later. The server treats all alike, and the others' fit.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from collectrace.align.judging import announced
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case, once
from collectrace.align.judging.odd_message import End, Made, made, with_other
from collectrace.align.judging.own_round import stacks_of
from collectrace.align.matching import habit, programs
from collectrace.align.matching.comparison import ChannelIssue
from collectrace.align.reading import chains, statements
from collectrace.align.reading.evidence import ChannelKey, RankLog
from collectrace.records import Call
from collectrace.signature import is_user

_LIKES: Final = 2
"""Ranks that do alike are enough; one is, where the odd one had done as it did before."""


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
    treated = _lines(made(other, channel, issue.seq))
    likes: list[int] = []
    at: int | None = None
    for like in issue.group.ranks:
        way, theirs = with_other(channel, end, like), case.log(like)
        if like in (rank, hub) or theirs is None or way not in theirs.last_channel_seq:
            continue
        done = _lines(made(theirs, way))
        if not _is_treated_alike(case, other, way, treated) or not programs.is_whole(theirs):
            return None
        here = _odd_one(mine, done)
        if here is None or at not in (None, here):
            return None
        at = here
        likes.append(like)
    if at is None or len(likes) < (1 if at >= habit.ENOUGH else _LIKES):
        return None
    if announced.was_told(case, rank) or _is_of_rank(case, mine[at]):
        return None
    if any(mine[at] in stacks_of(case, one) for one in case.standings if one != rank):
        return None
    call, model = log.channel_call(channel, at + 1), case.log(likes[0])
    if call is None or model is None:
        return None
    usual = model.channel_call(with_other(channel, end, likes[0]), at + 1)
    return OddLine(rank, call, hub, tuple(likes), usual, is_extra=at + 1 < issue.seq)


def _lines(messages: list[Made]) -> list[tuple[str, ...]]:
    return [frames for frames, _ in messages]


def _is_treated_alike(
    case: Case, hub: RankLog, channel: ChannelKey, treated: list[tuple[str, ...]]
) -> bool:
    """Whether a hub made as much of another channel, from the same lines, and all that fitted."""
    if channel not in hub.last_channel_seq:
        return False
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


def _is_of_rank(case: Case, frames: tuple[str, ...]) -> bool:
    """Whether a line is one rank's by design, so that the hub may have forgotten that one."""
    sites = [chains.site(frame) for frame in frames[:1]]
    return any(
        statements.tells_ranks_apart(case.spelled_out(site, line))
        for site in sites
        for line in statements.branches(case.statements(site))[-1:]
    )
