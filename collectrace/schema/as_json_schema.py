"""A format for programs: JSON Schema, draft 2020-12.

It allows fields that it does not name, as readers must: new ones do not make a new version.
"""

from __future__ import annotations

import json
import typing
from collections.abc import Sequence
from typing import Any, Final, Literal

from collectrace.schema.formats import RANK_FILE, Format, Item, arms, first_line, items, may_be_none

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

_TYPES: Final[dict[type, str]] = {
    int: "integer",
    float: "number",
    str: "string",
    bool: "boolean",
    list: "array",
    tuple: "array",
    Sequence: "array",
    dict: "object",
}


def dumps(form: Format = RANK_FILE) -> str:
    """Return the schema as text."""
    return json.dumps(json_schema(form), indent=2) + "\n"


def json_schema(form: Format = RANK_FILE) -> dict[str, Any]:
    """Return the schema of a document: a line of a rank file, or an object of findings."""
    return {
        "$schema": _DIALECT,
        "$id": f"urn:collectrace:{form.name.replace(' ', '-')}:{form.version}",
        "title": f"{form.title}, format {form.version}",
        **form.root,
        "$defs": {name: _object(form, cls) for name, cls in form.parts.items()},
    }


def _object(form: Format, cls: type[Any]) -> dict[str, Any]:
    every = list(items(cls))
    return {
        "description": first_line(cls),
        "type": "object",
        "properties": {item.name: _property(form, item) for item in every},
        "required": [item.name for item in every if item.required],
    }


def _property(form: Format, item: Item) -> dict[str, Any]:
    schema = {"description": item.doc} if item.doc else {}
    return schema | _type(form, item.hint, null=item.required)


def _type(form: Format, hint: Any, *, null: bool = True) -> dict[str, Any]:
    """The schema of an annotation; ``null``: whether a None in it is written as null."""
    kinds = [_plain_type(form, arm) for arm in arms(hint)]
    if null and may_be_none(hint):
        kinds.append({"type": "null"})
    return kinds[0] if len(kinds) == 1 else {"anyOf": kinds}


def _plain_type(form: Format, hint: Any) -> dict[str, Any]:
    """Return the schema of an annotation that is not a union."""
    if hint is Any:
        return {}
    part = form.name_of(hint)
    if part is not None:
        return {"$ref": f"#/$defs/{part}"}
    glossary = form.glossary(hint)
    if glossary is not None:
        told = glossary.meanings.items()
        return {"oneOf": [{"const": value, "description": meaning} for value, meaning in told]}
    origin, inside = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return {"const": inside[0]} if len(inside) == 1 else {"enum": list(inside)}
    schema: dict[str, Any] = {"type": _TYPES[origin or hint]}
    if schema["type"] == "array" and inside:
        schema["items"] = _type(form, inside[0])
    elif schema["type"] == "object" and inside:
        schema["additionalProperties"] = _type(form, inside[1])
    return schema
