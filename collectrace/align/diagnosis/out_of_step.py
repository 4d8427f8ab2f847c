"""A circle with messages of which one rank was at another step than the others, in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from collectrace import words
from collectrace.align.diagnosis import (
    by_framework,
    conditions,
    decided,
    fewer_steps,
    fewer_visits,
    gone_past,
    inner_call,
    odd_tally,
    recomputed,
    tally,
    ways_past,
)
from collectrace.align.diagnosis.callers import at_depth, closed, named, telling_depth
from collectrace.align.diagnosis.loop_lines import LoopLine, come_out_of
from collectrace.align.diagnosis.messages import COUNT_THEM
from collectrace.align.diagnosis.standpoint import Standpoint
from collectrace.align.diagnosis.wording import ONE_LENGTH, Reason
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.candidates import waited_for
from collectrace.align.judging.case import Case
from collectrace.align.judging.circles import (
    awaits,
    has_left_loop,
    is_of_one_place,
    is_to_another,
    left_alone,
    short_sender,
)
from collectrace.align.judging.dropped import dropped
from collectrace.align.judging.own_round import LeftRound, left_own_round
from collectrace.align.judging.shorter_run import loop_that_ended, shorter_run
from collectrace.align.judging.takers import Uneven, uneven
from collectrace.align.judging.unclosed import Unclosed, unclosed
from collectrace.align.judging.unsent import Unsent, unsent
from collectrace.align.judging.unserved import Unserved, unserved
from collectrace.align.ranks.waitgraph import Edge
from collectrace.align.reading.evidence import ChannelKey
from collectrace.records import Call


def reason(case: Case, candidate: Candidate, cycle: Sequence[Edge], waits: str) -> Reason | None:
    """A circle with messages of which some were a step too many, or too early; else None."""
    departed = _of_a_kind(case, candidate, waits)
    if departed is not None:
        return departed
    counts = tally.uneven(case, cycle)
    short = short_sender(case, candidate)
    if short is not None and candidate.suspects == (short.rank,):
        made = named(case, short.rank, short.made)
        usual = named(case, short.rank, short.usual)
        return Reason(
            f"{waits} The messages do not come out even: {'; '.join(counts)}. Rank {short.rank} "
            f"went on to {closed(made)} where it had called {usual} in every round before.",
            _SEND_ALWAYS.format(rank=short.rank, usual=usual),
        )
    missed = unsent(case, candidate)
    alone = left_alone(case, candidate) or (missed.left if missed is not None else None)
    if counts and (alone is None or candidate.suspects != (alone.rank,)):
        return Reason(
            f"{waits} Before that the messages do not come out even: {'; '.join(counts)}.",
            by_framework.of_messages(case, awaited(case, cycle)) or COUNT_THEM,
        )
    left = _left_by_one(case, cycle)
    if left is None or is_to_another(case, left) or is_of_one_place(case, cycle, left):
        return None
    is_proven = candidate.suspects == (left.rank,)
    counted = _counted(case, candidate, cycle, left)
    if left.extra:
        return _more(case, left, waits, counted)
    again = recomputed.of_message(case, left.rank, left.made) if not left.skipped else None
    if again is not None:
        return Reason(f"{_told(case, left, waits)} {again.cause}{counted}", again.fix)
    others = [r for r in candidate.group.ranks if r != left.rank] if candidate.group else []
    run = _run_ended(case, cycle, left, waits, counted)
    if run is not None:
        return run
    is_out = is_proven and has_left_loop(case, left, others)
    loop = _loop_left(case, cycle, left) if is_out else None
    if loop is not None:
        return Reason(
            f"{_told(case, left, waits)} Rank {left.rank} is out of the loop {loop.quoted}, which "
            f"the others are in: the loop ended earlier on rank {left.rank}.{counted}",
            ONE_LENGTH,
        )
    if is_proven and not left.skipped and awaits(cycle, left):
        return _too_early(case, left, waits, counted)
    return _left(case, candidate, cycle, left, waits, counted)


def _of_a_kind(case: Case, candidate: Candidate, waits: str) -> Reason | None:
    """One rank departed from what others of its kind did, or from what it was to do for each."""
    at_odds = uneven(case, candidate)
    if at_odds is not None and candidate.suspects == (at_odds.rank,):
        return _at_odds(case, at_odds, waits)
    left_out = unserved(case, candidate)
    if left_out is not None and candidate.suspects == (left_out.hub,):
        return _unserved(case, left_out, waits)
    silent = unclosed(case, candidate)
    if silent is not None and candidate.suspects == (silent.rank,):
        return _unclosed(case, silent, waits)
    odd = odd_tally.reason(case, candidate, waits)
    if odd is None and left_alone(case, candidate) is None:
        return fewer_visits.reason(case, candidate, waits) or inner_call.reason(
            case, candidate, waits
        )
    return odd


def _run_ended(
    case: Case, cycle: Sequence[Edge], left: LeftRound, waits: str, counted: str
) -> Reason | None:
    """A rank made fewer of its usual calls in a row, as only the end of their loop explains."""
    run = shorter_run(case, left)
    ended = loop_that_ended(case, left) if run is not None else None
    if run is None or ended is None:
        return None
    return Reason(
        f"{_told(case, left, waits)}{fewer_steps.told(left, run)} In the source only the end of "
        f"the loop {LoopLine(*ended).quoted} leads past that: it ended earlier on rank {left.rank} "
        f"than each time before.{counted}",
        fewer_steps.fix(case, cycle, left),
    )


_SEND_ALWAYS: Final = (
    "Let rank {rank} call {usual} in every round, with an empty message or zeros where it has "
    "nothing; or tell the receiver how many messages are to come."
)


def first_time(case: Case, cycle: Sequence[Edge]) -> str:
    """Why ranks that all wait in one line got through it before: a sentence after a space."""
    one = _left_by_one(case, cycle)
    if one is None or not is_of_one_place(case, cycle, one):
        return ""
    return (
        f" In the rounds before rank {one.rank} called no {one.made.op} {words.peer(one.made)} "
        f"there, but first {named(case, one.rank, one.usual, brief=True)}: so there was no circle, "
        "and the others got through one after the other."
    )


def _left_by_one(case: Case, cycle: Sequence[Edge]) -> LeftRound | None:
    """How the only one of a circle that left its own round did so; None: nobody, or several."""
    ranks = (edge.waiting.rank for edge in cycle)
    found = [left for rank in ranks if (left := left_own_round(case, rank)) is not None]
    return found[0] if len(found) == 1 else None


def _counted(case: Case, candidate: Candidate, cycle: Sequence[Edge], left: LeftRound) -> str:
    """Messages by line, and who kept to the round: sentences, each after a space."""
    counts = [tally.of_channel(case, e.waiting.channel) for e in cycle if e.waiting.channel]
    told = "".join(f" {text}" for text in dict.fromkeys(counts) if text)
    if candidate.suspects != (left.rank,):
        return f"{told} The logs do not show which of them was meant."
    missed = unsent(case, candidate)
    if missed is not None and left_alone(case, candidate) is None:
        return f"{told}{_of_likes(case, missed)}"
    others = [r for r in candidate.group.ranks if r != left.rank] if candidate.group else []
    who = words.upper(words.ranks(others))
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
    return made, usual


def _more(case: Case, left: LeftRound, waits: str, counted: str) -> Reason:
    """A rank put calls into its round and went on with it."""
    made, _ = _named(case, left)
    calls, them = words.counted(left.extra, "call"), "this" if left.extra == 1 else "these"
    return Reason(
        f"{waits} Rank {left.rank} made {calls} more than in the rounds before, from {made}, and "
        "went on with its round behind; the others went on in theirs, so since then its "
        f"messages meet those of another step.{counted}",
        f"Make {them} {calls} ({made}) on every rank alike, with its receiving side, or on "
        "none: every stage must go through the same steps.",
    )


def _told(case: Case, left: LeftRound, waits: str) -> str:
    """What a rank called instead of what."""
    made, usual = _named(case, left)
    again = f", its {words.ordinal(left.row)} {left.made.op} in a row" if left.row > 1 else ""
    return (
        f"{waits} Rank {left.rank} called {closed(made)} where it had called {usual} in every "
        f"round before{again}; the others went on with their rounds."
    )


def _too_early(case: Case, left: LeftRound, waits: str, counted: str) -> Reason:
    """A rank made a new call before the one that the others wait for, as in every round."""
    rank, (made, usual) = left.rank, _named(case, left)
    under = _under(case, (rank, left.made), (rank, left.usual))
    before = (
        f"Let rank {rank} call {usual} before {closed(made)} as the others wait for that, and come "
        "to nothing else before it."
    )
    alike = f"Make {closed(made)} on every rank at one place of the round, or on none."
    return Reason(
        f"{_told(case, left, waits)}{under.cause}{counted}",
        f"{under.fix or before}\n{before if under.fix else alike}",
    )


def _loop_left(case: Case, cycle: Sequence[Edge], left: LeftRound) -> LoopLine | None:
    """The loop that a rank was in by its call before, and is not, while another of a circle is."""
    gone = Standpoint((left.rank,), left.made, case.stack(left.rank, left.made))
    for waiting in (edge.waiting for edge in cycle):
        call = waited_for(case, waiting) if waiting.rank != left.rank else None
        if call is None:
            continue
        inside = Standpoint((waiting.rank,), call, case.stack(waiting.rank, call))
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
    told = _told(case, left, waits) + _skipped(left)
    take_part = (
        f"Let rank {rank} take part in {usual} in every round, with zeros or an empty tensor where "
        "it has nothing of its own; or let all ranks agree first to leave it out."
    )
    past = gone_past.of_left_round(case, candidate, left) if left.skipped else None
    if unsent(case, candidate) is not None:
        led = past.sentence if past is not None else ""
        return Reason(f"{told}{led}{counted}", _SEND_ALWAYS.format(rank=rank, usual=usual))
    if past is not None:
        return Reason(f"{told}{past.sentence}{counted}", f"{past.fix}\n{take_part}")
    ended = (
        f"If the work ended there on rank {rank}: tell every rank of it in the same step, so that "
        "none waits for more."
    )
    made_so, usually = (rank, left.made), (rank, left.usual)
    under = _under(case, usually, made_so) if left.skipped else _under(case, made_so, usually)
    is_proven = left.skipped and candidate.suspects == (rank,)
    if is_proven and under.fix:
        return Reason(f"{told}{under.cause}{counted}", f"{under.fix}\n{take_part}")
    is_message = left.made.peer is not None or left.usual.peer is not None
    count = ": each send needs one recv on the other rank, so count both" if is_message else ""
    look = (
        f"Look why rank {rank} came to {made} before {usual} this time: a step that was left out, "
        "repeated, or made too early. Where the new order is meant, the others must change theirs "
        f"at the same step{count}."
    )
    last = take_part if is_proven else ended
    run = shorter_run(case, left)
    even = fewer_steps.fix(case, cycle, left) if run is not None else ""
    fixes = filter(None, (under.fix, even, look, last))
    return Reason(f"{told}{fewer_steps.told(left, run)}{under.cause}{counted}", "\n".join(fixes))


def _skipped(left: LeftRound) -> str:
    """What of its round a rank may have left out: a sentence after a space."""
    if not left.skipped:
        return ""
    calls = words.counted(left.skipped, "call")
    more = f", or has made one {left.made.op} more" if left.row > 1 else ""
    return (
        f" So rank {left.rank} has left out, or put off, {calls} that came first in each of the "
        f"{words.counted(left.rounds, 'equal round')} before{more}."
    )


def _under(case: Case, one: tuple[int, Call], other: tuple[int, Call]) -> Reason:
    """The condition that one rank's call stands under, and another call does not; empty: none."""
    points = [Standpoint((rank,), call, case.stack(rank, call)) for rank, call in (one, other)]
    found = conditions.own(case, *points)
    return decided.of_one(found) if found is not None else Reason("", "")


