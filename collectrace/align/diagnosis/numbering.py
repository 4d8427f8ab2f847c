"""Numbers that ranks have in a group, named where a message asks for global ranks: in words."""

from __future__ import annotations

from collections.abc import Sequence

from collectrace import words
from collectrace.align.diagnosis.callers import at_its_line
from collectrace.align.judging.case import Case
from collectrace.align.matching.comparison import ChannelIssue, NearMiss
from collectrace.findings import GroupInfo


def sentence(case: Case, issue: ChannelIssue, suspects: Sequence[int]) -> str:
    """That a number in a group stands where a rank is meant: sentences after a space.

    ``suspects``: all who named their peers so.
    """
    near, named = issue.near, _named(issue)
    if near is None or near.numbered is None or not named:
        return ""
    calls = {"dst": near.send, "src": issue.recv}
    told = [
        f"rank {rank} passed {way}={number}"
        f"{at_its_line(case, rank, call) if call is not None else ''}, and "
        f"{_of_number(number, near.numbered)} is rank {peer}"
        for rank, way, number, peer in named
        for call in (calls[way],)
    ]
    passed = "a rank in the group" if near.numbered.name else "such a number"
    text = (
        f" {words.upper('; '.join(told))}: most likely {passed} was passed where a global "
        "rank is asked for."
    )
    more = sorted({*suspects} - {rank for rank, *_ in named})
    text += f" So did {words.ranks(more)}, from the same lines." if more else ""
    if not near.numbered.name:
        return text
    sisters = case.dimensions.sisters(near.numbered.name, case.comparison.groups)
    for same in (case.comparison.groups[name] for name in sisters):
        if same.ranks == tuple(range(len(same.ranks))):
            return f"{text} In {_with_ranks(same)} the two are the same, so there it does no harm."
    return text


def what(near: NearMiss) -> str:
    """By what the two ends of a message name each other."""
    if near.numbered is None or near.numbered.name:
        return "their ranks in a group"
    return f"their numbers among {words.ranks(near.numbered.ranks)}"


def fix(issue: ChannelIssue) -> str:
    """What to pass instead; empty where nobody named its peer so."""
    named = _named(issue)
    if not named:
        return ""
    if issue.near is not None and issue.near.numbered and not issue.near.numbered.name:
        listed = words.ranks(issue.near.numbered.ranks)
        return (
            "dst and src of send and recv are global ranks: look the peer up by its number in the "
            f"list of these, {listed} (peers[number])."
        )
    passed = words.listed(
        [f"{way}=dist.get_global_rank(group, {number})" for _, way, number, _ in named]
    )
    numbers = words.listed([f"group_{way}={number}" for _, way, number, _ in named])
    return (
        f"dst and src of send and recv are global ranks, whatever the group: pass {passed}.\n"
        f"Or pass the group, and the rank in it: group=group, {numbers}."
    )


def _named(issue: ChannelIssue) -> list[tuple[int, str, int, int]]:
    """Who named its peer by its number in a group: the rank, the parameter, the number, the peer.

    Nobody, where the numbers do not tell that.
    """
    near = issue.near
    if near is None or near.numbered is None:
        return []
    sender, receiver = near.channel.source, issue.channel.destination
    ends = [
        (sender, "dst", near.channel.destination, receiver),
        (receiver, "src", issue.channel.source, sender),
    ]
    return [end for end in ends if end[2] != end[3]]


def _of_number(number: int, info: GroupInfo) -> str:
    """``group rank 1 in group tp (ranks 2-3)``; of ranks that made no group ``number 1 of``."""
    if info.name:
        return f"group rank {number} in {_with_ranks(info)}"
    return f"number {number} of {words.ranks(info.ranks)}, counted from 0,"


def _with_ranks(info: GroupInfo) -> str:
    """``group tp (ranks 2-3)``."""
    name, members = words.group(info), words.ranks(info.ranks)
    return name if members in name else f"{name} ({members})"
