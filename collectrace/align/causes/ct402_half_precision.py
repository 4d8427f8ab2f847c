"""One call got tensors of half precision on some ranks, and of single precision on others.

What it means
    ``torch.autocast`` was entered on some ranks only, or a tensor or a model was converted, made or
    loaded in half precision there.

Example
    ::

        with torch.autocast("cuda", enabled=rank == 0):
            out = model(batch)
        dist.all_reduce(out)        # bfloat16 on rank 0, float32 on the others

Not to be confused with
    CT401, for all other dtypes.

How to fix it
    Enter ``torch.autocast`` on every rank or on none, or convert before the call.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final

from collectrace import words as text
from collectrace.align.causes import arguments
from collectrace.align.causes.situation import Situation
from collectrace.align.causes.words import Words
from collectrace.align.code.files import Files
from collectrace.align.reading import chains

HALF: Final = frozenset({"float16", "bfloat16"})

_AUTOCAST: Final = re.compile(
    r"autocast|(^|\.)amp\b|precision|accelerat|lightning|transformers|deepspeed"
)
"""Names by which a program enters autocast, or hands itself to a library that may."""


def find(situation: Situation) -> bool | None:
    """Return whether the program may use autocast; None: it is not about half precision."""
    dtypes = {str(call.dtype) for _, call in situation.called}
    if not dtypes & HALF or not dtypes - HALF or not dtypes - HALF <= {"float32"}:
        return None
    if not arguments.are_one_call(situation):
        return None
    rank, files = situation.called[0][0].ranks[0], Files(situation.case.evidence.source_files)
    read = [files.file(rank, path) for path in {chains.file(one) for one in situation.case.frames}]
    return not read or any(one is None or _may_autocast(one.tree) for one in read)


def _may_autocast(tree: ast.Module) -> bool:
    return any(_AUTOCAST.search(name) for node in ast.walk(tree) for name in _names(node))


def _names(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.alias(name=name):
            yield name
        case ast.ImportFrom(module=str(name)) | ast.keyword(arg=str(name)):
            yield name
        case _:
            pass


def words(situation: Situation, found: bool) -> Words:
    """Return the words for half precision on some ranks."""
    half = _half(situation)
    by = "torch.autocast, or a model that was converted" if found else (
        "how the tensor was made (torch.set_default_dtype), a conversion, or a file that was "
        "stored so and loaded"
    )  # fmt: skip
    return Words(
        arguments.headline(situation, text.tensors),
        (
            f"The {arguments.place(situation)} got tensors of different dtypes: "
            f"{arguments.listed(situation, text.tensors)}.",
            f"Half precision on {half} only comes from {by}.",
            *arguments.why(situation),
        ),
        (
            "Enter torch.autocast on every rank or on none, or convert to the same dtype before "
            "the call (tensor.float())."
            if found
            else "Use the same dtype on every rank: convert the tensor where it is made or loaded, "
            "or before the call (tensor.float()).",
        ),
        arguments.before(situation, text.tensors),
    )


def _half(situation: Situation) -> str:
    return text.ranks(rank for side, call in situation.called if str(call.dtype) in HALF
                      for rank in side.ranks)  # fmt: skip
