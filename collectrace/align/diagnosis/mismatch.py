"""Rows on which ranks issued different collectives: why, and what to change."""

from __future__ import annotations

import re
from typing import Final

from collectrace import words
from collectrace.align.diagnosis import (
    ddp,
    decided,
    framework_fixes,
    inputs,
    loop,
    modules,
    order,
    parted,
    program,
    refused,
    sisters,
    slip,
)
from collectrace.align.diagnosis.headline import elements, headline, met_a_shadow, pair
from collectrace.align.diagnosis.wording import (
    AMBIGUOUS,
    EVERY_RANK,
    FOLLOWS,
    Explainer,
    Reason,
    Wording,
    called,
    even_inputs,
    first,
    loads_data,
    place,
)
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.judging.parted import around
from collectrace.align.judging.threads import sharing
from collectrace.align.matching.comparison import Divergence
from collectrace.align.reading import code_lines
from collectrace.records import Call
from collectrace.signature import counts, is_user


def explain(case: Case, candidate: Candidate) -> Wording:
    """One row in words."""
    wording = refused.explain(case, candidate)
    if wording is not None:
        return wording
    reason = first(_REASONS, case, candidate) or _generic(case, candidate)
    cause = reason.cause
    if _is_ambiguous(candidate) and not sharing(case, candidate):
        cause += f" {AMBIGUOUS}"
    return Wording(
        headline(case, candidate), cause, framework_fixes.applied(case, candidate, reason)
    )


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
        f"{_garbage_rank(case, candidate) or 'Here the difference reaches the wire.'}"
        f"{_misread(case, root)}"
    )
    return Reason(text, FOLLOWS)


def _garbage_rank(case: Case, candidate: Candidate) -> str:
    """join() looks for the rank whose model counts, and gets another call's bytes."""
    sides = called(candidate)
    chooses = next(((s, c) for s, c in sides if c.role == "join.common_rank"), None)
    other = next(((s, c) for s, c in sides if c.role != "join.common_rank"), None)
    if chooses is None or other is None or candidate.kind != "dtype_mismatch":
        return ""
    who, what = words.ranks(chooses[0].ranks), words.tensors(other[1])
    are = words.verb(chooses[0].ranks, "is", "are")
    whose = words.ranks(other[0].ranks)
    text = (
        f"Here {who} {are} in _find_common_rank(): an int64 all_reduce (MAX) by which join() finds "
        f"the rank whose model is final. It meets a {what} of {whose}, so a rank number is read "
        "from the bits of a float: a garbage authoritative rank, from which join() would "
        "broadcast the final model."
    )
    for rank in chooses[0].ranks:
        if (root := _source_of_broadcast(case, rank)) is not None:
            text += f" It was {root} on rank {rank}, which raised over it."
    died = [s for s, _ in sides if s.state == "died"]
    if died and candidate.group is not None and "gloo" in candidate.group.backend:
        text += (
            f" gloo aborts a process that is sent more bytes than it awaits: "
            f"{words.ranks(died[0].ranks)} died of it."
        )
    return text


def _source_of_broadcast(case: Case, rank: int) -> str | None:
    """The rank that join() was to broadcast from, where pybind refused it as no C int."""
    log = case.log(rank)
    message = (log.exit.message or "") if log is not None and log.exit is not None else ""
    found = _REFUSED.search(message)
    return found[1] if found else None


_REFUSED: Final = re.compile(r"_broadcast_coalesced\(\).*, (-?\d+)\s*$", re.DOTALL)

_READ_AS: Final = {
    "join.common_rank": "that no rank had inputs left",
    "join.final_sync": "that no rank had inputs left",
    "join.sync_check": "that some rank still had inputs",
    "join.terminate": "that some rank still had inputs",
}
"""What a rank in join() takes for true, by the role of the call that it issues next.

Source: ``Join.__exit__`` in torch/distributed/algorithms/join.py and ``_sync_final_model`` in
torch/nn/parallel/distributed.py (2.13).
"""


