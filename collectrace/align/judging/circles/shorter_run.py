"""A rank that made fewer of one call in a row than in every round before, and then went on.

As a stage of a pipeline does that cuts a smaller batch into fewer microbatches than the others
count on. Who waits for one more in such a row has chosen to go on with it: another way through the
round would have led it elsewhere by now.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import NamedTuple

from collectrace.align.judging import announced, choices
from collectrace.align.judging.case import Case
from collectrace.align.judging.own_round import LeftRound, kept_round, program_of
from collectrace.align.matching import habit
from collectrace.align.ranks import waitgraph
from collectrace.align.reading.evidence import ChannelKey


class ShorterRun(NamedTuple):
    """How often a rank made a call in a row."""

    now: int
    usual: int
    """In each of the rows before, which were all of one length."""
    before: int
    """Rows before, at least ``habit.ENOUGH``."""


def shorter_run(case: Case, left: LeftRound) -> ShorterRun | None:
    """How the row was shorter in which a rank left its round; None: it left it in none."""
    program = program_of(case, left.rank)
    if program is None or not left.skipped:
        return None
    steps = program.steps
    at = next((n for n in reversed(range(len(steps))) if program.call(n) == left.made), 0)
    place = habit.expected(steps, at)
    found = _run(steps, at, steps[place]) if place is not None else None
    return found if found is not None and found.now < found.usual else None


def number_told(case: Case, left: LeftRound, ranks: Collection[int]) -> announced.Told | None:
    """What may have told how many calls such a row was to have; None: nothing did, or no row.

    A message between these ranks, or what one of them gave all, made once for each of the rows and
    ahead of it.
    """
    run, log = shorter_run(case, left), case.log(left.rank)
    if run is None or log is None:
        return None
    begin, end = (announced.offset_of(log, call) for call in (left.usual, left.made))
    ahead_of = min(told.first for told in announced.between(log, begin - 1, begin + 1))
    for told in announced.between(log, begin, end):
        key, members = told.key, case.comparison.groups[told.key.group].ranks
        if isinstance(key, ChannelKey):
            is_among = {key.source, key.destination} <= {*ranks}
        else:
            is_among = told.call.op in ("broadcast", "scatter") and {*ranks} <= {*members}
        is_ahead = told.first < ahead_of and told.times == run.before + 1
        if is_among and is_ahead and announced.may_tell(told, members):
            return told
    return None


def loop_that_ended(case: Case, left: LeftRound) -> tuple[str, str] | None:
    """The loop whose end alone can have led a rank past its usual call; None: more may have.

    As a frame of that call, and ``number text``.
    """
    usual, made = (case.stack(left.rank, call) for call in (left.usual, left.made))
    past = choices.of_call(case, usual, made) or []
    loops = ((frame, loop) for frame in usual for _, loop in case.loops((frame,)))
    return next((one for one in loops if [one[1]] == past), None)


def all_go_on(case: Case, left: LeftRound, others: Sequence[int]) -> bool:
    """Whether one rank ended a row of calls early, and each other goes on with one of its own.

    All wait for that rank, be it through others.
    """
    return shorter_run(case, left) is not None and all(
        left.rank in waitgraph.reachable(case.graph, rank) and _goes_on(case, rank)
        for rank in others
    )


def _goes_on(case: Case, rank: int) -> bool:
    """Whether a rank is at one more call of a row, which is no longer by that than it ever was."""
    program = program_of(case, rank)
    if program is None or not program.steps or not kept_round(case, rank):
        return False
    steps = program.steps
    found = _run(steps, len(steps) - 1, steps[-1])
    return found is not None and found.now < found.usual


def _run(steps: Sequence[int], at: int, step: int) -> ShorterRun | None:
    """The row of a step that the steps before a position are in; None: they are in none.

    A row are those that follow each other as closely as any do. None either where those before
    were of several lengths, or too few.
    """
    places = [n for n in range(at) if steps[n] == step]
    gaps = [later - earlier for earlier, later in pairwise(places)]
    stride = min(gaps, default=0)
    if not stride or at - places[-1] != stride:
        return None
    lengths = [1]
    for gap in gaps:
        if gap == stride:
            lengths[-1] += 1
        else:
            lengths.append(1)
    *before, now = lengths
    if len(before) < habit.ENOUGH or len(set(before)) != 1:
        return None
    return ShorterRun(now, before[0], len(before))
