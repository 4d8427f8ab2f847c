"""Whose messages receives from any source took, and what is compared by it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from collectrace.align import align
from collectrace.align.alignment import compared
from collectrace.align.matching.comparison import ChannelIssue, Comparison
from collectrace.align.reading.evidence import ChannelKey
from collectrace.align.reading.run_reader import read
from collectrace.records import Call
from tests.support.synthetic import Rank, Run

HEADER: dict[str, Any] = {"dtype": "int64", "shape": [2]}
BODY: dict[str, Any] = {"dtype": "float32", "shape": [4]}


def scanned(run: Run, folder: Path) -> Comparison:
    run.write(folder)
    return compared(read(folder, full=True))


def issues(run: Run, folder: Path) -> list[ChannelIssue]:
    return list(scanned(run, folder).channels)


def channel(source: int, destination: int = 0, tag: int = 0) -> ChannelKey:
    return ChannelKey("0", "cpu", source, destination, tag)


def push(rank: Rank) -> None:
    rank.send(0, site="push.py:1", **HEADER)
    rank.send(0, site="push.py:2", **BODY)


def crossed() -> Run:
    """Rank 2's header comes between rank 1's and what belongs to that."""
    run = Run(3)
    push(run.rank(1))
    push(run.rank(2))
    server = run.rank(0)
    server.recv(-1, took=1, site="serve.py:1", **HEADER)
    server.recv(-1, took=2, site="serve.py:2", **BODY)
    return run


def test_a_receive_from_any_source_that_took_what_came_between(tmp_path: Path) -> None:
    (issue,) = [i for i in issues(crossed(), tmp_path) if i.attribute != "absent"]
    assert (issue.channel, issue.seq, issue.attribute) == (channel(2), 1, "dtype")
    assert issue.recv is not None
    assert issue.recv.site == "serve.py:2"
    before = issue.before
    assert before is not None
    assert before.recv is not None
    assert before.next is not None
    assert (before.source, before.recv.site, before.next.site) == (1, "serve.py:1", "push.py:2")


def test_the_finding_names_the_receiver_and_what_to_do(tmp_path: Path) -> None:
    run = crossed()
    run.finish()
    run.write(tmp_path)
    first = align(tmp_path, full=True).findings[0]
    assert (first.kind, first.code, first.suspects) == ("p2p_mismatch", "CT707", (0,))
    assert "the rank that the recv (serve.py:1) returned" in first.fix


def test_where_the_one_before_names_its_source(tmp_path: Path) -> None:
    run = Run(3)
    push(run.rank(1))
    push(run.rank(2))
    run.rank(0).recv(1, site="serve.py:1", **HEADER)
    run.rank(0).recv(-1, took=2, site="serve.py:2", **BODY)
    run.finish()
    run.write(tmp_path)
    first = align(tmp_path, full=True).findings[0]
    assert "rank 1 as its source (src=), as the recv (serve.py:1) does" in first.fix


def test_nobody_is_a_suspect_where_no_other_message_would_have_fitted(tmp_path: Path) -> None:
    run = Run(3)
    run.rank(1).send(0, **HEADER)
    run.rank(2).send(0, **HEADER)
    run.rank(0).recv(-1, took=1, **HEADER)
    run.rank(0).recv(-1, took=2, **BODY)
    run.finish()
    run.write(tmp_path)
    first = align(tmp_path, full=True).findings[0]
    assert (first.kind, first.suspects) == ("p2p_mismatch", ())


def test_one_rank_that_sends_what_does_not_fit(tmp_path: Path) -> None:
    run = Run(2)
    for _ in range(2):
        run.rank(1).send(0, **HEADER)
    run.rank(0).recv(-1, took=1, **HEADER)
    run.rank(0).recv(-1, took=1, **BODY)
    (issue,) = issues(run, tmp_path)
    assert (issue.seq, issue.before) == (2, None)


def test_pairs_are_told_by_name_and_by_answer(tmp_path: Path) -> None:
    run = Run(3)
    for sender in (1, 2):
        for _ in range(3):
            push(run.rank(sender))
    for sender in (2, 1, 1, 2, 2, 1):
        run.rank(0).recv(-1, took=sender, **HEADER)
        run.rank(0).recv(sender, **BODY)
    comparison = scanned(run, tmp_path)
    assert comparison.channels == ()
    assert comparison.messages["0"] == 12


def test_a_receive_that_names_its_source_may_be_the_wrong_one(tmp_path: Path) -> None:
    run = Run(2)
    push(run.rank(1))
    push(run.rank(1))
    run.rank(0).recv(-1, took=1, **HEADER)
    run.rank(0).recv(1, **BODY)
    run.rank(0).recv(-1, took=1, **HEADER)
    run.rank(0).recv(1, site="serve.py:9", dtype="float32", shape=[5])
    (issue,) = issues(run, tmp_path)
    assert (issue.channel, issue.seq, issue.attribute, issue.taken) == (channel(1), 4, "count", 2)
    assert issue.recv is not None
    assert issue.recv.site == "serve.py:9"


NOT_CERTAIN: dict[str, tuple[int, dict[str, Any]]] = {
    "no answer": (-1, {}),
    "asynchronous": (1, {"async_": True}),
    "another thread": (-1, {"took": 1, "thread": "other"}),
}


@pytest.mark.parametrize(("source", "header"), NOT_CERTAIN.values(), ids=NOT_CERTAIN)
def test_nothing_is_compared_behind_a_receive_that_may_not_be_over(
    source: int, header: dict[str, Any], tmp_path: Path
) -> None:
    run = Run(3)
    push(run.rank(1))
    push(run.rank(2))
    run.rank(0).recv(source, **HEADER, **header)
    run.rank(0).recv(-1, took=2, **BODY)
    assert [i for i in issues(run, tmp_path) if i.attribute != "absent"] == []


def test_asynchronous_receives_that_are_over_one_by_one(tmp_path: Path) -> None:
    run = Run(3)
    push(run.rank(1))
    push(run.rank(2))
    run.rank(0).recv(-1, took=1, async_=True, **HEADER)
    run.rank(0).recv(-1, took=2, async_=True, **BODY)
    (issue,) = [i for i in issues(run, tmp_path) if i.attribute != "absent"]
    assert issue.channel == channel(2)


def test_asynchronous_receives_that_overlap(tmp_path: Path) -> None:
    run = Run(3)
    push(run.rank(1))
    push(run.rank(2))
    pending: list[Call] = [
        run.rank(0).recv(-1, async_=True, **HEADER), run.rank(0).recv(-1, async_=True, **BODY)
    ]  # fmt: skip
    run.rank(0).answer(pending[1], 2)
    run.rank(0).answer(pending[0], 1)
    assert [i for i in issues(run, tmp_path) if i.attribute != "absent"] == []


def test_a_receive_that_raised_may_have_taken_a_message(tmp_path: Path) -> None:
    run = Run(2)
    push(run.rank(1))
    failed = run.rank(0).recv(1, **HEADER)
    run.rank(0).done(failed.seq, peer=1, tag=0, op="recv", failed=True, error="RuntimeError: late")
    run.rank(0).recv(-1, took=1, **HEADER)
    run.rank(0).recv(-1, took=1, **BODY)
    assert [i for i in issues(run, tmp_path) if i.attribute != "absent"] == []


def test_receives_that_were_lost_cannot_be_counted(tmp_path: Path) -> None:
    run = Run(2)
    push(run.rank(1))
    run.rank(0).recv(1, lost=True, **HEADER)
    run.rank(0).recv(-1, took=1, **BODY)
    assert [i for i in issues(run, tmp_path) if i.attribute != "absent"] == []


def test_a_log_read_in_part_is_counted_only(tmp_path: Path) -> None:
    run = crossed()
    run.write(tmp_path)
    comparison = compared(read(tmp_path, small=0, page=256))
    assert [i for i in comparison.channels if i.attribute != "absent"] == []


def test_the_receive_that_waits_is_the_one_without_a_send(tmp_path: Path) -> None:
    run = Run(2)
    run.rank(1).send(0)
    run.rank(0).recv(-1, took=1)
    run.rank(0).recv(1, site="serve.py:5")
    (issue,) = issues(run, tmp_path)
    assert (issue.channel, issue.seq, issue.send) == (channel(1), 1, None)
    assert issue.recv is not None
    assert issue.recv.site == "serve.py:5"


def test_the_send_that_is_left_over_is_known_by_the_answers(tmp_path: Path) -> None:
    run = Run(3)
    run.rank(1).send(0, site="push.py:1")
    run.rank(1).send(0, site="push.py:2")
    run.rank(2).wait(5)
    run.rank(2).send(0, site="push.py:3")
    run.rank(0).recv(-1, took=2)
    run.rank(0).recv(-1, took=1)
    (issue,) = issues(run, tmp_path)
    assert (issue.channel, issue.seq, issue.recv) == (channel(1), 2, None)
    assert issue.send is not None
    assert issue.send.site == "push.py:2"


def test_the_send_that_is_left_over_is_none_that_was_taken(tmp_path: Path) -> None:
    run = Run(3)
    run.rank(1).send(0)
    run.rank(1).send(0)
    run.rank(2).wait(5)
    run.rank(2).send(0)
    run.rank(0).recv(-1, took=2)
    run.rank(0).recv(-1)
    (issue,) = issues(run, tmp_path)
    assert issue.channel == channel(1)


def test_a_receive_that_could_not_be_described_may_be_any(tmp_path: Path) -> None:
    run = crossed()
    run.rank(0).recv(1, tag=9, void=True)
    run.rank(1).send(0, tag=9)
    assert [i for i in issues(run, tmp_path) if i.attribute != "absent"] == []


def test_a_circle_after_it_is_its_consequence(tmp_path: Path) -> None:
    run = crossed()
    server = run.rank(0)
    server.recv(-1, took=1, **HEADER)
    server.recv(-1, took=2, **BODY)
    server.beat(60, server.inside(server.recv(-1, **HEADER)))
    for rank in (run.rank(1), run.rank(2)):
        rank.beat(60, rank.inside(rank.recv(0)))
    run.write(tmp_path)
    found = [f for f in align(tmp_path, full=True).findings if f.severity == "error"]
    assert found[0].kind == "p2p_mismatch"
    assert "deadlock" not in [f.kind for f in found]


def test_the_receive_from_any_source_that_waits_is_the_last(tmp_path: Path) -> None:
    run = Run(3)
    run.rank(1).send(0)
    run.rank(0).recv(-1, took=1)
    run.rank(0).recv(-1, site="serve.py:2")
    (issue,) = issues(run, tmp_path)
    assert (issue.channel, issue.seq) == (channel(-1), 2)


def test_more_answers_than_a_damaged_log_has_sends(tmp_path: Path) -> None:
    run = Run(2)
    run.rank(1).send(0)
    for _ in range(2):
        run.rank(0).recv(-1, took=1)
    run.rank(0).recv(1)
    assert issues(run, tmp_path) == []


def test_a_group_whose_name_in_the_files_is_not_its_own(tmp_path: Path) -> None:
    run = Run(5)
    for rank in run:
        rank.group("1", [0, 1, 2] if rank.rank < 3 else [3, 4], description="default_pg:split:1")
    run.rank(1).send(0, group="1", **HEADER)
    run.rank(1).send(0, group="1", **BODY)
    run.rank(2).send(0, group="1", **HEADER)
    run.rank(0).recv(-1, took=1, group="1", **HEADER)
    run.rank(0).recv(-1, took=2, group="1", **BODY)
    (issue,) = [i for i in issues(run, tmp_path) if i.attribute != "absent"]
    assert issue.channel == ChannelKey("1 [0-2]", "cpu", 2, 0, 0)


def test_what_was_received_from_any_source_is_counted_by_its_lines(tmp_path: Path) -> None:
    run = Run(2)
    for _ in range(3):
        run.rank(1).send(0, site="push.py:1")
    run.rank(0).recv(-1, took=1, site="serve.py:1")
    run.rank(0).recv(1, site="serve.py:2")
    run.finish()
    run.write(tmp_path)
    first = align(tmp_path, full=True).findings[0]
    assert first.code == "CT704"
    assert "rank 0 received 2 (1 at serve.py:2, 1 at serve.py:1)" in first.cause


def test_sends_are_counted_with_those_that_were_taken_from_any_source(tmp_path: Path) -> None:
    run = Run(2)
    run.rank(1).send(0)
    run.rank(0).recv(-1, took=1)
    run.rank(0).recv(1)
    run.finish()
    run.write(tmp_path)
    first = align(tmp_path, full=True).findings[0]
    assert first.code == "CT704"
    assert "Rank 1 sent 1 message" in first.cause
