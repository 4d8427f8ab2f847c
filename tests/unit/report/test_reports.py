"""The table of reports: each row has its module, and each module the one signature."""

from __future__ import annotations

import inspect
import io
from importlib import import_module

import pytest

from collectrace.report import REPORTS, Report
from tests.support import alignments


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: report.module)
def test_every_report_has_the_one_signature(report: Report) -> None:
    write = import_module(f"collectrace.report.{report.module}").write
    assert str(inspect.signature(write)) == "(alignment: 'Alignment', out: 'TextIO') -> 'None'"
    assert write.__doc__


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: report.module)
@pytest.mark.parametrize("sample", [alignments.all_agree, alignments.nested_consequences])
def test_every_report_writes_lines(report: Report, sample: object) -> None:
    assert callable(sample)
    out = io.StringIO()
    report.write(sample(), out)
    assert out.getvalue().endswith("\n")
    assert not out.closed


def test_one_report_needs_no_option_and_no_two_have_the_same() -> None:
    options = [report.option for report in REPORTS]
    assert options.count(None) == 1
    assert len(set(options)) == len(options)
