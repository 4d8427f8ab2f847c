"""Runs a function of a test module on real gloo ranks, and reads what they recorded.

The ranks are forked by the case collection's server, which has imported torch once.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, TypeVar

from collectrace.records import Call, Exit, Header, Record, decode
from tests.zoo.protocol import Request, encode
from tests.zoo.runner import ENVIRONMENT, Server

ROOT: Final = Path(__file__).parents[2]
RecordT = TypeVar("RecordT", bound=Record)


@dataclass(frozen=True)
class Log:
    """One rank's file, or one process's, of one run."""

    path: Path
    records: list[Record]

    def of(self, kind: type[RecordT]) -> list[RecordT]:
        return [r for r in self.records if isinstance(r, kind)]

    @property
    def header(self) -> Header:
        return self.of(Header)[0]

    @property
    def calls(self) -> list[Call]:
        return self.of(Call)

    @property
    def exit(self) -> Exit | None:
        ends = self.of(Exit)
        return ends[-1] if ends else None


def read_log(path: Path) -> Log:
    """Every line must be a record: these files were not torn by anyone."""
    found = [decode(line) for line in path.read_bytes().splitlines()]
    return Log(path, [record for record in found if record is not None])


@dataclass(frozen=True)
class Ran:
    """What a run on some ranks, or of a script, left."""

    exits: tuple[int | None, ...]
    """Exit status per rank, negative for a signal; None: it still ran at the limit."""
    folder: Path

    @property
    def logs(self) -> Path:
        return self.folder / "logs"

    def output(self, rank: int = 0) -> str:
        """What a rank printed."""
        return (self.folder / f"rank{rank}.txt").read_text(errors="replace")

    def result(self, rank: int = 0) -> Any:
        """What the rank's function returned, by way of JSON."""
        return json.loads((self.folder / f"result{rank}.json").read_text())

    @cached_property
    def files(self) -> list[Log]:
        """Every file, provisional ones too, in order of name."""
        return [read_log(path) for path in sorted(self.logs.rglob("*.jsonl"))]

    def log(self, rank: int = 0) -> Log:
        """The only file of a rank."""
        [found] = [log for log in self.files if log.path.name == f"rank{rank:05}.jsonl"]
        return found

    def calls(self, rank: int = 0) -> list[Call]:
        return self.log(rank).calls


class Ranks:
    """The ranks of one test."""

    def __init__(self, server: Server, folder: Path) -> None:
        self._server = server
        self._folder = folder
        self._runs = 0

    def run(
        self,
        function: Callable[..., Any],
        ranks: int = 2,
        *args: Any,
        trace: bool = True,
        init: bool = True,
        limit: float = 300,
        timeout: float = 40,
        env: Mapping[str, str] | None = None,
        exits: tuple[int | frozenset[int] | None, ...] | None = None,
        fails: bool | None = False,
    ) -> Ran:
        """Call ``function(*args)`` on each rank, traced, between init and destroy of gloo.

        ``args`` travel as JSON. ``limit``: seconds until ranks that still run are killed;
        ``timeout``: seconds until a collective that waits in vain raises, and so says where.
        ``exits``: how they must end, in one of several ways if it is a set; None: well, all of
        them. ``fails``: the tracer is made to
        fail, and must say so; None: it may.
        """
        options = {"trace": trace, "init": init, "timeout": timeout, "args": args}
        ran = self._submit(
            Request(
                script=str(Path(__file__).with_name("rank_main.py")),
                argv=(function.__module__, function.__qualname__, json.dumps(options)),
                ranks=ranks,
                limit=limit,
                kill_after=None,
                output="",
                mode="bare",
                env=dict(env or {}),
            )
        )
        told = "\n".join(f"--- rank {r}\n{ran.output(r)}" for r in range(ranks))
        for found, expected in zip(ran.exits, exits or (0,) * ranks, strict=True):
            allowed = expected if isinstance(expected, frozenset) else {expected}
            assert found in allowed, f"{ran.exits}\n{told}"
        assert fails is None or ("internal failure" in told) == fails, told
        return ran

    def _submit(self, request: Request) -> Ran:
        self._runs += 1
        folder = self._folder / f"run{self._runs}"
        folder.mkdir()
        request = Request(
            script=request.script,
            argv=request.argv,
            ranks=request.ranks,
            limit=request.limit,
            kill_after=request.kill_after,
            output=str(folder),
            mode=request.mode,
            env=ENVIRONMENT | {"COLLECTRACE_LOG_DIR": str(folder / "logs")} | request.env,
        )
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(self._server._socket)
            connection.sendall(encode(request))
            with connection.makefile() as answer:
                exits = tuple(json.loads(answer.readline()))
                connection.shutdown(socket.SHUT_WR)  # kills what is left
                answer.read()
        return Ran(exits, folder)

    def script(
        self,
        source: str,
        *argv: str,
        launch: tuple[str, ...] = (),
        exits: int = 0,
        limit: float = 400,
        env: Mapping[str, str] | None = None,
    ) -> Ran:
        """Run a program as a user does: ``python <launch> script.py <argv>``, from its folder."""
        self._runs += 1
        folder = self._folder / f"run{self._runs}"
        folder.mkdir()
        (folder / "script.py").write_text(source)
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        environment = os.environ | ENVIRONMENT | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
        ended = subprocess.run(
            [sys.executable, *launch, "script.py", *argv],
            cwd=folder,
            env=environment | dict(env or {}),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=limit,
            check=False,
        )
        (folder / "rank0.txt").write_text(ended.stdout)
        assert ended.returncode == exits, ended.stdout
        assert "internal failure" not in ended.stdout, ended.stdout
        return Ran((ended.returncode,), folder)
