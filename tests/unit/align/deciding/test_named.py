"""From the records of a run to the statements that can have led to its findings."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest

from collectrace import findings
from collectrace.align.code import decide
from collectrace.align.code.graph import Way
from collectrace.align.code.origins import Origin
from collectrace.findings import Decision
from tests.unit.align.deciding.program import Program

SKIPS = """\
import torch.distributed as dist

def step(loss):
    dist.all_reduce(loss)  # FIRST
    if loss.isfinite():  # DECIDES
        dist.broadcast(loss, 0)  # SECOND

for loss in losses:
    step(loss)  # MAIN
"""

MAIN = ("MAIN", "<module>")
FIRST, SECOND = ("FIRST", "step"), ("SECOND", "step")


def skips(folder: Path) -> Program:
    """Rank 1 goes on to the next iteration without the broadcast."""
    program = Program(folder, SKIPS)
    for rank in 0, 1:
        program.call(rank, "all_reduce", FIRST, MAIN)
        program.call(rank, "broadcast", SECOND, MAIN)
        program.call(rank, "all_reduce", FIRST, MAIN)
    call = program.call(0, "broadcast", SECOND, MAIN)
    program.run.rank(0).stuck_in(call)
    return program


def sides(decision: Decision) -> dict[int, str | None]:
    return {side.rank: side.did for side in decision.sides}


def test_another_call(tmp_path: Path) -> None:
    program = skips(tmp_path)
    program.run.rank(1).stuck_in(program.call(1, "all_reduce", FIRST, MAIN))
    [found] = program.decisions()
    assert found.site == f"{program.path}:{program.line('DECIDES')}"
    assert (found.text, found.function) == ("if loss.isfinite():  # DECIDES", "step")
    assert sides(found) == {0: "taken", 1: "not_taken"}
    assert "data" in found.depends_on
    assert found.strength == "only"


def test_the_end(tmp_path: Path) -> None:
    program = skips(tmp_path)
    program.run.rank(1).exit()
    [found] = program.decisions()
    assert found.text == "if loss.isfinite():  # DECIDES"
    assert sides(found) == {0: "taken", 1: "not_taken"}


def test_an_exception_whose_functions_are_not_recorded(tmp_path: Path) -> None:
    text = SKIPS.replace("if loss.isfinite():", "if not loss.isfinite():").replace(
        "        dist.broadcast(loss, 0)  # SECOND",
        "        raise ValueError  # RAISES\n    dist.broadcast(loss, 0)  # SECOND",
    )
    program = Program(tmp_path, text)
    for rank in 0, 1:
        program.call(rank, "all_reduce", FIRST, MAIN)
    program.run.rank(0).stuck_in(program.call(0, "broadcast", SECOND, MAIN))
    program.run.rank(1).exit(
        "exception",
        error="ValueError",
        site=f"{program.path}:{program.line('RAISES')}",
        through=[f"{program.path}:{program.line('MAIN')}"],
    )
    [found] = program.decisions()
    assert found.text == "if not loss.isfinite():  # DECIDES"
    assert sides(found) == {0: "not_taken", 1: "taken"}


def test_a_silent_rank_is_where_its_stacks_show_it(tmp_path: Path) -> None:
    text = SKIPS + "    if slow:  # SLOW\n        wait()  # WAITS\n"
    program = Program(tmp_path, text)
    for rank in 0, 1:
        program.call(rank, "all_reduce", FIRST, MAIN)
        program.call(rank, "broadcast", SECOND, MAIN)
    program.run.rank(0).stuck_in(program.call(0, "all_reduce", FIRST, MAIN))
    one = program.run.rank(1)
    one.stall(stacks={"MainThread": [program.frame("WAITS", "<module>")]})
    one.beat(60)
    condition, waits = program.decisions()
    assert (condition.text, sides(condition)[1]) == ("if slow:  # SLOW", "taken")
    # Rank 0 may have waited, too, and come out of it.
    assert (waits.text, sides(waits)) == ("wait()  # WAITS", {0: "next", 1: "calls"})


KEEPS = """\
import torch.distributed as dist

def merge(found):
    if not found.any():  # EMPTY
        return
    dist.all_reduce(found)  # MERGED

def add(found, keeper, mine):
    dist.all_reduce(mine)  # FIRST
    if keeper.decides():  # KEEPER
        merge(found)  # MERGES
    dist.broadcast(found, 0)  # LAST

for found in searched():
    add(found, keeper, mine)  # MAIN