def _at_odds(case: Case, found: Uneven, waits: str) -> Reason:
    """Two ranks that disagree about who takes part in a round."""
    hub, waiter, end = found.hub, found.waiter, named(case, found.hub, found.row, brief=True)
    way, did = ("to", "sent") if found.call.op == "recv" else ("from", "received")
    who, one = words.ranks(found.peers), named(case, waiter, found.call, brief=True)
    under = _under(case, (waiter, found.call), (hub, found.row)).cause
    now = (
        f"in this one too, {way} {who}, and all of them came to it. Rank {waiter} alone waits for "
        f"one more, in {one}."
        if found.rank == waiter
        else f"in this one only {len(found.peers)}{f', {way} {who}' if found.peers else ''}. Rank "
        f"{waiter} waits for another, in {one}."
    )
    first = (
        f"Let rank {hub} decide who takes part in a round and broadcast the list, and let every "
        "rank go by that one."
        if found.rank == waiter
        else f"Let rank {hub} go by the same list of ranks as all others do, in all that it does "
        "of a round: one rank decides who takes part, and broadcasts it."
    )
    return Reason(
        f"{waits} In each of the {found.rounds} rounds before rank {hub} {did} "
        f"{words.counted(found.usual, 'message')} {way} changing ranks before {end}; {now}{under}",
        f"{first}\n"
        "If each rank draws the list by itself: with the same seed, and from a generator of its "
        "own (random.Random, torch.Generator) from which nothing else draws. One draw more on one "
        "rank, and its lists are others from then on.",
    )


