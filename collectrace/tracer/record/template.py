"""What is the same in all records of calls from one line on one stream: worked out once."""

from __future__ import annotations

from typing import Any, Final

from collectrace import records
from collectrace.records import Call
from collectrace.tracer.record.streams import CallCounter, Stream
from collectrace.tracer.tap.arguments import CallFields


class Template:
    """The fixed part of the records of equal calls: from one line, on one stream, of one kind.

    ``call`` is such a record with 0 for what changes, ``counter`` the stream or channel it counts
    on, ``keep`` whatever must live as long as the template does.
    """

    __slots__ = (
        "body", "counter", "is_async", "is_bucket", "keep", "nbytes", "on_device", "op",
        "pair_step", "peer", "program_step", "role", "site", "stream", "tag", "wire_step",
    )  # fmt: skip

    def __init__(
        self, call: Call, counter: CallCounter, fields: CallFields, keep: Any = None
    ) -> None:
        self.op = call.op
        self.site = call.site
        self.peer, self.tag = call.peer, call.tag
        self.counter = counter
        self.stream = counter if isinstance(counter, Stream) else None
        self.is_async = fields.is_async
        self.on_device = call.device != "cpu"
        """On a device the host runs ahead: that a call has returned does not say that it is
        complete."""
        self.role = call.role
        self.is_bucket = call.role.endswith(".bucket")
        """Whether it is a gradient bucket, whose end is that of the backward."""
        self.nbytes = fields.nbytes
        """Of the tensors that a Work keeps alive."""
        self.keep = keep
        """Code objects, since their ids are part of the key that the template is found by."""
        # The line is {"kind":"call","t":T,"seq":N,"group":...,"digest":D,...}: what lies between
        # the number and the digests, from the comma on.
        self.body = records.encode(call).partition(b'"seq":0')[2].rstrip(b"}\n")
        self.wire_step = self.program_step = 0
        """What a call adds to its stream's digests, see ``signature.extend``."""
        self.pair_step: int | None = None
        """None for all ops but all_to_all."""


Issued = tuple[Template, int]
"""A call that was issued: its template, and its sequence number."""

IGNORED: Final = Template(
    Call(seq=0, group="", device="", op=""), CallCounter("", ""), CallFields("", "")
)
"""The template of calls that are not recorded: parts of one that is, or on fake tensors."""
