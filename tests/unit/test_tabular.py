"""An alignment in a notebook."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser

from tests.support import alignments


def test_a_flat_row_for_each_finding() -> None:
    rows = alignments.join_with_barrier().rows()
    assert [(row["finding"], row["kind"], row["caused_by"]) for row in rows] == [
        (0, "role_mismatch", None), (1, "dtype_mismatch", 0), (2, "uneven_inputs", None),
    ]  # fmt: skip
    assert rows[0]["suspects"] == "1"
    assert rows[0]["ranks"] == "0,1"
    assert rows[0]["ops"] == "all_reduce"
    assert rows[0]["sites"] == "train.py:38,train.py:43"
    assert rows[2]["group"] is None
    for row in rows:
        assert list(row) == list(rows[0])
        assert all(isinstance(value, str | int | float | None) for value in row.values())
    assert alignments.all_agree().rows() == []


def test_what_print_shows_is_the_verdict_and_the_findings() -> None:
    sample = alignments.join_with_barrier()
    first, *others = str(sample).splitlines()
    assert first == f"diverged: 2 ranks, run {sample.run}"
    assert others[0] == f"error: {sample.findings[0].headline}"
    assert len(others) == len(sample.findings)
    evil = replace(sample.findings[0], code="CT102", headline="\x1b[2Jx\ny")
    many = str(replace(sample, run="\x1b", findings=(evil,) * 30)).splitlines()
    assert many[1] == "error[CT102]: [2Jx y"
    assert many[11:] == ["and 20 more"]


def test_a_flat_row_for_each_rank() -> None:
    sample = alignments.not_enough()
    rows = sample.rank_rows()
    assert [row["rank"] for row in rows] == [0, 1, 2, 3]
    assert (rows[0]["last_op"], rows[0]["last_seq"]) == ("all_reduce", 77)
    assert rows[3]["last_op"] is None
    for row in rows:
        assert list(row) == list(rows[0])


class Tags(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert {name for name, _ in attrs} <= {"style"}
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_notebook_shows_it() -> None:
    page = Tags(alignments.join_with_barrier()._repr_html_())
    assert page.text.startswith("diverged 20260116-093000-f00d, 2 ranks")
    assert "Move the call at train.py:43 out of" in page.text
    assert "dtype_mismatch" in page.text


def test_a_log_is_no_html() -> None:
    evil = '<script>alert("1")</script>\x1b\u202e'
    sample = alignments.missing_call()
    finding = replace(sample.findings[0], headline=evil, fix=evil)
    state = replace(sample.ranks[0], detail=evil)
    html = replace(sample, run=evil, findings=(finding,), ranks=(state,))._repr_html_()
    page = Tags(html)
    assert "script" not in page.tags
    assert page.text.count('<script>alert("1")</script>') == 4
    assert "\x1b" not in html
    assert "\u202e" not in html


def test_a_job_of_many_ranks_is_cut() -> None:
    sample = alignments.missing_call()
    many = replace(sample, ranks=sample.ranks[:1] * 5000)
    assert len(many._repr_html_()) < 100_000
    assert "and 4800 more" in many._repr_html_()
    assert len(many.rank_rows()) == 5000
