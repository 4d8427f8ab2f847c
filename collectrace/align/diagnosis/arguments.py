"""The same collective with other arguments: splits, batches, dtypes, sizes, reduce ops, roots."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Final

from collectrace import words
from collectrace.align.diagnosis import (
    decided,
    either_first,
    half_precision,
    inputs,
    loop_lines,
    ways_past,
    ways_told,
)
from collectrace.align.diagnosis.callers import (
    closed,
    is_in_helper,
    lines,
    place_of,
    through_model,
)
from collectrace.align.diagnosis.headline import elements, pair
from collectrace.align.diagnosis.standpoint import standpoints
from collectrace.align.diagnosis.wording import Reason, called, loads_data, quoted
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.judging.exchanged import Exchanged, exchanged
from collectrace.align.judging.own_number import by_own_number
from collectrace.align.judging.rounds import novelty
from collectrace.align.matching import habit
from collectrace.align.matching.comparison import Divergence
from collectrace.align.reading import chains, statements
from collectrace.findings import Side
from collectrace.ops import canonical_op
from collectrace.records import Call
from collectrace.roles import short
from collectrace.signature import (
    counts,
    fits_itself,
    is_asked,
    is_user,
    program_text,
    stands_at_its_line,
)


def split(case: Case, candidate: Candidate) -> Reason | None:
    """An all_to_all whose sizes do not fit pair by pair."""
    source = candidate.source
    if candidate.kind != "split_mismatch" or not isinstance(source, Divergence):
        return None
    parts = []
    for sender, receiver in source.bad_pairs[:4]:
        sent, wanted = pair(source, sender, receiver)
        whom = "itself" if sender == receiver else f"rank {receiver}"
        which = "and" if sender == receiver else "which"
        parts.append(f"rank {sender} sends {elements(sent)} to {whom}, {which} expects {wanted}")
    more = len(source.bad_pairs) - len(parts)
    text = f"The split sizes do not fit pair by pair{': ' if parts else ''}{'; '.join(parts)}"
    text += f"; and {words.counted(more, 'more pair')}" if more > 0 else ""
    if place := _called_in(case, candidate):
        text += f". The call stands{place}"
    found = exchanged(case, candidate)
    if found is not None:
        fix = _UNCHANGED.format(at=words.at(found.call))
        return Reason(
            f"{text}.{_after_exchange(found)}", fix if found.shuffled else f"{fix} {_BEFORE}"
        )
    fix = (
        "input_split_sizes[j] on rank i must equal output_split_sizes[i] on rank j: exchange the "
        "sizes first (all_to_all_single of the counts) and use what was received."
    )
    turn = either_first.reason(case, candidate)
    if turn is not None:
        return Reason(
            f"{text}. {turn.cause}", f"{turn.fix}\nIf a size is wrong all the same: {fix}"
        )
    own = _own_sizes(case, source)
    if own:
        return Reason(
            f"{text}. Each rank sends, and expects, parts of one size: {_listed(own)}.",
            "Let all ranks agree on that size first: an all_reduce (MAX) of it, to which each pads "
            f"its parts.\nOr let every part have its own: {fix}",
        )
    equal = _equal_parts(case, source)
    if equal:
        return Reason(
            f"{text}. Each rank cuts what it sends, and what it expects, into equal parts: "
            f"{_listed(equal)}.",
            "Give all ranks tensors of one size there: the same data in the same order, or padded "
            f"to one length.\nOr let every part have its own: {fix}",
        )
    return Reason(
        f"{text}. The totals may agree all the same, so nothing is noticed before the data moves.",
        fix,
    )


def _equal_parts(case: Case, source: Divergence) -> dict[int, list[int]]:
    """Whose parts are of which size, where those of each rank are of one, both ways; else empty.

    Of one line, reached in one way: else they may be other parts.
    """
    found: dict[int, list[int]] = {}
    calls = [(rank, call) for rank, call in source.calls.items() if call is not None]
    if len({(call.site, case.stack(rank, call)) for rank, call in calls}) > 1:
        return {}
    for rank, call in calls:
        own = _part_sizes([call])
        if len(own) != 1:
            return {}
        found.setdefault(own.pop(), []).append(rank)
    return found


def _own_sizes(case: Case, source: Divergence) -> dict[int, list[int]]:
    """The equal parts of ranks which had been of one size each till then; else empty."""
    for rank, call in source.calls.items():
        before = case.before(rank, source.stream, source.seq)
        alike = (one for one in before if one and call and one.site == call.site)
        if call is not None and len(_part_sizes(alike)) != 1:
            return {}
    return _equal_parts(case, source)


def _listed(sizes: dict[int, list[int]]) -> str:
    return words.listed([f"{n} on {words.ranks(ranks)}" for n, ranks in sizes.items()])


def _part_sizes(calls: Iterable[Call]) -> set[int]:
    return {n for call in calls for part in call.splits or () for n in part}


def _after_exchange(found: Exchanged) -> str:
    """That the ranks had exchanged the sizes, and who went by others: sentences after a space."""
    text = (
        " The ranks had exchanged the split sizes in the call before, "
        f"{words.op(found.call)}{words.at(found.call)}."
    )
    for rank, change in found.changed.items():
        text += (
            f" In all the others expect {change.expected} elements of rank {rank}, as many as it "
            f"sent in each of the {change.times} calls before from that line; now it sends "
            f"{change.sent}."
        )
    if found.shuffled is not None:
        return (
            f"{text} Rank {found.shuffled.rank} expects as many elements in all as it is sent, "
            f"{found.shuffled.total:,}, but of other ranks: so its output split sizes are not what "
            "it received there, as where they are those of another call, or in another order."
        )
    if found.changed:
        who = sorted(found.changed)
        return (
            f"{text} So {words.ranks(who)} changed {words.verb(who, 'its', 'their')} split sizes "
            "after the exchange, as where what is over a capacity is dropped then."
        )
    return (
        f"{text} On one side they were changed after that: what is sent, as where what is over a "
        "capacity is dropped then, or what is expected."
    )


_UNCHANGED: Final = (
    "Pass on the split sizes unchanged that were exchanged{at}: as input_split_sizes what was sent "
    "there, as output_split_sizes what was received."
)
_BEFORE: Final = (
    "Where something is dropped (what is over a capacity, duplicates), drop it before the sizes "
    "are exchanged, not after."
)


def coalesced(_: Case, candidate: Candidate) -> Reason | None:
    """Calls batched into one on some ranks, and not, or otherwise, on others."""
    sides = called(candidate)
    batched = [(s, c) for s, c in sides if c.op.endswith(_COALESCED)]
    apart = [(s, c) for s, c in sides if not c.op.endswith(_COALESCED)]
    if not batched or any(f"{c.op}{_COALESCED}" != batched[0][1].op for _, c in apart):
        return None
    if not apart and candidate.kind != "shape_mismatch":
        return None
    listed = words.listed(
        [
            f"{words.counted(len(c.shape or []), 'tensor')} at once on {words.ranks(s.ranks)}"
            for s, c in batched
        ]
        + [f"one at a time on {words.ranks(s.ranks)}" for s, _ in apart]
    )
    return Reason(
        f"The ranks batch {batched[0][1].op.removesuffix(_COALESCED)} differently: {listed}. A "
        "batch reaches the backend as one collective.",
        "Put the same calls into the same batch on every rank, or batch on none.",
    )


_COALESCED: Final = "_coalesced"


def dtype(case: Case, candidate: Candidate) -> Reason | None:
    """Tensors of other dtypes."""
    if candidate.kind != "dtype_mismatch":
        return None
    sides = called(candidate)
    listed = _by_side(case, sides, words.tensors)
    names = {str(c.dtype) for _, c in sides}
    where = _through_helper(case, sides)
    cause = f"The {words.name(sides[0][1])}{where} got tensors of different dtypes: {listed}."
    if names & half_precision.HALF and names - half_precision.HALF <= {"float32"}:
        half = half_precision.reason(case, candidate)
        cause += half.cause
        fix = half.fix
    elif names & _INTEGRAL and names - _INTEGRAL:
        if {"int64", "float32"} == names:
            cause += " A tensor made of Python ints is int64, one made of floats float32."
        fix = "Give the dtype where the tensor is made: torch.tensor(x, dtype=torch.float32)."
    else:
        fix = "Convert to one dtype before the call, the same on every rank."
    return Reason(cause, fix)


_INTEGRAL: Final = frozenset({"int64", "int32", "int16", "int8", "uint8", "bool"})


def count(case: Case, candidate: Candidate) -> Reason | None:
    """Tensors of other sizes, or other shapes."""
    if candidate.kind != "shape_mismatch":
        return None
    sides = called(candidate)
    listed = words.listed([f"{words.tensors(c)} on {words.ranks(s.ranks)}" for s, c in sides])
    size = len(candidate.group.ranks) if candidate.group is not None else 0
    ill = [(s, c) for s, c in sides if not fits_itself(c, size)]
    if ill:
        told = "; ".join(f"{words.ranks(s.ranks)}: {words.call(c)}" for s, c in ill)
        n = "an element" if counts(ill[0][1]) == [1] else f"{counts(ill[0][1])[0]} elements"
        return Reason(
            f"What goes in and what comes out do not fit in a group of {size} ranks, where {n} of "
            f"each make {size * counts(ill[0][1])[0]}: {told}.",
            "Make the larger tensor as many times as large as the other as the group has ranks.",
        )
    if len({tuple(counts(c)) for _, c in sides}) == 1:
        return Reason(
            f"As many elements, in another shape: {listed}. The bytes fit, but elements that do "
            "not belong together are combined.",
            "Bring the tensors into one shape before the call (a transpose on some ranks only?).",
        )
    first_call = sides[0][1]
    name = words.name(first_call)
    if not is_user(first_call):
        known = name if stands_at_its_line(first_call) else short(first_call.role)
        name = f"{known} ({first_call.op})"
    where = _through_helper(case, sides)
    sizes = _by_side(case, sides, words.sized)
    cause = f"The {name}{where} got tensors of different sizes: {sizes}."
    if all(c.role in _TENSOR_PARALLEL for _, c in sides):
        cause += _ONE_INPUT
    if all(c.role == "torchmetrics.sync" and _is_of_a_shape(c) for _, c in sides):
        cause += _OTHER_STATES
    calls = [c for _, c in sides]
    combines = any(c.reduce_op is not None for c in calls)
    of_users = loads_data(case) and all(is_user(c) for c in calls)
    last = _at_last_batch(case, candidate) if differs_in_first_only(calls) and of_users else ""
    if last or (differs_in_first_only(calls) and of_users and not combines):
        mostly = last or " (the last, mostly)"
        cause += f" Only the first dimension differs, as with a ragged batch{mostly}."
        fix = (
            "Drop the ragged batch (DataLoader(drop_last=True)), or pad to one size.\n"
            "To collect uneven pieces, exchange the sizes first and use the list form of "
            "all_gather."
        )
    else:
        if differs_in_first_only(calls) and any(len(c.shape or ()) > 1 for c in calls):
            cause += " Only the first dimension differs."
        fix = (
            _ROOT_DECIDES.format(root=first_call.root)
            if canonical_op(first_call.op) == "broadcast" and all(is_user(c) for c in calls)
            else "Bring the tensors to one size on every rank before the call: pad, or exchange "
            "the sizes first."
        )
        ahead = _next_turns(case, candidate)
        if ahead is not None:
            return Reason(
                cause + ahead.cause,
                f"{ahead.fix}\nIf it is at the same turn: {words.lower(fix)}",
                "sizes",
            )
        turns = order_of_names(case, candidate)
        cause += turns.cause
        fix += turns.fix
    past = _past_a_turn(case, candidate)
    if past is not None:
        cause, fix = (
            cause + past.cause,
            f"{fix}\nIf a turn was passed over: {words.lower(past.fix)}",
        )
    return Reason(cause + decided.sentence(case, candidate), fix, "sizes")


def _past_a_turn(case: Case, candidate: Candidate) -> Reason | None:
    """What may have led one side past a turn of a loop, where each goes through one of its own.

    As who sends one tensor after another, and who receives them: then they are at other ones.
    """
    points = standpoints(candidate)
    if len(points) != 2 or len({point.call.site for point in points}) == 1:
        return None
    if not all(point.stack and case.loops(point.stack[:1]) for point in points):
        return None
    found = [(point, ways_past.past_a_turn(case, point.stack[0])) for point in points]
    texts = [{statements.code_of(way.line) for way in those} for _, those in found]
    alike = texts[0] & texts[1]  # both sides decide so
    found = [
        (point, [way for way in those if statements.code_of(way.line) not in alike])
        for point, those in found
    ]
    ways = [way for _, those in found for way in those]
    if not 0 < len(ways) <= ways_past.MOST:
        return None
    led = [ways_past.led(those, words.ranks(point.ranks), "a turn") for point, those in found]
    return Reason(
        f" Each side is in a loop of its own, and may be at another turn of it.{''.join(led)}",
        ways_past.fix(ways, words.name(points[0].call)),
    )


def _next_turns(case: Case, candidate: Candidate) -> Reason | None:
    """That a rank came to a line with what it had made at the next turn of a loop till now.

    By what each such call had been followed by; with what may have led it past a turn. None where
    nothing that would is seen.
    """
    points = standpoints(candidate)
    if len(points) != 2 or candidate.seq is None:
        return None
    for mine, other in (points, points[::-1]):
        rank, due, made = mine.ranks[0], program_text(other.call), program_text(mine.call)
        before = case.before(rank, candidate.stream, candidate.seq)
        here = [c for c in before if c is not None and case.stack(rank, c) == tuple(mine.stack)]
        texts = [program_text(call) for call in here]
        followed = [two for one, two in pairwise(texts) if one == due]
        if len(followed) < habit.ENOUGH or {*followed} != {made} or texts[-1] == due:
            continue
        past = ways_told.of_round(case, mine.stack)
        if past is None or mine.stack != other.stack:
            return None
        who, has = words.ranks(mine.ranks), words.verb(mine.ranks, "it has", "they have")
        return Reason(
            f" In each of the {len(followed):,} times before {who} made the call with "
            f"{words.sized(other.call)} there first, and then this one: {has} left out a turn, or "
            f"taken two in another order.{past.cause}",
            past.fix,
        )
    return None


_TENSOR_PARALLEL: Final = frozenset({"dtensor.redistribute", "dtensor.loss"})
_ONE_INPUT: Final = (
    " The ranks of a tensor-parallel group are to work on one input: where their inputs differ in "
    "size, so do the tensors between the layers."
)

_ROOT_DECIDES: Final = (
    "Bring the tensors to one size on every rank before the call: broadcast the size from rank "
    "{root} first and make the tensors by it, or let every rank know the same of what decides it."
)


def _is_of_a_shape(call: Call) -> bool:
    return call.dtype == "int64" and len(call.shape or ()) == 1


# gather_all_tensors (utilities/distributed.py, torchmetrics 1.9.0).
_OTHER_STATES: Final = (
    " The shape of each tensor of a metric's state is gathered before it: here those of tensors "
    "with other numbers of dimensions meet, so of other states. A state that is a list, but for "
    'dist_reduce_fx="cat", is gathered item by item: ranks that hold more items gather more often.'
)


def _at_last_batch(case: Case, candidate: Candidate) -> str:
    """``: rank 1 was at the last of its 8 batches``; empty where that is not seen of the smaller.

    Where the others were at their last, too, only if all tensors were of one size till then.
    """
    sides = called(candidate)
    side, _ = min(sides, key=lambda one: one[1].shape or ())
    found = {
        one.ranks: inputs.at_last_batch(case, one.ranks[0], one.stack or (), its.t)
        for one, its in sides
    }
    mine, new = found[side.ranks], novelty(case, candidate)
    if mine is None or not mine[1] or mine[0] < _SOME:
        return ""
    is_new = new is not None and new.side.ranks == side.ranks
    if not is_new and any(one is None or one[1] for r, one in found.items() if r != side.ranks):
        return ""
    whose = words.verb(side.ranks, "its", "their")
    was = words.verb(side.ranks, "was", "were")
    return f": {words.ranks(side.ranks)} {was} at the last of {whose} {mine[0]:,} batches"


_SOME: Final = 2
"""Batches of which one can be the last of several."""


def _through_helper(case: Case, sides: Sequence[tuple[Side, Call]]) -> str:
    """Where all of them made the call, if a helper or a model did: its caller tells more."""
    places = set()
    for side, call in sides:
        rank = side.ranks[0]
        model = through_model(case, rank, call)
        tells_more = model or is_in_helper(case, rank, call)
        within = "" if is_asked(call) else model
        places.add(place_of(case, rank, call, within=within) if tells_more else "")
    return closed(places.pop()) if len(places) == 1 else ""


def _by_side(case: Case, sides: Sequence[tuple[Side, Call]], given: Callable[[Call], str]) -> str:
    """``float32[4] on rank 0 and float32[6] on ranks 1-2``; with the places where these differ.

    Of two sides that met in helpers of one function: the lines of that function.
    """
    within = [""] * len(sides)
    if len(sides) == 2:
        frames = chains.outermost_apart(*(side.stack or () for side, _ in sides))
        if len({chains.place(frame) for frame in frames if frame}) == 1:
            within = list(frames)
    places = [
        place_of(case, side.ranks[0], call, within=frame)
        for (side, call), frame in zip(sides, within, strict=True)
    ]
    apart = len(set(places)) > 1 and any(is_in_helper(case, s.ranks[0], c) for s, c in sides)
    return words.listed(
        [
            f"{given(call)} on {words.ranks(side.ranks)}{closed(place) if apart else ''}"
            for place, (side, call) in zip(places, sides, strict=True)
        ]
    ).removesuffix(",")


def _called_in(case: Case, candidate: Candidate) -> str:
    """The same before what a sentence lists: `` at comm.py:4 in tell(), called at train.py:12``."""
    return _through_helper(case, called(candidate)).removesuffix(",")


def order_of_names(case: Case, candidate: Candidate) -> Reason:
    """That one line in a loop over names may come to them in other orders; empty: it is not so.

    A sentence after a space, and what to change in a line of its own.
    """
    turns = _loop_over_names(case, candidate)
    if not turns:
        return Reason("", "")
    return Reason(
        f" All come from one line in {turns}: if that goes over a set, or a dict that is filled in "
        "another order, the ranks come to it in other orders.",
        f"\nIf {turns} goes over a set or a dict: in one order on every rank, sorted(...).",
    )


def _loop_over_names(case: Case, candidate: Candidate) -> str:
    """The ``for`` around the one line of all calls, or of who called its function; or nothing.

    Nothing, too, where it goes over what has one order by itself.
    """
    (side, call), *others = called(candidate)
    if any(other.site != call.site for _, other in others):
        return ""
    own = lines(case, side.ranks[0], call) if is_asked(call) else []
    for site in own or [call.site or ""]:
        loop = statements.innermost_loop(case.statements(site))
        text = statements.code_of(loop or "")
        if loop and text.startswith("for ") and not loop_lines.has_own_order(loop):
            return quoted(site.rpartition(":")[0], loop)
    return ""


def differs_in_first_only(calls: Sequence[Call]) -> bool:
    """Whether the tensors of calls differ in their first dimension, and in nothing else."""
    shapes = [c.shape for c in calls]
    if any(not s or isinstance(s[0], list) for s in shapes):
        return False
    return len({tuple(map(str, (s or [])[1:])) for s in shapes}) == 1


def reduce_op(case: Case, candidate: Candidate) -> Reason | None:
    """Reductions that differ in their op."""
    if candidate.kind != "reduce_op_mismatch":
        return None
    listed = words.listed(
        [f"{c.reduce_op} on {words.ranks(s.ranks)}" for s, c in called(candidate)]
    )
    return Reason(
        f"The ranks reduce in different ways{_called_in(case, candidate)}: {listed}. No backend "
        "checks it: the results differ from rank to rank, silently.",
        "Pass the same op on every rank.",
    )


def root(case: Case, candidate: Candidate) -> Reason | None:
    """Calls that are the same but for their root."""
    if candidate.kind != "root_mismatch":
        return None
    sides = called(candidate)
    listed = words.listed(
        [f"{words.ranks(s.ranks)} {words.verb(s.ranks, 'names', 'name')} "
         f"{'itself' if s.ranks == (c.root,) else f'rank {c.root}'}" for s, c in sides]
    )  # fmt: skip
    where = _called_in(case, candidate)
    text = f"The ranks name different roots for one {sides[0][1].op}{where}: {listed}."
    if all(s.ranks == (c.root,) for s, c in sides):
        text = "Every rank names itself as the root."
    elif by_own_number(case, candidate):
        text += (
            " Each names the first rank that it is not itself: the root seems to come from the "
            "rank's own number, and no side is more right than the other."
        )
    if all(c.role == _CONSOLIDATE for _, c in sides):
        text = _consolidated(case, candidate, listed)
    return Reason(
        text,
        f"Pass the same {words.root(sides[0][1])} on every rank: a global rank, not one that each "
        "works out from its own number or its own files. Where it must be found out, let one rank "
        "decide, and broadcast it first.",
        "roots",
    )


_CONSOLIDATE: Final = "zero.consolidate"


def _consolidated(case: Case, candidate: Candidate, listed: str) -> str:
    """What ranks passed to ZeroRedundancyOptimizer.consolidate_state_dict, by what it broadcasts.

    It goes through the ranks in order and leaves out ``to`` (zero_redundancy_optimizer.py, torch
    2.13): at the first difference those that name the later root have just left one out.
    """
    sides = called(candidate)
    ranks = candidate.group.ranks if candidate.group is not None else ()
    text = (
        "consolidate_state_dict(to) makes one broadcast from every rank but `to`, in order, and "
        f"the ranks name different roots for the same one: {listed}. So they passed different "
        "ranks as `to`."
    )
    roots = sorted({c.root for _, c in sides if c.root in ranks}, key=ranks.index)
    if len(roots) == 2 and ranks.index(roots[1]) == ranks.index(roots[0]) + 1:
        left_out = next(s.ranks for s, c in sides if c.root == roots[1])
        others = [r for s, c in sides if c.root == roots[0] for r in s.ranks]
        text = (
            f"{text[:-1]}: {words.ranks(left_out)} to={ranks.index(roots[0])}, and "
            f"{words.ranks(others)} another."
        )
    if by_own_number(case, candidate):
        text += " It would come so if each passed its own number."
    return text
