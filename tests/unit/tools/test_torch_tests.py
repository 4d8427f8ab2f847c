"""What tools/torch_tests.py makes of outcomes and findings."""

from __future__ import annotations

from tools.torch_test_parts.on_purpose import ON_PURPOSE, Purpose, purpose
from tools.torch_tests import Judged, counts, markdown

SKIPS = Purpose("a", "*.test_skips", "missing_call", "rank 1 skips a barrier")


def judged(
    *outcomes: str, found: str = "", listed: bool = False, status: str = "aligned"
) -> Judged:
    return Judged(
        "C.test", list(outcomes), [(found, "")] if found else [], {status},
        SKIPS if listed else None,
    )  # fmt: skip


def test_each_test_is_counted_once_by_what_was_found() -> None:
    row = counts(
        [
            judged("passed"),
            judged("passed", status="unknown"),
            judged("failed", "passed"),
            judged("passed", found="missing_call", listed=True, status="diverged"),
            judged("passed", found="missing_call", status="diverged"),
            judged("passed", listed=True),
            judged("passed", found="deadlock", listed=True, status="hung"),
        ],
        9,
    )
    assert (row["tests"], row["passed untraced"], row["passed traced"]) == (9, 7, 7)
    assert row["of them not at once"] == 1
    assert (row["aligned"], row["unknown"], row["wrong on purpose"]) == (2, 1, 1)
    assert row["contrary to the list"] == 3


def test_a_test_differs_or_hangs_if_no_attempt_passes() -> None:
    row = counts([judged("failed", "crashed", "failed"), judged("failed", "hung", "failed")], 2)
    assert (row["passed traced"], row["differ"], row["hung"]) == (0, 1, 1)


def test_the_table_leaves_out_suites_of_which_nothing_passed() -> None:
    lines = markdown({"a": counts([judged("passed")], 2), "b": counts([], 3)}).splitlines()
    assert [line.split(" | ")[0] for line in lines[2:]] == ["| a", "| in all"]
    assert lines[2].startswith("| a | 2 | 1 | 1 |")


def test_rows_of_the_list_are_found_by_suite_and_test() -> None:
    found = purpose(
        "distributed_test, 3 ranks", "TestDistBackendWithSpawn.test_monitored_barrier_gloo"
    )
    assert found in ON_PURPOSE
    assert purpose("another", "TestDistBackendWithSpawn.test_monitored_barrier_gloo") is None
