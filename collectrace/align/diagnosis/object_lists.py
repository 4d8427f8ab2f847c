"""Lists of objects whose length differs from rank to rank.

``broadcast_object_list`` broadcasts an int64 tensor of the pickled sizes first, one element for
each object; ranks other than the source make theirs ``torch.empty(len(object_list))``.
``send_object_list`` and ``recv_object_list`` do the same with a message (distributed_c10d.py, torch
2.13). So the length of that tensor is the length of the list. The other object collectives hand on
a size for each rank: there is nothing to be told of lengths.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from collectrace import words
from collectrace.align.diagnosis import decided
from collectrace.align.diagnosis.wording import Reason, called
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.judging.rounds import novelty
from collectrace.align.matching import habit
from collectrace.align.matching.comparison import ChannelIssue, Divergence
from collectrace.records import Call

_APIS: Final = ("broadcast_object_list", "send_object_list", "recv_object_list")


def length(call: Call) -> int | None:
    """How many objects were in the list whose sizes a call hands on; None: it hands on none."""
    shape = call.shape or []
    if call.api not in _APIS or call.dtype != "int64" or call.void or len(shape) != 1:
        return None
    return shape[0] if isinstance(shape[0], int) else None


def entries(call: Call) -> str:
    """``a list of 5 objects``; empty where a call hands on no sizes of objects."""
    n = length(call)
    return f"a list of {words.counted(n, 'object')}" if n is not None else ""


def reason(case: Case, candidate: Candidate) -> Reason | None:
    """A broadcast_object_list of lists of different lengths."""
    sides = called(candidate)
    lengths = [length(call) for _, call in sides]
    if candidate.kind != "shape_mismatch" or None in lengths or len(set(lengths)) < 2:
        return None
    call = sides[0][1]
    source = f"rank {call.root}" if call.root is not None else "the source"
    listed = words.listed([f"{length(c)} on {words.ranks(s.ranks)}" for s, c in sides])
    return Reason(
        f"The list of objects that the ranks passed to {call.api}{words.at(call)} differs in "
        f"length: {listed} ({source} is the source). {call.api} begins with the sizes of the "
        "objects, an int64 for each entry of the list: those of the source do not fit the list of "
        "another length, and nothing after that is read by the right sizes."
        f"{_as_before(case, candidate)}{decided.sentence(case, candidate)}",
        f"Pass a list of as many entries on every rank as on {source}: broadcast their number "
        "first, and let the others pass [None] * number.\nOr pass the whole list as the only "
        f"object: {call.api}([objects]) on {source}, [None] on the others.",
        "sizes",
    )


def of_message(issue: ChannelIssue) -> Reason | None:
    """Lists of different lengths on the two ends of a message."""
    ends = [call for call in (issue.send, issue.recv) if call is not None]
    lengths = [length(call) for call in ends]
    if len(ends) < 2 or None in lengths or lengths[0] == lengths[1]:
        return None
    sender, receiver = issue.channel.source, issue.channel.destination
    return Reason(
        f"The {words.ordinal(issue.seq)} message from rank {sender} to rank {receiver} holds the "
        f"sizes of objects, an int64 for each: rank {sender} passed {entries(ends[0])} to "
        f"send_object_list, rank {receiver} {entries(ends[1])} to recv_object_list. Backends do "
        "not check it: what follows is read by wrong sizes, cut off, or awaited for ever.",
        f"Pass recv_object_list a list of as many entries as rank {sender} sends: send their "
        "number first, or send the whole list as the only object, send_object_list([objects]), "
        "and receive it into [None].",
    )


def _as_before(case: Case, candidate: Candidate) -> str:
    """Whose list is of another length than ever before: sentences after a space, or nothing.

    Nothing where the equal rounds before tell it.
    """
    source = candidate.source
    if not isinstance(source, Divergence) or novelty(case, candidate) is not None:
        return ""
    told = ""
    for side, call in called(candidate):
        before = _earlier(case, source, side.ranks, side.call or call)
        if len(before) < habit.ENOUGH or len(set(before)) > 1:
            continue
        made, n = words.verb(side.ranks, "it has", "they have"), before[0]
        times = words.counted(len(before), "call")
        if n == length(call):
            told += f" On {words.ranks(side.ranks)} it is as long as in the {times} before."
        else:
            told += (
                f" On {words.ranks(side.ranks)} it was of {n} in each of the {times} before from "
                f"that line, and {made} another length now."
            )
    return told


def _earlier(case: Case, source: Divergence, ranks: Sequence[int], call: Call) -> list[int]:
    """The lengths that a side's first rank passed at the same line before."""
    calls = case.before(ranks[0], source.stream, source.seq)
    same = (c for c in calls if c is not None and (c.op, c.site) == (call.op, call.site))
    return [n for c in same if (n := length(c)) is not None]