def _misread(case: Case, root: Candidate) -> str:
    """join() took the value of the user's call for the answer to its own question."""
    met = met_a_shadow(root)
    if met is None or root.stream is None or root.seq is None:
        return ""
    (user, call), (reader, shadow) = met
    after = case.call(reader.ranks[0], root.stream, root.seq + 1)
    belief = _READ_AS.get(after.role) if after is not None else None
    if belief is None or shadow.role != "join.count_nonjoined":
        return ""
    return (
        f" It came to this because {words.ranks(reader.ranks)} took the value of "
        f"{words.name(call)} on {words.ranks(user.ranks)} for join()'s count, and read from it "
        f"{belief}."
    )


def _consequence(_: Case, candidate: Candidate) -> Reason | None:
    if candidate.cause is None:
        return None
    return Reason(
        f"The ranks had parted before, at {place(candidate.cause)}, and went on out of step.",
        FOLLOWS,
    )


def _shared(case: Case, candidate: Candidate) -> Reason | None:
    """Several threads of each rank issue calls on the group, in whatever order they come."""
    found = sharing(case, candidate)
    if not found:
        return None
    group = words.group(candidate.group) if candidate.group is not None else "one group"
    return Reason(
        f"Threads {words.listed(found)} of each rank issue calls on {group}. Nothing "
        "orders threads, so the calls come in one order on some ranks and in another on others: no "
        "rank is to blame, the group is shared.",
        "Give every thread a process group of its own (torch.distributed.new_group() on every "
        "rank, before the threads start), or issue all calls of the group from one thread.",
        "threads",
    )


def _inside_join(case: Case, candidate: Candidate) -> Reason | None:
    """A user's own collective inside ``join()``, which shadows only the framework's."""
    met = met_a_shadow(candidate)
    if met is None:
        return None
    (side, call), (joined, shadow) = met
    gone, who = words.ranks(joined.ranks), words.ranks(side.ranks)
    found = inputs.of_candidate(case, candidate)
    uneven = f"Uneven inputs: {found.phrase()}." if found is not None else (
        f"{words.upper(gone)} ran out of inputs before {who}."
    )  # fmt: skip
    meets = (
        "The bytes fit, so nothing fails yet, but from here on each call meets the wrong one."
        if candidate.kind == "role_mismatch"
        else "The two do not fit, and cannot complete together."
    )
    library = call.via or ""
    forward = (
        " (It comes from inside the model's forward, as SyncBatchNorm's calls do.)"
        if "norm" in library.lower() or "_functions" in library
        else ""
    )
    cause = (
        f"{uneven} Out of inputs, {gone} {words.verb(joined.ranks, 'stays', 'stay')} in join() and "
        f"{words.verb(joined.ranks, 'answers', 'answer')} DDP's collectives there, but no others. "
        f"The {words.name(call)}{words.at(call)} on {who} is the script's own, and met "
        f"{words.issuer(shadow)}. {meets}{forward}"
    )
    even = _even(case, candidate)
    fix = (
        f"Move the {words.name(call)}{words.at(call)} out of the `with model.join():` block.\n"
        f"Or {even[0].lower()}{even[1:]}\n"
        "Or stop all ranks when the first runs out: "
        "model.join(throw_on_early_termination=True)."
    )
    return Reason(cause, fix)


def _own_hook(_: Case, candidate: Candidate) -> Reason | None:
    """A join hook of the script's own issues another call than what it is to shadow."""
    hooks = [(s, c) for s, c in called(candidate) if c.role == "join.own_hook"]
    others = [(s, c) for s, c in called(candidate) if c.role != "join.own_hook"]
    if not hooks or not others or candidate.kind == "role_mismatch":
        return None
    (side, shadow), (other, call) = hooks[0], others[0]
    return Reason(
        f"{words.upper(words.ranks(side.ranks))} ran out of inputs, and the script's own join hook "
        f"shadows the others there: {words.call(shadow)}. {words.upper(words.ranks(other.ranks))} "
        f"issued {words.call(call)}. The two do not fit.",
        "Have the join hook (main_hook) issue what its joinable issues for one input: the same "
        "calls, of the same size and type, in the same order.",
    )


