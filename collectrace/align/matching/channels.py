"""Find per point-to-point channel the first message without a partner, or with a wrong one.

A channel is (group, device, source, destination, tag); its n-th send meets its n-th receive. A
receive from any source takes whatever arrives under its tag. Then the n-th receive that names a
rank need not meet that rank's n-th send. It is compared as far as the record shows which messages
were taken, and in which order (``taking``). Otherwise messages are only counted.
"""

from __future__ import annotations

import heapq
import sys
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Literal

from collectrace.align.matching.comparison import ChannelIssue, NearMiss, Unclear, Unproven
from collectrace.align.matching.inbox import Inbox, Side, difference, fits
from collectrace.align.matching.taking import taken_wrongly
from collectrace.align.reading.evidence import ChannelKey, RankLog, StreamKey
from collectrace.findings import GroupInfo
from collectrace.ops import ANY_SOURCE


def compare_channels(
    groups: Mapping[str, GroupInfo], logs: Mapping[int, RankLog], cut: Collection[int] = ()
) -> tuple[list[ChannelIssue], Counter[str], list[Unproven]]:
    """Return the first issue of each channel, the messages that met, and what was not compared.

    Messages are counted by group. The logs of the ranks ``cut`` have lost their end.

    Raises:
        Unclear: messages are in parts of logs that were not read.

    """
    inboxes = _inboxes(groups, logs)
    issues: list[ChannelIssue] = []
    met = Counter[str]()
    lost: list[Unproven] = []
    needed: set[int] = set()
    named = {inbox.group.name: inbox.group for inbox in inboxes.values()}
    late = {name for name, group in named.items() if is_late(group, logs)}
    for (_, _, destination, _), inbox in sorted(inboxes.items()):
        if destination in logs and inbox.group.name not in late:
            try:
                found, fitting = _compare(inbox, logs)
                missing = _missing(inbox, logs)
                if missing or not set(cut).isdisjoint(_ends(inbox)):
                    # The other end of a message without one may be in lost lines.
                    found = [issue for issue in found if issue.attribute != "absent"]
                    lost += missing
                issues += found
                met[inbox.group.name] += fitting
            except Unclear as unclear:
                needed |= unclear.ranks
    if needed:
        raise Unclear(needed)
    lost += [
        Unproven(rank, "unread", key)
        for rank, log in logs.items()
        if not log.scanned
        for key in log.last_channel_seq
        if log.is_unread(key)
    ]
    return _with_near_misses(issues, logs, groups), met, lost


def _missing(inbox: Inbox, logs: Mapping[int, RankLog]) -> list[Unproven]:
    """Return the lost lines of messages that go to one rank under one tag."""
    found = []
    for key in {side.key for side in (*inbox.sends.values(), *inbox.recvs.values())}:
        for rank in {key.source, key.destination} & logs.keys():
            log, count = logs[rank], logs[rank].last_channel_seq.get(key, 0)
            found += [Unproven(rank, "lines", key, *those) for those in log.lost(key)]
            found += [Unproven(rank, "end", key, count + 1)] if log.is_open(key) else []
    return sorted(found, key=lambda one: (one.rank, one.key or (), one.first))


def _ends(inbox: Inbox) -> set[int]:
    """Return the ranks that use an inbox; all of the group if a receive is from any source."""
    sides = (*inbox.sends.values(), *inbox.recvs.values())
    named = {rank for side in sides for rank in (side.key.source, side.key.destination)}
    return named | set(inbox.group.ranks) if ANY_SOURCE in named else named


def _inboxes(
    groups: Mapping[str, GroupInfo], logs: Mapping[int, RankLog]
) -> dict[tuple[str, str, int, int], Inbox]:
    inboxes: dict[tuple[str, str, int, int], Inbox] = {}
    for rank, log in logs.items():
        for key, count in log.last_channel_seq.items():
            where = (key.group, key.device, key.destination, key.tag)
            inbox = inboxes.setdefault(where, Inbox(groups[key.group]))
            sides = inbox.recvs if key.destination == rank else inbox.sends
            if key.source == rank or key.destination == rank:
                sides[key.source] = Side(log, key, count)
    return inboxes


