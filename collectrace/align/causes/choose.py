"""Find the cause of a finding: the first one in order that applies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from collectrace.align.causes import registry
from collectrace.align.causes.cause import Cause
from collectrace.align.causes.situation import Situation


class Found(NamedTuple):
    """A cause that applies, and the data that it found."""

    cause: Cause
    data: object


def applying(situation: Situation) -> Iterator[Found]:
    """Yield the causes that apply, in order of precedence."""
    for cause in registry.order():
        data = cause.find(situation)
        if data is not None:
            yield Found(cause, data)


def cause_of(situation: Situation) -> Found | None:
    """Return the cause with precedence; None if none applies."""
    return next(applying(situation), None)
