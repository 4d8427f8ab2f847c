"""Works of asynchronous calls: which is complete, who waits for which, and which nobody waited for.

A Work keeps its tensors alive. So few are *held* to be asked whether they are complete, and
briefly; those that the user's code has are *tracked* by a weak reference.

On a device the host runs ahead of its calls. There a Work is held until it is complete, which
keeps nothing alive for longer: ProcessGroupNCCL holds it as long (``workMetaList_``,
ProcessGroupNCCL.hpp, torch 2.13). And since the calls of one group complete in order there, one
Work speaks for all before it.
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
from collectrace.tracer.record.template import Issued, Template
from collectrace.tracer.user_objects import ByObject, type_name
from collectrace.tracer.values import tensors

_MOST: Final = 32
"""Works held at a time."""

_MOST_EXPECTED: Final = 1024
"""Tensors remembered that a functional collective fills, those that are gone counted."""

_MOST_UNDONE: Final = 1024
"""Tensors remembered of calls that raised."""

_MOST_BYTES: Final = 64 << 20
"""Of tensors kept alive by the Works that are held."""

# Taken before it is patched: the patched one would take the watchdog's question for the user's.
_is_completed: Final = Work.is_completed


class Buffer:
    """A tensor that a call in progress reads or fills; nothing is kept alive by it."""

    __slots__ = ("tensor", "version")

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = weakref.ref(tensor)
        self.version = _version(tensor)
        """Of the tensor when the call was issued; None: its version says nothing."""

    def is_touched(self) -> bool:
        """Return whether the program has written to the tensor; False if that is not known."""
        tensor = self.tensor() if self.version is not None else None
        return tensor is not None and tensor._version != self.version


def _version(tensor: torch.Tensor) -> int | None:
    """Return how often a tensor was written to; None if others may share the count."""
    if not any(type(tensor) is kind for kind in (torch.Tensor, torch.nn.Parameter)):
        return None  # attributes of a subclass may run the user's code
    try:
        # All views of a storage share one version. A tensor that is only a part of its storage
        # stays as it is when another part is written to.
        is_whole = tensor.untyped_storage().nbytes() == tensor.nbytes
        return tensor._version if is_whole else None
    except RuntimeError:  # it was made in inference mode, or has no storage
        return None


class HeldWork:
    """A Work that is asked now and then whether it is complete; issued at ``since``, ns."""

    __slots__ = ("message", "seq", "since", "template", "work")

    def __init__(
        self, template: Template, seq: int, work: Any, since: int, message: Buffer | None = None
    ) -> None:
        self.template, self.seq, self.work, self.since = template, seq, work, since
        self.message = message
        """What is sent or received, until the Work is waited for."""


class TrackedWork:
    """A Work that the user's code has: its call, whether it was waited for, the call's tensor.

    ``buffer`` is the first argument of the call.
    """

    __slots__ = ("buffer", "call", "was_waited_for")

    def __init__(self, call: Issued, buffer: Any) -> None:
        self.call = call
        self.was_waited_for = False
        is_in_place = call[0].op in IN_PLACE and isinstance(buffer, torch.Tensor)
        self.buffer = Buffer(buffer) if is_in_place else None


class Works:
    """The Works of one run: those held, those tracked, and what was wrong about the latter."""

    def __init__(self) -> None:
        self._held: deque[HeldWork] = deque()
        self._nbytes = 0
        """Of the tensors of those held. Exact after a poll only: threads add to it without a
        lock."""
        self._unanswered = ByObject[Issued]()
        """Receives from any source whose Work is held no more: it may still tell whose message
        it was, once it is waited for."""
        self._tracked: dict[weakref.ref[Any], TrackedWork] = {}
        self._misused: deque[tuple[Template, int, bool]] = deque()
        """Calls whose Work was let go and never waited for (False), or whose tensor was written
        to before it was (True); not reported yet."""

        self._expected: dict[int, tuple[StorageWeakRef, Issued]] = {}
        """Calls of functional collectives, by the address of the storage that each fills. The weak
        reference keeps the address from being used again, and the memory not."""
        self._undone = deque[StorageWeakRef](maxlen=_MOST_UNDONE)
        """What calls that raised have left half done."""

    # -- held -----------------------------------------------------------------------------

    def hold(
        self, template: Template, seq: int, work: Any, since: int,
        message: torch.Tensor | None = None,
    ) -> None:  # fmt: skip
        """Ask this Work from now on, unless its tensors are too large to be kept alive for that.

        ``work``: as the operator returned it, in its script object; ``since``: time of issue, ns;
        ``message``: what a point-to-point call sends or receives.
        """
        if template.nbytes > _MOST_BYTES:
            return
        buffer = None if message is None else Buffer(message)
        self._held.append(HeldWork(template, seq, work, since, buffer))
        self._nbytes += template.nbytes
        if len(self._held) > _MOST or self._nbytes > _MOST_BYTES:
            # The oldest stays, since the first that is incomplete tells most; of the others every
            # second goes, so that those left are spread over all that were issued.
            for held in list(self._held)[1::2]:
                self._let_go(held)

    def poll(self, patience: int) -> None:
        """Ask every held Work, and let go of those that are complete.

        On the CPU also of those issued more than ``patience`` ns ago: some Works of gloo never
        tell that they are complete.
        """
        for held in list(self._held):
            if _is_complete(held.work):
                held.template.counter.complete(held.seq)
            elif held.template.on_device or now() - held.since < patience:
                continue
            self._let_go(held)
        self._nbytes = sum(held.template.nbytes for held in list(self._held))

    def forget_all(self) -> None:
        """Let go of every held Work: the groups are about to end."""
        self._held.clear()
        self._nbytes = 0

    def oldest_incomplete(self) -> Iterator[HeldWork]:
        """Per stream on a device, the oldest Work that was not complete when it was last asked."""
        seen = set()
        for held in list(self._held):
            if held.template.on_device and held.template.counter not in seen:
                seen.add(held.template.counter)
                yield held

    def _release(self, held: HeldWork) -> None:
        with contextlib.suppress(ValueError):  # another thread has let it go meanwhile
            self._held.remove(held)
            self._nbytes -= held.template.nbytes

    def _let_go(self, held: HeldWork) -> None:
        """Ask a Work no more that nobody is known to have waited for."""
        if held.template.peer == ANY_SOURCE:
            self._unanswered[Work.unbox(held.work)] = held.template, held.seq
        self._release(held)

    def release(self, call: Issued) -> None:
        """Let go of the Work of a call that is known to be complete."""
        template, seq = call
        for held in list(self._held):
            if held.seq == seq and held.template is template:
                self._release(held)
                return

    # -- tracked --------------------------------------------------------------------------

    def track(self, work: Any, call: Issued, buffer: Any) -> None:
        """Follow a Work that the user's code is given; ``buffer``: the call's first argument."""
        self._tracked[weakref.ref(work, self._gone)] = TrackedWork(call, buffer)

    def call_of(self, work: Any) -> Issued | None:
        """The call that a Work belongs to; None where that is not known."""
        tracked = self._tracked.get(weakref.ref(work))
        if tracked is not None:
            return tracked.call
        found = (h for h in [*self._held][::-1] if Work.unbox(h.work) is work)
        return next(((h.template, h.seq) for h in found), None) or self._unanswered.get(work)

    def waited_for(self, work: Any) -> None:
        """Note that the user's code waits for this Work, or does what comes to the same."""
        tracked = self._tracked.get(weakref.ref(work))
        if tracked is None:
            self._message_waited_for(work)
        elif not tracked.was_waited_for:
            tracked.was_waited_for = True
            if tracked.buffer is not None and tracked.buffer.is_touched():
                self._misused.append((*tracked.call, True))

    def _message_waited_for(self, work: Any) -> None:
        """Note whether a message was written to, if the Work is of one that is still held.

        Works of messages are not tracked: isend and irecv are not patched. Of one that is held no
        more nothing is known: mostly it was complete, and a write did no harm.
        """
        for held in list(self._held):
            if held.message is not None and Work.unbox(held.work) is work:
                if held.message.is_touched():
                    self._misused.append((held.template, held.seq, True))
                held.message = None
                return

    def _gone(self, reference: weakref.ref[Any]) -> None:
        # Runs wherever the last reference to a Work ends, perhaps in the midst of our own code:
        # nothing is written here.
        tracked = self._tracked.pop(reference, None)
        if tracked is not None and not tracked.was_waited_for and tracked.call[0].role == USER:
            self._misused.append((*tracked.call, False))

    def followed(self) -> Iterator[tuple[Issued, torch.Tensor | None]]:
        """Yield the calls whose Work is held or tracked, and the tensor each works in, if known."""
        for held in list(self._held):
            yield (held.template, held.seq), None
        for tracked in list(self._tracked.values()):
            yield tracked.call, None if tracked.buffer is None else tracked.buffer.tensor()

    # -- expected -------------------------------------------------------------------------

    def expect(self, call: Issued, outputs: list[torch.Tensor]) -> None:
        """Note that these tensors are filled by this call, until they are waited for."""
        if len(self._expected) >= _MOST_EXPECTED:
            for address, (reference, _) in list(self._expected.items()):
                if reference.expired():  # type: ignore[no-untyped-call]
                    self._expected.pop(address, None)
            # Those that nobody waits for, the oldest first.
            for address in list(self._expected)[: -_MOST_EXPECTED // 2]:
                self._expected.pop(address, None)
        for tensor in outputs:
            reference = StorageWeakRef(tensor.untyped_storage())  # type: ignore[no-untyped-call]
            self._expected[reference.cdata] = reference, call

    def expected(self, tensor: torch.Tensor) -> Issued | None:
        """The call that fills this tensor, asked once; None where none is known."""
        if not self._expected or type_name(tensor) == "FakeTensor":
            return None
        found = self._expected.pop(tensor.untyped_storage()._cdata, None)
        return found[1] if found is not None else None

    def left_undone(self, given: object) -> None:
        """Note that a call with these arguments raised: it may have written to a part of them."""
        self._undone.extend(map(StorageWeakRef, tensors.storages(given)))

    def storages(self) -> set[int]:
        """Return the addresses of storages that functional collectives fill, or half filled."""
        return set(self._expected) | {reference.cdata for reference in list(self._undone)}

    def mark_rest_unwaited(self) -> None:
        """Note that the Works still tracked were never waited for: the process ends normally."""
        for reference in list(self._tracked):
            self._gone(reference)

    def unwaited_records(self) -> Iterator[records.Unwaited]:
        """What has been noted since the last time, in one record per line of code and fault."""
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
    # A Work written in Python is not asked: its author does not expect it from another thread.
    return type(work).is_completed is Work.is_completed and bool(_is_completed(work))
