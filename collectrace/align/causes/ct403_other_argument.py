"""All ranks made the same call with different arguments.

What it means
    The tensors differ in dtype, size or shape, or the ranks passed different ops or roots. Backends
    compare few of these: the call fails, hangs, or returns wrong results without an error.

Example
    ::

        total = torch.tensor(sum(losses))   # no losses on rank 1: the int 0, so int64
        dist.all_reduce(total)

Not to be confused with
    CT407, for the split sizes of an ``all_to_all``. CT413, if the ranks are at different elements
    of a sequence, and no tensor is wrong. CT707, for messages.

How to fix it
    Pass the same arguments on every rank. If a size depends on the rank's data, exchange the sizes
    first, or pad the tensors.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, Literal, NamedTuple

from collectrace import words as text
from collectrace.align.causes import arguments, deciders, inputs
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.matching.comparison import Divergence
from collectrace.align.reading import chains
from collectrace.findings import Kind, Side
from collectrace.records import Call
from collectrace.signature import counts, is_asked

Argument = Literal[
    "dtype", "autocast", "tensor", "size", "rows", "last batch", "shape", "op", "root", "objects",
    "batch",
]  # fmt: skip
"""What differs. ``autocast``: the dtype, as ``torch.autocast`` sets it. ``tensor``: dtype and size.
``rows``: the size, in the first dimension only."""


class _Row(NamedTuple):
    """The words for one kind of argument."""

    noun: str
    show: arguments.Show
    fixes: tuple[str, ...]
    """May contain placeholders for torch's name of the root, and for the root."""
    more: Callable[[Situation], str] = lambda _: ""
    """Returns a further sentence, or nothing."""


_COALESCED: Final = "_coalesced"
_OBJECTS: Final = "broadcast_object_list"
_SEVERAL: Final = 2


def find(situation: Situation) -> Argument | None:
    """Return the argument in which the calls differ."""
    calls = [call for _, call in situation.called]
    ops = {call.op for call in calls}
    if len({op.removesuffix(_COALESCED) for op in ops}) == 1 and any(map(_is_batch, calls)):
        return "batch" if len(ops) > 1 or situation.kind == "shape_mismatch" else None
    if situation.kind == "op_mismatch":
        return None
    if not (arguments.are_one_call(situation) or arguments.are_in_one_part(situation)):
        return None
    if situation.kind == "dtype_mismatch" and len({tuple(counts(call)) for call in calls}) > 1:
        return "tensor"
    if situation.kind == "dtype_mismatch" and _is_half(calls) and _uses_autocast(situation):
        return "autocast"
    if situation.kind != "shape_mismatch":
        return _KINDS[situation.kind]
    if all(call.api == _OBJECTS and call.dtype == "int64" for call in calls):
        return "objects"
    if len({tuple(counts(call)) for call in calls}) == 1 and is_asked(calls[0]):
        return "shape"
    if not arguments.differ_in_first_only(calls):
        return "size"
    if _last_batch(situation):
        return "last batch"
    return "rows" if len(calls[0].shape or ()) > 1 else "size"


_KINDS: Final[Mapping[Kind, Argument]] = {
    "dtype_mismatch": "dtype", "reduce_op_mismatch": "op", "root_mismatch": "root",
}  # fmt: skip


def words(situation: Situation, found: Argument) -> Words:
    """Return the words for arguments that differ."""
    row, call = _ROWS[found], situation.called[0][1]
    listed, why = arguments.listed(situation, row.show), arguments.why(situation)
    # The line that computed a tensor, or chose between two, tells more of its dtype.
    decided = arguments.deciding(situation)[:1]
    is_shown = arguments.sure(situation) or any(
        arguments.chooses(one) or deciders.origin(one) not in ("unknown", "agreed")
        for one in decided
    )
    more = "" if is_shown and found == "dtype" else row.more(situation)
    share = (
        "exchange the sizes" if call.root is None else f"broadcast the size from rank {call.root}"
    )
    fixes = [one.format(name=text.root(call), root=call.root, share=share) for one in row.fixes]
    if found == "dtype":  # the same code can infer another dtype, as from an empty list
        fixes += arguments.computed(situation)
    else:
        fixes = arguments.computed_first(situation, fixes)
    if not is_asked(call):
        fixes = [f"Give {text.name(call)} the same {row.noun} on every rank."]
    more_fixes = arguments.fixes(situation)
    if (model := arguments.of_model(situation)) is not None:
        source = deciders.quoted_origin(model)
        fixes = [f"Build the same model on every rank: {source} must give the same on all."]
        more_fixes = ()
    if found in ("rows", "last batch"):
        more_fixes = ()  # batches of one loop, which have no names
    elif more_fixes and any(map(arguments.goes_through_set, decided)):
        fixes = []  # the sizes are right
    elif more_fixes and found not in ("op", "root") and any(map(arguments.is_over_names, decided)):
        fixes, more_fixes = [*more_fixes], tuple(fixes)  # equal sizes would mix the items up
    said = Words.of(
        arguments.headline(situation, row.show),
        (
            f"The ranks passed {arguments.place(situation)} different {row.noun}: {listed}.",
            more,
            *why,
        ),
        (*fixes, *more_fixes),
        arguments.before(situation, row.show),
    )
    return replace(said, undecided=arguments.is_undecided(situation))


