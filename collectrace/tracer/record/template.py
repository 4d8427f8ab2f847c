"""The common part of all records of equal calls from one line, computed once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from collectrace import roles
from collectrace.chain import Step, body, step
from collectrace.records import Call
from collectrace.tracer.record import lines
from collectrace.tracer.record.streams import CallCounter, Stream
from collectrace.tracer.tap.arguments import CallFields

_NOTHING: Final = Step(0, 0)
"""The step of a message, which is part of no digest."""


class Template:
    """The fixed part of the records of equal calls: from one line, on one stream, of one kind.

    ``call`` is such a record with 0 for the fields that change. ``counter`` is its stream or
    channel, ``group_rank`` this process's rank within the group.
    """

    __slots__ = (
        "body", "counter", "is_async", "is_bucket", "nbytes", "on_device", "op",
        "outputs", "pair_step", "peer", "program_step", "role", "site", "stream", "tag",
        "wire_step",
    )  # fmt: skip

    def __init__(
        self,
        call: Call,
        counter: CallCounter,
        fields: CallFields,
        group_rank: int = 0,
    ) -> None:
        self.op = call.op
        self.site = call.site
        self.peer, self.tag = call.peer, call.tag
        self.counter = counter
        self.stream = counter if isinstance(counter, Stream) else None
        self.is_async = fields.is_async
        self.on_device = call.device != "cpu"
        """Whether the host runs ahead of the call: it may return before it is complete."""
        self.role = call.role
        self.is_bucket = roles.of(call.role).is_bucket
        """Whether it is a gradient bucket, which is complete at the end of the backward."""
        self.nbytes = fields.nbytes
        """Bytes of the tensors that a Work keeps alive."""
        self.outputs: Callable[[tuple[Any, ...]], list[Any]] | None = None
        """For a functional collective: returns its output tensors from its arguments, as the
        program waits for a tensor instead of a Work."""
        self.body = body(lines.plain(call))
        """The part of its line between the number and the digests."""
        # Three attributes, as the hot path has no time for another look-up.
        added = step(call, self.stream.backend, group_rank) if self.stream is not None else _NOTHING
        self.wire_step, self.program_step, self.pair_step = added


Issued = tuple[Template, int]
"""An issued call: its template and its sequence number."""

IGNORED: Final = Template(
    Call(seq=0, group="", device="", op=""), CallCounter("", ""), CallFields("", "")
)
"""The template of calls that are not recorded: parts of a recorded call, or on fake tensors."""
