"""The one rank of a circle that left its round where all others kept to theirs, by choice."""

from __future__ import annotations

from collections.abc import Sequence

from collectrace.align.judging import announced
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.candidates import waited_for
from collectrace.align.judging.case import Case, once
from collectrace.align.judging.circles.shorter_run import all_go_on, number_told
from collectrace.align.judging.circles.unanswered import left_out_an_answer
from collectrace.align.judging.one_loop import part_in_one_loop
from collectrace.align.judging.own_round import (
    LeftRound,
    call_place,
    is_over,
    kept_round,
    left_own_round,
    program_of,
    stacks_of,
)
from collectrace.align.matching import habit, programs
from collectrace.align.matching.deviations import CAN_OUTVOTE
from collectrace.align.matching.programs import Program
from collectrace.align.ranks.waitgraph import Cycle, Edge
from collectrace.align.reading import chains
from collectrace.align.reading.evidence import ChannelKey, RankLog, StreamKey
from collectrace.align.reading.vocabulary import CallPlace
from collectrace.findings import GroupInfo


@once
def left_alone(case: Case, candidate: Candidate) -> LeftRound | None:
    """The one rank of a circle that left its round where all others chose to keep it.

    With two ranks it is one against one: that proves nothing. Nor does it where others are at the
    same line: whatever is new there, all do. Nor where the number may have been told of what it
    made fewer than ever.
    """
    cycle, group = candidate.cycle, candidate.group
    if not cycle or group is None or len(group.ranks) < CAN_OUTVOTE:
        return None
    if not any(left_own_round(case, edge.waiting.rank) for edge in cycle):
        return None
    left = [one for rank in group.ranks if (one := left_own_round(case, rank)) is not None]
    if len(left) != 1 or left[0].rank not in {edge.waiting.rank for edge in cycle}:
        return None
    if is_over(case, left[0]) or is_to_another(case, left[0]):
        return None
    if is_of_one_place(case, cycle, left[0]):
        return None
    if number_told(case, left[0], {edge.waiting.rank for edge in cycle}) is not None:
        return None
    others = [rank for rank in group.ranks if rank != left[0].rank]
    is_proven = (
        _chose_to_send(case, cycle, others)
        or _left_out_alone(case, group, left[0], others)
        or _came_alone(case, cycle, left[0], others)
        or has_left_loop(case, left[0], others)
        or left_out_an_answer(case, cycle, left[0], others)
        or (awaits(cycle, left[0]) and all_go_on(case, left[0], others))
    )
    return left[0] if is_proven else None


def is_to_another(case: Case, left: LeftRound) -> bool:
    """Whether a rank merely sent to another than before, which it may do in whatever order."""
    one, two = left.made, left.usual
    places = [(call.op, call.site, case.stack(left.rank, call)) for call in (one, two)]
    return not left.extra and places[0] == places[1] and one.peer != two.peer


def is_of_one_place(case: Case, cycle: Sequence[Edge], left: LeftRound) -> bool:
    """Whether what a rank had never called is what all of a circle wait in: one line of them all.

    Called from the same lines. So it is new for that rank alone, and the way of them all.
    """
    places = {
        (call.op, call.site, case.stack(edge.waiting.rank, call))
        if (call := waited_for(case, edge.waiting)) is not None
        else None
        for edge in cycle
    }
    return not (left.skipped or left.extra) and len(places) == 1 and None not in places


def _chose_to_send(case: Case, cycle: Cycle, others: Sequence[int]) -> bool:
    """Whether, in a circle of messages, all others wait in a send.

    Who waits in a send has chosen; who waits in a receive may only have got nothing.
    """
    if any(edge.waiting.channel is None for edge in cycle):
        return False
    standings = [case.standings[rank] for rank in others]
    return all(
        standing.log is not None
        and programs.is_whole(standing.log)
        and any(w.channel is not None and w.channel.source == w.rank for w in standing.waiting)
        for standing in standings
    )


