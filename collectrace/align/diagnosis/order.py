"""A call too many, too few, or in another order: in words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Final

from collectrace import ops, words
from collectrace.align.diagnosis import (
    come_out,
    conditions,
    decided,
    lone_line,
    loop,
    loop_lines,
    rounds,
    ways_past,
)
from collectrace.align.diagnosis import parted as lines
from collectrace.align.diagnosis.callers import closed, named, place_of, telling
from collectrace.align.diagnosis.edits import Edit, edit
from collectrace.align.diagnosis.standpoint import of_call, of_ranks
from collectrace.align.diagnosis.wording import (
    EVERY_RANK,
    ONE_LENGTH,
    RAN_ON_SOME,
    SKIPPED,
    SKIPPED_OR_REPEATED,
    Reason,
    called,
    each_once,
)
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.judging.caught import by_handler
from collectrace.align.judging.parted import around, calls_in_one_loop, have_met, parted
from collectrace.align.judging.permuted import calls_from, one_left_out, permuted
from collectrace.align.matching.habit import ENOUGH
from collectrace.records import Call
from collectrace.signature import is_asked, is_user, program_text


def headline(case: Case, candidate: Candidate) -> str:
    """``rank 1 has one extra barrier``; empty where no edit is evident or it adds nothing."""
    found = edit(case, candidate)
    if found is None or found.what == "left" or _same_call(case, candidate, found):
        return ""
    since = parted(case, candidate)
    if since is not None and since.seq < (candidate.seq or 0):
        return ""  # what is too many or too few lies before this row
    if lines.due_here(case, candidate) is not None:
        return ""  # one of two that belong together was left out
    if found.what == "missing" and not found.agrees and _may_come(case, candidate, found):
        return ""
    if found.what != "permuted" and not all(is_user(c) for c in found.calls):
        return ""  # that a framework issues more or less follows from something else
    who = words.ranks(found.ranks)
    have = words.verb(found.ranks, "has", "have")
    n = len(found.calls)
    if found.what == "permuted":
        return (
            f"{who} {have} the {_number(n)} calls in {'the other' if n == 2 else 'another'} order"
        )
    kinds = {c.op for c in found.calls}
    noun = found.calls[0].op if len(kinds) == 1 else "collective"
    if found.what == "extra":
        return f"{who} {have} {_number(n)} extra {noun}{'s' * (n != 1)}"
    return f"{who} left out {_number(n)} {noun}{'s' * (n != 1)}"


def _may_come(case: Case, candidate: Candidate, found: Edit) -> bool:
    """Whether ranks are still in a loop that the others have left: they may come to it later."""
    if loop_lines.left(case, candidate) is not None:
        return True
    out = come_out.out_of(case, candidate)
    return out is not None and out.inside.ranks == found.ranks


def _number(n: int) -> str:
    return {1: "one", 2: "two", 3: "three"}.get(n, str(n))


def _same_call(case: Case, candidate: Candidate, found: Edit) -> bool:
    """Whether all ranks made the same call from the same line, and only its arguments differ.

    Or from lines from which they have met before; unless what follows shows that it is another.
    """
    calls = [side.call for side in candidate.sides if side.call is not None]
    if found.agrees and one_left_out(case, candidate):
        return False
    if rounds.is_one_request(candidate):
        return True
    if len({(ops.canonical_op(call.op), call.role) for call in calls}) > 1:
        return False
    if have_met(case, candidate):
        return not found.agrees
    is_one_line = len({call.site for call in calls}) == 1
    return is_one_line and len({c.site for _, c in called(candidate)}) == 1


def other_order(case: Case, candidate: Candidate) -> Reason | None:
    """The ranks make the same calls, in other orders."""
    found = permuted(case, candidate)
    if found is None:
        return None
    most, *others = found.orders
    by_order = [
        [(ranks[0], call) for call in calls_from(case, ranks[0], candidate)[: len(found.calls)]]
        for ranks in found.orders
    ]
    rows = list(zip(*by_order, strict=True))
    moved = [row for row in rows if len({program_text(call) for _, call in row}) > 1]
    at, made = _places(case, chain(*moved)), list(chain(*rows))
    sites = {words.site(telling(case, rank, call).site or "") for rank, call in made if call.site}
    if at != _places(case, made):
        at = f", but those{at}"
    if len(found.calls) == 2 and not others[1:]:
        listed = words.listed([closed(named(case, most[0], c, brief=True)) for c in found.calls])
        who, right = (others[0], most) if set(others[0]) <= set(candidate.suspects) else (
            most, others[0],
        )  # fmt: skip
        told = f"{words.upper(words.ranks(who))} issued {listed} in the opposite order of "
        told += f"{words.ranks(right)}."
    else:
        alike = words.listed([words.ranks(ranks) for ranks in found.orders])
        told = (
            f"From call {candidate.seq} on the ranks issue the same {len(found.calls)} calls{at} "
            f"in permuted order, {len(found.orders)} orders in all: {alike}."
        )
    if len(sites) == 1:
        told += (
            " They come from one line: what it iterates over is unordered (a set, whose order "
            "depends on PYTHONHASHSEED), or was filled in another order (a dict)."
        )
    told += decided.sentence(case, candidate)
    return Reason(
        told,
        "Issue them in the same order on every rank: iterate over sorted(...), never over a set, "
        "or over a dict that each rank fills in its own order; callbacks, hooks and branches on "
        "the rank change orders, too.",
    )


def _places(case: Case, made: Iterable[tuple[int, Call]]) -> str:
    """`` at util.py:3, called at train.py:5 and train.py:9,``: the lines of ranks' calls."""
    known = [(call.site, telling(case, rank, call).site) for rank, call in made if call.site]
    own = list(dict.fromkeys(words.site(site) for site, _ in known))
    at = f" at {words.listed(own[:3])}" if own else ""
    callers = dict.fromkeys(words.site(caller or "") for _, caller in known)
    outer = [site for site in callers if site not in own]
    return f"{at}, called at {words.listed(outer[:3])}," if outer else at


