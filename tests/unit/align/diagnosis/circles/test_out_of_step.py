"""What led a rank past what it left out of its round, in a circle with messages."""

from __future__ import annotations

from pathlib import Path

from collectrace.findings import Finding
from collectrace.records import Call, Stack
from tests.support.judging import aligned, errors
from tests.support.synthetic import Rank, Run

SOURCE = """\
def exchange(rows):
    if rank > 0:
        if changed:
            give(rows)

def part(rows):
    if not rows:
        return rows
    return give(rows)

def train():
    for step in range(9):
        part(exchange(rows))
        agree(loss)
"""
CHANGED, GIVE, PART, AGREE = 4, 9, 13, 14


def told(folder: Path, given: str, *, back: bool = False) -> Finding:
    """Each of four gives to its right at a line of a function, and rank 3 does not in the end.

    ``back``: each gives to its left as well, and takes that last.
    """
    source = folder / "train.py"
    source.write_text(SOURCE)
    run = Run(world=4)
    frames = [[f"{source}:{given}", f"{source}:{PART} train"], [f"{source}:{AGREE} train"]]
    for rank in run:
        for number, stack in enumerate(frames, 1):
            rank.record(Stack(stack=number, frames=stack))

    def message(rank: Rank, op: str, peer: int) -> Call:
        issue = rank.send if op == "send" else rank.recv
        return issue(peer, site=frames[0][0].partition(" ")[0], stack=1)

    for n in range(5):
        for rank in run:
            right, left = (rank.rank + 1) % 4, (rank.rank - 1) % 4
            peers = [right, left][: 1 + back]
            goes_on = n < 4 or rank.rank in (1, 3)
            if n < 4 or rank.rank != 3:
                call = [message(rank, "send", peer) for peer in peers][-1]
                if goes_on or rank.rank == 0:
                    takes = [left, right][: 1 + back] if goes_on else [left]
                    call = [message(rank, "recv", peer) for peer in takes][-1]
            if goes_on:
                site = frames[1][0].partition(" ")[0]
                call = rank.call("all_reduce", site=site, stack=2)
            if n == 4:
                rank.beat(60, rank.inside(call))
    return next(one for one in errors(aligned(run, folder / "logs")) if one.caused_by is None)


def test_the_way_past_it(tmp_path: Path) -> None:
    found = told(tmp_path, f"{GIVE} part")
    assert (found.kind, found.suspects) == ("deadlock", (3,))
    assert "In the source only `if not rows:` (train.py:7), with a return, leads past send" in (
        found.cause
    )
    assert found.fix.startswith("Let all ranks decide together at train.py:7")
    assert "Let rank 3 take part in send" in found.fix


def test_the_condition_around_it_that_is_not_the_same_in_every_round(tmp_path: Path) -> None:
    found = told(tmp_path, f"{CHANGED} exchange")
    assert found.suspects == (3,)
    assert "The send of rank 3 stands under `if changed:` (train.py:3)." in found.cause
    assert "if rank > 0" not in found.cause
    assert found.fix.startswith("Let all ranks decide together at train.py:3")


def test_messages_of_the_last_round_that_do_not_come_out_even_are_its_consequence(
    tmp_path: Path,
) -> None:
    found = told(tmp_path, f"{GIVE} part", back=True)
    assert found.suspects == (3,)
    assert "kept to one round" in found.cause
