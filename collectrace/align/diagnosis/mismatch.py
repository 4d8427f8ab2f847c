"""Rows on which ranks issued different collectives: why, and what to change."""

from __future__ import annotations

from typing import Final

from collectrace import words
from collectrace.align.diagnosis import (
    arguments,
    at_the_root,
    autograd,
    by_framework,
    caught,
    come_out,
    conditions,
    ddp,
    ddp_backward,
    ddp_forward,
    decided,
    empty_loop,
    first_alone,
    gone_past,
    inputs,
    join,
    led_apart,
    loop,
    loop_lines,
    modules,
    object_lists,
    one_rank_hooks,
    order,
    other_turn,
    own_loops,
    parted,
    passed_by,
    program,
    recomputed,
    refused,
    rounds,
    sisters,
    slip,
    taken_for,
    threads,
    tried_again,
    undecided,
    ways_told,
)
from collectrace.align.diagnosis.callers import named, telling, whole
from collectrace.align.diagnosis.headline import headline
from collectrace.align.diagnosis.wording import (
    AMBIGUOUS,
    EVERY_RANK,
    FOLLOWS,
    UNDECIDED,
    Explainer,
    Reason,
    Wording,
    called,
    even_inputs,
    first,
    place,
)
from collectrace.align.judging.at_the_root import at_the_root as decided_alone
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.judging.own_number import by_own_number
from collectrace.align.judging.parted import have_met
from collectrace.align.judging.threads import sharing
from collectrace.align.matching.comparison import Divergence
from collectrace.records import Call
from collectrace.roles import is_shadow


def explain(case: Case, candidate: Candidate) -> Wording:
    """One row in words."""
    wording = refused.explain(case, candidate)
    if wording is not None:
        return wording
    reason = first(_REASONS, case, candidate) or _generic(case, candidate)
    reason = recomputed.added(case, candidate, ways_told.added(case, candidate, reason))
    reason = empty_loop.added(case, candidate, reason)
    reason = led_apart.added(case, candidate, reason)
    reason = undecided.added(case, candidate, reason)
    reason = threads.added(candidate, reason)
    cause = reason.cause + _arms(case, candidate, reason)
    proven = (
        reason.because == "join"
        or sharing(case, candidate)
        or by_own_number(case, candidate)
        or decided_alone(case, candidate) is not None
        or first_alone.reason(case, candidate) is not None
    )
    cause += rounds.as_before(case, candidate)
    if _is_ambiguous(candidate) and not proven:
        cause += f" {AMBIGUOUS}"
    cause += sisters.deciding(case, candidate)
    return Wording(headline(case, candidate), cause, by_framework.applied(case, candidate, reason))


def _arms(case: Case, candidate: Candidate, reason: Reason) -> str:
    """That an ``if`` led to two lines whose tensors differ, where nothing that decides is told."""
    found = conditions.of_sides(case, candidate)
    if reason.because != "sizes" and candidate.kind != "dtype_mismatch":
        return ""
    is_told = "`" in reason.cause or candidate.cause is not None
    if is_told or not any(one.forks for one in found):
        return ""
    return decided.sentence(case, candidate)


def _is_ambiguous(candidate: Candidate) -> bool:
    return (
        candidate.severity == "error"
        and not candidate.suspects
        and candidate.cause is None
        and candidate.kind != "split_mismatch"
    )


# -- reasons, the most telling first ---------------------------------------------------------


def _after_root(case: Case, candidate: Candidate) -> Reason | None:
    """The fatal row: a consequence of the row where the programs parted."""
    root = candidate.cause
    if root is None or candidate.mark != "fatal" or root.stream != candidate.stream:
        return None
    text = (
        f"Since call {root.seq} the ranks pair calls that do not belong together. "
        f"{join.garbage_rank(case, candidate) or 'Here the difference reaches the wire.'}"
        f"{join.misread(case, root)}"
    )
    return Reason(text, FOLLOWS)


def _consequence(_: Case, candidate: Candidate) -> Reason | None:
    if candidate.cause is None:
        return None
    return Reason(
        f"The ranks had parted before, at {place(candidate.cause)}, and went on out of step.",
        FOLLOWS,
    )


