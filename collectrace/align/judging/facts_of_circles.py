"""Find the ranks of a wait cycle that left the common program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from collectrace.align.code.origins import Origin
from collectrace.align.judging import led, places
from collectrace.align.judging.alone import can_admit_only
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.candidates import awaited_call
from collectrace.align.judging.case import Case, once
from collectrace.align.judging.evidence import Evidence, sites_of
from collectrace.align.judging.facts_of_exchanges import has_no_choice
from collectrace.align.judging.led import At
from collectrace.align.judging.own_calls import (
    Awaited,
    awaited,
    calls_of,
    entry_of,
    only_gives_back,
)
from collectrace.align.judging.own_round import (
    LeftRound,
    frames_of,
    kept_round,
    left_own_round,
)
from collectrace.align.matching import habit
from collectrace.align.matching.deviations import CAN_OUTVOTE
from collectrace.align.reading import chains
from collectrace.align.reading.evidence import StreamKey
from collectrace.records import Call

_ROUNDS: Final = 2
"""Fewest equal iterations before a departure."""


# -- by the iterations of each rank ------------------------------------------------------------


@once
def left_rounds(case: Case, candidate: Candidate) -> Sequence[LeftRound]:
    """Return how ranks left their iterations, if all in the same way and all others kept theirs."""
    members = _members(case, candidate)
    if len(members) < CAN_OUTVOTE:
        return ()
    found = [one for rank in members if (one := left_own_round(case, rank)) is not None]
    others = [rank for rank in members if rank not in {one.rank for one in found}]
    if not {edge.waiting.rank for edge in candidate.cycle} - {*others}:
        return ()
    if len({_departure_of(case, one) for one in found}) != 1 or not _is_habit(case, found, others):
        return ()
    is_kept = all(case.standings[r].waiting and kept_round(case, r) for r in others)
    return found if is_kept and len(found) < len(others) else ()


def _members(case: Case, candidate: Candidate) -> list[int]:
    """Return the ranks of all groups in which a cycle waits."""
    groups = (case.comparison.groups.get(edge.waiting.group) for edge in candidate.cycle)
    return sorted({rank for group in groups if group is not None for rank in group.ranks})


def _departure_of(case: Case, left: LeftRound) -> tuple[object, ...]:
    """Return what a rank called, and what it had called there in every iteration before."""
    calls = left.made, left.usual
    return tuple((call.op, *case.frames_or_line(left.rank, call)) for call in calls)


def _is_habit(case: Case, left: Sequence[LeftRound], others: Sequence[int]) -> bool:
    """Whether there were three iterations; two suffice for several ranks, or if all others wait."""
    waits = [{(w.channel or w.stream) for w in case.standings[rank].waiting} for rank in others]
    all_wait = all(left[0].key in one for one in waits)
    enough = habit.ENOUGH if len(left) == 1 and not all_wait else _ROUNDS
    return all(one.rounds >= enough for one in left)


def left_its_round(case: Case, candidate: Candidate) -> Iterator[Evidence]:
    """Find the ranks that left their usual iteration while all others kept theirs."""
    left = left_rounds(case, candidate)
    if not left:
        return
    ranks = tuple(one.rank for one in left)
    if left[0].skipped:
        is_apart = _is_clear_departure(case, candidate, left[0]) or any(
            has_no_choice(case, at) for at in awaited(case, candidate) if at.rank == left[0].rank
        )
    else:
        is_apart = _is_explained(case, left[0])
    if is_apart:
        yield Evidence("left_repeated_round", ranks, sites_of(one.made for one in left), left[0])


def _is_clear_departure(case: Case, candidate: Candidate, left: LeftRound) -> bool:
    """Whether a rank went on to a collective, or skipped the answer to a message.

    A rank that goes on to a message may only have sent fewer in sequence than before. That is
    excluded if three or more ranks wait in a cycle for the skipped call.
    """
    key = left.key
    waits = [at for at in awaited(case, candidate) if at.rank == left.rank]
    if len(candidate.cycle) >= CAN_OUTVOTE and any(at.key == key for at in waits):
        return True
    if not all(_is_in_round(case, at.waiter) for at in waits):
        return False
    if left.made.peer is None or isinstance(key, StreamKey):
        return left.made.peer is None or left.row == 1
    counts = Counter(one.key for one in calls_of(case, left.rank)[:-1])
    is_ahead = counts[key.back] > counts[key]
    return key.source == left.rank and is_ahead and only_gives_back(case, left.rank, key)


def _is_in_round(case: Case, rank: int) -> bool:
    """Whether a rank is in a collective or a send, or had a message since its last collective.

    A rank in its first receive of an iteration may only wait to be told what to do.
    """
    keys = [one.key for one in calls_of(case, rank)]
    if not keys or isinstance(keys[-1], StreamKey) or keys[-1].source == rank:
        return bool(keys)
    return len(keys) > 1 and not isinstance(keys[-2], StreamKey)


def _is_explained(case: Case, left: LeftRound) -> bool:
    """Whether the source shows what led a rank to a call that is new to its iteration.

    If the rank alone decided to make a message, it may be intended for that rank.
    """
    answer = led.statements_of_departure(case, left)
    # If only values that all ranks agree on decided, the call is still new.
    deciding = answer.decisions or answer.dropped
    by_rank = all(one.origins == (Origin.RANK,) for one in deciding)
    return bool(deciding) and (left.made.peer is None or not by_rank)


def others_may_follow(case: Case, candidate: Candidate) -> Iterator[Evidence]:
    """Find ranks that may only be the first to make a new call, because nobody has passed it.

    The call is new, on a line that others run too. Nobody waits in a collective, so nobody is known
    to be further.
    """
    for left in left_rounds(case, candidate)[:1]:
        if left.skipped:
            continue
        line, _ = chains.outermost_apart(
            case.stack(left.rank, left.made), case.stack(left.rank, left.usual)
        )
        others = [rank for rank in case.evidence.logs if rank != left.rank]
        is_known = any(line in frames_of(case, one) for one in others)
        waits = [wait for one in others for wait in case.standings[one].waiting]
        if is_known and all(wait.stream is None for wait in waits):
            yield Evidence("others_may_follow", (left.rank,))


# -- against all others ------------------------------------------------------------------------


def alone_in_row(case: Case, candidate: Candidate) -> Iterator[Evidence]:
    """Find the only rank that made a call, if all others of its group are together elsewhere.

    They got there by a line that is new to all of them, and that the rank never ran.
    """
    for at in awaited(case, candidate):
        stream, row = at.elsewhere.stream, at.elsewhere.seq or 0
        if at.wait.stream is None or stream is None or not calls_of(case, at.rank):
            continue
        others = [r for r in case.comparison.groups[stream.group].ranks if r != at.rank]
        logs = [log for rank in others if (log := case.log(rank)) is not None]
        common = _common_line(case, others) if len(logs) == len(others) else ""
        if len(others) + 1 < CAN_OUTVOTE or not common:
            continue
        if any(log.last_seq.get(stream, 0) >= row for log in logs):
            continue
        if not all(calls_of(case, rank) for rank in others) or not _agree_on_groups(case, others):
            continue
        if _is_news(case, common, at.rank, others, (stream, row - 1)):
            yield Evidence("alone_in_row", (at.rank,), (chains.site(common),))


def _agree_on_groups(case: Case, ranks: Sequence[int]) -> bool:
    """Whether no rank waits in a group for another that waits at the same line in another group."""
    waits = [(rank, wait) for rank in ranks for wait in case.standings[rank].waiting[:1]]
    groups = {(rank, wait.site): wait.group for rank, wait in waits}
    return all(
        groups.get((peer, wait.site), wait.group) == wait.group
        for _, wait in waits
        if (info := case.comparison.groups.get(wait.group)) is not None
        for peer in info.ranks
    )


def other_group_than_peers(case: Case, candidate: Candidate) -> Iterator[Evidence]:
    """Find the rank that called in another of its groups first, at the line of all its peers.

    The peers have a group of that kind too, and have made fewer calls in it.
    """
    groups, dimensions = case.comparison.groups, case.dimensions.of_ranks
    for at in awaited(case, candidate):
        stream, own = at.wait.stream, at.elsewhere.stream
        if stream is None or own is None or stream == own:
            continue
        others = [rank for rank in groups[stream.group].ranks if rank != at.rank]
        entries = {rank: entry_of(case, w) for rank in others for w in case.standings[rank].waiting}
        here, kin = entry_of(case, at.elsewhere), case.dimensions.kinships.get(own.group)
        rows = {(one.place, one.key, one.seq) for one in entries.values() if one is not None}
        if here is None or len(others) + 1 < CAN_OUTVOTE or set(entries) != {*others}:
            continue
        if rows != {(here.place, stream, at.wait.seq)} or None in entries.values():
            continue
        behind = [
            any(
                one.kinship == kin and _rows(case, rank, own._replace(group=name)) < here.seq
                for name, one in dimensions.get(rank, {}).items()
            )
            for rank in others
        ]
        left = [left_own_round(case, rank) is not None for rank in others]
        if all(behind) and (left_own_round(case, at.rank) is not None or not any(left)):
            sites = (chains.site(here.stack[0]),)
            yield Evidence("other_group_than_peers", (at.rank,), sites)


def _rows(case: Case, rank: int, stream: StreamKey) -> int:
    log = case.log(rank)
    return log.last_seq.get(stream, 0) if log is not None else 0


def _is_news(
    case: Case, line: str, rank: int, others: Sequence[int], last: tuple[StreamKey, int]
) -> bool:
    """Whether ranks ran a line since call ``last``, and nobody ran it before."""
    for one in (rank, *others):
        made = calls_of(case, one)
        since = next((n for n, entry in enumerate(made) if (entry.key, entry.seq) == last), -1)
        before = made[: since + 1] if one != rank else made
        if not made or (since < 0 and last[1]) or any(line in entry.stack for entry in before):
            return False
    return True


def _calls(case: Case, ranks: Sequence[int]) -> list[tuple[int, Call]]:
    return [
        (rank, call)
        for rank in ranks
        for wait in case.standings[rank].waiting[:1]
        if (call := awaited_call(case, wait)) is not None
    ]


def _common_line(case: Case, ranks: Sequence[int]) -> str:
    """Return the innermost line common to the stacks of waiting ranks; empty if none."""
    stacks = [tuple(case.frames_or_line(rank, call)) for rank, call in _calls(case, ranks)]
    if len(stacks) < len(ranks):
        return ""
    shared = min(chains.shared(stacks[0], one) for one in stacks)
    return stacks[0][len(stacks[0]) - shared] if shared else ""


def led_by_its_rank(case: Case, candidate: Candidate) -> Iterator[Evidence]:
    """Find the rank that a condition on its rank led to a line that no other rank ever ran.

    All others of a group, at least two, wait for it in a collective.
    """
    for at in awaited(case, candidate):
        here, there, stream = entry_of(case, at.elsewhere), entry_of(case, at.wait), at.wait.stream
        if here is None or there is None or stream is None:
            continue
        others = {*case.comparison.groups[stream.group].ranks} - {at.rank}
        waits = [entry_of(case, wait) for r in others for wait in case.standings[r].waiting[:1]]
        row = [one for one in waits if one and (one.key, one.seq) == (there.key, there.seq)]
        if len(others) + 1 < CAN_OUTVOTE or len(row) < len(others):
            continue
        line = _line_of_its_own(case, at.rank, here.stack)
        made = calls_of(case, at.rank)
        first = next((n for n, one in enumerate(made) if line in one.stack), 0)
        if not line or not first or not _was_met_by_one_line(case, at, line):
            continue
        before, new = (At(*made[n].place) for n in (first - 1, first))
        answer = led.deciding_statements(case, (at.rank, at.waiter), before, new, At(*there.place))
        asks = [
            one
            for one in answer.decisions
            if one.origins == (Origin.RANK,) and (one.site.path, one.function) == chains.scope(line)
        ]
        is_message = at.elsewhere.channel is not None
        opening = [
            one
            for one in places.conditions(case, at.rank, line)
            if can_admit_only(case, one, [at.rank], sorted({*case.evidence.logs} - {at.rank}))
        ]
        if (
            asks
            and opening
            and not any(one.is_fork for one in opening)
            and not (is_message and any(led.has_other_branch(case, at.rank, one) for one in asks))
        ):
            yield Evidence("led_by_its_rank", (at.rank,), (chains.site(line),))


def _line_of_its_own(case: Case, rank: int, stack: Sequence[str]) -> str:
    """Return the outermost line of a stack that no other rank ever ran; empty if there is none."""
    known = [frames_of(case, one) for one in case.evidence.logs if one != rank]
    own = (frame for frame in reversed(stack) if not any(frame in frames for frames in known))
    return next(own, "")


def _was_met_by_one_line(case: Case, at: Awaited, line: str) -> bool:
    """Whether one function, called from one line, made both ends of each earlier message.

    Then a rank that entered this function from another line meets nobody there.
    """
    key, here = at.elsewhere.channel, entry_of(case, at.elsewhere)
    if key is None or here is None:
        return True
    function = chains.scope(here.stack[here.stack.index(line) - 1])
    callers: dict[int, set[str]] = {}
    for rank in (key.source, key.destination):
        for one in calls_of(case, rank):
            if one.key == key and one.seq < here.seq:
                around = dict(zip(map(chains.scope, one.stack), one.stack[1:], strict=False))
                callers.setdefault(one.seq, set()).add(around.get(function, ""))
    return here.seq > habit.ENOUGH and all(len(those) == 1 for those in callers.values())
