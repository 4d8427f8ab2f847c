"""The printed format, held against lines as they are written."""

from __future__ import annotations

import json
import typing
from collections.abc import Sequence
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from collectrace import schema
from collectrace.errors import DamagedRecord
from collectrace.records import (
    KINDS,
    Activity,
    FrameValues,
    KernelWait,
    Record,
    encode,
    from_dict,
    is_required,
    json_name,
    to_dict,
)
from tests.support.synthetic import Run


@cache
def validator() -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(schema.json_schema())


EXAMPLES: dict[Any, Any] = {
    int: 7,
    int | None: 7,
    float: 2.5,
    str: "x",
    str | None: "x",
    bool: True,
    bool | None: True,
    list[int]: [0, 1],
    Sequence[int]: [0, 1],
    list[int] | None: [0, 1],
    list[str]: ["x"],
    list[str] | None: ["x"],
    list[Any]: [1, "x", None],
    list[list[Any]]: [["0", "cpu", 3, 1, 2, None]],
    list[list[int]] | None: [[1, 2], [3, 4]],
    list[int] | list[list[int]] | None: [[2, 3], [4]],
    str | list[str] | None: ["float32", "int8"],
    dict[str, str]: {"a": "b"},
    dict[str, list[str]]: {"MainThread": ["train.py:1"]},
    list[FrameValues]: [
        FrameValues(
            frame="train.py:7 main",
            first_line=3,
            values={"step": 3, "lr": 0.1, "best": None, "x": {"type": "list", "len": 2}},
        )
    ],
    list[KernelWait] | None: [
        KernelWait(
            thread="MainThread (7)",
            pid=7,
            name="python",
            state="S",
            call="flock",
            wchan="do_wait",
            file="/a",
            peer="10.0.0.1:29500",
            others=[8],
            child=9,
            lock=True,
            holder=10,
        )
    ],
    list[Activity]: [Activity(thread="MainThread", what="call", since=5, seq=3)],
}


def example(cls: type[Record], *, whole: bool) -> Record:
    hints = typing.get_type_hints(cls)
    values = {f.name: EXAMPLES[hints[f.name]] for f in fields(cls) if whole or is_required(f)}
    return cls(**values)


def errors(line: dict[str, Any]) -> list[str]:
    return [problem.message for problem in validator().iter_errors(line)]


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(schema.json_schema())
    assert json.loads(schema.dumps()) == schema.json_schema()


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_it_takes_every_kind_of_line(kind: str, *, whole: bool) -> None:
    assert errors(json.loads(encode(example(KINDS[kind], whole=whole)))) == []


@pytest.mark.parametrize("kind", KINDS)
def test_it_takes_no_line_without_a_required_field(kind: str) -> None:
    line = json.loads(encode(example(KINDS[kind], whole=True)))
    for field in fields(KINDS[kind]):
        if is_required(field):
            name = json_name(field.name)
            assert errors({key: line[key] for key in line if key != name})


@pytest.mark.parametrize("kind", KINDS)
def test_it_takes_no_field_of_another_type(kind: str) -> None:
    line = json.loads(encode(example(KINDS[kind], whole=True)))
    for name in line:
        if name != "kind":
            wrong = {"of": "another type"} if not isinstance(line[name], dict) else 3
            assert errors(line | {name: wrong}), name


@pytest.mark.parametrize("item", [None, 3])
def test_no_list_of_texts_holds_anything_else(item: int | None) -> None:
    for kind, cls in KINDS.items():
        hints = typing.get_type_hints(cls)
        for f in fields(cls):
            if hints[f.name] in (list[str], list[str] | None):
                line = {**to_dict(example(cls, whole=True)), json_name(f.name): [item]}
                assert errors(line), (kind, f.name)
                with pytest.raises(DamagedRecord):
                    from_dict(line)


@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [("call", "splits", [[1, 2], 3]), ("header", "heartbeat", 1e308), ("header", "wall", 0.5)],
)
def test_what_nobody_could_compute_with_is_damage(kind: str, field: str, value: object) -> None:
    line = to_dict(example(KINDS[kind], whole=True))
    assert from_dict(line) is not None
    with pytest.raises(DamagedRecord):
        from_dict({**line, field: value})


def test_later_kinds_and_fields_are_no_errors() -> None:
    assert errors({"kind": "of a later version", "x": 1}) == []
    assert errors({"kind": "sync", "api": "a", "wait": 1, "of a later version": 1}) == []


def test_it_takes_a_whole_run(tmp_path: Path) -> None:
    run = Run(world=2)
    for rank in run:
        rank.call("all_reduce", shape=[4], site="train.py:10")
        rank.beat(20.0, rank.inside(rank.call("barrier")))
        rank.exit()
    lines = [
        json.loads(line)
        for file in run.write(tmp_path).iterdir()
        for line in file.read_bytes().splitlines()
    ]
    assert {line["kind"] for line in lines} >= {"header", "group", "call", "alive", "exit"}
    assert [errors(line) for line in lines if errors(line)] == []


def test_people_are_told_every_kind_and_field() -> None:
    printed = schema.describe()
    for kind, cls in KINDS.items():
        section = printed.partition(f"\n\n{kind}\n")[2].partition("\n\n")[0]
        shown = {line.split()[0].lstrip("*") for line in section.splitlines() if line.strip()}
        assert {json_name(f.name) for f in fields(cls)} - {"t"} <= shown
    assert all(len(line) <= 100 and line == line.rstrip() for line in printed.splitlines())