def _left_out_alone(case: Case, group: GroupInfo, left: LeftRound, others: Sequence[int]) -> bool:
    """Whether a rank is at a later call of its round, and all others are in that round as ever.

    A collective of them all tells that it is the same round: the one that the rank went on to, to
    which the others come behind what it left out, and most have begun with that; or the one that
    it left out, in which most wait: not where it may have been told to go on, or makes one more of
    several messages in a row. Where all wait there, two rounds before are enough.
    """
    if not left.skipped:
        return False
    if not all(case.standings[r].waiting and kept_round(case, r) for r in others):
        return False
    programs_ = [program for rank in others if (program := program_of(case, rank)) is not None]
    mine = case.log(left.rank)
    if left.made.peer is None and left.made.group == group.name:
        stream, row = StreamKey(left.made.group, left.made.device), left.made.seq
        came = {program.rank for program in programs_ if _has_begun(program, stream)}
    elif (
        isinstance(left.key, StreamKey)
        and left.key.group == group.name
        and mine is not None
        and not (left.row > 1 or announced.was_told(case, left.rank))
    ):
        stream, row = left.key, mine.last_seq[left.key] + 1
        came = set()
    else:
        return False
    rows = {program.rank: program.log.last_seq.get(stream, 0) for program in programs_}
    came |= {rank for rank, last in rows.items() if last == row}
    wait_there = left.key == stream and {*rows.values()} == {row} and len(rows) == len(others)
    if left.rounds < habit.ENOUGH and not wait_there:
        return False
    return {*rows.values()} <= {row - 1, row} and 2 * len(came) > len(group.ranks)


def _has_begun(program: Program, stream: StreamKey) -> bool:
    """Whether a rank has got or sent a message since the last row of a stream, or is in a send.

    Who is in the first receive of a round may only wait to be told what the round is.
    """
    since = 0
    for which in reversed(program.sources):
        if program.keys[which] == stream:
            break
        since += 1
    last = program.keys[program.sources[-1]]
    is_sending = isinstance(last, ChannelKey) and last.source == program.rank
    return since > 1 or (since == 1 and is_sending)


def _came_alone(case: Case, cycle: Cycle, left: LeftRound, others: Sequence[int]) -> bool:
    """Whether a rank is at a line of its loop to which no other ever came, before what they await.

    Or came through the callers by which it did, while one has made in this round what the rank made
    in each before. Behind the loop it would prove nothing: the others' may be one turn too long.
    """
    if left.skipped or left.rounds < habit.ENOUGH or not _is_first(case, left):
        return False
    if left.made.op == "send" and left.made.seq == 1:
        return False  # where the other is to take what it never got before is not known
    if not all(case.standings[r].waiting and kept_round(case, r) for r in others):
        return False
    new, usual = case.stack(left.rank, left.made), case.stack(left.rank, left.usual)
    line, _ = chains.outermost_apart(new, usual)
    is_inside = part_in_one_loop(case, new, usual) or _is_between(case, left)
    stacks = [tuple(stack) for rank in others for stack in stacks_of(case, rank)]
    if not any(line in stack for stack in stacks):
        return is_inside and awaits(cycle, left)
    way = new[-1 - chains.shared(new, usual) :]
    if any(stack[-len(way) :] == way for stack in stacks) or not _await_round(case, cycle, left):
        return False
    is_inside = is_inside or _are_of_one_line(case, new, usual)
    return is_inside and any(_has_gone_by(case, left, rank) for rank in others)


def _await_round(case: Case, cycle: Cycle, left: LeftRound) -> bool:
    """Whether one of a circle waits for a message such as the rank had sent it before."""
    mine = case.log(left.rank)
    return mine is not None and any(
        edge.target[0] == left.rank == edge.waiting.channel.source
        and edge.waiting.channel in mine.last_channel_seq
        for edge in cycle
        if edge.waiting.channel is not None
    )


def _are_of_one_line(case: Case, new: Sequence[str], usual: Sequence[str]) -> bool:
    """Whether one line of a loop led to both calls, through other functions, as a backward does."""
    outside = chains.shared(new, usual)
    one, two = chains.outermost_apart(new, usual)
    return chains.scope(one) != chains.scope(two) and bool(case.loops(new[len(new) - outside :]))


