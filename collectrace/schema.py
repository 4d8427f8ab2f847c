"""The format of the rank files, printed from the dataclasses that define it.

For people: every kind of line, its fields, types and units. For programs: JSON Schema. Both allow
what they do not name, as readers must: new kinds and fields do not make a new version.
"""

from __future__ import annotations

import json
import textwrap
import types
import typing
from collections.abc import Iterator
from dataclasses import Field, fields
from typing import Any, Final

from collectrace import records
from collectrace.records import FORMAT, KINDS, Activity, Record

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_WIDTH: Final = 80
_INDENT: Final = 2
_NAME: Final = 12
_TYPE: Final = 12
_ACTIVITY: Final = "activity"

_TYPES: Final[dict[type, str]] = {
    int: "integer",
    float: "number",
    str: "string",
    bool: "boolean",
    list: "array",
    dict: "object",
}


def dumps() -> str:
    """JSON Schema (draft 2020-12) of one line, as text."""
    return json.dumps(json_schema(), indent=2) + "\n"


def json_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of one line."""
    known = {"properties": {"kind": {"enum": list(KINDS)}}}
    return {
        "$schema": _DIALECT,
        "$id": f"urn:collectrace:rank-file:{FORMAT}",
        "title": f"A line of a collectrace rank file, format {FORMAT}",
        "type": "object",
        "required": ["kind"],
        "properties": {"kind": {"type": "string"}},
        "oneOf": [
            *({"$ref": f"#/$defs/{kind}"} for kind in KINDS),
            {"description": "a kind of a later version: readers skip it", "not": known},
        ],
        "$defs": {
            **{kind: _object(cls, kind) for kind, cls in KINDS.items()},
            _ACTIVITY: _object(Activity, None),
        },
    }


def _object(cls: type[Record | Activity], kind: str | None) -> dict[str, Any]:
    properties: dict[str, Any] = {} if kind is None else {"kind": {"const": kind}}
    required = [] if kind is None else ["kind"]
    for name, field, hint in _fields(cls):
        properties[name] = {"description": field.metadata["doc"]} | _type(hint)
        if records.is_required(field):
            required.append(name)
    return {
        "description": _first_line(cls),
        "type": "object",
        "properties": properties,
        "required": required,
    }


def _type(hint: Any) -> dict[str, Any]:
    """The schema of an annotation; that a field may be absent is not said here."""
    arms = [arm for arm in _arms(hint) if arm is not types.NoneType]
    if len(arms) > 1:
        return {"anyOf": [_type(arm) for arm in arms]}
    (plain,) = arms
    if plain is Any:
        return {}
    if plain is Activity:
        return {"$ref": f"#/$defs/{_ACTIVITY}"}
    inside = typing.get_args(plain)
    schema: dict[str, Any] = {"type": _TYPES[typing.get_origin(plain) or plain]}
    if schema["type"] == "array" and inside:
        schema["items"] = _type(inside[0])
    elif schema["type"] == "object" and inside:
        schema["additionalProperties"] = _type(inside[1])
    return schema


def _arms(hint: Any) -> tuple[Any, ...]:
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        return typing.get_args(hint)
    return (hint,)


def _fields(cls: type[Any]) -> Iterator[tuple[str, Field[Any], Any]]:
    hints = typing.get_type_hints(cls)
    for field in fields(cls):
        yield records.json_name(field.name), field, hints[field.name]


def _first_line(cls: type[Any]) -> str:
    return (cls.__doc__ or "").partition("\n")[0].replace("``", "`")


def describe() -> str:
    """The format for people: its history and conventions, then every kind of line."""
    title, _, rest = (records.__doc__ or "").replace("``", "`").partition("\n\n")
    legend = (
        "Every line has a `kind`, and `t`, when it was written in ns of the monotonic clock. A "
        "field marked * is in every line of its kind; the others are left out where they do not "
        "apply. [T] is a list of T, {T} a map from names to T."
    )
    parts = [
        f"collectrace rank file, format {FORMAT}\n\n{title}",
        textwrap.dedent(rest).strip(),
        textwrap.fill(legend, _WIDTH),
        *(_section(kind, cls) for kind, cls in KINDS.items()),
        _section(_ACTIVITY, Activity),
    ]
    return "\n\n".join(parts) + "\n"


def _section(title: str, cls: type[Record | Activity]) -> str:
    lines = [title, *_wrapped(_first_line(cls), " " * _INDENT)]
    for name, field, hint in _fields(cls):
        if name == "t":
            continue
        mark = "*" if records.is_required(field) else " "
        head = f"{' ' * _INDENT}{mark}{name:<{_NAME}} {_words(hint):<{_TYPE}} "
        margin = " " * (_INDENT + 1 + _NAME + 1 + _TYPE + 1)
        if len(head) > len(margin):
            lines.append(head.rstrip())
            head = margin
        lines += _wrapped(field.metadata["doc"], head, margin)
    return "\n".join(lines)


def _wrapped(words: str, head: str, margin: str | None = None) -> list[str]:
    return textwrap.wrap(
        words,
        _WIDTH,
        initial_indent=head,
        subsequent_indent=head if margin is None else margin,
        break_on_hyphens=False,
    )


def _words(hint: Any) -> str:
    """``integer``, ``[string]``, ``string or [string]``."""
    arms = [arm for arm in _arms(hint) if arm is not types.NoneType]
    return " or ".join(_word(arm) for arm in arms)


def _word(arm: Any) -> str:
    inside = typing.get_args(arm)
    if arm is Activity:
        return _ACTIVITY
    if arm is Any:
        return "any"
    if typing.get_origin(arm) is list:
        return f"[{_words(inside[0])}]"
    if typing.get_origin(arm) is dict:
        return f"{{{_words(inside[1])}}}"
    return _TYPES[arm]