def extra_of_users(case: Case, candidate: Candidate) -> Reason | None:
    """Calls of the script's own, after which the streams agree again: the plainest of reasons."""
    found = edit(case, candidate)
    if found is None or found.what != "extra" or not all(is_asked(c) for c in found.calls):
        return None
    return reason(case, candidate)


def reason(case: Case, candidate: Candidate) -> Reason | None:
    """The edit as a reason: a branch on the rank, a longer loop."""
    found = edit(case, candidate)
    if found is None or found.what == "permuted" or _same_call(case, candidate, found):
        return None
    if found.what == "left":
        return _left(case, candidate, found)
    who, others = words.upper(words.ranks(found.ranks)), words.ranks(found.others)
    theirs = found.what == "missing" and found.habit is None
    rank = (found.others if theirs else found.ranks)[0]
    listed = each_once([named(case, rank, c) for c in found.calls])
    again = " After it the calls agree again, one place apart." if found.agrees else ""
    line = decided.fix(case, candidate)
    fix = line or _one_branch(case, candidate)
    if found.what == "missing":
        longer = _longer(case, candidate, found)
        if longer is not None:
            return longer
        habit = found.habit
        as_before = (
            f" So all ranks had done before, {habit.times} through the loop." if habit else ""
        )
        why, way = decided.sentence(case, candidate), rounds.way(case, candidate)
        if why and _is_usual(case, candidate, found):
            why, fix = "", _one_branch(case, candidate)
        if habit is not None and way is not None and not why:
            why, fix = way.cause, way.fix
        elif own := _own_condition(case, candidate, found) if not why else None:
            why, fix = own.cause, own.fix
        elif past := _led_past(case, candidate, found) if not why else None:
            why, fix = past.sentence, past.fix
        else:
            why = why or _skipped(candidate, found)
            why += _skipped_by(case, found.others, candidate)
        instead = _other_op(candidate, found)
        elsewhere = _from_elsewhere(case, candidate, found)
        went = _went_on_to(case, candidate, found)
        return Reason(
            f"{who} did not issue {listed}{instead}, as {others} did{elsewhere}.{as_before}{went}"
            f"{again}{why}",
            fix,
            "some ranks",
        )
    whose = "the script's own" if all(is_user(c) for c in found.calls) else "the framework's"
    why = decided.sentence(case, candidate)
    turn = rounds.one_more_turn(case, candidate, found.ranks)
    if turn is not None:
        why, fix = turn.cause + why, f"{turn.fix}\n{fix}"
    why = why or RAN_ON_SOME
    return Reason(
        f"{who} issued {listed} ({whose}), and {others} did not.{again}{why}",
        fix,
        "some ranks",
        line,
    )


