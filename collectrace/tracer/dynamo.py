"""Keeps torch.compile away from the tracer's own code, and from seeing that it is there.

A frame that Dynamo looks at is one more compiled frame, perhaps one more graph break, and where
it meets a wrapper it does not know it compiles a call that loses its ``self``. The ways to tell
it are private to torch, and none imports ``torch._dynamo`` (2 s); without them Dynamo compiles a
few frames too many, which changes no result.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final

import torch

_PACKAGE: Final = f"{__name__.rpartition('.')[0]}."

_HANDED_OVER: Final = {"wrapped", "__wrapped__", "handler", "hook"}
"""Arguments, free variables and attributes by which a function of ours calls one that is not."""


def hide_from_dynamo(code: CodeType, *, callees: bool) -> None:
    """Keep one function from being compiled, or counted as a graph break.

    ``callees``: also what it calls; false for whatever calls a user's function, which must still
    be compiled.
    """
    try:
        dynamo = torch._C._dynamo.eval_frame
        skip, default = dynamo._FrameAction.SKIP, dynamo._FrameAction.DEFAULT
        strategy = dynamo._FrameExecStrategy(skip, skip if callees else default)
        dynamo.set_code_exec_strategy(code, strategy)
    except (AttributeError, TypeError):
        return


def hide_package() -> None:
    """Keep everything in this package from being compiled, and what it uses of the library.

    Only where it wraps a function, what it calls may be the user's.
    """
    for name, module in list(sys.modules.items()):
        if name.startswith(_PACKAGE):
            for code in _codes(module):
                names = {*code.co_varnames[: code.co_argcount], *code.co_freevars, *code.co_names}
                hide_from_dynamo(code, callees=not names & _HANDED_OVER)


def see_through(method: Any, original: Any) -> None:
    """Let Dynamo trace ``original`` where a compiled function calls ``method``."""
    if isinstance(original, FunctionType):
        method._torchdynamo_inline = original
    else:
        # Written in C, it is a graph break; so it is here, and without a look inside.
        method._torchdynamo_disable = True


def _codes(holder: ModuleType | type) -> Iterator[CodeType]:
    for value in list(vars(holder).values()):
        if isinstance(value, type):
            if value.__module__.startswith(_PACKAGE) and value is not holder:
                yield from _codes(value)
            continue
        for function in (value, *(getattr(value, n, None) for n in ("__func__", "fget"))):
            # A contextmanager's or a cache's own function stands behind its wrapper.
            inner = getattr(function, "__wrapped__", function)
            if isinstance(inner, FunctionType) and inner.__module__.startswith(_PACKAGE):
                yield from _nested(inner.__code__)


def _nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _nested(constant)
