"""Where each stream and channel of a rank stands: calls issued, digests, calls complete."""

from __future__ import annotations

from typing import Any, Final

from collectrace.records import NCCL
from collectrace.signature import EMPTY

_MOST_OPEN: Final = 10_000
"""Calls per counter whose completion is waited for."""


class CallCounter:
    """Counts the calls of one stream or channel, and knows which are complete.

    ``group`` is the group's name in the record, ``device`` a device type.
    """

    __slots__ = ("done", "group", "device", "open", "reported", "seq")  # noqa: RUF023 - as read

    def __init__(self, group: str, device: str) -> None:
        self.group = group
        self.device = device
        self.seq = 0
        """Calls issued so far."""
        self.open: dict[int, int] = {}
        """Asynchronous and failed calls that are not known to be complete: sequence number to
        time of issue, ns; in order of issue. A synchronous call is not among them: it stands in
        the state of its thread (``scopes.ThreadState.call``)."""
        self.done = 0
        """The latest call known to be complete, whatever may still be open before it."""
        self.reported = 0
        """The watermark that was written last."""

    def complete(self, seq: int) -> None:
        """Note that the call of this number is complete."""
        self.open.pop(seq, None)
        self.done = max(self.done, seq)

    def watermark(self, in_flight: int | None) -> int:
        """The number up to which all calls are complete.

        ``in_flight``: the lowest number of a synchronous call that a thread is in; None: no thread
        is in one.
        """
        first = next(iter(self.open), None)
        waiting = [seq - 1 for seq in (first, in_flight) if seq is not None]
        return min(self.done, *waiting) if waiting else self.done

    def forget_overtaken(self, before: int) -> None:
        """Count old calls as complete that a later, complete one has overtaken.

        Old are those issued ``before`` this time, ns. Of some Works nothing is ever heard:
        ``is_completed()`` of gloo's reduce_scatter never turns true (torch 2.13), and the user
        may have let go of others. That a later call of the stream has completed proves that
        every rank has got past them.
        """
        for seq, since in list(self.open.items()):
            if seq < self.done and since < before:
                del self.open[seq]
        # A Work whose tensors are too large is not held, and so never asked: its call may stay
        # open for ever, and there may be any number of these.
        for seq in list(self.open)[:-_MOST_OPEN]:
            self.open.pop(seq, None)


class Stream(CallCounter):
    """The collectives of one group on one device type; ``backend`` serves that type."""

    __slots__ = ("backend", "digest", "in_order", "pairs", "program")

    def __init__(self, group: str, device: str, backend: str) -> None:
        super().__init__(group, device)
        self.backend = backend
        self.in_order = backend in NCCL
        """Calls complete in the order of issue."""
        self.digest = EMPTY
        """Prefix digests of all calls so far, as in a ``call`` record."""
        self.program = EMPTY
        self.pairs: int | None = None
        """None before the first all_to_all."""

    def complete(self, seq: int) -> None:
        """Note that this call is complete, and all before it where they complete in order."""
        super().complete(seq)
        if self.in_order:
            for earlier in list(self.open):
                if earlier > seq:
                    break
                self.open.pop(earlier, None)

    def row(self) -> list[Any]:
        """Its row in a ``checkpoint`` record."""
        return [self.group, self.device, self.seq, self.digest, self.program, self.pairs]


class Channel(CallCounter):
    """The messages of one tag from one rank to another: global ranks; source -1: any."""

    __slots__ = ("destination", "source", "tag")

    def __init__(self, group: str, device: str, source: int, destination: int, tag: int) -> None:
        super().__init__(group, device)
        self.source = source
        self.destination = destination
        self.tag = tag

    def row(self) -> list[Any]:
        """Its row in a ``checkpoint`` record."""
        return [self.group, self.device, self.source, self.destination, self.tag, self.seq]
