"""What ranks were doing, and how they ended, in words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import PurePath
from typing import Final

from collectrace import dumps, exceptions, words
from collectrace.align.diagnosis.callers import at_wait, site_of_wait
from collectrace.align.diagnosis.inputs import Inputs
from collectrace.align.judging.case import Case
from collectrace.align.ranks.standing import Standing, failure
from collectrace.dumps import MAIN, Dump

_DOING: Final = {
    "batch": "fetching a batch",
    "backward": "in backward()",
    "sync": "synchronising its device",
}
"""What a busy rank is in, by ``Activity.what``."""

_NUMBER: Final = re.compile(r"\d+")

_MOST_DETAILS: Final = 4
"""Ranks with different details that are listed."""

_SHORTEST: Final = 1_000_000
"""ns below which a wait is not told to have lasted."""

_LONGEST_ERROR: Final = 60
"""Characters of an exception's type that a headline can hold."""


# -- what a rank was doing -------------------------------------------------------------------


def detail(standing: Standing) -> str:
    """What the list of ranks says of one.

    ``in all_reduce at train.py:43 for 61 s (call 29 of the default group)``. Empty where its state
    says all that is known.
    """
    match standing.state:
        case "missing":
            return "left no file"
        case "finished":
            return "tracing was switched off" if standing.disabled else rejoins(standing)
        case "raised":
            return _exception(standing)
        case "silent":
            return _file_ends(standing)
        case "died":
            return _death(standing)
        case "blocked":
            return _wait(standing)
        case "busy":
            return _work(standing)
        case "running":
            return ""


def rejoins(standing: Standing) -> str:
    """That a rank destroyed its process groups and asked for new ones; else nothing."""
    leaving, log = standing.exit, standing.log
    if leaving is None or log is None or not any(a.what == "group" for a in leaving.in_):
        return ""
    last = log.groups[-1] if log.groups else None
    if last is None or last.phase != "destroyed":
        return ""
    return (
        f"destroyed its process groups{words.at_site(last.site)} and went on to "
        "init_process_group()"
    )


def _exception(standing: Standing) -> str:
    leaving = standing.exit
    if leaving is None:
        return ""
    if leaving.error is None:
        return f"sys.exit({leaving.code}){words.at_site(leaving.site)}"
    found = failure(leaving)
    text = words.exception(found.error, found.text) + words.at_site(found.site)
    return text + (f", after {words.brief(leaving.causes[0])}" if leaving.causes else "")


def _file_ends(standing: Standing) -> str:
    return f"its file ends {words.seconds(standing.behind)} before the last of its peers'"


def _death(standing: Standing) -> str:
    end = standing.log.stack_dumps.end if standing.log is not None else None
    if end is not None:
        return _last_stack(end)
    if standing.lost_by_peer:
        return "ended without a word; its peers lost the connection"
    return _file_ends(standing)


def _last_stack(end: Dump) -> str:
    """Why a process ended, and where its main thread was, by what its signal handler wrote."""
    how = "ended by SIGTERM" if end.fatal is None else f"fatal error: {end.fatal}"
    named = [frame for frame in end.stacks.get(MAIN, []) if not frame.startswith("<")]
    frames = dumps.own(named) or named
    return how + (words.at_site(_split(frames[-1])[0]) if frames else "")


def _wait(standing: Standing) -> str:
    w = standing.waiting[0]
    row = "" if w.seq is None else f" (call {w.seq} of {words.named_group(w.group)})"
    if w.channel is not None and w.seq is not None:
        row = f" (message {w.seq})"
    held = standing.end - w.since
    # A log that ends with the call itself does not tell for how long.
    lasted = f" for {words.seconds(held)}" if held >= _SHORTEST else ""
    if w.started is not None:
        lasted += ", which the device has " + ("started" if w.started else "not started")
    return f"in {w.op or 'a collective'}{words.at_site(w.site)}{lasted}{row}"


