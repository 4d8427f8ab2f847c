"""The fixed part of a record: worked out once for all calls from one line, on one stream."""

from __future__ import annotations

from typing import Any, Final

from collectrace import roles
from collectrace.chain import Step, body, step
from collectrace.records import Call
from collectrace.tracer.record.streams import Progress, Stream
from collectrace.tracer.tap.describe import Fields

_NOTHING: Final = Step(0, 0)
"""A message is part of no digest."""


class Template:
    """What is the same for all calls from one line, on one stream, of one kind."""

    __slots__ = (
        "body", "counter", "is_async", "is_bucket", "keep", "nbytes", "on_device", "op",
        "pair_step", "peer", "program_step", "role", "site", "stream", "tag", "wire_step",
    )  # fmt: skip

    def __init__(
        self, call: Call, counter: Progress, fields: Fields, keep: Any, group_rank: int
    ) -> None:
        self.op = call.op
        self.site = call.site
        self.peer, self.tag = call.peer, call.tag
        self.counter = counter
        self.stream = counter if isinstance(counter, Stream) else None
        self.is_async = fields.is_async
        self.on_device = call.device != "cpu"
        """The host runs ahead: that a call has returned does not say that it is complete."""
        self.role = call.role
        self.is_bucket = roles.of(call.role).is_bucket
        self.nbytes = fields.nbytes
        self.keep = keep
        """Code objects, whose ids are part of the key this template is found by."""
        self.body = body(call)
        # Attributes of their own: the hot path has no time for one more look-up.
        added = step(call, self.stream.backend, group_rank) if self.stream is not None else _NOTHING
        self.wire_step, self.program_step, self.pair_step = added


Issued = tuple[Template, int]
"""A call that was issued: its template, and its sequence number."""
