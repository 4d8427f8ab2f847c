"""Wrappers of functions in which the host waits for a Work or a device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from collectrace import records
from collectrace.ops import ANY_SOURCE
from collectrace.tracer.guard import Wrapper
from collectrace.tracer.record import scopes, sites
from collectrace.tracer.record.scopes import local, now
from collectrace.tracer.session import Session


def work_wait(session: Session) -> Wrapper:
    """Wrap ``Work.wait``: note which call the thread waits for, and that it completes."""

    def wrapper(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        recorder = session.recorder
        if recorder is None:
            return wrapped(*args, **kwargs)
        state = local.state
        if state.call is not None:
            # Inside the public function that issued the call: its wrapper completes it.
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
        if template.peer == ANY_SOURCE:
            recorder.answered_by(call, instance)
        # On a device, wait() only orders streams, so the watchdog polls the Work.
        if not template.on_device:
            recorder.completed(call)
            recorder.works.release(call)
        return result

    return wrapper


def counts_as_wait(session: Session) -> Wrapper:
    """Wrap another method of Work that waits: through its future, or through a CUDA stream."""

    def wrapper(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        recorder = session.recorder
        if recorder is not None:
            recorder.works.waited_for(instance)
        return wrapped(*args, **kwargs)

    return wrapper


def is_completed(session: Session) -> Wrapper:
    """Wrap ``Work.is_completed``: a program that got True need not wait for the Work."""

    def wrapper(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        result = wrapped(*args, **kwargs)
        recorder = session.recorder
        if result and recorder is not None:
            recorder.works.waited_for(instance)
        return result

    return wrapper


def synchronize(name: str) -> Callable[[Session], Wrapper]:
    """Wrap a function that waits for a device: record how long it took, under this name."""

    def make(session: Session) -> Wrapper:
        def wrapper(wrapped: Any, _: Any, args: Any, kwargs: Any) -> Any:
            recorder = session.recorder
            if recorder is None:
                return wrapped(*args, **kwargs)
            inside, began = local.state.scope.inside_what("sync"), now()
            try:
                return scopes.within(inside, wrapped, args, kwargs, began)
            finally:
                recorder.write(records.Sync(api=name, wait=now() - began, site=sites.here()[0]))

        return wrapper

    return make
