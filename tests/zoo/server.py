"""Forks the ranks of a case: a process that has imported torch once, so that a rank starts at once.

A connection to its socket is one run. The request says what to run; the answer is a list with an
exit status per rank, negative for a signal, null for a rank that still ran at the limit. Those
live on until the client closes the connection, so that it can look at a job that hangs. Or it is
one process of a test that starts its ranks itself.

Ranks are processes because they abort, stop and are killed here, each alone.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import json
import os
import pickle
import runpy
import select
import signal
import socket
import sys
import threading
import time
import weakref
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, NoReturn

# What cases use is imported before the fork: it would cost each rank seconds. DDP's constructor
# imports dynamo.
import torch
import torch._dynamo
import torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook
import torch.distributed.checkpoint
import torch.distributed.fsdp
import torch.distributed.optim
import torch.distributed.pipelining
import torch.distributed.tensor
import torch.distributed.tensor.parallel

# torch's stubs do not know it.
from torch.distributed import TCPStore, set_debug_level_from_env  # type: ignore[attr-defined]
from torch.distributed.distributed_c10d import ProcessGroup, _world

import collectrace

# What enable() imports. Compiled in each rank where no bytecode is kept, it is most of its time.
import collectrace.tracer.switch
from tests.support import ports
from tests.zoo.protocol import Mode, Program, Request, decode

_LOOK: Final = 0.03
"""Seconds between two looks at the ranks of a run: there are many runs, and most of them wait."""
_SLOWEST_START: Final = 30.0
"""Seconds after which a rank that has printed nothing never will."""
_FRESH: Final = 0.5
"""Seconds: a rank whose file is not older beats; two of the runner's heartbeats fit in."""
_SILENT: Final = 3.0
"""Seconds: a rank whose file is older has stopped, whatever the load."""
_SLOWEST_BEAT: Final = 30.0
"""Seconds after the limit for which that is waited for."""


def serve(path: str) -> Callable[[], NoReturn] | None:
    """Answer requests until standard input ends. Returns in each new process: what it is to do."""
    forget_exits()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # keepers leave no zombies behind
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{path}.new")
        listener.listen()
        Path(f"{path}.new").rename(path)  # who sees it can connect
        print("ready", flush=True)
        while True:
            readable, _, _ = select.select([listener, sys.stdin], [], [])
            if sys.stdin in readable:
                return None
            connection, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                return keep(connection)
            connection.close()


def forget_exits() -> None:
    """What torch would do at the exit of each rank, to memory that ends with the process."""
    atexit.unregister(torch._dynamo.utils.dump_compile_times)
    for library in [*weakref.finalize._registry]:  # type: ignore[attr-defined]  # an undocumented set
        library.detach()


def keep(connection: socket.socket) -> Callable[[], NoReturn]:
    """Do what a connection asks for."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    asked = decode(connection.makefile().readline())
    if isinstance(asked, Program):
        return keep_program(connection, asked)
    return keep_ranks(connection, asked)


def keep_program(connection: socket.socket, program: Program) -> Callable[[], NoReturn]:
    """Fork a process, tell how it ends, and kill it when nobody wants to know any more."""
    pid = os.fork()
    if pid == 0:
        connection.close()
        return partial(run_program, program)
    connection.sendall(b"%d\n" % pid)
    ended = 0
    while not ended and not select.select([connection], [], [], _LOOK)[0]:
        ended, status = os.waitpid(pid, os.WNOHANG)
    if not ended:
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
    with contextlib.suppress(OSError):
        connection.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))
    os._exit(0)


def keep_ranks(connection: socket.socket, request: Request) -> Callable[[], NoReturn]:
    """Fork the ranks of one run, wait for them, answer, and kill what is left."""
    port = ports.hold()
    if request.apart:
        os.environ["TORCHELASTIC_USE_AGENT_STORE"] = "True"
    os.environ |= request.env | {
        "WORLD_SIZE": str(request.ranks),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port.getsockname()[1]),
    }
    pids: list[int] = []
    for rank in range(request.ranks):
        pid = os.fork()
        if pid == 0:
            connection.close()
            port.close()
            return partial(run_rank, request, rank)
        pids.append(pid)
    if request.apart:
        # As torchrun's agent does. After the ranks were forked: it has threads.
        store = TCPStore("127.0.0.1", port.getsockname()[1], is_master=True, wait_for_workers=False)
        assert store.port
    statuses = wait(pids, connection, request)
    connection.sendall(json.dumps([statuses.get(pid) for pid in pids]).encode() + b"\n")
    connection.recv(1)  # ends when the client has seen enough
    kill(pids, statuses)
    os._exit(0)


def wait(pids: list[int], connection: socket.socket, request: Request) -> dict[int, int]:
    """Exit statuses of the ranks that end before the limit."""
    statuses: dict[int, int] = {}
    now = time.monotonic()
    started, at_the_latest = None, now + _SLOWEST_START
    kill_after, interrupt_after = request.kill_after, request.interrupt_after
    while len(statuses) < len(pids):
        now = time.monotonic()
        if started is None and (now > at_the_latest or all_have_started(request)):
            started = now
        spent = 0.0 if started is None else now - started
        if spent >= request.limit and settled(request, pids, statuses, spent - request.limit):
            break
        if (
            kill_after is not None
            and spent >= kill_after
            and settled(request, pids, statuses, spent - kill_after)
        ):
            kill(pids, statuses)
            kill_after = None
        if interrupt_after is not None and spent >= interrupt_after:
            for pid in pids:
                if pid not in statuses:
                    os.kill(pid, signal.SIGINT)
            interrupt_after = None
        if select.select([connection], [], [], _LOOK)[0]:
            break  # the client is gone
        if request.until_said is not None and has_said(request, request.until_said):
            break
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid:
            statuses[pid] = os.waitstatus_to_exitcode(status)
    return statuses


def all_have_started(request: Request) -> bool:
    """Whether each rank has printed something: how long that takes is the machine's business."""
    files = [Path(request.output) / f"rank{rank}.txt" for rank in range(request.ranks)]
    return all(file.exists() and file.stat().st_size for file in files)