def _split(_: Case, candidate: Candidate) -> Reason | None:
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
    text = words.upper("; ".join(parts)) if parts else "The splits do not fit pair by pair"
    text += f"; and {words.counted(more, 'more pair')}" if more > 0 else ""
    return Reason(
        f"{text}. The totals may agree all the same, so nothing is noticed before the data moves.",
        "input_split_sizes[j] on rank i must equal output_split_sizes[i] on rank j: exchange the "
        "sizes first (all_to_all_single of the counts) and use what was received.",
    )


def _coalesced(_: Case, candidate: Candidate) -> Reason | None:
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


def _uneven(case: Case, candidate: Candidate) -> Reason | None:
    """One rank has left the loop; another is in a further round of it."""
    found = inputs.of_candidate(case, candidate)
    if found is None:
        return None
    parts, inside, answered = [], list[Call](), False
    for side, call in called(candidate):
        who, at = words.ranks(side.ranks), words.at(call)
        if set(side.ranks) & found.ended:
            parts.append(f"{who} left the loop and went on to {words.name(call)}{at}")
        else:
            still = words.verb(side.ranks, "is", "are")
            parts.append(f"{who} {still} still in it, in {words.name(call)}{at}")
            inside = loop.own_calls(case, side.ranks[0], candidate)
            answered = answered or loop.is_answered(case, side.ranks[0], candidate)
    cause = f"Uneven inputs: {found.phrase()}.{found.witness} {words.upper('; '.join(parts))}."
    return Reason(cause, even_inputs(_even(case, candidate), inside, answered=answered), "uneven")


def _even(case: Case, candidate: Candidate) -> str:
    left = decided.loop_left(case, candidate)
    return decided.even_length(case, left.loop if left is not None else None)


def _dtype(_: Case, candidate: Candidate) -> Reason | None:
    if candidate.kind != "dtype_mismatch":
        return None
    sides = called(candidate)
    listed = words.listed([f"{words.tensors(c)} on {words.ranks(s.ranks)}" for s, c in sides])
    names = {str(c.dtype) for _, c in sides}
    cause = f"The {words.name(sides[0][1])} got tensors of different dtypes: {listed}."
    if names & _HALF and names - _HALF <= {"float32"}:
        cause += (
            " Half precision on some ranks only is what torch.autocast leaves behind, or a model "
            "that was converted, where the others did neither."
        )
        fix = (
            "Enter torch.autocast on every rank or on none, or convert before the call "
            "(tensor.float())."
        )
    elif names & _INTEGRAL and names - _INTEGRAL:
        if {"int64", "float32"} == names:
            cause += " A tensor made of Python ints is int64, one made of floats float32."
        fix = "Give the dtype where the tensor is made: torch.tensor(x, dtype=torch.float32)."
    else:
        fix = "Convert to one dtype before the call, the same on every rank."
    return Reason(cause, fix)


_HALF: Final = frozenset({"float16", "bfloat16"})
_INTEGRAL: Final = frozenset({"int64", "int32", "int16", "int8", "uint8", "bool"})


def _count(case: Case, candidate: Candidate) -> Reason | None:
    if candidate.kind != "shape_mismatch":
        return None
    sides = called(candidate)
    listed = words.listed([f"{words.tensors(c)} on {words.ranks(s.ranks)}" for s, c in sides])
    if len({tuple(counts(c)) for _, c in sides}) == 1:
        return Reason(
            f"As many elements, in another shape: {listed}. The bytes fit, but elements that do "
            "not belong together are combined.",
            "Bring the tensors into one shape before the call (a transpose on some ranks only?).",
        )
    first_call = sides[0][1]
    op = "" if is_user(first_call) else f" ({first_call.op})"
    cause = f"The {words.name(first_call)}{op} got tensors of different sizes: {listed}."
    calls = [c for _, c in sides]
    if _differs_in_first_only(calls) and loads_data(case) and all(is_user(c) for c in calls):
        cause += " Only the first dimension differs, as with a ragged batch (the last, mostly)."
        fix = (
            "Drop the ragged batch (DataLoader(drop_last=True)), or pad to one size.\n"
            "To collect uneven pieces, exchange the sizes first and use the list form of "
            "all_gather."
        )
    else:
        if _differs_in_first_only(calls) and any(len(c.shape or ()) > 1 for c in calls):
            cause += " Only the first dimension differs."
        fix = (
            "Bring the tensors to one size on every rank before the call: pad, or exchange the "
            "sizes first."
        )
        if len({c.site for c in calls}) == 1 and _in_for(case, candidate):
            fix += (
                "\nIf the loop around it goes over a set or a dict: in the same order on every "
                "rank, sorted(...)."
            )
    return Reason(cause + decided.sentence(case, candidate), fix, "sizes")


