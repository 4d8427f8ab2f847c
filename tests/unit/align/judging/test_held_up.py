"""Ranks that several messages of one rank held up, each another, and so miss in a collective."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from collectrace.align.judging.candidate import Candidate
from tests.support.judging import judged
from tests.support.synthetic import Run

TOO_LONG = "RuntimeError: [gloo] op.preamble.length <= op.nbytes. 384 vs 256"


def ends(*, gone: str = "", steps: int = 4) -> Run:
    """Rank 2 sends to 1 and 3, which is too large for both in the end.

    Both end by that. Ranks 0 and 2 wait for them in a sum.

    ``gone``: an error by which rank 3 ends before it receives.
    """
    run = Run(4)
    for n in range(steps):
        is_last = n == steps - 1
        for rank in run:
            size = 96 if is_last and rank.rank == 2 else 64
            of: dict[str, Any] = {"shape": [size], "async_": True}
            if is_last and gone and rank.rank == 3:
                continue
            if rank.rank == 2:
                rank.send(1, site="halo.py:5", **of)
                rank.send(3, site="halo.py:5", **of)
            elif rank.rank:
                rank.recv(2, site="halo.py:6", **of)
            if not is_last:
                rank.call("all_reduce", site="halo.py:9")
    for rank in run:
        if rank.rank in (0, 2):
            rank.stuck_in(rank.call("all_reduce", site="halo.py:9"))
        else:
            rank.exit("exception", error=gone if gone and rank.rank == 3 else TOO_LONG)
    return run


def told(run: Run, folder: Path) -> tuple[list[Candidate], list[Candidate]]:
    """The roots, and all that some did not come to."""
    found = [one for one in judged(run, folder) if one.severity == "error"]
    roots = [one for one in found if one.cause is None]
    return roots, [one for one in found if one.kind == "missing_call"]


def test_what_they_miss_in_follows_from_their_messages(tmp_path: Path) -> None:
    roots, missing = told(ends(), tmp_path)
    assert [(one.kind, one.suspects) for one in roots] == [("p2p_mismatch", ())]
    assert missing
    assert all(one.cause is not None for one in missing)


def test_who_ended_by_itself_was_not_held_up(tmp_path: Path) -> None:
    roots, _ = told(ends(gone="ValueError: bad"), tmp_path)
    assert len(roots) > 1
