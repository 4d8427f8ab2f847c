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

    def encode(self) -> bytes:
        """As one line."""
        return json.dumps(asdict(self)).encode() + b"\n"

    @staticmethod
    def decode(line: str) -> Request:
        """From one line."""
        return Request(**json.loads(line))
