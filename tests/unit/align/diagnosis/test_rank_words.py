"""What ranks were doing, and how they ended, in words."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from collectrace.align.diagnosis import rank_words
from collectrace.align.ranks.standing import Standing, Waiting
from collectrace.align.reading.evidence import RankLog
from collectrace.align.reading.stack_dumps import StackDumps
from collectrace.dumps import Dump
from collectrace.findings import State
from collectrace.records import Activity, Exit, Stall
from tests.support.judging import case_of
from tests.support.synthetic import SECOND, Run

END = 1000 * SECOND
STACKS = {"MainThread": ["/job/my code/train.py:60 main", "/job/my code/data.py:12 decode"]}


def log(**fields: Any) -> RankLog:
    """As much of a log as the words of a rank ask for."""
    known = {"exit": None, "stall": None, "last_call": None, "stack_dumps": StackDumps()}
    return cast(RankLog, SimpleNamespace(**(known | fields)))


def standing(state: State, found: RankLog | None = None, **fields: Any) -> Standing:
    return Standing(3, state, "gone", end=END, log=found, **fields)


def waiting(**fields: Any) -> tuple[Waiting, ...]:
    one = Waiting(3, "MainThread", "call", END - 61 * SECOND, "0", "all_reduce")
    return (replace(one, **fields),)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (standing("missing"), "left no file"),
        (standing("finished"), ""),
        (standing("finished", disabled=True), "tracing was switched off"),
        (standing("running"), ""),
        (standing("blocked", waiting=waiting(seq=29, site="/job/train.py:43")),
         "in all_reduce at train.py:43 for 61 s (call 29 of the default group)"),
        (standing("blocked", waiting=waiting(op="")), "in a collective for 61 s"),
        (standing("busy"), "no collective so far"),
        (standing("busy", doing="batch"), "fetching a batch"),
        (standing("busy", last_issued=END - 10 * SECOND),
         "in no collective 10 s after its last call"),
        (standing("busy", doing="backward", last_issued=END - 10 * SECOND),
         "in backward() 10 s after its last call"),
        (standing("busy", doing="sync", last_issued=END),
         "synchronising its device right after its last call"),
        (standing("busy", doing="what comes next", last_issued=END),
         "in no collective right after its last call"),
        (standing("raised", log(exit=Exit(reason="finished", code=3))), "sys.exit(3)"),
        (standing("raised", log(exit=Exit(reason="exception", error="ValueError", message="no",
                                          site="/job/train.py:9"))),
         "ValueError: no at train.py:9"),
        (standing("silent", behind=20 * SECOND),
         "its file ends 20 s before the last of its peers'"),
        (standing("died", log(), behind=20 * SECOND),
         "its file ends 20 s before the last of its peers'"),
        (standing("died", log(), behind=20 * SECOND, lost_by_peer=True),
         "ended without a word; its peers lost the connection"),
        (standing("died", log(stack_dumps=StackDumps(end=Dump())), lost_by_peer=True),
         "ended by SIGTERM"),
        (standing("died", log(stack_dumps=StackDumps(end=Dump(fatal="Aborted", stacks=STACKS)))),
         "fatal error: Aborted at data.py:12"),
        (standing("died", log(stack_dumps=StackDumps(held=Dump(stacks=STACKS))), behind=SECOND),
         "its file ends 1.0 s before the last of its peers'"),
    ],
)  # fmt: skip
def test_what_a_rank_was_doing(found: Standing, words: str) -> None:
    assert rank_words.detail(found) == words


@pytest.mark.parametrize(
    ("ranks", "found", "words"),
    [
        ((3,), standing("busy"), "rank 3 is busy, in no collective"),
        ((3, 4), standing("busy"), "ranks 3-4 are busy, in no collective"),
        ((3,), standing("busy", log(stall=Stall(stacks=STACKS))), "rank 3 is busy at data.py:12"),
        ((3,), standing("silent"), "rank 3 stands still"),
        ((3, 4), standing("silent"), "ranks 3-4 stand still"),
        ((3,), standing("running"), "rank 3 was elsewhere"),
        ((3, 4), standing("running"), "ranks 3-4 were elsewhere"),
        ((3,), standing("blocked", waiting=waiting(site="/job/train.py:43")),
         "rank 3 waits in all_reduce at train.py:43"),
        ((3, 4), standing("blocked", waiting=waiting()), "ranks 3-4 wait elsewhere"),
        ((3, 4), standing("died", log()), "ranks 3-4 died"),
        ((3,), standing("missing"), "rank 3 left no file"),
        ((3,), standing("raised", log(exit=Exit(reason="finished", code=3))),
         "rank 3 raised an exception"),
        # Words of a log are left as they are, whatever the number of ranks.
        ((3, 4), standing("raised", log(exit=Exit(reason="exception", error="ValueError",
                                                  site="/job/stands.py:9"))),
         "ranks 3-4 raised ValueError at stands.py:9"),
    ],
)  # fmt: skip
def test_what_ranks_did_instead_of_a_call(
    ranks: tuple[int, ...], found: Standing, words: str, tmp_path: Path
) -> None:
    run = Run(5)
    run.all("all_reduce")
    known = case_of(run, tmp_path)
    case = replace(known, standings={**known.standings, 3: found})
    assert rank_words.instead(case, ranks, None) == words


@pytest.mark.parametrize(
    ("message", "through", "words"),
    [
        ("no", [], ""),
        ("no", ["/job/train.py:60"], " The function was called at train.py:60."),
        (
            "no",
            ["/job/my code/data.py:30", "/job/train.py:60", "/job/train.py:80"],
            " The function was called at data.py:30, reached from train.py:60.",
        ),
        (
            (
                "Original Traceback (most recent call last):\n"
                '  File "/job/data.py", line 12, in decode\nValueError: corrupt'
            ),
            ["/job/train.py:60"],
            "",
        ),
    ],
    ids=["the module's own line", "one", "several", "of another process"],
)
def test_where_the_line_that_raised_was_called(
    message: str, through: list[str], words: str
) -> None:
    left = Exit(
        reason="exception", error="ValueError", message=message, site="/job/data.py:9",
        through=through,
    )  # fmt: skip
    assert rank_words.came_through(standing("raised", log(exit=left))) == words


def test_a_frame_whose_path_holds_spaces() -> None:
    assert rank_words.frame("/job/my code/data.py:12 decode") == "data.py:12 (decode)"
    assert rank_words.frame("/job/data.py:12") == "data.py:12"


def test_details_that_differ_in_numbers_only_are_told_once(tmp_path: Path) -> None:
    run = Run(4)
    run.all("all_reduce")
    for rank in run:
        if rank.rank < 3:
            message = f"shard {rank.rank} is corrupt"
            rank.exit("exception", error="ValueError", message=message)
        else:
            rank.exit(code=2)
    assert rank_words.details(case_of(run, tmp_path), [0, 1, 2, 3]) == (
        "Rank 0: ValueError: shard 0 is corrupt (2 more ranks likewise). Rank 3: sys.exit(2)."
    )


def test_a_busy_rank_that_loads_is_known_by_what_it_is_in(tmp_path: Path) -> None:
    run = Run(2)
    run.all("all_reduce")
    for rank in run:
        rank.beat(5, Activity(thread="MainThread", what="batch", since=rank.now))
    assert [s.doing for s in case_of(run, tmp_path).standings.values()] == ["batch", "batch"]


@pytest.mark.parametrize(
    ("leaving", "words"),
    [
        (Exit(reason="finished", code=0, site="/job/train.py:36", through=["/job/train.py:73"]),
         "sys.exit() at train.py:36, called at train.py:73"),
        # The script's last line hands its status on: that is how programs end.
        (Exit(reason="finished", code=0, site="/job/train.py:90"), ""),
        (Exit(reason="finished"), ""),
        (Exit(reason="exception", site="/job/train.py:36", through=["/job/train.py:73"]), ""),
        (None, ""),
    ],
)  # fmt: skip
def test_who_left_by_sys_exit(leaving: Exit | None, words: str) -> None:
    assert rank_words.left_by_exit(standing("finished", log(exit=leaving))) == words
