"""One call got tensors of different dtypes on different ranks.

What it means
    Backends read the bytes as the rank's own dtype. If the widths differ, the call fails or hangs;
    if they agree, it returns garbage without an error.

Example
    ::

        total = torch.tensor(sum(losses))   # no losses on rank 1: the int 0, so int64
        dist.all_reduce(total)

Not to be confused with
    CT402, if the dtypes are half and single precision. CT413, if the ranks pass other tensors.

How to fix it
    Give the dtype where the tensor is made.
"""

from __future__ import annotations

from typing import Final

from collectrace import words as text
from collectrace.align.causes import arguments
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words

_INTEGRAL: Final = frozenset({"int64", "int32", "int16", "int8", "uint8", "bool"})
_WIDTHS: Final = {"float64": 8, "int64": 8, "float32": 4, "int32": 4, "int16": 2, "float16": 2,
                  "bfloat16": 2, "int8": 1, "uint8": 1, "bool": 1}  # fmt: skip


def find(situation: Situation) -> frozenset[str] | None:
    """Return the dtypes that the ranks passed."""
    if not arguments.are_one_call(situation):
        return None
    return frozenset(str(call.dtype) for _, call in situation.called)


def words(situation: Situation, found: frozenset[str]) -> Words:
    """Return the words for dtypes that differ."""
    how = ""
    if found == {"int64", "float32"}:
        how = " A tensor made of Python ints is int64, one made of floats float32."
    is_silent = len({_WIDTHS.get(one, one) for one in found}) == 1
    mixed = bool(found & _INTEGRAL) and bool(found - _INTEGRAL)
    return Words(
        arguments.headline(situation, text.tensors),
        (
            f"The {arguments.place(situation)} got tensors of different dtypes: "
            f"{arguments.listed(situation, text.tensors)}.{how}",
            *((arguments.silent(situation),) if is_silent else ()),
            *arguments.why(situation),
        ),
        (
            "Give the dtype where the tensor is made: torch.tensor(x, dtype=torch.float32)."
            if mixed
            else "Convert to the same dtype on every rank before the call.",
            *arguments.fixes(situation),
        ),
        arguments.before(situation, text.tensors),
        undecided=arguments.is_undecided(situation),
    )
