"""Classify exceptions by type and text: whether peers caused one, and where it began.

Used on exceptions while a job runs, and later on their records.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from collectrace import dumps

# What torch 2.13 raises if a peer, not the caller, is to blame. Sources: gloo/transport/tcp,
# ProcessGroupNCCL.cpp (watchdog and abort), ProcessGroupGloo.cpp (monitoredBarrier), TCPStore.cpp
# (doWait).
_LOST: Final = re.compile(
    r"connection (was )?(closed|reset|refused)|broken pipe|remote process exited|socket ?closed"
    r"|failed to recv, got 0 bytes",
    re.IGNORECASE,
)
_GAVE_UP: Final = re.compile(r"timed? ?out|timeout|wait timeout", re.IGNORECASE)
_COMMUNICATION: Final = re.compile(r"gloo/|NCCL (error|communicator)|ncclRemoteError|abort")
_ERRORS: Final = frozenset({"DistBackendError", "DistNetworkError", "DistStoreError"})


def lost_peer(message: str) -> bool:
    """Return whether an exception's text reports a lost connection."""
    return bool(_LOST.search(message))


def gave_up(message: str) -> bool:
    """Return whether an exception's text reports a timeout."""
    return bool(_GAVE_UP.search(message))


def blames_peers(error: str | None, message: str) -> bool:
    """Return whether an exception with this type name and text was caused by other ranks."""
    patterns = (_LOST, _GAVE_UP, _COMMUNICATION)
    return error in _ERRORS or any(pattern.search(message) for pattern in patterns)


class Failure(NamedTuple):
    """An exception: the name of its type, its text, and the user's line that raised it."""

    error: str
    text: str
    site: str | None


def original(message: str) -> Failure | None:
    """Return the exception of another process or thread, if a text contains its traceback.

    torch reraises what a DataLoader's worker raised so, under the type of the original or as a
    RuntimeError (``ExceptionWrapper`` in torch/_utils.py, 2.13). None where a text carries none.
    """
    _, marked, traceback = message.rpartition(_ORIGINAL)
    if not marked:
        return None
    # In a chain of exceptions the last one counts.
    last = traceback.rpartition("Traceback (most recent call last):")[2]
    frames = [f"{frame[1]}:{frame[2]}" for frame in _FRAME.finditer(last)]
    told = _TYPE_AND_TEXT.search(last)
    if told is None:
        return None
    sites = dumps.own(frames) or frames
    text = ((told[2] or "") + last[told.end() :]).strip()
    return Failure(told[1], text, sites[-1] if sites else None)


_ORIGINAL: Final = "Original Traceback (most recent call last):"
_FRAME: Final = re.compile(r'^  File "(.*)", line (\d+)', re.MULTILINE)
_TYPE_AND_TEXT: Final = re.compile(r"^(?:\w+\.)*(\w+)(?:: (.*))?$", re.MULTILINE)
"""The line after the frames: type and text, in the first column."""


def both_ends(text: str, limit: int) -> str:
    """Return a text cut in its middle to ``limit`` characters: the error is often at its end."""
    if len(text) <= limit:
        return text
    head = limit // 4
    return f"{text[:head]}\n[...]\n{text[head + 7 - limit :]}"