def _work(standing: Standing) -> str:
    doing = _DOING.get(standing.doing, "")
    if standing.last_issued is None:
        return doing or "no collective so far"
    held = standing.end - standing.last_issued
    since = words.seconds(held) if held >= _SHORTEST else "right"
    return f"{doing or 'in no collective'} {since} after its last call"


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


# -- what a rank did instead of a call -------------------------------------------------------


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
            site, _ = _split(top_frame(standing))
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


# -- stacks ----------------------------------------------------------------------------------


def top_frame(standing: Standing) -> str:
    """The innermost frame of the main thread in the last stall, the user's own if any.

    Where the main thread is in none of the user's, as in workers that train in another, or waits
    for another thread: the first such frame of the others. ``/job/train.py:20 load``; empty where
    no stack was recorded.
    """
    frames = _frames(standing)
    return words.brief(frames[-1]) if frames else ""


def _frames(standing: Standing) -> Sequence[str]:
    """The frames of which :func:`top_frame` is the last, outermost first."""
    frames = main_frames(standing)
    if not frames:
        return ()
    beside = (one for name, one in _stacks(standing).items() if not name.startswith(MAIN))
    others = [own for one in beside if (own := dumps.own(one))]
    if others and (dumps.is_joining(frames) or not dumps.own(frames)):
        return others[0]
    return dumps.own(frames) or frames


def reached(standing: Standing) -> str:
    """``, called at train.py:56 (evaluate), at train.py:73 (main)``: how a rank came to its line.

    The lines above :func:`top_frame`, the nearest first, up to a module's own; nothing where it
    is one of those.
    """
    callers: list[str] = []
    innermost_first = dumps.own(_frames(standing))[::-1]
    for inner, outer in pairwise(innermost_first[: _MOST_CALLERS + 1]):
        if _split(inner)[1] == "<module>":
            break
        callers.append(frame(words.brief(outer)))
    return f", called at {', at '.join(callers)}" if callers else ""


_MOST_CALLERS: Final = 3
"""Lines above the innermost that are named."""


def within(standing: Standing) -> str:
    """``, in get() of queue.py``: what of a library :func:`top_frame` was in; or nothing.

    Of the main thread alone.
    """
    frames = main_frames(standing)
    own, inner = dumps.own(frames), dumps.within(frames)
    if not inner or top_frame(standing) != words.brief(own[-1]):
        return ""
    site, function = _split(inner)
    return f", in {function}() of {PurePath(site).name.partition(':')[0]}" if function else ""


def main_frames(standing: Standing) -> Sequence[str]:
    """The frames of the main thread in the last stall, outermost first."""
    return dumps.of_main(_stacks(standing))


def _stacks(standing: Standing) -> Mapping[str, Sequence[str]]:
    """The stacks of the last stall, by thread."""
    stall = standing.log.stall if standing.log is not None else None
    return stall.stacks if stall is not None else {}


def came_through(standing: Standing) -> str:
    """Where the line was called at that raised, and where that was reached from: after a space."""
    leaving = standing.exit
    if leaving is None or not leaving.through or failure(leaving).site != leaving.site:
        return ""
    called, *around = leaving.through
    text = f" The function was called at {words.site(called)}"
    return f"{text}, reached from {words.site(around[0])}." if around else f"{text}."


def left_by_exit(standing: Standing) -> str:
    """``sys.exit() at train.py:36, called at train.py:75``; empty where it came to its end.

    What the script itself hands to ``sys.exit``, at its last line, is no other end.
    """
    leaving = standing.exit
    if leaving is None or leaving.reason != "finished" or not leaving.through:
        return ""
    return f"sys.exit(){words.at_site(leaving.site)}, called{words.at_site(leaving.through[0])}"


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


def frame(text: str) -> str:
    """``train.py:20 (load)`` for ``/job/train.py:20 load``."""
    site, function = _split(text)
    return f"{words.site(site)} ({function})" if function else words.site(site)


def _split(text: str) -> tuple[str, str]:
    """``path:line`` and function of a frame; a path may hold spaces."""
    site, _, function = text.rpartition(" ")
    return (site, function) if site else (text, "")


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
