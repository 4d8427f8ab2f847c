"""A rank that came alone, by its rank, to what all came to together, and what only looks so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from collectrace.align.judging.circles.alone_by_rank import AloneByRank, alone_by_rank
from collectrace.align.judging.judge import judge
from tests.support.judging import aligned, case_of, errors
from tests.support.stacks import Stacks
from tests.support.synthetic import Rank, Run

SCRIPT = """\
def run():
    for n in range(2):
        take()
        give()
def evaluate():
    run()
    if rank == 2:
        run()
    if keeps:
        run()
    if rank == 2:
        again()
    if rank == 2:
        take()
    run()
    barrier()
def again():
    run()
for step in range(9):
    evaluate()
"""
PLAIN = "".join(
    line if not 9 <= n <= 15 else "    pass\n"
    for n, line in enumerate(SCRIPT.splitlines(keepends=True), 1)
)
"""Without what may be the other end."""
TAKE, GIVE, USUAL, OF_RANK, BY_CHOICE, AGAIN, TAKES, SECOND, END = 3, 4, 6, 8, 10, 12, 14, 15, 16
NAMES = {**dict.fromkeys((TAKE, GIVE), "run"), 18: "again", 20: "<module>"}
"""Of functions, by their lines; elsewhere ``evaluate``."""


def frames(script: Path, *lines: int) -> list[str]:
    return [f"{script}:{n} {NAMES.get(n, 'evaluate')}" for n in (*lines, 20)]


def samples(
    folder: Path,
    *,
    source: str = "",
    world: int = 3,
    steps: int = 3,
    way: tuple[int, ...] = (TAKE, OF_RANK),
    also: int | None = None,
    apart: bool = False,
    elsewhere: int | None = None,
    group: bool = False,
) -> Run:
    """A pipeline runs once a step; in the end its last stage is there once more.

    Args:
        folder: of the script.
        source: the script, if it is not one of these.
        world: stages.
        steps: that all came through.
        way: the lines that led the last stage there.
        also: who came to the line of that once, too.
        apart: whether the last stage is led to each of its runs by a line of its own.
        elsewhere: who has come to something else, and not to the barrier.
        group: whether the barrier is one of the last two stages.

    """
    script = folder / "job.py"
    script.write_text(source or (PLAIN if way[-1] == OF_RANK else SCRIPT))
    run, stacks = Run(world), Stacks()
    last = run.rank(world - 1)
    run.group("few", [world - 2, world - 1])

    def at(rank: Rank, *lines: int) -> dict[str, Any]:
        return stacks.at(rank, *frames(script, *lines))

    if also is not None:
        run.rank(also).send(last.rank, tag=3, **at(run.rank(also), GIVE, OF_RANK))
        last.recv(also, tag=3, **at(last, TAKE, USUAL))
    for _ in range(steps):
        for rank in run:
            led = SECOND if apart and rank is last else USUAL
            for _ in range(2):
                if rank.rank:
                    rank.recv(rank.rank - 1, shape=[12], **at(rank, TAKE, led))
                if rank is not last:
                    rank.send(rank.rank + 1, shape=[12], **at(rank, GIVE, led))
    of = "few" if group else "0"
    for rank in run:
        if rank is last:
            rank.stuck_in(rank.recv(rank.rank - 1, shape=[12], **at(rank, *way)))
        elif rank.rank == elsewhere:
            rank.stuck_in(rank.recv(last.rank, tag=5, **at(rank, TAKES)))
        elif not group or rank.rank == world - 2:
            rank.stuck_in(rank.call("barrier", of, **at(rank, END)))
        else:
            rank.exit()
    return run


def found(folder: Path, **fields: Any) -> list[AloneByRank]:
    """Of each circle of a run."""
    case = case_of(samples(folder, **fields), folder / "logs")
    circles = [one for one in judge(case) if one.kind == "deadlock"]
    assert circles
    return [told for one in circles if (told := alone_by_rank(case, one)) is not None]


def test_one_runs_once_more(tmp_path: Path) -> None:
    (told,) = found(tmp_path)
    assert (told.rank, told.others, told.call.seq) == (2, (0, 1), 7)
    assert told.frame == f"{tmp_path}/job.py:{OF_RANK} evaluate"
    assert told.line == "7     if rank == 2:"


def test_it_is_told_by_which_condition(tmp_path: Path) -> None:
    first = errors(aligned(samples(tmp_path), tmp_path / "logs"))[0]
    assert (first.kind, first.suspects) == ("deadlock", (2,))
    assert "to which no other rank came: it is under `if rank == 2:` (job.py:7)" in first.cause
    assert "let every rank that has a part in its messages come to it" in first.fix


FORKED = SCRIPT.replace("    if keeps:", "    else:")
LEAVING = SCRIPT.replace("        run()\n    if keeps:", "        run(); return\n    if keeps:")


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"source": FORKED}, id="the condition has another arm"),
        pytest.param({"source": LEAVING}, id="what is behind it is another arm"),
        pytest.param({"world": 2}, id="one against one"),
        pytest.param({"group": True}, id="the barrier of two"),
        pytest.param({"steps": 1}, id="a few messages are no habit"),
        pytest.param({"way": (TAKE, BY_CHOICE)}, id="a condition on something else"),
        pytest.param({"way": (TAKE, SECOND)}, id="no condition"),
        pytest.param({"way": (TAKE, 18, AGAIN)}, id="a function of its own"),
        pytest.param({"way": (TAKES,)}, id="its own receive"),
        pytest.param({"way": (TAKE, USUAL)}, id="where all were"),
        pytest.param({"also": 0}, id="another was there"),
        pytest.param({"apart": True}, id="each is led there by lines of its own"),
        pytest.param({"elsewhere": 0}, id="another waits elsewhere"),
    ],
)
def test_it_is_not_proven(fields: dict[str, Any], tmp_path: Path) -> None:
    assert found(tmp_path, **fields) == []