def _is_usual(case: Case, candidate: Candidate, found: Edit) -> bool:
    """Whether all that is seen to decide is around what ranks went on to, as in any round before.

    It has led them there every time, and past nothing.
    """
    told = conditions.of_sides(case, candidate)
    point = of_ranks(candidate, found.ranks)
    if point is None or any(one.forks or one.ranks != found.ranks for one in told):
        return False
    rank, stack = found.ranks[0], tuple(point.stack)
    before = case.before(rank, candidate.stream, candidate.seq)
    times = sum(call is not None and case.stack(rank, call) == stack for call in before)
    return times >= ENOUGH


def _own_condition(case: Case, candidate: Candidate, found: Edit) -> Reason | None:
    """What the call stands under by which ranks had come to it till then; None: nothing is seen."""
    point = of_ranks(candidate, found.ranks)
    if found.habit is None or point is None:
        return None
    own = decided.own(case, of_call(case, found.ranks[0], found.calls[0]), point)
    return own if own.cause else None


def _led_past(case: Case, candidate: Candidate, found: Edit) -> ways_past.Past | None:
    """The ways past a call, in functions that those are not in who kept on without it.

    Where it is new, so that what came before does not tell who is further on.
    """
    gone, made = of_ranks(candidate, found.ranks), of_ranks(candidate, found.others)
    if found.habit is not None or gone is None or made is None:
        return None
    return ways_past.further_in(case, made, gone.stack, found.ranks)


def _went_on_to(case: Case, candidate: Candidate, found: Edit) -> str:
    """What a helper made for who left out a call, with the line that called it: after a space."""
    point = of_ranks(candidate, found.ranks)
    if point is None or found.agrees:
        return ""
    made = named(case, found.ranks[0], point.call, brief=True)
    if closed(made) == made:
        return ""  # the headline has its line
    return f" {words.upper(words.ranks(found.ranks))} went on to {made}."


def _longer(case: Case, candidate: Candidate, found: Edit) -> Reason | None:
    """Who is still in a loop that the others have come out of, to the call that it lacks."""
    out = come_out.out_of(case, candidate)
    if out is None or out.inside.ranks != found.ranks or out.loop.is_over_model:
        return None
    if not set(found.ranks) <= set(candidate.suspects):
        # Of two it may be the other that left the loop too early.
        return lines.out_of_loop(case, candidate)
    rank, other = found.ranks[0], found.others[0]
    mine = named(case, rank, out.inside.call)
    theirs = named(case, other, out.gone.call, brief=True)
    row = _in_a_row(case, candidate, out.inside.call, rank)
    again = f" once more, the {words.ordinal(row)} in a row" if row > 1 else ""
    habit = found.habit
    as_before = f", as all ranks had done {habit.times} before" if habit else ""
    why = decided.sentence(case, candidate)
    return Reason(
        f"{words.upper(words.ranks(found.ranks))} issued {mine}{again}, where "
        f"{words.ranks(found.others)} went on to {theirs}{as_before}. "
        f"{loop_lines.stands_in(out.loop, mine)}, which {words.ranks(found.ranks)} "
        f"{words.verb(found.ranks, 'goes', 'go')} through once more."
        f"{why or loop_lines.can_end(out.loop)}",
        "\n".join(filter(None, (decided.fix(case, candidate), ONE_LENGTH))),
        "uneven",
    )


