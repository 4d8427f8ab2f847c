"""Wrappers of DistributedDataParallel's forward, comm hook and ``no_sync()``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch

from collectrace import records
from collectrace.tracer.guard import Wrapper, contained
from collectrace.tracer.patches.patching import wrap
from collectrace.tracer.record import scopes, sites
from collectrace.tracer.record.recorder import Recorder
from collectrace.tracer.record.scopes import local
from collectrace.tracer.session import Session


def ddp_forward(session: Session) -> Wrapper:
    """Wrap ``DistributedDataParallel._pre_forward``: count the iterations of each module."""

    def wrapper(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        recorder = session.recorder
        if recorder is None or recorder.book.is_other_rank():
            return wrapped(*args, **kwargs)
        recorder.forward_begins(instance)
        if id(instance) not in session.in_no_sync:
            _note_flag(recorder, instance)
        scope = local.state.scope.inside_role("ddp.forward", instance)
        return scopes.within(scope, wrapped, args, kwargs)

    return wrapper


def _note_flag(recorder: Recorder, model: Any) -> None:
    """Record ``no_sync()`` for a forward with its flag set by hand, as some programs do.

    It is a separate function, so that Dynamo compiles nothing of what it calls.
    """
    with contained(recorder.count_failure, "recording no_sync()"):
        if model.require_backward_grad_sync is False and torch.is_grad_enabled():
            site = sites.here()[0]
            for phase in ("entered", "left"):
                recorder.write(records.NoSync(phase=phase, site=site))


def ddp_module(session: Session) -> Wrapper:
    """Wrap ``_run_ddp_forward``: record an exception of the model, which the program may catch."""

    def wrapper(wrapped: Any, _: Any, args: Any, kwargs: Any) -> Any:
        try:
            return wrapped(*args, **kwargs)
        except Exception as problem:
            if session.recorder is not None:
                session.recorder.left_by(problem, "forward")
            raise

    return wrapper


def register_comm_hook(session: Session) -> Wrapper:
    """Wrap ``register_comm_hook``: calls of the hook are gradient buckets, like the reducer's."""

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
    """Wrap ``no_sync()``: record when a rank enters and leaves it."""

    @contextmanager
    def traced(inner: AbstractContextManager[Any], model: Any, site: str | None) -> Iterator[Any]:
        def write(phase: str) -> None:
            recorder = session.recorder
            if recorder is not None:
                with contained(recorder.count_failure, "recording no_sync()"):
                    recorder.write(records.NoSync(phase=phase, site=site))

        write("entered")
        is_first = id(model) not in session.in_no_sync
        session.in_no_sync.add(id(model))
        try:
            with inner as value:
                yield value
        finally:
            if is_first:
                session.in_no_sync.discard(id(model))
            write("left")

    def wrapper(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        inner = wrapped(*args, **kwargs)
        if session.recorder is None:
            return inner
        return traced(inner, instance, sites.here()[0])

    return wrapper
