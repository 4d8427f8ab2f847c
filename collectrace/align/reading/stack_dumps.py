"""The stacks that signal handlers wrote beside a rank file, when Python code could not run."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from collectrace import dumps
from collectrace.dumps import Dump
from collectrace.errors import LogError
from collectrace.log_folder import Blob
from collectrace.records import Stall

_MOST: Final = 256 * 1024
"""Bytes of a dump that are read: hundreds of threads."""


@dataclass(frozen=True, slots=True)
class StackDumps:
    """The last stacks of a process that could not write its own end."""

    held: Dump | None = None
    """Written while the GIL was held; it was never free again."""
    end: Dump | None = None
    """Written on SIGTERM, or on a fatal error."""

    def sign(self, t: int, last: Stall | None = None) -> Stall | None:
        """Return the last stacks as a stall right after the log's last line, at ``t`` + 1 ns.

        The ``last`` stall is more detailed, and is used if the main thread has not moved since.

        None if the main thread was in torch.distributed, or in the tracer's wrapper of a wait: the
        log itself knows better in which call.
        """
        dump = self.end or self.held
        if dump is None or any(
            "/torch/distributed/" in frame or dumps.TRACER in frame
            for frame in dumps.of_main(dump.stacks)
        ):
            return None
        if any(_in_backward(frame) for frame in dumps.of_main(dump.stacks)):
            return None  # it may wait for its gradient buckets, in C++
        held = self.is_gil_held or None
        if last is not None and dumps.of_main(last.stacks)[-1:] == _innermost(dump):
            return replace(last, t=t + 1, in_=[], gil_held=held)
        return Stall(t=t + 1, stacks=dump.stacks, gil_held=held)

    @property
    def is_gil_held(self) -> bool:
        """Whether the GIL was held until the process ended, as far as it is known."""
        if self.held is None or self.fatal:
            return False
        return self.end is None or _innermost(self.end) == _innermost(self.held)

    @property
    def fatal(self) -> bool:
        """Whether a fatal error ended the process, and not a signal from outside."""
        return self.end is not None and self.end.fatal is not None


def read(beside: Mapping[str, Blob], cwd: str) -> StackDumps:
    """Parse the files of one rank, by their kinds.

    A dump has the paths that code was compiled with. Relative ones are completed with ``cwd``, and
    ``..`` is resolved, as in the rank file.
    """
    return StackDumps(_dump(beside.get("stacks"), cwd), _dump(beside.get("ends"), cwd))


def _dump(blob: Blob | None, cwd: str) -> Dump | None:
    if blob is None:
        return None
    try:
        data = blob.read(max(0, blob.size - _MOST), blob.size)
    except LogError:
        return None  # the rank file is enough without it
    found = dumps.parse(data.decode(errors="replace"))
    if found is None or not cwd:
        return found
    whole = {
        thread: [one if one.startswith("<") else _absolute(cwd, one) for one in frames]
        for thread, frames in found.stacks.items()
    }
    return replace(found, stacks=whole)


def _absolute(cwd: str, frame: str) -> str:
    path, colon, rest = frame.partition(":")
    return f"{posixpath.normpath(posixpath.join(cwd, path))}{colon}{rest}"


def _innermost(dump: Dump) -> Sequence[str]:
    return dumps.of_main(dump.stacks)[-1:]


def _in_backward(frame: str) -> bool:
    return frame.endswith(" _engine_run_backward")
