"""One collective being issued: describe, number, digest, write.

This is the hot path: every collective of a job comes through :meth:`Recorder.issue`. What does
not change between two calls from one line of code on the same kind of tensors is worked out
once, as a :class:`Template`; a call then costs a key, a look-up, two digests and one write.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
from types import FrameType
from typing import Any, Final

from torch.autograd import graph as autograd_graph

from collectrace import ops, records, roles
from collectrace.chain import CHECKPOINT_EVERY
from collectrace.records import NATIVE, Call
from collectrace.roles import USER
from collectrace.signature import BASE, EMPTY, PRIME, extend
from collectrace.tracer.guard import is_users
from collectrace.tracer.record import groups, scopes, sites
from collectrace.tracer.record.groups import GroupBook, GroupState
from collectrace.tracer.record.scopes import Scope, ThreadState, now
from collectrace.tracer.record.streams import Progress
from collectrace.tracer.record.template import Issued, Template
from collectrace.tracer.record.works import Works
from collectrace.tracer.record.writer import Writer
from collectrace.tracer.tap.describe import Fields, Reader

log = logging.getLogger("collectrace")

_ENGINE: Final = id(autograd_graph._engine_run_backward.__code__)
"""The Python frame under which autograd runs: what C++ issues right above it is DDP's reducer."""

_MAX_TEMPLATES: Final = 20_000
"""Per group; a job whose shapes never repeat starts over."""

_MAX_BUCKETS: Final = 10_000
"""Remembered until the backward ends; without an end in sight the rest is not."""


