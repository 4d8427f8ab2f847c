"""Rows on which ranks issued different collectives: why, and what to change."""

from __future__ import annotations

from typing import Final

from collectrace import roles
from collectrace.align import words
from collectrace.align.case import Candidate, Case
from collectrace.align.diagnosis import ddp, inputs, order
from collectrace.align.diagnosis.wording import (
    AMBIGUOUS,
    EVEN_INPUTS,
    EVERY_RANK,
    JOIN,
    Explainer,
    Reason,
    Wording,
    called,
    first,
)
from collectrace.align.evidence import Divergence
from collectrace.records import Call
from collectrace.signature import canonical_op, counts, is_user


def explain(case: Case, candidate: Candidate) -> Wording:
    """One row in words."""
    reason = first(_REASONS, case, candidate) or _generic(case, candidate)
    cause, fix = reason
    if _is_ambiguous(candidate):
        cause += f" {AMBIGUOUS}"
    return Wording(headline(case, candidate), cause, fix)


def headline(case: Case, candidate: Candidate) -> str:
    """Who issued what, where the others issued what."""
    sides = called(candidate)
    users = [(s, c) for s, c in sides if is_user(c)]
    shadows = [(s, c) for s, c in sides if roles.is_shadow(c.role)]
    if users and shadows:
        (mine, call), (joined, shadow) = users[0], shadows[0]
        return (
            f"{words.ranks(mine.ranks)}'s {words.op(call)}{words.at(call)} met "
            f"{words.issuer(shadow)}, on {words.ranks(joined.ranks)}"
        )
    suspects = set(candidate.suspects)
    wrong = [(s, c) for s, c in sides if set(s.ranks) <= suspects]
    right = [(s, c) for s, c in sides if not set(s.ranks) <= suspects]
    if not wrong or not right:
        wrong, right = sides[:1], sides[1:]
    link = " where " if candidate.suspects else ", "
    parts = [
        words.listed([f"{words.ranks(s.ranks)} issued {_told(c, candidate)}" for s, c in group])
        for group in (wrong, right[:3])
    ]
    text = link.join(part for part in parts if part)
    edit = order.headline(case, candidate)
    return f"{text}: {edit}" if edit else text


def _told(call: Call, candidate: Candidate) -> str:
    whole = words.op(call) + words.at(call)
    if candidate.kind == "split_mismatch" and call.splits and len(call.splits) == 2:
        whole += f" sending {call.splits[0]}, expecting {call.splits[1]}"
    if candidate.kind == "role_mismatch" and is_user(call):
        return f"{whole} (the script's own)"
    return whole if is_user(call) else f"{whole} ({words.issuer(call)})"


def _is_ambiguous(candidate: Candidate) -> bool:
    return (
        candidate.severity == "error"
        and not candidate.suspects
        and candidate.cause is None
        and candidate.kind != "split_mismatch"
    )


# -- reasons, the most telling first ---------------------------------------------------------


def _after_root(_: Case, candidate: Candidate) -> Reason | None:
    """The fatal row: a consequence of the row where the programs parted."""
    root = candidate.cause
    if root is None or candidate.mark != "fatal" or root.stream != candidate.stream:
        return None
    chooses = [s for s, c in called(candidate) if c.role == "join.common_rank"]
    others = [(s, c) for s, c in called(candidate) if c.role != "join.common_rank"]
    text = f"From call {root.seq} on the ranks pair calls that do not belong together."
    if chooses and others and candidate.kind == "dtype_mismatch":
        who, other = chooses[0], others[0]
        text += (
            f" Here the int64 all_reduce with which join() on {words.ranks(who.ranks)} looks for "
            f"the rank whose model counts (_find_common_rank) meets a {words.tensors(other[1])} "
            f"of {words.ranks(other[0].ranks)}. The maximum it takes is made of reinterpreted "
            "bytes: a garbage authoritative rank, from which the final model would be broadcast."
            f"{_how_it_came(root)}"
        )
    else:
        text += " Here the difference reaches the wire."
    return Reason(text, f"Mend the cause at call {root.seq}; nothing has to be changed here.")


def _how_it_came(root: Candidate) -> str:
    """join() believed that nobody had inputs left because it read another call's value."""
    users = [(s, c) for s, c in called(root) if is_user(c)]
    shadows = [(s, c) for s, c in called(root) if roles.is_shadow(c.role)]
    if not users or not shadows:
        return ""
    reader, (user, call) = shadows[0][0], users[0]
    return (
        f" It came to this because {words.ranks(reader.ranks)} took the values of "
        f"{words.op(call)} on {words.ranks(user.ranks)} for the answers to join()'s own "
        "questions: how many ranks still have inputs, and whether gradients will be synced."
    )


