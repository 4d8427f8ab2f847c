"""The counters of one rank: where each stream and channel stands, and what of it is complete."""

from __future__ import annotations

from typing import Any, Final

from collectrace.signature import EMPTY

_MOST_OPEN: Final = 10_000


class CallCounter:
    """Calls that were issued and are not known to be complete, by sequence number."""

    __slots__ = ("done", "group", "device", "open", "reported", "seq")  # noqa: RUF023 - as read

    def __init__(self, group: str, device: str) -> None:
        self.group = group
        self.device = device
        self.seq = 0
        """Calls issued so far."""
        self.open: dict[int, int] = {}
        """Asynchronous and failed calls that are not known to be complete: sequence number to
        time of issue, ns; in order of issue. A synchronous call is known to its thread only."""
        self.done = 0
        """The latest call known to be complete, whatever may still be open before it."""
        self.reported = 0
        """The watermark that was written last."""

    def complete(self, seq: int) -> None:
        """One call is complete."""
        self.open.pop(seq, None)
        self.done = max(self.done, seq)

    def watermark(self, in_flight: int | None) -> int:
        """Everything up to here is complete; ``in_flight``: the first call a thread is still in."""
        first = next(iter(self.open), None)
        waiting = [seq - 1 for seq in (first, in_flight) if seq is not None]
        return min(self.done, *waiting) if waiting else self.done

    def forget_overtaken(self, before: int) -> None:
        """Stop waiting for news of old calls that a later, completed one has overtaken.

        Of some works nothing is ever heard: gloo's reduce_scatter, a Work the user dropped. A
        collective that completed after them proves that every rank got past them.
        """
        for seq, since in list(self.open.items()):
            if seq < self.done and since < before:
                del self.open[seq]
        # Works too large to be held are never asked, and their calls never known to be complete.
        for seq in list(self.open)[:-_MOST_OPEN]:
            self.open.pop(seq, None)


class Stream(CallCounter):
    """The collectives of one group on one device type."""

    __slots__ = ("backend", "digest", "in_order", "pairs", "program")

    def __init__(self, group: str, device: str, backend: str) -> None:
        super().__init__(group, device)
        self.backend = backend
        self.in_order = backend == "nccl"
        """Calls complete in order: a group has a stream of its own on its device."""
        self.digest = EMPTY
        self.program = EMPTY
        self.pairs: int | None = None

    def complete(self, seq: int) -> None:
        """One call is complete, and where they are in order all before it."""
        super().complete(seq)
        if self.in_order:
            for earlier in list(self.open):
                if earlier > seq:
                    break
                self.open.pop(earlier, None)

    def row(self) -> list[Any]:
        """As in a checkpoint."""
        return [self.group, self.device, self.seq, self.digest, self.program, self.pairs]


class Channel(CallCounter):
    """Messages of one tag from one rank to another (global ranks; source -1: any)."""

    __slots__ = ("destination", "source", "tag")

    def __init__(self, group: str, device: str, source: int, destination: int, tag: int) -> None:
        super().__init__(group, device)
        self.source = source
        self.destination = destination
        self.tag = tag

    def row(self) -> list[Any]:
        """As in a checkpoint."""
        return [self.group, self.device, self.source, self.destination, self.tag, self.seq]
