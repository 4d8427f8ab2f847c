"""The JSON that programs rely on."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from collectrace import records, schema
from collectrace.findings import Alignment
from collectrace.report import machine
from tests.support import alignments

FINDING = {
    "kind", "severity", "caused_by", "group", "seq", "sides", "suspects", "headline", "cause",
    "fix", "notes", "table", "sources",
}  # fmt: skip


def loaded(alignment: Alignment) -> Any:
    return json.loads(machine.dumps(alignment))


def test_the_answer_has_the_fields_of_the_contract() -> None:
    answer = loaded(alignments.join_with_barrier())
    assert list(answer) == [
        "format",
        "status",
        "run",
        "world_size",
        "findings",
        "ranks",
        "evidence",
    ]
    assert answer["format"] == 1
    assert answer["status"] == "diverged"
    assert answer["world_size"] == 2
    root, fatal, uneven = answer["findings"]
    assert set(root) == set(fatal) == set(uneven) == FINDING
    assert root["kind"] == "role_mismatch"
    assert root["caused_by"] is None
    assert fatal["caused_by"] == 0
    assert root["group"] == {
        "name": "0", "description": "default_pg", "backend": "cpu:gloo,cuda:gloo", "ranks": [0, 1],
    }  # fmt: skip
    assert root["seq"] == 29
    assert root["suspects"] == [1]
    assert uneven["group"] is None
    assert uneven["seq"] is None


def test_a_side_holds_the_call_record_itself() -> None:
    side = loaded(alignments.join_with_barrier())["findings"][0]["sides"][1]
    assert (side["ranks"], side["state"]) == ([1], "died")
    assert records.from_dict(side["call"]) == alignments.call(29, site="train.py:43")
    jsonschema.validate(side["call"], schema.json_schema())


def test_a_side_without_a_call_says_null() -> None:
    assert loaded(alignments.missing_call())["findings"][0]["sides"][1]["call"] is None


def test_ranks_and_evidence() -> None:
    answer = loaded(alignments.not_enough())
    assert answer["evidence"] == {
        "agreed": 0, "messages": 0, "missing_ranks": [2, 3], "damaged_lines": 1, "dropped": 0,
        "notes": ["rank 0: rotated."],
    }  # fmt: skip
    assert [rank["rank"] for rank in answer["ranks"]] == [0, 1, 2, 3]
    assert set(answer["ranks"][0]) == {
        "rank", "state", "ended", "last_call", "detail", "held",
    }  # fmt: skip
    assert answer["ranks"][0]["last_call"]["seq"] == 77
    assert answer["ranks"][3]["last_call"] is None


def test_the_table_keeps_rows_marks_and_columns() -> None:
    table = loaded(alignments.join_with_barrier())["findings"][0]["table"]
    assert table["columns"] == [[0], [1]]
    assert [row["seq"] for row in table["rows"] if row["mark"]] == [29, 30]
    assert table["rows"][-1]["cells"][0] is None


@pytest.mark.parametrize("sample", [alignments.all_agree, alignments.nested_consequences])
def test_any_stream_can_take_it(sample: Any) -> None:
    assert machine.dumps(sample()).isascii()
    assert machine.dumps(sample()).endswith("}\n")