def _uneven(case: Case, candidate: Candidate) -> Reason | None:
    """One rank has left the loop; another is in a further round of it."""
    found = inputs.of_candidate(case, candidate)
    places = {
        (call.site, tuple(side.stack or ()), call.op, call.role) for side, call in called(candidate)
    }
    if found is None:
        return None
    if len(places) == 1 and found.told_by == "loader":
        return _at_one_line(case, candidate, found)
    left = ways_told.left_loop(case, candidate, found)
    if left is not None:
        return left
    seen = loop_lines.left(case, candidate) or come_out.out_of(case, candidate)
    left_it = f"the loop {seen.loop.quoted}" if seen is not None else "the loop"
    parts, inside, answered = [], list[Call](), False
    is_joined = any(is_shadow(call.role) for _, call in called(candidate))
    for side, call in sorted(
        called(candidate), key=lambda one: not set(one[0].ranks) & found.ended
    ):
        who = words.ranks(side.ranks)
        within = loop_lines.frame_in(side.stack or (), seen.loop) if seen is not None else ""
        what = named(case, side.ranks[0], call, within=within, brief=True)
        if set(side.ranks) & found.ended:
            parts.append(f"{who} left {left_it} and went on to {what}")
        else:
            still = words.verb(side.ranks, "is", "are")
            parts.append(f"{who} {still} still in it, in {what}")
            inside = loop.own_calls(case, side.ranks[0], candidate)
            answered = answered or (
                not is_joined and loop.is_answered(case, side.ranks[0], candidate)
            )
    cause = f"Uneven inputs: {found.phrase()}.{found.witness} {words.upper('; '.join(parts))}."
    return Reason(
        cause, even_inputs(loop_lines.even_at(case, candidate), inside, answered=answered), "uneven"
    )


def _at_one_line(case: Case, candidate: Candidate, found: inputs.Inputs) -> Reason | None:
    """Ranks that had other numbers of batches, and came to one line with what they made of them."""
    sides = called(candidate)
    if candidate.kind not in ("shape_mismatch", "dtype_mismatch"):
        return None
    got = words.listed([f"{words.tensors(c)} on {words.ranks(s.ranks)}" for s, c in sides])
    return Reason(
        f"Uneven inputs: {found.phrase()}.{found.witness} All came to "
        f"{named(case, sides[0][0].ranks[0], sides[0][1], brief=True)}, with what they had made of "
        f"them: {got}.",
        "Where a rank may have fewer batches, or none, bring what is collected to one shape and "
        "dtype first (an empty tensor of the right number of dimensions, padding), or leave the "
        f"call out on every rank alike.\nOr: {words.lower(loop_lines.even_length(case))}",
        "sizes",
    )


def _swapped(case: Case, candidate: Candidate) -> Reason | None:
    source = candidate.source
    if not isinstance(source, Divergence) or not source.swapped:
        return None
    those = [telling(case, s.ranks[0], c) for s, c in called(candidate)]
    sites = words.listed([words.site(c.site or "?") for c in those])
    if source.crosses is not None:
        other = words.group(case.comparison.groups[source.crosses])
        whose = words.ranks(candidate.suspects) if candidate.suspects else "some ranks"
        name = words.name(called(candidate)[0][1])
        return Reason(
            f"The bytes agree, but {whose} issued {name} of these lines, {sites}, each in the "
            f"group of the other: {words.group(source.group)} and {other}. So values that do not "
            "belong together are combined, silently.",
            "Give each line the same group on every rank.",
        )
    of_threads = dict.fromkeys(call.thread for _, call in called(candidate))
    if len(of_threads) > 1:
        named = words.listed([thread or "the main thread" for thread in of_threads])
        return Reason(
            f"The bytes agree, but the ranks make these calls in swapped order: {sites}. They come "
            f"from several threads ({named}), which nothing orders, on one group: values that do "
            "not belong together are combined, silently.",
            threads.A_GROUP_EACH.format(
                who="the thread", start="it starts", calls="make both calls"
            ),
            "threads",
        )
    return Reason(
        f"The bytes agree, but the ranks make these calls in swapped order: {sites}. So values "
        "that do not belong together are combined, silently.",
        "Issue them in the same order on every rank (never iterate over a set, or over a dict "
        "that is filled in another order).",
    )


