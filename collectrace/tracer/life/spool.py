"""A local folder that a rank records into if the log folder's file system may block.

A write to a network file system can block forever, and cannot be interrupted. So the rank does not
touch that file system; a separate process does (``mover``). The spool is laid out like the log
folder.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import re
import secrets
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from collectrace import file_modes
from collectrace.config import AUTO, OFF, Config
from collectrace.log_folder import SPOOLS
from collectrace.tracer.life import mover

log = logging.getLogger("collectrace")

_NAMES: Final = """
aufs bcachefs btrfs devtmpfs exfat ext2 ext3 ext4 f2fs hfsplus jfs nilfs2 ntfs3 overlay ramfs
reiserfs rootfs squashfs tmpfs ubifs vfat xfs zfs
proc sysfs cgroup cgroup2 debugfs securityfs tracefs
"""
_LOCAL: Final = frozenset(_NAMES.split())
"""The kernel's names of local and virtual file systems. All others may block without bound."""

_LAST_WAIT: Final = 5.0
"""Seconds for which the end of a run waits until all is moved."""

_TO_START: Final = 10.0
"""Seconds that the mover may take to start."""

_MOST_LINKS: Final = 40
"""Symbolic links that are followed in a path, as in the kernel."""

_PAUSE: Final = 0.01
_ESCAPED: Final = re.compile(r"\\([0-7]{3})")


class Spool:
    """The spool of one run of this process, and the process that moves its files.

    Raises:
        OSError: there is no local folder, or no process can be started.
        RuntimeError: the interpreter is ending.

    """

    def __init__(self, log_dir: Path) -> None:
        self._log_dir = log_dir
        name = re.sub(r"[^\w-]", "_", log_dir.name)
        digest = hashlib.sha256(os.fsencode(log_dir)).hexdigest()[:8]
        self.of_folder = _local_folder() / f"{name}-{digest}"
        """The folder of all spools on this machine that belong to the same log folder."""
        self.folder = self.of_folder / f"{os.getpid()}-{secrets.token_hex(4)}"
        """The folder that replaces the log folder."""
        for folder in (self.of_folder, self.folder):
            folder.mkdir(0o700, exist_ok=True)
        self._start()

    def _start(self) -> None:
        mode = f"{file_modes.of_folders():o}"
        arguments = [str(self.folder), str(self._log_dir), mode, str(os.getpid())]
        try:
            subprocess.run(
                [sys.executable, "-I", "-S", mover.__file__, *arguments],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                timeout=_TO_START, check=True,
            )  # fmt: skip
        except subprocess.SubprocessError as problem:
            raise OSError(f"no process moves its files: {problem}") from problem

    def home(self, path: Path) -> Path:
        """Return the path to which a file or folder of the spool is moved."""
        return self._log_dir / path.relative_to(self.folder)

    def finish(self) -> None:
        """Wait at most some seconds until all is moved, and warn if something is left."""
        over = self.folder / mover.OVER
        over.touch(0o600)
        until = time.monotonic() + _LAST_WAIT
        while over.exists():
            if time.monotonic() > until:
                log.warning(
                    "collectrace: %s does not answer. The records of this rank that are not there "
                    "lie in %s; they are moved if it answers soon. To read what lies on this "
                    "machine: python -m collectrace align %s",
                    self._log_dir, self.folder, self.of_folder,
                )  # fmt: skip
                return
            time.sleep(_PAUSE)


def begin(config: Config) -> Spool | None:
    """Return a spool for a new run; None: the run writes to the log folder directly."""
    if config.spool == OFF or (config.spool == AUTO and is_local(config.log_dir)):
        return None
    return make(config)


def make(config: Config) -> Spool | None:
    """Return a spool; if none can be made, log a warning and return None."""
    try:
        return Spool(config.log_dir)
    except (OSError, RuntimeError) as problem:
        log.warning(
            "collectrace: no spool: %s. If %s stops answering, this job waits for it.",
            problem, config.log_dir,
        )  # fmt: skip
        return None


def is_local(path: Path) -> bool:
    """Return whether a path is on a local file system. A remote one is not touched.

    The last folders of the path need not exist.
    """
    mounts = _mounts()
    for _ in range(_MOST_LINKS):
        kind = mounts.get("/", "ext4")
        for prefix in (*reversed(path.parents), path):
            kind = mounts.get(str(prefix), kind)
            if kind not in _LOCAL:
                return False
            try:
                target = prefix.readlink()
            except FileNotFoundError:
                return True
            except OSError:
                continue  # no link
            path = Path(os.path.normpath(prefix.parent / target)) / path.relative_to(prefix)
            break
        else:
            return True
    return True


def _mounts() -> Mapping[str, str]:
    """Return the kinds of file systems by mount point; empty if the kernel hides them."""
    found = {}
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/mountinfo").read_text(errors="surrogateescape").splitlines():
            before, _, after = line.partition(" - ")
            point = _ESCAPED.sub(lambda code: chr(int(code[1], 8)), before.split()[4])
            found[point] = after.split()[0]
    return found


def _local_folder() -> Path:
    """Return this user's folder for spools, which nobody else can write to.

    Raises:
        OSError: there is none.

    """
    for folder in filter(None, (os.environ.get("TMPDIR"), "/tmp", "/var/tmp", "/dev/shm")):
        path = Path(folder).absolute() / f"{SPOOLS}-{os.getuid()}"
        if not is_local(path):
            continue
        with contextlib.suppress(OSError):
            path.mkdir(0o700, exist_ok=True)
            status = path.lstat()
            if path.is_dir() and status.st_uid == os.getuid() and not status.st_mode & 0o077:
                return path
    raise OSError("no local folder in TMPDIR, /tmp, /var/tmp or /dev/shm can be used")
