"""The header of a rank file: facts about the process that writes it."""

from __future__ import annotations

import os
import platform
import socket
import sys
import time
from pathlib import Path
from typing import Any, Final

import torch

from collectrace.records import FORMAT, Header
from collectrace.tracer.life import surroundings
from collectrace.tracer.record.groups import environment_int
from collectrace.tracer.record.scopes import now
from collectrace.tracer.user_objects import is_a
from collectrace.tracer.user_text import safe_text
from collectrace.version import __version__

_LONGEST_ARGV: Final = 64 << 10
"""Characters of the command line: readers expect the header in the first part of a file."""


def header(**of_run: Any) -> Header:
    """Return the header of a file that is created now; ``of_run``: its fields about the run."""
    return Header(
        t=now(),
        wall=time.time_ns(),
        format=FORMAT,
        local_rank=environment_int("LOCAL_RANK"),
        host=socket.gethostname(),
        pid=os.getpid(),
        cwd=_cwd(),
        versions={
            "collectrace": __version__,
            "python": platform.python_version(),
            "torch": str(torch.__version__),
        },
        argv=_argv(),
        env=surroundings.environment(os.environ),
        **of_run,
    )


def _cwd() -> str:
    try:
        return str(Path.cwd())
    except OSError:
        return ""  # it was deleted


def _argv() -> list[str]:
    """Return ``sys.argv``, without secrets, cut at a length."""
    given = getattr(sys, "argv", None)
    if not is_a(given, list):
        return []
    texts: list[str] = []
    room = _LONGEST_ARGV
    for text in surroundings.arguments(map(safe_text, list.__iter__(given))):
        room -= len(text) + 1
        if room < 0:
            return [*texts, "..."]
        texts.append(text)
    return texts


def launched_as() -> int | None:
    """Return the rank that a launcher gave to this process; None: it gave none.

    A Python process that a rank starts inherits the variable, but does not have that rank.
    """
    rank = environment_int("RANK")
    parent = Path("/proc", str(os.getppid()))
    try:
        is_python = (parent / "exe").samefile("/proc/self/exe")
        is_inherited = f"RANK={rank}".encode() in (parent / "environ").read_bytes().split(b"\0")
    except OSError:
        return rank  # the parent has ended, or belongs to another user
    return None if is_python and is_inherited else rank
