"""An error inside the aligner costs the part that it is in, and no verdict."""

from __future__ import annotations

import io
import json
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NoReturn

import jsonschema
import pytest

from collectrace import internal, schema
from collectrace.align import align, alignment
from collectrace.align.causes import ct403_other_argument
from collectrace.align.follow import Follower
from collectrace.align.observations import collect, straggler
from collectrace.align.overview import bands
from collectrace.findings import KINDS, Alignment
from collectrace.report import REPORTS
from collectrace.testing import assert_aligned
from tests.support import breaking, kind_examples
from tests.support.synthetic import SECOND, Run

SAMPLES: Final = (
    *(
        pytest.param(kind, marks=pytest.mark.slow)
        for kind in ("swapped_role_mismatch", "deadlock", "early_termination", "split_mismatch")
    ),
    "group_mismatch", "p2p_unmatched", "stall",
)  # fmt: skip
"""Of ``kind_examples``: of each family of findings the smaller runs."""

FRAME: Final = {
    "align/causes/explain.py": {"findings", "_finding", "explained", "<listcomp>", "<dictcomp>"},
    "align/observations/collect.py": {"information", "seen", "<listcomp>"},
    "align/overview/build.py": {"build", "seen"},
}
"""What only holds the parts together."""

BEFORE_BLAME: Final = {
    "candidate.py", "candidates.py", "case.py", "judge.py", "patience.py", "reach.py",
    "undelivered.py", "closing_send.py",
}  # fmt: skip
"""What finds out whether there is anything to judge: where it fails, there is no verdict."""


def judged(answer: Alignment) -> list[tuple[Any, ...]]:
    """The verdict on everything that is judged, and not only seen."""
    found = [(f, f.kind, f.severity, f.suspects, f.sides, f.caused_by) for f in answer.findings]
    return [tuple(one[1:]) for one in found if KINDS[one[0].kind].status is not None]


@pytest.mark.parametrize("sample", SAMPLES)
def test_records_without_a_line_of_code_break_nothing(sample: str, tmp_path: Path) -> None:
    for path in kind_examples.KINDS[sample]().write(tmp_path).glob("rank*.jsonl"):
        path.write_bytes(re.sub(rb'"site":"[^"]*"', b'"site":""', path.read_bytes()))
    answer = align(tmp_path)
    assert answer.internal_errors is None
    for report in REPORTS:
        report.write(answer, io.StringIO())


@pytest.mark.parametrize("sample", SAMPLES)
def test_no_failure_of_the_explanation_loses_the_verdict(sample: str, tmp_path: Path) -> None:
    kind_examples.KINDS[sample]().write(tmp_path)
    usual = align(tmp_path)
    assert usual.internal_errors is None
    with breaking.called("align/causes", "align/observations") as functions:
        align(tmp_path)
    assert functions
    lost = []
    for function in functions:
        file, _, name = breaking.name(function).partition(" ")
        if name in FRAME.get(file, ()):
            continue
        try:
            with breaking.broken(function, KeyError("key")):
                answer = align(tmp_path)
        except KeyError:
            lost.append((file, name))
            continue
        faults = [(fault.error, fault.site) for fault in answer.internal_errors or ()]
        is_told = faults == [("KeyError", f"collectrace/{file}:{function.co_firstlineno}")]
        if not is_told or (answer.status, judged(answer)) != (usual.status, judged(usual)):
            lost.append((file, name))
    assert not lost


@pytest.mark.parametrize("sample", SAMPLES)
def test_who_cannot_be_judged_is_not_blamed(sample: str, tmp_path: Path) -> None:
    kind_examples.KINDS[sample]().write(tmp_path)
    usual = align(tmp_path)
    blamed = {rank for found in usual.findings for rank in found.suspects}
    with breaking.called("align/judging") as functions:
        align(tmp_path)
    survived = 0
    for function in functions:
        try:
            with breaking.broken(function, KeyError("key")):
                answer = align(tmp_path)
        except KeyError:
            file = Path(function.co_filename).name
            assert file in BEFORE_BLAME or function.co_name in (
                "verdict", "never_created", "_wait_elsewhere", "<listcomp>",
            ), breaking.name(function)  # fmt: skip
            continue
        survived += 1
        assert answer.internal_errors
        assert {rank for found in answer.findings for rank in found.suspects} <= blamed
        # An absence that cannot be proven any more is no error.
        assert answer.status in (usual.status, "unknown")
    assert survived


def endless(*arguments: object) -> Any:
    return endless(*arguments)


def exhausted(*_: object) -> NoReturn:
    raise MemoryError


def wrong(*_: object) -> NoReturn:
    raise AssertionError("never")


@pytest.fixture
def mismatch(tmp_path: Path) -> Path:
    kind_examples.dtype_mismatch().write(tmp_path)
    return tmp_path


