"""The dispatcher tap: it sees every collective that reaches a backend through the dispatcher.

A ProcessGroup passes each collective to torch's dispatcher as an operator ``c10d::*``
(torch/csrc/distributed/c10d/ProcessGroup.hpp; torch 2.13). A kernel for the dispatch key
BackendSelect sees the call first, and passes it on with that key removed. The Python API, DDP's
reducer in C++, functional collectives and compiled graphs use the dispatcher. Direct calls of a
backend object and replayed CUDA graphs do not. Neither does a ProcessGroup written in Python:
``patches/python_groups`` wraps its methods instead.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import cache
from typing import Any, Final, Protocol

import torch
from torch._C import DispatchKey, DispatchKeySet

from collectrace.tracer import torch_api
from collectrace.tracer.tap import compiled, untold
from collectrace.tracer.tap.arguments import OPERATORS, ArgumentReader, OpRow, itself


class OnIssue(Protocol):
    """Records each call before it is issued, and its outcome. Its methods do not raise."""

    def issue(self, reader: ArgumentReader, args: tuple[Any, ...]) -> Any:
        """Record that a call with these arguments is about to be issued.

        The return value is passed to one of the other methods; None: :meth:`issued` is not called.
        """

    def issued(self, call: Any, result: Any, args: tuple[Any, ...]) -> None:
        """Note that the operator has returned ``result``, so that the backend has the call."""

    def followed(self, call: Any) -> bool:
        """Do what :meth:`issued` does without a result; return whether that is all."""

    def follow_up(self, call: Any, result: Any, args: tuple[Any, ...]) -> None:
        """Do the rest of :meth:`issued`."""

    def not_taken(
        self, reader: ArgumentReader, args: tuple[Any, ...], call: Any, problem: BaseException
    ) -> None:
        """Note that the operator has raised ``problem``.

        ``reader`` and ``args`` are those of :meth:`issue`, ``call`` is its return value, which may
        be None.
        """

    def waits_for(self, tensor: Any) -> Any:
        """Note that the thread is about to wait for a tensor of a functional collective.

        The return value is passed to :meth:`waited` or :meth:`raised`; None: neither is called.
        """

    def waited(self, call: Any) -> None:
        """Note that the wait is over."""

    def raised(self, call: Any, problem: BaseException) -> None:
        """Note that the wait has raised ``problem``."""


class Code(Protocol):
    """The code that records calls, see ``record/native``."""

    is_native: bool
    """Whether compiled kernels are wanted, see ``compiled``."""


class HasRecorder(Protocol):
    """The owner of the recorder of the run in progress."""

    @property
    def code(self) -> Code:
        """Return the code that records."""

    @property
    def recorder(self) -> OnIssue | None:
        """Return the recorder; None: there is no run."""

    def begin_by_call(self, pg: Any) -> OnIssue | None:
        """Begin a run for the first call on this group, and return its recorder.

        None: no run can be begun, and the call is not recorded. It does not raise.
        """


Undo = Callable[[], None]
"""Removes what was installed."""

_IGNORED: Final = frozenset({"check_for_nan"})
"""Operators of the namespace that communicate nothing."""

_raw_repr: Final = DispatchKeySet.raw_repr  # a separate name saves a bound method in each call

_remaining: Final[dict[int, DispatchKeySet]] = {}
"""The key set with which a kernel passes a call on, by the call's: a look-up is faster."""


def install(session: HasRecorder) -> Undo:
    """Put a kernel in front of every ``c10d`` operator; return the undo."""
    with ExitStack() as libraries:
        caller, make_reader, tap = session, ArgumentReader, None
        if not torch_api.tells_reduce_op():
            caller, make_reader = untold.KnowsFrames(session), untold.UntoldReader
            libraries.callback(untold.functional_library()._destroy)
        elif session.code.is_native:
            tap = compiled.tap(session)
        if tap is not None:
            libraries.callback(tap.close)
        library = torch.library.Library("c10d", "IMPL")  # type: ignore[no-untyped-call]
        libraries.callback(library._destroy)
        for schema in _schemas():
            name = schema.name.removeprefix("c10d::")
            # An operator of a newer torch that the table lacks is recorded under its own name.
            reader = make_reader(OPERATORS.get(name) or _guess(name, schema), schema.arguments)
            if tap is None:
                _put(library, name, _kernel(name, reader, caller))
            else:
                reader.unbox = itself
                tap.put(name, reader)
        waits = torch.library.Library("_c10d_functional", "IMPL")  # type: ignore[no-untyped-call]
        libraries.callback(waits._destroy)
        _put(waits, "wait_tensor", _wait_kernel(session))
        return libraries.pop_all().close


