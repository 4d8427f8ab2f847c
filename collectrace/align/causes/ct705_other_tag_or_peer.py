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
    CT702, if both ranks wait for each other.

How to fix it
    Pass the same tag, peer and group at both ends. For the n-th rank of a group, pass
    ``dst=dist.get_global_rank(group, n)``, or ``group_dst=n``.
"""

from __future__ import annotations

from typing import Final

from collectrace import words as words_
from collectrace.align.causes import deciders, phrases
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.matching.comparison import ChannelIssue
from collectrace.findings import GroupInfo

_MUTUAL: Final = "Name each other as the peer, in the send and in its recv"
_DIFFERS: Final = {
    "group": (
        "Pass the same group to the send and to its recv",
        "sent in {groups[0]}, received in {groups[1]}",
    ),
    "device": (
        "Let the tensors of both ends lie on devices of one type",
        "sent from device {sent.device!r}, received on {wanted.device!r}",
    ),
    "tag": (
        "Pass the same tag to the send and to its recv",
        "sent with tag {sent.tag}, awaited with tag {wanted.tag}",
    ),
    "destination": (
        _MUTUAL, "sent to rank {sent.destination}, awaited by rank {wanted.destination}",
    ),
    "source": (_MUTUAL, "sent by rank {sent.source}, awaited from rank {wanted.source}"),
}  # fmt: skip
"""By the property that differs, what to do, and how it differs."""


def find(situation: Situation) -> ChannelIssue | None:
    """Return the message that lacks a send, if another send differs in only one property."""
    source = situation.candidate.source
    if not isinstance(source, ChannelIssue) or source.near is None:
        return None
    is_known = source.near.differs in _DIFFERS or (source.near.numbered and _named(source))
    return source if is_known else None


def words(situation: Situation, found: ChannelIssue) -> Words:
    """Return the words for a message that nearly matched."""
    assert found.near is not None
    if found.near.numbered is not None:
        return _of_numbers(situation, found, found.near.numbered)
    sent, wanted, send = found.near.channel, found.channel, found.near.send
    advice, differing = _DIFFERS[found.near.differs]
    groups = words_.group(found.near.group), words_.group(found.group)
    told = differing.format(sent=sent, wanted=wanted, groups=groups)
    made = f"send{phrases.line(send.site)}" if send is not None else "message"
    recv = f"recv{phrases.line(found.recv.site)}" if found.recv is not None else "recv"
    who = situation.suspects or tuple(sorted({sent.source, wanted.destination}))
    subject = words_.ranks(who)
    is_tag = found.near.differs == "tag"
    if situation.suspects:
        headline = f"{subject} made a message that no rank awaits so: {told}"
    else:
        headline = f"{subject} disagree on a message: {told}"
    fix = f"{advice}: {told}."
    if situation.suspects == (sent.source,) and is_tag:
        fix = (
            f"Let {subject} pass tag {wanted.tag} at its {made}. If the tag counts steps, begin at "
            "one number on all ranks: broadcast it from one rank."
        )
    fixes: tuple[str, ...] = (fix,)
    if is_tag:
        fixes = (fix, "If both tags are in use: make the sends and their recvs in the same order.")
    n = found.seq - 1
    before = f"{words_.counted(n, 'message')} before it matched." if n else ""
    alone = f"The other ranks pass tag {wanted.tag}; {subject} alone passes {sent.tag}."
    return Words.of(
        headline,
        (
            f"Rank {wanted.destination} waits in its {recv}. Rank {sent.source} made the {made}, "
            "which agrees with it in all else.",
            alone if situation.suspects and is_tag else before,
            _origin(situation, "tag" if is_tag else "peer"),
        ),
        fixes,
    )


def _origin(situation: Situation, what: str) -> str:
    """Return a sentence on the line from which the differing argument comes, or nothing."""
    ranked = deciders.ranked(situation)
    found = [d for d in ranked if deciders.form(d) == "value" and not deciders.calls(d)][:1]
    if not found:
        return ""
    origin, ends = deciders.origin(found[0]), {call.site for _, call in situation.called}
    is_call = found[0].site in ends
    said = deciders.quoted_origin(found[0]) if is_call else deciders.quoted(found[0])
    if origin in ("unknown", "agreed", "data", "length") or not said:
        return ""
    return f"The {what} comes from {said}, which {deciders.ORIGINS[origin]}."


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
