"""Permissions of the files of a job: only the owner reads them, unless ``shared`` is set.

Shared files follow the umask, so groups, ACLs of folders and containers work as for all other
files.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

VARIABLE: Final = "COLLECTRACE_SHARED"

_shared = False


def share(shared: bool) -> None:
    """Set who may read the files that this process writes from now on."""
    global _shared
    _shared = shared


def environment() -> Mapping[str, str]:
    """Return the variable that makes another process decide likewise."""
    return {VARIABLE: str(int(_shared))}


def of_files() -> int:
    """Return the mode to create files with; the umask takes away from it."""
    return 0o666 if _shared else 0o600


def of_folders() -> int:
    """Return the mode to create folders with; the umask takes away from it."""
    return 0o777 if _shared else 0o700


def make_folder(path: Path) -> None:
    """Make a folder if it does not exist; its parents get the usual mode."""
    path.mkdir(of_folders(), parents=True, exist_ok=True)


def opener(path: str, flags: int) -> int:
    """Open a file for ``open()``, and create it with this mode."""
    return os.open(path, flags, of_files())
