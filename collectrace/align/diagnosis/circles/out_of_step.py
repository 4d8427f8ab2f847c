"""A circle with messages of which one rank was at another step than the others, in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from collectrace import words
from collectrace.align.diagnosis import (
    autograd,
    by_framework,
    decided,
    gone_past,
    recomputed,
    tally,
)
from collectrace.align.diagnosis.callers import at_depth, closed, named, telling_depth
from collectrace.align.diagnosis.circles import (
    alone_by_rank,
    drifted,
    fewer_steps,
    fewer_visits,
    group_by_rank,
    handed_on,
    inner_call,
    left_once,
    newcomers,
    odd_tally,
    outnumbered,
    reordered,
    takers,
    unclosed,
    unserved,
    went_past,
)
from collectrace.align.diagnosis.loop_lines import LoopLine, come_out_of
from collectrace.align.diagnosis.messages import COUNT_THEM
from collectrace.align.diagnosis.standpoint import of_call
from collectrace.align.diagnosis.wording import ONE_LENGTH, SEND_ALWAYS, Reason
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.candidates import waited_for
from collectrace.align.judging.case import Case
from collectrace.align.judging.circles.alone_by_rank import AloneByRank
from collectrace.align.judging.circles.departed import Departure, departed
from collectrace.align.judging.circles.drifted import Drifted
from collectrace.align.judging.circles.dropped import dropped
from collectrace.align.judging.circles.fewer_visits import FewerVisits
from collectrace.align.judging.circles.group_by_rank import GroupByRank
from collectrace.align.judging.circles.handed_on import HandedOn
from collectrace.align.judging.circles.inner_call import LeftInner
from collectrace.align.judging.circles.left_alone import (
    awaits,
    has_left_loop,
    is_of_one_place,
    is_to_another,
)
from collectrace.align.judging.circles.left_once import LeftOnce
from collectrace.align.judging.circles.new_in_loop import new_in_loop
from collectrace.align.judging.circles.newcomers import Newcomers
from collectrace.align.judging.circles.odd_tally import OddTally
from collectrace.align.judging.circles.outnumbered import Outnumbered
from collectrace.align.judging.circles.reordered import Reordered
from collectrace.align.judging.circles.short_sender import short_sender
from collectrace.align.judging.circles.shorter_run import loop_that_ended, shorter_run
from collectrace.align.judging.circles.takers import Uneven
from collectrace.align.judging.circles.unclosed import Unclosed
from collectrace.align.judging.circles.unsent import Unsent
from collectrace.align.judging.circles.unserved import Unserved
from collectrace.align.judging.circles.went_past import WentPast
from collectrace.align.judging.own_round import (
    LeftRound,
    is_over,
    left_alike,
    left_own_round,
    left_own_turn,
)
from collectrace.align.ranks.waitgraph import Edge
from collectrace.records import Call


def reason(case: Case, candidate: Candidate, cycle: Sequence[Edge], waits: str) -> Reason | None:
    """A circle with messages of which some were a step too many, or too early; else None."""
    found = departed(case, candidate)
    proven = found if found is not None and found.rank in candidate.suspects else None
    if proven is not None and (of_rule := _WORDS.get(type(proven))) is not None:
        return of_rule(case, proven, waits)
    counts = tally.uneven(case, cycle)
    if isinstance(proven, LeftRound) and proven is short_sender(case, candidate):
        made, usual = (named(case, proven.rank, call) for call in (proven.made, proven.usual))
        return Reason(
            f"{waits} The messages do not come out even: {'; '.join(counts)}. Rank {proven.rank} "
            f"went on to {closed(made)} where it had called {usual} in every round before.",
            SEND_ALWAYS.format(rank=proven.rank, usual=usual),
        )
    if counts and proven is None:
        return Reason(
            f"{waits} Before that the messages do not come out even: {'; '.join(counts)}.",
            by_framework.of_messages(case, awaited(case, cycle)) or COUNT_THEM,
        )
    left = _left_by_one(case, cycle)
    if left is None or is_to_another(case, left) or is_of_one_place(case, cycle, left):
        return None
    is_proven = left.rank in candidate.suspects
    counted = _counted(case, candidate, cycle, left)
    if left.extra:
        return _more(case, left, waits, counted)
    again = recomputed.of_message(case, left.rank, left.made) if not left.skipped else None
    if again is not None:
        return Reason(f"{_told(case, cycle, left, waits)} {again.cause}{counted}", again.fix)
    others = [r for r in candidate.group.ranks if r != left.rank] if candidate.group else []
    run = _run_ended(case, cycle, left, waits, counted)
    if run is not None:
        return run
    is_out = is_proven and has_left_loop(case, left, others)
    loop = _loop_left(case, cycle, left) if is_out else None
    if loop is not None:
        return Reason(
            f"{_told(case, cycle, left, waits)} Rank {left.rank} is out of the loop {loop.quoted}, "
            f"which the others are in: the loop ended earlier on rank {left.rank}.{counted}",
            ONE_LENGTH,
        )
    if is_proven and not left.skipped and awaits(cycle, left):
        return _too_early(case, cycle, left, waits, counted)
    return _left(case, candidate, cycle, left, waits, counted)


_WORDS: Final[Mapping[type[Departure], Callable[..., Reason]]] = {
    Uneven: takers.reason,
    Unserved: unserved.reason,
    Unclosed: unclosed.reason,
    OddTally: odd_tally.reason,
    FewerVisits: fewer_visits.reason,
    LeftInner: inner_call.reason,
    LeftOnce: left_once.reason,
    HandedOn: handed_on.reason,
    Reordered: reordered.reason,
    Drifted: drifted.reason,
    Outnumbered: outnumbered.reason,
    Newcomers: newcomers.reason,
    AloneByRank: alone_by_rank.reason,
    GroupByRank: group_by_rank.reason,
    WentPast: went_past.reason,
}
"""Of what departed from what its like did; who left a round of its own is told below."""


def _run_ended(
    case: Case, cycle: Sequence[Edge], left: LeftRound, waits: str, counted: str
) -> Reason | None:
    """A rank made fewer of its usual calls in a row, as only the end of their loop explains."""
    run = shorter_run(case, left)
    ended = loop_that_ended(case, left) if run is not None else None
    if run is None or ended is None:
        return None
    return Reason(
        f"{_told(case, cycle, left, waits)}{fewer_steps.told(left, run)} In the source only the "
        f"end of the loop {LoopLine(*ended, case.code).quoted} leads past that: it ended earlier "
        f"on rank {left.rank} than each time before.{counted}",
        fewer_steps.fix(case, cycle, left),
    )


def first_time(case: Case, cycle: Sequence[Edge]) -> str:
    """Why ranks that all wait in one line got through it before: a sentence after a space."""
    one = _left_by_one(case, cycle)
    if one is None or not is_of_one_place(case, cycle, one):
        return ""
    whom = f" {words.peer(one.made)}" if one.made.peer is not None else ""
    return (
        f" In the rounds before rank {one.rank} called no {one.made.op}{whom} there, but first "
        f"{named(case, one.rank, one.usual, brief=True)}: so there was no circle, "
        "and the others got through one after the other."
    )


def _left_by_one(case: Case, cycle: Sequence[Edge]) -> LeftRound | None:
    """How the only one of a circle that left its own round did so; None: nobody, or several.

    Where none of a circle of messages has left a round that others are still in, by the call before
    its last, if another waits for the usual one.
    """
    ranks = [edge.waiting.rank for edge in cycle]
    found = [left for rank in ranks if (left := left_own_round(case, rank)) is not None]
    if len(found) == 1 and (found[0].extra or not is_over(case, found[0])):
        return found[0]
    if len(found) > 1 or any(edge.waiting.channel is None for edge in cycle):
        return None
    turns = [left for rank in ranks if (left := left_own_turn(case, rank)) is not None]
    return turns[0] if len(turns) == 1 and awaits(cycle, turns[0]) else None


def _counted(case: Case, candidate: Candidate, cycle: Sequence[Edge], left: LeftRound) -> str:
    """Messages by line, and who kept to the round: sentences, each after a space."""
    counts = [tally.of_channel(case, e.waiting.channel) for e in cycle if e.waiting.channel]
    told = "".join(f" {text}" for text in dict.fromkeys(counts) if text)
    if left.rank not in candidate.suspects:
        return f"{told} The logs do not show which of them was meant."
    found = departed(case, candidate)
    if isinstance(found, Unsent):
        return f"{told}{_of_likes(case, found)}"
    others = [r for r in candidate.group.ranks if r != left.rank] if candidate.group else []
    who = words.upper(words.ranks(others))
    if new_in_loop(case, candidate) is left:
        return (
            f"{told} No rank had ever come to that line, and {words.lower(who)} went on in the "
            "same loop."
        )
    if dropped(case, candidate) is left:
        return f"{told} Nothing in the source leads {words.lower(who)} past what it waits in."
    return f"{told} {who}, more than half of the group, kept to one round."


def _of_likes(case: Case, missed: Unsent) -> str:
    """That others alike made what one left out, and the hub asked for no more: after a space."""
    likes, hub, rank = words.ranks(missed.likes), missed.hub, missed.left.rank
    usual = named(case, rank, missed.left.usual, brief=True)
    return (
        f" {words.upper(likes)} exchanged the same messages with rank {hub} from the same lines "
        f"till then, and called {closed(usual)} there, as in every round; rank {hub} asked rank "
        f"{rank} for no more than in each round before. Rank {rank} alone went past it."
    )


def _named(case: Case, left: LeftRound) -> tuple[str, str]:
    """The call made and the usual one, each by the line that tells them apart."""
    stacks = [case.stack(left.rank, call) for call in (left.made, left.usual)]
    depth = telling_depth(stacks)
    made, usual = (
        named(case, left.rank, at_depth(call, stack, depth), brief=True)
        for call, stack in zip((left.made, left.usual), stacks, strict=True)
    )
    if made == usual and left.made.tag != left.usual.tag:
        return _with_tag(made, left.made), _with_tag(usual, left.usual)
    return made, usual


def _with_tag(told: str, call: Call) -> str:
    """``isend with tag 2 at serve.py:47``."""
    op, at, place = told.partition(" at ")
    return f"{op} with tag {call.tag}{at}{place}"


def _more(case: Case, left: LeftRound, waits: str, counted: str) -> Reason:
    """A rank put calls into its round and went on with it."""
    made, _ = _named(case, left)
    under = _under(case, left.rank, left.made, left.usual)
    calls, them = words.counted(left.extra, "call"), "this" if left.extra == 1 else "these"
    return Reason(
        f"{waits} Rank {left.rank} made {calls} more than in the rounds before, from {made}, and "
        "went on with its round behind; the others went on in theirs, so since then its "
        f"messages meet those of another step.{under.cause}{counted}",
        f"Make {them} {calls} ({made}) on every rank alike, with its receiving side, or on "
        "none: every stage must go through the same steps.",
    )


def _told(case: Case, cycle: Sequence[Edge], left: LeftRound, waits: str) -> str:
    """What a rank called instead of what."""
    made, usual = _named(case, left)
    if left.is_turn and left.before is not None:
        before = named(case, left.rank, left.before, brief=True)
        went = "made that once more" if left.row > 1 else f"went on to {made}"
        return (
            f"{waits} Behind {closed(before)} rank {left.rank} had gone on to {closed(usual)} "
            f"{words.counted(left.rounds, 'time')}; this time it {went}, as never before."
        )
    who = left_alike(case, left)
    others = [edge.waiting.rank for edge in cycle if edge.waiting.rank not in who]
    theirs = words.verb(others, "its round", "their rounds")
    it_had, its = words.verb(who, "it had", "they had"), words.verb(who, "its", "their")
    again = f", {its} {words.ordinal(left.row)} {left.made.op} in a row" if left.row > 1 else ""
    return (
        f"{waits} {words.upper(words.ranks(who))} called {closed(made)} where {it_had} called "
        f"{usual} in every round before{again}; {words.ranks(others)} went on with {theirs}."
    )


def _too_early(
    case: Case, cycle: Sequence[Edge], left: LeftRound, waits: str, counted: str
) -> Reason:
    """A rank made a new call before the one that the others wait for, as in every round."""
    rank, (made, usual) = left.rank, _named(case, left)
    under = _under(case, rank, left.made, left.usual)
    before = (
        f"Let rank {rank} call {usual} before {closed(made)} as the others wait for that, and come "
        "to nothing else before it."
    )
    alike = f"Make {closed(made)} on every rank at one place of the round, or on none."
    return Reason(
        f"{_told(case, cycle, left, waits)}{under.cause}{counted}",
        f"{under.fix or before}\n{before if under.fix else alike}",
    )


def _loop_left(case: Case, cycle: Sequence[Edge], left: LeftRound) -> LoopLine | None:
    """The loop that a rank was in by its call before, and is not, while another of a circle is."""
    gone = of_call(case, left.rank, left.made)
    for waiting in (edge.waiting for edge in cycle):
        call = waited_for(case, waiting) if waiting.rank != left.rank else None
        if call is None:
            continue
        inside = of_call(case, waiting.rank, call)
        loop = come_out_of(case, inside, gone, left.before)
        if loop is not None:
            return loop
    return None


def _left(
    case: Case,
    candidate: Candidate,
    cycle: Sequence[Edge],
    left: LeftRound,
    waits: str,
    counted: str,
) -> Reason:
    """A rank of a circle left its own round. ``counted``: sentences, each after a space."""
    rank, (made, usual) = left.rank, _named(case, left)
    told = _told(case, cycle, left, waits) + _skipped(case, left)
    alike = left_alike(case, left)
    who = words.ranks(alike)
    own = words.verb(alike, "it has nothing of its own", "they have nothing of their own")
    take_part = (
        f"Let {who} take part in {usual} in every round, with zeros or an empty tensor where "
        f"{own}; or let all ranks agree first to leave it out."
    )
    past = gone_past.of_left_round(case, candidate, left) if left.skipped else None
    if isinstance(departed(case, candidate), Unsent):
        led = past.sentence if past is not None else ""
        return Reason(f"{told}{led}{counted}", SEND_ALWAYS.format(rank=rank, usual=usual))
    if past is not None:
        return Reason(f"{told}{past.sentence}{counted}", f"{past.fix}\n{take_part}")
    cut = autograd.of_one(case, left) if left.skipped else None
    if cut is not None:
        return Reason(f"{told}{cut.cause}{counted}", cut.fix)
    ended = (
        f"If the work ended there on {who}: tell every rank of it in the same step, so that none "
        "waits for more."
    )
    under = (
        _under(case, rank, left.usual, left.made)
        if left.skipped
        else _under(case, rank, left.made, left.usual)
    )
    is_proven = left.skipped and rank in candidate.suspects
    loop = _loop_left(case, cycle, left) if not (is_proven or under.cause) else None
    if loop is not None:
        cause = f"{told} {_came_out(cycle, alike, loop)}{counted}"
        return Reason(cause, f"{ONE_LENGTH}\n{ended}")
    if is_proven and under.fix:
        return Reason(f"{told}{under.cause}{counted}", f"{under.fix}\n{take_part}")
    is_message = left.made.peer is not None or left.usual.peer is not None
    count = ": each send needs one recv on the other rank, so count both" if is_message else ""
    look = (
        f"Look why {who} came to {made} before {usual} this time: a step that was left out, "
        "repeated, or made too early. Where the new order is meant, the others must change theirs "
        f"at the same step{count}."
    )
    last = take_part if is_proven else ended
    run = shorter_run(case, left)
    even = fewer_steps.fix(case, cycle, left) if run is not None else ""
    fixes = filter(None, (under.fix, even, look, last))
    return Reason(f"{told}{fewer_steps.told(left, run)}{under.cause}{counted}", "\n".join(fixes))


def _came_out(cycle: Sequence[Edge], ranks: Sequence[int], loop: LoopLine) -> str:
    """Ranks that are out of a loop which the others of a circle are in: which is wrong is open."""
    inside = [edge.waiting.rank for edge in cycle if edge.waiting.rank not in ranks]
    who, others = words.ranks(ranks), words.ranks(inside)
    return (
        f"{words.upper(who)} {words.verb(ranks, 'is', 'are')} out of the loop {loop.quoted}, and "
        f"{others} {words.verb(inside, 'is', 'are')} in it: either it ended earlier on {who}, or "
        f"it went on for longer on {others}."
    )


def _skipped(case: Case, left: LeftRound) -> str:
    """What of its round a rank may have left out: a sentence after a space."""
    if not left.skipped or left.is_turn:
        return ""
    calls, who = words.counted(left.skipped, "call"), left_alike(case, left)
    has = words.verb(who, "has", "have")
    more = f", or {has} made one {left.made.op} more" if left.row > 1 else ""
    return (
        f" So {words.ranks(who)} {has} left out, or put off, {calls} that came first in each of "
        f"the {words.counted(left.rounds, 'equal round')} before{more}."
    )


def _under(case: Case, rank: int, one: Call, other: Call) -> Reason:
    """The condition that one call of a rank stands under, and another does not; empty: none."""
    return decided.own(case, of_call(case, rank, one), of_call(case, rank, other))


def awaited(case: Case, cycle: Sequence[Edge]) -> list[tuple[int, Call | None]]:
    """The messages that the ranks of a circle wait in."""
    found = []
    for waiting in (edge.waiting for edge in cycle):
        log = case.log(waiting.rank)
        if log is not None and waiting.channel is not None and waiting.seq is not None:
            call = log.channel_call(waiting.channel, waiting.seq)
            found.append((waiting.rank, call))
    return found
