"""Keeps torch.compile from compiling the tracer's own code, or breaking graphs over it.

Each frame that Dynamo looks at may be compiled, or break a graph; and of a wrapper that it does not
know it compiles a call that lacks its ``self``. What tells it to leave a frame alone is in
``torch_api``. Where torch lacks it, Dynamo compiles some frames of ours: results are the same.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final

from collectrace.tracer import torch_api

_PACKAGE: Final = f"{__name__.rpartition('.')[0]}."

_HANDED_OVER: Final = {"wrapped", "__wrapped__", "handler", "hook"}
"""What our functions call others' functions by: names of arguments, free variables, attributes."""


def hide_from_dynamo(code: CodeType, *, callees: bool) -> None:
    """Keep the function of this code object from being compiled, or breaking a graph.

    ``callees``: and all that it calls. False for one that calls a function of the user's, which
    is still to be compiled.
    """
    torch_api.skip_frames(code, callees=callees)


def hide_package() -> None:
    """Keep every function of the tracer's modules that are loaded from being compiled.

    And what they call, but for those that call a function handed to them.
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
        # A function written in C breaks the graph, and so does this one in its place.
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
