"""The scores of the case collection, over verdicts that are made up."""

from __future__ import annotations

from pathlib import Path

from collectrace.findings import Alignment, Evidence, Finding, Kind, Severity, Side, Status
from collectrace.records import Call
from tests.zoo.case import HERE, Case
from tests.zoo.rivals import Said, detail
from tests.zoo.runner import Outcome
from tests.zoo.verdict import Verdict
from tools.scoreboard import Row, table

SCRIPT = '"""A mistake."""\n\nwork()  # BUG\nif TWIN:\n    pass\n'
SPOKE, SILENT = Said(True, frozenset({1}), False), Said(False, frozenset(), False)


def finding(
    kind: Kind,
    rank: int,
    line: int = 3,
    severity: Severity = "error",
    cause: int | None = None,
    *,
    said: str = "only rank 1",
    fix: str = "on every rank",
) -> Finding:
    call = Call(seq=1, group="0", device="cpu", op="all_reduce", site=f"/zoo/p2p/case.py:{line}")
    return Finding(
        kind=kind, severity=severity, headline="", cause=said, fix=fix, suspects=(rank,),
        sides=(Side(ranks=(rank,), call=call, state="blocked"),), caused_by=cause,
    )  # fmt: skip


def row(*findings: Finding, expect: str = "op_mismatch", twin: bool = False, said: Said) -> Row:
    fields = {
        "expect": expect, "suspects": "1", "status": "diverged",
        "cause": "only rank 1 | rank 1 alone", "fix": "every rank", "never": "ragged",
    }  # fmt: skip
    case = Case(HERE / "p2p" / "case.py", "", fields, SCRIPT)
    status: Status = "diverged" if findings else "aligned"
    alignment = Alignment(
        status=status, run="", world_size=2, findings=findings, ranks=(), evidence=Evidence()
    )
    verdict = Verdict(case, twin, Outcome((), Path(), Path()), alignment)
    return Row(case, twin, verdict, {"Rival": said})


def cells(rows: list[Row]) -> dict[str, list[str]]:
    lines = [line.strip("| ").split(" | ") for line in table(rows, ["Rival"]) if line]
    return {line[0]: [cell.strip() for cell in line[1:]] for line in lines}


def test_a_right_verdict_and_a_quiet_twin() -> None:
    rows = [row(finding("op_mismatch", 1), said=SPOKE), row(twin=True, said=SILENT)]
    found = cells(rows)
    assert found["point to point"] == ["1/1"] * 8
    assert found["recall"] == found["precision"] == ["1.00", "1.00"]
    assert found["false alarms in correct runs"] == ["0/1", "0/1"]


def test_each_mistake_lowers_its_own_score() -> None:
    right = finding("op_mismatch", 1)
    rows = [
        row(right, said=SILENT),
        row(finding("dtype_mismatch", 1), said=SPOKE),  # another kind
        row(finding("op_mismatch", 0), said=SPOKE),  # another rank
        row(finding("op_mismatch", 1, line=4), said=SPOKE),  # another line
        row(said=SPOKE),  # missed
        row(right, finding("stall", 1), finding("stall", 1, cause=0), said=SPOKE),  # noise
        row(finding("op_mismatch", 1, said="a ragged batch"), said=SPOKE),  # another cause
        row(finding("op_mismatch", 1, said="only rank 1: ragged"), said=SPOKE),  # and a wrong one
        row(finding("op_mismatch", 1, fix="pad it"), said=SPOKE),  # another fix
        row(right, finding("stall", 1, cause=0, fix="ragged"), said=SPOKE),  # and a wrong one
        row(right, twin=True, said=SPOKE),  # a false alarm
    ]
    found = cells(rows)
    assert found["**all**"] == [
        "9/10", "8/10", "8/10", "8/10", "7/10", "7/10", "9/10", "9/10"
    ]  # fmt: skip
    assert found["recall"] == ["0.90", "0.90"]
    assert found["precision"] == ["0.90", "0.90"]
    assert found["false alarms in correct runs"] == ["1/1", "1/1"]
    assert found["noise per run"] == ["0.18"]


def test_whom_a_rival_names(tmp_path: Path) -> None:
    differs = "Detected mismatch between collectives on ranks. Rank {} is x, but Rank {} is y"
    texts = [differs.format(0, 2), differs.format(1, 2), differs.format(2, 0)]
    for rank, text in enumerate(texts):
        (tmp_path / f"rank{rank}.txt").write_text(text)
    said = detail(Outcome((1, 1, 1), tmp_path, tmp_path))
    assert said == Said(True, frozenset({2}), False)
