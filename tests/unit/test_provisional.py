"""Ranks of one host share the folder of the provisional files, and remove it when they leave."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path

from collectrace.tracer.writer import Writer


def come_and_go(root: Path, times: int) -> None:
    lost = 0
    for n in range(times):
        writer = Writer(root / "pending" / f"{os.getpid()}-{n}.jsonl", 1 << 20, lambda _: b"head\n")
        lost += not writer.write(b"line\n")
        writer.move(root / "run" / f"{os.getpid()}-{n}.jsonl")
        writer.close()
    os._exit(min(lost, 100))


def test_no_line_is_lost_when_another_rank_removes_the_folder(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    ranks = [context.Process(target=come_and_go, args=(tmp_path, 400)) for _ in range(4)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join()
    assert [rank.exitcode for rank in ranks] == [0, 0, 0, 0]
