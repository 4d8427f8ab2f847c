"""Point-to-point channels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from collectrace.align.alignment import compared, judged
from collectrace.align.matching.comparison import ChannelIssue
from collectrace.align.reading.evidence import ChannelKey
from collectrace.align.reading.run_reader import read
from tests.support.synthetic import Run


def issues(run: Run, tmp_path: Path) -> list[ChannelIssue]:
    run.write(tmp_path)
    scanned = compared(read(tmp_path, full=True))
    assert scanned.divergences == ()
    skimmed = compared(read(tmp_path, small=0, page=256))
    assert skimmed.channels == scanned.channels
    return list(scanned.channels)


def channel(source: int, destination: int, tag: int = 0) -> ChannelKey:
    return ChannelKey("0", "cpu", source, destination, tag)


def test_messages_that_fit(tmp_path: Path) -> None:
    run = Run(2)
    for n in range(5):
        run.rank(0).send(1, shape=[n])
        run.rank(1).recv(0, shape=[n, 1])
        run.all("all_reduce")
    assert issues(run, tmp_path) == []


def test_messages_that_were_not_read_prove_nothing(tmp_path: Path) -> None:
    run = Run(2)
    for n in range(400):
        run.rank(0).send(1, shape=[n])
        run.rank(1).recv(0, shape=[n + (n == 200)])
    run.finish()
    run.write(tmp_path)
    (issue,) = compared(read(tmp_path, full=True)).channels
    assert issue.seq == 201
    skimmed = compared(read(tmp_path, small=0, page=256))
    assert skimmed.channels == ()
    assert [(fact.rank, fact.why) for fact in skimmed.unproven] == [(0, "unread"), (1, "unread")]
    assert judged(skimmed).status == "unknown"


def test_both_orders_of_a_bidirectional_batch(tmp_path: Path) -> None:
    run = Run(2)
    for rank in run:
        peer = 1 - rank.rank
        for step in range(3):
            first, second = (
                (rank.send, rank.recv) if (step + rank.rank) % 2 else (rank.recv, rank.send)
            )
            first(peer, tag=2)
            second(peer, tag=2)
    assert issues(run, tmp_path) == []


@pytest.mark.parametrize(
    ("sent", "received", "attribute"),
    [({"dtype": "float32"}, {"dtype": "int64"}, "dtype"), ({"shape": [3]}, {"shape": [4]}, "count"),
     ({"shape": []}, {"shape": [2]}, "count")],
)  # fmt: skip
def test_the_first_message_that_does_not_fit(
    sent: dict[str, Any], received: dict[str, Any], attribute: str, tmp_path: Path
) -> None:
    run = Run(2)
    run.rank(0).send(1)
    run.rank(1).recv(0)
    run.rank(0).send(1, site="a.py:1", **sent)
    run.rank(1).recv(0, site="b.py:2", **received)
    run.rank(0).send(1)
    (issue,) = issues(run, tmp_path)
    assert (issue.channel, issue.seq, issue.attribute) == (channel(0, 1), 2, attribute)
    assert issue.send is not None
    assert issue.recv is not None
    assert (issue.send.site, issue.recv.site) == ("a.py:1", "b.py:2")


def test_five_sends_against_four_receives(tmp_path: Path) -> None:
    run = Run(2)
    for n in range(5):
        run.rank(0).send(1, site=f"train.py:{n}")
        if n < 4:
            run.rank(1).recv(0)
    (issue,) = issues(run, tmp_path)
    assert (issue.channel, issue.seq, issue.attribute) == (channel(0, 1), 5, "absent")
    assert issue.send is not None
    assert issue.send.site == "train.py:4"
    assert issue.recv is None


@pytest.mark.parametrize(
    ("sent", "received", "differs"),
    [({"peer": 1, "tag": 3}, (1, {"peer": 0, "tag": 4}), "tag"),
     ({"peer": 2}, (1, {"peer": 0}), "destination"),
     ({"peer": 2}, (2, {"peer": 1}), "source"),
     ({"peer": 1, "group": "1"}, (1, {"peer": 0}), "group")],
)  # fmt: skip
def test_a_message_that_differs_in_one_thing_is_near(
    sent: dict[str, Any], received: tuple[int, dict[str, Any]], differs: str, tmp_path: Path
) -> None:
    run = Run(3)
    run.group("1", [0, 1])
    run.rank(0).send(**sent)
    receiver, fields = received
    run.rank(receiver).recv(**fields)
    (issue,) = issues(run, tmp_path)
    assert issue.channel == channel(fields["peer"], receiver, fields.get("tag", 0))
    assert issue.near is not None
    assert issue.near.differs == differs


def test_receives_from_any_source_take_what_is_left_over(tmp_path: Path) -> None:
    run = Run(3)
    run.rank(1).send(0)
    run.rank(2).send(0)
    run.rank(2).send(0)
    run.rank(0).recv(2)
    run.rank(0).recv(-1)
    run.rank(0).recv(-1)
    assert issues(run, tmp_path) == []


def test_ends_that_differ_in_more_than_the_tag_are_two_messages(tmp_path: Path) -> None:
    run = Run(2)
    run.rank(0).send(1, tag=3, shape=[5])
    run.rank(1).recv(0, tag=4, shape=[1])
    assert [(one.channel, one.near) for one in issues(run, tmp_path)] == [
        (channel(0, 1, 3), None),
        (channel(0, 1, 4), None),
    ]


@pytest.mark.parametrize("tags", [2, 1])
def test_a_line_with_several_tags_may_pass_a_wrong_one(tags: int, tmp_path: Path) -> None:
    run = Run(2)
    for tag in range(tags):
        run.rank(0).send(1, tag=tag, site="stage.py:1")
        run.rank(1).recv(0, tag=tag, site="stage.py:2")
    run.rank(1).recv(0, tag=tags, site="stage.py:2" if tags > 1 else "other.py:1")
    run.rank(0).send(1, tag=tags, site="stage.py:1" if tags > 1 else "other.py:2")
    run.rank(0).send(1, tag=0, site="stage.py:1")
    run.rank(1).recv(0, tag=tags, site="stage.py:2" if tags > 1 else "other.py:1")
    found = issues(run, tmp_path)
    assert [one.near is not None and one.near.differs for one in found] == (
        ["tag"] if tags > 1 else [False, False]
    )


def test_a_receive_from_any_source_too_many(tmp_path: Path) -> None:
    run = Run(3)
    run.rank(1).send(0)
    run.rank(0).recv(-1)
    run.rank(0).recv(-1, site="any.py:2")
    (issue,) = issues(run, tmp_path)
    assert (issue.channel, issue.seq) == (channel(-1, 0), 2)
    assert issue.recv is not None
    assert issue.recv.site == "any.py:2"


def test_a_send_too_many_for_receives_from_any_source(tmp_path: Path) -> None:
    run = Run(3)
    run.rank(1).send(0)
    run.rank(0).recv(-1)
    run.rank(2).wait(5)
    run.rank(2).send(0, site="late.py:1")
    (issue,) = issues(run, tmp_path)
    assert (issue.channel, issue.seq) == (channel(2, 0), 1)
    assert issue.send is not None
    assert issue.send.site == "late.py:1"


def test_a_rank_without_a_log_proves_nothing(tmp_path: Path) -> None:
    run = Run(3)
    run.rank(0).send(1)
    run.rank(2).recv(1)
    run.rank(0).recv(-1)
    run.omit(1)
    assert issues(run, tmp_path) == []


def test_void_messages_fit_anything(tmp_path: Path) -> None:
    run = Run(2)
    run.rank(0).send(1, void=True)
    run.rank(1).recv(0, shape=[7])
    assert issues(run, tmp_path) == []


def test_lost_messages_count(tmp_path: Path) -> None:
    run = Run(2)
    run.rank(0).send(1, lost=True)
    run.rank(0).send(1, shape=[2])
    run.rank(1).recv(0)
    run.rank(1).recv(0, shape=[2])
    assert issues(run, tmp_path) == []


def test_a_message_too_many_in_the_middle_of_a_large_log(tmp_path: Path) -> None:
    run = Run(2, checkpoint=2000)
    run.rank(0).send(1, site="early.py:1")
    for _ in range(700):
        run.all("all_reduce")
    run.finish()
    (issue,) = issues(run, tmp_path)
    assert issue.send is not None
    assert issue.send.site == "early.py:1"


def test_tracing_that_begins_late_cannot_count(tmp_path: Path) -> None:
    run = Run(2, default_group=False)
    run.rank(0).group("0", [0, 1])
    run.rank(0).send(1)
    run.rank(0).call("barrier")
    run.rank(1).group("0", [0, 1], phase="ready", start_seq=1)
    assert issues(run, tmp_path) == []


def _of_groups(*groups: list[int]) -> Run:
    run = Run(max(map(max, groups)) + 1)
    for n, ranks in enumerate(groups, 1):
        run.group(str(n), ranks)
    return run


def test_ranks_in_a_group_named_as_global_ones(tmp_path: Path) -> None:
    run = _of_groups([0, 1], [2, 3])
    run.rank(0).send(1)
    run.rank(1).recv(0)
    run.rank(2).send(1)
    run.rank(3).recv(0)
    (issue,) = issues(run, tmp_path)
    assert issue.near is not None
    assert issue.near.differs == "numbering"
    assert (issue.channel, issue.near.channel) == (channel(0, 3), channel(2, 1))
    assert issue.near.numbered is not None
    assert issue.near.numbered.ranks == (2, 3)


@pytest.mark.parametrize(("dst", "src", "differs"), [(1, 2, "destination"), (3, 0, "source")])
def test_one_end_names_the_other_by_its_rank_in_a_group(
    dst: int, src: int, differs: str, tmp_path: Path
) -> None:
    run = _of_groups([0, 1], [2, 3])
    run.rank(2).send(dst)
    run.rank(3).recv(src)
    (issue,) = issues(run, tmp_path)
    assert issue.near is not None
    assert issue.near.differs == differs
    assert issue.near.numbered is not None
    assert issue.near.numbered.ranks == (2, 3)


@pytest.mark.parametrize(
    ("groups", "dst", "src"),
    [([[0, 1], [2, 3, 4]], 0, 1), ([[0, 1], [1, 2, 3]], 1, 0), ([[0, 1, 2, 3]], 1, 0)],
    ids=["other way round", "other numbers", "own numbers"],
)
def test_numbers_of_no_group(groups: list[list[int]], dst: int, src: int, tmp_path: Path) -> None:
    run = _of_groups(*groups)
    run.rank(2).send(dst)
    run.rank(3).recv(src)
    assert [issue.near for issue in issues(run, tmp_path)] == [None, None]


def test_messages_that_had_met_before_are_not_taken_for_numbers(tmp_path: Path) -> None:
    run = _of_groups([0, 1], [2, 3])
    run.rank(2).send(1)
    run.rank(1).recv(2)
    run.rank(2).send(1)
    run.rank(3).recv(0)
    assert [issue.near for issue in issues(run, tmp_path)] == [None, None]


def test_a_receive_that_names_a_rank_does_not_meet_what_one_from_any_source_has_taken(
    tmp_path: Path,
) -> None:
    run = Run(2)
    for _ in range(2):
        run.rank(1).send(0, dtype="int64", shape=[2])
        run.rank(1).send(0, shape=[4])
        run.rank(0).recv(-1, dtype="int64", shape=[2])
        run.rank(0).recv(1, shape=[4])
    assert issues(run, tmp_path) == []
