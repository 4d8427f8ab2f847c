"""Find the culprits of a message that lacks its other end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from collectrace import ops
from collectrace.align.code.origins import Origin
from collectrace.align.judging import led, partners
from collectrace.align.judging.absence import culprits
from collectrace.align.judging.by_number import named_by_number
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.judging.evidence import Evidence
from collectrace.align.judging.led import At
from collectrace.align.judging.own_round import kept_round, program_of
from collectrace.align.judging.undelivered import senders
from collectrace.align.matching import habit
from collectrace.align.matching.comparison import ChannelIssue
from collectrace.align.matching.deviations import CAN_OUTVOTE
from collectrace.align.ranks import waitgraph
from collectrace.align.reading.evidence import ChannelKey
from collectrace.records import Call


def issue_of(candidate: Candidate, *attributes: str) -> ChannelIssue | None:
    """Return the message of a candidate if it differs in one of some attributes."""
    source = candidate.source
    return source if isinstance(source, ChannelIssue) and source.attribute in attributes else None


def held_up(case: Case, candidate: Candidate) -> Iterator[Evidence]:
    """Find the ranks that the absent ends of a message finally wait for."""
    if issue_of(candidate, "absent") is not None:
        yield Evidence("holds_up_others", culprits(case, candidate))


def named_by_group_rank(_: Case, candidate: Candidate) -> Iterator[Evidence]:
    """Find two ranks that named each other by group rank."""
    issue = issue_of(candidate, "absent")
    ranks = named_by_number(issue) if issue is not None else ()
    if ranks:
        yield Evidence("named_by_group_rank", ranks)


def unpaired(case: Case, candidate: Candidate) -> Iterator[Evidence]:
    """Find the only rank with another partner than would make all pairs mutual."""
    found = partners.unpaired(case, candidate)
    if found is not None:
        yield Evidence("unpaired", (found.odd,))


def left_without_waiting(case: Case, candidate: Candidate) -> Iterator[Evidence]:
    """Find senders that exited before their messages had arrived."""
    issue = issue_of(candidate, "undelivered")
    if issue is not None:
        yield Evidence("left_without_waiting", tuple(sorted(b.rank for b in senders(case, issue))))


def ended_in_round(case: Case, candidate: Candidate) -> Iterator[Evidence]:
    """Find the only rank that ended where its usual iteration continues with an awaited message.

    Either it raised or died, and all other senders of such messages wait for the receiver. Or it
    finished by what only it got from a collective, and all others wait for its messages.
    """
    issue = issue_of(candidate, "absent")
    if issue is None or issue.send is not None:
        return
    ways = (
        case.sent_to_any(issue.channel)
        if issue.is_from_any
        else {issue.channel.source: issue.channel}
    )
    ended = [rank for rank in ways if case.standings[rank].state in ("died", "raised", "finished")]
    ended = [rank for rank in ended if not case.standings[rank].by_peers]
    if len(ended) != 1:
        return
    (rank,) = ended
    others = (*ways, *(issue.group.ranks if not issue.is_from_any else ()))
    goal = issue.channel.destination if issue.is_from_any else rank
    is_awaited = all(
        goal in waitgraph.reachable(case.graph, one) for one in others if one not in (rank, goal)
    )
    due = _due(case, rank)
    if due is None or not is_awaited or due.kind != issue.channel._replace(source=rank)[:2]:
        return
    if case.standings[rank].state != "finished" or _left_by_root(case, rank, due, issue):
        yield Evidence("ended_in_round", (rank,))


class _Due(NamedTuple):
    key: ChannelKey
    usual: Call
    last: Call
    rounds: int

    @property
    def kind(self) -> tuple[str, str]:
        return self.key.group, self.key.device


def _due(case: Case, rank: int) -> _Due | None:
    """Return the message that comes next in a rank's usual iteration; None if there is none."""
    program = program_of(case, rank)
    steps = program.steps if program is not None else ()
    place = habit.expected(steps, len(steps))
    if program is None or place is None:
        return None
    key, usual, last = (
        program.keys[program.sources[place]],
        program.call(place),
        program.call(len(steps) - 1),
    )
    if not isinstance(key, ChannelKey) or key.source != rank or usual is None or last is None:
        return None
    rounds = habit.agreeing(steps, place, len(steps)) // (len(steps) - place) + 1
    return _Due(key, usual, last, rounds)


def _left_by_root(case: Case, rank: int, due: _Due, issue: ChannelIssue) -> bool:
    """Whether a rank finished by the result that it alone got from a last call of all ranks."""
    if due.last.op not in ops.TO_ROOT or due.last.root != rank or due.rounds < habit.ENOUGH:
        return False
    others = [one for one in issue.group.ranks if one != rank]
    answer = led.deciding_statements(
        case, (rank, rank), At(due.last.op, case.stack(rank, due.last)), None,
        At(due.usual.op, case.stack(rank, due.usual)),
    )  # fmt: skip
    is_by_root = any(Origin.ROOT in one.origins for one in answer.decisions)
    return (
        len(others) + 1 >= CAN_OUTVOTE and is_by_root and all(kept_round(case, r) for r in others)
    )