"""


def test_a_rank_that_may_not_have_run_a_function_did_nothing_in_it(tmp_path: Path) -> None:
    program = Program(tmp_path, KEEPS)
    for rank in 0, 1:
        program.call(rank, "all_reduce", ("FIRST", "add"), MAIN)
    merged = program.call(0, "all_reduce", ("MERGED", "merge"), ("MERGES", "add"), MAIN)
    program.run.rank(0).stuck_in(merged)
    program.run.rank(1).stuck_in(program.call(1, "broadcast", ("LAST", "add"), MAIN))
    found = {one.text.rpartition("# ")[2]: sides(one) for one in program.decisions()}
    assert found == {"KEEPER": {0: "taken", 1: None}, "EMPTY": {0: "not_taken", 1: None}}


BORDERS = """\
import torch.distributed as dist

def swap(rank, border):
    if rank < border.peer:  # LOWER
        dist.send(border.edge, border.peer)  # SENDS
    else:
        dist.recv(border.ghost, border.peer)  # TAKES

for step in range(9):
    dist.barrier()  # BEGINS
    swap(rank, next(borders))  # MAIN
"""


def test_the_rank_does_not_explain_what_it_did_otherwise_than_before(tmp_path: Path) -> None:
    program = Program(tmp_path, BORDERS)
    sends, takes = (("SENDS", "swap"), MAIN), (("TAKES", "swap"), MAIN)
    one, two = program.run.rank(0), program.run.rank(1)
    for step in range(5):
        for rank in 0, 1:
            program.call(rank, "barrier", ("BEGINS", "<module>"))
        sent = one.send(1, **program.at(one, *sends))
        if step < 4:
            two.recv(0, **program.at(two, *takes))
    one.stuck_in(sent)
    two.stuck_in(two.send(0, **program.at(two, *sends)))
    [found] = program.decisions()
    assert [(side.rank, side.did) for side in found.sides] == [(1, "taken"), (1, "not_taken")]
    assert "rank" not in found.depends_on


VOTES = """\
import torch.distributed as dist

def step(vote, mine):
    dist.all_reduce(vote)  # VOTE
    if vote:  # AGREED
        if mine:  # OWN
            dist.broadcast(mine, 0)  # SECOND
    dist.barrier()  # THIRD

step(vote, mine)  # MAIN
"""


@pytest.mark.parametrize(("done", "expected"), [(1, ["OWN"]), (0, ["AGREED", "OWN"])])
def test_a_completed_result_of_both_cannot_decide(
    done: int, expected: list[str], tmp_path: Path
) -> None:
    program = Program(tmp_path, VOTES)
    for rank in 0, 1:
        program.call(rank, "all_reduce", ("VOTE", "step"), MAIN)
        program.run.rank(rank).done(done)
    program.run.rank(0).stuck_in(program.call(0, "broadcast", SECOND, MAIN))
    program.run.rank(1).stuck_in(program.call(1, "barrier", ("THIRD", "step"), MAIN))
    assert [one.text.rpartition(" ")[2] for one in program.decisions()] == expected


def test_a_result_of_a_group_of_one_side_decides(tmp_path: Path) -> None:
    program = Program(tmp_path, VOTES, world=4)
    for name, members in {"left": [0, 1], "right": [2, 3]}.items():
        program.run.group(name, members)
    for rank in range(4):
        group = "left" if rank < 2 else "right"
        program.call(rank, "all_reduce", ("VOTE", "step"), MAIN, group=group)
        program.run.rank(rank).done(1, group)
    for rank in 0, 1, 2:
        program.run.rank(rank).stuck_in(program.call(rank, "broadcast", SECOND, MAIN))
    program.run.rank(3).stuck_in(program.call(3, "barrier", ("THIRD", "step"), MAIN))
    assert [one.text.rpartition(" ")[2] for one in program.decisions()] == ["AGREED", "OWN"]


TWO_GROUPS = """\
import torch.distributed as dist

def step(x):
    dist.all_reduce(x)  # FIRST
    if early:  # BEFORE
        return
    dist.all_reduce(x, group=other)  # BETWEEN
    if late:  # AFTER
        return
    dist.broadcast(x, 0)  # SECOND

step(x)  # MAIN
"""


def test_the_last_common_call_may_be_in_another_group(tmp_path: Path) -> None:
    program = Program(tmp_path, TWO_GROUPS)
    program.run.group("other", [0, 1])
    for rank in 0, 1:
        program.call(rank, "all_reduce", FIRST, MAIN)
        program.call(rank, "all_reduce", ("BETWEEN", "step"), MAIN, group="other")
    program.run.rank(0).stuck_in(program.call(0, "broadcast", SECOND, MAIN))
    program.run.rank(1).exit()
    [found] = program.decisions()
    assert (found.text, found.strength) == ("if late:  # AFTER", "only")


NEXT_ROUND = """\
import torch.distributed as dist