# -- what else is known ----------------------------------------------------------------------


def _is_half(calls: Sequence[Call]) -> bool:
    dtypes = {str(call.dtype) for call in calls}
    return "float32" in dtypes and dtypes <= {"float32", "float16", "bfloat16"}


def _uses_autocast(situation: Situation) -> bool:
    """Whether the user's files mention autocast, or are not known."""
    files = {chains.file(frame) for frame in situation.case.frames}
    trees = [tree for file in files if (tree := situation.case.code.parsed(file)) is not None]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    names = {getattr(node, "attr", getattr(node, "id", None)) for node in nodes} - {None}
    return not names or "autocast" in names


def _last_batch(situation: Situation) -> str:
    """Return which rank is at the last batch of a loader with fewer rows; empty: not known."""
    made = situation.called
    least = min(made, key=lambda one: one[1].shape or ())[0]
    last = _batches(situation, least)
    others = [_batches(situation, side) for side, _ in made if side is not least]
    if not last or (any(others) and not arguments.before(situation, text.tensors)):
        return ""
    was = text.verb(least.ranks, "was at the last of its", "were at the last of their")
    return f"{text.ranks(least.ranks)} {was} {last:,} batches"


def _itself(situation: Situation) -> str:
    source = situation.candidate.source
    calls = source.calls if isinstance(source, Divergence) else {}
    is_own = all(call is not None and call.root == rank for rank, call in calls.items())
    return "Every rank names itself." if is_own and calls else ""


def _batches(situation: Situation, side: Side) -> int:
    """Return the number of batches of a rank's loader if it is at the last one; else 0."""
    found = inputs.reached(situation.case.log(side.ranks[0]), side.call)
    is_last = found is not None and found.length == found.batch >= _SEVERAL
    return found.batch if found is not None and is_last else 0


# -- the arguments ---------------------------------------------------------------------------


def _is_batch(call: Call) -> bool:
    return call.op.endswith(_COALESCED)


def _batch(call: Call) -> str:
    several = text.counted(len(call.shape or []), "tensor")
    return f"{several} at once" if _is_batch(call) else "one at a time"


def _objects(call: Call) -> str:
    """Return ``3 objects`` for a call that sends the sizes of a list."""
    number = call.shape[0] if call.shape else 0
    return text.counted(number, "object") if isinstance(number, int) else "several objects"


_ROWS: Final[Mapping[Argument, _Row]] = {
    "dtype": _Row(
        "dtypes", text.tensors,
        ("Use the same dtype on every rank where the tensor is made or loaded, or convert it "
         "before the call (tensor.float()).",),
        lambda _: "The dtype comes from what the tensor was made of (Python ints give int64), or "
        "from a file that was stored so.",
    ),
    "autocast": _Row(
        "dtypes", text.tensors,
        ("Enter torch.autocast on every rank or on none, or convert to the same dtype before the "
         "call (tensor.float()).",),
        lambda _: "Half precision comes from torch.autocast, or from a model that was converted.",
    ),
    "tensor": _Row(
        "dtypes and sizes", text.tensors,
        ("Go through the same tensors in the same order on every rank, and skip none.",
         "If it is meant to be one tensor: make it with the same dtype and size on every rank."),
        lambda _: "Both differ, so the ranks may be at different tensors.",
    ),
    "size": _Row(
        "sizes", text.tensors,
        ("Pass tensors of the same size on every rank, or {share} first.",),
    ),
    "rows": _Row(
        "sizes", text.tensors,
        ("Pass tensors of the same size on every rank: pad them, or {share} first.",),
        lambda _: "Only the first dimension differs.",
    ),
    "last batch": _Row(
        "sizes", text.tensors,
        ("Drop the ragged batch: DataLoader(drop_last=True).",
         "Or pass tensors of the same size on every rank: pad them, or {share} first."),
        lambda s: f"Only the first dimension differs, as with a ragged batch: {_last_batch(s)}.",
    ),
    "shape": _Row(
        "shapes of as many elements", text.tensors,
        ("Bring the tensors into the same shape before the call (a transpose on some ranks?).",),
        arguments.silent,
    ),
    "op": _Row(
        "reduce ops", arguments.op, ("Pass the same op on every rank.",), arguments.silent
    ),
    "root": _Row(
        "roots", arguments.root,
        ("Pass the same {name} on every rank, as a global rank.",
         "If there are several roots: make the call once for each on all ranks, or pass the group "
         "of those that belong together (group=)."),
        _itself,
    ),
    "objects": _Row(
        "numbers of objects", _objects,
        ("Pass a list with the same number of entries as on rank {root}: broadcast the number "
         "first, and let the others pass [None] * number.",
         "Or pass the whole list as the only object: [objects] on the source, [None] on the "
         "others."),
    ),
    "batch": _Row(
        "batches, which are one collective each", _batch,
        ("Put the same calls into the same batch on every rank, or batch on none.",),
    ),
}  # fmt: skip
