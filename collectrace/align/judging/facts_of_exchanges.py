"""Find the ranks of a wait cycle that skipped a call that was due.

The evidence is how often each rank passed a place per iteration, and what always followed a call.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Final, NamedTuple

from collectrace.align.code.origins import Origin
from collectrace.align.deciding.timeline import Entry
from collectrace.align.judging import led, own_calls
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case, once
from collectrace.align.judging.evidence import Evidence
from collectrace.align.judging.led import At
from collectrace.align.judging.own_calls import (
    Awaited,
    awaited,
    calls_of,
    entry_of,
)
from collectrace.align.judging.own_round import kept_round, left_own_round, program_of
from collectrace.align.matching import habit
from collectrace.align.matching.deviations import CAN_OUTVOTE
from collectrace.align.reading.evidence import ChannelKey, StreamKey
from collectrace.align.reading.vocabulary import CallPlace

_ROUNDS: Final = 2
"""Fewest earlier iterations for counts per iteration."""


_Place = CallPlace | str
"""An op and the frames above it, or a single frame."""


class Odd(NamedTuple):
    """How often ranks passed a place in an iteration."""

    place: _Place
    made: int
    """How often the odd rank passed it."""
    likes: Mapping[int, int]
    """By peer, how often it passed it. Peers had the same counts in all iterations before."""
    rounds: int
    """Iterations before."""


# -- how often each rank passed a place ------------------------------------------------------------


def odd_in_round(case: Case, candidate: Candidate) -> Iterator[Evidence]:
    """Find the only rank that passed a place less often in an iteration than its peers.

    In each iteration before, they passed it equally often.
    """
    for at in awaited(case, candidate):
        end, here = entry_of(case, at.elsewhere), entry_of(case, at.wait)
        if end is None or here is None:
            continue
        made = dict.fromkeys(one.place for one in calls_of(case, at.rank) if one.key == at.key)
        places: list[_Place] = [*made, *(here.stack if at.wait.stream is not None else ())]
        found = (_find_odd(case, at, place, end.place) for place in places)
        odd = next((one for one in found if one is not None), None)
        if odd is not None:
            yield Evidence("odd_in_round", (at.rank,), shown_by=odd)


def _counts(case: Case, place: _Place, end: CallPlace) -> dict[int, list[int]]:
    """Return how often each rank passed a place or line, in each of its iterations."""

    def came(made: Mapping[CallPlace, int]) -> int:
        return sum(n for one, n in made.items() if one == place or place in one[1])

    return {
        rank: [came(made) for made in own_calls.rounds(case, rank, end)]
        for rank in case.evidence.logs
    }


def _find_odd(case: Case, at: Awaited, place: _Place, end: CallPlace) -> Odd | None:
    """Return how a rank at the end of its iteration passed a place less often than its peers."""
    counts = _counts(case, place, end)
    *before, now, _ = counts.pop(at.rank)
    counts.pop(at.waiter, None)
    likes = {rank: made for rank, made in counts.items() if made[: len(before)] == before}
    others = [made for rank, made in counts.items() if rank not in likes]
    done = {rank: made[len(before)] for rank, made in likes.items() if len(made) > len(before)}
    over = {rank: n for rank, n in done.items() if n > now}
    is_even = all(rank in over or len(likes[rank]) == len(before) + 1 for rank in done)
    if len(before) < _ROUNDS or not is_even or any(any(made) for made in others):
        return None
    if not any(before) and (at.wait.channel is not None or len(over) < len(counts)):
        return None
    return Odd(place, now, over, len(before)) if len(over) + 1 >= CAN_OUTVOTE else None


def fewest_to_any(case: Case, candidate: Candidate) -> Iterator[Evidence]:
    """Find the only rank that sent one message fewer than its peers to a receiver from any rank.

    It has gone on, so it does not wait for that receiver. Peers send from the same line. With one
    message more, the receiver would have had all that it asked for.
    """
    for edge in candidate.cycle:
        channel = edge.waiting.channel
        if channel is None or channel.source >= 0:
            continue
        sent: dict[int, int] = {}
        lines: set[CallPlace] = set()
        for rank, key in case.sent_to_any(channel).items():
            made = [one for one in calls_of(case, rank) if one.key == key]
            sent[rank] = len(made)
            lines |= {one.place for one in made}
        fewest = min(sent, key=lambda rank: sent[rank], default=None)
        others = {n for rank, n in sent.items() if rank != fewest}
        if fewest is None or len(sent) < CAN_OUTVOTE or len(lines) != 1 or len(others) != 1:
            continue
        waits = case.standings[fewest].waiting
        is_served = any(one.channel and one.channel.source == channel.destination for one in waits)
        each = others.pop()
        is_one_less = each - 1 == sent[fewest] and edge.waiting.seq == each * len(sent)
        if is_one_less and sent[fewest] >= habit.ENOUGH and waits and not is_served:
            yield Evidence("fewest_to_any", (fewest,))


# -- one rank that serves several ----------------------------------------------------------------


def odd_hub(case: Case, candidate: Candidate) -> Iterator[Evidence]:
    """Find the odd one of two ranks, by whom one of them served in all iterations before.

    First case: it served equally many ranks each time, but different ones. Then either the waiter
    is one too many, or it was forgotten. Second case: it served every rank of a kind each time, and
    now skipped the waiter. All ranks it served must be at the end of this iteration, and so must
    most of the group.
    """
    for at in awaited(case, candidate):
        served = _served(case, at)
        if served is None or at.waiter in served[-1]:
            continue
        *before, now = served
        sizes, parts = {len(one) for one in before}, {at.waiter in one for one in before}
        if len(before) >= habit.ENOUGH and len(sizes) == 1 and len(parts) > 1:
            usual = sizes.pop()
            odd = (at.waiter,) if len(now) == usual else (at.rank,)
            if len(now) <= usual:
                yield Evidence("hub_serves_as_many", odd, shown_by=served)
        everybody = {peer for one in before for peer in one}
        is_each = all({*one} == everybody for one in before) and {*now} == everybody - {at.waiter}
        if len(before) >= _ROUNDS and is_each and len(everybody) >= CAN_OUTVOTE:
            yield Evidence("hub_passed_over_one", (at.rank,), shown_by=served)


def _served(case: Case, at: Awaited) -> list[list[int]] | None:
    """Return the peers of such messages as are awaited, for each iteration; the current one last.

    The current iteration ends at the next collective that the waiter lacks, earlier ones at
    collectives from the same place. None if it is not over, or if there are none.
    """
    mine, theirs, key = calls_of(case, at.rank), calls_of(case, at.waiter), at.wait.channel
    last = next((one for one in reversed(theirs) if isinstance(one.key, StreamKey)), None)
    if key is None or last is None or not isinstance(last.key, StreamKey):
        return None
    end = next((one for one in mine if (one.key, one.seq) == (last.key, last.seq + 1)), None)
    if end is None or at.is_from_any:
        return None
    places = {one.place for one in mine if one.key == key}
    found: list[list[int]] = []
    now: list[int] = []
    for one in mine[: mine.index(end) + 1]:
        if one.key == end.key:
            found += [now] if one.place == end.place else []
            now = []
        elif one.place in places and isinstance(one.key, ChannelKey):
            now.append(one.key.source + one.key.destination - at.rank)
    ranks = case.comparison.groups[last.key.group].ranks
    came = {
        rank
        for rank in ranks
        if (log := case.log(rank)) is not None and log.last_seq.get(last.key, 0) >= end.seq
    }
    is_over = len(found) > 1 and {*found[-1]} <= came and 2 * len(came) > len(ranks)
    return found if is_over else None


def peer_has_a_choice(case: Case, candidate: Candidate) -> Iterator[Evidence]:
    """Find awaited ranks that something may have led elsewhere: they may be the wrong ones."""
    for at in awaited(case, candidate):
        if not has_no_choice(case, at):
            yield Evidence("peer_has_a_choice", (at.rank,))


def has_no_choice(case: Case, at: Awaited) -> bool:
    """Whether only agreed values lead to the waiter's wait instead of its last collective.

    If it made no collective, its last call of the other's stream or channel counts. A receive from
    any rank always has a choice.
    """
    made, due = calls_of(case, at.waiter), at.elsewhere.channel or at.elsewhere.stream
    collective = (one for one in reversed(made) if isinstance(one.key, StreamKey))
    usual = next(collective, next((one for one in reversed(made) if one.key == due), None))
    if usual is None or len(made) < _ROUNDS or at.is_from_any:
        return False
    before, here = (At(*one.place) for one in made[-2:])
    answer = led.deciding_statements(case, (at.waiter, at.waiter), before, At(*usual.place), here)
    return bool(answer.dropped) and not answer.decisions and not answer.gaps - led.SEEN


def by_handler(case: Case, candidate: Candidate) -> Iterator[Evidence]:
    """Find ranks that only an exception handler can have led out of their usual iteration.

    They skipped the awaited call, or went on to a collective while the waiter kept its iteration.
    """
    for at in awaited(case, candidate):
        left = left_own_round(case, at.rank)
        if left is None or left.rounds < _ROUNDS or (left.skipped and left.key != at.key):
            continue
        if not left.skipped and (at.elsewhere.stream is None or not kept_round(case, at.waiter)):
            continue
        answer = led.statements_of_departure(case, left)
        if answer.decisions and all(one.origins == (Origin.EXCEPTION,) for one in answer.decisions):
            fact = "left_out_by_handler" if left.skipped else "came_by_handler"
            yield Evidence(fact, (at.rank,), shown_by=left)


# -- what always followed --------------------------------------------------------------------------


def skipped_once(case: Case, candidate: Candidate) -> Iterator[Evidence]:
    """Find ranks that once skipped a call that had always followed another, and that is awaited.

    A message must be an answer: the call before it is a receive, which happened again since. A
    collective counts if nobody else departed from its iterations.
    """
    awaited_in = {edge.waiting.group for edge in candidate.cycle}
    groups = map(case.comparison.groups.get, awaited_in)
    ranks = {rank for info in groups if info is not None for rank in info.ranks}
    for at in awaited(case, candidate):
        gap = skipped_answer(case, at) if len(ranks) >= CAN_OUTVOTE else None
        if gap is None:
            continue
        if isinstance(at.key, ChannelKey):
            if _is_by_content(case, at, gap):
                yield Evidence("kept_an_answer", (at.rank,), shown_by=gap)
        elif not any(_has_departed(case, rank) for rank in ranks - {at.rank}):
            yield Evidence("skipped_call_once", (at.rank,), shown_by=gap)


def _is_by_content(case: Case, at: Awaited, gap: Entry) -> bool:
    """Whether received data, or values computed from it, may have made a rank skip an answer.

    No other messages to the waiter may announce that, and the ranks concerned may not have
    departed.
    """
    made = calls_of(case, at.rank)
    n = made.index(gap)
    usual = next(one for one in made if one.key == at.key)
    if not all(" " in frame for frame in (*gap.place[1], *usual.place[1])):
        return False  # what the callers decided is not known
    answer = led.deciding_statements(
        case, (at.rank, at.rank), *(At(*one.place) for one in (gap, made[n + 1], usual))
    )
    read = {origin for one in answer.decisions for origin in one.origins}
    ways = {
        one.key
        for one in made
        if isinstance(one.key, ChannelKey)
        and (one.key.source, one.key.destination) == (at.rank, at.waiter)
    }
    sources = {gap.key.source if isinstance(gap.key, ChannelKey) else at.rank, at.waiter}
    is_kept = not any(_has_departed(case, rank) for rank in sources - {at.rank} if rank >= 0)
    return (
        bool(read & {Origin.RECEIVED, Origin.STATE, Origin.CHOSEN, Origin.DATA})
        and ways == {at.key}
        and is_kept
    )


def _has_departed(case: Case, rank: int) -> bool:
    """Whether a rank has left its usual iteration, or is in a call that is new to it."""
    program = program_of(case, rank)
    return program is None or program.ends_anew or left_own_round(case, rank) is not None


@once
def skipped_answer(case: Case, at: Awaited) -> Entry | None:
    """Return the only call after which a rank skipped what always followed there, or None."""
    is_to_give = not isinstance(at.key, ChannelKey) or at.key.source == at.rank
    if at.is_from_any or not is_to_give:
        return None
    found = _call_before_skip(case, at, lambda one: (one.place, one.key))
    made = calls_of(case, at.rank)
    places = {one.place for one in made if one.key == at.key}
    serves_several = len({one.key for one in made if one.place in places}) > 1
    return found or (_call_before_skip(case, at, lambda one: one.place) if serves_several else None)


def _call_before_skip(case: Case, at: Awaited, token: Callable[[Entry], Hashable]) -> Entry | None:
    made = calls_of(case, at.rank)
    due = {token(one) for one in made if one.key == at.key}
    names = [token(one) for one in made]
    places = [n for n, name in enumerate(names) if name in due]
    ahead = {names[n - 1] for n in places}
    if len(due) != 1 or len(ahead) != 1 or len(places) < habit.ENOUGH or not places[0]:
        return None
    key = made[places[0] - 1].key
    is_message = isinstance(at.key, ChannelKey)
    if is_message and not (isinstance(key, ChannelKey) and key.destination == at.rank):
        return None
    if is_message and any(one.key == key and token(one) not in ahead for one in made):
        return None  # not every such receive is answered
    gaps = [n for n in range(len(names) - 1) if {names[n]} == ahead and names[n + 1] not in due]
    if len(gaps) != 1 or names[gaps[0] + 1] not in names[: gaps[0]]:
        return None
    is_again = bool(ahead & {*names[gaps[0] + 1 :]})
    return made[gaps[0]] if is_again or not is_message else None
