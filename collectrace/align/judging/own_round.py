"""Where a rank left the round that it repeats, by all that it did over its groups and channels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from collectrace.align.judging.case import Case, once_of
from collectrace.align.matching import habit, programs
from collectrace.align.matching.programs import Key, Program
from collectrace.align.reading.evidence import ChannelKey, StreamKey
from collectrace.records import Call

_LATEST: Final = 16
"""A rank's last calls, among which it may have left its own round."""


class LeftRound(NamedTuple):
    """Where a rank left the round that it had repeated."""

    rank: int
    made: Call
    usual: Call
    """What it had called there in every round before."""
    before: Call | None
    """What it had called before either."""
    key: Key
    """The stream or channel of the usual call."""
    extra: int
    """How many calls it made before it went on with its round; 0: it did not go on with it."""
    skipped: int
    """How many calls of the round stand before the one made; 0: that is none of the round's."""
    rounds: int
    """Equal rounds before, as far as was looked."""
    row: int
    """How many such calls in a row this one was; 1 where it called something else before."""


@once_of
def left_own_round(case: Case, rank: int) -> LeftRound | None:
    """What a rank called last out of its own round, as it had never done after such a round.

    None where it went on with its round, or had repeated none. That proves nothing against it: a
    round may change. If what comes between its messages changes, the messages alone may be a round,
    of which it skipped some.
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
        if place is None or steps[place] == steps[at] or _ended_so(steps, place, at) > 1:
            continue
        made, usual = program.call(at), program.call(place)
        if made is None or usual is None or made.thread != usual.thread:
            return None  # calls of several threads have no order to leave
        extra = _extra(steps, place, at)
        if not extra and steps[place] in steps[at + 1 :]:
            continue  # it was put off, and has been made since
        if extra and not _is_insertion(steps, place, at, extra):
            return None  # it went through it in no order that is known
        ahead = steps[place:at]
        skipped = 0 if extra else next((n for n, s in enumerate(ahead) if s == steps[at]), 0)
        since = range(at, at + extra if extra else len(steps))
        if not skipped and _went_along(case, program, since):
            return None  # it goes through more than one kind of round
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
        is_same = program.sources[place] == program.sources[at] and places_alike(made, usual)
        if not is_same or extra or steps[at] in steps[:at]:
            return left
        # The same call by a way that is new: what it did behind tells whether it left its round.
        otherwise = otherwise or left
        steps[at] = steps[place]
    return otherwise


def places_alike(one: Call, two: Call) -> bool:
    """Whether two calls are of one op, and of one line, whoever called its function."""
    return (one.op, one.site) == (two.op, two.site)


def _went_along(case: Case, program: Program, at: range) -> bool:
    """Whether others took part in some of these calls: then it was none that one made alone."""
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
    """How many steps were made before a rank went on with its round; 0: it did not."""
    ahead = steps[place:]
    lengths = range(1, len(steps) - at)
    return next((n for n in lengths if steps[at + n :] == ahead[: len(steps) - at - n]), 0)


def _is_insertion(steps: Sequence[int], place: int, at: int, extra: int) -> bool:
    """Whether calls were put into a round: none of the round's, or a whole round came after."""
    is_foreign = not {*steps[at : at + extra]} & {*steps[place:at]}
    return is_foreign or len(steps) - at - extra >= at - place


def _ended_so(steps: Sequence[int], place: int, at: int) -> int:
    """How often the round before ``at`` was followed by what followed it there."""
    length = at - place
    round_ = steps[place:at]
    return sum(
        step == steps[at] and steps[n - length : n] == round_
        for n, step in enumerate(steps)
        if n >= length
    )


@once_of
def frames_of(case: Case, rank: int) -> frozenset[str]:
    """Return the user's frames above all calls of a rank."""
    log = case.log(rank)
    if log is None:
        return frozenset()
    rows = [log.rows(key)[0] for key in log.last_seq]
    rows += [log.channel_rows(key) for key in log.last_channel_seq]
    seen = (one.vocabulary.appearances[n].where for one in rows for n in set(one.appearance))
    return frozenset(frame for frames in seen for frame in frames)


@once_of
def program_of(case: Case, rank: int) -> Program | None:
    """All that a rank did; None where some of it is not known."""
    log = case.log(rank)
    if log is None or not programs.is_whole(log):
        return None
    groups, steps = case.comparison.groups, programs.Steps()
    return programs.read(log, groups, case.dimensions, steps, finished=False)


@once_of
def messages_of(case: Case, rank: int) -> Program | None:
    """Return the messages alone of what a rank did; None: its last call is none, or not known."""
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
    """Whether a rank is seen to be where its round had led it each time."""
    return any(map(_kept, (program_of(case, rank), messages_of(case, rank))))


def _kept(program: Program | None) -> bool:
    steps = program.steps if program is not None else ()
    place = habit.expected(steps, len(steps) - 1) if steps else None
    return place is not None and steps[place] == steps[-1]
