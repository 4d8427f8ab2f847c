"""Keep torch.compile from compiling the tracer's own code, or breaking graphs at it.

Dynamo may compile each frame that it sees, or break a graph there. It also compiles calls of
unknown wrappers without their ``self``. ``torch_api.hide_from_dynamo`` excludes a frame. If torch
lacks the function for that, Dynamo compiles some frames of the tracer, with the same results.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final

from collectrace.tracer.torch_api import hide_from_dynamo

_PACKAGE: Final = f"{__name__.rpartition('.')[0]}."

_HANDED_OVER: Final = {"wrapped", "__wrapped__", "handler", "hook"}
"""Names by which our functions call functions that are not ours."""


def hide_package() -> None:
    """Keep all functions of the tracer's loaded modules from being compiled.

    This includes the functions that they call, unless they call one that was passed to them.
    """
    for name, module in sys.modules.copy().items():
        if name.startswith(_PACKAGE):
            for code in _codes(module):
                names = {*code.co_varnames[: code.co_argcount], *code.co_freevars, *code.co_names}
                hide_from_dynamo(code, callees=not names & _HANDED_OVER)


def see_through(method: Any, original: Any) -> None:
    """Let Dynamo trace ``original`` instead of ``method`` in a compiled function."""
    if isinstance(original, FunctionType):
        method._torchdynamo_inline = original
    else:
        # A function in C breaks the graph, so its replacement must do so, too.
        method._torchdynamo_disable = True


def _codes(holder: ModuleType | type) -> Iterator[CodeType]:
    for value in list(vars(holder).values()):
        if isinstance(value, type):
            if value.__module__.startswith(_PACKAGE) and value is not holder:
                yield from _codes(value)
            continue
        for function in (value, *(getattr(value, n, None) for n in ("__func__", "fget"))):
            # A context manager or a cache wraps its function.
            inner = getattr(function, "__wrapped__", function)
            if isinstance(inner, FunctionType) and inner.__module__.startswith(_PACKAGE):
                yield from _nested(inner.__code__)


def _nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _nested(constant)
