"""The runs of users' mistakes, recorded: judged in every test run, without the frameworks.

``UPDATE_RECORDINGS=1 tools/test --frameworks`` runs the mistakes and writes them anew.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Final

from collectrace.findings import Alignment
from tests.frameworks import launching
from tests.zoo import corpus
from tests.zoo.case import Case
from tests.zoo.neutral import neutral
from tests.zoo.runner import Outcome
from tests.zoo.verdict import Verdict

FOLDER: Final = launching.HERE / "recorded"
IS_WANTED: Final = bool(os.environ.get("UPDATE_RECORDINGS"))
_ABOUT: Final = "about.json"
_GONE: Final = ("died", "missing")


def path(case: Case) -> Path:
    """The archive of a case."""
    return FOLDER / f"{case.path.stem}.tar.xz"


def keep(case: Case, folder: Path, found: Alignment) -> None:
    """Write the archive of a case from the folder of its run, and of what was found in it."""
    run = corpus.Run(case, False)
    logs = neutral(corpus.logs_of(folder / "logs"), [corpus.ROOT], folder)
    living = [one.rank for one in found.ranks if one.state not in _GONE]
    about = json.dumps({"program": run.program, "living": living}).encode()
    corpus.pack(path(case), corpus.contents(run, logs) | {_ABOUT: about})


def judged(case: Case, folder: Path) -> Verdict:
    """Return the verdict on the recording of a case, unpacked into a folder.

    Raises:
        LookupError: it was recorded of another program.

    """
    files = corpus.packed_files(path(case))
    about = json.loads(files.pop(_ABOUT))
    if about["program"] != corpus.Run(case, False).program:
        raise LookupError(case.path.stem)
    logs = corpus.unpack(files, folder)
    found = corpus.align(logs, about["living"])
    return Verdict(case, False, Outcome((), folder, logs), found)
