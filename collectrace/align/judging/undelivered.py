"""Messages that were started and did not arrive, because their sender had exited.

A send that returns at once has only been started. gloo transfers its bytes when the other end
requests them (``Pair::send``, gloo/transport/tcp/pair.cc, as in torch 2.13). They are lost if the
process ends, or its group is destroyed, before ``wait()`` returned.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from collectrace import exceptions
from collectrace.align.judging.case import Case
from collectrace.align.matching import channels
from collectrace.align.matching.comparison import ChannelIssue
from collectrace.align.ranks.standing import Standing
from collectrace.align.reading.evidence import ChannelKey, RankLog
from collectrace.records import Call, Done


@dataclass(frozen=True, slots=True)
class Begun:
    """Messages that an exited rank had started to send to a peer, without waiting for them."""

    rank: int
    count: int
    """Messages that are not known to have arrived."""
    left: int
    """When the rank ended, or destroyed the group, on the shared clock, ns."""


def undelivered(case: Case) -> list[ChannelIssue]:
    """Return by channel messages with receives that raised: the sender exited without waiting.

    Only senders that finished count: an exception or a signal explains its lost messages itself.
    """
    found: dict[ChannelKey, ChannelIssue] = {}
    for rank, log in case.evidence.logs.items():
        for done in log.failed:
            issue = _issue(case, rank, log, done)
            if issue is not None:
                found.setdefault(issue.channel, issue)
    return list(found.values())


def senders(case: Case, issue: ChannelIssue) -> list[Begun]:
    """Return all senders that exited without waiting at the same line, for the same receiver.

    The sender of the message itself is first.
    """
    first, send = issue.channel, issue.send
    assert send is not None
    ranks = [r for r in issue.group.ranks if r not in (first.source, first.destination)]
    found = []
    for rank in (first.source, *ranks):
        channel = first._replace(source=rank)
        standing, arrived = case.standings[rank], _arrived(case, channel)
        log = standing.log
        if log is None or log.last_channel_seq.get(channel, 0) <= arrived:
            continue
        call = send if rank == first.source else log.call(channel, arrived + 1)
        if call is not None and call.site == send.site and _is_left(standing, channel, call):
            count = log.last_channel_seq[channel] - arrived
            found.append(Begun(rank, count, _left(case, standing, channel.group)))
    return found


def _issue(case: Case, rank: int, log: RankLog, done: Done) -> ChannelIssue | None:
    """Return the message whose receive failed in a rank's record, if it was lost that way."""
    if done.peer is None or done.op != "recv" or not exceptions.lost_peer(done.error or ""):
        return None
    group, sender = case.comparison.groups.get(done.group), case.standings.get(done.peer)
    if group is None or sender is None or sender.log is None:
        return None
    if case.standings[rank].state != "raised" or channels.is_late(group, case.evidence.logs):
        return None
    channel = ChannelKey(done.group, done.device, done.peer, rank, done.tag or 0)
    seq = done.seq + log.taken(channel)
    send = sender.log.call(channel, seq)
    recv = log.call(channel, done.seq)
    if send is None or recv is None or not _is_left(sender, channel, send):
        return None
    if _left(case, sender, done.group) > case.clocks.when(rank, done.t):
        return None  # the sender was still there, so the connection was lost for another reason
    return ChannelIssue(channel, group, seq, send, recv, "undelivered")


def _is_left(sender: Standing, channel: ChannelKey, send: Call) -> bool:
    """Whether a rank finished, and no record shows that it waited for this message."""
    log = sender.log
    if log is None or sender.state != "finished" or sender.disabled or not send.async_:
        return False
    done = log.dones.get(channel)
    if done is not None and done.seq >= send.seq:
        return False
    return not any(
        failed.op == "send" and failed.peer == channel.destination for failed in log.failed
    )


def _left(case: Case, sender: Standing, group: str) -> int:
    """When a rank ended, or destroyed a group, on the shared clock, ns."""
    return min(_moments(case, sender, group))


def _moments(case: Case, sender: Standing, group: str) -> Iterator[int]:
    yield sender.end
    for record in sender.log.groups if sender.log is not None else ():
        if record.group == group and record.phase == "destroyed":
            yield case.clocks.when(sender.rank, record.t)


def _arrived(case: Case, channel: ChannelKey) -> int:
    """Return how many messages of a channel have arrived, or may have."""
    log = case.log(channel.destination)
    if log is None:
        return 0
    failed = [
        done.seq
        for done in log.failed
        if (done.group, done.device, done.peer, done.tag or 0) == (
            channel.group, channel.device, channel.source, channel.tag
        ) and done.op == "recv"
    ]  # fmt: skip
    named = min([log.last_channel_seq.get(channel, 0), *(seq - 1 for seq in failed)])
    return named + log.taken(channel)
