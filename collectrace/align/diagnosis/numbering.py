"""Numbers that ranks have in a group, named where a message asks for global ranks: in words."""

from __future__ import annotations

from collectrace import words
from collectrace.align.diagnosis.callers import at_its_line
from collectrace.align.judging.case import Case
from collectrace.align.matching.comparison import ChannelIssue
from collectrace.findings import GroupInfo


def sentence(case: Case, issue: ChannelIssue) -> str:
    """That a number in a group stands where a rank is meant: sentences after a space."""
    near, named = issue.near, _named(issue)
    if near is None or near.numbered is None or not named:
        return ""
    calls = {"dst": near.send, "src": issue.recv}
    told = [
        f"rank {rank} passed {way}={number}"
        f"{at_its_line(case, rank, call) if call is not None else ''}, and group "
        f"rank {number} in {_with_ranks(near.numbered)} is rank {peer}"
        for rank, way, number, peer in named
        for call in (calls[way],)
    ]
    text = (
        f" {words.upper('; '.join(told))}: most likely a rank in the group was passed where a "
        "global rank is asked for."
    )
    sisters = case.dimensions.sisters(near.numbered.name, case.comparison.groups)
    for same in (case.comparison.groups[name] for name in sisters):
        if same.ranks == tuple(range(len(same.ranks))):
            return f"{text} In {_with_ranks(same)} the two are the same, so there it does no harm."
    return text


def fix(issue: ChannelIssue) -> str:
    """What to pass instead; empty where nobody named its peer so."""
    named = _named(issue)
    if not named:
        return ""
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


def _with_ranks(info: GroupInfo) -> str:
    """``group tp (ranks 2-3)``."""
    name, members = words.group(info), words.ranks(info.ranks)
    return name if members in name else f"{name} ({members})"
