"""A rank that gave no answer where it had given one each time, by what it was asked before.

As a hub that drops a push and forgets who waits for what it sends back; or the last of a ring.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from collectrace.align.judging.case import Case
from collectrace.align.judging.own_round import LeftRound, call_place, kept_round, program_of
from collectrace.align.matching import habit
from collectrace.align.matching.programs import Program
from collectrace.align.ranks.waitgraph import Cycle
from collectrace.align.reading.evidence import ChannelKey, RankLog
from collectrace.align.reading.vocabulary import CallPlace


def left_out_an_answer(case: Case, cycle: Cycle, left: LeftRound, others: Sequence[int]) -> bool:
    """Whether a rank went on without the message that another waits for, which gave one for each.

    It had never asked for more than it had sent till then, and the rank has got as many as it sent:
    so it has been answered each time, and this time not. In a ring it may be through others that
    it asks and gets its answer, each of which passed on all that it got. All others kept their
    round.
    """
    if not left.skipped or not isinstance(left.key, ChannelKey):
        return False
    if max(left.rounds, _answered(case, left)) < habit.ENOUGH:
        return False
    if not all(case.standings[r].waiting and kept_round(case, r) for r in others):
        return False
    answers, mine = left.key, case.log(left.rank)
    asks = answers._replace(source=answers.destination, destination=answers.source)
    asker = case.log(answers.destination)
    awaited = {e.waiting.channel for e in cycle if e.target[0] == left.rank}
    if asker is None or mine is None or answers not in awaited or answers.source != left.rank:
        return False
    hops = [asks] if asks in asker.last_channel_seq else _relayed(cycle, answers)
    if not hops:
        return False
    ranks = list(zip((*hops[1:], answers), hops, strict=True))
    starts = [pair for pair in ranks if not _passed_on(case, *pair)]
    return (
        len(starts) == 1
        and all(_has_taken(case, hop) for hop in hops)
        and _asks_first(case, *starts[0])
    )


def _answered(case: Case, left: LeftRound) -> int:
    """How often a rank made its usual call straight after the one before, whoever its peers were.

    As a hub answers each of its workers alike. 0 where it ever did something else there.
    """
    program = program_of(case, left.rank)
    if program is None or left.before is None:
        return 0
    asked, answer = (call_place(case, left.rank, call) for call in (left.before, left.usual))
    places = {step: _place(program, at) for at, step in enumerate(program.steps)}
    behind = [places[then] for one, then in pairwise(program.steps) if places[one] == asked]
    made = call_place(case, left.rank, left.made)
    others = [place for place in behind if place != answer]
    return len(behind) - 1 if others == [made] else 0


def _place(program: Program, at: int) -> CallPlace:
    """The op of a step, and the user's frames above it."""
    key, log = program.keys[program.sources[at]], program.log
    rows = log.channel_rows(key) if isinstance(key, ChannelKey) else log.rows(key)[0]
    shift = 0 if isinstance(key, ChannelKey) else log.rows(key)[1]
    seen = rows.vocabulary.appearances[rows.appearance[rows.position(program.rows[at] - shift)]]
    return seen.place


def _relayed(cycle: Cycle, answers: ChannelKey) -> list[ChannelKey]:
    """The channels by which what one sends comes to the rank that is to answer, the last first.

    Each rank of a circle waits in a receive from the one before it; else there are none.
    """
    ways = {edge.waiting.rank: edge.waiting.channel for edge in cycle}
    found: list[ChannelKey] = []
    rank = answers.source
    while rank != answers.destination:
        channel = ways.get(rank)
        if channel is None or channel.destination != rank or len(found) == len(cycle):
            return []
        found.append(channel)
        rank = channel.source
    return found


def _asks_first(case: Case, taken: ChannelKey, given: ChannelKey) -> bool:
    """Whether a rank never asked for more in one channel than it had given in another."""
    log = case.log(given.source)
    return log is not None and _comes_first(log, given, taken)


def _comes_first(log: RankLog, first: ChannelKey, then: ChannelKey) -> bool:
    """Whether a rank never made more messages of one channel than of another before."""
    before, behind = log.channel_rows(first).offset, log.channel_rows(then).offset
    pairs = zip(before, behind, strict=False)
    return len(before) >= len(behind) and all(one < other for one, other in pairs)


def _has_taken(case: Case, channel: ChannelKey) -> bool:
    """Whether all that was sent has been asked for."""
    giver, taker = case.log(channel.source), case.log(channel.destination)
    if giver is None or taker is None:
        return False
    sent, asked = (log.last_channel_seq.get(channel, 0) for log in (giver, taker))
    return asked >= sent


def _passed_on(case: Case, taken: ChannelKey, given: ChannelKey) -> bool:
    """Whether a rank has taken all of one channel, and sent as many on, each behind its own.

    It waits for one more.
    """
    log = case.log(given.source)
    if log is None or not _has_taken(case, taken) or not _comes_first(log, taken, given):
        return False
    return log.last_channel_seq.get(taken, 0) == log.last_channel_seq.get(given, 0) + 1