class Recorder:
    """The record of one run of this process: numbers its calls and writes them down.

    Implements :class:`collectrace.tracer.tap.wire.OnIssue`. Nothing here raises, and the lock is
    reentrant: a signal handler may issue a collective while one is being recorded.
    """

    def __init__(self, writer: Writer, max_failures: int) -> None:
        self.writer = writer
        self.book = GroupBook()
        self.lock = threading.RLock()
        self.iteration = 0
        self.calls = 0
        self.last_t = 0
        """When the last call was issued."""
        self.ns = 0
        self.failures = 0
        self.hook_role: str | None = None
        """Role under which a comm hook was run last; its callbacks arrive on threads of C++."""
        self.works = Works()
        self.buckets: list[Issued] = []
        """Gradient buckets of the backward in flight: complete when it returns."""
        self.active = True
        self.global_rank: int | None = None
        self._max_failures = max_failures
        self._state = scopes.local
        self._groups = self.book.states

    # -- the hot path ---------------------------------------------------------------------

    def issue(self, reader: Reader, args: tuple[Any, ...], above: int = 1) -> Issued | None:
        """Number and write one call; ``above`` frames of ours stand between it and here.

        Returns what :meth:`issued` and :meth:`failed` want to hear of; None where there is
        nothing to follow up: a call that is not recorded, or a synchronous one, whose end the
        wrapper of its public function sees.
        """
        if not self.active:
            return None
        t = now()
        try:
            pg = reader.unbox(args[reader.group_index])
            state = self._state.state
            group = self._groups.get(pg)
            if group is None:
                group = self.adopt(pg)
                if group is None:
                    return None
            scope: Scope = state.scope
            bare = scope.api is None
            # From the public function on: what it calls below lies on the way of every call.
            caller = None if bare else state.caller
            frame = caller or sys._getframe(above).f_back
            place = sites.find(frame)
            by_engine = bare and (frame is None or id(frame.f_code) == _ENGINE)
            reduce_op, state.reduce_op = state.reduce_op, None
            if by_engine and reader.is_all_reduce:
                # DDP's C++ reducer knows one: it is asked once, for the template.
                reduce_op = reader
            key = (
                reader, scope, place, by_engine, state.label, reader.key(args, reduce_op)
            )  # fmt: skip
            template = group.templates.get(key)
            if template is None:
                frame = sys._getframe(above).f_back
                template = self._template(group, reader, args, place, frame, state)
                if len(group.templates) >= _MAX_TEMPLATES:
                    group.templates.clear()
                group.templates[key] = template
            if template is _IGNORED:
                return None
            call = self._number(template, t, state)
            return call if bare or template.is_async or template.on_device else None
        except Exception as problem:
            return self._void(reader, args, t, problem)

    def _number(self, template: Template, t: int, state: ThreadState) -> Issued:
        # Not acquire(): after it a signal handler may raise, and nobody would ever release.
        with self.lock:
            previous = state.call
            if previous is not None and previous[0].counter.group not in state.scope.within:
                # It was synchronous, and this thread has moved on.
                self.completed(previous)
            writer = self.writer
            if writer.fd < 0:
                # Before the stream moves on: its head says where the calls before this one stand.
                writer.recover()
            counter, stream = template.counter, template.stream
            iteration = self.iteration
            while True:
                # A signal handler may issue a call in the midst of this, even in the midst of a
                # multiplication: the number is taken at once with all that depends on it.
                before = counter.seq
                seq = before + 1
                if stream is None:
                    line = b'{"kind":"call","t":%d,"seq":%d%b}\n' % (t, seq, template.body)
                    if counter.seq == before:
                        counter.seq = seq
                        break
                    continue
                # signature.extend, written out: two calls less.
                digest = (stream.digest * BASE + template.wire_step) % PRIME
                program = (stream.program * BASE + template.program_step) % PRIME
                pairs, step = stream.pairs, template.pair_step
                if pairs is not None or step is not None:
                    pairs = extend(EMPTY if pairs is None else pairs, step or 0)
                line = b'{"kind":"call","t":%d,"seq":%d%b%b,"digest":%d,"program":%d%b}\n' % (
                    t, seq, template.body, b',"iteration":%d' % iteration if iteration else b"",
                    digest, program, b"" if pairs is None else b',"pairs":%d' % pairs,
                )  # fmt: skip
                if counter.seq == before:
                    counter.seq = seq
                    stream.digest, stream.program, stream.pairs = digest, program, pairs
                    break
            writer.write(line)
            if writer.total >= writer.next_checkpoint:
                self.checkpoint()
            call = state.call = (template, seq)
            state.call_t = self.last_t = t
            self.calls += 1
            self.ns += now() - t
        return call

    def issued(self, call: Issued, result: Any) -> None:
        """The backend has it, and somebody holds a Work to wait for."""
        try:
            self._issued(call, result)
        except Exception as problem:
            self.fail(problem, "following a call up")

    def _issued(self, call: Issued, result: Any) -> None:
        template, seq = call
        state = self._state.state
        template.counter.open[seq] = t = state.call_t
        state.call, state.issued = None, call
        if template.is_bucket and not template.on_device and len(self.buckets) < _MAX_BUCKETS:
            self.buckets.append(call)
            return
        work = result[-1] if isinstance(result, tuple) else result
        if work is not None:
            self.works.hold(template, seq, work, t)

    def failed(self, call: Issued | None, problem: BaseException) -> None:
        """The call raised: say so, and who."""
        state = self._state.state
        state.call = None
        if call is None or not self.active:
            return
        template, seq = call
        template.counter.open[seq] = now()
        try:
            self.write(
                records.Done(
                    t=now(), group=template.counter.group, device=template.counter.device,
                    seq=seq, peer=template.peer, tag=template.tag,
                    op=template.op if template.stream is None else None,
                    failed=True, error=f"{type(problem).__name__}: {str(problem)[:500]}",
                )
            )  # fmt: skip
        except Exception as ours:
            self.fail(ours, "recording a failed call")

    # -- off the hot path -----------------------------------------------------------------

    def _template(
        self, group: GroupState, reader: Reader, args: tuple[Any, ...],
        place: sites.Place, frame: FrameType | None, state: ThreadState,
    ) -> Template:  # fmt: skip
        scope = state.scope
        if group.name in scope.within:
            return _IGNORED  # part of a call that is recorded
        fields = reader.fields(args, len(group.ranks))
        if not fields.real:
            return _IGNORED
        site, via = sites.resolve(sites.find(frame))
        if site is None:
            site, via = scopes.backward.site
        by_engine = scope.api is None and (frame is None or id(frame.f_code) == _ENGINE)
        role = self._role(scope, fields, state, by_engine=by_engine)
        owner = scope.owner() if scope.owner is not None and role != USER else None
        model = 0 if owner is None or roles.of(role).in_backward else group.owner(owner)
        # A function that is not patched (isend), or was imported by name before that.
        api = scope.api or (sites.public_function(frame) if role == USER else None)
        if fields.op in ops.POINT_TO_POINT:
            # The operator does not say; send() and recv() wait for the Work themselves.
            fields.is_async = api not in ops.of(fields.op).waits_in
        peer = group.global_rank(fields.peer)
        call = Call(
            seq=0, group=group.name, device=fields.device, op=fields.op, dtype=fields.dtype,
            shape=fields.shape, out_shape=fields.out_shape, reduce_op=fields.reduce_op,
            root=group.global_rank(fields.root), peer=peer, tag=fields.tag, splits=fields.splits,
            async_=fields.is_async or None, role=role, model=model + 1 if model else None,
            api=api if api != fields.op else None, site=site, via=via, thread=state.label or None,
        )  # fmt: skip
        me = group.ranks[group.self_rank]
        counter: Progress
        if fields.op in ops.POINT_TO_POINT and peer is not None:
            between = ops.ends(fields.op, me, peer)
            counter = group.channel(fields.device, *between, fields.tag or 0)
        else:
            counter = group.stream(fields.device)
        return Template(call, counter, fields, sites.codes(place), group.self_rank)

    def _role(self, scope: Scope, fields: Fields, state: ThreadState, *, by_engine: bool) -> str:
        role = scope.role
        if role is not None and roles.of(role).is_family:
            # Between its named parts DDP's C++ broadcasts the new order of its buckets.
            is_rebuild = scope.api is None and fields.op == "broadcast"
            return "ddp.forward.rebuild_buckets" if is_rebuild else USER
        if role == "ddp.forward.notify_join" and not fields.is_async:
            # Join.notify_join_context's second call, under throw_on_early_termination.
            return "ddp.forward.terminate_check"
        if role is not None:
            return role
        if by_engine and (scopes.backward or state.name.startswith(NATIVE)):
            is_map = fields.dtype == "int32" and fields.op == "all_reduce"
            return "ddp.backward.unused_params" if is_map else "ddp.backward.bucket"
        if self.hook_role is not None and state.name.startswith(NATIVE):
            return self.hook_role
        return USER

    def adopt(self, pg: Any) -> GroupState | None:
        """Know a group that was created behind the tracer's back; None if it is not this rank's."""
        if self.book.is_elsewhere():
            return None
        name = self.book.name_of(groups.c10d_name(pg))
        record = groups.describe(pg, name, ordinal=self.book.asked)
        self.write(record)
        return self.book.adopt(pg, record)

    def checkpoint(self) -> None:
        """Write where every stream stands."""
        self.writer.next_checkpoint = self.writer.total + CHECKPOINT_EVERY
        self.writer.write(self.checkpoint_line())

    def checkpoint_line(self) -> bytes:
        """A ``checkpoint`` line."""
        states = list(self.book.states.values())
        return records.encode(
            records.Checkpoint(
                t=now(),
                streams=[s.row() for g in states for s in list(g.streams.values())],
                channels=[c.row() for g in states for c in list(g.channels.values())],
                dropped=self.writer.dropped,
                rotated=self.writer.rotated,
            )
        )

    def write(self, record: records.Record) -> None:
        """Write any other record."""
        if self.book.is_elsewhere():
            return
        with self.lock:
            t = now()
            if not record.t:
                record.t = t
            self.writer.write(records.encode(record))
            self.ns += now() - t

    def completed(self, call: Issued) -> None:
        """A call is known to be complete."""
        call[0].counter.complete(call[1])

    def backward_over(self) -> None:
        """A backward returned normally: DDP has waited for its buckets."""
        if self.book.is_elsewhere():
            return
        buckets, self.buckets = self.buckets, []
        for call in buckets:
            self.completed(call)

    def fail(self, problem: BaseException, doing: str) -> None:
        """Count an internal failure; warn of the first; after too many, go silent.

        What a signal handler raised is none: it goes on to where the program awaits it.
        """
        if is_users(problem):
            raise problem
        self.failures += 1
        if self.failures == 1:
            log.warning(
                "collectrace: internal failure while %s: %s: %s. Training goes on untouched.",
                doing, type(problem).__name__, problem,
            )  # fmt: skip
        if self.failures >= self._max_failures:
            self.active = False
            with contextlib.suppress(Exception):  # it may be writing that fails
                self.write(
                    records.Exit(
                        reason="disabled", error=type(problem).__name__, message=str(problem)[:500],
                        calls=self.calls, ns=self.ns, bytes=self.writer.total,
                        dropped=self.writer.dropped, failures=self.failures,
                    )
                )  # fmt: skip

    def _void(
        self, reader: Reader, args: tuple[Any, ...], t: int, problem: Exception
    ) -> Issued | None:
        """A call that could not be described still has its place in the stream."""
        self.fail(problem, f"recording {reader.row.op}")
        try:
            group = self.book.states[reader.group(args)]
            stream = group.stream(reader.device(args))
            fields = Fields(reader.row.op, stream.device)
            call = Call(seq=0, group=group.name, device=stream.device, op=fields.op, void=True)
            template = Template(call, stream, fields, None, group.self_rank)
            return self._number(template, t, self._state.state)
        except Exception:
            return None


_IGNORED: Final = Template(
    Call(seq=0, group="", device="", op=""), Progress("", ""), Fields("", ""), None, 0
)
