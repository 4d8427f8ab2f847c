"""Tensors of half precision on some ranks only: what that comes of."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final

from collectrace import words
from collectrace.align.diagnosis.wording import Reason, called
from collectrace.align.judging.candidate import Candidate
from collectrace.align.judging.case import Case
from collectrace.align.reading import chains, project_files

HALF: Final = frozenset({"float16", "bfloat16"})


def reason(case: Case, candidate: Candidate) -> Reason:
    """A sentence after a space, and what to change; autocast only where something may enter it.

    And not where those to blame are the ones that are not in half precision.
    """
    may_be = _may_be_autocast(case)
    known = _BY_AUTOCAST if may_be else _BY_ITS_MAKING
    wrong = [call for side, call in called(candidate) if set(side.ranks) <= {*candidate.suspects}]
    if wrong and not any(str(call.dtype) in HALF for call in wrong):
        outside = "outside of the torch.autocast that they are in" if may_be else "otherwise"
        return Reason(
            " On the others it is in half precision: on "
            f"{words.ranks(candidate.suspects)} it was converted, or made {outside}.",
            known.fix,
        )
    return known


_BY_AUTOCAST: Final = Reason(
    " Half precision on some ranks only is what torch.autocast leaves behind, or a model that was "
    "converted, where the others did neither.",
    "Give the tensor one dtype on every rank: enter torch.autocast on every rank or on none, or "
    "convert before the call (tensor.float()).",
)
_BY_ITS_MAKING: Final = Reason(
    " Half precision on some ranks only comes of a tensor that was made so there (by "
    "torch.set_default_dtype, too), converted, or loaded from what was stored so.",
    "Give the tensor one dtype on every rank: convert it where it is made or loaded, or before the "
    "call (tensor.float()).",
)


def _may_be_autocast(case: Case) -> bool:
    """Whether a program names it, or what may enter it; so, too, where it cannot be read."""
    known = {chains.file(frame) for frame in case.frames}
    if not known or not all(any(case.code.lines(file)) for file in known):
        return True
    trees = (case.code.parsed(file) for file in project_files.reached(case.code, known))
    return any(
        _AUTOCAST.search(name)
        for tree in trees
        if tree is not None
        for node in ast.walk(tree)
        for name in _names(node)
    )


def _names(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.alias(name=name):
            yield name
        case ast.ImportFrom(module=str(name)) | ast.keyword(arg=str(name)):
            yield name
        case _:
            pass


_AUTOCAST: Final = re.compile(
    r"autocast|(^|\.)amp\b|precision|accelerat|lightning|transformers|deepspeed"
)