def _consequence(_: Case, candidate: Candidate) -> Reason | None:
    if candidate.cause is None:
        return None
    text = "The ranks had parted ways before, in another group: see the finding this follows from."
    return Reason(text, "Mend that one first.")


def _inside_join(case: Case, candidate: Candidate) -> Reason | None:
    """A user's own collective inside ``join()``, which shadows only the framework's."""
    users = [(s, c) for s, c in called(candidate) if is_user(c)]
    shadows = [(s, c) for s, c in called(candidate) if roles.is_shadow(c.role)]
    if not users or not shadows:
        return None
    joined = words.ranks(r for s, _ in shadows for r in s.ranks)
    (side, call), (_, shadow) = users[0], shadows[0]
    found = inputs.of_candidate(case, candidate)
    uneven = f" Uneven inputs: {found.phrase()}." if found is not None else ""
    meets = (
        "the bytes fit, the meaning does not"
        if candidate.kind == "role_mismatch"
        else ("they cannot be matched")
    )
    forward = (
        " The call comes from inside the model's forward (SyncBatchNorm issues such calls)."
        if "norm" in (call.via or "").lower() or "_functions" in (call.via or "")
        else ""
    )
    cause = (
        f"{words.upper(joined)} ran out of inputs and inside join() shadows the collectives of "
        f"DDP for those that go on. {words.upper(words.ranks(side.ranks))} issued "
        f"{words.op(call)}{words.at(call)}, a call of the script's own, which join() knows "
        f"nothing of and does not shadow. It met {words.issuer(shadow)}: {meets}, and every "
        f"later call pairs with the wrong one.{forward}{uneven}"
    )
    at = f" at {words.site(call.site)}" if call.site else ""
    fix = (
        f"Move the {call.op}{at} out of the `with model.join():` block; or give all ranks the "
        "same number of batches (DistributedSampler, drop_last=True); or let join() end all "
        "ranks together: model.join(throw_on_early_termination=True), or "
        "Join(..., throw_on_early_termination=True)."
    )
    return Reason(cause, fix)


def _split(_: Case, candidate: Candidate) -> Reason | None:
    source = candidate.source
    if candidate.kind != "split_mismatch" or not isinstance(source, Divergence):
        return None
    members = list(source.group.ranks)
    parts = []
    for sender, receiver in source.bad_pairs[:4]:
        out, awaited = source.calls.get(sender), source.calls.get(receiver)
        sent = _split_at(out, 0, members, receiver)
        wanted = _split_at(awaited, 1, members, sender)
        parts.append(
            f"rank {sender} sends {sent} elements to rank {receiver}, which expects {wanted}"
        )
    more = len(source.bad_pairs) - len(parts)
    text = words.upper("; ".join(parts)) if parts else "The splits do not fit pair by pair"
    text += f"; and {words.counted(more, 'more pair')}" if more > 0 else ""
    return Reason(
        f"{text}. The totals may agree all the same, so nothing is noticed before the data moves.",
        "input_split_sizes[j] on rank i must equal output_split_sizes[i] on rank j: exchange the "
        "sizes first (all_to_all_single of the counts) and use what was received.",
    )


def _split_at(call: Call | None, which: int, members: list[int], rank: int) -> str:
    if call is None or call.splits is None or len(call.splits) <= which or rank not in members:
        return "?"
    sizes, index = call.splits[which], members.index(rank)
    return str(sizes[index]) if index < len(sizes) else "?"


def _uneven(case: Case, candidate: Candidate) -> Reason | None:
    """One rank has left the loop; another is in a further round of it."""
    found = inputs.of_candidate(case, candidate)
    if found is None:
        return None
    parts = []
    for side, call in called(candidate):
        gone = set(side.ranks) & found.ended
        what = "went on to" if gone else "is still in"
        whole = words.op(call) + words.at(call)
        verb = words.verb(side.ranks, what, what.replace("is ", "are "))
        parts.append(f"{words.ranks(side.ranks)} {verb} {whole}")
    cause = f"Uneven inputs: {found.phrase()}. {words.upper(words.listed(parts))}."
    return Reason(cause, f"{EVEN_INPUTS}, {JOIN}.")


