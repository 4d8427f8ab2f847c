"""Find the ReduceOp of a call, and if it is asynchronous, when torch's operators do not show it.

Before torch 2.10 the ReduceOp of an operator cannot be queried. But its callers know it: a group's
method gets it in its options, and a functional collective by name. Their wrappers store it for the
thread (``told``), and the operator reads it. Calls from C++, such as those of DDP's reducer, sum
(torch/csrc/distributed/c10d/reducer.cpp; torch 2.6 and 2.9).
"""

from __future__ import annotations

import threading
from typing import Any, Final

import torch
from torch._C import DispatchKey, DispatchKeySet

from collectrace.tracer import torch_api
from collectrace.tracer.tap.arguments import REDUCE_OPS, Args, ArgumentReader


class _Told(threading.local):
    """What a wrapper has stored about the operator that the thread is about to issue."""

    reduce_op: str | None = None
    """Name of its ReduceOp; None: it is unknown."""
    frames = 0
    """Frames of the tracer between the operator and its caller."""


told: Final = _Told()


class UntoldReader(ArgumentReader):
    """Reads the arguments of an operator, and gets from its caller what they lack."""

    def __init__(self, row: Any, schema_arguments: Any) -> None:
        super().__init__(row, schema_arguments)
        self._tells_async = torch_api.tells_async(schema_arguments)

    def key(self, args: Args, reduce_op: object = None) -> tuple[Any, ...]:  # noqa: ARG002 - told
        """Return a key as :class:`ArgumentReader` does, with the values from the caller."""
        is_async = self._tells_async or torch_api.asked_async()
        return super().key(args, told.reduce_op or REDUCE_OPS[0]), is_async

    def _reduce_op(self, args: Args) -> str | None:  # noqa: ARG002 - it cannot be queried
        return (told.reduce_op or REDUCE_OPS[0]) if self._reduce_op_index >= 0 else None

    def _is_async(self, args: Args) -> bool:
        return super()._is_async(args) if self._tells_async else torch_api.asked_async()


class _Above:
    """A recorder that accounts for the tracer's frames between a kernel and its caller."""

    def __init__(self, recorder: Any) -> None:
        self.recorder = recorder
        self.issued, self.not_taken = recorder.issued, recorder.not_taken

    def issue(self, reader: ArgumentReader, args: Args) -> Any:
        return self.recorder.issue(reader, args, 2 + told.frames)


class KnowsFrames:
    """A session with recorders that account for the tracer's frames."""

    def __init__(self, session: Any) -> None:
        self._session, self.code = session, session.code
        self._above: _Above | None = None

    @property
    def recorder(self) -> Any:
        """Return the recorder of the run in progress; None: there is no run."""
        recorder = self._session.recorder
        if recorder is None:
            return None
        above = self._above
        if above is None or above.recorder is not recorder:
            above = self._above = _Above(recorder)
        return above

    def begin_by_call(self, pg: Any) -> Any:
        """Begin a run and return its recorder, see ``wire.HasRecorder``; None: it is impossible."""
        self._session.begin_by_call(pg)
        return self.recorder


def functional_library() -> Any:
    """Put kernels in front of the functional collectives that take a ReduceOp by its name.

    They store the name and pass the call on, until the returned library is destroyed.
    """
    library = torch.library.Library("_c10d_functional", "IMPL")  # type: ignore[no-untyped-call]
    for schema in torch._C._jit_get_all_schemas():
        namespace, _, name = schema.name.partition("::")
        at = next((i for i, a in enumerate(schema.arguments) if a.name == "reduce_op"), None)
        if namespace == "_c10d_functional" and not schema.overload_name and at is not None:
            kernel = _kernel(name, at)
            torch_api.hide_from_dynamo(kernel.__code__, callees=True)
            library.impl(name, kernel, "BackendSelect", with_keyset=True)  # type: ignore[no-untyped-call]
    return library


def _kernel(name: str, position: int) -> Any:
    redispatch = getattr(torch.ops._c10d_functional, name).default._handle.redispatch_boxed
    names = {known.lower(): known for known in REDUCE_OPS}

    def kernel(keyset: DispatchKeySet, *args: Any) -> Any:
        rest = keyset.remove(DispatchKey.BackendSelect)
        by_name = names.get(args[position])
        # No call between here and the try: a signal handler could raise after it.
        told.reduce_op, told.frames = by_name, 1
        try:
            return redispatch(rest, *args)
        finally:
            told.reduce_op, told.frames = None, 0

    return kernel
