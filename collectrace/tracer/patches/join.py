"""Wrappers of ``Join``, and so of DDP's ``join()`` (torch/distributed/algorithms/join.py, 2.13).

A rank that has run out of inputs has *joined*. Until all have joined, it shadows the collectives
of the ranks that still train.
"""

from __future__ import annotations

import sys
from typing import Any

from torch.nn.parallel import DistributedDataParallel

from collectrace import records
from collectrace.tracer.guard import Wrapper, contained
from collectrace.tracer.record import scopes, sites
from collectrace.tracer.record.scopes import local
from collectrace.tracer.session import Session
from collectrace.tracer.user_objects import type_name


def notify_join(session: Session) -> Wrapper:
    """Wrap ``notify_join_context``: a rank that trains notifies the ranks that have joined.

    The first joinable calls it: DDP in its forward, or another one in its ``step()``.
    """

    def wrapper(wrapped: Any, _: Any, args: Any, kwargs: Any) -> Any:
        recorder = session.recorder
        if recorder is None or recorder.book.is_other_rank():
            return wrapped(*args, **kwargs)
        joinable = args[0] if args else kwargs.get("joinable")
        config = getattr(joinable, "_join_config", None)
        if config is not None and config.enable and config.is_first_joinable:
            place = sites.find(sys._getframe(1))
            recorder.rounds[place] = recorder.rounds.get(place, 0) + 1
        scope = local.state.scope.inside_role("ddp.forward.notify_join", joinable)
        if not isinstance(joinable, DistributedDataParallel):
            scope = scope.inside_api(f"{type_name(joinable)}.step")
        return scopes.within(scope, wrapped, args, kwargs)

    return wrapper


def count_nonjoined(session: Session) -> Wrapper:
    """Wrap ``_get_num_nonjoined_procs``: a rank that has joined checks if another still trains.

    If so, this call meets the beginning of the other's next forward, and has the same iteration.
    """

    def wrapper(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        recorder = session.recorder
        if recorder is None:
            return wrapped(*args, **kwargs)
        first, before = instance._joinables[0], recorder.iteration
        if isinstance(first, DistributedDataParallel):
            recorder.iteration = recorder.models.forwards(first) + 1
        scope = local.state.scope.inside_role("join.count_nonjoined", first)
        try:
            return scopes.within(scope, wrapped, args, kwargs)
        finally:
            recorder.iteration = before

    return wrapper


def ddp_main_hook(session: Session) -> Wrapper:
    """Wrap ``_DDPJoinHook.main_hook``: a rank that has joined shadows one iteration of a module."""

    def wrapper(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        recorder = session.recorder
        if recorder is None or recorder.book.is_other_rank():
            return wrapped(*args, **kwargs)
        recorder.forward_begins(instance.ddp)
        scope = local.state.scope.inside_role("join", instance.ddp)
        return scopes.within(scope, wrapped, args, kwargs)

    return wrapper


def notify_to_terminate(session: Session) -> Wrapper:
    """Wrap ``_notify_procs_to_terminate``: a rank that has joined makes the others stop."""

    def wrapper(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        if session.recorder is None:
            return wrapped(*args, **kwargs)
        # The first joinable owns it, as it owns the calls of other ranks that meet it.
        scope = local.state.scope.inside_role("join.terminate", instance._joinables[0])
        return scopes.within(scope, wrapped, args, kwargs)

    return wrapper


def join_enter(session: Session) -> Wrapper:
    """Wrap ``__enter__``: record that the context is entered."""

    def wrapper(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        if session.recorder is not None:
            session.recorder.rounds.clear()
        _write_join(session, instance, "entered")
        return wrapped(*args, **kwargs)

    return wrapper


def join_exit(session: Session) -> Wrapper:
    """Wrap ``__exit__``, which is called when this rank has joined, and returns when all have.

    After an exception it returns at once.
    """

    def wrapper(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        raised = bool(args and args[0])
        _write_join(session, instance, "left" if raised else "joined")
        if session.recorder is None or raised:
            return wrapped(*args, **kwargs)
        scope = local.state.scope.inside_role("join", None)
        result = scopes.within(scope, wrapped, args, kwargs)
        _write_join(session, instance, "left")
        return result

    return wrapper


def _write_join(session: Session, join: Any, phase: str) -> None:
    recorder = session.recorder
    if recorder is None or not getattr(join, "_enable", True):
        return
    with contained(recorder.count_failure, "recording join()"):
        group = recorder.book.states.get(join._process_group)
        recorder.write(
            records.Join(
                phase=phase,
                group=group.name if group else None,
                joinables=[type_name(j) for j in join._joinables],
                throws=bool(join._throw_on_early_termination),
                iteration=recorder.iteration or None,
                rounds=list(recorder.rounds.values()),
                site=sites.here(2)[0],
            )
        )
