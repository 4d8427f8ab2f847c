"""Describe awaited ranks: what they did not reach, and what they did before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from collectrace import words
from collectrace.align.causes import phrases, wait_cycle
from collectrace.align.causes.situation import Situation
from collectrace.align.judging import patience
from collectrace.align.judging.candidate import IncompleteRow
from collectrace.align.matching.comparison import ChannelIssue
from collectrace.align.ranks import detail
from collectrace.align.ranks.standing import Standing
from collectrace.align.reading.evidence import GroupConflict
from collectrace.findings import State
from collectrace.records import DEFAULT_GROUP

_SHORTEST: Final = 1_000_000_000
"""Shortest wait whose duration is shown, ns."""

MOST: Final = 3
"""Ranks that are described one by one."""


Standings = tuple[Standing, ...]


class StateWords(NamedTuple):
    """The words for ranks in one state."""

    did: str
    """What they did before the call that they did not reach, for the headline."""
    why: tuple[str, ...]
    fixes: tuple[str, ...]


def awaited_in(situation: Situation, *states: State) -> tuple[Standing, ...]:
    """Return the awaited ranks that are in one of some states."""
    return tuple(one for one in situation.culprits if one.state in states)


def call(situation: Situation) -> str:
    """Return the call that others wait in: ``all_reduce (train.py:40)``."""
    source = situation.candidate.source
    if isinstance(source, GroupConflict):
        return creation(source)
    if isinstance(source, IncompleteRow):
        made = next((one for one in source.calls.values() if one is not None), None)
    else:
        made = situation.called[0][1] if situation.called else None
    return wait_cycle.with_group(situation.case, made) if made is not None else "the call"


def creation(source: GroupConflict) -> str:
    """Return the creation of a group that only some ranks requested: ``new_group (train.py:9)``."""
    asked = [group for _, group in source.variants if group is not None]
    site = next((group.site for group in asked if group.site), None)
    return ("init_process_group" if is_default(source) else "new_group") + phrases.line(site)


def is_default(source: GroupConflict) -> bool:
    """Whether ranks disagree about the group of ``init_process_group``."""
    return any(group and group.description == DEFAULT_GROUP for _, group in source.variants)


def missed(situation: Situation) -> str:
    """Return what ranks did not do: ``did not reach all_reduce (train.py:40)``."""
    if isinstance(situation.candidate.source, ChannelIssue) and situation.called:
        side, made = situation.called[0]
        how = "send to" if made.op == "recv" else "receive from"
        return f"did not {how} {phrases.call(made)} of {words.ranks(side.ranks)}"
    return f"did not reach {call(situation)}"


def waiting(situation: Situation) -> str:
    """Return ``Ranks 0,2 wait in all_reduce (train.py:40) for 41 s.``; empty if nobody waits."""
    standings = situation.case.standings
    came = situation.candidate.present
    # The root of a broadcast, say, or its receivers need not wait for all of the others.
    present = [r for r in came if standings[r].waiting or standings[r].state == "blocked"] or came
    held = [standings[rank].end - w.since for rank in present for w in standings[rank].waiting]
    if not present:
        return ""
    wait = phrases.wait(situation.case, present)
    longest = max(held, default=0)
    lasted = f" for {words.seconds(longest)}" if longest >= _SHORTEST else ""
    told = f"{words.upper(words.ranks(present))} {wait} in {call(situation)}{lasted}"
    if patience.shows_hang(situation.case, situation.candidate):
        return f"{told}; their dumps are taken for those of a hang."
    return f"{told}."


def last_calls(situation: Situation, standings: Sequence[Standing]) -> str:
    """Return one sentence on the last calls of ranks; empty if none is known."""
    groups = situation.case.comparison.groups
    told: dict[str, list[int]] = {}
    for one in standings:
        last = one.last_call
        if last is not None:
            info = groups.get(last.group)
            where = f" of {words.group(info)}" if info is not None else ""
            told.setdefault(f"{phrases.call(last)}, call {last.seq}{where}", []).append(one.rank)
    parts = [f"of {words.ranks(ranks)} was {what}" for what, ranks in told.items()]
    return f"The last call {'; '.join(parts[:MOST])}." if parts else ""


def place(standing: Standing) -> str:
    """Return where a rank was last seen, with its callers; empty: not recorded."""
    return place_in(detail.last_stacks(standing))


def place_in(stacks: Mapping[str, Sequence[str]]) -> str:
    """Return ``train.py:20 (load), called at train.py:56 (main)`` of the stacks of threads."""
    top = detail.top_frame(stacks)
    return f"{detail.frame(top)}{detail.within(stacks)}{detail.reached(stacks)}" if top else ""


def site(standing: Standing) -> str:
    """Return `` (train.py:40)``, where a rank was last seen; empty: not recorded."""
    top = detail.top_frame(detail.last_stacks(standing))
    return phrases.line(detail.split(top)[0]) if top else ""


def interrupted(situation: Situation) -> tuple[str, ...]:
    """Return a note that a person interrupted the waits of some ranks."""
    standings = situation.case.standings
    by_hand = [
        rank
        for rank in situation.candidate.present
        if (end := standings[rank].exit) is not None and end.is_interrupt
    ]
    if not by_hand:
        return ()
    return (f"Ctrl-C (KeyboardInterrupt) ended the wait of {words.ranks(by_hand)}.",)


def chain(situation: Situation) -> tuple[str, ...]:
    """Return notes on awaited ranks that themselves wait for others."""
    case, notes = situation.case, []
    for rank in situation.candidate.absent[:MOST]:
        standing, edges = case.standings[rank], case.graph.of(rank)
        if standing.host_wait is not None and edges:
            notes.append(f"Rank {rank} waits for {standing.host_wait.what}.")
        elif standing.waiting and edges:
            w, others = standing.waiting[0], words.ranks(edge.target[0] for edge in edges)
            notes.append(f"Rank {rank} waits for {others} in {w.op}{phrases.line(w.site)}.")
    return tuple(notes)


def in_time(situation: Situation) -> tuple[str, ...]:
    """Return how to create a group in time, if ranks wait in its creation."""
    source = situation.candidate.source
    if not isinstance(source, GroupConflict):
        return ()
    return (
        f"Let every rank call {creation(source)} at the same point, before work that "
        "takes long on some ranks only, or give it a longer timeout.",
    )
