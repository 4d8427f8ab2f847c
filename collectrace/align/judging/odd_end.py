"""The one rank at an end of every message that does not fit, where the others' fit each other.

As where all exchange with all in bfloat16, and one in float32; or where the halo of one is wider.
Its peers did with others, from the same lines and in the same message of the row, what they meant
to do with it: of dtypes that is enough. Sizes may well be its own: there it must have sent and
awaited the usual one in each message before, or send what is awaited of it in another order. Nobody
is blamed where one of them was ever told of something: the others may have missed that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from collectrace.align.judging import announced
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case, once_of
from collectrace.align.judging.odd_message import End, Made, made, with_other
from collectrace.align.matching import habit, programs
from collectrace.align.matching.comparison import ChannelIssue
from collectrace.align.matching.deviations import CAN_OUTVOTE
from collectrace.align.reading.evidence import ChannelKey, RankLog
from collectrace.signature import channel_text, is_user

Way = Literal["dtype", "changed", "permuted"]


class OddEnd(NamedTuple):
    """Who is at an end of every message that does not fit."""

    rank: int
    peers: tuple[int, ...]
    """At the other ends; at least two."""
    others: tuple[int, ...]
    """With whom these exchanged messages that fit, from the same lines; of all at least three."""
    way: Way
    """It has another dtype; or a size as it never had; or sends the same in another order."""


def odd_end(case: Case, candidate: Candidate) -> OddEnd | None:
    """The rank that is at odds with several which agree with each other; None: there is none."""
    source = candidate.source
    if not isinstance(source, ChannelIssue) or source.attribute not in ("dtype", "count"):
        return None
    return _of_group(case, (source.group.name, source.attribute))


@once_of
def _of_group(case: Case, which: tuple[str, str]) -> OddEnd | None:
    """The same of all messages of a group that differ in one attribute: they have one answer."""
    alike = [one for one in case.comparison.channels if (one.group.name, one.attribute) == which]
    common = set.intersection(*({*_ends(one.channel)} for one in alike))
    if len(common) != 1 or not all(map(_is_of_two, alike)):
        return None
    (rank,) = common
    log = case.log(rank)
    if log is None or not programs.is_whole(log):
        return None
    fitting = {one.channel: _fitting(case, one, rank) for one in alike}
    ways = {_way(case, log, one, fitting[one.channel]) for one in alike}
    peers = {end for one in alike for end in _ends(one.channel)} - common
    others = {other for ranks in fitting.values() for other in ranks}
    if any(announced.was_told(case, one) for one in {*common, *peers}):
        return None
    if announced.may_be_by_store(case):
        return None
    if len(peers) < CAN_OUTVOTE - 1 or not others or len(peers | others) < CAN_OUTVOTE:
        return None
    way = ways.pop()
    if way is None or ways or (way == "dtype" and not _are_of_one_dtype(alike, rank)):
        return None
    if way == "dtype" and rank == alike[0].group.ranks[0]:
        return None  # it often has another part than all others, with which all go by its dtype
    return OddEnd(rank, tuple(sorted(peers)), tuple(sorted(others)), way)


def _are_of_one_dtype(issues: Sequence[ChannelIssue], rank: int) -> bool:
    """Whether all peers of a rank send and await one dtype, and the rank itself another one."""
    ends = [(one.channel.source == rank, one.send, one.recv) for one in issues]
    mine = {call.dtype for is_sent, s, r in ends if (call := s if is_sent else r) is not None}
    theirs = {call.dtype for is_sent, s, r in ends if (call := r if is_sent else s) is not None}
    return len(mine) == len(theirs) == 1


def _fitting(case: Case, issue: ChannelIssue, rank: int) -> set[int]:
    """With whom the peer of a rank exchanged, to a fit, what it meant to exchange with the rank."""
    return {n for n in issue.group.ranks if n != rank and _fits(case, issue, rank, n)}


def _ends(channel: ChannelKey) -> tuple[int, int]:
    return channel.source, channel.destination


def _is_of_two(issue: ChannelIssue) -> bool:
    """Whether a message has two ends of the user's own, which name each other."""
    if issue.send is None or issue.recv is None or issue.is_from_any or issue.taken:
        return False
    return is_user(issue.send) and is_user(issue.recv)


def _fits(case: Case, issue: ChannelIssue, rank: int, other: int) -> bool:
    """Whether the peer of a rank exchanged with another what it meant to exchange with the rank."""
    is_sent = issue.channel.source == rank
    peer = issue.channel.destination if is_sent else issue.channel.source
    if other == peer:
        return False
    channel = with_other(issue.channel, "source" if is_sent else "destination", other)
    meant = _message(case, peer, issue.channel, issue)
    source, destination = (_message(case, end, channel, issue) for end in _ends(channel))
    if meant is None or source is None or destination is None or source[1] != destination[1]:
        return False
    return meant == (destination if is_sent else source)


def _message(case: Case, rank: int, channel: ChannelKey, issue: ChannelIssue) -> Made | None:
    """A rank's end of the message of a channel that has the number of one that does not fit.

    Of its text only what those differ in.
    """
    log = case.log(rank)
    if log is None or channel not in log.last_channel_seq or not programs.is_whole(log):
        return None
    rows = log.channel_rows(channel)
    at, known = rows.find(issue.seq), rows.vocabulary
    if at is None:
        return None
    text = channel_text(known.examples[rows.meaning[at]])
    frames = known.appearances[rows.appearance[at]].where
    return frames, text.partition("|")[0] if issue.attribute == "dtype" else text


def _way(case: Case, log: RankLog, issue: ChannelIssue, fitting: Iterable[int]) -> Way | None:
    """In what the end of a rank is odd; None: it may be its own affair."""
    if issue.attribute == "dtype":
        return "dtype"
    mine, is_sent = made(log, issue.channel), issue.channel.source == log.rank
    before = {text for _, text in mine[: issue.seq - 1]}
    usual = issue.recv if is_sent else issue.send
    if usual is not None and issue.seq > habit.ENOUGH and before == {channel_text(usual)}:
        return "changed"
    end: End = "source" if is_sent else "destination"
    ways = [(other, with_other(issue.channel, end, other)) for other in fitting]
    ways.append((issue.channel.destination if is_sent else issue.channel.source, issue.channel))
    logs = [(theirs, way) for other, way in ways if (theirs := case.log(other)) is not None]
    texts = [sorted(text for _, text in made(theirs, way)) for theirs, way in logs]
    if fitting and len(mine) > 1 and sorted(text for _, text in mine) in texts:
        return "permuted"
    return None
