"""Visits that a rank made to a place before a row: calls in a row that it made from there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby

from collectrace.align.reading.evidence import LOOK_BACK
from collectrace.records import Call


def before(
    calls: Sequence[Call | None], is_there: Callable[[Call], bool]
) -> list[list[Call | None]]:
    """Each visit, the latest first, with its calls in that order.

    Without the first one where there may be more calls than were looked at: of that it is not known
    where it began.

    Args:
        calls: those of the rows before, as :meth:`Case.before` has them.
        is_there: whether a call was made from the place.

    """
    runs = groupby(reversed(calls), lambda call: call is not None and is_there(call))
    found = [list(run) for is_visit, run in runs if is_visit]
    return found[:-1] if len(calls) == LOOK_BACK else found
