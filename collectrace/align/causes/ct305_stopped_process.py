"""A rank's process exists and gives no sign of life, and the others wait for it.

What it means
    Not even the thread that writes heartbeats runs. The process is stopped (SIGSTOP, a debugger),
    holds the interpreter's lock in C code, or its machine hangs.

Example
    ::

        kill -STOP 4711             # the process of rank 1
        dist.all_reduce(loss)       # the others wait here

Not to be confused with
    CT301, if the process runs Python code. CT303, if the process is gone.

How to fix it
    Look at the process on its host.
"""

from __future__ import annotations

from collectrace import words as text
from collectrace.align.causes import phrases, waited_for
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.judging.candidate import IncompleteRow
from collectrace.align.ranks.standing import Standing


def find(situation: Situation) -> tuple[Standing, ...] | None:
    """Return the ranks that stand still."""
    return waited_for.those(situation, "silent") or None


def words(situation: Situation, found: tuple[Standing, ...]) -> Words:
    """Return the words for ranks that stand still."""
    who, call = text.ranks(waited_for.numbers(found)), waited_for.call(situation)
    inside = isinstance(situation.candidate.source, IncompleteRow)
    what = f"stopped inside {call}" if inside else f"stopped and {waited_for.missed(situation)}"
    places = [f"rank {one.rank} was at {place}" for one in found[: waited_for.MOST]
              if (place := waited_for.place(one))]  # fmt: skip
    behind = text.seconds(max(one.behind for one in found))
    every = "Every rank reached the call. " if inside else ""
    return Words(
        phrases.fitting(f"{who} {what}", f"{who} stopped"),
        tuple(filter(None, (
            f"{every}The process of {who} exists but has given no sign of life for {behind}: it is "
            "stopped (SIGSTOP, a debugger), is in C code that holds the GIL, or its machine hangs.",
            f"{text.upper('; '.join(places))}." if places else "",
            waited_for.last_calls(situation, found) if not inside else "",
        ))),
        (f"Look at the process of {who} on its host (`ps -o stat,wchan`, `py-spy dump`).",),
        waited_for.chain(situation),
    )  # fmt: skip
