"""A send and a receive match except for one property: the tag, the peer, or the group.

What it means
    A rank waits for a message that nobody sends. Another rank sends one that nobody receives. They
    differ in only one property. A common mistake: ``dst`` and ``src`` are global ranks in every
    group, but a group rank was passed.

Example
    ::

        dist.send(x, dst=1, tag=7)    # rank 0
        dist.recv(x, src=0, tag=8)    # rank 1

Not to be confused with
    CT702, if both ranks wait for each other, and no rank left the peer that it always had.

How to fix it
    Pass the same tag, peer and group at both ends. For the n-th rank of a group, pass
    ``dst=dist.get_global_rank(group, n)``, or ``group_dst=n``.
"""

from __future__ import annotations

from typing import Final

from collectrace import words as words_
from collectrace.align.causes import phrases
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.matching.comparison import ChannelIssue
from collectrace.findings import GroupInfo

_MUTUAL: Final = "Name each other as the peer, in the send and in its recv"
_DIFFERS: Final = {
    "group": (
        "Pass the same group to the send and to its recv", "in {groups[0]}", "in {groups[1]}",
    ),
    "device": (
        "Let the tensors of both ends lie on devices of one type",
        "from device {sent.device!r}", "on device {wanted.device!r}",
    ),
    "tag": (
        "Pass the same tag to the send and to its recv",
        "with tag {sent.tag}", "with tag {wanted.tag}",
    ),
    "destination": (_MUTUAL, "to rank {sent.destination}", "by rank {wanted.destination}"),
    "source": (_MUTUAL, "by rank {sent.source}", "from rank {wanted.source}"),
}  # fmt: skip
"""By the property that differs, what to do, and what the send and the recv named."""


def find(situation: Situation) -> ChannelIssue | None:
    """Return the message that lacks a send, if another send differs in only one property.

    In a cycle of waits it must be known which end left its peer; else that send may be too early.
    """
    source = _left(situation) or situation.candidate.source
    if not isinstance(source, ChannelIssue) or source.near is None:
        return None
    is_known = source.near.differs in _DIFFERS or (source.near.numbered and _named(source))
    return source if is_known else None


def _left(situation: Situation) -> ChannelIssue | None:
    """Return the message for which a rank named another peer than ever before; None: none."""
    rows = situation.candidate.evidence
    found = (row.shown_by for row in rows if row.fact == "left_its_peer")
    return next((one for one in found if isinstance(one, ChannelIssue)), None)


def words(situation: Situation, found: ChannelIssue) -> Words:
    """Return the words for a message that nearly matched."""
    assert found.near is not None
    if found.near.numbered is not None:
        return _of_numbers(situation, found, found.near.numbered)
    sent, wanted, differs = found.near.channel, found.channel, found.near.differs
    send_line = phrases.line(found.near.send.site if found.near.send is not None else None)
    recv_line = phrases.line(found.recv.site if found.recv is not None else None)
    advice, *ends = _DIFFERS[differs]
    groups = words_.group(found.near.group), words_.group(found.group)
    gave, took = (one.format(sent=sent, wanted=wanted, groups=groups) for one in ends)
    who = situation.suspects or tuple(sorted({sent.source, wanted.destination}))
    subject = words_.ranks(who)
    told = f"sent {gave}, awaited {took}"
    headline, fix = f"{subject} disagree on a message: {told}", f"{advice}: {told}."
    if situation.suspects == (sent.source,):
        awaits = f"rank {wanted.destination} awaits"
        awaits += "" if differs == "destination" else f" {took}"
        headline = f"{subject} sent {gave}{send_line} what {awaits}"
        right = {"tag": f"tag {wanted.tag}", "destination": f"dst={wanted.destination}"}
        if differs in right:
            fix = f"Let {subject} pass {right[differs]} at its send{send_line}."
    elif situation.suspects == (wanted.destination,):
        headline = f"{subject} awaits {took}{recv_line} what rank {sent.source} sent"
        headline += "" if differs == "source" else f" {gave}"
        right = {"tag": f"tag {sent.tag}", "source": f"src={sent.source}"}
        if differs in right:
            fix = f"Let {subject} pass {right[differs]} at its recv{recv_line}."
    fixes: tuple[str, ...] = (fix,)
    if differs == "tag":
        counts = " If the tag counts steps, let all ranks begin at one number: broadcast it."
        fixes = (
            fix + (counts if situation.suspects else ""),
            "If both tags are in use: make the sends and their recvs in the same order.",
        )
    return Words.of(
        headline,
        (
            f"Rank {wanted.destination} waits in its recv{recv_line}. Rank {sent.source} made the "
            f"send{send_line}, which agrees with it in all else.",
            _usual(situation, found),
        ),
        fixes,
    )


def _usual(situation: Situation, found: ChannelIssue) -> str:
    """Return a sentence on earlier messages, or on the other ranks' tag; empty if none is known."""
    assert found.near is not None
    sent, wanted = found.near.channel, found.channel
    if _left(situation) is not None:
        is_send = found.near.differs == "destination"
        way = "sent to" if is_send else "received from"
        peer = wanted.destination if is_send else sent.source
        return (
            f"{words_.upper(words_.ranks(situation.suspects))} had always {way} rank {peer} there."
        )
    if situation.suspects and found.near.differs == "tag":
        alone = words_.ranks(situation.suspects)
        return f"The other ranks pass tag {wanted.tag}; {alone} alone passes {sent.tag}."
    n = found.seq - 1
    return f"{words_.counted(n, 'message')} before it matched." if n else ""


def _named(issue: ChannelIssue) -> list[tuple[int, str, int, int]]:
    """Return ranks that named a peer by a number: rank, parameter, number, peer."""
    assert issue.near is not None
    sender, receiver = issue.near.channel.source, issue.channel.destination
    ends = [
        (sender, "dst", issue.near.channel.destination, receiver),
        (receiver, "src", issue.channel.source, sender),
    ]
    return [end for end in ends if end[2] != end[3]]


def _of_numbers(situation: Situation, found: ChannelIssue, info: GroupInfo) -> Words:
    """Return the words for group ranks that were passed as global ranks."""
    assert found.near is not None
    named, calls = _named(found), {"dst": found.near.send, "src": found.recv}
    members = f"{words_.group(info)} ({words_.ranks(info.ranks)})"
    what = "group rank" if info.name else "number"
    told = [
        f"rank {rank} passed {way}={number}{phrases.line(call.site if call else None)}, and "
        f"{what} {number} {'in' if info.name else 'of'} "
        f"{members if info.name else words_.ranks(info.ranks)} is rank {peer}"
        for rank, way, number, peer in named
        for call in (calls[way],)
    ]
    who = situation.suspects or tuple(sorted(rank for rank, *_ in named))
    passed = words_.listed([f"{way}=dist.get_global_rank(group, {n})" for _, way, n, _ in named])
    numbers = words_.listed([f"group_{way}={n}" for _, way, n, _ in named])
    made = "" if info.name else f", with a group of {words_.ranks(info.ranks)}"
    return Words(
        f"{words_.ranks(who)} passed {what}s as global ranks",
        (f"{words_.upper('; '.join(told))}.",),
        (
            f"dst and src are global ranks, whatever the group: pass {passed}{made}.",
            f"Or pass the group, and the rank in it: group=group, {numbers}.",
        ),
    )
