"""The report as Markdown, read back by a Markdown parser."""

from __future__ import annotations

import io
import re
from dataclasses import replace
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
    assert "fix: Move the call at train.py:43 out of the with model.join(): block" in parsed.text
    assert "<code>with model.join():</code>" in html
    assert parsed.found.count("pre") == 2
    assert "<strong>error:</strong> rank 1" in html
    assert "   43   dist.barrier()       \N{BLACK LEFT-POINTING TRIANGLE} rank 1: call 29" in page


def test_code_in_a_fix_is_code() -> None:
    html = PARSER.render(told(alignments.nested_consequences()))
    assert "<pre><code>dist.broadcast(flag, 0)\ndist.all_reduce(x, group=tp)\n</code>" in html


def test_no_line_of_a_log_ends_a_block() -> None:
    sample = alignments.join_with_barrier()
    finding = sample.findings[0]
    side = finding.sides[1]
    assert side.call is not None
    evil = replace(side.call, op="```` x", site="/a|b`c|.py:1")
    page = told(replace(sample, findings=(replace(finding, sides=(replace(side, call=evil),)),)))
    blocks = re.findall(r"<pre>.*?</pre>", PARSER.render(page), re.DOTALL)
    assert len(blocks) == 2
    assert "```` x" in blocks[0]


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


@given(st.text(max_size=40))
def test_whatever_a_log_says(text: str) -> None:
    parsed = tags(PARSER.render(markdown.escaped(text)))
    assert set(parsed.found) <= {"p"}
    assert parsed.text.replace("\u200b", "").split() == clean(text).replace("\u200b", "").split()


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("@octocat", "@octocat"),
        ("#12", "#12"),
        ("http://e", "http:"),
        ("www.e", "www."),
        ("GH-12", "GH-12"),
        ("gh-7", "gh-7"),
        (":tada:", ":tada:"),
    ],
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
    known = "h3 p strong code ul li details summary pre"
    assert found <= set(known.split())


def test_a_page_stays_small() -> None:
    states = tuple(
        RankState(rank=r, state="blocked", ended="alive", detail="x" * 5000) for r in range(4096)
    )
    page = told(replace(alignments.missing_call(), ranks=states))
    assert len(page) < 100_000


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("in `if x < y and a[0]:` (line 3)", "in <code>if x &lt; y and a[0]:</code> (line 3)"),
        ("`a` and `b`", "<code>a</code> and <code>b</code>"),
        ("a ` b", "a ` b"),
        ("``` x ```", "``` x ```"),
        ("`a``b`", "`a``b`"),
        (r"\`a`", r"\<code>a</code>"),
        ("`@octocat #12 </code><b>`", "<code>@octocat #12 &lt;/code&gt;&lt;b&gt;</code>"),
    ],
)
def test_what_a_sentence_quotes_is_code(text: str, shown: str) -> None:
    assert PARSER.render(markdown.sentence(text)) == f"<p>{shown}</p>\n"


@pytest.mark.parametrize("text", HOSTILE)
def test_a_log_is_no_markdown_in_a_sentence(text: str) -> None:
    for hostile in (text, f"`{text}`", f"` {text} ` {text}"):
        parsed = tags(PARSER.render(markdown.sentence(hostile)))
        assert {*parsed.found} <= {"p", "code"}


@given(st.text(alphabet=st.sampled_from("`\\ a<*_&[]()$\n:@#\ue000"), max_size=12))
def test_whatever_a_sentence_quotes(text: str) -> None:
    parsed = tags(PARSER.render(markdown.sentence(text)))
    assert set(parsed.found) <= {"p", "code"}
    shown = parsed.text.replace("\u200b", "").replace("`", "")
    assert shown.split() == clean(text).replace("`", "").split()


def test_a_stream_that_lacks_characters_gets_references_for_them() -> None:
    finding = alignments.join_with_barrier().findings[0]
    odd = replace(finding, cause="caf\u00e9 \u2192 \u6f22")
    page = replace(alignments.join_with_barrier(), findings=(odd,))
    shown = {}
    for encoding in ("ascii", "latin-1", "utf-8"):
        raw = io.BytesIO()
        stream = io.TextIOWrapper(raw, encoding)
        markdown.write(page, stream)
        stream.flush()
        shown[encoding] = raw.getvalue().decode(encoding)
    assert "**why:** caf&#233; &#8594; &#28450;\n" in shown["ascii"]
    assert "**why:** caf\u00e9 &#8594; &#28450;\n" in shown["latin-1"]
    assert "   43   dist.barrier()       < rank 1: call 29" in shown["ascii"]
    heads = {PARSER.render(one).partition("<pre>")[0] for one in shown.values()}
    assert len(heads) == 1


@pytest.mark.parametrize("ending", ["  ", " \r", "\t\t", "\u2003\u2003"])
def test_spaces_at_the_end_of_a_line_break_none(ending: str) -> None:
    told = "\n".join(f"{markdown.sentence(f'one{ending}')}" for _ in range(2))
    assert "<br" not in PARSER.render(told)
