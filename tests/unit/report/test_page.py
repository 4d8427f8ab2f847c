"""The page as a file: one, nothing from outside, and nothing of a log that could end a part."""

from __future__ import annotations

import io
import json
import random
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from collectrace import report
from collectrace.align.alignment import align
from collectrace.align.overview import bands
from collectrace.align.overview.repeats import unpack
from collectrace.findings import Alignment
from collectrace.report.page import content, data, embedded, write
from tests.support import alignments, kind_examples, seed_cases
from tests.support.commands import run
from tests.support.judging import aligned
from tests.support.synthetic import Run
from tools.make_logs import Difference, make


def written(alignment: Alignment) -> str:
    out = io.StringIO()
    write(alignment, out)
    return out.getvalue()


def held(page: str) -> Any:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def test_nothing_is_asked_for_from_elsewhere(tmp_path: Path) -> None:
    page = written(aligned(seed_cases.case(4, "ones"), tmp_path))
    assert page.isascii()
    assert re.findall(r"""(?:src|href)=["'](?!#)[^"']*""", page) == []
    assert not re.search(r"@import|url\((?!#|`?#)", page)
    assert "default-src &#39;none&#39;" in page


@pytest.mark.parametrize("text", ["</script>", "<!--<script>", "]]>", "\u2028 & >", "\ud800"])
def test_data_cannot_end_their_element(text: str) -> None:
    told = embedded({"a": [text]})
    assert not set(told) & set("<>&\u2028")
    assert json.loads(told) == {"a": [text]}


def test_ranks_are_told_as_ranges() -> None:
    assert data.ranges([5, 0, 1, 2]) == "0-2,5"
    assert data.ranges([]) == ""


@pytest.mark.parametrize(
    ("role", "name"),
    [
        ("user", "your script"), ("ddp.forward.notify_join", "DDP forward"),
        ("ddp.backward.bucket", "DDP backward"), ("join.bucket", "join()"),
        ("zero.step", "optimizer"), ("fsdp.unshard", "sharding"), ("fsdp_one.other", "sharding"),
        ("lightning.log", "libraries"), ("deepspeed.step", "libraries"), ("unknown", "not known"),
    ],
)  # fmt: skip
def test_every_role_has_its_family(role: str, name: str) -> None:
    assert data.FAMILIES[data.family(role)][0] == name


def test_findings_know_their_stream(tmp_path: Path) -> None:
    found = held(written(aligned(seed_cases.case(4, "ones"), tmp_path)))
    assert [(f["stream"], f["seq"]) for f in found["findings"][:2]] == [(0, 29), (0, 31)]


def test_a_message_is_found_on_its_channel(tmp_path: Path) -> None:
    run = Run(2)
    run.rank(0).send(1, shape=[4])
    run.rank(1).recv(0, shape=[8])
    run.finish()
    found = held(written(aligned(run, tmp_path)))
    stream = found["streams"][found["findings"][0]["stream"]]
    assert stream["name"] == "messages from rank 0 to rank 1"


def test_a_large_run_is_a_small_file(tmp_path: Path) -> None:
    folder = make(tmp_path, 128, 2000, Difference(40, 1500, "extra"))
    page = written(align(folder))
    assert len(page) < 150_000


def test_irregular_runs_keep_what_is_around_a_difference_and_say_what_they_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bands, "_MOST_CODES", 1000)
    run = Run(4)
    draw = random.Random(7)
    for rank in run:
        for _ in range(3000):
            rank.call("all_reduce", shape=[4], site=f"/t.py:{draw.randrange(30)}")
        rank.call("barrier" if rank.rank == 2 else "all_reduce", site="/t.py:99")
    run.finish()
    page = written(aligned(run, tmp_path))
    assert "what this page leaves out" in page
    assert "far from where the ranks part" in page
    (stream,) = held(page)["streams"]
    numbers = unpack(stream["bands"][0]["codes"])
    assert len(numbers) == 3001
    assert all(numbers[-200:])
    assert not any(numbers[:2000])
    assert len(page) < 200_000


def test_an_answer_without_a_run_is_a_page_without_a_map() -> None:
    page = written(alignments.join_with_barrier())
    assert 'id="map"' not in page
    assert "<h1>" in page


def test_without_jinja2_the_option_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "find_spec", lambda _: None)
    status, _, err = run("align", str(tmp_path), "--html", str(tmp_path / "x.html"))
    assert status == 2
    assert "pip install 'collectrace[html]'" in err
    assert not (tmp_path / "x.html").exists()


def test_what_followed_has_its_label_as_why_and_fix_have() -> None:
    page = written(alignments.nested_consequences())
    assert '<dl class="said then"><dt>then</dt><dd>' in page


def test_each_column_of_the_evidence_has_a_heading() -> None:
    page = written(alignments.explained())
    head = page.partition("<caption>evidence</caption>")[2].partition("</thead>")[0]
    assert re.findall(r'<th scope="col">(.*?)</th>|<td></td>', head) == [
        "blame", "ranks", "what is known about these ranks",
    ]  # fmt: skip


def test_only_decisions_that_are_told_have_a_panel() -> None:
    shown = alignments.with_decisions()
    root = shown.findings[0]
    sure, *_ = root.decisions or ()
    vague = replace(sure, site="/job/other.py:3", text="if other:", strength="possible")
    found = replace(root, decisions=(vague, sure))
    told = content._telling(found)
    assert told == (sure,)
    assert content._telling(replace(root, decisions=(vague,))) == (vague,)
    named = replace(found, decisions=(vague,), cause="`if other:` (other.py:3) may differ.")
    assert content._telling(named) == (vague,)


def test_a_call_that_frees_all_is_left_out_if_no_suspect_makes_it(tmp_path: Path) -> None:
    found = aligned(kind_examples.KINDS["deadlock"](), tmp_path)
    assert found.overview is not None
    free = found.overview().waits.freeing
    assert free is not None
    root = replace(found.findings[0], suspects=(free.rank,))
    assert "One call could free" in written(replace(found, findings=(root,)))
    other = replace(root, suspects=(free.rank + 1,))
    assert "One call could free" not in written(replace(found, findings=(other,)))