def _has_gone_by(case: Case, left: LeftRound, rank: int) -> bool:
    """Whether another made a rank's usual call in this round, from the same lines.

    Or that to which the rank had come by other callers. Rounds are counted by the latest call that
    both of them made in one stream: till then each has made it as often as the other.
    """
    mine, theirs = case.log(left.rank), case.log(rank)
    if mine is None or theirs is None or not programs.is_whole(theirs):
        return False
    shared = [(mine.last_seq[key], key) for key in mine.last_seq if key in theirs.last_seq]
    row, key = max(shared, default=(0, None))
    if key is None or theirs.last_seq[key] != row:
        return False
    usual = [left.usual, *([left.otherwise[1]] if left.otherwise is not None else [])]
    for call in usual:
        place = call_place(case, left.rank, call)
        counts = [_around(log, key, row, place) for log in (mine, theirs)]
        if counts[0][0] == counts[1][0] and counts[0][1] < counts[1][1]:
            return True
    return False


def _around(log: RankLog, stream: StreamKey, row: int, place: CallPlace) -> tuple[int, int]:
    """How many messages of one op and one stack a rank made before a row of a stream, and since."""
    rows, shift = log.rows(stream)
    begin = rows.offset[rows.position(row - shift)]
    before = since = 0
    for channel in log.last_channel_seq:
        messages = log.channel_rows(channel)
        known = messages.vocabulary.appearances
        for offset, n in zip(messages.offset, messages.appearance, strict=True):
            if known[n].place == place:
                before, since = before + (offset < begin), since + (offset > begin)
    return before, since


def _is_between(case: Case, left: LeftRound) -> bool:
    """Whether one run of a function leads through the call made, and then to the usual one.

    By the order of their lines, and no later than the call before, unless that was of another run:
    then the usual one is still to come, whatever loop it stands in.
    """
    if left.before is None:
        return False
    before, made, usual = (
        case.stack(left.rank, call) for call in (left.before, left.made, left.usual)
    )
    one, end = chains.outermost_apart(made, usual)
    if not one or chains.scope(one) != chains.scope(end):
        return False
    outside = chains.shared(made, usual)
    begin = before[-1 - outside] if chains.shared(before, usual) >= outside < len(before) else ""
    is_of_this_run = chains.scope(begin) == chains.scope(one) if begin else False
    first, last = chains.line(one), chains.line(end)
    return first < last and not (is_of_this_run and first <= chains.line(begin) < last)


def has_left_loop(case: Case, left: LeftRound, others: Sequence[int]) -> bool:
    """Whether a rank has come out of a loop in which all others go on as in every round.

    It may be that their loop was to end, too; but they are the most, as where one calls something
    else than the others. Not where a loop is around all: then it may be another turn of that.
    """
    if left.skipped or left.extra or left.rounds < habit.ENOUGH or left.before is None:
        return False
    gone = set(case.loops(case.stack(left.rank, left.made)))
    was_in = set(case.loops(case.stack(left.rank, left.before))) - gone
    for rank in others:
        waiting = case.standings[rank].waiting
        call = waited_for(case, waiting[0]) if len(waiting) == 1 else None
        if call is None or not kept_round(case, rank):
            return False
        inside = set(case.loops(case.stack(rank, call)))
        if not inside & was_in or inside & gone:
            return False
    return True


def _is_first(case: Case, left: LeftRound) -> bool:
    """Whether a rank is in the call for which it left its round, and has never made it before."""
    program = program_of(case, left.rank)
    if program is None or not program.ends_anew:
        return False
    return program.call(len(program.steps) - 1) == left.made


def awaits(cycle: Sequence[Edge], left: LeftRound) -> bool:
    """Whether one of a circle waits for the very call that a rank had made in every round."""
    return any(
        edge.target[0] == left.rank and left.key in (edge.waiting.channel, edge.waiting.stream)
        for edge in cycle
    )
