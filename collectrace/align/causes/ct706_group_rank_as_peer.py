"""Messages name their peers by ranks in a group, where global ranks are expected.

What it means
    ``dst`` and ``src`` of ``send`` and ``recv`` are global ranks, whatever the group. In the group
    of ranks 0 and 1 both numbers are the same. In that of ranks 2 and 3 they are not.

Example
    ::

        dist.send(x, dst=stage + 1, group=pipeline)   # stage counts in the group

Not to be confused with
    CT705, if one end names another peer, and that is no rank in a group.

How to fix it
    Pass ``dst=dist.get_global_rank(group, n)``, or ``group_dst=n``.
"""

from __future__ import annotations

from collectrace import words as words_
from collectrace.align.causes import phrases
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.matching.comparison import ChannelIssue
from collectrace.findings import GroupInfo


def find(situation: Situation) -> ChannelIssue | None:
    """Return the message whose ends name each other by their ranks in a group."""
    source = situation.candidate.source
    if not isinstance(source, ChannelIssue) or source.near is None:
        return None
    return source if source.near.numbered is not None and _named(source) else None


def _named(issue: ChannelIssue) -> list[tuple[int, str, int, int]]:
    """Return who named its peer by a number: the rank, the parameter, the number, the peer."""
    assert issue.near is not None
    sender, receiver = issue.near.channel.source, issue.channel.destination
    ends = [
        (sender, "dst", issue.near.channel.destination, receiver),
        (receiver, "src", issue.channel.source, sender),
    ]
    return [end for end in ends if end[2] != end[3]]


def words(situation: Situation, found: ChannelIssue) -> Words:
    """Return the words for numbers in a group that are passed as global ranks."""
    assert found.near is not None
    info = found.near.numbered
    assert info is not None
    named = _named(found)
    calls = {"dst": found.near.send, "src": found.recv}
    told = [
        f"rank {rank} passed {way}={number}{phrases.line(call.site if call else None)}, and "
        f"{_number(number, info)} is rank {peer}"
        for rank, way, number, peer in named
        for call in (calls[way],)
    ]
    who = situation.suspects or tuple(sorted(rank for rank, *_ in named))
    passed = words_.listed([f"{way}=dist.get_global_rank(group, {n})" for _, way, n, _ in named])
    numbers = words_.listed([f"group_{way}={n}" for _, way, n, _ in named])
    fixes = (
        f"dst and src are global ranks, whatever the group: pass {passed}.",
        f"Or pass the group, and the rank in it: group=group, {numbers}.",
    )
    if not info.name:
        fixes = (
            (
                "dst and src are global ranks: look the peer up by its number in the list of "
                f"{words_.ranks(info.ranks)} (peers[number])."
            ),
            "Or create a group of these ranks, and pass group_dst and group_src.",
        )
    what = "ranks in a group" if info.name else f"numbers among {words_.ranks(info.ranks)}"
    return Words(
        f"{words_.ranks(who)} passed {what} as global ranks",
        (f"{words_.upper('; '.join(told))}.", *_harmless(situation, info)),
        fixes,
    )


def _number(number: int, info: GroupInfo) -> str:
    if info.name:
        return f"group rank {number} in {words_.group(info)} ({words_.ranks(info.ranks)})"
    return f"number {number} of {words_.ranks(info.ranks)}"


def _harmless(situation: Situation, info: GroupInfo) -> list[str]:
    """Return in which group of the dimension the numbers are the ranks: a sentence, or nothing."""
    groups = situation.case.comparison.groups
    sisters = situation.case.dimensions.sisters(info.name, groups) if info.name else ()
    same = (groups[name] for name in sisters)
    return [
        f"In {words_.group(one)} ({words_.ranks(one.ranks)}) both numbers are the same."
        for one in same
        if one.ranks == tuple(range(len(one.ranks)))
    ][:1]
