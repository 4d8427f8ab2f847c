"""Wrappers of a DataLoader's fetch and of a DistributedSampler's epoch."""

from __future__ import annotations

import weakref
from typing import Any

from collectrace import records
from collectrace.tracer.guard import Wrapper, contained
from collectrace.tracer.record import sites
from collectrace.tracer.record.groups import Ordinals
from collectrace.tracer.record.recorder import Recorder
from collectrace.tracer.record.scopes import local, now
from collectrace.tracer.session import Session


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
        with contained(recorder.count_failure, "recording a batch"):
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
    with contained(recorder.count_failure, "recording an epoch"):
        recorder.write(
            records.Epoch(
                epoch=int(sampler.epoch),
                set=was_set,
                shuffle=bool(sampler.shuffle),
                sampler=_samplers.of(sampler),
                site=sites.here(2)[0],
            )
        )
