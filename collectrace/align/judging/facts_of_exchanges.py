"""Finds who of a circle of waits left out a call that was due, or made one too many.

By how often each rank came to a place in each of its rounds, and by what always followed what.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Final, NamedTuple

from collectrace.align.code.origins import Origin
from collectrace.align.deciding.timeline import Entry
from collectrace.align.judging import led, own_calls
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.judging.evidence import Evidence
from collectrace.align.judging.led import At
from collectrace.align.judging.own_calls import Awaited, awaited, calls_of, entry_of
from collectrace.align.judging.own_round import kept_round, left_own_round
from collectrace.align.matching import habit
from collectrace.align.matching.deviations import CAN_OUTVOTE
from collectrace.align.reading.evidence import ChannelKey, StreamKey
from collectrace.align.reading.vocabulary import CallPlace

_ROUNDS: Final = 2
"""Rounds before, to say how often ranks come to a place in each."""


_Place = CallPlace | str
"""An op and the frames above it, or a frame alone."""


class Odd(NamedTuple):
    """How often ranks came to a place in a round."""

    place: _Place
    made: int
    """How often the odd one did."""
    likes: Mapping[int, int]
    """How often those did that came there as often as it did in each round before."""
    rounds: int
    """Before."""


# -- how often each came to a place ----------------------------------------------------------------


def odd_in_round(case: Case, candidate: Candidate) -> Iterator[Evidence]:
    """Find the rank that alone came to a place more, or less, often in a round than its like.

    In each round before they came there equally often.
    """
    for at in awaited(case, candidate):
        end, here = entry_of(case, at.elsewhere), entry_of(case, at.wait)
        if end is None or here is None:
            continue
        made = {one.place for one in calls_of(case, at.rank) if one.key == at.key}
        places: list[_Place] = [*made, *(here.stack if at.wait.stream is not None else ())]
        found = [odd for place in places if (odd := _fewer(case, at, place, end.place)) is not None]
        for odd in found[:1]:
            yield Evidence("odd_in_round", (at.rank,), shown_by=odd)
        more = _more(case, at, here.place, end.place) if at.wait.channel is not None else None
        if more is not None:
            yield Evidence("odd_in_round", (at.waiter,), shown_by=more)


def _counts(case: Case, place: _Place, end: CallPlace) -> dict[int, list[int]]:
    """Return how often each rank came to a place, or by a line, in each of its rounds."""

    def came(made: Mapping[CallPlace, int]) -> int:
        return sum(n for one, n in made.items() if one == place or place in one[1])

    return {
        rank: [came(made) for made in own_calls.rounds(case, rank, end)]
        for rank in case.evidence.logs
    }


def _fewer(case: Case, at: Awaited, place: _Place, end: CallPlace) -> Odd | None:
    """Return how a rank, which is at the end of its round, came less often to a place."""
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


def _more(case: Case, at: Awaited, place: _Place, end: CallPlace) -> Odd | None:
    """Return how a rank in the midst of its round came more often to a place than those at its end.

    All others are there.
    """
    counts = _counts(case, place, end)
    *before, now = counts.pop(at.waiter)
    likes = {rank: made for rank, made in counts.items() if made[: len(before)] == before}
    others = [made for rank, made in counts.items() if rank not in likes]
    if len(before) < _ROUNDS or any(any(made) for made in others):
        return None
    if any(len(made) < len(before) + 2 or made[len(before)] >= now for made in likes.values()):
        return None
    found = {rank: made[len(before)] for rank, made in likes.items()}
    return Odd(place, now, found, len(before)) if len(found) + 1 >= CAN_OUTVOTE else None


# -- one that serves several ---------------------------------------------------------------------


def odd_hub(case: Case, candidate: Candidate) -> Iterator[Evidence]:
    """Find who of two disagrees with all rounds before about whom one of them serves in a round.

    It exchanged messages with as many ranks in each: then who waits is one too many, or was
    forgotten. Or with every rank of a kind in each, and not with the one that waits.
    """
    for at in awaited(case, candidate):
        channel, served = at.wait.channel, _served(case, at)
        if channel is None or served is None:
            continue
        *before, now = served
        sizes = {len(one) for one in before}
        usual = max(sizes)
        parts = {at.waiter in one for one in before}
        if len(before) >= habit.ENOUGH and len(sizes) == 1 and len(parts) > 1 and len(now) <= usual:
            odd = at.waiter if len(now) == usual else at.rank
            yield Evidence("hub_serves_as_many", (odd,), shown_by=served)
        everybody = {peer for one in before for peer in one}
        is_each = all({*one} == everybody for one in before) and {*now} == everybody - {at.waiter}
        if len(before) >= _ROUNDS and is_each and len(everybody) >= CAN_OUTVOTE:
            yield Evidence("hub_passed_over_one", (at.rank,), shown_by=served)


def _served(case: Case, at: Awaited) -> list[list[int]] | None:
    """Return with whom a rank exchanged such messages as are awaited, per round; the last now.

    A round ends at the next row of a stream to which the waiter has not come, and rounds before
    at those from the same place. None if the rank has not come there, or there are none.
    """
    mine, theirs, key = calls_of(case, at.rank), calls_of(case, at.waiter), at.wait.channel
    last = next((one for one in reversed(theirs) if isinstance(one.key, StreamKey)), None)
    if key is None or key.source < 0 or last is None:
        return None
    end = next((one for one in mine if (one.key, one.seq) == (last.key, last.seq + 1)), None)
    places = {one.place for one in mine if one.key == key}
    if end is None:
        return None
    found: list[list[int]] = []
    now: list[int] = []
    for one in mine[: mine.index(end) + 1]:
        if one.key == end.key:
            found += [now] if one.place == end.place else []
            now = []
        elif one.place in places and isinstance(one.key, ChannelKey):
            peer = one.key.source + one.key.destination - at.rank
            now += [peer] if peer not in now else []
    return found if len(found) > 1 else None


def peer_has_a_choice(case: Case, candidate: Candidate) -> Iterator[Evidence]:
    """Find whom a rank waits for that something may have led elsewhere: it may be the wrong one."""
    for at in awaited(case, candidate):
        made, here = calls_of(case, at.waiter), entry_of(case, at.wait)
        last = next((one for one in reversed(made) if isinstance(one.key, StreamKey)), None)
        if here is not None and last is not None and made.index(here):
            before, ranks = At(*made[made.index(here) - 1].place), (at.waiter, at.waiter)
            answer = led.led(case, ranks, before, At(*last.place), At(*here.place))
            if not answer.decisions and not answer.gaps - led.SEEN:
                continue
        yield Evidence("peer_has_a_choice", (at.rank,))


def by_handler(case: Case, candidate: Candidate) -> Iterator[Evidence]:
    """Find whom nothing but a handler of an exception led out of its round.

    Past the call that is awaited; or to a collective, where who waits kept its round.
    """
    for at in awaited(case, candidate):
        left = left_own_round(case, at.rank)
        if left is None or left.rounds < _ROUNDS or (left.skipped and left.key != at.key):
            continue
        if not left.skipped and (at.elsewhere.stream is None or not kept_round(case, at.waiter)):
            continue
        answer = led.of_departure(case, left)
        if answer.decisions and all(one.origins == (Origin.EXCEPTION,) for one in answer.decisions):
            fact = "left_out_by_handler" if left.skipped else "came_by_handler"
            yield Evidence(fact, (at.rank,), shown_by=left)


# -- what always followed --------------------------------------------------------------------------


def skipped_once(case: Case, candidate: Candidate) -> Iterator[Evidence]:
    """Find who once left out what it had made each time after another call, and is awaited for it.

    A message must be an answer: that other call received one.
    """
    groups = [case.comparison.groups.get(edge.waiting.group) for edge in candidate.cycle]
    if len({rank for info in groups if info is not None for rank in info.ranks}) < CAN_OUTVOTE:
        return
    for at in awaited(case, candidate):
        gap = answer_left_out(case, at)
        if gap is not None:
            yield Evidence("skipped_once", (at.rank,), shown_by=gap)


def answer_left_out(case: Case, at: Awaited) -> Entry | None:
    """Return the one call after which a rank left out what it always made there; None: none."""
    is_to_give = not isinstance(at.key, ChannelKey) or at.key.source == at.rank
    if at.is_from_any or not is_to_give:
        return None
    return _gap(case, at, lambda one: (one.place, one.key)) or _gap(case, at, lambda one: one.place)


def _gap(case: Case, at: Awaited, token: Callable[[Entry], Hashable]) -> Entry | None:
    """Return the one call after which a rank left out what it always made there; None: none."""
    made = calls_of(case, at.rank)
    due = {token(one) for one in made if one.key == at.key}
    names = [token(one) for one in made]
    places = [n for n, name in enumerate(names) if name in due]
    ahead = {names[n - 1] for n in places}
    if len(due) != 1 or len(ahead) != 1 or len(places) < habit.ENOUGH or not places[0]:
        return None
    key = made[places[0] - 1].key
    if isinstance(at.key, ChannelKey) and not (
        isinstance(key, ChannelKey) and key.destination == at.rank
    ):
        return None
    gaps = [n for n in range(len(names) - 1) if {names[n]} == ahead and names[n + 1] not in due]
    is_one = len(gaps) == 1 and {names[gaps[0]]} != due and names[gaps[0] + 1] in names[: gaps[0]]
    return made[gaps[0]] if is_one else None


def answered_unasked(case: Case, candidate: Candidate) -> Iterator[Evidence]:
    """Find who waits in one more message than it got, though it never gave more than that before.

    The other end is at the collective behind the round.
    """
    for at in awaited(case, candidate):
        key, made = at.wait.channel, calls_of(case, at.waiter)
        if key is None or key.source != at.waiter or at.elsewhere.stream is None:
            continue
        back = key._replace(source=key.destination, destination=key.source)
        ahead, known = 0, []
        for one in made:
            ahead += (one.key == back) - (one.key == key)
            known += [ahead] if one.key == key else []
        if len(known) > habit.ENOUGH and min(known[:-1]) >= 0 > known[-1]:
            yield Evidence("answered_unasked", (at.waiter,))
