"""Which tensors a call may be writing to that is not over: their numbers are not settled."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any, Final

import orjson
import torch

from collectrace.tracer.record import scopes
from collectrace.tracer.record.recorder import Recorder
from collectrace.tracer.record.template import Issued, Template
from collectrace.tracer.values.stack import GIVEN, FoundStack
from collectrace.tracer.values.tensors import dtype_name, dtype_of, is_plain, is_tensor
from collectrace.tracer.values.variables import variables

_MOST_GIVEN: Final = 10_000
"""Arguments of a call that are looked at, those in lists counted."""

_storage: Final = vars(torch._C.TensorBase)["untyped_storage"]


class Pending:
    """The buffers of the calls in progress.

    Of most the storage is known: a synchronous call's tensors are arguments of our own functions
    on the stack. Of the others their kind and size are, and a tensor that can hold such a buffer
    counts as one. ``stacks``: of threads, by ``ident``; that of an exception's thread is what the
    exception came through, for the call that raised has left its buffer half done.
    """

    def __init__(self, recorder: Recorder, stacks: dict[int, FoundStack]) -> None:
        self._storages = recorder.works.expected_storages()
        self._sizes: set[tuple[str | None, int]] = set()
        """Of buffers that are not known: the name of the dtype, None: any; and bytes."""
        known = {ident for ident, stack in stacks.items() if self._take_arguments(stack)}
        followed = dict[Any, tuple[Issued, torch.Tensor | None]]()
        for call, buffer in (
            *recorder.works.followed(),
            *((one, None) for one in recorder.buckets),
        ):
            if call[1] in call[0].counter.open:
                followed[call] = call, buffer
        calls = [*followed.values(), *((call, None) for call in _in_progress(known, followed))]
        for (template, _), buffer in calls:
            if buffer is not None and self._take(buffer):
                continue
            if not template.on_device:
                self._sizes |= _smallest(template)

    def may_write(self, x: torch.Tensor) -> bool:
        """Return whether one of these calls may be writing to a tensor of the CPU."""
        storage = _storage(x)
        if storage._cdata in self._storages:
            return True
        dtype, size = dtype_name(dtype_of(x)), storage.nbytes()
        return any(kind in (None, dtype) and size >= least for kind, least in self._sizes)

    def _take_arguments(self, stack: FoundStack) -> bool:
        """Know the tensors that our functions on a stack were given; whether there are any."""
        taken = False
        for level in stack.ours:
            bound = variables(level.frame, GIVEN) if level.may_read else None
            for x in _flat(x for _, x in bound or ()):
                taken |= self._take(x)
        return taken

    def _take(self, x: Any) -> bool:
        if not is_tensor(x) or not is_plain(x):
            return False
        with torch._C.DisableTorchFunction():
            self._storages.add(_storage(x)._cdata)
        return True


def _in_progress(known: set[int], followed: Iterable[Issued]) -> Iterator[Issued]:
    """Calls that threads are in or wait for, but for those of which enough is known."""
    for state in scopes.all_states():
        call, wait = state.call, state.wait
        if call is not None and state.ident not in known:
            yield call
        if wait is not None and wait[:2] not in followed:
            yield wait[:2]


def _flat(values: Iterable[Any]) -> Iterator[Any]:
    """What lies in built-in lists, tuples and dictionaries, however deep; at most so many."""
    found = list(values)
    for _ in range(_MOST_GIVEN):
        if not found:
            return
        x = found.pop()
        kind = type(x)
        if kind is list or kind is tuple:
            found += x[:_MOST_GIVEN]
        elif kind is dict:
            found += list(x.values())
        else:
            yield x


def _smallest(template: Template) -> set[tuple[str | None, int]]:
    """The kind and bytes of the smallest buffer that a call fills; none: it fills none."""
    fields: dict[str, Any] = orjson.loads(b"{%b}" % template.body.lstrip(b","))
    shapes = fields.get("out_shape", fields.get("shape"))
    if shapes is None or template.op == "send":
        return set()
    several = any(type(shape) is list for shape in shapes)
    elements = min(map(math.prod, shapes)) if several else math.prod(shapes)
    dtype = fields.get("dtype")
    kind = getattr(torch, dtype, None) if type(dtype) is str else None
    if type(kind) is not torch.dtype:
        return {(None, 0)}
    return {(dtype, elements * kind.itemsize)}
