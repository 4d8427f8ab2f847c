"""The fixed part of a record: worked out once for all calls from one line, on one stream."""

from __future__ import annotations

from typing import Any

from collectrace import records, roles
from collectrace.records import Call
from collectrace.tracer.record.streams import Progress, Stream
from collectrace.tracer.tap.describe import Fields


class Template:
    """What is the same for all calls from one line, on one stream, of one kind."""

    __slots__ = (
        "body", "counter", "is_async", "is_bucket", "keep", "nbytes", "on_device", "op",
        "pair_step", "peer", "program_step", "role", "site", "stream", "tag", "wire_step",
    )  # fmt: skip

    def __init__(self, call: Call, counter: Progress, fields: Fields, keep: Any) -> None:
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
        # b'{"kind":"call","t":0,"seq":0,"group":...}\n' without what changes from call to call.
        self.body = records.encode(call).partition(b'"seq":0')[2].rstrip(b"}\n")
        self.wire_step = self.program_step = 0
        self.pair_step: int | None = None


Issued = tuple[Template, int]
"""A call that was issued: its template, and its sequence number."""
