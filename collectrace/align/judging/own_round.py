"""Find where a rank left the sequence of calls that it repeats, over all groups and channels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from collectrace.align.judging.case import Case, once
from collectrace.align.matching import habit, programs
from collectrace.align.matching.programs import Program
from collectrace.align.reading.evidence import ChannelKey, Key, StreamKey
from collectrace.records import Call

_LATEST: Final = 16
"""Latest calls of a rank among which the departure is searched."""


class LeftRound(NamedTuple):
    """The point at which a rank left its usual iteration."""

    rank: int
    made: Call
    usual: Call
    """What it called there in every iteration before."""
    before: Call | None
    """The call before both."""
    key: Key
    """The stream or channel of the usual call."""
    extra: int
    """Extra calls before it continued its iteration; 0: it did not continue it."""
    skipped: int
    """Calls of the iteration that it skipped; 0: the call made is new to the iteration."""
    rounds: int
    """Equal iterations before, as far as they were examined."""
    row: int
    """Length of the run of such calls that ends with this one; 1 if another call precedes it."""


@once
def left_own_round(case: Case, rank: int) -> LeftRound | None:
    """Return the latest call that left a rank's usual iteration in a new way.

    None if the rank kept its iteration, or repeated none. A departure proves nothing by itself, as
    an iteration may change. If the calls between its messages vary, the messages alone may form the
    iteration, of which it skipped some.
    """
    program = program_of(case, rank)
    found = _left(case, program) if program is not None else None
    messages = messages_of(case, rank) if found is None else None
    alone = _left(case, messages) if messages is not None else None
    return alone if alone is not None and alone.skipped else found


def _left(case: Case, program: Program) -> LeftRound | None:
    steps, otherwise = list(program.steps), None
    for at in range(max(0, len(steps) - _LATEST), len(steps)):
        place = habit.expected(steps, at)
        if place is None or steps[place] == steps[at] or _times_followed(steps, place, at) > 1:
            continue
        made, usual = program.call(at), program.call(place)
        if made is None or usual is None or made.thread != usual.thread:
            return None  # calls of several threads have no order
        extra = _extra(steps, place, at)
        if not extra and steps[place] in steps[at + 1 :]:
            continue  # it was only postponed
        if extra and not _is_insertion(steps, place, at, extra):
            return None  # it made the calls of the iteration in an unknown order
        ahead = steps[place:at]
        skipped = 0 if extra else next((n for n, s in enumerate(ahead) if s == steps[at]), 0)
        since = range(at, at + extra if extra else len(steps))
        if not skipped and _others_took_part(case, program, since):
            return None  # it has more than one kind of iteration
        left = LeftRound(
            rank=program.rank,
            made=made,
            usual=usual,
            before=program.call(at - 1),
            key=program.keys[program.sources[place]],
            extra=extra,
            skipped=skipped,
            rounds=habit.agreeing(steps, place, at) // (at - place) + 1,
            row=next((n for n in range(1, at + 1) if steps[at - n] != steps[at]), at + 1),
        )
        is_same = program.sources[place] == program.sources[at] and are_same_line(made, usual)
        if not is_same or extra or steps[at] in steps[:at]:
            return left
        # The same call from a new caller: what follows shows whether it left its iteration.
        otherwise = otherwise or left
        steps[at] = steps[place]
    return otherwise


def are_same_line(one: Call, two: Call) -> bool:
    """Whether two calls have the same op and line, regardless of the callers."""
    return (one.op, one.site) == (two.op, two.site)


def _others_took_part(case: Case, program: Program, at: range) -> bool:
    """Whether other ranks took part in some of these calls, so that they were not extra."""
    for n in at:
        key, row = program.keys[program.sources[n]], program.rows[n]
        done = program.log.dones.get(key) if isinstance(key, StreamKey) else None
        if isinstance(key, ChannelKey) or done is None or done.seq < row:
            continue
        members = case.comparison.groups[key.group].ranks
        if any(case.call(rank, key, row) is not None for rank in members if rank != program.rank):
            return True
    return False


def _extra(steps: Sequence[int], place: int, at: int) -> int:
    """Return the extra steps before a rank continued its iteration; 0 if it did not."""
    ahead = steps[place:]
    lengths = range(1, len(steps) - at)
    return next((n for n in lengths if steps[at + n :] == ahead[: len(steps) - at - n]), 0)


def _is_insertion(steps: Sequence[int], place: int, at: int, extra: int) -> bool:
    """Whether extra calls are all new to the iteration, or a whole iteration followed them."""
    is_foreign = not {*steps[at : at + extra]} & {*steps[place:at]}
    return is_foreign or len(steps) - at - extra >= at - place


def _times_followed(steps: Sequence[int], place: int, at: int) -> int:
    """Return how often the iteration before ``at`` was followed by the same step."""
    length = at - place
    round_ = steps[place:at]
    return sum(
        step == steps[at] and steps[n - length : n] == round_
        for n, step in enumerate(steps)
        if n >= length
    )


@once
def frames_of(case: Case, rank: int) -> frozenset[str]:
    """Return the user's frames above all calls of a rank."""
    log = case.log(rank)
    if log is None:
        return frozenset()
    rows = [log.rows(key)[0] for key in log.counts]
    seen = (one.vocabulary.appearances[n].where for one in rows for n in set(one.appearance))
    return frozenset(frame for frames in seen for frame in frames)


@once
def program_of(case: Case, rank: int) -> Program | None:
    """Return all calls of a rank, or None if some are not known."""
    log = case.log(rank)
    if log is None or not programs.is_whole(log):
        return None
    groups, steps = case.comparison.groups, programs.Steps()
    return programs.read(log, groups, case.dimensions, steps, finished=False)


@once
def messages_of(case: Case, rank: int) -> Program | None:
    """Return only the messages of a rank; None if its last call is none or is not known."""
    program = program_of(case, rank)
    if program is None or not program.sources:
        return None
    keys = [program.keys[source] for source in program.sources]
    at = [n for n, key in enumerate(keys) if isinstance(key, ChannelKey)]
    if not isinstance(keys[-1], ChannelKey):
        return None
    steps, sources, rows = (
        [column[n] for n in at] for column in (program.steps, program.sources, program.rows)
    )
    return replace(program, steps=steps, sources=sources, rows=rows)


def kept_round(case: Case, rank: int) -> bool:
    """Whether a rank's last call is the one that its iterations always led to."""
    return any(map(_kept, (program_of(case, rank), messages_of(case, rank))))


def _kept(program: Program | None) -> bool:
    steps = program.steps if program is not None else ()
    place = habit.expected(steps, len(steps) - 1) if steps else None
    return place is not None and steps[place] == steps[-1]