def is_late(group: GroupInfo, logs: Mapping[int, RankLog]) -> bool:
    """Return whether tracing began at different calls: then messages are not counted."""
    stream = StreamKey(group.name, "")
    if any(
        (made := logs[rank].imported) is not None and made.lost
        for rank in group.ranks
        if rank in logs
    ):
        return True
    return len({logs[rank].first_row(stream) for rank in group.ranks if rank in logs}) > 1


def _compare(inbox: Inbox, logs: Mapping[int, RankLog]) -> tuple[list[ChannelIssue], int]:
    """Return the issues of messages to one rank under one tag, and how many messages met."""
    anything = inbox.recvs.get(ANY_SOURCE)
    issues, met = [], 0
    spare = 0
    """Sends that no receive names or is known to have taken; receives from any source may get
    them."""
    answered = len(anything.log.answers.get(anything.key, ())) if anything is not None else 0
    unanswered = anything.count - answered if anything is not None else 0
    wrong = taken_wrongly(inbox, anything.log) if anything is not None else None
    for source in sorted({*inbox.sends, *inbox.recvs} - {ANY_SOURCE}):
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


def _mismatch(group: GroupInfo, send: Side, recv: Side) -> ChannelIssue | None:
    sent, received = send.meanings(), recv.meanings()
    examples = send.log.vocabulary.examples
    # Thousands of messages have only a few forms.
    pairs = {seq: (sent[seq], received[seq]) for seq in sent.keys() & received.keys()}
    wrong = {p for p in set(pairs.values()) if not fits(examples[p[0]], examples[p[1]])}
    first = min((seq for seq, pair in pairs.items() if pair in wrong), default=None)
    if first is None:
        return None
    a, b = send.call(first), recv.call(first)
    if a is None or b is None:
        return None
    return ChannelIssue(send.key, group, first, a, b, difference(a, b))


def _unmatched(group: GroupInfo, send: Side | None, recv: Side | None, taken: int) -> ChannelIssue:
    """Return the issue of the first message without a partner.

    ``taken``: messages that receives from any source took.
    """
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