def _put(library: torch.library.Library, name: str, kernel: Any) -> None:
    library.impl(name, kernel, "BackendSelect", with_keyset=True)  # type: ignore[no-untyped-call]


@cache  # each call creates objects for thousands of schemas
def _schemas() -> list[Any]:
    return [
        schema
        for schema in torch._C._jit_get_all_schemas()
        if schema.name.startswith("c10d::")
        and not schema.overload_name
        and schema.name.removeprefix("c10d::") not in _IGNORED
    ]


def guessed() -> list[str]:
    """Return the operators of this torch that the table lacks, so that their rows are guessed."""
    names = (schema.name.removeprefix("c10d::") for schema in _schemas())
    return sorted(name for name in names if name not in OPERATORS)


def _kernel(name: str, reader: ArgumentReader, session: HasRecorder) -> Any:
    """Return a kernel for the dispatcher that records a call of this operator and passes it on."""
    redispatch = getattr(torch.ops.c10d, name).default._handle.redispatch_boxed

    def kernel(keyset: DispatchKeySet, *args: Any) -> Any:
        recorder = session.recorder
        if recorder is None:
            recorder = session.begin_by_call(reader.unbox(args[reader.group_index]))
        call = None if recorder is None else recorder.issue(reader, args)
        raw = _raw_repr(keyset)
        rest = _remaining.get(raw)
        if rest is None:
            rest = _remaining[raw] = keyset.remove(DispatchKey.BackendSelect)
        if recorder is None:
            return redispatch(rest, *args)
        try:
            result = redispatch(rest, *args)
        except BaseException as problem:
            recorder.not_taken(reader, args, call, problem)
            raise
        if call is not None:
            recorder.issued(call, result, args)
        return result

    torch_api.hide_from_dynamo(kernel.__code__, callees=True)
    return kernel


def _wait_kernel(session: HasRecorder) -> Any:
    """Return a kernel for the dispatcher that records a call of ``wait_tensor`` and passes it on.

    Functional collectives, and so DTensor and compiled graphs, use it instead of a Work
    (``wait_tensor``, torch/csrc/distributed/c10d/Functional.cpp; torch 2.13).
    """
    redispatch = torch.ops._c10d_functional.wait_tensor.default._handle.redispatch_boxed

    def kernel(keyset: DispatchKeySet, tensor: Any) -> Any:
        recorder = session.recorder
        call = None if recorder is None else recorder.waits_for(tensor)
        raw = _raw_repr(keyset)
        rest = _remaining.get(raw)
        if rest is None:
            rest = _remaining[raw] = keyset.remove(DispatchKey.BackendSelect)
        if recorder is None or call is None:
            return redispatch(rest, tensor)
        try:
            result = redispatch(rest, tensor)
        except BaseException as problem:
            recorder.raised(call, problem)
            raise
        recorder.waited(call)
        return result

    torch_api.hide_from_dynamo(kernel.__code__, callees=True)
    return kernel


def _guess(name: str, schema: Any) -> OpRow:
    """Return a row for an operator that the table lacks, by the usual names of arguments."""
    names = [a.name for a in schema.arguments if "Tensor" in str(a.type)]
    sent = next(
        (n for n in names if n.startswith(("input", "tensor"))), names[0] if names else None
    )
    received = next((n for n in names if n.startswith("output")), None)
    return OpRow(name.rstrip("_"), sent, received if received != sent else None)
