"""Point to point: per channel the first message that has no partner, or not a fitting one.

A channel is (group, device, source, destination, tag); its n-th send meets its n-th receive. A
receive from any source takes whatever comes under its tag: where there are such, the n-th receive
that names a rank need not meet that rank's n-th send. It is compared as far as the record tells
whose messages they took, and in which order (``taking``); else messages are counted only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from collectrace.align.matching.comparison import Before, ChannelIssue, NearMiss, Unclear
from collectrace.align.matching.taking import Taken, in_order
from collectrace.align.reading.evidence import ChannelKey, RankLog, StreamKey
from collectrace.findings import GroupInfo
from collectrace.ops import ANY_SOURCE
from collectrace.records import Call
from collectrace.signature import channel_text

ANY: Final = ANY_SOURCE


@dataclass(slots=True)
class _Side:
    """What one rank issued on a channel."""

    log: RankLog
    key: ChannelKey
    count: int = 0

    def call(self, seq: int) -> Call | None:
        """A message of it.

        Raises:
            Unclear: it lies in a part of the log that was not read.

        """
        found = self.log.channel_call(self.key, seq)
        if found is None and not self.log.scanned:
            raise Unclear({self.log.rank})
        return found

    def meanings(self) -> dict[int, int]:
        """What was read of it: number to an id of what the message is."""
        rows = self.log.channel_rows(self.key)
        return dict(zip(rows.seq, rows.meaning, strict=True))


@dataclass(slots=True)
class _Inbox:
    """All that goes to one rank under one tag."""

    group: GroupInfo
    sends: dict[int, _Side] = field(default_factory=dict)
    """By source."""
    recvs: dict[int, _Side] = field(default_factory=dict)
    """By source, ANY included."""

    def taken(self, source: int) -> int:
        """How many messages of a rank receives from any source are known to have taken."""
        anything = self.recvs.get(ANY)
        if anything is None:
            return 0
        return anything.log.taken(anything.key._replace(source=source))

    def received(self, source: int) -> int:
        """How many messages of a rank are received, as far as that is known."""
        return (self.recvs[source].count if source in self.recvs else 0) + self.taken(source)


def compare_channels(
    groups: Mapping[str, GroupInfo], logs: Mapping[int, RankLog]
) -> tuple[list[ChannelIssue], Counter[str], list[str]]:
    """The first issue of each channel, per group how many messages met, what was not compared.

    Raises:
        Unclear: messages lie in parts of logs that were not read.

    """
    inboxes = _inboxes(groups, logs)
    issues: list[ChannelIssue] = []
    met = Counter[str]()
    needed: set[int] = set()
    for (_, _, destination, _), inbox in sorted(inboxes.items()):
        if destination in logs and not is_late(inbox.group, logs):
            try:
                found, fitting = _compare(inbox, logs)
                issues += found
                met[inbox.group.name] += fitting
            except Unclear as unclear:
                needed |= unclear.ranks
    if needed:
        raise Unclear(needed)
    notes = []
    if inboxes and not all(log.scanned for log in logs.values()):
        notes.append(
            "point-to-point messages were counted, and compared at the ends of the logs only; "
            "--full compares each"
        )
    return _with_near_misses(issues, logs, groups), met, notes


def _inboxes(
    groups: Mapping[str, GroupInfo], logs: Mapping[int, RankLog]
) -> dict[tuple[str, str, int, int], _Inbox]:
    inboxes: dict[tuple[str, str, int, int], _Inbox] = {}
    for rank, log in logs.items():
        for key, count in log.last_channel_seq.items():
            where = (key.group, key.device, key.destination, key.tag)
            inbox = inboxes.setdefault(where, _Inbox(groups[key.group]))
            sides = inbox.recvs if key.destination == rank else inbox.sends
            if key.source == rank or key.destination == rank:
                sides[key.source] = _Side(log, key, count)
    return inboxes


def is_late(group: GroupInfo, logs: Mapping[int, RankLog]) -> bool:
    """Whether the members' tracing began at different places: messages cannot be counted then."""
    stream = StreamKey(group.name, "")
    if any(
        (made := logs[rank].imported) is not None and made.lost
        for rank in group.ranks
        if rank in logs
    ):
        return True
    return len({logs[rank].first_row(stream) for rank in group.ranks if rank in logs}) > 1


