"""Wrappers of a DataLoader's fetch and of a DistributedSampler's epoch."""

from __future__ import annotations

from typing import Any

from collectrace import records
from collectrace.tracer.guard import Wrapper, contained
from collectrace.tracer.record import scopes, sites
from collectrace.tracer.record.groups import Ordinals
from collectrace.tracer.record.recorder import Recorder
from collectrace.tracer.record.scopes import local, now
from collectrace.tracer.session import Session
from collectrace.tracer.user_objects import ByObject


def next_batch(session: Session) -> Wrapper:
    """Wrap ``next()`` of a DataLoader's iterator: record how long the rank waited for data."""
    loaders = Ordinals()
    passes = ByObject[int]()
    """The batches fetched so far, by iterator. An iterator is one pass."""

    def wrapper(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        recorder = session.recorder
        if recorder is None:
            return wrapped(*args, **kwargs)
        inside, began = local.state.scope.inside_what("batch"), now()
        ended = False
        try:
            return scopes.within(inside, wrapped, args, kwargs, began)
        except StopIteration:
            ended = True
            raise
        except BaseException as problem:
            recorder.left_by(problem, "batch")
            raise
        finally:
            write(recorder, instance, now() - began, ended=ended)

    def write(recorder: Recorder, iterator: Any, wait: int, *, ended: bool) -> None:
        with contained(recorder.count_beside, "recording a batch"):
            fetched = (passes.get(iterator) or 0) + (not ended)
            passes[iterator] = fetched
            first = fetched == 1 and not ended
            recorder.write(
                records.Batch(
                    loader=loaders.of(iterator),
                    batch=fetched,
                    wait=wait,
                    end=ended or None,
                    length=_length(iterator) if first else None,
                    site=sites.here(2)[0] if first or ended else None,
                )
            )

    return wrapper


def _length(iterator: Any) -> int | None:
    try:
        return len(iterator)
    except TypeError:
        return None  # an iterable dataset


def set_epoch(session: Session) -> Wrapper:
    """Wrap ``DistributedSampler.set_epoch``: record the sampler's new epoch."""

    def wrapper(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        result = wrapped(*args, **kwargs)
        _write_epoch(session, instance, was_set=True)
        return result

    return wrapper


def sampler_pass(session: Session) -> Wrapper:
    """Wrap ``DistributedSampler.__iter__``: record the epoch of a pass."""

    def wrapper(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        _write_epoch(session, instance, was_set=False)
        return wrapped(*args, **kwargs)

    return wrapper


_samplers = Ordinals()


def _write_epoch(session: Session, sampler: Any, *, was_set: bool) -> None:
    recorder = session.recorder
    if recorder is None:
        return
    with contained(recorder.count_beside, "recording an epoch"):
        recorder.write(
            records.Epoch(
                epoch=int(sampler.epoch),
                set=was_set,
                shuffle=bool(sampler.shuffle),
                sampler=_samplers.of(sampler),
                site=sites.here(2)[0],
            )
        )
