"""What a rank waits for that is no collective: one real process, or thread, for each row."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import http.client
import json
import multiprocessing
import os
import queue
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

import filelock
import pytest
import torch
import torch.distributed as dist
from torch._C._distributed_c10d import TCPStore
from torch.utils.data import DataLoader, Dataset
from torch.utils.file_baton import FileBaton

from collectrace.align import align
from collectrace.align.alignment import compared
from collectrace.align.judging.case import build
from collectrace.align.ranks.host_waits import ROWS, HostWait
from collectrace.align.reading import run_reader
from collectrace.findings import Alignment
from tests.support.judging import errors
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


def own_lock(_: Path) -> None:
    guard = threading.Lock()
    with guard:
        guard.acquire()  # WAITS


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


def tasks(_: Path) -> None:
    rows: queue.Queue[int] = queue.Queue()
    rows.put(1)
    rows.get()  # and no task_done()
    rows.join()  # WAITS


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
    store = TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    store.get("checkpoint/7")  # WAITS


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


def polls(folder: Path) -> None:
    while not (folder / "ready").exists():
        time.sleep(0.5)  # WAITS


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


def library_reads(folder: Path) -> None:
    os.mkfifo(folder / "shard")
    globals()["_kept"] = os.open(folder / "shard", os.O_RDWR)
    (folder / "shard").read_bytes()  # WAITS


def compiles(folder: Path) -> None:
    compiler = folder / "c++"
    compiler.write_text(f"#!/bin/sh\nexec sleep {FOREVER}\n")
    compiler.chmod(0o755)
    os.environ |= {"CXX": str(compiler), "TORCHINDUCTOR_CACHE_DIR": str(folder / "cache")}
    torch.compile(torch.cos)(torch.ones(4))  # WAITS


def ray_get(folder: Path) -> None:
    # A stand-in for Ray, which is not installed: its frames are all that is real here.
    module = folder / "ray" / "_private" / "worker.py"
    module.parent.mkdir(parents=True)
    module.write_text("def get(lock):\n    lock.acquire()\n")
    code = compile(
        module.read_text(), f"/lib/python3/site-packages/{module.relative_to(folder)}", "exec"
    )
    there: dict[str, Any] = {}
    exec(code, there)
    guard = threading.Lock()
    guard.acquire()
    there["get"](guard)  # WAITS


def gil(_: Path) -> None:
    ctypes.PyDLL(None).sleep(FOREVER)  # WAITS


CASES: Final[dict[str, Callable[[Path], None]]] = {
    f.__name__: f
    for f in (
        flock, lockf, filelock_, baton, own_lock, lock, condition, thread_queue, tasks, dead_queue,
        slow_queue, store, worker, forked_worker, child, waitpid, sleep, polls, request, receive,
        opened, read, library_reads, compiles, gil, ray_get,
    )
}  # fmt: skip


# -- a job ---------------------------------------------------------------------------------------


def _is_seen(file: Path, sign: str) -> bool:
    """Whether a stall was recorded in which a frame bears the sign, or while the GIL was held."""
    stacks = file.with_suffix(".stacks.txt")
    if stacks.exists() and sign in stacks.read_text().replace(", line ", ":"):
        return True
    lines = file.read_bytes().splitlines()
    return any(b'"kind":"stall"' in line and sign.encode() in line for line in lines)


def kill_all_when_seen(signs: Sequence[str]) -> None:
    """Kill all ranks when each has recorded a stall with its sign, from a process of its own."""
    if dist.get_rank() or os.fork():
        return
    while True:
        files = sorted(Path(os.environ["COLLECTRACE_LOG_DIR"]).glob("2*/rank*.jsonl"))
        if len(files) == len(signs) and all(map(_is_seen, files, signs)):
            break
        time.sleep(0.05)
    pids = [json.loads(file.open().readline())["pid"] for file in files]
    left = [child for pid in pids for child in children(pid) if child != os.getpid()]
    for pid in [*pids, *left]:
        with contextlib.suppress(ProcessLookupError):  # it ended meanwhile
            os.kill(pid, signal.SIGKILL)
    os._exit(0)


def children(pid: int) -> list[int]:
    """The processes that a process's threads started, but for threads that end meanwhile."""
    found: list[int] = []
    with contextlib.suppress(FileNotFoundError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                found += map(int, (task / "children").read_text().split())
    return found


def job(names: list[str], folder: str) -> None:
    """Rank 0 waits in a collective for the others, each of which waits in a case of its own."""
    dist.barrier()
    kill_all_when_seen(["all_reduce", *(SIGNS.get(name, f" {name}") for name in names)])
    if rank := dist.get_rank():
        mine = Path(folder, names[rank - 1])
        mine.mkdir()
        CASES[names[rank - 1]](mine)
    dist.all_reduce(torch.ones(1))


KILLED: Final = -signal.SIGKILL

SIGNS: Final = {"compiles": '"g++"'}
"""What a stall must hold, of cases that take their time."""


def host_waits(ran: Ran) -> dict[int, HostWait | None]:
    standings = build(compared(run_reader.read(ran.logs))).standings
    return {rank: one.host_wait for rank, one in standings.items()}


def forget_the_kernel(ran: Ran) -> None:
    """Take from the files what the kernel said, as where there is no /proc to read."""
    for file in ran.logs.glob("2*/rank*.jsonl"):
        lines = [json.loads(line) for line in file.read_bytes().splitlines()]
        for line in lines:
            line.pop("waits", None)
            line.pop("children", None)
        file.write_text("".join(f"{json.dumps(line, separators=(',', ':'))}\n" for line in lines))


_IN = r"process \d+ \((?:python|sleep|pt_data_worker|g\+\+)\), which "
_FILE = r"/\S+"
EXPECTED: Final[dict[str, tuple[str, str, str]]] = {
    "flock": ("file_lock", rf"file lock {_FILE}/a.lock, held by process \d+", "a file lock"),
    "lockf": ("file_lock", rf"file lock {_FILE}/a.lock, held by process \d+", "a file lock"),
    "filelock_": ("file_lock", rf"file lock {_FILE}/a.lock, held by process \d+", "a file lock"),
    "baton": (
        "file_lock", rf"file lock {_FILE}/a.lock, which lasts until that file is removed",
        "a file lock, which lasts until that file is removed",
    ),
    "own_lock": ("own lock", "lock `guard`, which this thread holds itself", ""),
    "lock": (
        "held lock", r"lock `guard`, held by thread keeper at test_host_waits.py:\d+ \(keeps\)", "",
    ),
    "condition": ("thread", "another thread, but no other thread runs code of the program", ""),
    "thread_queue": ("thread", "another thread, but no other thread runs code of the program", ""),
    "tasks": ("tasks", r"task_done\(\) for each item that was put", ""),
    "dead_queue": (
        "queue", "a queue or a pipe whose other end no other process has open",
        "another process, by a queue or a pipe",
    ),
    "slow_queue": (
        "queue", f"a queue or a pipe whose other end is open in {_IN}sleeps",
        "another process, by a queue or a pipe",
    ),
    "store": (
        "store", r"key `'checkpoint/7'` of the store at 127\.0\.0\.1:\d+",
        "key `'checkpoint/7'` of the store",
    ),
    "worker": ("dataloader", f"a DataLoader worker: {_IN}sleeps", "a DataLoader worker"),
    "forked_worker": (
        "dataloader", f"a DataLoader worker: {_IN}waits for a lock inside it",
        "a DataLoader worker",
    ),
    "child": ("subprocess", f"{_IN}sleeps", "a child process"),
    "waitpid": ("subprocess", f"{_IN}sleeps", "a child process"),
    "polls": (
        "sleep", r"`not \(folder / 'ready'\).exists\(\)` to become false: it sleeps in between", ""
    ),
    "sleep": ("sleep", r"the end of time.sleep\(FOREVER\)", ""),
    "request": ("socket", r"a connection to 127\.0\.0\.1:\d+", "a connection"),
    "receive": ("socket", r"a connection to 127\.0\.0\.1:\d+", "a connection"),
    "opened": (
        "file", f"the opening of FIFO {_FILE}/shard, whose other end nobody has open",
        r"a file, in open\(folder / 'shard'\)",
    ),
    "read": ("file", f"a read of FIFO {_FILE}/shard", r"a file, in os.read\(writes, 1\)"),
    "library_reads": (
        "file", f"a read of FIFO {_FILE}/shard", r"a file, in read_bytes\(\) of \w+.py",
    ),
    "compiles": ("compile", r"the compiler: process \d+ \(g\+\+\), which .+", "the compiler"),
    "gil": ("gil", r"ctypes.PyDLL\(None\).sleep\(FOREVER\), which holds the GIL", ""),
    "ray_get": ("ray", "a result of Ray", ""),
}  # fmt: skip
"""The row of each case, what is said with the kernel's facts, and without: if empty, the same."""


def test_every_row_has_a_case() -> None:
    assert {row for row, _, _ in EXPECTED.values()} == {row.name for row in ROWS}
    assert EXPECTED.keys() == CASES.keys()


@pytest.mark.parametrize("names", [[*CASES][n : n + 8] for n in range(0, len(CASES), 8)])
def test_waits_are_named_by_the_kernel_and_by_frames(
    names: list[str], ranks: Ranks, tmp_path: Path
) -> None:
    world = len(names) + 1
    ran = ranks.run(job, world, names, str(tmp_path), exits=(KILLED,) * world, limit=200)
    assert_named(names, host_waits(ran), with_kernel=True)
    forget_the_kernel(ran)
    assert_named(names, host_waits(ran), with_kernel=False)


def assert_named(
    names: Sequence[str], found: Mapping[int, HostWait | None], *, with_kernel: bool
) -> None:
    for rank, name in enumerate(names, 1):
        wait, (row, kernel, frames) = found[rank], EXPECTED[name]
        assert wait is not None, name
        assert wait.row.name == row, (name, wait.what)
        expected = kernel if with_kernel or not frames else frames
        assert re.fullmatch(expected, wait.what), (name, wait.what)


# -- what follows from it ------------------------------------------------------------------------


def holds_a_lock(folder: str, waits_in: str) -> None:
    """Rank 0 holds a lock that rank 1 waits for; rank 2 waits for rank 1 in a collective."""
    rank, path = dist.get_rank(), Path(folder, "a.lock")
    dist.barrier()
    with path.open("w") as file:
        if rank == 0:
            fcntl.flock(file, fcntl.LOCK_EX)
        dist.barrier()
        kill_all_when_seen([waits_in, "holds_a_lock", "all_reduce"])
        if rank == 0 and waits_in == "sleeps_for_ever":
            sleeps_for_ever()
        if rank == 1:
            fcntl.flock(file, fcntl.LOCK_EX)  # WAITS
        dist.all_reduce(torch.ones(1))


def sleeps_for_ever() -> None:
    time.sleep(FOREVER)


def _holds(ranks: Ranks, folder: Path, waits_in: str) -> Alignment:
    # A rank must have waited for longer than a straggler makes others wait.
    ran = ranks.run(
        holds_a_lock, 3, str(folder), waits_in, exits=(KILLED,) * 3, limit=200,
        env={"COLLECTRACE_STALL_AFTER": "8"},
    )  # fmt: skip
    return align(ran.logs)


def test_a_deadlock_through_a_file_lock_is_found(ranks: Ranks, tmp_path: Path) -> None:
    (found,) = errors(_holds(ranks, tmp_path, "all_reduce"))
    assert (found.code, found.kind, found.suspects) == ("CT320", "deadlock", ())
    assert re.search(
        rf"ranks 0,2 wait in all_reduce \(.*\) for rank 1; rank 1 waits \(.*\) for file lock "
        rf"{tmp_path}/a.lock, held by process \d+ \(rank 0\)",
        found.cause,
    )


@pytest.mark.slow
def test_who_holds_the_lock_is_to_blame(ranks: Ranks, tmp_path: Path) -> None:
    (found,) = errors(_holds(ranks, tmp_path, "sleeps_for_ever"))
    assert (found.code, found.suspects) == ("CT302", (0,))
    assert "Rank 0 waited for the end of time.sleep(FOREVER)." in found.cause
    held = rf"Rank 1 waits for file lock {tmp_path}/a.lock, held by process \d+ \(rank 0\)\."
    assert any(re.fullmatch(held, one) for one in found.notes)
