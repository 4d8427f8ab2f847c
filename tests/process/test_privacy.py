"""What a real job leaves of its user: what is left out on demand, and who may read the rest."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

import pytest
import torch
import torch.distributed as dist

from collectrace.align import align
from collectrace.records import Source, SourceFile, Stack, Stall, Values
from tests.support.real_ranks import Log, Ran, Ranks

THIS: Final = Path(__file__)

OMITS_ALL: Final = {"COLLECTRACE_OMIT": "arguments,paths,source,values"}


def everything(ran: Ran) -> bytes:
    """All that lies in the log folder, names included."""
    files = [path for path in ran.logs.rglob("*") if path.is_file()]
    return b"\n".join([*(path.read_bytes() for path in files), *(bytes(path) for path in files)])


SCRIPT: Final = """
import torch, torch.distributed as dist
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
dist.all_reduce(torch.ones(1))
dist.destroy_process_group()
"""

SECRETS: Final = (
    "hunter2zq", "pw4zqx", "sk-zqzqzqzqzqzqzqzqzqzq", "AKIAZQZQZQZQZQZQZQ",
    "Zq3Zq3Zq3Zq3Zq3Zq3Zq3Zq3Zq3Zq3Zq3x",
    "in_nccl_zq", "in_elastic_zq", "elsewhere_zq",
)  # fmt: skip


def test_no_secret_of_arguments_or_variables_is_in_the_log(ranks: Ranks) -> None:
    ran = ranks.script(
        SCRIPT, "--lr", "0.1", "--api-key", SECRETS[0], f"--db=mysql://me:{SECRETS[1]}@host/x",
        SECRETS[2], f"--id={SECRETS[3]}", SECRETS[4], "--max-tokens", "512",
        launch=("-m", "collectrace", "run"),
        env={
            "NCCL_MY_TOKEN": SECRETS[5], "TORCHELASTIC_PASSWORD": SECRETS[6], "WANDB": SECRETS[7],
            "NCCL_DEBUG": "WARN",
        },
    )  # fmt: skip
    held = everything(ran)
    for secret in SECRETS:
        assert secret.encode() not in held
    header = ran.log().header
    assert header.argv == [
        "script.py", "--lr", "0.1", "--api-key", "***", "--db=mysql://***@host/x", "***",
        "--id=***", "***", "--max-tokens", "512",
    ]  # fmt: skip
    assert header.env["NCCL_DEBUG"] == "WARN"
    assert "WANDB" not in header.env


def mine() -> None:
    dist.all_reduce(torch.ones(1))


@pytest.mark.parametrize("omitted", ["arguments", "paths", "source", "values"])
def test_each_part_can_be_left_out(omitted: str, ranks: Ranks) -> None:
    ran = ranks.run(mine, 1, env={"COLLECTRACE_OMIT": omitted})
    log = ran.log()
    assert log.header.omitted == [omitted]
    assert (log.header.argv == []) == (omitted == "arguments")
    assert (log.header.cwd == "") == (omitted == "paths")
    assert bool(list(ran.logs.rglob("sources/*.py"))) == (omitted != "source")
    [call] = log.calls
    line = mine.__code__.co_firstlineno + 1
    assert call.site == f"{THIS.name if omitted == 'paths' else THIS}:{line}"


@pytest.mark.parametrize("omitted", ["arguments", "paths"])
def test_a_path_among_the_arguments_is_left_out(omitted: str, ranks: Ranks) -> None:
    ran = ranks.script(
        SCRIPT, "/data/zq/x.csv", launch=("-m", "collectrace", "run", "--omit", omitted)
    )
    assert b"/data/zq" not in everything(ran)


def diverges() -> None:
    held_zq = dist.get_rank()
    for _ in range(3):
        dist.all_reduce(torch.ones(1))
    if held_zq == 1:
        dist.all_reduce(torch.ones(2))
    dist.barrier()


def test_what_is_left_out_costs_no_more_than_the_cause(ranks: Ranks) -> None:
    ran = ranks.run(diverges, env=OMITS_ALL, timeout=4, exits=(1, 1))
    held = everything(ran)
    assert str(THIS.parent).encode() not in held
    assert b"held_zq" not in held
    for rank in range(2):
        log = ran.log(rank)
        assert not {SourceFile, Source, Values} & {type(record) for record in log.records}
        assert all(
            frame.partition(":")[0] == THIS.name for s in log.of(Stack) for frame in s.frames[:1]
        )
    found = align(ran.logs)
    errors = [one for one in found.findings if one.severity == "error"]
    [finding] = [one for one in errors if one.caused_by is None]
    lines = diverges.__code__.co_firstlineno
    sites = {
        rank: side.call.site
        for side in finding.sides
        if side.call is not None
        for rank in side.ranks
    }
    assert sites == {0: f"{THIS.name}:{lines + 6}", 1: f"{THIS.name}:{lines + 5}"}
    assert (finding.kind, finding.seq) == ("op_mismatch", 4)
    [note] = [note for note in found.evidence.notes if "omit" in note]
    assert THIS.name in note
    assert "left out of the record (omit, redact): its lines are not shown" in note


def holds_the_gil() -> None:
    """For a few heartbeats: until the handler has written what the watchdog then collects."""
    import ctypes

    dist.all_reduce(torch.ones(1))
    ctypes.PyDLL(None).usleep(4_000_000)
    folder = next(Path(os.environ["COLLECTRACE_LOG_DIR"]).glob("20*"))
    file = folder / f"rank{dist.get_rank():05}.jsonl"
    while b'"gil_held":true' not in file.read_bytes():
        time.sleep(0.05)


def test_handlers_in_c_write_no_paths_either(ranks: Ranks) -> None:
    env = OMITS_ALL | {"COLLECTRACE_HEARTBEAT": "0.2", "COLLECTRACE_STALL_AFTER": "0.5"}
    ran = ranks.run(holds_the_gil, env=env)
    assert list(ran.logs.rglob("*.txt")) == []
    assert str(THIS.parent).encode() not in everything(ran)
    held = [stall for stall in ran.log().of(Stall) if stall.gil_held]
    assert held[0].stacks["MainThread"][-1].startswith(f"{THIS.name}:")


def modes(log: Log) -> tuple[int, int]:
    folder = log.path.parent
    sources = {path.stat().st_mode & 0o777 for path in folder.glob("sources/*.py")}
    files = {path.stat().st_mode & 0o777 for path in folder.iterdir() if path.is_file()}
    folders = {path.stat().st_mode & 0o777 for path in (folder, folder / "sources")}
    [file], [whole] = files | sources, folders
    return file, whole


def is_read_by_its_group() -> None:
    os.umask(0o027)
    dist.init_process_group("gloo")
    dist.all_reduce(torch.ones(1))
    dist.destroy_process_group()


@pytest.mark.parametrize(("shared", "expected"), [("0", (0o600, 0o700)), ("1", (0o640, 0o750))])
def test_only_the_owner_can_read_it_unless_it_is_shared(
    shared: str, expected: tuple[int, int], ranks: Ranks
) -> None:
    env = {"COLLECTRACE_SHARED": shared}
    ran = ranks.run(is_read_by_its_group, 1, init=False, env=env)
    assert modes(ran.log()) == expected
    assert align(ran.logs).status == "aligned"
