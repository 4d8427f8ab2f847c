"""The report as Markdown, read back by a Markdown parser."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from collectrace.findings import Alignment, RankState
from collectrace.printable import clean
from collectrace.report import markdown
from tests.support import alignments

PARSER = MarkdownIt("commonmark").enable(["table", "strikethrough"])


def told(alignment: Alignment) -> str:
    out = io.StringIO()
    markdown.write(alignment, out)
    return out.getvalue()


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.found.append(tag)
        assert not attrs or tag in ("th", "td"), attrs

    def handle_data(self, data: str) -> None:
        self.text += data


def tags(html: str) -> Tags:
    parser = Tags()
    parser.feed(html)
    return parser


def test_the_parts() -> None:
    page = told(alignments.join_with_barrier())
    assert page.startswith("### collectrace: diverged\n")
    html = PARSER.render(page)
    parsed = tags(html)
    assert "Fix: Move the call at train.py:43 out of the `with model.join():` block" in parsed.text
    assert parsed.found.count("table") == 2
    assert "<strong>cause</strong>" in html
    assert "<code>dist.barrier()</code>" in html
    assert "← suspect" in page


def test_code_in_a_fix_is_code() -> None:
    html = PARSER.render(told(alignments.nested_consequences()))
    assert "<pre><code>dist.broadcast(flag, 0)\ndist.all_reduce(x, group=tp)\n</code>" in html


def test_cells_of_a_table_stay_in_their_cells() -> None:
    sample = alignments.join_with_barrier()
    finding = sample.findings[0]
    assert finding.table is not None
    cell = finding.table.rows[0].cells[0]
    assert cell is not None
    evil = replace(cell, site="/a|b`c|.py:1", op="all|`reduce")
    rows = (replace(finding.table.rows[0], cells=(evil, evil)), *finding.table.rows[1:])
    table = replace(finding.table, rows=rows)
    page = told(replace(sample, findings=(replace(finding, table=table),)))
    html = PARSER.render(page)
    counts = {row.count("<td") for row in re.findall(r"<tr>.*?</tr>", html, re.DOTALL)}
    assert counts <= {0, 5, 4}
    assert "all|`reduce" in unescape(html)


HOSTILE = (
    "<img src=x onerror=alert(1)>", "[a](javascript:alert(1))", "![x](http://evil/p.png)",
    "`a` **b** _c_ ~~d~~", "| a | b |", "@octocat fixes #12 and o/r#3", "http://evil.example",
    "www.evil.example", "&lt;b&gt; &amp;", "# heading", "1. one", "- item", "+ item", "===",
    "---", "> quote", "    code", "a\n\nb", "</details><script>", "$x$", "\x1b[2J\u202e",
    "<!-- comment", "``` fence", "~~~ fence", "a\\", "[x]: http://evil",
)  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE)
def test_a_log_is_no_markdown(text: str) -> None:
    html = PARSER.render(markdown.escaped(text))
    parsed = tags(html)
    assert parsed.found in (["p"], [])
    shown = parsed.text.replace("\u200b", "").strip()
    assert shown.split() == clean(text).split()
    span = tags(PARSER.render("x " + markdown.code(text)))
    assert span.found in (["p", "code"], ["p"])
    assert span.text.split()[1:] == clean(text).split()


@given(st.text(max_size=40))
def test_whatever_a_log_says(text: str) -> None:
    parsed = tags(PARSER.render(markdown.escaped(text)))
    assert set(parsed.found) <= {"p"}
    assert parsed.text.replace("\u200b", "").split() == clean(text).replace("\u200b", "").split()


@pytest.mark.parametrize(
    ("text", "whole"),
    [("@octocat", "@octocat"), ("#12", "#12"), ("http://e", "http:"), ("www.e", "www.")],
)
def test_what_github_would_turn_into_links_is_parted(text: str, whole: str) -> None:
    assert whole not in markdown.escaped(text)


@pytest.mark.parametrize("text", HOSTILE)
def test_a_whole_page_of_it(text: str) -> None:
    sample = alignments.missing_call()
    finding = sample.findings[0]
    call = finding.sides[0].call
    assert call is not None
    assert sample.job is not None
    side = replace(finding.sides[0], call=replace(call, site=text + ":1", op=text))
    evil = replace(finding, headline=text, cause=text, fix=text, sides=(side,))
    page = told(
        replace(
            sample,
            run=text,
            findings=(evil, replace(evil, severity="warning")),
            ranks=(RankState(rank=0, state="raised", ended="exit", detail=text),),
            job=replace(sample.job, script=text, hosts=(text,)),
        )
    )
    found = set(tags(PARSER.render(page)).found)
    known = "h3 p strong code ul li table thead tbody tr th td details summary pre"
    assert found <= set(known.split())


def test_a_page_stays_small() -> None:
    states = tuple(
        RankState(rank=r, state="blocked", ended="alive", detail="x" * 5000) for r in range(4096)
    )
    page = told(replace(alignments.missing_call(), ranks=states))
    assert len(page) < 100_000
    assert "and 4032 more" in page