def step(x):
    dist.all_reduce(x)  # FIRST
    if one:  # ONE
        dist.broadcast(x, 0)  # SECOND
    if two:  # TWO
        dist.barrier()  # THIRD

for x in xs:
    step(x)  # MAIN
"""


@pytest.mark.parametrize(
    ("first", "expected"),
    [
        ("dist.all_reduce(x)", ["ONE"]),
        # A rank that is no member of the group leaves no record.
        ("dist.all_reduce(x, group=group)", ["ONE", "TWO"]),
    ],
)
def test_no_way_leads_through_a_call_that_would_have_been_recorded(
    first: str, expected: list[str], tmp_path: Path
) -> None:
    program = Program(tmp_path, NEXT_ROUND.replace("dist.all_reduce(x)", first))
    for rank in 0, 1:
        program.call(rank, "all_reduce", FIRST, MAIN)
    program.run.rank(0).stuck_in(program.call(0, "broadcast", SECOND, MAIN))
    program.run.rank(1).stuck_in(program.call(1, "barrier", ("THIRD", "step"), MAIN))
    assert [one.text.rpartition(" ")[2] for one in program.decisions()] == expected


REPORTS = """\
import torch.distributed as dist

if rank == 0:  # ROLE
    for row in rows:
        dist.recv(row, 1)  # TAKES
        dist.barrier()  # MEETS
else:
    for row in rows:
        if row.any():  # DECIDES
            dist.send(row, 0)  # SENDS
        dist.barrier()  # MET
"""


def test_a_sender_is_compared_with_what_it_usually_does(tmp_path: Path) -> None:
    program = Program(tmp_path, REPORTS)
    zero, one = program.run
    for _ in range(3):
        zero.recv(1, **program.at(zero, ("TAKES", "<module>")))
        one.send(0, **program.at(one, ("SENDS", "<module>")))
        program.call(0, "barrier", ("MEETS", "<module>"))
        program.call(1, "barrier", ("MET", "<module>"))
    zero.stuck_in(zero.recv(1, **program.at(zero, ("TAKES", "<module>"))))
    one.stuck_in(program.call(1, "barrier", ("MET", "<module>")))
    [found] = program.decisions()
    assert found.text == "if row.any():  # DECIDES"
    assert [(side.rank, side.did) for side in found.sides] == [(1, "not_taken"), (1, "taken")]


def test_a_failure_costs_the_decisions_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = skips(tmp_path)
    program.run.rank(1).exit()
    usual = program.align()

    def fails(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(decide, "decide", fails)
    broken = program.align()
    assert [one.decisions for one in broken.findings] == [None] * len(usual.findings)
    assert [(f.kind, f.seq, f.suspects) for f in broken.findings] == [
        (f.kind, f.seq, f.suspects) for f in usual.findings
    ]
    [fault] = broken.internal_errors or ()
    assert (fault.part, fault.error) == ("decisions", "ZeroDivisionError")


def test_without_the_source_there_are_none(tmp_path: Path) -> None:
    program = skips(tmp_path)
    program.run.rank(1).exit()
    program.path.unlink()
    assert program.decisions() == []


def test_every_outcome_and_every_origin_has_a_word() -> None:
    assert {one.value for one in Way} == set(get_args(findings.Way))
    assert {one.value for one in Origin} == set(get_args(findings.DependsOn))


LEADER = """\
import torch.distributed as dist

rank = dist.get_rank()
for epoch in range(4):
    dist.all_reduce(x)  # FIRST
    try:
        if rank != 0:
            dist.barrier()  # FOLLOWS
        prepare(epoch)
        if rank == 0:
            dist.barrier()  # LEADS
    except ValueError:  # HANDLER
        pass
    dist.broadcast(x, 0)  # LAST
"""


def test_a_rank_that_usually_meets_others_from_its_own_line_is_compared_with_itself(
    tmp_path: Path,
) -> None:
    program = Program(tmp_path, LEADER, world=3)
    for rank in range(3):
        for epoch in range(3):
            program.call(rank, "all_reduce", ("FIRST", "<module>"))
            is_last = epoch == 2
            if rank or not is_last:
                mark = "FOLLOWS" if rank else "LEADS"
                call = program.call(rank, "barrier", (mark, "<module>"))
            if not rank or not is_last:
                call = program.call(rank, "broadcast", ("LAST", "<module>"), root=0)
        program.run.rank(rank).stuck_in(call)
    [found] = program.decisions()
    assert found.text == "except ValueError:  # HANDLER"
    assert [(side.rank, side.did) for side in found.sides] == [(0, None), (0, "no_handler")]
    assert found.strength == "only"
