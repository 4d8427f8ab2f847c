"""The recorder of a run: it writes each issued collective as a numbered line with digests.

Every collective of a job pays for :meth:`Recorder.issue`. Two calls from one line of code on the
same kind of tensors share a :class:`Template` (``make_template``), which is computed once. A call
then costs a key, a look-up, two digests and one write.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, Final

from torch.autograd import graph as autograd_graph

from collectrace import exceptions, records
from collectrace.ops import BARRIERS
from collectrace.signature import BASE, EMPTY, PRIME, extend, retract
from collectrace.tracer.guard import is_users
from collectrace.tracer.record import scopes, sites
from collectrace.tracer.record.make_template import Origin, make_template, void_template
from collectrace.tracer.record.models import Models
from collectrace.tracer.record.run_record import MAX_TEXT, RunRecord
from collectrace.tracer.record.scopes import Scope, ThreadState, now
from collectrace.tracer.record.sources import Sources
from collectrace.tracer.record.template import IGNORED, Issued, Template
from collectrace.tracer.record.works import Works
from collectrace.tracer.record.writer import Writer
from collectrace.tracer.tap.arguments import ArgumentReader
from collectrace.tracer.user_objects import is_a, traceback_of, type_name
from collectrace.tracer.user_text import plain_text, safe_text, thread_name

_exc_info = sys.exc_info  # a module variable: one look-up less for each call

_ENGINE: Final = id(autograd_graph._engine_run_backward.__code__)
"""Code of the Python function that calls autograd's engine in C++ (torch/autograd/graph.py, torch
2.13). A collective with this as its innermost Python frame comes from DDP's reducer."""

_MAX_TEMPLATES: Final = 20_000
"""Templates kept per group. A job with shapes that never repeat reaches it, and starts over."""

_MAX_BUCKETS: Final = 10_000
"""Gradient buckets remembered until a backward ends. Further ones are followed by their Works."""

_MOST_RAISED: Final = 100
"""``raised`` records per run: a program may live with exceptions."""

_MOST_OUTSIDE: Final = 64
"""Lines whose calls outside of their group are recorded."""

_AT_ONCE: Final = 5_000_000_000
"""ns within which an operator raises if it rejects its arguments."""