def texts(answer: Alignment) -> dict[str, str]:
    """What every report says, by its module."""
    found = {}
    for report in REPORTS:
        out = io.StringIO()
        report.write(answer, out)
        found[report.module] = out.getvalue()
    return found


@pytest.mark.parametrize(
    ("breaks", "error"),
    [(endless, "RecursionError"), (exhausted, "MemoryError"), (wrong, "AssertionError")],
)
def test_every_report_asks_for_a_report_in_one_line(
    breaks: Callable[..., Any], error: str, mismatch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = align(mismatch)
    monkeypatch.setattr(ct403_other_argument, "find", breaks)
    answer = align(mismatch)
    assert (answer.exit_status, judged(answer)) == (1, judged(usual))
    first = answer.findings[0]
    assert (first.code, first.suspects, first.cause, first.fix) == (None, (2,), "", "")
    assert first.headline == KINDS["dtype_mismatch"].meaning
    (fault,) = answer.internal_errors or ()
    assert (fault.part, fault.error) == ("explanation", error)
    line = internal.sentence(fault)
    assert error in line or breaks is exhausted
    assert ("Please report this line" in line) is (breaks is not exhausted)
    said = texts(answer)
    parsed = json.loads(said.pop("machine"))
    jsonschema.validate(parsed, schema.json_schema(schema.FINDINGS))
    assert parsed["internal_errors"][0]["site"] == fault.site
    assert line in said.pop("terminal").splitlines()
    assert line in said.pop("brief").splitlines()
    for text in said.values():
        assert line.split(",")[0] in text.replace("\\_", "_")
        assert "Traceback" not in text


def test_an_observation_that_fails_is_missing_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind_examples.unwaited_work().write(tmp_path)
    monkeypatch.setattr(collect, "unwaited_work", wrong)
    monkeypatch.setattr(straggler, "straggler", wrong)
    answer = align(tmp_path)
    assert (answer.status, answer.exit_status) == ("aligned", 0)
    assert [fault.part for fault in answer.internal_errors or ()] == ["observations"]


def test_warnings_that_may_be_missing_are_not_taken_for_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind_examples.unwaited_work().write(tmp_path)
    assert align(tmp_path, strict=True).exit_status == 1
    monkeypatch.setattr(collect, "unwaited_work", wrong)
    assert align(tmp_path, strict=True).exit_status == 4
    with pytest.raises(AssertionError, match="Internal error in collectrace, AssertionError at"):
        assert_aligned(tmp_path, strict=True)


def test_an_overview_that_fails_in_part(mismatch: Path) -> None:
    answer = align(mismatch)
    assert answer.overview is not None
    with breaking.called("align/overview") as functions:
        whole = answer.overview()
    for function in functions:
        file, _, name = breaking.name(function).partition(" ")
        if name not in FRAME.get(file, ()):
            with breaking.broken(function, ValueError()):
                overview = answer.overview()
            assert "ValueError" in overview.left_out[-1]
            assert overview.streams == whole.streams or overview.waits == whole.waits


def test_the_page_without_its_pictures(mismatch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bands, "streams", exhausted)
    page = texts(align(mismatch))["page"]
    assert "collectrace ran out of memory at " in page
    assert "rank 2" in page


def test_an_earlier_attempt_that_cannot_be_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for attempt in range(2):
        env = {"TORCHELASTIC_RESTART_COUNT": str(attempt), "TORCHELASTIC_RUN_ID": "job"}
        job = Run(2, f"run-{attempt}", start=(1_760_000_000 + attempt) * SECOND, env=env)
        job.finish()
        job.write(tmp_path)
    usual = align(tmp_path)
    assert usual.job is not None
    assert "attempt 1 ended" in usual.job.earlier[0]
    monkeypatch.setattr(alignment, "_attempt", wrong)
    answer = align(tmp_path)
    assert answer.job is not None
    assert answer.job.earlier == ("run-0: its end is not known",)
    assert judged(answer) == judged(usual)
    assert [fault.part for fault in answer.internal_errors or ()] == ["earlier"]


def test_a_watched_job_keeps_its_verdict(mismatch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ct403_other_argument, "find", endless)
    follower = Follower(mismatch, interval=0.01)
    *_, last = follower.looks(threading.Event())
    report = follower.report()
    for answer in last, report:
        assert answer is not None
        assert (answer.exit_status, answer.findings[0].suspects) == (1, (2,))
        assert answer.internal_errors


def test_a_test_suite_sees_the_verdict(mismatch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ct403_other_argument, "find", endless)
    with pytest.raises(AssertionError, match="suspect") as failed:
        assert_aligned(mismatch)
    assert "RecursionError at test_internal_errors.py" not in str(failed.value)
    assert "Internal error in collectrace, RecursionError at" in str(failed.value)
