"""Events of a timeline as a JSON file that the Perfetto UI opens.

Events are written one by one, so memory does not grow. Times are in microseconds, with three
decimals.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final, TextIO

import orjson

from collectrace.report import text

_TIMES: Final = ("ts", "dur")


def write(head: Mapping[str, object], events: Iterable[Mapping[str, Any]], out: TextIO) -> None:
    """Write the file: ``head`` describes the run, times of ``events`` are in ns."""
    out.write('{"displayTimeUnit":"ms","otherData":')
    out.write(_dumps(_plain(dict(head))))
    out.write(',"traceEvents":[')
    between = "\n"
    for event in events:
        out.write(between)
        out.write(_event(event))
        between = ",\n"
    out.write("\n]}\n")


def _event(event: Mapping[str, Any]) -> str:
    fields = _dumps({k: _plain(v) for k, v in event.items() if k not in _TIMES})
    # As decimal text: a float is too short for the nanoseconds of a long run.
    times = "".join(
        [
            f',"{name}":{event[name] // 1000}.{event[name] % 1000:03d}'
            for name in _TIMES
            if name in event
        ]
    )
    return f"{fields[:-1]}{times}}}"


def _plain(value: Any) -> Any:
    """Return the value with strings made safe to show, and without keys that hold None."""
    if value.__class__ is str:
        return _clean(value)
    if value.__class__ is dict:
        return {
            key: _clean(item) if item.__class__ is str else item
            for key, item in value.items()
            if item is not None
        }
    return value


@lru_cache(maxsize=4096)
def _clean(value: str) -> str:
    return text.clean(value)


def _dumps(value: Any) -> str:
    return orjson.dumps(value).decode()
