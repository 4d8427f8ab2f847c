"""Find tensors that an unfinished call may be writing to: their numbers are not settled."""

from __future__ import annotations

import math
from typing import Any

import orjson
import torch

from collectrace.tracer.record import scopes
from collectrace.tracer.record.recorder import Recorder
from collectrace.tracer.record.storages import storage_of, storages
from collectrace.tracer.record.template import Issued, Template
from collectrace.tracer.values.tensors import dtype_name, dtype_of


class Pending:
    """The buffers of the calls in progress, and of those that raised.

    The storages of most are known, because a thread keeps the arguments of its call. Of the others
    the dtype and size are known. A tensor that can hold such a buffer counts as one.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._storages = recorder.works.unsettled()
        self._sizes: set[tuple[str | None, int]] = set()
        """The dtype's name (None: any) and the size in bytes of each unknown buffer."""
        for (template, _), given in _in_progress(recorder).items():
            known = {storage._cdata for storage in storages(given)}
            self._storages |= known
            if not known and not template.on_device:
                self._sizes |= _smallest(template)

    def may_write(self, x: torch.Tensor) -> bool:
        """Return whether one of these calls may be writing to a tensor of the CPU."""
        storage = storage_of(x)
        if storage._cdata in self._storages:
            return True
        dtype, size = dtype_name(dtype_of(x)), storage.nbytes()
        return any(kind in (None, dtype) and size >= least for kind, least in self._sizes)


def _in_progress(recorder: Recorder) -> dict[Issued, Any]:
    """Return the calls in progress, with what is known of their arguments."""
    found = dict[Issued, Any]()
    for followed, buffer in (
        *recorder.works.followed(),
        *((one, None) for one in recorder.buckets),
    ):
        if followed[1] in followed[0].counter.open:
            found[followed] = buffer
    for state in scopes.all_states():
        call, given, wait = state.call, state.given, state.wait
        if call is not None:
            found[call] = given
        if wait is not None:
            found.setdefault(wait[:2])
    return found


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
