"""The Works of asynchronous calls: which are complete, and for which nobody waited.

A Work keeps its tensors alive. So only a few are *held* for a short time, to poll them. Works that
the user's code has are *tracked* by a weak reference.

On a device the host runs ahead of its calls. There a Work is held until it is complete. This keeps
nothing alive for longer, as ProcessGroupNCCL does the same (``workMetaList_``,
ProcessGroupNCCL.hpp, torch 2.13). The calls of one group complete in order there, so a complete
Work proves that all before it are complete.
"""

from __future__ import annotations

import contextlib
import weakref
from collections import deque
from collections.abc import Iterator
from typing import Any, Final

import torch
from torch.distributed import Work
from torch.multiprocessing.reductions import StorageWeakRef

from collectrace import records
from collectrace.ops import ANY_SOURCE, IN_PLACE
from collectrace.roles import USER
from collectrace.tracer.record.scopes import now
from collectrace.tracer.record.storages import storages
from collectrace.tracer.record.template import Issued, Template
from collectrace.tracer.user_objects import ByObject, type_name

_MOST: Final = 32
"""Works held at a time."""

_MOST_EXPECTED: Final = 1024
"""Tensors of functional collectives that are remembered, including freed ones."""

_MOST_UNDONE: Final = 1024
"""Tensors of calls that raised that are remembered."""

_MOST_BYTES: Final = 64 << 20
"""Bytes of tensors that held Works keep alive."""

# Saved before it is patched: the patched method would count the watchdog's poll as the user's.
_is_completed: Final = Work.is_completed


class Buffer:
    """A weak reference to a tensor that a call in progress reads or fills."""

    __slots__ = ("tensor", "version")

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = weakref.ref(tensor)
        self.version = _version(tensor)
        """The tensor's version when the call was issued; None: the version is not reliable."""

    def is_touched(self) -> bool:
        """Return whether the program has written to the tensor; False if that is not known."""
        tensor = self.tensor() if self.version is not None else None
        return tensor is not None and tensor._version != self.version


def _version(tensor: torch.Tensor) -> int | None:
    """Return how often a tensor was written to; None: other tensors may share the count."""
    if not any(type(tensor) is kind for kind in (torch.Tensor, torch.nn.Parameter)):
        return None  # attributes of a subclass may run the user's code
    try:
        # All views of a storage share one version. It also changes when another part of the
        # storage is written to.
        is_whole = tensor.untyped_storage().nbytes() == tensor.nbytes
        return tensor._version if is_whole else None
    except RuntimeError:  # it was created in inference mode, or has no storage
        return None


class HeldWork:
    """A Work that is polled for its completion; its call was issued at ``since``, ns."""

    __slots__ = ("message", "seq", "since", "template", "work")

    def __init__(
        self, template: Template, seq: int, work: Any, since: int, message: Buffer | None = None
    ) -> None:
        self.template, self.seq, self.work, self.since = template, seq, work, since
        self.message = message
        """The tensor that is sent or received; None after the program has waited."""


class TrackedWork:
    """A Work that the user's code has: its call, whether it was waited for, and its tensor.

    ``buffer`` is the first argument of the call.
    """

    __slots__ = ("buffer", "call", "was_waited_for")

    def __init__(self, call: Issued, buffer: Any) -> None:
        self.call = call
        self.was_waited_for = False
        is_in_place = call[0].op in IN_PLACE and isinstance(buffer, torch.Tensor)
        self.buffer = Buffer(buffer) if is_in_place else None


