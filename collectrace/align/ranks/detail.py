"""Describe in a few words what one rank was doing when its evidence ends, and how it ended."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import PurePath
from typing import Final

from collectrace import dumps, words
from collectrace.align.ranks import last_stall
from collectrace.align.ranks.last_seen import last_seen
from collectrace.align.ranks.standing import Standing, failure
from collectrace.dumps import MAIN, Dump

_SHORTEST: Final = 1_000_000
"""ns: shorter waits are described without a duration."""

_LONGEST: Final = 80
_MOST_PARAMETERS: Final = 3
"""Parameters that a sentence names."""

_WITHOUT_GRADIENT: Final = re.compile(
    r"Parameters?( indices)? which did not receive grad for rank \d+: (.+)"
)
"""Torch 2.13, ``Reducer::ensure_prior_reduction_finished`` (reducer.cpp); with names in DETAIL."""

_MOST_CALLERS: Final = 3
"""Lines above the innermost that are named."""


def detail(standing: Standing) -> str:
    """Return the description of a rank for the list of ranks; empty if its state says everything.

    ``in all_reduce at train.py:43 for 61 s (call 29 of the default group)``.
    """
    match standing.state:
        case "missing":
            return "left no file"
        case "unknown":
            return "its file cannot be read" if standing.log is None else "its file is incomplete"
        case "finished":
            return "tracing was switched off" if standing.disabled else rejoins(standing)
        case "raised":
            return _exception(standing)
        case "silent":
            return _file_ends(standing)
        case "died":
            return death(standing)
        case "blocked":
            return _wait(standing)
        case "busy":
            return _work(standing)
        case "running":
            return ""


def rejoins(standing: Standing) -> str:
    """Return a text if a rank destroyed its process groups and requested new ones."""
    leaving, log = standing.exit, standing.log
    if leaving is None or log is None or not any(a.what == "group" for a in leaving.in_):
        return ""
    last = log.groups[-1] if log.groups else None
    if last is None or last.phase != "destroyed":
        return ""
    return f"destroyed its process groups{words.at_site(last.site)} and called init_process_group()"


def left_by_exit(standing: Standing) -> str:
    """Return ``sys.exit() at train.py:36, called at train.py:75``; empty if it left otherwise.

    A call of ``sys.exit`` in the last line of a script, outside all functions, is a normal end.
    """
    leaving = standing.exit
    if leaving is None or leaving.reason != "finished" or not leaving.through:
        return ""
    return f"sys.exit(){words.at_site(leaving.site)}, called{words.at_site(leaving.through[0])}"


def _exception(standing: Standing) -> str:
    leaving = standing.exit
    if leaving is None:
        return ""
    if leaving.error is None:
        return f"sys.exit({leaving.code}){words.at_site(leaving.site)}"
    found = failure(leaving)
    text = words.exception(found.error, found.text) + words.at_site(found.site)
    return text + (f", after {words.brief(leaving.causes[0])}" if leaving.causes else "")


def without_gradient(standing: Standing) -> str:
    """Return a sentence on the parameters that DDP's own exception names; empty if it has none."""
    if standing.exit is not None and (names := standing.exit.parameters):
        told = words.listed([f"`{one}`" for one in names], _MOST_PARAMETERS)
        return f"They are {told}."
    found = _WITHOUT_GRADIENT.search(standing.message)
    if found is None:
        return ""
    by = " by their places in model.named_parameters()" if found[1] else ""
    return f"Its exception names them{by}: {words.brief(found[2], _LONGEST)}."


def _file_ends(standing: Standing) -> str:
    return f"its file ends {words.seconds(standing.behind)} before the last of its peers'"


def death(standing: Standing) -> str:
    """Return how a rank without a last line ended."""
    end = standing.log.stack_dumps.end if standing.log is not None else None
    if end is not None:
        return _last_stack(end)
    if standing.lost_by_peer:
        return "ended abruptly; its peers lost the connection"
    if standing.left_nothing:
        return "ended abruptly; SIGTERM then ended the others"
    return _file_ends(standing)


