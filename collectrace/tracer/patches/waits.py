"""Wrappers of what the host waits in: a Work, its future, a device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from collectrace import records
from collectrace.tracer.guard import Wrapper
from collectrace.tracer.record import sites
from collectrace.tracer.record.scopes import local, now
from collectrace.tracer.session import Session


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
            recorder.works.release(call)
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
