"""Wrappers that write a record of their own, or know more than a name.

Like those of ``scoping`` each takes the session it belongs to. What fails inside a wrapper is
the tracer's failure: it is counted, and the user's call goes on.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from torch.nn.parallel import DistributedDataParallel

from collectrace import records
from collectrace.tracer.guard import Wrapper
from collectrace.tracer.patches.patching import wrap
from collectrace.tracer.record import scopes, sites
from collectrace.tracer.record.groups import Ordinals
from collectrace.tracer.record.recorder import Recorder
from collectrace.tracer.record.scopes import local, now
from collectrace.tracer.session import Session


@contextmanager
def _guarded(recorder: Recorder, doing: str) -> Iterator[None]:
    try:
        yield
    except Exception as problem:
        recorder.count_failure(problem, doing)


# -- works ----------------------------------------------------------------------------------


def work_wait(session: Session) -> Wrapper:
    """``Work.wait``: what the thread waits for, and that it is complete."""

    def wrapper(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        recorder = session.recorder
        if recorder is None:
            return wrapped(*args, **kwargs)
        state = local.state
        if state.call is not None:
            # Inside a synchronous API, whose scope knows it already.
            return wrapped(*args, **kwargs)
        recorder.works.waited_for(instance)
        call = recorder.works.call_of(instance)
        if call is None:
            return wrapped(*args, **kwargs)
        template, seq = call
        state.wait = (template, seq, now())
        try:
            result = wrapped(*args, **kwargs)
        except BaseException as problem:
            recorder.raised(call, problem)
            raise
        finally:
            state.wait = None
        # wait() on a device only orders streams: there the watchdog's question decides.
        if template.counter.device == "cpu":
            recorder.completed(call)
            recorder.works.done(call)
        return result

    return wrapper


def counts_as_wait(session: Session) -> Wrapper:
    """A method of Work by which one waits in another way: its future, or a stream of a device."""

    def wrapper(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        recorder = session.recorder
        if recorder is not None:
            recorder.works.waited_for(instance)
        return wrapped(*args, **kwargs)

    return wrapper


def is_completed(session: Session) -> Wrapper:
    """``Work.is_completed``: who has heard that it is need not wait."""

    def wrapper(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        result = wrapped(*args, **kwargs)
        recorder = session.recorder
        if result and recorder is not None:
            recorder.works.waited_for(instance)
        return result

    return wrapper


# -- DDP ------------------------------------------------------------------------------------


def ddp_forward(session: Session) -> Wrapper:
    """The part of DDP's forward before the module's own: counts iterations."""
    forwards: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()

    def count(instance: Any) -> int:
        forwards[instance] = n = forwards.get(instance, 0) + 1
        return n

    def wrapper(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        recorder = session.recorder
        if recorder is None or recorder.book.is_other_rank():
            return wrapped(*args, **kwargs)
        recorder.iteration = count(instance)
        scope = local.state.scope.inside_role("ddp.forward", instance)
        return scopes.within(scope, wrapped, args, kwargs)

    return wrapper


def register_comm_hook(session: Session) -> Wrapper:
    """A comm hook stands in for the reducer: what it issues is a gradient bucket."""

    def wrapper(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        def traced(hook: Any, _: Any, hook_args: Any, hook_kwargs: Any) -> Any:
            recorder = session.recorder
            if recorder is None:
                return hook(*hook_args, **hook_kwargs)
            scope = local.state.scope.inside_role("ddp.backward.bucket", instance)
            recorder.hook_role = scope.role
            return scopes.within(scope, hook, hook_args, hook_kwargs)

        if "hook" in kwargs and callable(kwargs["hook"]):
            kwargs = {**kwargs, "hook": wrap(None, kwargs["hook"], traced, session.count_failure)}
        elif len(args) > 1 and callable(args[1]):
            args = (args[0], wrap(None, args[1], traced, session.count_failure), *args[2:])
        return wrapped(*args, **kwargs)

    return wrapper


def no_sync(session: Session) -> Wrapper:
    """``DDP.no_sync()``: where gradients are kept to themselves."""

    @contextmanager
    def traced(inner: AbstractContextManager[Any], site: str | None) -> Iterator[Any]:
        def tell(phase: str) -> None:
            recorder = session.recorder
            if recorder is not None:
                with _guarded(recorder, "recording no_sync()"):
                    recorder.write(records.NoSync(phase=phase, site=site))

        tell("entered")
        try:
            with inner as value:
                yield value
        finally:
            tell("left")

    def wrapper(wrapped: Any, _: Any, args: Any, kwargs: Any) -> Any:
        inner = wrapped(*args, **kwargs)
        if session.recorder is None:
            return inner
        return traced(inner, sites.here()[0])

    return wrapper


# -- join() ---------------------------------------------------------------------------------


def notify_join(session: Session) -> Wrapper:
    """``Join.notify_join_context``, called by the first joinable: DDP, or another."""

    def wrapper(wrapped: Any, _: Any, args: Any, kwargs: Any) -> Any:
        if session.recorder is None:
            return wrapped(*args, **kwargs)
        joinable = args[0] if args else kwargs.get("joinable")
        scope = local.state.scope.inside_role("ddp.forward.notify_join", joinable)
        if not isinstance(joinable, DistributedDataParallel):
            scope = scope.inside_api(f"{type(joinable).__name__}.step")
        return scopes.within(scope, wrapped, args, kwargs)

    return wrapper


def count_nonjoined(session: Session) -> Wrapper:
    """A rank that has joined counts the others: one more iteration that it only shadows."""

    def wrapper(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        recorder = session.recorder
        if recorder is None:
            return wrapped(*args, **kwargs)
        if recorder.iteration:
            recorder.iteration += 1
        scope = local.state.scope.inside_role("join.count_nonjoined", instance._joinables[0])
        return scopes.within(scope, wrapped, args, kwargs)

    return wrapper


def notify_to_terminate(session: Session) -> Wrapper:
    """A rank that has joined tells the others to stop."""

    def wrapper(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        if session.recorder is None:
            return wrapped(*args, **kwargs)
        # In the name of the first joinable, as the others' side of it is.
        scope = local.state.scope.inside_role("join.terminate", instance._joinables[0])
        return scopes.within(scope, wrapped, args, kwargs)

    return wrapper


def join_enter(session: Session) -> Wrapper:
    """``with model.join():`` begins."""

    def wrapper(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        _tell_join(session, instance, "entered")
        return wrapped(*args, **kwargs)

    return wrapper


def join_exit(session: Session) -> Wrapper:
    """A rank ran out of inputs, and later all of them have."""

    def wrapper(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        raised = bool(args and args[0])
        _tell_join(session, instance, "left" if raised else "joined")
        result = wrapped(*args, **kwargs)
        if not raised:
            _tell_join(session, instance, "left")
        return result

    return wrapper


def _tell_join(session: Session, join: Any, phase: str) -> None:
    recorder = session.recorder
    if recorder is None or not getattr(join, "_enable", True):
        return
    with _guarded(recorder, "recording join()"):
        group = recorder.book.states.get(join._process_group)
        recorder.write(
            records.Join(
                phase=phase,
                group=group.name if group else None,
                joinables=[type(j).__name__ for j in join._joinables],
                throws=bool(join._throw_on_early_termination),
                iteration=recorder.iteration or None,
                site=sites.here(2)[0],
            )
        )


# -- data and devices -----------------------------------------------------------------------


def next_batch(session: Session) -> Wrapper:
    """A fetch from a DataLoader: how long the rank waited for its data."""
    loaders = Ordinals()
    passes: weakref.WeakKeyDictionary[Any, list[int]] = weakref.WeakKeyDictionary()

    def wrapper(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        recorder = session.recorder
        if recorder is None:
            return wrapped(*args, **kwargs)
        state = local.state
        scope = state.scope
        inside, began, before = scope.inside_what("batch"), now(), state.since
        state.scope, state.since = inside, began
        ended = False
        try:
            return wrapped(*args, **kwargs)
        except StopIteration:
            ended = True
            raise
        finally:
            state.scope, state.since = scope, before
            tell(recorder, instance, now() - began, ended=ended)

    def tell(recorder: Recorder, iterator: Any, wait: int, *, ended: bool) -> None:
        with _guarded(recorder, "recording a batch"):
            write(recorder, iterator, wait, ended=ended)

    def write(recorder: Recorder, iterator: Any, wait: int, *, ended: bool) -> None:
        count = passes.setdefault(iterator, [0])
        count[0] += not ended
        first = count[0] == 1 and not ended
        recorder.write(
            records.Batch(
                loader=loaders.of(iterator),
                batch=count[0],
                wait=wait,
                end=ended or None,
                length=_length(iterator) if first else None,
                site=sites.here(3)[0] if first or ended else None,
            )
        )

    return wrapper


def _length(iterator: Any) -> int | None:
    try:
        return len(iterator)
    except TypeError:
        return None  # an iterable dataset


def set_epoch(session: Session) -> Wrapper:
    """``DistributedSampler.set_epoch``."""

    def wrapper(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        result = wrapped(*args, **kwargs)
        _tell_epoch(session, instance, was_set=True)
        return result

    return wrapper


def sampler_pass(session: Session) -> Wrapper:
    """A pass over a DistributedSampler begins, with the epoch that it holds."""

    def wrapper(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        _tell_epoch(session, instance, was_set=False)
        return wrapped(*args, **kwargs)

    return wrapper


_samplers = Ordinals()


def _tell_epoch(session: Session, sampler: Any, *, was_set: bool) -> None:
    recorder = session.recorder
    if recorder is None:
        return
    with _guarded(recorder, "recording an epoch"):
        recorder.write(
            records.Epoch(
                epoch=int(sampler.epoch),
                set=was_set,
                shuffle=bool(sampler.shuffle),
                sampler=_samplers.of(sampler),
                site=sites.here(2)[0],
            )
        )


def synchronize(name: str) -> Callable[[Session], Wrapper]:
    """A device synchronise: the host waits, and for how long."""

    def make(session: Session) -> Wrapper:
        def wrapper(wrapped: Any, _: Any, args: Any, kwargs: Any) -> Any:
            recorder = session.recorder
            if recorder is None:
                return wrapped(*args, **kwargs)
            state = local.state
            scope = state.scope
            inside, began, before = scope.inside_what("sync"), now(), state.since
            state.scope, state.since = inside, began
            try:
                return wrapped(*args, **kwargs)
            finally:
                state.scope, state.since = scope, before
                recorder.write(records.Sync(api=name, wait=now() - began, site=sites.here()[0]))

        return wrapper

    return make
