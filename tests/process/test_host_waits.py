"""What a rank waits for that is no collective: one real process, or thread, for each row."""

from __future__ import annotations

import ctypes
import fcntl
import http.client
import json
import multiprocessing
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

import filelock
import pytest
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset
from torch.utils.file_baton import FileBaton

from collectrace.align import align
from collectrace.align.judging.case import build
from collectrace.align.ranks.host_waits import ROWS, HostWait
from collectrace.align.reading import run_reader
from collectrace.records import KernelWait, Stall
from tests.support.real_ranks import Ran, Ranks

FOREVER: Final = 10_000


# -- the waits -----------------------------------------------------------------------------------


def _holding(path: Path, how: str) -> subprocess.Popen[str]:
    """Start a process that holds the lock of a file, and wait until it does."""
    code = f"import fcntl,time;f=open({str(path)!r},'w');fcntl.{how};print(1,flush=True)"
    process = subprocess.Popen(
        [sys.executable, "-c", f"{code};time.sleep({FOREVER})"], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline()
    return process


def flock(folder: Path) -> None:
    _holding(folder / "a.lock", "flock(f, fcntl.LOCK_EX)")
    with (folder / "a.lock").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # WAITS


def lockf(folder: Path) -> None:
    _holding(folder / "a.lock", "lockf(f, fcntl.LOCK_EX)")
    with (folder / "a.lock").open("w") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)  # WAITS


def filelock_(folder: Path) -> None:
    _holding(folder / "a.lock", "flock(f, fcntl.LOCK_EX)")
    filelock.FileLock(folder / "a.lock").acquire()  # WAITS


def baton(folder: Path) -> None:
    (folder / "a.lock").touch()
    FileBaton(str(folder / "a.lock")).wait()  # WAITS


def lock(_: Path) -> None:
    guard, held = threading.Lock(), threading.Event()

    def keeps() -> None:
        with guard:
            held.set()
            time.sleep(FOREVER)

    threading.Thread(target=keeps, name="keeper", daemon=True).start()
    held.wait()
    with guard:  # WAITS
        pass


def condition(_: Path) -> None:
    event = threading.Event()
    event.wait()  # WAITS


def thread_queue(_: Path) -> None:
    batches: queue.Queue[int] = queue.Queue()
    ended = threading.Thread(target=lambda: None)
    ended.start()
    ended.join()
    batches.get()  # WAITS


def _exits(_: Any) -> NoReturn:
    os._exit(0)


def dead_queue(_: Path) -> None:
    fork = multiprocessing.get_context("fork")
    batches = fork.Queue()
    producer = fork.Process(target=_exits, args=(batches,))
    producer.start()
    producer.join()
    batches.get()  # WAITS


def _sleeps(_: Any) -> None:
    time.sleep(FOREVER)


def slow_queue(_: Path) -> None:
    fork = multiprocessing.get_context("fork")
    batches = fork.Queue()
    fork.Process(target=_sleeps, args=(batches,), daemon=True).start()
    batches.get()  # WAITS


def store(_: Path) -> None:
    shared = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    shared.get("checkpoint/7")  # WAITS


class Stuck(Dataset[int]):
    def __init__(self, guard: Any = None) -> None:
        self.guard = guard

    def __len__(self) -> int:
        return 8

    def __getitem__(self, n: int) -> int:
        if self.guard is None:
            time.sleep(FOREVER)
        with self.guard:
            return n


def worker(_: Path) -> None:
    next(iter(DataLoader(Stuck(), num_workers=1)))  # WAITS


def forked_worker(_: Path) -> None:
    guard = threading.Lock()
    with guard:
        next(iter(DataLoader(Stuck(guard), num_workers=1)))  # WAITS


def child(_: Path) -> None:
    subprocess.run(["sleep", str(FOREVER)], check=False)  # WAITS


def waitpid(_: Path) -> None:
    started = subprocess.Popen(["sleep", str(FOREVER)])
    os.waitpid(started.pid, 0)  # WAITS


def sleep(_: Path) -> None:
    time.sleep(FOREVER)  # WAITS


def _silent_server() -> int:
    server = socket.create_server(("127.0.0.1", 0))
    server.set_inheritable(True)
    globals()["_kept"] = server
    return int(server.getsockname()[1])


def request(_: Path) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", _silent_server(), timeout=FOREVER)
    connection.request("GET", "/")
    connection.getresponse()  # WAITS


def receive(_: Path) -> None:
    connection = socket.create_connection(("127.0.0.1", _silent_server()))
    connection.recv(1)  # WAITS


def opened(folder: Path) -> None:
    os.mkfifo(folder / "shard")
    with open(folder / "shard") as shard:  # noqa: PTH123 - WAITS
        shard.read()


