"""Wrappers that notice communication of torch without its dispatcher, which is not recorded."""

from __future__ import annotations

from typing import Any

from collectrace.tracer.guard import Wrapper
from collectrace.tracer.life import blind_spots
from collectrace.tracer.session import Session

_begun: dict[int, int] = {}
"""The number of calls before the capture of a CUDA graph began, by the graph's id."""


def capture_begin(session: Session) -> Wrapper:
    """Wrap ``CUDAGraph.capture_begin``: remember how many calls came before it."""

    def wrapper(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        if session.recorder is not None:
            _begun[id(instance)] = session.recorder.calls
        return wrapped(*args, **kwargs)

    return wrapper


def capture_end(session: Session) -> Wrapper:
    """Wrap ``CUDAGraph.capture_end``: a graph with captured collectives is a blind spot."""

    def wrapper(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        before = _begun.pop(id(instance), None)
        if session.recorder is not None and before is not None and session.recorder.calls > before:
            blind_spots.notice(blind_spots.CUDA_GRAPH)
        return wrapped(*args, **kwargs)

    return wrapper


def symmetric_memory(session: Session) -> Wrapper:
    """Wrap a function that gives a rank access to other ranks' memory."""

    def wrapper(wrapped: Any, _: Any, args: Any, kwargs: Any) -> Any:
        if session.recorder is not None:
            blind_spots.notice(blind_spots.SYMMETRIC_MEMORY)
        return wrapped(*args, **kwargs)

    return wrapper
