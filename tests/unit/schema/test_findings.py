"""The format of the findings, held against what the aligner's report for programs really says."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any, get_args

import jsonschema
import pytest

from collectrace import findings, schema
from collectrace.findings import Alignment
from collectrace.report import machine
from collectrace.schema import formats
from tests.support import alignments, kind_examples
from tests.support.judging import aligned

OWN = [name for name in schema.FINDINGS.parts if name != "call"]
SAMPLES = [
    alignments.join_with_barrier,
    alignments.all_agree,
    alignments.missing_call,
    alignments.not_enough,
    alignments.nested_consequences,
    alignments.with_decisions,
]


@cache
def the_schema() -> Any:
    return schema.json_schema(schema.FINDINGS)


@cache
def validator() -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(the_schema())


@cache
def strict() -> jsonschema.Draft202012Validator:
    """The same, and no field besides those that it names."""
    closed = copy.deepcopy(the_schema())
    for part in closed["$defs"].values():
        part["additionalProperties"] = False
    return jsonschema.Draft202012Validator(closed)


def errors(answer: Any) -> list[str]:
    return [problem.message for problem in strict().iter_errors(answer)]


def answer(alignment: Alignment) -> Any:
    return json.loads(machine.dumps(alignment))


def test_it_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(the_schema())
    assert json.loads(schema.dumps(schema.FINDINGS)) == the_schema()
    assert the_schema()["$id"] == "urn:collectrace:findings:1"


@pytest.mark.parametrize("sample", SAMPLES)
def test_it_names_all_that_a_made_up_answer_holds(sample: Callable[[], Alignment]) -> None:
    assert errors(answer(sample())) == []


@pytest.mark.parametrize("kind", kind_examples.KINDS)
def test_it_names_all_that_is_said_of_a_run(kind: str, tmp_path: Path) -> None:
    assert errors(answer(aligned(kind_examples.KINDS[kind](), tmp_path))) == []


def objects(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where in an answer objects stand, those of rank files left out."""
    inside = value.items() if isinstance(value, dict) else enumerate(value)
    found = [path] if isinstance(value, dict) else []
    for key, item in inside:
        if isinstance(item, dict | list) and not (isinstance(item, dict) and "kind" in item
                                                  and item["kind"] == "call"):  # fmt: skip
            found += objects(item, (*path, key))
    return found


def at(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


def test_every_field_must_be_there_and_have_its_type() -> None:
    whole = answer(alignments.join_with_barrier())
    explained = answer(alignments.explained())["findings"][0]
    own = {"code", "fixes", "decisions", "evidence", "excerpt", "stacks"}
    whole["findings"][0] |= {name: explained[name] for name in own}
    whole["evidence"] |= answer(alignments.agreed_from_different_lines())["evidence"]
    whole["evidence"] |= answer(alignments.with_a_blind_spot())["evidence"]
    failed = answer(alignments.with_an_internal_error())
    whole |= {name: failed[name] for name in ("job", "internal_errors")}
    seen = set()
    left_out = {
        "other_lines", "blind_spots", "job", "internal_errors", "values", "read_later", "code",
        "fixes", "decisions", "excerpt", "sites", "says", "callers", "callers_of", "library",
        "stacks",
    }  # fmt: skip
    for path in objects(whole):
        if "values" in path:  # of the program's names
            continue
        # A finding's own evidence may be left out, the answer's may not.
        for name in at(whole, path).keys() - left_out - ({"evidence"} if path else set()):
            lacks, wrong = copy.deepcopy(whole), copy.deepcopy(whole)
            del at(lacks, path)[name]
            at(wrong, path)[name] = {"of": "another type"}
            assert not validator().is_valid(lacks), (path, name)
            assert not validator().is_valid(wrong), (path, name)
            seen.add(name)
    items = [item for part in OWN for item in formats.items(schema.FINDINGS.parts[part])]
    assert seen == {item.name for item in items if item.required}


def test_only_what_was_not_recorded_may_be_left_out() -> None:
    left_out = [
        (name, item.name)
        for name in OWN
        for item in formats.items(schema.FINDINGS.parts[name])
        if not item.required
    ]
    assert left_out == [
        ("alignment", "strict"),
        ("alignment", "job"),
        ("alignment", "internal_errors"),
        ("finding", "repeats"),
        ("finding", "parted"),
        ("finding", "decisions"),
        ("finding", "code"),
        ("finding", "fixes"),
        ("finding", "evidence"),
        ("finding", "excerpt"),
        ("finding", "stacks"),
        ("side", "stack"),
        ("side", "site"),
        ("decision", "library"),
        ("decision", "read_later"),
        ("decision", "comes_from"),
        ("decision_side", "name"),
        ("decision_side", "line"),
        ("decision_side", "values"),
        ("evidence_row", "sites"),
        ("evidence_row", "says"),
        ("excerpt", "library"),
        ("excerpt", "callers"),
        ("excerpt", "callers_of"),
        ("evidence", "other_lines"),
        ("evidence", "blind_spots"),
        ("evidence", "imported"),
        ("evidence", "other_runs"),
    ]


def test_a_later_field_is_no_error_and_another_word_is_one() -> None:
    whole = answer(alignments.all_agree())
    assert validator().is_valid(whole | {"of a later version": 1})
    assert not validator().is_valid(whole | {"status": "fine"})


def test_every_part_is_referred_to() -> None:
    referred = set(re.findall(r'"#/\$defs/(\w+)"', json.dumps(the_schema())))
    assert referred == set(schema.FINDINGS.parts)


@pytest.mark.parametrize("part", OWN)
def test_every_field_says_what_it_is(part: str) -> None:
    cls = schema.FINDINGS.parts[part]
    told = {item.name: item.doc for item in formats.items(cls)}
    written = {field.name for field in fields(cls) if field.metadata != findings.UNTOLD}
    assert written <= set(told)
    assert all(told.values())


def test_every_kind_is_explained() -> None:
    printed = schema.describe(schema.FINDINGS).partition("\n\nkinds\n")[2]
    assert [line.split()[0] for line in printed.splitlines()] == list(get_args(findings.Kind))
    told = the_schema()["$defs"]["finding"]["properties"]["kind"]["oneOf"]
    assert [one["const"] for one in told] == list(get_args(findings.Kind))
    assert all(one["description"] for one in told)


def test_people_are_told_every_part_and_field() -> None:
    printed = schema.describe(schema.FINDINGS)
    for part in OWN:
        section = printed.partition(f"\n\n{part}\n")[2].partition("\n\n")[0]
        shown = {line.split()[0].lstrip("*") for line in section.splitlines() if line.strip()}
        assert {item.name for item in formats.items(schema.FINDINGS.parts[part])} <= shown
    assert "``" not in printed
    assert all(len(line) <= 100 and line == line.rstrip() for line in printed.splitlines())
