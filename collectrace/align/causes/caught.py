"""Exceptions that some ranks caught just before they differ from the others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from collectrace import exceptions, words
from collectrace.align.causes import phrases
from collectrace.align.causes.situation import Situation
from collectrace.records import HANDLED, Raised

_CONTROL: Final = frozenset(
    {"Empty", "Full", "GeneratorExit", "KeyboardInterrupt", "StopAsyncIteration", "StopIteration",
     "SystemExit"}
)  # fmt: skip
"""Exceptions by which programs find their way, or a person ends them."""

_MOST: Final = 3
"""Ranks that a sentence lists."""


def caught(situation: Situation) -> dict[int, Raised]:
    """Return by rank what ranks raised since the last common call; the others raised no such thing.

    Not what says that other ranks let them down, and not what they have lived with before.
    """
    found = dict(_latest(situation))
    sides = [set(side.ranks) for side in situation.candidate.sides]
    raising = [side for side in sides if side & found.keys()]
    if len(raising) != 1 or len(sides) < 2:
        return {}
    others = [rank for side in sides if side is not raising[0] for rank in side]
    logs = [log for rank in others if (log := situation.case.log(rank)) is not None]
    known = {_what(one) for log in logs for one in log.caught}
    return {rank: one for rank, one in found.items() if _what(one) not in known}


def _latest(situation: Situation) -> Iterator[tuple[int, Raised]]:
    for rank, begin, end in _intervals(situation):
        log = situation.case.log(rank)
        those = log.caught if log is not None else ()
        here = [one for one in those if begin < one.t and (end is None or one.t <= end)]
        before = {_what(one) for one in those if one.t <= begin}
        for one in reversed(here):
            is_own = not exceptions.blames_peers(one.error, one.message)
            if is_own and one.error not in _CONTROL and _what(one) not in before:
                yield rank, one
                break


def _intervals(situation: Situation) -> Iterator[tuple[int, int, int | None]]:
    """Return ranks, with the times of their last common call and of the next one."""
    case, candidate, pair = situation.case, situation.candidate, situation.pair
    known = set()
    if pair is not None:
        for rank, made, end in zip(pair.ranks, pair.made, pair.times, strict=True):
            if rank not in known:
                known.add(rank)
                yield rank, made[-1].t if made else 0, end
    if candidate.stream is None or candidate.seq is None:
        return
    for rank in candidate.ranks:
        if rank not in known:
            last = case.last_before(rank, candidate.stream, candidate.seq)
            here = case.call(rank, candidate.stream, candidate.seq)
            yield rank, last.t if last is not None else 0, here.t if here is not None else None


def _what(one: Raised) -> tuple[str, str | None, str]:
    """Return what makes two exceptions the same, whatever their texts."""
    return one.error, one.site, one.what


def is_handled(one: Raised) -> bool:
    """Return whether the rank made its next call while it handled the exception."""
    return one.what == HANDLED


def sentence(found: dict[int, Raised]) -> str:
    """Return ``Rank 1 raised ValueError: bad size in broadcast (serve.py:51).``."""
    said: dict[str, list[int]] = {}
    for rank, one in sorted(found.items()):
        inside = "" if is_handled(one) else f" in {one.what}"
        error = words.exception(one.error, one.message)
        said.setdefault(f"{error}{inside}{phrases.line(one.site)}", []).append(rank)
    parts = [f"{words.ranks(ranks)} raised {what}" for what, ranks in said.items()]
    return f"{words.upper('; '.join(parts[:_MOST]))}."


def notes(situation: Situation) -> tuple[str, ...]:
    """Return a note on exceptions that ranks caught just before, and went on."""
    found = caught(situation)
    return (f"Just before, {words.lower(sentence(found)[:-1])}, and went on.",) if found else ()
