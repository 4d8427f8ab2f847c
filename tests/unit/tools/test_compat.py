"""What tools/compat makes of pytest's words."""

from __future__ import annotations

from tools import compat

FAILED = """\
....F..E
=========================== short test summary info ============================
FAILED tests/unit/test_a.py::test_one - assert 1 == 2
ERROR tests/unit/test_b.py - ImportError: no such thing
1 failed, 6 passed, 2 skipped, 1 error in 3.21s
"""


def test_counts_and_a_line_per_failure() -> None:
    outcome = compat._read(FAILED)
    assert str(outcome) == "6 passed, 1 failed, 1 error, 2 skipped"
    assert outcome.why == [
        "tests/unit/test_a.py::test_one - assert 1 == 2",
        "tests/unit/test_b.py - ImportError: no such thing",
    ]


def test_a_run_that_came_to_nothing_is_an_error() -> None:
    outcome = compat._read("", "No module named pytest\n")
    assert outcome.counts == {"error": 1}
    assert outcome.why == ["No module named pytest"]


def test_the_table_has_a_row_per_version_and_says_why_below() -> None:
    failed = compat.Outcome({"failed": 8}, [f"test_{letter}" for letter in "abcdefgh"])
    outcomes = {
        ("2.6.0", "3.11.7"): {"unit": compat.Outcome({"passed": 3})},
        ("2.9.1", "3.11.7"): {"unit": failed},
    }
    lines = list(compat._table(outcomes, ["unit", "zoo"]))
    assert lines[2] == "| torch | Python | unit | zoo |"
    assert lines[4] == "| 2.6.0 | 3.11.7 | 3 passed | not run |"
    assert lines[6:8] == ["torch 2.9.1, unit: test_a", "torch 2.9.1, unit: test_b"]
    assert lines[-1] == "torch 2.9.1, unit: and 2 more"


def test_every_group_names_tests_that_exist() -> None:
    for selected in compat.GROUPS.values():
        assert (compat.ROOT / selected[0]).exists()
