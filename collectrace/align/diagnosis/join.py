"""What goes wrong around ``join()``: it answers a framework's collectives, and no others.

Sources: torch 2.13, ``torch/distributed/algorithms/join.py`` and
``torch/nn/parallel/distributed.py``.
"""

from __future__ import annotations

import re
from typing import Final

from collectrace import words
from collectrace.align.diagnosis import inputs, loop_lines
from collectrace.align.diagnosis.callers import closed, named
from collectrace.align.diagnosis.headline import met_a_shadow
from collectrace.align.diagnosis.wording import GLOO_ABORTS, Reason, called
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.judging.models import of_one_model
from collectrace.align.reading import chains
from collectrace.findings import Side
from collectrace.records import Call
from collectrace.roles import is_shadow, pairing_class


def garbage_rank(case: Case, candidate: Candidate) -> str:
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
        text += f" {GLOO_ABORTS}: {words.ranks(died[0].ranks)} died of it."
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


def misread(case: Case, root: Candidate) -> str:
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


def users_call(case: Case, candidate: Candidate) -> Reason | None:
    """A user's own collective inside ``join()``, which shadows only the framework's."""
    met = met_a_shadow(candidate)
    if met is None:
        return None
    (side, call), (joined, shadow) = met
    who = words.ranks(side.ranks)
    meets = (
        "The bytes fit, so nothing fails yet, but from here on each call meets the wrong one."
        if candidate.kind == "role_mismatch"
        else "The two do not fit, and cannot complete together."
    )
    within = _in_function_of(joined, side)
    block = words.site(shadow.site) if within and shadow.site else ""
    name = closed(named(case, side.ranks[0], call, within=within, brief=True))
    in_forward = _is_in_forward(side, call)
    forward = " It comes from inside the model's forward()." if in_forward else ""
    cause = (
        f"{_ran_out(case, candidate, joined)} The {name} on {who} is the script's own, "
        f"{f'inside the join() at {block}, ' if block else ''}and met {words.issuer(shadow)}. "
        f"{meets}{forward}"
    )
    entered = f" ({block})" if block else ""
    move = (
        f"Take the {name} out of forward(), or train without join(): every rank out of inputs "
        "misses it."
        if in_forward
        else f"Move the {name} out of the `with model.join():` block{entered}."
    )
    return Reason(cause, f"{move}\n{_or_even(case, candidate)}")


def _in_function_of(joined: Side, side: Side) -> str:
    """The frame of a side's in the function whose ``with model.join():`` others are at the end of.

    Empty where it is in that function itself, or not known to be in it at all.
    """
    block = (joined.stack or ("",))[0]
    frames = side.stack or ()
    return next((f for f in frames[1:] if block and chains.place(f) == chains.place(block)), "")


def _is_in_forward(side: Side, call: Call) -> bool:
    """Whether a module's forward() issued a call, of the user's or of a library's."""
    functions = {frame.partition(" ")[2].rpartition(".")[2] for frame in side.stack or ()}
    library = call.via or ""
    return "forward" in functions or "norm" in library.lower() or "_functions" in library


def _ran_out(case: Case, candidate: Candidate, joined: Side) -> str:
    """That ranks have no inputs, and what they answer."""
    gone = words.ranks(joined.ranks)
    found = inputs.of_candidate(case, candidate)
    uneven = f"Uneven inputs: {found.phrase()}." if found is not None else (
        f"{words.upper(gone)} ran out of inputs first."
    )  # fmt: skip
    return (
        f"{uneven} Out of inputs, {gone} {words.verb(joined.ranks, 'stays', 'stay')} in join() and "
        f"{words.verb(joined.ranks, 'answers', 'answer')} DDP's collectives there, but no others."
    )


def _or_even(case: Case, candidate: Candidate) -> str:
    return (
        f"Or {words.lower(loop_lines.even_at(case, candidate))}\n"
        "Or stop all ranks when the first runs out: "
        "model.join(throw_on_early_termination=True)."
    )


