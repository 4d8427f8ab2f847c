"""The position of each stream and channel of a rank: calls issued, digests, calls complete."""

from __future__ import annotations

from typing import Any, Final

from collectrace.records import NCCL
from collectrace.signature import EMPTY

_MOST_OPEN: Final = 10_000
"""Open calls that a counter remembers at most."""


class CallCounter:
    """Counts the calls of one stream or channel, and which of them are complete.

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
        time of issue, ns; in order of issue. A synchronous call is not among them: the state of its
        thread holds it (``scopes.ThreadState.call``). Threads change it at any time. Iterate over
        ``copy()``, which is one call: ``list(items())`` makes tuples, and so may collect garbage,
        which may let another thread run."""
        self.done = 0
        """The latest call known to be complete. Calls before it may still be open."""
        self.reported = 0
        """The watermark that was written last."""

    def complete(self, seq: int) -> None:
        """Note that the call with this number is complete."""
        self.open.pop(seq, None)
        self.done = max(self.done, seq)

    def watermark(self, in_flight: int | None) -> int:
        """Return the number up to which all calls are complete.

        ``in_flight``: the lowest number of a synchronous call that a thread is in; None: there is
        no such call.
        """
        first = next(iter(self.open.copy()), None)
        waiting = [seq - 1 for seq in (first, in_flight) if seq is not None]
        return min(self.done, *waiting) if waiting else self.done

    def forget_overtaken(self, before: int) -> None:
        """Count calls issued ``before`` this time, ns, as complete if a later one is complete.

        Some Works never report their completion: ``is_completed()`` of gloo's reduce_scatter stays
        false (torch 2.13), and the user may have dropped others. But once a later call of the
        stream is complete, every rank has issued the earlier ones.
        """
        for seq, since in self.open.copy().items():
            if seq < self.done and since < before:
                del self.open[seq]
        # A Work with too large tensors is not held, and so never polled. Its call may stay open
        # forever, and there may be many of them.
        for seq in list(self.open)[:-_MOST_OPEN]:
            self.open.pop(seq, None)


class Stream(CallCounter):
    """The collectives of one group on one device type; ``backend`` serves that type."""

    __slots__ = ("backend", "digest", "in_order", "pairs", "program")

    def __init__(self, group: str, device: str, backend: str) -> None:
        super().__init__(group, device)
        self.backend = backend
        self.in_order = backend in NCCL
        """Whether calls complete in the order of issue."""
        self.digest = EMPTY
        """``digest``, ``program``: prefix digests of all calls so far, as in a ``call`` record."""
        self.program = EMPTY
        self.pairs: int | None = None
        """None before the first all_to_all."""

    def complete(self, seq: int) -> None:
        """Note that this call is complete; if calls complete in order, also all before it."""
        super().complete(seq)
        if self.in_order:
            for earlier in list(self.open):
                if earlier > seq:
                    break
                self.open.pop(earlier, None)

    def row(self) -> list[Any]:
        """Return its row in a ``checkpoint`` record."""
        return [self.group, self.device, self.seq, self.digest, self.program, self.pairs]


class Channel(CallCounter):
    """The messages with one tag from one global rank to another; source -1: any rank."""

    __slots__ = ("destination", "source", "tag")

    def __init__(self, group: str, device: str, source: int, destination: int, tag: int) -> None:
        super().__init__(group, device)
        self.source = source
        self.destination = destination
        self.tag = tag

    def row(self) -> list[Any]:
        """Return its row in a ``checkpoint`` record."""
        return [self.group, self.device, self.source, self.destination, self.tag, self.seq]
