"""What is said of messages that no recorded run has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from collectrace.align import align
from collectrace.findings import Finding
from tests.support.marks import Script
from tests.support.synthetic import Rank, Run

FIRST, SECOND = "/job/train.py:7", "/job/train.py:8"


def _roots(run: Run, folder: Path) -> list[Finding]:
    """The errors of a run that no other has led to."""
    found = align(run.write(folder)).findings
    return [one for one in found if one.severity == "error" and one.caused_by is None]


def _wait(rank: Rank, call: Any) -> None:
    rank.beat(30, rank.inside(call))


@pytest.mark.parametrize("is_all_known", [True, False])
def test_two_receive_buffers_are_exchanged(tmp_path: Path, *, is_all_known: bool) -> None:
    run = Run(2)
    sender, receiver = run
    sender.send(1, tag=1, shape=[24], site=FIRST)
    sender.send(1, tag=2, shape=[16], site=SECOND)
    receiver.recv(0, tag=1, shape=[16], site=FIRST)
    if is_all_known:
        receiver.recv(0, tag=2, shape=[24], site=SECOND)
    run.finish()

    found = _roots(run, tmp_path)[0]

    assert found.code == "CT708"
    assert "tags 1 and 2 are swapped" in found.headline
    assert "pad" not in found.fix


@pytest.mark.parametrize(
    ("sent", "awaited", "told"),
    [
        ([4, 8, 8, 4], [4, 8, 4, 8, 4], "rank 0 left out 1 send,"),
        ([4, 8, 6, 2, 5], [4, 8, 2, 5], "rank 1 left out 1 recv,"),
        ([4, 8, 6, 8], [4, 8, 4, 8], ""),  # one odd size, and the next fits again
        ([4, 8, 8], [4, 8, 4, 8], ""),  # one fit alone proves nothing
    ],
)
def test_a_message_is_left_out_if_all_behind_it_fit_the_next(
    sent: list[int], awaited: list[int], told: str, tmp_path: Path
) -> None:
    run = Run(2)
    sender, receiver = run
    for size in sent:
        sender.send(1, shape=[size], site=FIRST)
    for size in awaited:
        receiver.recv(0, shape=[size], site=SECOND)
    run.finish()

    found = _roots(run, tmp_path)[0]

    assert found.code == ("CT708" if told else "CT707")
    assert told in found.cause


@pytest.mark.parametrize(("cut", "code"), [(False, "CT708"), (True, "CT707")])
def test_a_receive_that_is_lost_may_not_be_swapped(tmp_path: Path, *, cut: bool, code: str) -> None:
    run = Run(2)
    sender, receiver = run
    for size in (4, 2, 4):
        sender.send(1, shape=[size], site=FIRST)
    for size in (4, 4):
        receiver.recv(0, shape=[size], site=SECOND)
    if cut:
        receiver.raw(b'{"kind":"call","t":12')
    sender.exit()

    assert _roots(run, tmp_path)[0].code == code


def test_line_of_a_receive_that_one_rank_makes_is_told_first(tmp_path: Path) -> None:
    run = Run(4)
    for _ in range(3):
        run.all("all_reduce", shape=[2], site="/job/train.py:5")
    for rank in run:
        if rank.rank == 1:
            _wait(rank, rank.recv(0, shape=[3], site=FIRST))
        else:
            _wait(rank, rank.call("barrier", site=SECOND))

    (found,) = _roots(run, tmp_path)

    assert found.headline.index("recv from rank 0 (train.py:7)") < found.headline.index("barrier")


def test_messages_in_a_wrong_group_repeat_in_each_pair(tmp_path: Path) -> None:
    run = Run(4)
    for name, pair in ("1", [0, 1]), ("2", [2, 3]):
        run.group(name, pair, site="/job/train.py:3")
        run.all("all_reduce", name, shape=[2], site="/job/train.py:5")
    for rank in run:
        if rank.rank % 2:
            group = "1" if rank.rank == 1 else "2"
            _wait(rank, rank.recv(rank.rank - 1, group=group, shape=[3], site=SECOND))
        else:
            _wait(rank, rank.send(rank.rank + 1, shape=[3], site=FIRST))

    (found,) = _roots(run, tmp_path)

    assert found.code == "CT705"
    assert "(and 1 more alike)" in found.headline
    assert "between ranks 2-3" in " ".join(found.notes)


MICROBATCHES = """\
for micro in range(4):
    if rank > 0:
        dist.recv(x, rank - 1)  # TAKE
    if rank < world - 1 and micro != 2:
        dist.send(x, rank + 1)  # GIVE
dist.barrier()  # MEET
"""


def test_a_condition_on_the_rank_and_more_explains_a_send_that_lacks(tmp_path: Path) -> None:
    script, run = Script(tmp_path, MICROBATCHES), Run(3)
    zero, one, two = run
    for micro in range(4):
        if micro == 3:
            one.stuck_in(one.recv(0, **script.at(one, "TAKE")))
        else:
            one.recv(0, **script.at(one, "TAKE"))
        if micro != 2:
            zero.send(1, **script.at(zero, "GIVE"))
        if micro < 2:
            one.send(2, **script.at(one, "GIVE"))
            two.recv(1, **script.at(two, "TAKE"))
    two.stuck_in(two.recv(1, **script.at(two, "TAKE")))
    zero.stuck_in(zero.call("barrier", **script.at(zero, "MEET")))
    run.write(tmp_path / "logs")
    finding = align(tmp_path / "logs").findings[0]
    assert finding.code == "CT701"
    assert "`if rank < world - 1 and micro != 2:`" in finding.cause
    assert finding.fix.startswith("Let both ends of the message decide alike at `if rank")


def test_a_message_that_is_still_awaited_has_its_other_end_elsewhere(tmp_path: Path) -> None:
    run = Run(2)
    for rank, call in ((0, run.rank(0).send(1, tag=7)), (1, run.rank(1).recv(0, tag=8))):
        run.rank(rank).beat(3, run.rank(rank).inside(call))
    run.write(tmp_path)
    (finding,) = align(tmp_path).findings
    assert finding.code == "CT318"
    assert finding.headline.startswith("rank 0 had not made the other end of recv from rank 0 ")