def is_fatal(standing: Standing) -> bool:
    """Whether a fatal error ended a rank. The line of that is known."""
    return standing.log is not None and standing.log.stack_dumps.fatal


def _last_stack(end: Dump) -> str:
    """Return why a process ended, and the line of its main thread, from its signal handler."""
    how = "ended by SIGTERM" if end.fatal is None else f"fatal error: {end.fatal}"
    named = [frame for frame in end.stacks.get(MAIN, []) if not frame.startswith("<")]
    frames = dumps.own(named) or named
    return how + (words.at_site(split(frames[-1])[0]) if frames else "")


def _wait(standing: Standing) -> str:
    w = standing.waiting[0]
    row = "" if w.seq is None else f" (call {w.seq} of {words.named_group(w.group)})"
    if w.channel is not None and w.seq is not None:
        row = f" (message {w.seq})"
    held = standing.end - w.since
    # A log that ends with the call itself does not show for how long.
    lasted = f" for {words.seconds(held)}" if held >= _SHORTEST else ""
    if w.started is not None:
        lasted += ", which the device has " + ("started" if w.started else "not started")
    return f"in {w.op or 'a collective'}{words.at_site(w.site)}{lasted}{row}"


def _work(standing: Standing) -> str:
    doing = words.DOING.get(standing.doing, "")
    if standing.host_wait is not None:
        doing = f"waits for {words.brief(standing.host_wait.what)}"
    if standing.last_issued is None:
        return doing or "no collective so far"
    held = standing.end - standing.last_issued
    since = words.seconds(held) if held >= _SHORTEST else "right"
    return f"{doing or 'in no collective'} {since} after its last call"


# -- stacks ----------------------------------------------------------------------------------


def last_stacks(standing: Standing) -> Mapping[str, Sequence[str]]:
    """Return the last stacks of a rank since its last call, by thread; empty: not recorded."""
    seen = last_seen(standing.log)
    return seen.stacks if seen is not None else {}


def top_frame(stacks: Mapping[str, Sequence[str]]) -> str:
    """Return the innermost frame of some stacks, the user's own if any; empty if there is none.

    The stack is that of :func:`at_work`, the result like ``/job/train.py:20 load``.
    """
    frames = at_work(stacks)
    return words.brief(frames[-1]) if frames else ""


def at_work(stacks: Mapping[str, Sequence[str]]) -> Sequence[str]:
    """Return the stack of the working thread, outermost first; the user's own frames if any."""
    frames = whole_at_work(stacks)
    return dumps.own(frames) or frames


def whole_at_work(stacks: Mapping[str, Sequence[str]]) -> Sequence[str]:
    """Return the stack of the working thread with all its frames, outermost first."""
    return stacks.get(last_stall.thread_at_work(stacks), ())


def reached(stacks: Mapping[str, Sequence[str]]) -> str:
    """Return ``, called at train.py:56 (evaluate), at train.py:73 (main)``, nearest first."""
    callers: list[str] = []
    innermost_first = dumps.own(at_work(stacks))[::-1]
    for inner, outer in pairwise(innermost_first[: _MOST_CALLERS + 1]):
        if split(inner)[1] == "<module>":
            break
        callers.append(frame(words.brief(outer)))
    return f", called at {', at '.join(callers)}" if callers else ""


def within(stacks: Mapping[str, Sequence[str]]) -> str:
    """Return the innermost library function of the main thread, as ``, in get() of queue.py``."""
    frames = dumps.of_main(stacks)
    own, inner = dumps.own(frames), dumps.within(frames)
    if not inner or top_frame(stacks) != words.brief(own[-1]):
        return ""
    site, function = split(inner)
    return f", in {function}() of {PurePath(site).name.partition(':')[0]}" if function else ""


def frame(text: str) -> str:
    """Return ``train.py:20 (load)`` for ``/job/train.py:20 load``."""
    site, function = split(text)
    return f"{words.site(site)} ({function})" if function else words.site(site)


def split(text: str) -> tuple[str, str]:
    """Return ``path:line`` and function of a frame; a path may hold spaces."""
    site, _, function = text.rpartition(" ")
    return (site, function) if site else (text, "")
