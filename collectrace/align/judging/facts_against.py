"""Find facts that protect ranks: a message may have ordered or announced their departure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from collectrace.align.code.decisions import Answer
from collectrace.align.code.origins import Origin
from collectrace.align.deciding.timeline import Entry
from collectrace.align.judging import announced, led, own_calls
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.candidates import awaited_call
from collectrace.align.judging.case import Case, once
from collectrace.align.judging.evidence import Evidence
from collectrace.align.judging.facts_of_exchanges import skipped_answer
from collectrace.align.judging.led import At
from collectrace.align.judging.own_calls import Awaited, awaited, calls_of, entry_of
from collectrace.align.judging.own_round import left_own_round
from collectrace.align.reading.evidence import ChannelKey


def first_message(_: Case, candidate: Candidate) -> Iterator[Evidence]:
    """Find ranks in the first message of a channel: the other end may have forgotten it."""
    for edge in candidate.cycle:
        if edge.waiting.channel is not None and edge.waiting.seq == 1:
            yield Evidence("first_message", (edge.waiting.rank,))


def was_told(case: Case, candidate: Candidate) -> Iterator[Evidence]:
    """Find ranks that got integers, or a few elements from a root, before their current wait."""
    ranks = candidate.group.ranks if candidate.group is not None else ()
    for rank in {*ranks, *(edge.waiting.rank for edge in candidate.cycle)}:
        calls = [awaited_call(case, wait) for wait in case.standings[rank].waiting]
        if any(call is not None and announced.may_have_command(case, rank, call) for call in calls):
            yield Evidence("was_told", (rank,))


def by_a_message(case: Case, candidate: Candidate) -> Iterator[Evidence]:
    """Find ranks that skipped a call because of a message with content that the waiter knows.

    A rank that serves several others from one line does not count: they do not control it. Only
    messages that come once per iteration count as commands; more frequent ones are data.
    """
    for at in awaited(case, candidate):
        answer, gap = _departure(case, at), skipped_answer(case, at)
        is_known = answer is not None and not answer.gaps - led.SEEN
        reads = answer is not None and any(Origin.RECEIVED in d.origins for d in answer.decisions)
        if is_known and not reads:
            continue
        made, theirs = calls_of(case, at.rank), calls_of(case, at.waiter)
        places = {one.place for one in made if one.key == at.key}
        served = {one.key for one in made if one.place in places}
        orders = [gap] if gap is not None else _once_in_each_round(case, at)
        told = _sources(theirs, at.waiter) | {at.waiter}
        if _sources(orders, at.rank) & told and len(served) == 1:
            yield Evidence("by_a_message", (at.rank,))


def _once_in_each_round(case: Case, at: Awaited) -> list[Entry]:
    """Return the calls of a rank from places that it passes once per iteration."""
    end, made = entry_of(case, at.elsewhere), calls_of(case, at.rank)
    if end is None:
        return []
    whole = own_calls.rounds(case, at.rank, end.place)[:-1]
    return [
        one
        for one in made
        if one.place == end.place or all(counts[one.place] == 1 for counts in whole)
    ]


def _sources(made: Iterable[Entry], rank: int) -> set[int]:
    """Return the ranks that a rank received messages from."""
    keys = (one.key for one in made)
    return {key.source for key in keys if isinstance(key, ChannelKey) and key.destination == rank}


def told_the_waiter(case: Case, candidate: Candidate) -> Iterator[Evidence]:
    """Find ranks that may have announced to the waiter that the awaited call will not come.

    That takes integers, or, for messages, a few elements of any dtype sent once per iteration.
    """
    for at in awaited(case, candidate):
        log, until = case.log(at.rank), awaited_call(case, at.elsewhere)
        if log is None or until is None:
            continue
        once = {one.place for one in _once_in_each_round(case, at)}
        for told in announced.calls_between(log, end=announced.offset_of(log, until)):
            key, call = told.key, told.call
            if not isinstance(key, ChannelKey):
                continue
            if (key.source, key.destination) != (at.rank, at.waiter):
                continue
            says = (call.op, told.where) in once and isinstance(at.key, ChannelKey)
            if announced.carries_numbers(call) or (says and announced.is_small(call)):
                yield Evidence("told_the_waiter", (at.rank,))


def by_a_plan(case: Case, candidate: Candidate) -> Iterator[Evidence]:
    """Find ranks that skipped a call by constants, or by a table that all ranks have."""
    for at in awaited(case, candidate):
        answer = _departure(case, at)
        if answer is not None and led.is_planned(case, at.rank, answer):
            yield Evidence("by_a_plan", (at.rank,))


def ordered_by_waiter(case: Case, candidate: Candidate) -> Iterator[Evidence]:
    """Find ranks that followed their latest message, if the rank that waits for them sent it."""
    for at in awaited(case, candidate):
        got = [one for one in calls_of(case, at.rank)[:-1] if _is_to(one, at.rank)]
        answer = _departure(case, at)
        is_read = answer is not None and any(map(led.depends_on_message, answer.decisions))
        if (
            is_read
            and isinstance(at.key, ChannelKey)
            and got
            and _sources(got[-1:], at.rank) == {at.waiter}
        ):
            yield Evidence("ordered_by_waiter", (at.rank,))


def _is_to(entry: Entry, rank: int) -> bool:
    return isinstance(entry.key, ChannelKey) and entry.key.destination == rank


def shared_by_rank(case: Case, candidate: Candidate) -> Iterator[Evidence]:
    """Find ranks led by a loop or comparison with their rank: others may have a larger share."""
    for at in awaited(case, candidate):
        answer = _departure(case, at)
        if answer is not None and any(map(led.shares_by_rank, answer.decisions)):
            yield Evidence("shared_by_rank", (at.rank,))


@once
def _departure(case: Case, at: Awaited) -> Answer | None:
    """Return what can have made a rank skip the awaited call; None if it never made such a call."""
    left = left_own_round(case, at.rank)
    if left is not None and left.key == at.key:
        return led.statements_of_departure(case, left)
    made, here = calls_of(case, at.rank), entry_of(case, at.elsewhere)
    gap = skipped_answer(case, at)
    here = made[made.index(gap) + 1] if gap is not None else here
    usual = next((one for one in reversed(made) if one.key == at.key), None)
    if usual is None or here is None or not made.index(here):
        return None
    before = At(*made[made.index(here) - 1].place)
    return led.deciding_statements(
        case, (at.rank, at.rank), before, At(*here.place), At(*usual.place)
    )