def _compare(inbox: _Inbox, logs: Mapping[int, RankLog]) -> tuple[list[ChannelIssue], int]:
    """The issues of what goes to one rank under one tag, and how many messages met."""
    anything = inbox.recvs.get(ANY)
    issues, met = [], 0
    spare = 0
    """Sends that no receive names, nor is known to have taken, for those from any source."""
    answered = len(anything.log.answers.get(anything.key, ())) if anything is not None else 0
    unanswered = anything.count - answered if anything is not None else 0
    wrong = _taken_wrongly(inbox, anything.log) if anything is not None else None
    for source in sorted({*inbox.sends, *inbox.recvs} - {ANY}):
        if source not in logs:
            continue
        send, recv = inbox.sends.get(source), inbox.recvs.get(source)
        issue = wrong if wrong is not None and wrong.channel.source == source else None
        if send is not None and recv is not None and anything is None:
            issue = _mismatch(inbox.group, send, recv)
        sent, received = (side.count if side is not None else 0 for side in (send, recv))
        taken = inbox.taken(source)
        if taken > sent:
            continue  # the sender's log has lost some
        received += taken
        spare += max(0, sent - received)
        met += min(sent, received) if issue is None else issue.seq - 1
        if issue is None and (sent < received or (sent > received and not unanswered)):
            issue = _unmatched(inbox.group, send, recv, taken)
        if issue is not None:
            issues.append(issue)
    if unanswered and anything is not None and all(rank in logs for rank in inbox.group.ranks):
        issues += _from_any(inbox, anything, unanswered, spare)
        met += min(unanswered, spare)
    return issues, met


def _taken_wrongly(inbox: _Inbox, log: RankLog) -> ChannelIssue | None:
    """The first message, in the order of receiving, that does not fit the receive that took it."""
    sent = {source: side.meanings() for source, side in inbox.sends.items()}
    met, by_any = Counter[int](), Counter[int]()
    before: Taken | None = None
    fitting: set[tuple[int, int]] = set()
    for taken in in_order(log, [side.key for side in inbox.recvs.values()]):
        source, is_any = taken.source, taken.key.source == ANY
        met[source] += 1
        pair = sent.get(source, {}).get(met[source], -1), taken.meaning
        if pair[0] >= 0 and pair not in fitting:
            # Thousands of messages are of a few kinds.
            side = inbox.sends[source]
            send, recv = side.call(met[source]), log.channel_call(taken.key, taken.seq)
            if send is None or recv is None:
                return None
            if not _fit(send, recv):
                return ChannelIssue(
                    side.key, inbox.group, met[source], send, recv, _differs(send, recv),
                    before=_before(inbox, log, before, met, recv)
                    if is_any and before is not None and before.source != source
                    else None,
                    taken=by_any[source],
                )  # fmt: skip
            fitting.add(pair)
        by_any[source] += is_any
        before = taken
    return None


def _before(
    inbox: _Inbox, log: RankLog, before: Taken, met: Mapping[int, int], recv: Call
) -> Before:
    """What came before a receive from any source; ``met``: messages taken so far, by sender."""
    source = before.source
    side, seq = inbox.sends.get(source), met[source] + 1
    after = side.log.channel_call(side.key, seq) if side is not None else None
    is_meant = after is not None and not after.void and _fit(after, recv)
    return Before(source, log.channel_call(before.key, before.seq), after if is_meant else None)


def _mismatch(group: GroupInfo, send: _Side, recv: _Side) -> ChannelIssue | None:
    sent, received = send.meanings(), recv.meanings()
    examples = send.log.channel_rows(send.key).vocabulary.examples
    # Thousands of messages are of a few kinds.
    pairs = {seq: (sent[seq], received[seq]) for seq in sent.keys() & received.keys()}
    wrong = {p for p in set(pairs.values()) if not _fit(examples[p[0]], examples[p[1]])}
    first = min((seq for seq, pair in pairs.items() if pair in wrong), default=None)
    if first is None:
        return None
    a, b = send.call(first), recv.call(first)
    if a is None or b is None:
        return None
    return ChannelIssue(send.key, group, first, a, b, _differs(a, b))


def _differs(a: Call, b: Call) -> Literal["dtype", "count"]:
    return "dtype" if a.dtype != b.dtype else "count"


def _fit(a: Call, b: Call) -> bool:
    return a.void or b.void or channel_text(a) == channel_text(b)


def _unmatched(
    group: GroupInfo, send: _Side | None, recv: _Side | None, taken: int
) -> ChannelIssue:
    """The first of those left over. ``taken``: messages that receives from any source took."""
    sent, received = (side.count if side is not None else 0 for side in (send, recv))
    is_sent = sent > received + taken
    longer = send if is_sent else recv
    assert longer is not None
    seq = received + taken + 1 if is_sent else sent - taken + 1
    call = longer.call(seq)
    return ChannelIssue(
        longer.key, group, seq, send=call if is_sent else None, recv=None if is_sent else call,
        attribute="absent", taken=taken,
    )  # fmt: skip


