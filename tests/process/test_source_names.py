"""Code that was compiled under the name of something that is no file."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from collectrace.records import Alive
from tests.support.real_ranks import Ranks

_ROOM = 400 << 20
"""Bytes that a rank may need beyond what it has; one that reads a device needs any number."""


def compiled_as(name: str) -> list[int]:
    """Issue a call from code of this name; kilobytes that the process has needed for it."""
    if name == "a pipe":
        name = str(Path(os.environ["COLLECTRACE_LOG_DIR"]).parent / "pipe.py")
        os.mkfifo(name)
    # What the machine has is not to be used up where this fails.
    held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (held + _ROOM,) * 2)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    exec(compile("dist.all_reduce(torch.ones(1))", name, "exec"), {"dist": dist, "torch": torch})
    # Until the watchdog has looked for the source, which it does before it beats.
    log = next(Path(os.environ["COLLECTRACE_LOG_DIR"]).glob("20*/rank00000.jsonl"))
    beats = 0
    while beats < 2:
        beats = log.read_bytes().count(b'{"kind":"alive"')
    return [before, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss]


@pytest.mark.parametrize("name", ["/dev/zero", "a pipe", "/dev/stdin", "/proc/kmsg"])
def test_a_name_that_is_no_file_is_not_opened(name: str, ranks: Ranks) -> None:
    ran = ranks.run(compiled_as, 1, name, limit=60)
    before, after = ran.result()
    assert after - before < _ROOM >> 12
    log = ran.log()
    assert len(log.of(Alive)) >= 2
    assert log.exit is not None
    assert (log.exit.reason, log.exit.failures) == ("finished", 0)
    assert [(call.site or "").rpartition(":")[2] for call in log.calls] == ["1"]
