"""The rank whose message alone bears another tag, and what only looks like it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from collectrace.align.judging.judge import judge
from collectrace.align.judging.odd_tag import OddTag, odd_tag
from tests.support.judging import aligned, case_of, errors
from tests.support.stacks import Stacks
from tests.support.synthetic import Run


def gossip(
    tags: Mapping[int, int] | None = None,
    *,
    world: int = 4,
    turns: int = 4,
    lines: Mapping[int, str] | None = None,
    without: Sequence[int] = (),
    dropped: Sequence[int] = (),
    from_any: bool = False,
    partners: Sequence[int] = (1, 0, 3, 2, 5, 4),
    told: str = "",
) -> Run:
    """Neighbours in pairs exchange weights under a tag; what differs does so in the last turn.

    Args:
        tags: of a rank; 8 where it is not told.
        world: ranks.
        turns: in all.
        lines: of a rank.
        without: who does not come to the last turn.
        dropped: who lost a call at the beginning.
        from_any: whether rank 2 receives from any.
        partners: of the ranks.
        told: an op by which all are told something at first.

    """
    run, stacks = Run(world), Stacks()
    for n in range(2):
        for rank in run:
            rank.call("barrier", lost=not n and rank.rank in dropped)
    if told:
        run.all(told, dtype="int64", shape=[2], site="plan.py:3")
    for n in range(turns):
        for rank in run:
            is_last = n == turns - 1
            if is_last and rank.rank in without:
                continue
            tag = 8 + n - turns + 1 if not is_last else (tags or {3: 7}).get(rank.rank, 8)
            file, partner = (lines or {}).get(rank.rank, "gossip.py"), partners[rank.rank]
            sends, takes = (stacks.at(rank, f"{file}:{n} gossip") for n in (5, 6))
            rank.send(partner, tag=tag, shape=[5], async_=True, **sends)
            source = -1 if from_any and rank.rank == 2 else partner
            call = rank.recv(source, tag=tag, shape=[5], async_=True, **takes)
            if is_last and rank.rank in (2, 3):
                rank.stuck_in(call)
    for rank in run:
        if rank.rank not in (2, 3) or rank.rank in without:
            rank.exit()
    return run


def found(run: Run, folder: Path) -> list[OddTag | None]:
    """Of each message that met nobody."""
    case = case_of(run, folder)
    absent = [one for one in judge(case) if one.kind == "p2p_unmatched"]
    assert absent
    return [odd_tag(case, one) for one in absent]


@pytest.mark.parametrize("turns", [4, 6])
def test_one_alone_bears_another(turns: int, tmp_path: Path) -> None:
    assert found(gossip(turns=turns), tmp_path) == [OddTag(3, 7, 8, (0, 1))] * 2


@pytest.mark.parametrize(
    ("tags", "told"),
    [({2: 9}, OddTag(2, 9, 8, (0, 1))), ({0: 7, 1: 7, 3: 7}, OddTag(2, 8, 7, (0, 1)))],
)
def test_the_other_of_the_two(tags: Mapping[int, int], told: OddTag, tmp_path: Path) -> None:
    assert found(gossip(tags), tmp_path) == [told] * 2


FAR: dict[str, Any] = {"world": 6, "partners": (4, 5, 3, 2, 0, 1)}
"""Nobody else exchanges with a neighbour."""


@pytest.mark.parametrize(
    ("fields", "others"),
    [(FAR, (0, 1, 4, 5)), ({"dropped": (0,)}, (1,))],
    ids=["none to a peer as far off", "one other"],
)
def test_it_is_enough_that_tags_were_equal_before(
    fields: dict[str, Any], others: tuple[int, ...], tmp_path: Path
) -> None:
    assert found(gossip(turns=4, **fields), tmp_path) == [OddTag(3, 7, 8, others)] * 2
    assert found(gossip(turns=3, **fields), tmp_path / "fewer") == [None] * 2


def test_both_messages_are_one_error(tmp_path: Path) -> None:
    first, other = errors(aligned(gossip(), tmp_path))
    assert (first.kind, first.suspects, other.caused_by) == ("p2p_unmatched", (3,), 0)
    assert "rank 3 pass tag 8" in first.fix


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"tags": {2: 7, 3: 9}}, id="neither has that of all others"),
        pytest.param({"world": 6, "tags": {3: 7, 4: 7, 5: 7}}, id="the others differ"),
        pytest.param({"without": (0, 1)}, id="the others have not come so far"),
        pytest.param({"lines": {0: "other.py", 1: "other.py"}}, id="others from another line"),
        pytest.param({"told": "broadcast"}, id="they may have been told the tag"),
        pytest.param({"lines": {3: "other.py"}}, id="one of the two from a line of its own"),
        pytest.param({"dropped": (0, 1)}, id="all others have logs with gaps"),
        pytest.param({"dropped": (3,)}, id="its log has gaps"),
    ],
)
def test_nobody_is_alone(fields: dict[str, Any], tmp_path: Path) -> None:
    assert {*found(gossip(**fields), tmp_path)} == {None}


def test_receives_from_any_rank(tmp_path: Path) -> None:
    case = case_of(gossip(from_any=True), tmp_path)
    for one in judge(case):
        told = odd_tag(case, one)
        assert told is None or told.rank == 3


def test_a_message_that_went_to_another_rank(tmp_path: Path) -> None:
    """Not its tag is another."""
    run = Run(4)
    for rank in run:
        rank.send(rank.rank ^ 1 if rank.rank != 3 else 1, shape=[5], site="g.py:5", async_=True)
        rank.stuck_in(rank.recv(rank.rank ^ 1, shape=[5], site="g.py:6"))
    assert {*found(run, tmp_path)} == {None}
