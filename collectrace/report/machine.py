"""The answer as one JSON object, for programs.

Its fields are those of the dataclasses in :mod:`collectrace.findings`, in their order: a contract
that :mod:`collectrace.schema` prints from the same place.
"""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from typing import Any, TextIO

from collectrace.findings import FORMAT, LEFT_OUT, UNTOLD, Alignment
from collectrace.records import Call, to_dict


def write(alignment: Alignment, out: TextIO) -> None:
    """One JSON object and a newline, in ASCII: whatever a log says, any stream can take it."""
    out.write(dumps(alignment))


def dumps(alignment: Alignment) -> str:
    """What :func:`write` writes."""
    return as_json(as_dict(alignment))


def as_json(value: Any) -> str:
    """Plain values, or a dataclass of ours, as JSON and a newline."""
    return json.dumps(_plain(value), indent=1) + "\n"


def as_dict(alignment: Alignment) -> dict[str, Any]:
    """The whole answer in plain values."""
    return {"format": FORMAT, **_plain(alignment)}


def _plain(value: Any) -> Any:
    if isinstance(value, Call):
        return to_dict(value)
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if is_dataclass(value):
        named = ((field, getattr(value, field.name)) for field in fields(value))
        return {
            field.name: _plain(item)
            for field, item in named
            if field.metadata != UNTOLD and (item is not None or field.metadata != LEFT_OUT)
        }
    return value
