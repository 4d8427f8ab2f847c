"""The report as one JSON object, for programs.

Its fields are those of the dataclasses in :mod:`collectrace.findings`, in their order.
:mod:`collectrace.schema` prints this contract from the same dataclasses.
"""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from typing import Any, TextIO

from collectrace.findings import FORMAT, LEFT_OUT, UNTOLD, Alignment
from collectrace.records import Call, to_dict


def write(alignment: Alignment, out: TextIO) -> None:
    """Write one JSON object and a newline, in ASCII, which every stream can encode."""
    out.write(dumps(alignment))


def dumps(alignment: Alignment) -> str:
    """Return the text that :func:`write` writes."""
    return as_json(as_dict(alignment))


def as_json(value: Any) -> str:
    """Return plain values, or a dataclass of collectrace, as JSON with a newline at its end."""
    return json.dumps(_plain(value), indent=1) + "\n"


def as_dict(alignment: Alignment) -> dict[str, Any]:
    """Return the whole report as plain values."""
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
