"""A circle of waits in words: who waits in what, and for whom."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from collectrace import words
from collectrace.align.diagnosis import left_out
from collectrace.align.diagnosis.callers import at_wait, closed, site_of_wait
from collectrace.align.judging.candidates import waited_for
from collectrace.align.judging.case import Case
from collectrace.align.ranks.standing import Waiting
from collectrace.align.ranks.waitgraph import Edge


def headline(case: Case, cycle: Sequence[Edge]) -> str:
    """The headline: which ranks wait for each other, and in what."""
    who = words.ranks(edge.waiting.rank for edge in cycle)
    how = "for each other" if len(cycle) == 2 else "in a circle"
    sites = {site_of_wait(case, edge.waiting) for edge in cycle}
    at = words.at_site(sites.pop()) if len(sites) == 1 else None
    does = [
        _named(case, edge) + words.at_site(site_of_wait(case, edge.waiting))
        if at is None
        else _call_of(case, edge)
        for edge in cycle
    ]
    if at is not None and len(set(does)) == 1:
        return f"{who} wait {how} in {does[0]}{at}"
    told = [f"rank {e.waiting.rank} in {call}" for e, call in zip(cycle, does, strict=True)]
    more = f" and {len(told) - _MOST_SHOWN} more" if len(told) > _MOST_SHOWN else ""
    return f"{who} wait {how}: {', '.join(told[:_MOST_SHOWN])}{more}{', all' + at if at else ''}"


_MOST_SHOWN: Final = 3


def _step(case: Case, edge: Edge) -> str:
    """``ranks 0-1 wait in all_reduce of group tp at train.py:9 for ranks 2-3``.

    With those who wait in it, too, by other lines: ``..., as does rank 4 at serve.py:30``.
    """
    behind = ", whose device has not come to it" if edge.queued else ""
    those, *beside = _together(case, edge)
    awaited, wait = _awaited(case, edge), words.verb(those, "waits", "wait")
    where = closed(what(case, edge))
    too = "".join(
        f", as {words.verb(ranks, 'does', 'do')} {words.ranks(ranks)}"
        f"{at_wait(case, next(w for w in case.standings[ranks[0]].waiting if _is_in(w, edge)))}"
        for ranks in beside[:_MOST_BESIDE]
    )
    return f"{words.ranks(those)} {wait} in {where} for {words.ranks(awaited)}{behind}{too}"


_MOST_BESIDE: Final = 2
"""Further lines at which ranks wait in one row."""


def _is_in(waiting: Waiting, edge: Edge) -> bool:
    """Whether a rank waits in the row in which that of an edge does."""
    w = edge.waiting
    return w.stream is not None and (waiting.stream, waiting.seq) == (w.stream, w.seq)


def _together(case: Case, edge: Edge) -> list[list[int]]:
    """Who waits in one row, by the lines of the script, those of the rank of an edge first."""
    w = edge.waiting
    if w.stream is None or edge.queued:
        return [[w.rank]]
    found: dict[str, list[int]] = {at_wait(case, w): []}
    for rank, standing in sorted(case.standings.items()):
        for one in standing.waiting:
            if _is_in(one, edge):
                found.setdefault(at_wait(case, one), []).append(rank)
    return list(found.values())


def _awaited(case: Case, edge: Edge) -> list[int]:
    """For whom that rank waits in this row: who has not come to it."""
    w, (target, _) = edge.waiting, edge.target
    if w.stream is None or edge.queued:
        return [target]
    edges = case.graph.edges.get((w.rank, w.thread), ())
    return sorted({target, *(one.target[0] for one in edges if not one.queued)})


def steps(case: Case, cycle: Sequence[Edge]) -> str:
    """Every :func:`_step` of a circle, one sentence."""
    return f"{words.upper('; '.join(_step(case, edge) for edge in cycle))}."


def what(case: Case, edge: Edge) -> str:
    """``all_reduce of group tp at train.py:9``; ``recv (irecv) with tag 3 at train.py:9``.

    With the line that called the helper of such a line: ``at comm.py:13, called at train.py:9``.
    """
    return _named(case, edge) + at_wait(case, edge.waiting)


def _named(case: Case, edge: Edge) -> str:
    """``all_reduce of group tp``; ``recv (irecv) with tag 3``."""
    w = edge.waiting
    call = waited_for(case, w) if w.channel is not None else None
    if call is None or w.channel is None:
        return _call_of(case, edge)
    return words.message(call) + (f" with tag {w.channel.tag}" if w.channel.tag else "")


def _call_of(case: Case, edge: Edge) -> str:
    """``all_reduce of group tp``; of a message ``recv``; ``new_group([0, 1])``."""
    w = edge.waiting
    asked = case.asked(w)
    if asked is not None and asked.ranks:
        return left_out.call(asked)
    info = case.comparison.groups.get(w.group)
    of = f" of {words.group(info)}" if info is not None and w.channel is None else ""
    return f"{w.op or 'a call'}{of}"
