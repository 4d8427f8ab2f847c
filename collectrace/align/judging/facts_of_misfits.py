"""Find the culprits of a message with two ends that do not match."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from collectrace import words
from collectrace.align.judging import announced
from collectrace.align.judging.announced import may_have_command
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case, once
from collectrace.align.judging.closing_send import ENDS, find_in_cycle
from collectrace.align.judging.evidence import Evidence
from collectrace.align.judging.facts_of_messages import issue_of
from collectrace.align.judging.own_calls import calls_of
from collectrace.align.matching import habit
from collectrace.align.matching.comparison import ChannelIssue
from collectrace.align.matching.deviations import CAN_OUTVOTE
from collectrace.align.reading.evidence import ChannelKey
from collectrace.align.reading.vocabulary import CallPlace
from collectrace.signature import channel_text, is_user

_TWICE: Final = 2
"""Fewest earlier messages with one peer, if the other end still names the rank as before."""


class Sent(NamedTuple):
    """One end of a message."""

    rank: int
    key: ChannelKey
    seq: int
    place: CallPlace
    text: str
    """What both ends must agree on."""

    @property
    def dtype(self) -> str:
        """The dtype of the message."""
        return self.text.partition("|")[0]


@once
def ends_of(case: Case, rank: int) -> Sequence[Sent]:
    """Return a rank's ends of messages in order; empty if some calls are not known."""
    log, found = case.log(rank), []
    for one in calls_of(case, rank):
        if isinstance(one.key, ChannelKey) and log is not None:
            rows = log.rows(one.key)[0]
            meaning = rows.meaning[rows.position(one.seq)]
            text = channel_text(rows.vocabulary.examples[meaning])
            found.append(Sent(rank, one.key, one.seq, one.place, text))
    return found


def _end(case: Case, rank: int, key: ChannelKey, seq: int) -> Sent | None:
    """Return a rank's end of a message; None if it made none or it is not known."""
    return next((one for one in ends_of(case, rank) if (one.key, one.seq) == (key, seq)), None)


def _ends_from(case: Case, rank: int, place: CallPlace) -> list[Sent]:
    return [one for one in ends_of(case, rank) if one.place == place]


def _with_rank(key: ChannelKey, at: int, rank: int) -> ChannelKey:
    """Return a channel with rank ``at`` replaced by another rank."""
    return key._replace(source=rank) if key.source == at else key._replace(destination=rank)


def _are_users(issue: ChannelIssue) -> bool:
    """Whether the user's own code made both ends of a message, and they name each other."""
    ends = [call for call in (issue.send, issue.recv) if call is not None]
    return not issue.is_from_any and not issue.taken and all(map(is_user, ends))


def took_from_any(_: Case, candidate: Candidate) -> Iterator[Evidence]:
    """Find ranks that received from any rank what they meant to receive from the previous one."""
    issue = issue_of(candidate, "dtype", "count")
    if issue is not None and issue.before is not None and issue.before.next is not None:
        yield Evidence("took_from_any", (issue.channel.destination,))


# -- compared with other ranks' messages of the same number --------------------------------------


def odd_message(case: Case, candidate: Candidate) -> Iterator[Evidence]:
    """Find the only rank with a message that differs from its other end and from its peers'.

    The compared messages have the same number and line, and were equal in all earlier ones.
    """
    issue = issue_of(candidate, "dtype", "count", "absent")
    if issue is None or issue.recv is None or not _are_users(issue):
        return
    near = issue.near if issue.near is not None and issue.near.differs == "tag" else None
    send, key = (issue.send, issue.channel) if near is None else (near.send, near.channel)
    if send is None or not is_user(send):
        return
    sent = _end(case, key.source, key, send.seq)
    got = _end(case, issue.channel.destination, issue.channel, issue.recv.seq)
    if sent is None or got is None:
        return
    for mine, usual in ((sent, got), (got, sent)):
        is_told = near is not None and any(may_have_command(case, one.rank) for one in (sent, got))
        is_told = is_told or (near is None and _is_announced(case, mine, usual.rank))
        if not is_told and _is_alone(case, mine, usual):
            yield Evidence("odd_message", (mine.rank,), shown_by=usual)


def _is_alone(case: Case, mine: Sent, usual: Sent) -> bool:
    """Whether the peers made as many messages as a rank, the last one as the other end expects."""
    rows = {
        rank: _ends_from(case, rank, mine.place)
        for rank in case.evidence.logs
        if rank != usual.rank
    }
    if any(len({one.key._replace(tag=0) for one in made}) > 1 for made in rows.values()):
        return False  # they go to several ranks, which may each have their own size
    done = rows.pop(mine.rank)
    n = done.index(mine)
    before = [(one.key.tag, one.text) for one in done[:n]]
    expected = [*before, (usual.key.tag, usual.text)]
    made = [[(one.key.tag, one.text) for one in row[: n + 1]] for row in rows.values()]
    likes = sum(len(row) > n for row in made)
    enough = 1 if mine.key.tag != usual.key.tag else CAN_OUTVOTE - 1
    is_even = all(row == expected[: len(row)] for row in made)
    return n >= habit.ENOUGH and is_even and likes >= enough


def _is_announced(case: Case, mine: Sent, peer: int) -> bool:
    """Whether a rank announced its message since the one before, or was told to change it."""
    made, log = _ends_from(case, mine.rank, mine.place), case.log(mine.rank)
    n = made.index(mine)
    if log is None or not n:
        return True
    rows = [(log.rows(one.key)[0], one.seq) for one in made[n - 1 : n + 1]]
    begin, end = (row.offset[row.position(seq)] for row, seq in rows)
    return any(
        _is_announcement(case, mine.rank, peer, one)
        for one in announced.calls_between(log, begin, end)
    )