def _from_any(inbox: _Inbox, anything: _Side, unanswered: int, spare: int) -> list[ChannelIssue]:
    """Receives from any source against the sends that nobody named, and none of them has taken."""
    if unanswered > spare:
        seq = anything.count - (unanswered - spare) + 1
        recv = anything.call(seq)
        return [ChannelIssue(anything.key, inbox.group, seq, None, recv, "absent")]
    if unanswered == spare:
        return []
    # Which send was left over is the backend's choice; the latest is as good as any.
    left = [
        (call.t, side, call)
        for source, side in inbox.sends.items()
        if side.count > inbox.received(source)
        and (call := side.log.channel_call(side.key, side.count)) is not None
    ]
    if not left:
        return []
    _, side, call = max(left, key=lambda one: one[0])
    return [ChannelIssue(side.key, inbox.group, side.count, call, None, "absent")]


def _with_near_misses(
    issues: Sequence[ChannelIssue],
    logs: Mapping[int, RankLog],
    groups: Mapping[str, GroupInfo],
) -> list[ChannelIssue]:
    """Join each receive without a send with a send without a receive that nearly fits it.

    The receive waits, so it stays, and its send is no issue of its own any more. Where either has
    been made from its line before, and met its other end, nothing was meant for the other: there
    is one too many of them.
    """
    sends = [i for i in issues if i.attribute == "absent" and i.send is not None]
    usual = {i.channel for i in issues if _is_usual(i, logs)}
    explained: set[ChannelKey] = set()
    out: list[ChannelIssue] = []
    for issue in issues:
        if issue.attribute == "absent" and issue.recv is not None:
            near = next(
                (
                    near
                    for sent in sends
                    if sent.channel not in explained
                    and not {sent.channel, issue.channel} <= usual
                    and (near := _near_miss(sent, issue.channel, groups))
                    and (near.differs != "numbering" or not {sent.channel, issue.channel} & usual)
                ),
                None,
            )
            if near is not None:
                explained.add(near.channel)
                issue = replace(issue, near=near)
        out.append(issue)
    return [
        i for i in out if i.send is None or i.attribute != "absent" or i.channel not in explained
    ]


def _is_usual(issue: ChannelIssue, logs: Mapping[int, RankLog]) -> bool:
    """Whether a message without a partner came from a line from which some with one had come."""
    channel, call = issue.channel, issue.send or issue.recv
    log = logs.get(channel.source if issue.send is not None else channel.destination)
    if log is None or call is None:
        return False
    rows = log.channel_rows(channel)
    sites = {
        rows.vocabulary.appearances[appearance].site
        for seq, appearance in zip(rows.seq, rows.appearance, strict=True)
        if seq < issue.seq
    }
    return call.site in sites


def _near_miss(
    issue: ChannelIssue, wanted: ChannelKey, groups: Mapping[str, GroupInfo]
) -> NearMiss | None:
    """What keeps a send and a receive apart, if it is one thing only."""
    sent, send = issue.channel, issue.send
    where = (sent.group, sent.device) == (wanted.group, wanted.device)
    source = wanted.source in (sent.source, ANY)
    destination = sent.destination == wanted.destination
    tag = sent.tag == wanted.tag
    if not where:
        if (sent.source, sent.destination, sent.tag) != wanted[2:]:
            return None
        differs: Literal["group", "device"] = "group" if sent.group != wanted.group else "device"
        return NearMiss(sent, send, differs, issue.group)
    if source and destination and not tag:
        return NearMiss(sent, send, "tag", issue.group)
    if not tag:
        return None
    numbered = _numbered(sent, wanted, groups)
    if source:
        return NearMiss(sent, send, "destination", issue.group, numbered)
    if destination:
        return NearMiss(sent, send, "source", issue.group, numbered)
    if numbered is None:
        return None
    return NearMiss(sent, send, "numbering", issue.group, numbered)


def _numbered(
    sent: ChannelKey, wanted: ChannelKey, groups: Mapping[str, GroupInfo]
) -> GroupInfo | None:
    """A group of sender and receiver in which the peers that they name are each other's numbers.

    One of the two may have named the other by its rank. Of groups in which a rank is its own
    number there is nothing to mix up.
    """
    ends = sent.source, wanted.destination
    for info in groups.values():
        if not set(ends) <= set(info.ranks) or ends[0] == ends[1]:
            continue
        sender, receiver = (info.ranks.index(end) for end in ends)
        if sent.destination in (receiver, ends[1]) and wanted.source in (sender, ends[0]):
            return info
    return None
