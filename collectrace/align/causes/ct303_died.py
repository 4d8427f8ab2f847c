"""A rank's process ended without a last line, and the others wait for it.

What it means
    The process was killed (by a signal, or because memory ran out), aborted in C++, or left by
    ``os._exit``. So Python could not report anything.

Example
    ::

        os.abort()                  # only on rank 1
        dist.all_reduce(loss)       # the others wait here

Not to be confused with
    CT302, if the rank ended with an exception. CT305, if its process still exists.

How to fix it
    Look at what the rank printed last, at its exit code, and at the kernel's log.
"""

from __future__ import annotations

from collectrace import words as text
from collectrace.align.causes import phrases, waited_for
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.ranks import detail
from collectrace.align.ranks.standing import Standing


def find(situation: Situation) -> tuple[Standing, ...] | None:
    """Return the ranks that died."""
    return waited_for.those(situation, "died") or None


def words(situation: Situation, found: tuple[Standing, ...]) -> Words:
    """Return the words for ranks that died."""
    who, missed = text.ranks(waited_for.numbers(found)), waited_for.missed(situation)
    deaths = [f"rank {one.rank}: {detail.death(one)}" for one in found[: waited_for.MOST]]
    left = (
        "Its process left no last line: it was killed (out of memory?), aborted in C++, or left by "
        "os._exit."
    )
    return Words(
        phrases.fitting(f"{who} died and {missed}", f"{who} died"),
        tuple(filter(None, (
            f"{text.upper('; '.join(deaths))}.", left, waited_for.last_calls(situation, found)
        ))),
        (
            f"Look at what {who} printed last, and at its exit code in the launcher's output (-9: "
            "killed, -6: aborted).",
            "If it was killed, look for the out-of-memory killer in the kernel's log (dmesg).",
        ),
        waited_for.chain(situation),
    )  # fmt: skip
