"""Exceptions that a rank handled between the last common call and its next one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from collectrace import exceptions, words
from collectrace.align.causes.situation import Situation
from collectrace.records import Raised

_CONTROL: Final = frozenset(
    {"Empty", "Full", "GeneratorExit", "KeyboardInterrupt", "StopAsyncIteration", "StopIteration",
     "SystemExit"}
)  # fmt: skip
"""Exceptions that programs use for control flow, or by which a person ends them."""


@dataclass(frozen=True, slots=True)
class Handled:
    """An exception that ranks of one side handled, and no rank of the other."""

    ranks: tuple[int, ...]
    raised: Raised

    @property
    def error(self) -> str:
        """``ValueError: no labels (train.py:30)``."""
        place = f" ({words.site(self.raised.site)})" if self.raised.site else ""
        return words.exception(self.raised.error, self.raised.message) + place


def handled(situation: Situation) -> Handled | None:
    """Return the exception that only one side handled since the last common call.

    None: no side did, or both. An exception that peers caused, or that the rank had handled before,
    decides nothing.
    """
    pair = situation.pair
    if pair is None:
        return None
    found: list[Handled] = []
    for rank, made, t in zip(pair.ranks, pair.made, pair.times, strict=True):
        log = situation.case.log(rank)
        if log is None or (found and found[0].ranks == (rank,)):
            continue
        begin = made[-1].t if made else 0
        since = [r for r in log.caught if begin < r.t and (t is None or r.t <= t)]
        before = {_what(r) for r in log.caught if r.t <= begin}
        since = [r for r in since if _what(r) not in before and not _is_control(r)]
        if since:
            found.append(Handled((rank,), since[-1]))
    if len(found) != 1:
        return None
    (rank,) = found[0].ranks
    sides = (side.ranks for side in situation.candidate.sides if rank in side.ranks)
    return Handled(next(sides, (rank,)), found[0].raised)


def _is_control(raised: Raised) -> bool:
    return raised.error in _CONTROL or exceptions.blames_peers(raised.error, raised.message)


def _what(raised: Raised) -> tuple[str, str | None, str]:
    """Return what makes two exceptions the same, whatever their texts."""
    return raised.error, raised.site, raised.what