def unanswered(case: Case, candidate: Candidate) -> Reason | None:
    """A framework's call that this ``join()`` does not answer, or not at this place.

    Of a model or an optimizer that it was not given; or of a second forward for one input.
    """
    sides = called(candidate)
    shadows = [(s, c) for s, c in sides if is_shadow(c.role) and c.role != "join.own_hook"]
    others = [(s, c) for s, c in sides if c.role.startswith(("ddp.", "zero."))]
    if len(shadows) != 1 or len(others) != 1 or candidate.stream is None:
        return None
    (joined, shadow), (side, call) = shadows[0], others[0]
    log = case.log(joined.ranks[0])
    given = log.joins[-1].joinables if log is not None and log.joins else []
    who, ran_out = words.ranks(side.ranks), _ran_out(case, candidate, joined)
    what = f"The {words.name(call)}{words.at(call)} on {who}"
    if call.role.startswith("zero.") and given and "ZeroRedundancyOptimizer" not in given:
        return Reason(
            f"{ran_out} {what} is the optimizer's, which this join() was not given: it met "
            f"{words.issuer(shadow)}.",
            "Give join() the optimizer, too: `with Join([model, optimizer]):` "
            "(torch.distributed.algorithms.join).\nOr give every rank the same number of batches.",
            "join",
        )
    models = sum(name == "DistributedDataParallel" for name in given)
    if call.model is not None and given and call.model > models:
        return Reason(
            f"{ran_out} {what} is of model {call.model}, and this join() was given "
            f"{words.counted(models, 'model')}: it met {words.issuer(shadow)}.",
            "Give join() every model that is trained inside it: `with Join([model, other]):` "
            "(torch.distributed.algorithms.join).\nOr give every rank the same number of batches.",
            "join",
        )
    if pairing_class(call.role) == _NOTICE and _is_second_forward(case, side, candidate):
        return Reason(
            f"{ran_out} It answers one forward and one backward of the model for each input; "
            f"{words.lower(what)} begins a second forward before the backward: two "
            f"forwards for one input. It met {words.issuer(shadow)}.",
            "Call the model once for each input, on all of it (one forward over the concatenated "
            "parts), or give every rank the same number of batches.",
            "join",
        )
    return None


def answered_in_turn(case: Case, candidate: Candidate) -> Reason | None:
    """Forwards of several models before the first backward, in a ``join()`` of all of them.

    ``Join`` calls the hooks of what it was given one after the other, and each answers a forward
    and the backward of its own model.
    """
    sides = called(candidate)
    shadows = [(s, c) for s, c in sides if is_shadow(c.role) and c.role.startswith("join.")]
    others = [(s, c) for s, c in sides if c.role.startswith("ddp.forward.")]
    if len(shadows) != 1 or len(others) != 1 or len(sides) != 2:
        return None
    (joined, shadow), (side, call) = shadows[0], others[0]
    forwards = _forwards_since_notice(case, side, candidate)
    second = call.model or 1
    if not forwards or second in forwards:
        return None
    who = words.ranks(side.ranks)
    line = words.at(call)
    return Reason(
        f"{_ran_out(case, candidate, joined)} It answers the models one after the other, the "
        f"forward and the backward of each: behind the forward of model {forwards[-1]} its "
        f"backward. {words.upper(who)} ran the forward of model {second}{line} before that "
        f"backward, and it met {words.issuer(shadow)}.",
        "Run the backward of each model before the forward of the next, in the order in which "
        "join() was given them; or make them parts of one module, and wrap that in one "
        "DistributedDataParallel.\nOr give every rank the same number of batches: join() answers "
        "nothing then.",
        "join",
    )


def _forwards_since_notice(case: Case, side: Side, candidate: Candidate) -> list[int]:
    """The models whose forward ranks have begun for this input, before a candidate's row.

    Empty where a backward has begun, or the log does not reach back.
    """
    found: list[int] = []
    for call in reversed(case.before(side.ranks[0], candidate.stream, candidate.seq, _FEW)):
        if call is None or call.role.startswith("ddp.backward."):
            return []
        if pairing_class(call.role) == _NOTICE:
            return list(dict.fromkeys(reversed(found)))
        if call.role.startswith("ddp.forward."):
            found.append(call.model or 1)
    return []


_NOTICE: Final = pairing_class("ddp.forward.notify_join")

