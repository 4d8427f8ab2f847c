"""What the runner asks of the fork server, without importing torch."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Literal

Mode = Literal["traced", "bare", "detail", "recorder"]
"""Under collectrace; under nothing; under TORCH_DISTRIBUTED_DEBUG=DETAIL; under torch's Flight
Recorder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One run of a script on some ranks."""

    script: str
    argv: tuple[str, ...]
    ranks: int
    limit: float
    """Seconds after which the answer is given, whoever still runs; from the start on, which is
    when every rank has printed something."""
    kill_after: float | None
    """Seconds after the start on which every rank gets SIGKILL at once."""
    interrupt_after: float | None = None
    """Seconds after the start on which every rank gets SIGINT at once."""
    output: str
    """Folder for what the ranks print, and for what the Flight Recorder dumps."""
    mode: Mode
    untraced: tuple[int, ...] = ()
    """Ranks that run bare, whatever the mode."""
    until_said: str | None = None
    """Words by which it is enough, once a rank has printed them."""
    apart: bool = False
    """As under a launcher on several machines: the store is not a rank's, and each rank has a log
    folder of its own, ``rankN`` below the given one."""
    env: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """One process that runs a script as ``python script`` does, but has imported torch already.

    The answer is its process id, and its exit status once it has ended. It lives no longer than
    the connection.
    """

    script: str
    env: dict[str, str]
    """All of it."""
    folder: str
    """Where it runs."""
    output: str
    """The file of what it prints."""


def encode(asked: Request | Program) -> bytes:
    """As one line."""
    return json.dumps([type(asked).__name__, asdict(asked)]).encode() + b"\n"


def decode(line: str) -> Request | Program:
    """From one line."""
    name, fields = json.loads(line)
    return Program(**fields) if name == "Program" else Request(**fields)