def _generic(case: Case, candidate: Candidate) -> Reason:
    sides = called(candidate)
    listed = "; ".join(
        f"{words.ranks(s.ranks)}: {whole(case, s.ranks[0], c)}" for s, c in sides[:4]
    )
    why, fix = decided.sentence(case, candidate), decided.fix(case, candidate) or EVERY_RANK
    ended = parted.out_of_loop(case, candidate) or own_loops.reason(case, candidate)
    if ended is not None and not why:
        return ended
    turns = arguments.order_of_names(case, candidate)
    if candidate.kind == "role_mismatch":
        told = f"The bytes fit, but the calls do not belong together: {listed}."
        return Reason(told + why + turns.cause, fix + turns.fix, "some ranks")
    before = "Up to here the ranks agree; then" if (candidate.seq or 0) > 1 else "Here"
    told = f"{before} they took different ways: {listed}."
    why = why or ("" if turns.cause else UNDECIDED)
    order = decided.unordered(case, candidate)
    if order is not None:
        return Reason(told + why + order.cause, f"{fix}\n{order.fix}", "some ranks")
    return Reason(told + why + turns.cause, fix + turns.fix, "some ranks")


def _went_past(case: Case, candidate: Candidate) -> Reason | None:
    """Some ranks went past the others' line: that the calls differ in size is no reason then."""
    return _generic(case, candidate) if gone_past.of_sides(case, candidate) is not None else None


def _split_apart(case: Case, candidate: Candidate) -> Reason | None:
    """Exchanges of other lines, of which something led past the one: their sizes are no reason."""
    if candidate.kind != "split_mismatch":
        return None
    if any(one.forks for one in conditions.of_sides(case, candidate)):
        sizes = arguments.split(case, candidate)
        parted_by, fix = decided.sentence(case, candidate), decided.fix(case, candidate)
        return sizes and sizes._replace(cause=sizes.cause + parted_by, fix=f"{fix}\n{sizes.fix}")
    return first((_went_past, _apart, _other_lines), case, candidate)


def _apart(case: Case, candidate: Candidate) -> Reason | None:
    """Calls of other lines, under a condition: they are other calls, whatever they differ in.

    The arms of one condition may well be meant to meet: then that is what is wrong.
    """
    is_one = len({call.site for _, call in called(candidate)}) == 1
    found = conditions.of_sides(case, candidate)
    if is_one or not found or any(one.forks for one in found):
        return None
    return _generic(case, candidate)


def _other_lines(case: Case, candidate: Candidate) -> Reason | None:
    """Calls of lines that never met, of which one comes behind the other: they are other calls."""
    is_one = len({call.site for _, call in called(candidate)}) == 1
    forks = any(one.forks for one in conditions.of_sides(case, candidate))
    if is_one or forks or have_met(case, candidate):
        return None
    return _generic(case, candidate) if undecided.of_sides(case, candidate) is not None else None


_REASONS: Final[tuple[Explainer, ...]] = (
    _after_root, sisters.reason, _consequence, threads.shared, program.reason, _swapped,
    join.users_call, join.own_hook, join.unanswered, join.answered_in_turn,
    join.block_around_loops, join.on_some_ranks, caught.reason, caught.handled_since,
    tried_again.reason, autograd.of_exchange, _split_apart, arguments.split, arguments.coalesced,
    ddp.constructor, ddp_forward.forward_alone, passed_by.reason, taken_for.reason,
    order.other_order, at_the_root.reason, first_alone.reason, one_rank_hooks.reason, parted.extra,
    ddp_backward.no_sync, slip.reason, _uneven, ddp_backward.unused_setting, ddp.models,
    autograd.reason, parted.lines, parted.due_here, order.extra_of_users, ddp.between, ddp.behind,
    ddp.alone, parted.modules_here, ddp_backward.other_backward, ddp_backward.buckets,
    ddp_backward.unused, modules.reason, modules.fetched_again, order.reason, rounds.reason,
    rounds.turns, ddp_backward.left_out, _went_past, ddp_backward.either, parted.lines_here,
    object_lists.reason, other_turn.reason, _apart, _other_lines, arguments.dtype, arguments.count,
    arguments.reduce_op, arguments.root,
)  # fmt: skip