def _in_for(case: Case, candidate: Candidate) -> bool:
    """Whether the calls are made in a ``for``."""
    found = code_lines.innermost_loop(around(case, called(candidate)[0][0]))
    return found is not None and code_lines.statement(found).startswith("for ")


def _differs_in_first_only(calls: list[Call]) -> bool:
    shapes = [c.shape for c in calls]
    if any(not s or isinstance(s[0], list) for s in shapes):
        return False
    return len({tuple(map(str, (s or [])[1:])) for s in shapes}) == 1


def _one_value(_: Case, candidate: Candidate) -> Reason | None:
    """Reduce op or root: the call is the same but for one argument."""
    what = {"reduce_op_mismatch": "reduce op", "root_mismatch": "root"}.get(candidate.kind)
    if what is None:
        return None
    sides = called(candidate)
    listed = words.listed(
        [
            f"{c.reduce_op if what == 'reduce op' else f'rank {c.root}'} on {words.ranks(s.ranks)}"
            for s, c in sides
        ]
    )
    if what == "reduce op":
        return Reason(
            f"The ranks reduce in different ways: {listed}. No backend checks it: the results "
            "differ from rank to rank, silently.",
            "Pass the same op on every rank.",
        )
    text = f"The ranks name different roots: {listed}."
    if all(s.ranks == (c.root,) for s, c in sides):
        text = "Every rank names itself as the root."
    return Reason(
        text,
        f"Pass the same {words.root(sides[0][1])} on every rank: a global rank, not one computed "
        "from the rank's own number.",
    )


def _swapped(case: Case, candidate: Candidate) -> Reason | None:
    source = candidate.source
    if not isinstance(source, Divergence) or not source.swapped:
        return None
    sites = words.listed([words.site(c.site or "?") for _, c in called(candidate)])
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
    return Reason(
        f"The bytes agree, but the ranks make these calls in swapped order: {sites}. So values "
        "that do not belong together are combined, silently.",
        "Issue them in the same order on every rank (never iterate over a set, or over a dict "
        "that is filled in another order).",
    )


def _generic(case: Case, candidate: Candidate) -> Reason:
    sides = called(candidate)
    listed = "; ".join(f"{words.ranks(s.ranks)}: {words.call(c)}" for s, c in sides[:4])
    why, fix = decided.sentence(case, candidate), decided.fix(case, candidate) or EVERY_RANK
    if candidate.kind == "role_mismatch":
        told = f"The bytes fit, but the calls do not belong together: {listed}."
        return Reason(told + why, fix, "some ranks")
    before = "Up to here the ranks agree; then" if (candidate.seq or 0) > 1 else "Here"
    told = f"{before} they took different ways: {listed}."
    why = why or " The logs do not show what decided it."
    return Reason(told + why, fix, "some ranks")


_REASONS: Final[tuple[Explainer, ...]] = (
    _after_root, sisters.reason, _consequence, _shared, program.reason, _swapped, _inside_join,
    _own_hook, _split, _coalesced, ddp.constructor, ddp.forward_alone, order.other_order,
    parted.extra,
    ddp.no_sync, slip.reason, _uneven, ddp.unused_setting, ddp.models, parted.lines,
    order.extra_of_users, ddp.between, ddp.behind, ddp.alone, ddp.other_backward,
    ddp.unused, modules.reason, modules.fetched_again, order.reason, _dtype, _count, _one_value,
)  # fmt: skip
