"""Files of a job that hangs: on a disk that is full, and copied one after the other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from collectrace.align import align
from collectrace.records import Alive, Header, decode
from tests.process.test_writer import mounted
from tests.support.apart import Apart, gather

HEARTBEAT: Final = 0.2
OPTIONS: Final[dict[str, Any]] = {"online": 0, "heartbeat": HEARTBEAT, "stall_after": 1}

SCRIPT: Final = """
import os, sys, time
import torch, torch.distributed as dist
import collectrace
collectrace.enable()
dist.init_process_group("gloo")
rank = dist.get_rank()
dist.barrier()
if rank == int(os.environ["FULL"]):
    with open(os.environ["COLLECTRACE_LOG_DIR"] + "/ballast", "wb", buffering=0) as file:
        try:
            while file.write(b"x" * 4096):
                pass
        except OSError:
            pass
for n in range(60):
    dist.all_reduce(torch.ones(1))
print("there", flush=True)
if rank == 0:
    time.sleep(1000)
dist.all_reduce(torch.ones(1))
"""


def script(full: int | None = None) -> str:
    return SCRIPT.replace('os.environ["FULL"]', repr(-1 if full is None else full))


def test_a_hang_on_a_full_disk_says_which_file_is_incomplete(tmp_path: Path) -> None:
    with (
        mounted(tmp_path / "rank1"),
        Apart(tmp_path, script(full=1), **OPTIONS) as ranks,
    ):
        ranks.wait_for_words("there")
        ranks.wait_for_words("no space left on device. Records are lost", 1)
        ranks.wait_for(lambda: "has been in all_reduce" in ranks.said(1))
        for rank in ranks.ranks:
            rank.end()
        alignment = align(ranks.together())
    gap = next(one for one in alignment.findings if one.kind == "evidence_gap")
    assert gap.headline.startswith("rank 1: its file is incomplete, its calls are known up to call")
    assert gap.fix is not None
    assert "disk" in gap.fix
    assert not any(1 in finding.suspects for finding in alignment.findings)
    assert [one.state for one in alignment.ranks if one.rank == 1] == ["unknown"]
    assert alignment.evidence.agreed < 61


def copied(ranks: Apart, rank: int, to: Path) -> int:
    """Copy a rank's files as they are now, and return when its last heartbeat was, ns."""
    gather_one = ranks.logs(rank)
    last = 0
    for file in gather_one.glob("2*/rank*"):
        copy = to / file.parent.name / file.name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(file.read_bytes())
        if file.suffix == ".jsonl":
            found = [decode(line) for line in copy.read_bytes().splitlines()[:-1]]
            last = max((one.t for one in found if isinstance(one, Alive)), default=0)
    return last


def test_files_that_were_copied_one_after_the_other(tmp_path: Path) -> None:
    together = tmp_path / "together"
    with Apart(tmp_path, script(), **OPTIONS) as ranks:
        ranks.wait_for_words("has been in all_reduce", 1)
        first = copied(ranks, 0, together)
        # By more than the heartbeats explain, and long enough for a hang.
        ranks.wait_for(lambda: copied(ranks, 1, together) - first > 8e9)
        living = align(together)
        # Copied at one time, they show what rank 0 was in; one that ends first looks dead.
        whole = align(gather(tmp_path, tmp_path / "whole"))
        for rank in ranks.ranks:
            rank.end()
    for alignment, ended in ((living, "alive"), (align(together), "unknown")):
        [finding] = [one for one in alignment.findings if one.severity == "error"]
        assert finding.headline.startswith("rank 0 left no sign of life for ")
        assert finding.cause is not None
        assert finding.cause.startswith("The file of rank 0 ends ")
        assert (
            "if the files were copied while the job ran, its file was copied before"
            in finding.cause
        )
        assert finding.fix is not None
        assert "copy those of all ranks again" in finding.fix
        assert [one.ended for one in alignment.ranks if one.rank == 0] == [ended]
    assert whole.findings[0].headline.startswith("rank 0 slept (")


def test_a_header_has_the_number_of_its_file(tmp_path: Path) -> None:
    with Apart(tmp_path, script(), **OPTIONS) as ranks:
        ranks.wait_for_words("there")
        for rank in range(2):
            [file] = ranks.logs(rank).glob("2*/rank*.jsonl")
            header = decode(file.read_bytes().partition(b"\n")[0])
            assert isinstance(header, Header)
            assert header.inode == file.stat().st_ino
            assert json.loads(file.read_bytes().partition(b"\n")[0])["inode"] == header.inode
