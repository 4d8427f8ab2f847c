"""What ranks recorded of the lines that they made calls from, and of what may lead past these."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from collectrace.records import Source

_LONGEST: Final = 400
"""Characters of a line; tracers write 200 of its text. Patterns are searched in it, whose time may
grow with its square."""

_MOST: Final = 400
"""Lines of each kind, the last ones."""


def by_site(recorded: Iterable[Mapping[str, Source]]) -> dict[str, Source]:
    """What ranks have recorded, each by site, as one, without what no tracer writes."""
    return {
        site: replace(
            one,
            lines=_cut(one.lines),
            ways=_cut(one.ways or ()) or None,
            given=_cut(one.given or ()) or None,
        )
        for sources in recorded
        for site, one in sources.items()
    }


def _cut(lines: Sequence[str]) -> list[str]:
    return [line[:_LONGEST] for line in lines[-_MOST:]]