class Recorder(RunRecord):
    """Records one run of this process: numbers its calls and writes them.

    Implements :class:`collectrace.tracer.tap.wire.OnIssue`. Nothing here raises, except what a
    signal handler of the program raises meanwhile.
    """

    __slots__ = ("buckets", "iteration", "last_t")  # read by offset in _native.c

    def __init__(
        self, writer: Writer, max_failures: int, *, sources: Sources | None = None
    ) -> None:
        super().__init__(writer, max_failures, sources=sources)
        self.iteration = 0
        """Ordinal of the current step, in the unit ``unit``; 0: none so far. If DDP forwards are
        the unit, those that join() shadows count."""
        self.unit: str | None = None
        """The unit of ``iteration``, one of ``records.UNITS``; None: nothing was counted so far."""
        self.models = Models()
        self.rounds: dict[sites.Place, int] = {}
        """How often the first joinable gave notice since join() was entered, by the place in the
        user's code that called it."""
        self.last_t = 0
        """When the last call was issued, ns; 0: none was."""
        self.works = Works()
        self.buckets: list[Issued] = []
        """Gradient buckets of the current backward, which are complete when it returns."""
        self.hook_role: str | None = None
        """The role of the comm hook that ran last. The callbacks of its futures run on C++ threads,
        which have no scope."""
        self._left_by = 0
        """The number of ``raised`` records written."""
        self._outside: set[tuple[str, str | None]] = set()
        """The function and the line of each call outside of its group."""
        self._noted: tuple[int, int, int] | None = None
        """The exception recorded last: its id, the id of its type, and the time of the last call
        before it. Another object may get the same id later."""
        self._handled: tuple[int, int, int] | None = None
        """The same for the exception that was being handled when the last call was issued."""
        # Used for every call: here each costs one attribute look-up less.
        self._local = scopes.local
        self._groups = self.book.states

    # -- the hot path ---------------------------------------------------------------------

    def issue(self, reader: ArgumentReader, args: tuple[Any, ...], above: int = 1) -> Issued | None:
        """Record a call that is about to be issued.

        ``args`` are the operator's, as ``reader`` reads them. ``above`` counts the tracer's frames
        between this one and the innermost other one.

        Returns the argument for :meth:`issued` or :meth:`raised`. None: call neither, because the
        call is not recorded, or it is synchronous and the wrapper of its public function sees its
        end.
        """
        if not self.active:
            return None
        t = now()
        try:
            pg = reader.unbox(args[reader.group_index])
            state = self._local.state
            group = self._groups.get(pg)
            if group is None:
                group = self.adopt(pg)
                if group is None:
                    return None
            scope: Scope = state.scope
            is_bare = scope.api is None  # no patched public function is on the stack
            # Where a public function was called, the walk to the user's code begins at its caller:
            # all frames below that are torch's.
            frame = (None if is_bare else state.caller) or sys._getframe(above).f_back
            place = sites.find(frame, state)
            from_autograd = is_bare and (frame is None or id(frame.f_code) == _ENGINE)
            reduce_op, state.reduce_op = state.reduce_op, None
            if from_autograd and reader.is_all_reduce:
                # DDP's reducer always gives the same ReduceOp. Any object but None stands for it
                # in the key, and it is not asked what it is on every call.
                reduce_op = reader
                if group.owners.several:
                    scope = scope.inside_backward(self.models.in_backward())
            key = (
                reader, scope, place, from_autograd, state.label, reader.key(args, reduce_op)
            )  # fmt: skip
            template = group.templates.get(key)
            if template is None:
                frame = sys._getframe(above).f_back
                origin = Origin(
                    state, scope, frame, sites.find(frame, state), from_autograd,
                    self.hook_role, self.stacks,
                )  # fmt: skip
                template = make_template(group, reader, args, origin)
                if len(group.templates) >= _MAX_TEMPLATES:
                    group.templates.clear()
                group.templates[key] = template
            if template is IGNORED:
                return None
            handled = _exc_info()[1]
            if handled is not None:
                self._handles(handled, t)
            call = self._number(template, t, state, args)
            return call if is_bare or template.is_async or template.on_device else None
        except Exception as problem:
            return self._void(reader, args, t, problem)

    def _number(
        self, template: Template, t: int, state: ThreadState, args: tuple[Any, ...]
    ) -> Issued:
        """Give a call its number, extend the digests of its stream, and write its line.

        A signal handler may issue a call in the middle of this, because the lock is reentrant.
        Python runs handlers after any call, and even within a multiplication of large numbers
        (CPython, Objects/longobject.c, x_mul). So everything that depends on the number is computed
        first. It is stored only if the number is still free; otherwise it is computed again.
        Between that comparison and the last assignment nothing is called, so no handler runs.
        """
        # Not acquire(): a handler may raise right after it, and the lock would stay held.
        with self.lock:
            previous = state.call
            if previous is not None and previous[0].counter.group not in state.scope.within:
                # It was synchronous, and this thread has moved on.
                self.completed(previous)
            writer = self.writer
            if writer.fd < 0:
                # Before the stream moves on: a new segment begins with a checkpoint, which is to
                # say where the streams stood before this call.
                writer.recover()
            counter, stream = template.counter, template.stream
            iteration = self.iteration
            while True:
                before = counter.seq
                seq = before + 1
                if stream is None:  # point-to-point: no digests
                    line = b'{"kind":"call","t":%d,"seq":%d%b%b}\n' % (
                        t, seq, template.body, b',"iteration":%d' % iteration if iteration else b"",
                    )  # fmt: skip
                    if counter.seq == before:
                        counter.seq = seq
                        break
                    continue
                # signature.extend, written out: two calls less.
                digest = (stream.digest * BASE + template.wire_step) % PRIME
                program = (stream.program * BASE + template.program_step) % PRIME
                # There are none before a stream's first all_to_all; from it on every call has its
                # share, which is 0 for any other op.
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
            state.given = args
            call = state.call = (template, seq)
            state.call_t = self.last_t = t
            self.calls += 1
            self.ns += now() - t
        return call

    def issued(self, call: Issued, result: Any, args: tuple[Any, ...] = ()) -> None:
        """Follow a call that the backend accepted.

        ``result`` is what its operator returned for ``args``: the Work, alone or after the tensors.
        """
        if not self.followed(call):
            self.follow_up(call, result, args)

    def follow_up(self, call: Issued, result: Any, args: tuple[Any, ...]) -> None:
        """Follow the Work of a call that :meth:`followed` does not follow."""
        try:
            template, seq = call
            t = self._local.state.call_t
            work = result[-1] if isinstance(result, tuple) else result
            if work is not None:
                message = args[0][0] if template.stream is None and args else None
                self.works.hold(template, seq, work, t, message)
            if template.outputs is not None:
                self.works.expect(call, template.outputs(args))
        except Exception as problem:
            self.count_failure(problem, "following a call up")

    def followed(self, call: Issued) -> bool:
        """Note that the backend has accepted a call; return whether its Work is not needed.

        That is so for a gradient bucket on the CPU: it is complete when the backward returns.
        """
        try:
            template, seq = call
            state = self._local.state
            template.counter.open[seq] = state.call_t
            state.call, state.given, state.issued = None, None, call
            if template.is_bucket and not template.on_device and len(self.buckets) < _MAX_BUCKETS:
                self.buckets.append(call)
                return True
        except Exception as problem:
            self.count_failure(problem, "following a call up")
        return False

    def not_taken(
        self, reader: ArgumentReader, args: tuple[Any, ...], call: Issued | None,
        problem: BaseException,
    ) -> None:  # fmt: skip
        """Handle an operator that raised ``problem``, before or after it sent something.

        ``call``: what :meth:`issue` returned. If it is None, the call may be synchronous: then the
        state of its thread has it.
        """
        try:
            state = self._local.state
            if call is None:
                call, group = state.call, self._groups.get(reader.unbox(args[reader.group_index]))
                if call is None or group is None or state.scope.within:
                    return  # it is not recorded
                if call[0].counter.group != group.name:
                    return
            refused = now() - state.call_t < _AT_ONCE and _is_refusal(call, problem)
            self.raised(call, problem, refused=refused)
        except Exception as ours:
            self.count_failure(ours, "following a call that raised")

    def _take_back(self, call: Issued) -> bool:
        """Take back the number of the stream's latest call; return False if a later call exists.

        As in :meth:`_number`, nothing is called between the comparison and the last assignment.
        """
        template, seq = call
        counter, stream = template.counter, template.stream
        with self.lock:
            if stream is None:
                if counter.seq != seq:
                    return False
                counter.seq = seq - 1
                return True
            digest = retract(stream.digest, template.wire_step)
            program = retract(stream.program, template.program_step)
            pairs = stream.pairs
            if pairs is not None:
                # EMPTY: it was the stream's first all_to_all.
                pairs = retract(pairs, template.pair_step or 0) or None
            if counter.seq != seq:
                return False
            counter.seq = seq - 1
            stream.digest, stream.program, stream.pairs = digest, program, pairs
            return True

    def raised(self, call: Issued, problem: BaseException, *, refused: bool = False) -> None:
        """Record that a call, or the wait for it, raised ``problem``.

        ``refused``: its operator rejected its arguments, and nothing reached a peer. Then its line
        stays, and the next call gets its number.
        """
        state = self._local.state
        given, state.call, state.given, state.wait = state.given, None, None, None
        if not self.active:
            return
        self._noted = id(problem), id(type(problem)), self.last_t
        template, seq = call
        refused = refused and self._take_back(call)
        if not refused:
            template.counter.open[seq] = now()
        try:
            self.write(
                records.Done(
                    t=now(), group=template.counter.group, device=template.counter.device,
                    seq=seq, peer=template.peer, tag=template.tag,
                    op=template.op if template.stream is None else None,
                    failed=True, refused=refused or None,
                    error=f"{type_name(problem)}: {plain_text(problem, MAX_TEXT)}",
                )
            )  # fmt: skip
            if not refused:
                self.works.left_undone(given)
        except Exception as ours:
            self.count_failure(ours, "recording a failed call")

    def _handles(self, problem: BaseException, t: int) -> None:
        """Record once that a call is issued while an exception is handled.

        An ``except`` or ``finally`` block, or the exit of a ``with``, handles it.
        """
        before, self._handled = self._handled, (id(problem), id(type(problem)), t)
        if before != (id(problem), id(type(problem)), self.last_t):
            self.left_by(problem, records.HANDLED, t)

    def left_by(self, problem: BaseException, what: str, t: int = 0) -> None:
        """Record that an exception leaves ``what``, a function that makes calls.

        Only the first ones are recorded, and each once. ``t``: the time, ns; 0: now.
        """
        try:
            mark = id(problem), id(type(problem)), self.last_t
            if mark == self._noted or self._left_by >= _MOST_RAISED or not self.active:
                return
            self._noted = mark
            self._left_by += 1
            # Where it ends a thread, Python prints it.
            is_last = what in (records.THREAD, records.OTHER_THREAD)
            text = (safe_text if is_last else plain_text)(problem, MAX_TEXT)
            self.write(
                records.Raised(
                    t=t, what=what, error=type_name(problem),
                    thread=self._thread(what),
                    message=text,
                    site=sites.of_traceback(traceback_of(problem), self._local.state.caller),
                )
            )  # fmt: skip
        except Exception as ours:
            self.count_beside(ours, "recording an exception")

    def outside(self, name: str, caller: FrameType | None) -> None:
        """Record that torch ignored a call, as this rank is not in the group that was passed."""
        site, _ = sites.resolve(sites.find(caller))
        mark = name, site
        if mark in self._outside or len(self._outside) >= _MOST_OUTSIDE or not self.active:
            return
        self._outside.add(mark)
        self.write(records.Outside(op=name, site=site, thread=self._local.state.label or None))
        if self.sources is not None and site is not None:
            self.sources.ask([site])

    def _thread(self, what: str) -> str | None:
        """Return the name of the calling thread; None: the main one, or no call made it known."""
        if what == records.OTHER_THREAD:
            return thread_name(threading.current_thread())
        return self._local.state.label or None

    def waits_for(self, tensor: Any) -> Issued | None:
        """Return the call that ``wait_tensor`` waits for with this tensor; None: it is unknown."""
        try:
            call = self.works.expected(tensor)
            if call is not None:
                self._local.state.wait = (*call, now())
        except Exception as problem:
            self.count_failure(problem, "following a wait")
            return None
        return call

    def waited(self, call: Issued) -> None:
        """Note the end of the wait that :meth:`waits_for` began."""
        try:
            self._local.state.wait = None
            # On a device it only orders streams.
            if not call[0].on_device:
                self.completed(call)
                self.works.release(call)
        except Exception as problem:
            self.count_beside(problem, "following a wait")

    # -- off the hot path -----------------------------------------------------------------

    def counts(self, unit: str) -> bool:
        """Return whether ``iteration`` counts this unit from now on, unless it has a better one.

        A unit that replaces another one begins with 0.
        """
        if unit == self.unit:
            return True
        order = records.UNITS
        if self.unit is not None and order.index(self.unit) < order.index(unit):
            return False
        is_told = self.unit is not None or unit != records.DDP_FORWARD
        self.unit, self.iteration = unit, 0
        if is_told:
            self.write(records.Unit(of=unit))
        return True

    def completed(self, call: Issued) -> None:
        """Note that a call is complete."""
        call[0].counter.complete(call[1])

    def answered_by(self, call: Issued, work: Any) -> None:
        """Record the sender of a message that a completed receive from any source took.

        Its Work has the sender's rank in the group, if the backend supports that
        (``Work::sourceRank``, torch/csrc/distributed/c10d/Work.cpp; torch 2.13).
        """
        try:
            rank = work._source_rank()
            group = self.book.named(call[0].counter.group)
            source = group.global_rank(rank) if group is not None else None
        except Exception as problem:
            if is_users(problem):
                raise
            return
        if source is not None:
            self.answered(call, source)

    def answered(self, call: Issued, source: int) -> None:
        """Record the global rank of the sender that a receive from any source met; -1: unknown."""
        if not self.active:
            return
        try:
            template, seq = call
            if source < 0:
                return
            self.write(
                records.Answer(
                    group=template.counter.group, device=template.counter.device, seq=seq,
                    tag=template.tag or 0, source=source,
                )
            )  # fmt: skip
        except Exception as problem:
            self.count_failure(problem, "recording whose message was taken")

    def forward_begins(self, module: Any) -> None:
        """Count a forward that a DDP module begins, or that a joined rank shadows."""
        self.counts(records.DDP_FORWARD)
        self.iteration = self.models.forward_begins(module)

    def backward_over(self) -> None:
        """Complete the buckets of a backward that returned without an exception."""
        if self.book.is_other_rank():
            return
        buckets, self.buckets = self.buckets, []
        for call in buckets:
            self.completed(call)

    def refuse_calls(self, problem: Callable[[], BaseException]) -> None:
        """Make every later call raise the exception that this returns, and record none.

        Another function replaces :meth:`issue`, so the hot path does not check for it.
        """

        def refuse(*_: Any) -> Issued | None:
            raise problem()

        self.issue = refuse  # type: ignore[method-assign, assignment]

    def _void(
        self, reader: ArgumentReader, args: tuple[Any, ...], t: int, problem: Exception
    ) -> Issued | None:
        """Record a call that could not be described: it keeps its place in the stream.

        If even that fails, the streams lack a call from here on, and the record ends.
        """
        if is_users(problem):
            raise problem
        try:
            group = self.book.states[reader.group(args)]
            call = self._number(void_template(group, reader, args), t, self._local.state, args)
        except Exception:
            call = None
        self.count_failure(problem, f"recording {reader.row.op}")
        if call is None and self.active:
            self.give_up(problem)
        return call


def _is_refusal(call: Issued, problem: BaseException) -> bool:
    """Return whether an operator that raised at once rejected its arguments.

    An operator that waits inside, such as a barrier, does not count. Neither does an exception
    about peers, because the first collective of a group may connect to them.
    """
    return (
        is_a(problem, Exception)
        and call[0].op not in BARRIERS
        and not exceptions.blames_peers(type_name(problem), plain_text(problem))
    )