def _from_any(inbox: Inbox, anything: Side, unanswered: int, spare: int) -> list[ChannelIssue]:
    """Compare receives from any source with the sends that no known receive has taken."""
    if unanswered > spare:
        seq = anything.count - (unanswered - spare) + 1
        recv = anything.call(seq)
        return [ChannelIssue(anything.key, inbox.group, seq, None, recv, "absent")]
    if unanswered == spare:
        return []
    # The backend chooses which send is left over; the latest is as good as any.
    left = [
        (call.t, side, call)
        for source, side in inbox.sends.items()
        if side.count > inbox.received(source)
        and (call := side.log.call(side.key, side.count)) is not None
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

    The receive waits, so its issue stays, and the send's issue is removed. The two are not joined
    if messages from both lines met before: then there is one message too many. If the peers are
    numbers, one such line is enough. Lines that compute a tag meet with several, and do not count.
    """
    alone = [i for i in issues if i.attribute == "absent" and i.send is not None]
    if not alone:
        return list(issues)
    sends = _Sends(alone)
    of_usual_lines = [i for i in issues if _is_usual(i, logs)]
    usual = {i.channel for i in of_usual_lines}
    with_several_tags = _with_several_tags(of_usual_lines, logs)
    unmade = _counted_from_0([i for i in issues if i.attribute == "absent"], groups)
    groups = groups if unmade is None else {**groups, unmade.name: unmade}
    numbers = _numbers(groups)
    explained: set[ChannelKey] = set()
    out: list[ChannelIssue] = []

    def is_one_message(near: NearMiss, issue: ChannelIssue) -> bool:
        both = {near.channel, issue.channel}
        if near.send is not None and issue.recv is not None and not fits(near.send, issue.recv):
            return False
        if near.differs == "numbering":
            return not both & usual and _are_numbers(near, issue, logs)
        return not both <= usual or (near.differs == "tag" and both <= with_several_tags)

    for issue in issues:
        if issue.attribute == "absent" and issue.recv is not None:
            near = next(
                (
                    near
                    for sent in sends.like(issue.channel)
                    if (near := _near_miss(sent, issue.channel, groups, numbers))
                    and is_one_message(near, issue)
                ),
                None,
            )
            if near is not None:
                explained.add(near.channel)
                sends.take(near.channel)
                issue = replace(issue, near=near)
        out.append(issue)
    return [
        i for i in out if i.send is None or i.attribute != "absent" or i.channel not in explained
    ]


class _Sends:
    """Sends without a receive, indexed by the fields that a near miss has in common."""

    def __init__(self, issues: Iterable[ChannelIssue]) -> None:
        self._alike: dict[Hashable, dict[ChannelKey, tuple[int, ChannelIssue]]] = {}
        for n, issue in enumerate(issues):
            for key in _of_send(issue.channel):
                self._alike.setdefault(key, {})[issue.channel] = n, issue

    def like(self, wanted: ChannelKey) -> Iterator[ChannelIssue]:
        """Yield the sends that may nearly fit a receive, in their order."""
        alike = (self._alike.get(key, {}).values() for key in _likeness(wanted))
        for _, issue in heapq.merge(*alike, key=itemgetter(0)):
            yield issue

    def take(self, channel: ChannelKey) -> None:
        """Remove a send that has found its receive."""
        for key in _of_send(channel):
            self._alike[key].pop(channel, None)


def _of_send(channel: ChannelKey) -> set[Hashable]:
    """Return the index keys of a send, for a receive that names its source or takes any."""
    return {*_likeness(channel), *_likeness(channel._replace(source=ANY_SOURCE))}


def _likeness(channel: ChannelKey) -> Iterator[Hashable]:
    """Yield all but group and device of a channel, all but its ends, and all but its tag."""
    group, device, source, destination, tag = channel
    yield source, destination, tag
    yield group, device, tag
    yield group, device, source, destination


def _is_usual(issue: ChannelIssue, logs: Mapping[int, RankLog]) -> bool:
    """Return whether earlier messages from the same line had a partner."""
    channel, call = issue.channel, issue.send or issue.recv
    log = logs.get(_maker(issue))
    if log is None or call is None:
        return False
    return call.site in _sites(log, channel, issue.seq)


def _with_several_tags(
    usual: Collection[ChannelIssue], logs: Mapping[int, RankLog]
) -> set[ChannelKey]:
    """Return the channels of issues from lines that have made messages with several tags."""
    tags: Counter[tuple[int, ChannelKey, str | None]] = Counter()
    for rank in {*map(_maker, usual)}:
        for key in logs[rank].last_channel_seq:
            tags.update((rank, key._replace(tag=0), site) for site in _sites(logs[rank], key))
    return {
        issue.channel
        for issue in usual
        if (call := issue.send or issue.recv) is not None
        and tags[_maker(issue), issue.channel._replace(tag=0), call.site] > 1
    }


def _maker(issue: ChannelIssue) -> int:
    """Return the rank of the end that was made."""
    return issue.channel.source if issue.send is not None else issue.channel.destination


def _are_numbers(near: NearMiss, issue: ChannelIssue, logs: Mapping[int, RankLog]) -> bool:
    """Return whether the ends of a message use numbers in a group instead of global ranks.

    The evidence: no message between the named pairs has met, and the named ranks exchange messages
    from the same lines with others.
    """
    sent, wanted = near.channel, issue.channel
    pairs = {(sent.source, sent.destination), (wanted.source, wanted.destination)}
    for log in (logs[rank] for pair in pairs for rank in pair if rank in logs):
        for key, count in log.last_channel_seq.items():
            other = logs.get(key.source + key.destination - log.rank)
            is_met = other is not None and bool(min(count, other.last_channel_seq.get(key, 0)))
            if is_met and (key.source, key.destination) in pairs:
                return False
    sites = {call.site for call in (near.send, issue.recv) if call is not None}
    named = {sent.destination, wanted.source}
    return any(
        sites & _sites(logs[rank], key)
        for rank in named & logs.keys()
        for key in logs[rank].last_channel_seq
        if not {key.source, key.destination} & {sent.source, wanted.destination}
    )


def _sites(log: RankLog, key: ChannelKey, before: int = sys.maxsize) -> set[str | None]:
    rows, _ = log.rows(key)
    made = {n for seq, n in zip(rows.seq, rows.appearance, strict=True) if seq < before}
    return {rows.vocabulary.appearances[n].site for n in made}


def _counted_from_0(
    absent: Sequence[ChannelIssue], groups: Mapping[str, GroupInfo]
) -> GroupInfo | None:
    """Return ranks that name each other by their numbers, as a group without a name.

    They made no such group. None unless these numbers explain the intended partner of every message
    of theirs without one.
    """
    sent = {i.channel for i in absent if i.send is not None}
    asked = {i.channel for i in absent if i.recv is not None}
    ranks = tuple(sorted({key.source for key in sent}))
    known = any(info.ranks == ranks for info in groups.values())
    if known or len(ranks) < 2 or ranks[0] == 0 or len({key.group for key in (*sent, *asked)}) > 1:
        return None
    if any(key.destination >= len(ranks) for key in sent):
        return None
    meant = {
        key._replace(source=ranks.index(key.source), destination=ranks[key.destination])
        for key in sent
    }
    if meant != asked or len(meant) < len(sent):
        return None
    return replace(absent[0].group, name="", description="", ranks=ranks)


_Numbers = Mapping[int, Mapping[str, int]]
"""Per rank, its number in each of its groups, by the group's name."""


def _numbers(groups: Mapping[str, GroupInfo]) -> _Numbers:
    found: dict[int, dict[str, int]] = {}
    for name, info in groups.items():
        for number, rank in enumerate(info.ranks):
            found.setdefault(rank, {}).setdefault(name, number)
    return found


def _near_miss(
    issue: ChannelIssue,
    wanted: ChannelKey,
    groups: Mapping[str, GroupInfo],
    numbers: _Numbers,
) -> NearMiss | None:
    """Return what keeps a send and a receive apart, if only one thing does."""
    sent, send = issue.channel, issue.send
    where = (sent.group, sent.device) == (wanted.group, wanted.device)
    source = wanted.source in (sent.source, ANY_SOURCE)
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
    name = _numbered(sent, wanted, numbers)
    numbered = groups[name] if name is not None else None
    if source:
        return NearMiss(sent, send, "destination", issue.group, numbered)
    if destination:
        return NearMiss(sent, send, "source", issue.group, numbered)
    if numbered is None:
        return None
    return NearMiss(sent, send, "numbering", issue.group, numbered)


def _numbered(sent: ChannelKey, wanted: ChannelKey, numbers: _Numbers) -> str | None:
    """Return a group in which sender and receiver name their peers by number, not by rank.

    One of the two may have named the other by its rank. A group in which ranks equal their numbers
    cannot be confused.
    """
    one, two = sent.source, wanted.destination
    theirs = numbers.get(two, {}) if one != two else {}
    for name, sender in numbers.get(one, {}).items():
        receiver = theirs.get(name)
        if receiver is None or sent.destination not in (receiver, two):
            continue
        if wanted.source in (sender, one):
            return name
    return None
