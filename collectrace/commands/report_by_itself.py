"""The process that a rank starts to diagnose its job from the files in the run's folder.

    FOLDER NUMBER RANK PARENT GRACE PATIENCE

It reads the files of all ranks as ``align`` does. If there is an error that no earlier look has
printed, it prints the head of the report on standard error. It leaves the mark of look NUMBER in
the folder, see ``collectrace.log_folder``. RANK started it, by the process PARENT. GRACE: seconds
that other ranks have to write what they wait in. PATIENCE: seconds that a rank may be busy while
others wait for it.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from collectrace import file_modes, internal
from collectrace.commands import beside
from collectrace.config import is_switched_on
from collectrace.findings import proven_errors
from collectrace.log_folder import LOOK, QUIET, TOLD, look_file
from collectrace.printable import clean

if TYPE_CHECKING:
    from collectrace.findings import Alignment, Finding

_ATTEMPTS: Final = 3

_PULSE: Final = 1.0
"""Seconds between two updates of the mark that shows this look is alive."""

_AFTER_PARENT: Final = 5
"""Seconds for which it continues after its parent process has ended."""


def main(argv: Sequence[str]) -> None:
    """Compare, print, and leave the mark that this look is over."""
    began = time.monotonic()
    file_modes.share(is_switched_on(os.environ, file_modes.VARIABLE))
    name, number, rank, parent, grace, patience = argv
    folder = Path(name)
    screen = beside.be_modest()
    look = folder / look_file(int(number), LOOK)
    threading.Thread(target=_live, args=(look, int(parent)), daemon=True).start()
    from collectrace.align import align  # takes a part of the grace

    time.sleep(max(0.0, began + float(grace) - time.monotonic()))
    read_at, keys = time.time(), list[str]()
    for _ in range(_ATTEMPTS):  # files go while they are read, where they rotate
        with internal.survived():
            alignment = align(folder)
            errors = proven_errors(alignment, float(patience))
            keys = [_key(alignment.findings[n]) for n in errors]
            known = _known(folder)
            news = [n for n, key in zip(errors, keys, strict=True) if key not in known]
            if news:
                beside.show(_head(alignment, news, folder, int(rank)), screen)
            break
    _leave(folder / look_file(int(number), TOLD if keys else QUIET), keys, read_at)


def _live(look: Path, parent: int) -> None:
    """Show other ranks that this look is running, as long as the parent lives."""
    while os.getppid() == parent:
        with contextlib.suppress(OSError):
            os.utime(look)
        time.sleep(_PULSE)
    signal.alarm(_AFTER_PARENT)


def _key(finding: Finding) -> str:
    """Return what identifies a finding in later looks, in which its numbers may differ."""
    group = finding.group.name if finding.group is not None else None
    return json.dumps([finding.kind, group, finding.seq, finding.suspects])


def _known(folder: Path) -> set[str]:
    """Return the keys of the errors that earlier looks printed."""
    keys = set[str]()
    for file in folder.glob(f"verdict.*.{TOLD}"):
        with contextlib.suppress(OSError):
            keys.update(file.read_text(errors="replace").splitlines())
    return keys


def _head(alignment: Alignment, findings: Sequence[int], folder: Path, rank: int) -> str:
    prefix = f"[rank{rank}]: "  # as torch begins the lines of a rank
    head = beside.head(alignment, findings, beside.WIDTH - len(prefix))
    more = f"more: python -m collectrace align {clean(str(folder))}"
    lines = ["collectrace has compared the ranks:", "", *head.splitlines(), "", more]
    return "".join(f"{(prefix + line).rstrip()}\n" for line in lines)


def _leave(mark: Path, keys: Sequence[str], read_at: float) -> None:
    """Leave a mark in the folder: when the files were read, and the keys of all errors."""
    with contextlib.suppress(OSError):
        mark.touch(file_modes.of_files())
        with contextlib.suppress(
            OSError
        ):  # if the disk is full, the end of this look is known anyway
            mark.write_text("".join(f"{key}\n" for key in keys))
        os.utime(mark, (read_at, read_at))