def _unserved(case: Case, found: Unserved, waits: str) -> Reason:
    """A rank that gave all others of a kind something in this round, and nothing to one."""
    hub, waiter, end = found.hub, found.waiter, named(case, found.hub, found.row, brief=True)
    likes, all_ = words.ranks(found.likes), words.ranks(sorted((*found.likes, found.waiter)))
    call = named(case, waiter, found.call, brief=True)
    counted = tally.of_channel(case, _channel(found))
    return Reason(
        f"{waits} In each of the {found.rounds} rounds before rank {hub} sent each of {all_} a "
        f"message before {end}; in this one it sent some to {likes}, none to rank {waiter}, and "
        f"went on to that. Rank {waiter} has done in this round what {likes} began theirs with: "
        f"{call}. In the source nothing leads past that, and rank {hub} has taken all that rank "
        f"{waiter} sent it." + (f" {counted}" if counted else ""),
        f"Let rank {hub} send something to each of {all_} in every round: where it has nothing for "
        "one, a message that says so.\n"
        f"Or let all ranks know before the round whom rank {hub} has something for (one broadcast "
        "of the list), and only those receive.",
    )


def _unclosed(case: Case, found: Unclosed, waits: str) -> Reason:
    """A rank that came to the end of the round without the message by which all end theirs."""
    rank, likes = found.rank, words.ranks(found.likes)
    all_ = words.ranks(sorted((*found.likes, rank)))
    usual = named(case, rank, found.usual)
    n = found.rounds
    before = "In the round before" if n == 1 else f"In each of the {n} rounds before"
    led = ways_past.led(ways_past.few(case, case.stack(rank, found.usual)), f"rank {rank}")
    ended, how = "called", f"and rank {found.hub} asks for no more of them than in a round before"
    if found.is_straight:
        ended, how = (
            "ended with",
            f"straight from the round before; rank {found.hub} waits for a message of any rank",
        )
    return Reason(
        f"{waits} {before} each of {all_} {ended} {closed(usual)} and so did {likes} in this one. "
        f"Rank {rank} came to {closed(named(case, rank, found.row, brief=True))} without it, "
        f"{how}.{led}",
        _SEND_ALWAYS.format(rank=rank, usual=named(case, rank, found.usual, brief=True)),
    )


def _channel(found: Unserved) -> ChannelKey:
    call = found.call
    return ChannelKey(call.group, call.device, found.hub, found.waiter, call.tag or 0)


def awaited(case: Case, cycle: Sequence[Edge]) -> list[tuple[int, Call | None]]:
    """The messages that the ranks of a circle wait in."""
    found = []
    for waiting in (edge.waiting for edge in cycle):
        log = case.log(waiting.rank)
        if log is not None and waiting.channel is not None and waiting.seq is not None:
            call = log.channel_call(waiting.channel, waiting.seq)
            found.append((waiting.rank, call))
    return found
