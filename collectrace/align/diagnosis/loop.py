"""Where in the user's loop a row lies: the period of a stream, and the call's place in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from collectrace import words
from collectrace.align.diagnosis.callers import telling
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.matching import habit
from collectrace.align.reading.evidence import LOOK_BACK, StreamKey
from collectrace.records import Call
from collectrace.roles import UNKNOWN, USER
from collectrace.signature import is_user, program_text

Token = tuple[str, str, int]
"""What a call does, the line it was made at, and the rank's number for who called that."""


def token(call: Call | None) -> Token:
    """Equal for two calls of one rank that are the same step of a loop."""
    return (program_text(call), call.site or "", call.stack or 0) if call else ("", "", 0)


@dataclass(frozen=True, slots=True)
class Loop:
    """The calls that a rank repeated up to a row, and where in the repetition the row falls."""

    period: int
    """Calls per round."""
    rounds: int
    """Complete rounds before the row, as far as was looked."""
    position: int
    """Which call of its round the row would be, from 1."""
    expected: Call | None
    """The call one round earlier: what the rank would have issued, had it gone on."""
    coming: Call | None
    """The call after that one."""
    latest: Call | None
    """The call one row earlier."""
    is_whole: bool
    """Whether all rounds were looked at."""

    @property
    def times(self) -> str:
        """``3 times``; ``more than 400 times`` where not all were looked at."""
        return self._counted("time")

    @property
    def equal_rounds(self) -> str:
        """``3 equal rounds``; ``more than 400 equal rounds``."""
        return self._counted("equal round")

    def _counted(self, noun: str) -> str:
        return ("" if self.is_whole else "more than ") + words.counted(self.rounds, noun)

    def goes_on(self, call: Call) -> bool:
        """Whether ``call`` is what the loop would have brought at the row."""
        return token(call) == token(self.expected)

    def skips_one(self, call: Call) -> bool:
        """Whether ``call`` is what the loop would have brought one row later."""
        return self.period > 1 and token(call) == token(self.coming)


def before(case: Case, rank: int, stream: StreamKey, seq: int) -> Loop | None:
    """The loop a rank was in before row ``seq``; None where nothing was repeated."""
    calls = case.before(rank, stream, seq)
    period, length = habit.repetition([token(call) for call in calls])
    if not period:
        return None
    is_whole = seq - LOOK_BACK <= 1 or length < len(calls)
    if not is_whole:
        length, is_whole = _reach(case, rank, stream, seq, period) or (length, False)
    return Loop(
        period=period,
        rounds=length // period,
        position=_position(calls, period, length),
        expected=calls[len(calls) - period],
        coming=calls[len(calls) - period + 1] if period > 1 else calls[-1],
        latest=calls[-1],
        is_whole=is_whole,
    )


def _reach(
    case: Case, rank: int, stream: StreamKey, seq: int, period: int
) -> tuple[int, bool] | None:
    """How many calls before a row repeat with a period, and whether that is where it began.

    By the rows of a log that was read from end to end; None where it was not, or has lost some.
    """
    log = case.log(rank)
    if log is None or not log.scanned:
        return None
    rows, shift = log.rows(stream)
    stop = rows.position(seq - shift)
    start = max(0, stop - _MOST_ROWS)
    if stop - start < period or rows.seq[stop - 1] - rows.seq[start] != stop - 1 - start:
        return None
    steps = list(zip(rows.meaning[start:stop], rows.appearance[start:stop], strict=True))
    length = habit.reach(steps, period)
    return length, length < len(steps) or (start == 0 and rows.seq[0] + shift == 1)


_MOST_ROWS: Final = 100_000
"""Rows among which rounds are counted, once they are known."""


def _position(calls: Sequence[Call | None], period: int, length: int) -> int:
    """Which call of its round the next one is, from 1.

    A round begins with DDP's iteration; where calls tell of none, where the repetition begins.
    """
    last = calls[-1].iteration if calls[-1] is not None else None
    if last is not None:
        same = 0
        for call in reversed(calls):
            if call is None or call.iteration != last:
                break
            same += 1
        if same < len(calls):
            return same % period + 1
    return length % period + 1


def own_calls(case: Case, rank: int, candidate: Candidate) -> list[Call]:
    """The script's own collectives in the loop that a rank was in, one per line."""
    own = [telling(case, rank, c) for c in _of_loop(case, rank, candidate) if is_user(c)]
    return list({c.site: c for c in own}.values())


def is_answered(case: Case, rank: int, candidate: Candidate) -> bool:
    """Whether DDP issues calls in the loop a rank was in, which ``join()`` would answer.

    Not where a framework makes calls of its own there, which it would not.
    """
    calls = _of_loop(case, rank, candidate)
    if candidate.stream is not None and candidate.seq is not None:
        here = case.call(rank, candidate.stream, candidate.seq)
        calls += [here] if here is not None else []
    roles = {call.role for call in calls}
    is_of_ddp = any(role.startswith("ddp.") for role in roles)
    return is_of_ddp and all(role.startswith(_NOT_IN_THE_WAY) for role in roles)


def _of_loop(case: Case, rank: int, candidate: Candidate) -> list[Call]:
    """The calls of the round before a row, and all others before it from the same loop.

    What is done there in each n-th turn only is in few rounds.
    """
    if candidate.stream is None or candidate.seq is None:
        return []
    found = before(case, rank, candidate.stream, candidate.seq)
    if found is None:
        return []
    calls = [c for c in case.before(rank, candidate.stream, candidate.seq) if c is not None]
    own = calls[-found.period :]
    around = [case.loops(case.stack(rank, call)) for call in own]
    shared = [loop for loop in around[-1] if all(loop in loops for loops in around)]
    if not shared:
        return own
    earlier = calls[: -found.period]
    return [c for c in earlier if shared[-1] in case.loops(case.stack(rank, c))] + own


_NOT_IN_THE_WAY: Final = ("ddp.", "zero.", "join.", USER, UNKNOWN)
"""Roles of calls that a joinable's hook answers, or that can be moved out of the loop."""