_OF_JOIN: Final = frozenset(
    {_NOTICE, *map(pairing_class, ("ddp.forward.terminate_check", "ddp.forward.sync_check"))}
)
"""What a forward issues only inside ``join()``."""


def _is_second_forward(case: Case, side: Side, candidate: Candidate) -> bool:
    """Whether a rank has issued no gradients since its last forward, before a candidate's row."""
    for call in reversed(case.before(side.ranks[0], candidate.stream, candidate.seq, _FEW)):
        if call is None or pairing_class(call.role) == _BUCKET:
            return False
        if pairing_class(call.role) == _NOTICE:
            return True
    return False


_BUCKET: Final = pairing_class("ddp.backward.bucket")
_FEW: Final = 64


def block_around_loops(case: Case, candidate: Candidate) -> Reason | None:
    """A rank has left a loop inside ``join()``, and not the block: nothing answers for it yet."""
    left = loop_lines.left(case, candidate)
    if left is None or not set(left.gone.ranks) <= set(candidate.suspects):
        return None
    inside, gone = left.inside, left.gone
    if not inside.call.role.startswith("ddp.") or not all(
        _is_in_a_block(case, rank, candidate) for rank in (*gone.ranks, *inside.ranks)
    ):
        return None
    who, others = words.ranks(gone.ranks), words.ranks(inside.ranks)
    name = f"{words.name(gone.call)}{words.at(gone.call)}"
    has, still = words.verb(gone.ranks, "has", "have"), words.verb(inside.ranks, "is", "are")
    return Reason(
        f"{words.upper(who)} {has} left the loop {left.loop.quoted} and gone on to {name}; "
        f"{others} {still} in it, in {words.name(inside.call)}{words.at(inside.call)}. All are "
        "inside one join(), which answers for a rank only when its whole block has ended there.",
        f"Put `with model.join():` around each loop over the batches by itself, and {name} after "
        "the block.\nOr give every rank the same number of batches in each of these loops.",
    )


def on_some_ranks(case: Case, candidate: Candidate) -> Reason | None:
    """One DDP model, in the same forward, inside ``join()`` on some ranks and outside on others.

    Inside, its forward and backward issue calls of their own, which tell ranks that ran out of
    inputs what to answer.
    """
    sides = called(candidate)
    if len(sides) < 2 or len({call.iteration for _, call in sides}) > 1:
        return None
    if not all(call.role.startswith("ddp.") for _, call in sides):
        return None
    ranks = [rank for side, _ in sides for rank in side.ranks]
    if len({call.model or 1 for _, call in sides}) > 1 or not of_one_model(case, ranks):
        return None
    within = [
        (side, call)
        for side, call in sides
        if all(_is_in_a_block(case, rank, candidate) for rank in side.ranks)
    ]
    outside = [rank for rank in ranks if not _is_in_a_block(case, rank, candidate)]
    if not any(pairing_class(call.role) in _OF_JOIN for _, call in within) or not outside:
        return None
    who = words.ranks(rank for side, _ in within for rank in side.ranks)
    log = case.log(within[0][0].ranks[0])
    block = log.joins[-1].site if log is not None and log.joins else None
    at = f", entered{words.at_site(block)}" if block else ""
    return Reason(
        f"{words.upper(who)} ran this forward inside join(){at}; {words.ranks(outside)} ran it "
        "outside. Inside, DDP's forward and backward issue calls that they do not issue "
        "outside, for ranks that run out of inputs.",
        "Enter model.join() on every rank, or on none. Where join(enable=...) depends on the "
        "number of batches: let all ranks know the number of all (an all_reduce), or leave it on.",
        "join",
    )


def _is_in_a_block(case: Case, rank: int, candidate: Candidate) -> bool:
    """Whether a rank is inside ``join()`` at a candidate's row, and has inputs, as it thinks."""
    log = case.log(rank)
    if log is None or candidate.stream is None or candidate.seq is None:
        return False
    call = case.call(rank, candidate.stream, candidate.seq)
    before = [join for join in log.joins if call is not None and join.t <= call.t]
    return bool(before) and before[-1].phase == "entered"


def own_hook(_: Case, candidate: Candidate) -> Reason | None:
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
