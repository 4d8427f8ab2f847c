"""Runs a case or its twin on real ranks, and hands over what they left.

    with Server() as server, server.run(case, twin=False, folder=tmp) as outcome:
        outcome.exits, outcome.logs

From the repository's root: ``python -m tests.zoo.runner matching/order_swapped [--twin]``.
"""

from __future__ import annotations

import argparse
import atexit
import json
import os
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Final, Self, get_args

from tests.zoo.case import HERE, Case, read
from tests.zoo.protocol import Mode, Program, Request, encode

ENVIRONMENT: Final = {
    # A stopped rank shows in its heartbeats; cases last seconds, not hours.
    "COLLECTRACE_HEARTBEAT": "0.3",
    "COLLECTRACE_STALL_AFTER": "2",
    # What the program prints is looked at; tests of these lines switch them on.
    "COLLECTRACE_ANNOUNCE": "0",
    "COLLECTRACE_REPORT": "0",
    "GLOO_SOCKET_IFNAME": "lo",
}

_SHARED: Final = "ZOO_SERVER"
"""The variable that holds the socket of a server for several processes."""
_SLOWEST_START: Final = 300.0
"""Seconds after which a server that is not ready never will be."""
_NO_START: Final = "the fork server did not start"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run left."""

    exits: tuple[int | None, ...]
    """Exit status per rank, negative for a signal; None: it still ran at the limit."""
    folder: Path
    logs: Path

    def output(self, rank: int) -> str:
        """What a rank printed."""
        return (self.folder / f"rank{rank}.txt").read_text(errors="replace")


class Started:
    """A process of the fork server, with what tests use of ``subprocess.Popen``."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._answers = connection.makefile()
        self.pid = int(self._answers.readline())
        self.returncode: int | None = None
        """Its exit status, negative for a signal; None: it was running when that was asked for."""

    def poll(self) -> int | None:
        """Its exit status; None: it still runs."""
        if self.returncode is None and select.select([self._connection], [], [], 0)[0]:
            self.wait()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Its exit status, once it has ended.

        Raises:
            TimeoutError: it has not, within so many seconds.

        """
        if self.returncode is None:
            if not select.select([self._connection], [], [], timeout)[0]:
                raise TimeoutError
            self.returncode = int(self._answers.readline())
        return self.returncode

    def end(self) -> None:
        """Kill it, if it still runs."""
        if self.poll() is None:
            self._connection.shutdown(socket.SHUT_WR)
            self.wait()
        self._answers.close()
        self._connection.close()


class Server:
    """The fork server, for as long as the context lasts. Safe to use from several threads."""

    def __enter__(self) -> Self:
        self.begin()
        assert self._process.stdout is not None
        if self._process.stdout.readline() != "ready\n":
            raise RuntimeError(_NO_START)
        return self

    def begin(self) -> None:
        """Start it, and do not wait until it is ready."""
        self._folder = Path(tempfile.mkdtemp(prefix="zoo-"))
        self._socket = str(self._folder / "socket")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.zoo.server", self._socket],
            cwd=HERE.parents[1],
            # One thread, so that forking is safe, and ranks do not fight for cores.
            env=os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.communicate()  # standard input ends, and with it the server
        shutil.rmtree(self._folder)

    def start(self, program: Program) -> Started:
        """Start one process."""
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(self._socket)
        connection.sendall(encode(program))
        return Started(connection)

    @contextmanager
    def run(
        self,
        case: Case,
        *,
        twin: bool,
        folder: Path,
        mode: Mode = "traced",
        apart: bool = False,
        options: Mapping[str, str] = MappingProxyType({}),
        until_said: str | None = None,
        patience: float | None = None,
    ) -> Iterator[Outcome]:
        """Run a case in an empty folder; within the context, ranks that hang live if it says so.

        ``apart``, ``until_said``: see ``Request``; ``options``: environment variables of all
        ranks, beside those of the case; ``patience``: seconds until gloo gives up, and half of
        what the ranks are given, where something else is to end them.
        """
        folder.mkdir(parents=True)
        logs = folder / "logs"
        # Soon, where a case hangs; rivals are given time, as they have to tell by then.
        hangs = case.is_error and not twin
        slow = slowness()
        usual = (4 if mode == "traced" else 8) * slow  # init has no more either
        timeout = {"ZOO_TIMEOUT": str(patience or (usual if hangs else 60))}
        request = Request(
            script=str(case.path),
            argv=("--twin",) if twin else (),
            ranks=1 if case.synthetic else case.ranks,
            limit=2 * patience if patience else case.limit(twin) * slow + usual - 4,
            kill_after=_scaled(case.kill_after, slow),
            # A wait that Ctrl-C ends is a hang if it was long: where all is well it stays short.
            interrupt_after=None
            if twin
            else _scaled(case.interrupt_after, slow if case.is_error else 1),
            untraced=() if twin else case.untraced,
            output=str(folder),
            mode="bare" if case.synthetic else mode,
            until_said=until_said,
            apart=apart,
            env=ENVIRONMENT
            | {"COLLECTRACE_LOG_DIR": str(logs)}
            | timeout
            | case.env
            | dict(options),
        )
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(self._socket)
            connection.sendall(encode(request))
            with connection.makefile() as answer:
                exits = tuple(json.loads(answer.readline()))
                if not case.live:
                    connection.shutdown(socket.SHUT_WR)  # kills what is left
                    answer.read()  # and ends when that is done
                for rank in case.lost_logs:
                    dump = folder / "dumps" / f"rank_{rank}"
                    for file in (*logs.glob(f"*/rank{rank:05}*"), dump):
                        file.unlink(missing_ok=True)
                yield Outcome(exits, folder, logs)


def share() -> Server:
    """Start the fork server of all processes that this one starts from now on."""
    server = Server()
    server.begin()
    os.environ[_SHARED] = server._socket
    return server


@cache
def shared() -> Server:
    """The fork server that this process has been given, or one of its own, which ends with it."""
    server = Server()
    if _SHARED not in os.environ:
        server.__enter__()
        atexit.register(server.__exit__, None, None, None)
        return server
    server._socket = os.environ[_SHARED]
    until = time.monotonic() + _SLOWEST_START
    while not Path(server._socket).exists():
        if time.monotonic() > until:
            raise RuntimeError(_NO_START)
        time.sleep(0.1)
    return server


def _scaled(seconds: float | None, slow: float) -> float | None:
    return None if seconds is None else seconds * slow


def slowness() -> float:
    """How many times longer than on an idle machine processes take here now, 1 to 8."""
    return min(8.0, max(1.0, os.getloadavg()[0] / (2 * (os.cpu_count() or 1))))


def is_busy() -> bool:
    """Whether processes wait long for their turn on this machine."""
    return slowness() > 2


def main() -> int:
    parser = argparse.ArgumentParser(description="Run one case, and show what its ranks said.")
    parser.add_argument("case", help="such as matching/order_swapped")
    parser.add_argument("--twin", action="store_true")
    parser.add_argument("--mode", default="traced", choices=get_args(Mode))
    parser.add_argument("--folder", type=Path, help="must not exist yet")
    options = parser.parse_args()
    case = read(HERE / f"{options.case}.py")
    folder = options.folder or Path(tempfile.mkdtemp(prefix="zoo-")) / "run"
    with (
        Server() as server,
        server.run(case, twin=options.twin, folder=folder, mode=options.mode) as outcome,
    ):
        for rank, status in enumerate(outcome.exits):
            print(f"--- rank {rank}: {'still running' if status is None else status}")
            print(outcome.output(rank).rstrip())
        print(f"--- logs in {outcome.logs}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
