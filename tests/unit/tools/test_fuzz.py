"""Harmed logs: no answer is wrong; and the fuzzer notices answers that are."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from collectrace.findings import Alignment
from tools.fuzz_parts import answers, inputs, samples
from tools.fuzz_parts.answers import Answer, Harm
from tools.fuzz_parts.log import Log

ROOT = Path(__file__).parents[3]


def fuzz(*args: object) -> None:
    command = [sys.executable, str(ROOT / "tools" / "fuzz.py"), *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_harmed_log_gets_a_wrong_answer() -> None:
    fuzz("--count", 1000)


def test_no_log_that_is_cut_gets_a_wrong_answer() -> None:
    fuzz("--cuts", 167)


@pytest.mark.slow
def test_no_harmed_log_of_many_gets_a_wrong_answer() -> None:
    fuzz("--count", 6000, "--seed", 1, "--jobs", 2)


@pytest.mark.slow
def test_no_log_that_is_cut_at_any_byte_gets_a_wrong_answer() -> None:
    fuzz("--cuts", "--jobs", 2)


def test_an_input_is_the_same_each_time() -> None:
    for n in range(30):
        one = inputs.make(7, n)
        assert one == inputs.make(7, n)
        assert inputs.harmed(one)[0].files == inputs.harmed(one)[0].files


# -- what counts as wrong ----------------------------------------------------------------------

DIFFERENT = "made/reduce op"
HEALTHY = "made/training"
FILE = "run-1/rank00001.jsonl"


def lost_line(sample: str, at: int = 8) -> tuple[Log, Harm]:
    """A sample of which rank 1 has lost the line of a call."""
    files = samples.load(sample).files
    lines = files[FILE].splitlines(keepends=True)
    assert b'"kind":"call"' in lines[at]
    log = Log({**files, FILE: b"".join([*lines[:at], *lines[at + 1 :]])})
    return log, answers.harm(files, log)


def judged(sample: str, done: Harm, **other: Any) -> str | None:
    """What is wrong if an answer about a harmed sample is the one before, with other fields."""
    base = inputs.baseline(sample)
    assert base.alignment is not None
    found = Answer(replace(base.alignment, **other))
    return answers.failure(base, samples.load(sample).guilty, done, found)


def test_lost_lines_and_changed_ones_are_told_apart() -> None:
    files = samples.load(HEALTHY).files
    assert answers.harm(files, Log(files)) == Harm()
    _, done = lost_line(HEALTHY)
    assert (done.lost, done.told, done.killed) == ({1}, set(), set())

    def changed(old: bytes, new: bytes) -> Harm:
        assert old in files[FILE]
        log = Log({**files, FILE: files[FILE].replace(old, new, 1)})
        return answers.harm(files, log)

    assert changed(b'"reduce_op":"SUM"', b'"reduce_op":"MAX"').told == set()
    assert changed(b'"site":"train.py:12"', b'"site":"train.py:14"').told == {1}
    assert changed(b'"ranks":[0,1,2]', b'"ranks":[0,1]').told == {0, 1}
    cut = Log({**files, FILE: files[FILE][: files[FILE].index(b'{"kind":"exit"')]})
    assert answers.harm(files, cut).killed == {1}


def test_wrong_answers_are_failures() -> None:
    _, done = lost_line(DIFFERENT)
    before: Alignment | None = inputs.baseline(DIFFERENT).alignment
    assert before is not None
    assert judged(DIFFERENT, done) is None
    aligned = judged(DIFFERENT, done, status="aligned", findings=())
    assert aligned == "aligned: over an error"
    other = replace(before.findings[0], suspects=(2,))
    assert "blame: rank [2]" in str(judged(DIFFERENT, done, findings=(other,)))
    cause = replace(before.findings[0], code="CT302")
    assert (
        judged(DIFFERENT, done, findings=(cause,)) == f"cause: {before.findings[0].code} to CT302"
    )
    weaker = replace(before.findings[0], code="CT106")
    assert judged(DIFFERENT, done, findings=(weaker,)) is None
    none = replace(before.findings[0], kind="shape_mismatch", suspects=())
    assert "without a word" in str(judged(DIFFERENT, done, findings=(none,)))
    _, done = lost_line(HEALTHY)
    error = judged(HEALTHY, done, status="diverged", findings=(none,))
    assert error == f"error: shape_mismatch {none.code} in a healthy run"


def test_another_call_must_not_pass() -> None:
    one = replace(inputs.make(0, 0), sample=HEALTHY, steps=(inputs.Step("another call", 0, 1),))
    log, told = inputs.harmed(one)
    assert log.forged
    assert "with its digests" in told[0]
    done = answers.harm(samples.load(HEALTHY).files, log)
    assert judged(HEALTHY, done) == "aligned: over another call"
    assert inputs.judge(one).failure is None


def test_a_failure_is_made_small(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(path: Path, **_: Any) -> Answer:
        if b'"seq":7,' in (path / FILE).read_bytes():
            raise ZeroDivisionError
        return Answer(None)

    one = replace(
        inputs.make(0, 0), sample=HEALTHY, packing="folder", damage=None,
        steps=tuple(inputs.Step("lines", 1, n) for n in range(3)),
    )  # fmt: skip
    before = inputs.baseline(HEALTHY)
    monkeypatch.setattr(inputs, "answer", fails)
    monkeypatch.setattr(inputs, "baseline", lambda _: before)
    found = inputs.judge(one)
    assert found.failure is not None
    assert found.failure.startswith("traceback: ZeroDivisionError at ")
    small, log = inputs.minimised(one, found.failure)
    assert small.steps == ()
    assert len(log.files[FILE].splitlines()) == 1
    assert log.files["run-1/rank00000.jsonl"] == b""
