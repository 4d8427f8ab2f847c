"""Works of asynchronous calls: which is complete, who waits for which, and which nobody waited for.

A Work keeps its tensors alive: few are held to ask them, and briefly; one that the user has is
known by a weak reference. On a device the host runs ahead of its calls. There a Work is held until
it is complete, for so long ProcessGroupNCCL keeps it too (``workMetaList_``); and one group's calls
complete in order, each on the group's own stream, so that one speaks for all before it.
"""

from __future__ import annotations

import contextlib
import weakref
from collections import deque
from collections.abc import Iterator
from typing import Any, Final

import torch
from torch.distributed import Work

from collectrace import records
from collectrace.ops import IN_PLACE
from collectrace.roles import USER
from collectrace.tracer.record.scopes import now
from collectrace.tracer.record.template import Issued, Template

_MOST: Final = 32
_MOST_BYTES: Final = 64 << 20

# As torch made it: a patched one would take the watchdog's question for the user's.
_is_completed: Final = Work.is_completed


class HeldWork:
    """A Work whose completion is asked for now and then."""

    __slots__ = ("seq", "since", "template", "work")

    def __init__(self, template: Template, seq: int, work: Any, since: int) -> None:
        self.template, self.seq, self.work, self.since = template, seq, work, since


class _Handed:
    """What is known of a Work that the user has."""

    __slots__ = ("buffer", "call", "is_awaited", "version")

    def __init__(self, call: Issued, buffer: Any) -> None:
        self.call = call
        self.is_awaited = False
        self.buffer: weakref.ref[torch.Tensor] | None = None
        self.version = 0
        if call[0].op in IN_PLACE and isinstance(buffer, torch.Tensor):
            # A tensor made in inference mode counts no versions.
            with contextlib.suppress(RuntimeError):
                self.version = buffer._version
                self.buffer = weakref.ref(buffer)

    def is_touched(self) -> bool:
        """Whether somebody wrote to the tensor since."""
        tensor = self.buffer() if self.buffer is not None else None
        return tensor is not None and tensor._version != self.version


class Works:
    """The works of one run."""

    def __init__(self) -> None:
        self._held: deque[HeldWork] = deque()
        self._nbytes = 0
        """Roughly, until the next poll: threads add to it without a lock."""
        self._handed: dict[weakref.ref[Any], _Handed] = {}
        self._misused: deque[tuple[Template, int, bool]] = deque()

    # -- held -----------------------------------------------------------------------------

    def hold(self, template: Template, seq: int, work: Any, since: int) -> None:
        """Ask this one from now on, unless its tensors are too large to be kept for that."""
        if template.nbytes > _MOST_BYTES:
            return
        self._held.append(HeldWork(template, seq, work, since))
        self._nbytes += template.nbytes
        if len(self._held) > _MOST or self._nbytes > _MOST_BYTES:
            # The oldest stays, since the first that is incomplete is the one that matters; of the
            # others every second goes, so that the rest is spread over all that were issued.
            for held in list(self._held)[1::2]:
                self._release(held)

    def poll(self, patience: int) -> None:
        """Ask the held works; forget those of the host that are older than ``patience``, ns.

        Of some works of gloo nothing is ever heard.
        """
        for held in list(self._held):
            if _is_complete(held.work):
                held.template.counter.complete(held.seq)
            elif held.template.on_device or now() - held.since < patience:
                continue
            self._release(held)
        self._nbytes = sum(held.template.nbytes for held in list(self._held))

    def forget_all(self) -> None:
        """Let every Work go: its group is about to."""
        self._held.clear()
        self._nbytes = 0

    def fronts(self) -> Iterator[HeldWork]:
        """Per stream on a device the oldest call that was incomplete when it was asked last."""
        seen = set()
        for held in list(self._held):
            if held.template.on_device and held.template.counter not in seen:
                seen.add(held.template.counter)
                yield held

    def _release(self, held: HeldWork) -> None:
        with contextlib.suppress(ValueError):  # another thread has let it go meanwhile
            self._held.remove(held)
            self._nbytes -= held.template.nbytes

    def done(self, call: Issued) -> None:
        """Somebody waited for it: nothing is left to ask."""
        template, seq = call
        for held in list(self._held):
            if held.seq == seq and held.template is template:
                self._release(held)
                return

    # -- handed to the user -----------------------------------------------------------------

    def hand(self, work: Any, call: Issued, buffer: Any) -> None:
        """The user gets this Work; ``buffer``: the call's first argument."""
        self._handed[weakref.ref(work, self._gone)] = _Handed(call, buffer)

    def call_of(self, work: Any) -> Issued | None:
        """The call that a Work stands for; None where that is not known any more."""
        handed = self._handed.get(weakref.ref(work))
        if handed is not None:
            return handed.call
        found = (h for h in [*self._held][::-1] if Work.unbox(h.work) is work)
        return next(((h.template, h.seq) for h in found), None)

    def awaited(self, work: Any) -> None:
        """Somebody waits for it, or asked for its future."""
        handed = self._handed.get(weakref.ref(work))
        if handed is not None and not handed.is_awaited:
            handed.is_awaited = True
            if handed.is_touched():
                self._misused.append((*handed.call, True))

    def _gone(self, reference: weakref.ref[Any]) -> None:
        # Runs wherever the last reference ends, perhaps inside our own code: only note it.
        handed = self._handed.pop(reference, None)
        if handed is not None and not handed.is_awaited and handed.call[0].role == USER:
            self._misused.append((*handed.call, False))

    def give_up(self) -> None:
        """The process ends in peace: what nobody has waited for, nobody will."""
        for reference in list(self._handed):
            self._gone(reference)

    def misused(self) -> Iterator[records.Unwaited]:
        """What is new about works that were not waited for, a record per line of code."""
        found: dict[tuple[Template, bool], records.Unwaited] = {}
        while self._misused:
            template, seq, is_touched = self._misused.popleft()
            record = found.get((template, is_touched))
            if record is not None:
                record.count += 1
                continue
            found[template, is_touched] = records.Unwaited(
                group=template.counter.group, device=template.counter.device, seq=seq,
                op=template.op, site=template.site, touched=is_touched or None,
            )  # fmt: skip
        yield from found.values()


def _is_complete(boxed: Any) -> bool:
    work = Work.unbox(boxed)
    # A Work written in Python is not run on a thread its author never thought of.
    return type(work).is_completed is Work.is_completed and bool(_is_completed(work))
