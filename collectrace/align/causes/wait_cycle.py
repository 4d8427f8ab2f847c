"""Describe a wait cycle: which ranks wait in what, and for which ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from collectrace import words
from collectrace.align.causes import phrases
from collectrace.align.causes.situation import Situation
from collectrace.align.judging.case import Case
from collectrace.align.ranks.standing import HOST, Waiting
from collectrace.align.ranks.waitgraph import Edge
from collectrace.records import Call, Group

MOST: Final = 4
"""Waits or members that a sentence lists."""


def waits(situation: Situation) -> str:
    """Return one sentence on who waits in what for whom; empty if there is no cycle."""
    cycle = situation.candidate.cycle
    told = [_step(situation, edge) for edge in cycle[:MOST]]
    if len(cycle) > MOST:
        told.append(f"and so on for {words.counted(len(cycle) - MOST, 'more rank')}")
    return f"They wait in a cycle: {'; '.join(told)}." if told else ""


def calls(situation: Situation) -> dict[int, Call]:
    """Return the call in which each rank of a cycle waits, at its most informative line."""
    return {rank: call for side, call in situation.called for rank in side.ranks}


def describe_wait(situation: Situation, edge: Edge) -> str:
    """Return what a rank waits in: ``all_reduce of group tp (a.py:9)``, ``new_group([0, 1])``."""
    asked = situation.case.asked(edge.waiting)
    if asked is not None:
        return creation(asked)
    call = calls(situation).get(edge.waiting.rank)
    return with_group(situation.case, call) if call is not None else edge.waiting.op or "a call"


def smaller_group(situation: Situation, edge: Edge) -> tuple[str, ...]:
    """Return the fix if the ranks in a collective of a cycle are all members of a smaller group.

    Empty if it is none, or if the rank made the call from that line before.
    """
    case, rank = situation.case, edge.waiting.rank
    stream, seq = edge.waiting.stream, edge.waiting.seq
    call = case.call(rank, stream, seq) if stream is not None and seq is not None else None
    if stream is None or call is None:
        return ()
    before = case.before(rank, stream, call.seq)
    if any(one is not None and one.site == call.site for one in before):
        return ()
    members = case.comparison.streams.get(stream, ())
    came = {one for one in members if case.call(one, stream, call.seq) is not None}
    for info in case.comparison.groups.values():
        if info.name != stream.group and {*info.ranks} == came and len(came) > 1:
            who, which = words.ranks(sorted(came)), words.group(info)
            return (
                f"If {phrases.call(call)} is meant for {who} alone, pass it {which}, whose "
                "members they are.",
            )
    return ()


def with_group(case: Case, call: Call, site: str | None = None) -> str:
    """Return a call with its group, ``all_reduce of group tp (a.py:9)``, unless it is the default.

    The group of a message is not named.
    """
    info = case.comparison.groups.get(call.group)
    group = words.group(info) if info is not None else words.DEFAULT_GROUP
    if call.peer is not None or group == words.DEFAULT_GROUP:
        return phrases.call(call, site)
    name = f"{words.name(call)} of {group}"
    return name + phrases.line(site or call.site) + words.in_thread(call)


def creation(group: Group) -> str:
    """Return ``new_group([0, 1]) (a.py:9)``."""
    return words.creation(group) + phrases.line(group.site)


def _step(situation: Situation, edge: Edge) -> str:
    case, wait = situation.case, edge.waiting
    on_host = case.standings[wait.rank].host_wait
    if wait.what == HOST and on_host is not None:
        return f"rank {wait.rank} waits{phrases.line(wait.site)} for {on_host.what}"
    those = sorted({wait.rank, *(r for r, s in case.standings.items() if _is_in(s.waiting, wait))})
    edges = case.graph.edges.get((wait.rank, wait.thread), ())
    alike = [one.target[0] for one in edges if wait.stream is not None and not one.queued]
    behind = ", whose device has not reached it" if edge.queued else ""
    verb = words.verb(those, "waits", "wait")
    return (
        f"{words.ranks(those)} {verb} in {describe_wait(situation, edge)} for "
        f"{words.ranks({edge.target[0], *alike})}{behind}"
    )


def _is_in(waiting: Sequence[Waiting], one: Waiting) -> bool:
    return one.stream is not None and any(
        (w.stream, w.seq) == (one.stream, one.seq) for w in waiting
    )
