"""Files that are cut, empty, or cannot be read: they are named, and nobody is blamed for them."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from collectrace.align import align
from collectrace.findings import Alignment, RankState
from tests.support.real_ranks import ROOT
from tests.support.synthetic import Run

RANKS: Final = 3
CUT: Final = 2


def healthy() -> Run:
    run = Run(RANKS)
    run.all("all_reduce")
    run.all("broadcast")
    run.finish()
    return run


def hung() -> Run:
    """Rank 2 is busy for a minute, and the others wait for it."""
    run = Run(RANKS)
    run.all("all_reduce")
    run.all("broadcast")
    for rank in run:
        if rank.rank == CUT:
            rank.beat(60)
        else:
            rank.stuck_in(rank.call("all_reduce"))
    return run


def exchanging() -> Run:
    """Calls, messages, and a group that all make; nothing is wrong."""
    run = Run(RANKS)
    run.group("7", range(RANKS))
    run.all("all_reduce")
    for rank in run:
        rank.send((rank.rank + 1) % RANKS)
        rank.recv((rank.rank - 1) % RANKS)
    run.all("barrier", "7")
    run.finish()
    return run


def file_of(folder: Path, rank: int = CUT) -> Path:
    return folder / "run-1" / f"rank{rank:05}.jsonl"


def state(alignment: Alignment, rank: int = CUT) -> RankState:
    return next(one for one in alignment.ranks if one.rank == rank)


@pytest.mark.parametrize("make", [hung, exchanging])
def test_a_cut_at_any_byte_says_that_the_file_is_incomplete(make: Any, tmp_path: Path) -> None:
    make().write(tmp_path)
    file = file_of(tmp_path)
    whole = file.read_bytes()
    # Before the end of the first record it holds none; and a last record that is there ends it.
    for end in range(whole.index(b"\n") + 1, len(whole) - 1):
        file.write_bytes(whole[:end])
        alignment = align(tmp_path)
        told = [finding for finding in alignment.findings if finding.kind != "evidence_gap"]
        gap = next((f for f in alignment.findings if f.kind == "evidence_gap"), None)
        if whole[end - 1 : end] != b"\n":
            assert gap is not None
            assert gap.headline.startswith("rank 2: its file is incomplete, ")
            assert not told
            assert state(alignment).ended == "unknown"
            assert state(alignment).state in ("unknown", "blocked")
        elif make is hung and told:
            # As a copy that was made earlier would end, or a process that was killed.
            assert "left no sign of life" in told[0].headline or "not reach" in told[0].headline
            assert "died" not in told[0].headline
        assert state(alignment).state != "died"
        assert alignment.status in ("unknown", "hung")


def test_a_cut_file_is_compared_up_to_where_it_ends(tmp_path: Path) -> None:
    run = Run(RANKS)
    run.all("all_reduce")
    for rank in run:
        rank.call("all_reduce", dtype="float64" if rank.rank == CUT else "float32")
    run.all("barrier")
    run.finish()
    run.write(tmp_path)
    file = file_of(tmp_path)
    whole = file.read_bytes()
    file.write_bytes(whole[: whole.index(b'"op":"barrier"')])
    alignment = align(tmp_path)
    told = [(finding.kind, finding.suspects) for finding in alignment.findings]
    assert told == [("dtype_mismatch", (CUT,)), ("evidence_gap", ())]
    assert alignment.findings[1].headline == (
        "rank 2: its file is incomplete, its calls are known up to call 2 of the default group"
    )
    assert (
        "Rank 2: the file ends within a line, or in one of an unknown kind. How it went on is lost."
        in (alignment.evidence.notes)
    )


# -- files that cannot be read ----------------------------------------------------------------


def folder_in_the_way(file: Path) -> None:
    file.unlink()
    file.mkdir()


def link_to_nothing(file: Path) -> None:
    file.unlink()
    file.symlink_to("nowhere.jsonl")


def link_to_itself(file: Path) -> None:
    file.unlink()
    file.symlink_to(file.name)


@pytest.mark.parametrize("break_", [folder_in_the_way, link_to_nothing, link_to_itself])
@pytest.mark.parametrize("rank", [0, CUT])
def test_what_lies_in_the_place_of_a_file(break_: Any, rank: int, tmp_path: Path) -> None:
    healthy().write(tmp_path)
    break_(file_of(tmp_path, rank))
    alignment = align(tmp_path)
    [gap] = alignment.findings
    assert gap.headline.startswith(f"rank {rank}: its file cannot be read (")
    assert "enable()" not in (gap.fix or "")
    assert (state(alignment, rank).state, state(alignment, rank).ended) == ("unknown", "unknown")
    assert alignment.status == "unknown"


def test_a_file_without_a_record(tmp_path: Path) -> None:
    healthy().write(tmp_path)
    file_of(tmp_path).write_bytes(b"")
    alignment = align(tmp_path)
    [gap] = alignment.findings
    assert gap.headline == "rank 2: its file is empty or damaged: it holds no record"
    assert gap.fix == (
        "Copy the file again, and see whether the disk that it was written to is full."
    )


def _as_others() -> None:
    """Root reads every file, by these capabilities (linux/capability.h, prctl.h)."""
    libc = ctypes.CDLL(None)
    for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
        libc.prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP


def report(folder: Path, *command: str) -> tuple[int, str]:
    """What the command says of a folder to somebody who may not read everything."""
    done = subprocess.run(
        [sys.executable, "-m", "collectrace", *(command or ("align",)), str(folder)],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        preexec_fn=_as_others,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, " ".join(done.stdout.split())


@pytest.mark.parametrize("rank", [0, CUT])
def test_a_file_that_one_may_not_read(rank: int, tmp_path: Path) -> None:
    healthy().write(tmp_path)
    file_of(tmp_path, rank).chmod(0)
    status, said = report(tmp_path)
    assert status == 3
    assert f"{rank} not known its file cannot be read" in said
    assert f"note: rank {rank}: its file cannot be read (Permission denied)." in said
    assert "left no file" not in said
    assert "enable()" not in said


@pytest.mark.parametrize("command", ["align", "doctor"])
def test_a_folder_that_one_may_not_read(command: str, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    healthy().write(logs)
    logs.chmod(0)
    status, said = report(logs, command)
    logs.chmod(0o700)
    assert status == 2
    assert said.startswith(f"collectrace: cannot read {logs}: Permission denied. Run as its owner")


def test_no_file_that_one_may_read(tmp_path: Path) -> None:
    healthy().write(tmp_path)
    for rank in range(RANKS):
        file_of(tmp_path, rank).chmod(0)
    status, said = report(tmp_path)
    assert status == 2
    wrong = f"cannot read the file of rank 0 in {tmp_path}: Permission denied"
    assert said == f"collectrace: {wrong}. Run as its owner, or copy it again."
