"""Ranks that finished at the end of a round, where another one began a further round."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from collectrace import words
from collectrace.align.diagnosis import fewer_rounds, inputs, loop_lines
from collectrace.align.diagnosis.callers import named
from collectrace.align.diagnosis.loop_lines import LoopLine
from collectrace.align.diagnosis.standpoint import Standpoint, of_call
from collectrace.align.diagnosis.wording import EVERY_RANK, Reason, called
from collectrace.align.judging import choices
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.reading import chains, statements


def begun(case: Case, candidate: Candidate) -> Reason | None:
    """The others are in an inner loop again, which all had left; the absent finished after that.

    So it is not the inner loop that was shorter on those, as for want of inputs: it is one around
    it. Where a DataLoader's end is known it is asked first.
    """
    came, absent = called(candidate), candidate.absent
    if len(came) != 1 or any(case.standings[rank].state != "finished" for rank in absent):
        return None
    known = inputs.of_candidate(case, candidate)
    if known is not None and known.told_by != "forwards":
        return None
    side, call = came[0]
    point = Standpoint(side.ranks, call, side.stack or ())
    latest = _latest(case, candidate, side.ranks[0])
    if latest is None or not all(_is_as_far(case, candidate, rank, latest) for rank in absent):
        return None
    around = _led_back(case, point, latest)
    if around is None:
        return None
    who, others = words.ranks(absent), words.ranks(side.ranks)
    fewer = fewer_rounds.seen(case, point, absent, around)
    longer = "either that loop ran longer there" if fewer.left_out else "that loop ran longer there"
    or_left = f", or {who} left out a round of it" if fewer.left_out else ""
    return Reason(
        f"{words.upper(who)} finished after {named(case, side.ranks[0], latest.call, brief=True)}; "
        f"{others} began another round of {around.quoted} with "
        f"{named(case, side.ranks[0], call, brief=True)}: {longer}{or_left}."
        f"{inputs.left_over(case, absent, point.stack)}{fewer.cause}",
        "\n".join(
            [
                *([fewer.fix or EVERY_RANK] if fewer.left_out or fewer.fix else []),
                loop_lines.equally_often(around),
            ]
        ),
    )


def _latest(case: Case, candidate: Candidate, rank: int) -> Standpoint | None:
    """Where a rank stood in its call before the row."""
    call = case.last_before(rank, candidate.stream, candidate.seq)
    return of_call(case, rank, call) if call is not None else None


def _is_as_far(case: Case, candidate: Candidate, rank: int, latest: Standpoint) -> bool:
    """Whether a rank's last call came from the same lines."""
    own = _latest(case, candidate, rank)
    return own is not None and tuple(own.stack) == tuple(latest.stack)


def _led_back(case: Case, point: Standpoint, latest: Standpoint) -> LoopLine | None:
    """The one loop that leads back from a call to an inner loop before it; None: none or several.

    The call must stand behind the inner loop, in one function: then it did not come before it in
    the same round.
    """
    inner = loop_lines.loop_of_one(case, point, latest)
    here, there = chains.outermost_apart(point.stack, latest.stack)
    if inner is None or not here or chains.scope(here) != chains.scope(there):
        return None
    if not chains.line(here) < chains.line(there):
        return None
    common = chains.shared(point.stack, latest.stack)
    outer = point.stack[len(point.stack) - common :]
    around = _loops(case, (here, *outer), latest.stack)
    if len(around) != 1:
        return None
    # Who calls the function of the loop otherwise than once may have called it once more.
    frames = (here, *outer)
    further = frames[frames.index(around[0].frame) :]
    return around[0] if all(choices.calls_it_alone(case, *p) for p in pairwise(further)) else None


def _loops(case: Case, frames: Sequence[str], stack: Sequence[str]) -> list[LoopLine]:
    """The loops that frames are in, and another stack as well; innermost first."""
    both = set(case.loops(stack))
    return [
        LoopLine(frame, line, case.code)
        for frame in frames
        for line in reversed(statements.loops(case.statements(chains.site(frame))))
        if (chains.file(frame), line) in both
    ]