def has_said(request: Request, words: str) -> bool:
    """Whether a rank has printed this."""
    files = Path(request.output).glob("rank*.txt")
    return any(words.encode() in file.read_bytes() for file in files)


def settled(request: Request, pids: list[int], ended: dict[int, int], waited: float) -> bool:
    """Whether each rank's file tells a rank that runs from one that has stopped.

    On a busy machine a heartbeat may be late by the little that tells the two apart, just when
    all are killed: those who run are killed while they beat, the others when long silent.
    """
    if waited > _SLOWEST_BEAT:
        return True
    now = time.time()
    for rank, pid in enumerate(pids):
        for file in Path(request.output).glob(f"logs/**/rank{rank:05}.jsonl"):
            age = now - file.stat().st_mtime
            if age < _SILENT and (pid in ended or age > _FRESH):
                return False
    return True


def kill(pids: list[int], ended: dict[int, int]) -> None:
    """All at once: they are stopped first, so that none sees another one die. Returns when gone."""
    left = [pid for pid in pids if pid not in ended]
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in left:
            os.kill(pid, number)
    for pid in left:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)  # whoever reaps it gets its status


def run_rank(request: Request, rank: int) -> NoReturn:
    """What a launcher and ``python -m collectrace run`` do, in the process that is the rank."""
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank)}
    output = Path(request.output)
    _print_to(output / f"rank{rank}.txt")
    torch.manual_seed(0)
    if request.apart:
        os.environ["COLLECTRACE_LOG_DIR"] += f"/rank{rank}"
    PREPARE["bare" if rank in request.untraced else request.mode](output, rank)
    sys.argv = [request.script, *request.argv]
    leave(run_script(request.script))


def run_program(program: Program) -> NoReturn:
    """What ``python script`` does."""
    os.environ.clear()
    os.environ.update(program.env)
    os.chdir(program.folder)
    _print_to(Path(program.output))
    sys.path.insert(0, str(Path(program.script).parent))
    sys.argv = [program.script]
    leave(run_script(program.script))


def _print_to(path: Path) -> None:
    file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    os.dup2(file, 1)
    os.dup2(file, 2)
    # What a shell starts in the background inherits a SIGINT that is ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def run_script(script: str) -> int:
    """The exit status; an exception has been through ``sys.excepthook``."""
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as request:
        return request.code if isinstance(request.code, int) else int(request.code is not None)
    except BaseException:  # noqa: BLE001 - whatever ends the script ends this process
        sys.excepthook(*sys.exc_info())
        return 1
    return 0


def leave(status: int) -> NoReturn:
    """What the interpreter does at exit, but for freeing its memory: that costs a fork a second."""
    threading._shutdown()  # type: ignore[attr-defined]  # waits for threads, as every exit does
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def trace(_output: Path, _rank: int) -> None:
    collectrace.enable()


def do_nothing(_output: Path, _rank: int) -> None:
    pass


def check_in_detail(_output: Path, _rank: int) -> None:
    os.environ["TORCH_DISTRIBUTED_DEBUG"] = "DETAIL"
    set_debug_level_from_env()


def record_flight(output: Path, rank: int) -> None:
    """Dump the flight recorder again and again: a rank that aborts or hangs leaves one as well."""
    os.environ.setdefault("TORCH_FR_BUFFER_SIZE", "20000")
    folder = output / "dumps"
    folder.mkdir(exist_ok=True)
    one_at_a_time = threading.Lock()
    groups: dict[str, dict[str, str]] = {}

    def dump() -> None:
        with one_at_a_time:
            # Torch's stubs do not know it, and torch before 2.8 has none.
            trace = pickle.loads(torch._C._distributed_c10d._dump_fr_trace())  # type: ignore[attr-defined]
            # On gloo torch 2.13 leaves the names of groups out, and its analyser trips over that.
            for group, ranks in dict(_world.pg_group_ranks).items():
                if not isinstance(group, ProcessGroup):
                    continue  # what stands for groups that this rank is not in
                name = group.group_name
                groups[name] = {"name": name, "desc": group.group_desc, "ranks": str([*ranks])}
            trace["pg_config"] = groups
            part = output / f"part{rank}"
            part.write_bytes(pickle.dumps(trace))
            part.rename(folder / f"rank_{rank}")

    def dump_for_ever() -> None:
        while True:
            time.sleep(0.05)
            dump()

    threading.Thread(target=dump_for_ever, daemon=True).start()
    atexit.register(dump)


PREPARE: Final[dict[Mode, Callable[[Path, int], None]]] = {
    "traced": trace,
    "bare": do_nothing,
    "detail": check_in_detail,
    "recorder": record_flight,
}


def main() -> None:
    run = serve(sys.argv[1])
    if run is not None:
        run()


if __name__ == "__main__":
    main()