def _other_op(candidate: Candidate, found: Edit) -> str:
    """`` (scatter; it issued broadcast)``, of calls that a library makes under one name."""
    point, missing = of_ranks(candidate, found.ranks), found.calls[0]
    if point is None or words.name(point.call) != words.name(missing):
        return ""
    op = point.call.op
    issued = words.verb(found.ranks, "it", "they")
    return f" ({missing.op}; {issued} issued {op})" if op != missing.op else ""


def _from_elsewhere(case: Case, candidate: Candidate, found: Edit) -> str:
    """`` at train.py:9 in log()``: where the others made a call that is told by another's line."""
    point, missing = of_ranks(candidate, found.others), found.calls[0]
    if found.habit is None or point is None or point.call.site == missing.site:
        return ""
    return place_of(case, found.others[0], point.call)


def _left(case: Case, candidate: Candidate, found: Edit) -> Reason | None:
    """Some ranks did what their loop would not have brought, and the others went on in it."""
    habit, call = found.habit, found.calls[0]
    if habit is None:
        return None
    who, others = words.ranks(found.ranks), words.ranks(found.others)
    what = named(case, found.ranks[0], call)
    went_on, with_ = of_ranks(candidate, found.others), ""
    if went_on is not None:
        with_ = f" with {named(case, found.others[0], went_on.call, brief=True)}"
    if token_again(habit, call) and rounds.way(case, candidate) is None:
        row = _in_a_row(case, candidate, call, found.ranks[0])
        told = (
            f"{words.upper(who)} issued {closed(what)} once more, the {words.ordinal(row)} in a "
            f"row, where {others} went on{with_}, as all ranks had done {habit.times} before."
            f"{_still_in(case, candidate, found, what)}"
        )
        return Reason(
            told + decided.sentence(case, candidate),
            decided.fix(case, candidate) or f"{EVERY_RANK}\n{ONE_LENGTH}",
            "some ranks",
        )
    of_round = rounds.reason(case, candidate)
    if of_round is not None:
        return of_round
    ended = lines.out_of_loop(case, candidate, found.ranks, habit.times)
    if ended is not None:
        return _root_had_it(case, candidate, found, ended.cause) or ended
    why = decided.sentence(case, candidate)
    side = next((s for s in candidate.sides if s.ranks == found.ranks), None)
    other = next((s for s in candidate.sides if s.ranks == found.others), None)
    in_it = side is not None and other is not None and calls_in_one_loop(case, side, other)
    if in_it and not why:
        why = lone_line.told(case, candidate)
    if why or in_it or any(around(case, one) for one in candidate.sides):
        told = (
            f"After {habit.equal_rounds} {who} issued {closed(what)} instead of going on{with_}, "
            f"as {others} did.{why}"
        )
        if set(found.others) <= set(candidate.suspects):
            told = (
                f"{words.upper(others)} left out {what}, which {who} issued, and went on{with_}, "
                f"as in the {habit.equal_rounds} before.{why}"
                f"{_skipped_by(case, found.ranks, candidate)}"
            )
        turn = _one_turn_more(case, candidate, found, what) if not why else None
        if turn is not None:
            return Reason(told + turn.cause, turn.fix, "some ranks")
        return _root_had_it(case, candidate, found, told) or Reason(
            told, decided.fix(case, candidate) or EVERY_RANK, "some ranks"
        )
    return Reason(
        f"{words.upper(who)} left the loop that all ranks had gone through {habit.times} and "
        f"called {what}; {others} went on in it. Either only {who} took that branch, or the loop "
        "ended earlier there.",
        _ONE_BRANCH,
        "some ranks",
    )


def _still_in(case: Case, candidate: Candidate, found: Edit, what: str) -> str:
    """The loop that ranks are in with a call, and the others are not: a sentence after a space.

    ``what``: the call, as it was named.
    """
    inside, gone = of_ranks(candidate, found.ranks), of_ranks(candidate, found.others)
    if inside is None or gone is None:
        return ""
    seen = loop_lines.loop_of_one(case, inside, gone)
    if seen is None:
        return ""
    return (
        f" {loop_lines.stands_in(seen, what)}: {words.ranks(found.ranks)} went through that "
        f"once more, and {words.ranks(found.others)} did not.{loop_lines.can_end(seen)}"
    )