def read(folder: Path) -> None:
    os.mkfifo(folder / "shard")
    writes = os.open(folder / "shard", os.O_RDWR)
    os.read(writes, 1)  # WAITS


def load(folder: Path) -> None:
    os.mkfifo(folder / "shard")
    globals()["_kept"] = os.open(folder / "shard", os.O_RDWR)
    torch.load(folder / "shard")  # WAITS


def compiles(folder: Path) -> None:
    compiler = folder / "c++"
    compiler.write_text(f"#!/bin/sh\nexec sleep {FOREVER}\n")
    compiler.chmod(0o755)
    os.environ |= {"CXX": str(compiler), "TORCHINDUCTOR_CACHE_DIR": str(folder / "cache")}
    torch.compile(torch.cos)(torch.ones(4))  # WAITS


def gil(_: Path) -> None:
    ctypes.PyDLL(None).sleep(FOREVER)  # WAITS


CASES: Final[dict[str, Callable[[Path], None]]] = {
    f.__name__: f
    for f in (
        flock, lockf, filelock_, baton, lock, condition, thread_queue, dead_queue, slow_queue,
        store, worker, forked_worker, child, waitpid, sleep, request, receive, opened, read, load,
        compiles, gil,
    )
}  # fmt: skip


@dataclass(frozen=True)
class Expected:
    """What is to be said of a case."""

    row: str
    what: str
    """Of a regular expression, with what the kernel said."""
    by_frames: str = ""
    """Without it; empty: the row suffices."""


# -- a job ---------------------------------------------------------------------------------------


def _files() -> Iterator[Path]:
    yield from Path(os.environ["COLLECTRACE_LOG_DIR"]).glob("2*/rank*.jsonl")


def _has_stalled(file: Path) -> bool:
    stacks = file.with_suffix(".stacks.txt")
    return b'"kind":"stall"' in file.read_bytes() or (
        stacks.exists() and b"MainThread" not in stacks.read_bytes() and stacks.stat().st_size > 0
    )


def end_when_all_have_stalled() -> None:
    """Kill all ranks when each has recorded a stall, from a process of its own."""
    if dist.get_rank() or os.fork():
        return
    while len(files := list(_files())) < dist.get_world_size() or not all(map(_has_stalled, files)):
        time.sleep(0.05)
    for file in files:
        with file.open("rb") as opened_:
            os.kill(json.loads(opened_.readline())["pid"], signal.SIGKILL)
    os._exit(0)


def job(case: str, folder: str) -> None:
    dist.barrier()
    end_when_all_have_stalled()
    if dist.get_rank() == 1:
        CASES[case](Path(folder))
    dist.all_reduce(torch.ones(1))


def host_wait(ran: Ran, rank: int = 1) -> HostWait | None:
    return build(run_reader.read(ran.logs)).standings[rank].host_wait


def forget_the_kernel(ran: Ran) -> None:
    """Take from the files what the kernel said, as where there is no /proc to read."""
    for file in ran.logs.glob("2*/rank*.jsonl"):
        lines = [json.loads(line) for line in file.read_bytes().splitlines()]
        for line in lines:
            if line["kind"] == "stall":
                line.pop("waits", None)
                line.pop("children", None)
        file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))


KILLED: Final = (-signal.SIGKILL, -signal.SIGKILL)

EXPECTED: Final = {
    "flock": Expected("file_lock", r"file lock /\S+/a.lock, held by process \d+$", "a file lock"),
    "lockf": Expected("file_lock", r"file lock /\S+/a.lock, held by process \d+$", "a file lock"),
    "filelock_": Expected("file_lock", r"file lock /\S+/a.lock, held by process \d+$"),
    "baton": Expected("file_lock", r"file lock /\S+/a.lock, whose existence is the lock$"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_wait_is_named_by_the_kernel_and_by_frames(
    case: str, ranks: Ranks, tmp_path: Path
) -> None:
    ran = ranks.run(job, 2, case, str(tmp_path), exits=KILLED, limit=90)
    found = host_wait(ran)
    a = align(ran.logs)
    stall = ran.log(1).of(Stall)
    print("ROW", case, "|", found and found.row.name, "|", found and found.what)
    for f in a.findings[:1]:
        print("FIND", f.code, f.suspects, f.summary if hasattr(f, "summary") else "", "//", f.cause, "//", f.fixes)
    if stall:
        print("KERNEL", [w for w in stall[-1].waits or () if "Main" in (w.thread or "")], stall[-1].children)
        print("FRAMES", [s[-3:] for n, s in stall[-1].stacks.items() if "Main" in n])
    forget_the_kernel(ran)
    found = host_wait(ran)
    print("BARE", case, "|", found and found.row.name, "|", found and found.what)
