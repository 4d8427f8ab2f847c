"""The table of all causes, and the order in which they are tried."""

from __future__ import annotations

import graphlib
from collections.abc import Mapping
from functools import cache
from types import ModuleType
from typing import Final

from collectrace.align.causes.cause import Cause
from collectrace.align.causes.rows import (
    arguments,
    frameworks,
    groups,
    inputs,
    messages,
    models,
    observations,
    programs,
    states,
)
from collectrace.findings import Kind

FILES: Final[Mapping[str, ModuleType]] = {
    "1": programs, "2": inputs, "3": states, "4": arguments, "5": models, "6": groups,
    "7": messages, "8": frameworks, "9": observations,
}  # fmt: skip
"""The files of the rows, by the first digit of their codes."""

CAUSES: Final[tuple[Cause, ...]] = tuple(one for file in FILES.values() for one in file.CAUSES)
"""All causes, by code."""

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
    graph: dict[str, set[str]] = {}
    for cause in CAUSES:
        if cause.status != "retired":
            graph[cause.code] = {code for code in winners(cause) if code != cause.code}
    return tuple(BY_CODE[code] for code in graphlib.TopologicalSorter(graph).static_order())


def winners(cause: Cause) -> tuple[str, ...]:
    """Return the codes that take precedence over a cause."""
    return tuple(
        other.code
        for other in CAUSES
        if other.status != "retired" and other.code.startswith(tuple(cause.yields_to))
    )
