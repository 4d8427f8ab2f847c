"""The dispatcher tap: every collective that reaches a backend, whoever issued it.

A ProcessGroup hands each collective to torch's dispatcher as an operator ``c10d::*``. A kernel
for the key BackendSelect sees the call first, and passes it on with that key removed. Python
API, DDP's reducer in C++, functional collectives and compiled graphs all come by here; only
what calls a backend object directly and a replayed CUDA graph do not. Nor does a ProcessGroup
written in Python, whose methods are called instead: ``python_groups`` records those.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

import torch
from torch._C import DispatchKey, DispatchKeySet

from collectrace.tracer.dynamo import hide_from_dynamo
from collectrace.tracer.tap.describe import OPERATORS, OpRow, Reader


class OnIssue(Protocol):
    """Told of each call before it is issued, and of those that raised; must not raise itself."""

    def issue(self, reader: Reader, args: tuple[Any, ...]) -> Any:
        """A call is about to be issued; the return value names it."""

    def issued(self, call: Any, result: Any) -> None:
        """It has been handed to the backend."""

    def failed(self, call: Any, problem: BaseException) -> None:
        """The backend refused it, or it raised while it ran."""


class Tap(Protocol):
    """Where the tap leads to; nothing is recorded while there is no recorder."""

    @property
    def recorder(self) -> OnIssue | None:
        """The record of the run that is on."""


Undo = Callable[[], None]

_IGNORED: Final = frozenset({"check_for_nan"})
"""Operators of the namespace that communicate nothing."""


def install(tap: Tap) -> Undo:
    """Tap every ``c10d`` operator; the undo puts everything back."""
    library = torch.library.Library("c10d", "IMPL")  # type: ignore[no-untyped-call]
    for schema in _schemas():
        name = schema.name.removeprefix("c10d::")
        kernel = _kernel(name, schema, tap)
        hide_from_dynamo(kernel.__code__, callees=True)
        library.impl(name, kernel, "BackendSelect", with_keyset=True)  # type: ignore[no-untyped-call]
    return library._destroy


def _schemas() -> list[Any]:
    return [
        schema
        for schema in torch._C._jit_get_all_schemas()
        if schema.name.startswith("c10d::")
        and not schema.overload_name
        and schema.name.removeprefix("c10d::") not in _IGNORED
    ]


def _kernel(name: str, schema: Any, tap: Tap) -> Any:
    # An operator of a newer torch that the table does not know is recorded under its own name.
    row = OPERATORS.get(name) or _guess(name, schema)
    reader = Reader(row, schema.arguments)
    redispatch = getattr(torch.ops.c10d, name).default._handle.redispatch_boxed
    below: dict[int, DispatchKeySet] = {}

    def kernel(keyset: DispatchKeySet, *args: Any) -> Any:
        recorder = tap.recorder
        call = None if recorder is None else recorder.issue(reader, args)
        raw = keyset.raw_repr()
        rest = below.get(raw)
        if rest is None:
            rest = below[raw] = keyset.remove(DispatchKey.BackendSelect)
        try:
            result = redispatch(rest, *args)
        except BaseException as problem:
            if call is not None:
                recorder.failed(call, problem)  # type: ignore[union-attr]
            raise
        if call is not None:
            recorder.issued(call, result)  # type: ignore[union-attr]
        return result

    return kernel


def _guess(name: str, schema: Any) -> OpRow:
    names = [a.name for a in schema.arguments if "Tensor" in str(a.type)]
    sent = next(
        (n for n in names if n.startswith(("input", "tensor"))), names[0] if names else None
    )
    received = next((n for n in names if n.startswith("output")), None)
    return OpRow(name.rstrip("_"), sent, received if received != sent else None)
