"""What the type and the text of an exception tell: whether peers are to blame, and where it began.

Used while a job runs, on the exception itself, and later, on what its record says.
"""

from __future__ import annotations

import re
from typing import Final

# What torch 2.13 raises where a peer, not the caller, is to blame. Sources: gloo/transport/tcp,
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
    """Whether an exception's text says that a connection was lost."""
    return bool(_LOST.search(message))


def gave_up(message: str) -> bool:
    """Whether an exception's text says that somebody waited for too long."""
    return bool(_GAVE_UP.search(message))


def blames_peers(error: str | None, message: str) -> bool:
    """Whether an exception of this type (its name) and text says that others let a rank down."""
    patterns = (_LOST, _GAVE_UP, _COMMUNICATION)
    return error in _ERRORS or any(pattern.search(message) for pattern in patterns)
