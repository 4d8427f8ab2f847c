"""Values records: the latest of each thread and reason is kept, and no hostile log keeps more."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from collectrace.align.reading.run_reader import read
from collectrace.records import ASKED, STALLED, Exit, FrameValues, Values
from tests.support.synthetic import Run


def values(thread: str, reason: str, **held: Any) -> Values:
    function = FrameValues(frame="/job/train.py:7 main", first_line=3, values=held)
    return Values(reason=reason, thread=thread, functions=[function])


def line(**fields: Any) -> bytes:
    function = {"frame": "a.py:1 f", "first_line": 1, "values": {}}
    record = {"kind": "values", "t": 5, "reason": STALLED, "thread": "MainThread"}
    return json.dumps({**record, "functions": [function], **fields}).encode() + b"\n"


@pytest.mark.parametrize("small", [0, 1 << 30])
def test_the_latest_record_of_each_thread_and_reason_is_kept(tmp_path: Path, small: int) -> None:
    run = Run(1)
    rank = run.rank(0)
    for step in range(3):
        rank.call("all_reduce")
        rank.record(
            values("MainThread", STALLED, step=step, loss={"type": "float", "value": "nan"})
        )
        rank.record(values("evaluator", STALLED, step=-step))
    rank.record(values("MainThread", ASKED, step=7))
    rank.record(Exit(reason="finished"))
    found = read(run.write(tmp_path), small=small).logs[0].values
    told = {key: record.functions[0].values["step"] for key, record in found.items()}
    assert told == {
        ("MainThread", STALLED): 2, ("evaluator", STALLED): -2, ("MainThread", ASKED): 7,
    }  # fmt: skip
    function = found["MainThread", STALLED].functions[0]  # type: ignore[index]
    assert (function.frame, function.first_line) == ("/job/train.py:7 main", 3)
    assert function.values["loss"] == {"type": "float", "value": "nan"}


def test_a_hostile_log_fills_no_memory(tmp_path: Path) -> None:
    run = Run(1)
    rank = run.rank(0)
    for number in range(1000):
        rank.record(values(f"thread {number}", STALLED, step=number))
    rank.record(values("large", STALLED, text={"type": "str", "value": "x" * 200_000}))
    found = read(run.write(tmp_path), small=1 << 30).logs[0].values
    assert len(found) == 64
    assert ("large", STALLED) not in found
    assert ("thread 999", STALLED) in found


NO_VALUES: Final[tuple[Any, ...]] = (
    [], {"a": "text"}, {"a": [1]}, {"a": {}}, {"a": {"type": 3}},
    {"a": {"type": "T", "value": [1]}}, {"a": {"type": "T", "shape": 3}},
    {"a": {"type": "T", "shape": ["x"]}},
    {"a": {"type": "T", "shape": {"a": 1}}}, {"a": {"type": "T", "more": {"deep": 1}}},
)  # fmt: skip


@pytest.mark.parametrize(
    "functions",
    [[3], ["x"], {"a": 1}, [{"frame": "a.py:1 f"}],
     *([{"frame": "a.py:1 f", "first_line": 1, "values": held}] for held in NO_VALUES)],
)  # fmt: skip
def test_a_line_of_another_form_is_damaged(tmp_path: Path, functions: Any) -> None:
    run = Run(1)
    run.rank(0).raw(line(functions=functions))
    run.rank(0).exit()
    log = read(run.write(tmp_path)).logs[0]
    assert (log.damaged, dict(log.values)) == (1, {})


def test_fields_of_a_later_version_are_no_damage(tmp_path: Path) -> None:
    run = Run(1)
    held: dict[str, Any] = {"a": {"type": "T", "new": "x", "shape": [1, 2]}, "b": None, "c": 1.5}
    function = {"frame": "a.py:1 f", "first_line": 1, "values": held, "new": [[]]}
    run.rank(0).raw(line(functions=[function], new={"a": []}))
    run.rank(0).exit()
    log = read(run.write(tmp_path)).logs[0]
    assert log.damaged == 0
    assert log.values["MainThread", STALLED].functions[0].values == held  # type: ignore[index]