def _one_turn_more(case: Case, candidate: Candidate, found: Edit, what: str) -> Reason | None:
    """A further call of the loop that the one before came from, by ranks that the others left."""
    inside, gone = of_ranks(candidate, found.ranks), of_ranks(candidate, found.others)
    rank = found.ranks[0]
    last = case.last_before(rank, candidate.stream, candidate.seq)
    if inside is None or gone is None or last is None:
        return None
    seen = loop_lines.loop_of_one(case, inside, gone)
    if seen is None or not loop_lines.is_in(case, case.stack(rank, last), seen):
        return None
    ways = ways_past.past_a_turn(case, seen.frame)
    who, others = words.ranks(found.ranks), words.ranks(found.others)
    fix = ways_past.fix(ways, f"{words.name(inside.call)}{words.at(inside.call)}")
    return Reason(
        f" {loop_lines.stands_in(seen, what)}: {who} had one turn more of that, or made a "
        f"call in a turn in which {others} made none.{ways_past.led(ways, others, 'that')}"
        f"{loop_lines.can_end(seen)}",
        "\n".join(filter(None, (fix, ONE_LENGTH))),
    )


def _one_branch(case: Case, candidate: Candidate) -> str:
    """What to look for; a condition on the rank is an example only where no line could be read."""
    known = any(around(case, side) for side in candidate.sides)
    return EVERY_RANK if known else _ONE_BRANCH


def _skipped_by(case: Case, makers: Sequence[int], candidate: Candidate) -> str:
    """How an exception may have left out on the suspects what others made."""
    side = next((s for s in candidate.sides if s.ranks == tuple(makers)), None)
    return decided.skipped_by(case.code, side.stack or ()) if side is not None else ""


def _skipped(candidate: Candidate, found: Edit) -> str:
    """What may have left out a call where nothing is known of it: a sentence after a space."""
    point = of_ranks(candidate, found.ranks)
    if found.habit is not None and point is not None and token_again(found.habit, point.call):
        return SKIPPED_OR_REPEATED
    return SKIPPED


def token_again(habit: loop.Loop, call: Call) -> bool:
    """Whether a call is the one before it once more."""
    return habit.period > 1 and loop.token(call) == loop.token(habit.latest)


def _in_a_row(case: Case, candidate: Candidate, latest: Call, rank: int) -> int:
    """How many equal calls of a rank end with the row's."""
    token, count = loop.token(latest), 1
    for call in reversed(case.before(rank, candidate.stream, candidate.seq, _MOST_IN_A_ROW)):
        if loop.token(call) != token:
            break
        count += 1
    return count


_MOST_IN_A_ROW: Final = 300
"""Calls before a row that are looked at."""


def _root_had_it(case: Case, candidate: Candidate, found: Edit, told: str) -> Reason | None:
    """Only the root of a rooted collective just before had its result, and it went its own way."""
    if candidate.stream is None or candidate.seq is None or len(found.ranks) != 1:
        return None
    if by_handler(case, candidate):
        return None
    rank = found.ranks[0]
    last = case.call(rank, candidate.stream, candidate.seq - 1)
    if last is None or last.root != rank or last.op not in ops.TO_ROOT or not is_user(last):
        return None
    return Reason(
        f"{told} Just before, {named(case, rank, last, brief=True)} gave its result to rank {rank} "
        f"only, the root (dst {rank}): what is decided by it, the others cannot decide alike.",
        f"If rank {rank} decides by that result: all_reduce instead of {words.name(last)}, or "
        f"broadcast what rank {rank} decided, so that every rank takes the same way.",
    )


_ONE_BRANCH: Final = (
    "Make the call on every rank or on none: take it out of `if rank == 0:` and of branches on "
    "data that differs between ranks.\n"
    "If it is in a loop: give the loop the same length on every rank."
)
