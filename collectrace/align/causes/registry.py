"""Causes by their codes, and the order in which they are tried."""

from __future__ import annotations

import graphlib
from collections.abc import Mapping
from functools import cache
from typing import Final

from collectrace.align.causes.cause import ALL, Cause
from collectrace.align.causes.rows import COVERED, USED
from collectrace.findings import Kind


def _retired(code: str, name: str, successor: str) -> Cause:
    reason = f"{successor} covers it."
    return Cause(code, name, reason, ALL, status="retired", reason=reason)


CAUSES: Final[tuple[Cause, ...]] = (
    *USED,
    *(_retired(*one, by) for by, those in COVERED.items() for one in those.items()),
)
"""All causes: those in use by code, then the retired ones."""

BY_CODE: Final[Mapping[str, Cause]] = {cause.code: cause for cause in CAUSES}


def observed(kind: Kind) -> str:
    """Return the code of an observation that is not an error."""
    return next(one.code for one in CAUSES if one.is_observed and kind in one.kinds)


@cache
def order() -> tuple[Cause, ...]:
    """Return the causes in use, in order of precedence.

    Raises:
        graphlib.CycleError: causes yield to each other in a cycle.

    """
    graph = {one.code: winners(one) for one in CAUSES if one.status != "retired"}
    return tuple(BY_CODE[code] for code in graphlib.TopologicalSorter(graph).static_order())


def winners(cause: Cause) -> tuple[str, ...]:
    """Return the codes that take precedence over a cause."""
    return tuple(
        other.code
        for other in CAUSES
        if other.status != "retired"
        and other.code != cause.code
        and other.code.startswith(cause.yields_to)
    )