class Works:
    """The Works of one run: those held, those tracked, and misuses of them."""

    def __init__(self) -> None:
        self._held: deque[HeldWork] = deque()
        self._nbytes = 0
        """Bytes of the tensors of held Works. It is exact only after a poll, as threads add to it
        without a lock."""
        self._unanswered = ByObject[Issued]()
        """Receives from any source with a Work that is no longer held. When the program waits, the
        Work still shows the sender."""
        self._tracked: dict[weakref.ref[Any], TrackedWork] = {}
        self._misused: deque[tuple[Template, int, bool]] = deque()
        """Misuses to report. False: the Work was dropped before anybody waited. True: the tensor
        was written to before the wait."""

        self._expected: dict[int, tuple[StorageWeakRef, Issued]] = {}
        """Calls of functional collectives, by the address of the storage that each fills. The weak
        reference prevents the reuse of the address, but does not keep the memory."""
        self._undone = deque[StorageWeakRef](maxlen=_MOST_UNDONE)
        """The storages of calls that raised, which may be half written."""

    # -- held -----------------------------------------------------------------------------

    def hold(
        self, template: Template, seq: int, work: Any, since: int,
        message: torch.Tensor | None = None,
    ) -> None:  # fmt: skip
        """Poll this Work from now on, unless its tensors are too large to be kept alive.

        ``work``: the script object that the operator returned; ``since``: time of issue, ns;
        ``message``: the tensor of a point-to-point call.
        """
        if template.nbytes > _MOST_BYTES:
            return
        buffer = None if message is None else Buffer(message)
        self._held.append(HeldWork(template, seq, work, since, buffer))
        self._nbytes += template.nbytes
        if len(self._held) > _MOST or self._nbytes > _MOST_BYTES:
            # The oldest is kept, as the first incomplete one is the most informative. Every second
            # of the others is dropped, so that the rest is spread over all calls.
            for held in list(self._held)[1::2]:
                self._let_go(held)

    def poll(self, patience: int) -> None:
        """Poll every held Work, and drop those that are complete.

        On the CPU, also drop those issued more than ``patience`` ns ago: some Works of gloo never
        report their completion.
        """
        for held in list(self._held):
            if _is_complete(held.work):
                held.template.counter.complete(held.seq)
            elif held.template.on_device or now() - held.since < patience:
                continue
            self._let_go(held)
        self._nbytes = sum(held.template.nbytes for held in list(self._held))

    def forget_all(self) -> None:
        """Drop every held Work, as the groups are about to end."""
        self._held.clear()
        self._nbytes = 0

    def oldest_incomplete(self) -> Iterator[HeldWork]:
        """Yield the oldest Work of each stream on a device that was incomplete when last polled."""
        seen = set()
        for held in list(self._held):
            if held.template.on_device and held.template.counter not in seen:
                seen.add(held.template.counter)
                yield held

    def _release(self, held: HeldWork) -> None:
        with contextlib.suppress(ValueError):  # another thread has dropped it meanwhile
            self._held.remove(held)
            self._nbytes -= held.template.nbytes

    def _let_go(self, held: HeldWork) -> None:
        """Stop polling a Work for which nobody has waited yet."""
        if held.template.peer == ANY_SOURCE:
            self._unanswered[Work.unbox(held.work)] = held.template, held.seq
        self._release(held)

    def release(self, call: Issued) -> None:
        """Drop the Work of a call that is known to be complete."""
        template, seq = call
        for held in list(self._held):
            if held.seq == seq and held.template is template:
                self._release(held)
                return

    # -- tracked --------------------------------------------------------------------------

    def track(self, work: Any, call: Issued, buffer: Any) -> None:
        """Follow a Work that the user's code gets; ``buffer``: the call's first argument."""
        self._tracked[weakref.ref(work, self._gone)] = TrackedWork(call, buffer)

    def call_of(self, work: Any) -> Issued | None:
        """Return the call that a Work belongs to; None: it is unknown."""
        tracked = self._tracked.get(weakref.ref(work))
        if tracked is not None:
            return tracked.call
        found = (h for h in [*self._held][::-1] if Work.unbox(h.work) is work)
        return next(((h.template, h.seq) for h in found), None) or self._unanswered.get(work)

    def waited_for(self, work: Any) -> None:
        """Note that the user's code waits for this Work, or does something equivalent."""
        tracked = self._tracked.get(weakref.ref(work))
        if tracked is None:
            self._message_waited_for(work)
        elif not tracked.was_waited_for:
            tracked.was_waited_for = True
            if tracked.buffer is not None and tracked.buffer.is_touched():
                self._misused.append((*tracked.call, True))

    def _message_waited_for(self, work: Any) -> None:
        """Note if a message was written to before the wait, if its Work is still held.

        Works of messages are not tracked, as isend and irecv are not patched. If a Work is no
        longer held, it was usually complete, and a write did no harm.
        """
        for held in list(self._held):
            if held.message is not None and Work.unbox(held.work) is work:
                if held.message.is_touched():
                    self._misused.append((held.template, held.seq, True))
                held.message = None
                return

    def _gone(self, reference: weakref.ref[Any]) -> None:
        # This runs when the last reference to a Work ends, perhaps during the tracer's code. So
        # nothing is written here.
        tracked = self._tracked.pop(reference, None)
        if tracked is not None and not tracked.was_waited_for and tracked.call[0].role == USER:
            self._misused.append((*tracked.call, False))

    def followed(self) -> Iterator[tuple[Issued, torch.Tensor | None]]:
        """Yield the calls of held and tracked Works, each with its tensor, if known."""
        for held in list(self._held):
            yield (held.template, held.seq), None
        for tracked in list(self._tracked.values()):
            yield tracked.call, None if tracked.buffer is None else tracked.buffer.tensor()

    # -- expected -------------------------------------------------------------------------

    def expect(self, call: Issued, outputs: list[torch.Tensor]) -> None:
        """Note that this call fills these tensors, until the program waits for them."""
        if len(self._expected) >= _MOST_EXPECTED:
            for address, (reference, _) in self._expected.copy().items():
                if reference.expired():  # type: ignore[no-untyped-call]
                    self._expected.pop(address, None)
            # Drop the oldest, for which nobody seems to wait.
            for address in list(self._expected)[: -_MOST_EXPECTED // 2]:
                self._expected.pop(address, None)
        for tensor in outputs:
            reference = StorageWeakRef(tensor.untyped_storage())  # type: ignore[no-untyped-call]
            self._expected[reference.cdata] = reference, call

    def expected(self, tensor: torch.Tensor) -> Issued | None:
        """Return and forget the call that fills this tensor; None: none is known."""
        if not self._expected or type_name(tensor) == "FakeTensor":
            return None
        found = self._expected.pop(tensor.untyped_storage()._cdata, None)
        return found[1] if found is not None else None

    def left_undone(self, given: object) -> None:
        """Note that a call with these arguments raised: it may have written to a part of them."""
        self._undone.extend(map(StorageWeakRef, storages(given)))

    def unsettled(self) -> set[int]:
        """Return the addresses of storages that functional collectives fill, or half filled."""
        return set(self._expected) | {reference.cdata for reference in list(self._undone)}

    def mark_rest_unwaited(self) -> None:
        """Note that nobody waited for the Works that are still tracked at a normal end."""
        for reference in list(self._tracked):
            self._gone(reference)

    def unwaited_records(self) -> Iterator[records.Unwaited]:
        """Yield the misuses since the last call, one record per line of code and kind of misuse."""
        found: dict[tuple[Template, bool], records.Unwaited] = {}
        while self._misused:
            template, seq, is_touched = self._misused.popleft()
            record = found.get((template, is_touched))
            if record is not None:
                record.count += 1
                continue
            found[template, is_touched] = records.Unwaited(
                group=template.counter.group, device=template.counter.device, seq=seq,
                op=template.op, peer=template.peer, tag=template.tag, site=template.site,
                touched=is_touched or None,
            )  # fmt: skip
        yield from found.values()


def _is_complete(boxed: Any) -> bool:
    work = Work.unbox(boxed)
    # A Work written in Python is not polled: it may not expect calls from another thread.
    return type(work).is_completed is Work.is_completed and bool(_is_completed(work))
