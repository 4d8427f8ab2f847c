"""The table of the public formats, as the dataclasses define them."""

from __future__ import annotations

import ast
import inspect
import textwrap
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any, Final, Literal, NamedTuple

from collectrace import findings, records
from collectrace.records import Activity, Call, FrameValues, KernelWait, Record


class Item(NamedTuple):
    """One field of a JSON object."""

    name: str
    """Its key."""

    doc: str
    """What it means; empty: its name says it."""

    hint: Any
    """Its type, as Python annotates it."""

    required: bool
    """Whether it is always there. One that is not is left out where it is None, never null."""


class Glossary(NamedTuple):
    """The values of a field, and what each means."""

    name: str
    """What they are, in the plural."""

    hint: Any
    """The Literal that lists them."""

    meanings: Mapping[str, str]
    """One line by value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A format: the objects in it, and what a reader must know of them."""

    name: str
    """What people call it; ``urn:collectrace:`` and this, with hyphens, is its schema's id."""

    title: str
    """What its schema describes."""

    version: int
    """Goes up when a field changes its meaning, and not when one is added."""

    about: str
    """What it is, its history and conventions: the docstring of the module that defines it."""

    legend: str
    """How to read the list of its fields."""

    root: Mapping[str, Any]
    """The JSON Schema of a document, which refers to ``parts`` by their names."""

    parts: Mapping[str, type[Any]]
    """Every object in it, by name, in the order of the text."""

    known: frozenset[str] = frozenset()
    """Fields that the legend explains once for all parts."""

    glossaries: tuple[Glossary, ...] = ()
    """Lists of values that are explained one by one."""

    def glossary(self, hint: Any) -> Glossary | None:
        """Return the glossary of a type's values; None: they are only listed."""
        return next((one for one in self.glossaries if one.hint == hint), None)

    def name_of(self, cls: type[Any]) -> str | None:
        """Return the name of the part that a class defines; None: it is not a part."""
        return next((name for name, part in self.parts.items() if part is cls), None)


def items(cls: type[Any]) -> Iterator[Item]:
    """Return the fields of an object, in the order in which they are written."""
    if issubclass(cls, Record):
        yield Item("kind", "", Literal[cls.kind], True)
    if cls is findings.Alignment:
        yield Item("format", "Version of this format.", Literal[findings.FORMAT], True)
    docs = _docstrings(cls)
    hints = typing.get_type_hints(cls)
    for field in fields(cls):
        if field.metadata == findings.UNTOLD:
            continue
        if issubclass(cls, Record | Activity | FrameValues | KernelWait):
            required = records.is_required(field)
        else:
            required = field.metadata != findings.LEFT_OUT
        doc = field.metadata.get("doc") or docs.get(field.name, "")
        yield Item(records.json_name(field.name), plain(doc), hints[field.name], required)


def _docstrings(cls: type[Any]) -> dict[str, str]:
    """Return the string below each field, read from the source: Python does not keep it."""
    (node,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    assert isinstance(node, ast.ClassDef)
    return {
        field.target.id: " ".join(below.value.value.split())
        for field, below in pairwise(node.body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(below, ast.Expr)
        and isinstance(below.value, ast.Constant)
        and isinstance(below.value.value, str)
    }


def first_line(cls: type[Any]) -> str:
    """Return the first line of a class's docstring."""
    return plain((cls.__doc__ or "").partition("\n")[0])


def plain(text: str) -> str:
    """Return a docstring without its double backticks."""
    return text.replace("``", "`")


def arms(hint: Any) -> list[Any]:
    """Return the types of a union, without None; of anything else the type itself."""
    union = typing.get_origin(hint) in (types.UnionType, typing.Union)
    every = typing.get_args(hint) if union else (hint,)
    return [arm for arm in every if arm is not types.NoneType]


def may_be_none(hint: Any) -> bool:
    """Return whether None is one of a union's types."""
    return types.NoneType in typing.get_args(hint)


RANK_FILE: Final = Format(
    name="rank file",
    title="A line of a collectrace rank file",
    version=records.FORMAT,
    about=records.__doc__ or "",
    legend="Every line has a `kind`, and `t`, when it was written in ns of the monotonic clock. A "
    "field marked * is in every line of its kind; the others are left out where they do not "
    "apply. [T] is a list of T, {T} a map from names to T.",
    root={
        "type": "object",
        "required": ["kind"],
        "properties": {"kind": {"type": "string"}},
        "oneOf": [
            *({"$ref": f"#/$defs/{kind}"} for kind in records.KINDS),
            {
                "description": "a kind of a later version: readers skip it",
                "not": {"properties": {"kind": {"enum": list(records.KINDS)}}},
            },
        ],
    },
    parts={
        **records.KINDS,
        "activity": Activity,
        "frame_values": FrameValues,
        "kernel_wait": KernelWait,
    },
    known=frozenset({"t"}),
)

FINDINGS: Final = Format(
    name="findings",
    title="The findings of collectrace",
    version=findings.FORMAT,
    about=findings.__doc__ or "",
    legend="The object is an alignment. A field marked * is always there, null where it may be "
    "and has no value; the others are left out where they do not apply. [T] is a list of T. A "
    "call is the line of a rank file.",
    root={"$ref": "#/$defs/alignment"},
    parts={
        "alignment": findings.Alignment,
        "finding": findings.Finding,
        "group": findings.GroupInfo,
        "side": findings.Side,
        "decision": findings.Decision,
        "decision_side": findings.DecisionSide,
        "evidence_row": findings.EvidenceRow,
        "excerpt": findings.Excerpt,
        "excerpt_line": findings.ExcerptLine,
        "rank_stack": findings.RankStack,
        "table": findings.Table,
        "row": findings.TableRow,
        "source": findings.SourceLine,
        "rank": findings.RankState,
        "evidence": findings.Evidence,
        "job": findings.Job,
        "other_lines": findings.OtherLines,
        "line": findings.LineOfRanks,
        "blind_spot": findings.BlindSpot,
        "internal_error": findings.InternalError,
        "call": Call,
    },
    glossaries=(
        Glossary(
            "kinds", findings.Kind, {kind: row.meaning for kind, row in findings.KINDS.items()}
        ),
    ),
)