def _dtype(_: Case, candidate: Candidate) -> Reason | None:
    if candidate.kind != "dtype_mismatch":
        return None
    sides = called(candidate)
    listed = words.listed([f"{words.tensors(c)} on {words.ranks(s.ranks)}" for s, c in sides])
    names = {str(c.dtype) for _, c in sides}
    cause = f"The same {sides[0][1].op} got tensors of different dtypes: {listed}."
    if names & _HALF and names - _HALF <= {"float32"}:
        cause += " Half precision on some ranks only is what autocast leaves behind."
        fix = (
            "Enter torch.autocast on every rank or on none, or convert before the call "
            "(tensor.float())."
        )
    elif names & _INTEGRAL and names - _INTEGRAL:
        cause += " A tensor made of Python ints is int64, one made of floats float32."
        fix = "Give the dtype where the tensor is made: torch.tensor(x, dtype=torch.float32)."
    else:
        fix = "Convert to one dtype before the call, the same on every rank."
    return Reason(cause, fix)


_HALF: Final = frozenset({"float16", "bfloat16"})
_INTEGRAL: Final = frozenset({"int64", "int32", "int16", "int8", "uint8", "bool"})


def _count(_: Case, candidate: Candidate) -> Reason | None:
    if candidate.kind != "shape_mismatch":
        return None
    sides = called(candidate)
    listed = words.listed([f"{words.tensors(c)} on {words.ranks(s.ranks)}" for s, c in sides])
    op = sides[0][1].op
    if len({tuple(counts(c)) for _, c in sides}) == 1:
        return Reason(
            f"As many elements, in another shape: {listed}. The bytes fit, but elements that do "
            "not belong together are combined.",
            "Bring the tensors into one shape before the call (a transpose on some ranks only?).",
        )
    cause = f"The tensors given to {op} differ in size: {listed}."
    if _differs_in_first_only([c for _, c in sides]):
        cause += " Only the first dimension differs: a ragged batch, as the last one often is."
        fix = (
            "Drop the ragged batch (DataLoader(drop_last=True)) or pad to the largest size; to "
            "collect uneven pieces exchange the sizes first, then use the list form of all_gather."
        )
    else:
        fix = "Make the sizes agree before the call: pad, or exchange the sizes first."
    return Reason(cause, fix)


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
            f"The ranks reduce in different ways: {listed}. No backend checks it: the result "
            "differs from rank to rank, silently.",
            "Pass the same op on every rank.",
        )
    argument = "dst" if sides[0][1].op in ("reduce", "gather") else "src"
    return Reason(
        f"The ranks name different roots: {listed}.",
        f"Pass the same {argument}, a global rank, on every rank; it must not be computed from "
        "the rank's own number.",
    )


def _swapped(_: Case, candidate: Candidate) -> Reason | None:
    source = candidate.source
    if not isinstance(source, Divergence) or not source.swapped:
        return None
    sites = words.listed([words.site(c.site or "?") for _, c in called(candidate)])
    return Reason(
        f"The bytes agree, but the ranks make these calls in swapped order: {sites}. Values "
        "that do not belong together are reduced.",
        "Issue them in the same order on every rank (do not iterate over a set, or over a "
        "dict that is filled in another order).",
    )


def _other_iteration(_: Case, candidate: Candidate) -> Reason | None:
    source = candidate.source
    if not isinstance(source, Divergence) or source.attribute != "iteration":
        return None
    listed = words.listed(
        [f"iteration {c.iteration} on {words.ranks(s.ranks)}" for s, c in called(candidate)]
    )
    return Reason(
        f"The calls fit, but belong to different iterations of DDP: {listed}. Gradients or "
        "buffers of different steps are combined.",
        "Run forward(), backward() and no_sync() for the same steps on every rank.",
    )


def _generic(_: Case, candidate: Candidate) -> Reason:
    listed = "; ".join(f"{words.ranks(s.ranks)}: {words.call(c)}" for s, c in called(candidate)[:4])
    if candidate.kind == "role_mismatch":
        return Reason(
            f"The bytes fit but the calls do not belong together: {listed}.",
            EVERY_RANK,
        )
    ops = {canonical_op(c.op) for _, c in called(candidate)}
    what = "different collectives" if len(ops) > 1 else "calls that do not fit"
    return Reason(f"The ranks met with {what}: {listed}.", EVERY_RANK)


_REASONS: Final[tuple[Explainer, ...]] = (
    _after_root, _consequence, _swapped, _inside_join, _split, ddp.constructor, _uneven,
    ddp.forward_alone, ddp.no_sync, _other_iteration, ddp.unused, order.reason, _dtype, _count,
    _one_value,
)  # fmt: skip
