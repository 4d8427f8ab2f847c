"""What is said of ranks that give no sign of life, or of which the file ends early."""

from __future__ import annotations

from typing import NamedTuple

from collectrace import words as text
from collectrace.align.causes import waited_for
from collectrace.align.causes.situation import Situation
from collectrace.align.ranks.standing import Standing

Those = tuple[Standing, ...]


class Said(NamedTuple):
    """What is said of ranks in one state."""

    did: str
    """What they did before they did not reach the call, for the headline."""
    why: tuple[str, ...]
    fixes: tuple[str, ...]


def stopped(_: Situation, found: Those, who: str) -> Said:
    """Return what is said of ranks whose process exists and does nothing."""
    where, copied = places(found), _copied(found)
    behind = text.seconds(max(one.behind for one in found))
    look = f"Look at the process of {who} on its host (`ps -o stat,wchan`, `py-spy dump`)."
    if copied:
        exists = all(one.ended == "alive" for one in found)
        is_stopped = "is stopped (SIGSTOP, a debugger)"
        killed = f"was killed (out of memory?), aborted in C++, left by os._exit, or {is_stopped}"
        gone = (
            f"If {who} still ends early, look at what it printed last, at its exit code in the "
            "launcher's output, and for the out-of-memory killer in the kernel's log (dmesg)."
        )
        return Said(
            f"left no sign of life for {behind}",
            (copied, f"Or its process {is_stopped if exists else killed}."),
            (
                "Copy the files of all ranks again, after the job has ended or at one time.",
                look if exists else gone,
            ),
        )
    return Said(
        "stopped",
        (
            f"The process of {who} exists but has given no sign of life for {behind}: it is "
            "stopped (SIGSTOP, a debugger), is in C code that holds the GIL, or its machine hangs.",
            f"{text.upper(where)}." if where else "",
        ),
        (look,),
    )


def places(found: Those) -> str:
    """Return ``rank 1 was at load.py:3; rank 2 was at load.py:9``, of a few ranks."""
    shown = ((one.rank, waited_for.place(one)) for one in found[: waited_for.MOST])
    return "; ".join(f"rank {rank} was at {place}" for rank, place in shown if place)


def _copied(found: Those) -> str:
    """Return that files may be copies of different times, for ranks of which the file ends early.

    Empty if they are known to be what the tracer wrote.
    """
    those = [one for one in found if one.may_be_copy]
    if not those:
        return ""
    behind, who = text.seconds(max(one.behind for one in those)), text.ranks(s.rank for s in those)
    return (
        f"The file of {who} ends {behind} before the last of its peers': if the files were copied "
        "while the job ran, it was copied earlier, or not as a whole."
    )
