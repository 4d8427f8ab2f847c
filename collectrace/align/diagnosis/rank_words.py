"""What ranks were doing, and how they ended, in words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from collectrace import exceptions, words
from collectrace.align.diagnosis.callers import at_wait, site_of_wait
from collectrace.align.diagnosis.inputs import Inputs
from collectrace.align.judging.case import Case
from collectrace.align.ranks.detail import (
    detail,
    frame,
    left_by_exit,
    main_frames,
    reached,
    rejoins,
    split,
    top_frame,
    within,
)
from collectrace.align.ranks.standing import Standing, failure

__all__ = [
    "detail",
    "frame",
    "left_by_exit",
    "main_frames",
    "reached",
    "rejoins",
    "top_frame",
    "within",
]

_NUMBER: Final = re.compile(r"\d+")

_MOST_DETAILS: Final = 4
"""Ranks with different details that are listed."""

_LONGEST_ERROR: Final = 60
"""Characters of an exception's type that a headline can hold."""


def instead(case: Case, ranks: tuple[int, ...], found: Inputs | None) -> str:
    """``rank 1 is busy at data.py:12``: what ranks did that did not come to a call.

    All are in one state, and the first stands for the others. ``found``: the uneven inputs that
    explain it, if they do.
    """
    return f"{words.ranks(ranks)} {_predicate(case, ranks, found)}"


def _predicate(case: Case, ranks: tuple[int, ...], found: Inputs | None) -> str:
    standing = case.standings[ranks[0]]
    match standing.state:
        case "finished" if gone := rejoins(standing):
            return gone
        case "finished":
            return "finished" + (found.after(ranks) if found is not None else "")
        case "raised":
            leaving = standing.exit
            if leaving is None or leaving.error is None:
                return "raised an exception"
            what = failure(leaving)
            return f"raised {words.brief(what.error, _LONGEST_ERROR)}{words.at_site(what.site)}"
        case "died":
            last = standing.last_call
            return "died" + (f" after {words.name(last)}{words.at(last)}" if last else "")
        case "blocked":
            w = standing.waiting[0]
            alone = f"waits in {w.op or 'another call'}{words.at_site(site_of_wait(case, w))}"
            return words.verb(ranks, alone, "wait elsewhere")
        case "busy":
            site, _ = split(top_frame(standing))
            at = words.at_site(site) or ", in no collective"
            return f"{words.verb(ranks, 'is', 'are')} busy{at}"
        case "silent":
            return words.verb(ranks, "stands still", "stand still")
        case "running":
            if standing.log is not None and standing.log.imported is not None:
                return words.verb(ranks, "has not enqueued it", "have not enqueued it")
            return words.verb(ranks, "was elsewhere", "were elsewhere")
        case "missing":
            return "left no file"


def came_through(standing: Standing) -> str:
    """Where the line was called at that raised, and where that was reached from: after a space."""
    leaving = standing.exit
    if leaving is None or not leaving.through or failure(leaving).site != leaving.site:
        return ""
    called, *around = leaving.through
    text = f" The function was called at {words.site(called)}"
    return f"{text}, reached from {words.site(around[0])}." if around else f"{text}."


def threads_ended(standing: Standing) -> str:
    """Threads of a rank that exceptions of their own had ended: after a space."""
    known = standing.log.threads_ended if standing.log is not None else ()
    ended = [one for one in known if not exceptions.blames_peers(one.error, one.message)]
    told = [
        f" Thread {one.thread} of rank {standing.rank} had ended before, by "
        f"{words.exception(one.error, one.message)}{words.at_site(one.site)}."
        for one in ended[-_MOST_THREADS:]
    ]
    return "".join(told)


_MOST_THREADS: Final = 2
"""Threads that are named, the latest."""


def chain(case: Case, ranks: Sequence[int]) -> str:
    """For whom ranks that are waited for wait themselves: a sentence after a space, or nothing."""
    links = []
    for rank in ranks:
        standing = case.standings[rank]
        edges = case.graph.of(rank)
        if standing.waiting and edges:
            others = words.ranks(edge.target[0] for edge in edges)
            w = standing.waiting[0]
            info = case.comparison.groups.get(w.group)
            where = f" of {words.group(info)}" if info is not None else ""
            links.append(f"rank {rank} waits for {others} in {w.op}{where}{at_wait(case, w)}")
    return f" {words.upper('; '.join(links[:_MOST_CHAINED]))}." if links else ""


_MOST_CHAINED: Final = 4


def hint(messages: Iterable[str]) -> str:
    """What to change where torch's own text tells what is wrong: a sentence after a space."""
    if any(_NOT_A_MEMBER.match(message) for message in messages):
        return (
            " src= and dst= name a rank of the whole job: pass a member of the group, as "
            "get_global_rank(group, 0) gives it, or its place in the group as group_src= or "
            "group_dst=."
        )
    return ""


_NOT_A_MEMBER: Final = re.compile(r"Global rank \d+ is not part of group\b")
"""torch 2.13, distributed_c10d.py: get_group_rank."""


def details(case: Case, ranks: Iterable[int]) -> str:
    """A sentence per different :func:`detail` of the ranks.

    Of details that differ in numbers only the first is given, with the number of the others.
    """
    alike: dict[str, list[int]] = {}
    for rank in ranks:
        alike.setdefault(_NUMBER.sub("#", detail(case.standings[rank])), []).append(rank)
    sentences = []
    for those in list(alike.values())[:_MOST_DETAILS]:
        text, *others = dict.fromkeys(detail(case.standings[rank]) for rank in those)
        if others:
            more = words.counted(len(those) - 1, "more rank")
            sentences.append(f"Rank {those[0]}: {text} ({more} likewise).")
        elif text:
            sentences.append(f"{words.upper(words.ranks(those))}: {text}.")
    return " ".join(sentences)