def _is_announcement(case: Case, rank: int, peer: int, told: announced.EqualCalls) -> bool:
    key = told.key
    if announced.carries_numbers(told.call):
        return True
    if isinstance(key, ChannelKey) and key.destination != rank:
        return key.destination == peer
    if isinstance(key, ChannelKey) and key.source != peer:
        return False
    ranks = case.comparison.groups[key.group].ranks
    return announced.brought_data(rank, told) and announced.may_be_command(told, ranks)


# -- compared with the rank's own messages at that line ------------------------------------------


def left_its_peer(case: Case, candidate: Candidate) -> Iterator[Evidence]:
    """Find the rank that named another peer at a line than ever before, unlike the other end.

    Nobody awaits the message that it made instead, so only one of the two ends can be wrong. A rank
    that may have got a command could have been told the other peer.
    """
    source = candidate.source
    issue = find_in_cycle(case, candidate.cycle) if candidate.cycle else source
    if not isinstance(issue, ChannelIssue) or issue.near is None or issue.near.differs not in ENDS:
        return
    send, recv = issue.near.send, issue.recv
    if send is None or recv is None or not (is_user(send) and is_user(recv)):
        return
    sent = _end(case, issue.near.channel.source, issue.near.channel, send.seq)
    got = _end(case, issue.channel.destination, issue.channel, recv.seq)
    if sent is None or got is None or any(may_have_command(case, e.rank) for e in (sent, got)):
        return
    usual = got.key._replace(tag=sent.key.tag)
    before, there = (
        {one.key._replace(tag=sent.key.tag): one.seq for one in _until(case, end)}
        for end in (sent, got)
    )
    for mine, met, other in ((sent, before, there), (got, there, before)):
        expected = usual if mine is sent else sent.key
        if {*met} == {expected} and met[expected] >= _TWICE and {*other} <= {expected}:
            yield Evidence("left_its_peer", (mine.rank,), shown_by=issue)


def _until(case: Case, end: Sent) -> list[Sent]:
    """Return a rank's messages from a line, before one of them."""
    made = _ends_from(case, end.rank, end.place)
    return made[: made.index(end)]


# -- compared with all messages of a group ----------------------------------------------------


def end_of_every_misfit(case: Case, candidate: Candidate) -> Iterator[Evidence]:
    """Find the rank at one end of every mismatched message, if all other ends match each other.

    Its peers exchanged the expected message with other ranks, in the same call from the same lines.
    For dtypes that is enough, unless the rank is the first of its group, which often has another
    role. Sizes may be local to the rank, so it must have had the usual one in each message before,
    or have the same sizes in another order.
    """
    issue = issue_of(candidate, "dtype", "count")
    if issue is None:
        return
    group, attribute = issue.group, issue.attribute
    alike = [
        one
        for one in case.comparison.channels
        if (one.group.name, one.attribute) == (group.name, attribute)
    ]
    common = set.intersection(*({one.channel.source, one.channel.destination} for one in alike))
    if len(common) != 1 or not all(map(_are_users, alike)):
        return
    (rank,) = common
    peers = {one.channel.source + one.channel.destination - rank for one in alike}
    if len(peers) + 1 < CAN_OUTVOTE or any(may_have_command(case, one) for one in {rank, *peers}):
        return
    others: set[int] = set()
    for one in alike:
        key = one.channel
        mine = _end(case, rank, key, one.seq)
        theirs = _end(case, key.source + key.destination - rank, key, one.seq)
        if mine is None or theirs is None:
            return
        fitting = _fitting(case, mine, theirs)
        if attribute == "count" and not _is_odd_in_size(case, mine, theirs, fitting):
            return
        others |= {end.rank for end in fitting}
    dtypes = {frozenset(words.dtypes(end) for end in (one.send, one.recv) if end) for one in alike}
    is_odd = attribute == "count" or (rank != group.ranks[0] and len(dtypes) == 1)
    if is_odd and others and len(peers | others) >= CAN_OUTVOTE:
        yield Evidence("end_of_every_misfit", (rank,))


def _fitting(case: Case, mine: Sent, theirs: Sent) -> list[Sent]:
    """Return the ends of other ranks that match what a peer expected of a rank."""
    found = []
    for other in case.evidence.logs:
        if other not in (mine.rank, theirs.rank):
            way = _with_rank(mine.key, mine.rank, other)
            ends = [_end(case, rank, way, mine.seq) for rank in (theirs.rank, other)]
            known = [one for one in (*ends, theirs) if one is not None]
            same = {one.text if mine.dtype == theirs.dtype else one.dtype for one in known}
            one, two = ends
            if one is not None and two is not None and one.place == theirs.place and len(same) == 1:
                found.append(two)
    return found


def _is_odd_in_size(case: Case, mine: Sent, theirs: Sent, fitting: Sequence[Sent]) -> bool:
    """Whether a rank always had the usual size before, or has the peers' sizes in another order."""
    own = [one for one in ends_of(case, mine.rank) if one.key == mine.key]
    if mine.seq > habit.ENOUGH and {one.text for one in own if one.seq < mine.seq} == {theirs.text}:
        return True
    sizes = sorted(one.text for one in own)
    rows = ([one for one in ends_of(case, end.rank) if one.key == end.key] for end in fitting)
    return len(own) > 1 and any(sizes == sorted(one.text for one in row) for row in rows)
