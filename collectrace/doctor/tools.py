"""Look for what is installed here: py-spy and torch, and torch's debug server."""

from __future__ import annotations

import os
import re
import shutil
from importlib import metadata
from pathlib import Path
from typing import Final

from collectrace.doctor.processes import PROC, Process

DEBUG_SERVER: Final = 25999
"""Default port of the page that ``start_debug_server`` serves on rank 0's host
(torch 2.13, ``torch/distributed/debug/__init__.py``)."""

_LISTENS: Final = "0A"
"""``TCP_LISTEN`` in ``/proc/net/tcp``."""

_SYS_PTRACE: Final = 1 << 19
"""``CAP_SYS_PTRACE`` among the effective capabilities (``linux/capability.h``)."""


def py_spy() -> str | None:
    """Return the path of py-spy; None: it is not installed."""
    return shutil.which("py-spy")


def torch_version() -> str:
    """Return the version of torch that is installed for this Python; empty: none is."""
    try:
        return metadata.version("torch")
    except metadata.PackageNotFoundError:
        return ""


def ptrace(one: Process, proc: Path = PROC) -> str | None:
    """Return why another process may not inspect this one; None: nothing forbids it.

    The kernel's rules: ``man 2 ptrace``, "Ptrace access mode checking", and Yama's
    (``Documentation/admin-guide/LSM/Yama.rst``). Limits of a container cannot be seen from here.
    """
    if _has_capability(proc):
        return None
    if not one.is_readable:
        return "it is another user's"
    try:
        scope = (proc / "sys/kernel/yama/ptrace_scope").read_text().strip()
    except OSError:
        return None  # no Yama: the same user may
    if scope == "0":
        return None
    return f"kernel.yama.ptrace_scope is {scope}" + (
        ": root may" if scope in "12" else ": none may"
    )


def _has_capability(proc: Path) -> bool:
    try:
        status = (proc / "self/status").read_text()
    except OSError:
        return os.geteuid() == 0
    found = re.search(r"^CapEff:\s*([0-9a-f]+)", status, re.MULTILINE)
    return found is not None and bool(int(found[1], 16) & _SYS_PTRACE)


def listens(port: int, proc: Path = PROC) -> bool:
    """Return whether a process on this machine listens on a TCP port, by ``/proc/net``."""
    for name in ("tcp", "tcp6"):
        try:
            lines = (proc / "net" / name).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            parts = line.split()
            if len(parts) > 3 and parts[3] == _LISTENS and parts[1].endswith(f":{port:04X}"):
                return True
    return False
