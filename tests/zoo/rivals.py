"""What torch's own tools say about a run: TORCH_DISTRIBUTED_DEBUG=DETAIL, and the analyser of
Flight Recorder dumps.

Both get the benefit of the doubt. Whatever they report that is about the mistake counts, a mere
timeout does not; and whom they name most often, over the output of all ranks, is whom they blame.
"""

from __future__ import annotations

import contextlib
import io
import logging
import re
import signal
import threading
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.zoo.case import Case
from tests.zoo.protocol import Mode
from tests.zoo.runner import Outcome, Server

# ProcessGroupWrapper.cpp, ProcessGroupGloo.cpp (monitoredBarrier), reducer.cpp and Utils.cpp
_DIFFERS: Final = re.compile(
    r"Detected mismatch between collectives on ranks\..{0,2000}?but Rank (\d+) is"
)
_ABSENT: Final = re.compile(r"Ranks? ([\d, ]+) failed to pass monitoredBarrier")
_PARAMETERS: Final = re.compile(r"\[Rank (\d+)\]?:? .{0,80}appears not to match")

# torch/distributed/flight_recorder/components/utils.py and builder.py
_MISSING: Final = re.compile(r"missing ranks: \{([\d, ]+)\}")
_CULPRITS: Final = re.compile(r"error msg: (.+)")
_CULPRIT: Final = re.compile(r"Culprit rank (\d+)")
_REPORT: Final = re.compile(
    r"Not all ranks joining|has errors|Input/output mismatch|^MISMATCH"
    r"|mismatch in (desc|membership)",
    re.MULTILINE,
)


_ANALYSER: Final = threading.Lock()
"""It logs to where the whole process does."""


@dataclass(frozen=True, slots=True)
class Said:
    """What a tool has to say about one run."""

    spoke: bool
    """It reports a mistake."""
    ranks: frozenset[int]
    """Whom it names."""
    broke: bool
    """The tool, or the job under it, failed for a reason of the tool's own."""

    def is_right(self, case: Case) -> bool:
        """Whether exactly the guilty are named; anybody will do where nobody is to blame."""
        return self.spoke and (not case.suspects or self.ranks == set(case.suspects))


def hear(server: Server, case: Case, mode: Mode, *, twin: bool, folder: Path) -> Said:
    """Run a case under a tool, in an empty folder, and hear what that has to say."""
    with server.run(case, twin=twin, folder=folder, mode=mode) as outcome:
        if mode == "detail":
            return detail(outcome)
    with _ANALYSER:
        return recorder(outcome)


def detail(outcome: Outcome) -> Said:
    """What ranks printed under TORCH_DISTRIBUTED_DEBUG=DETAIL."""
    texts = [outcome.output(rank) for rank in range(len(outcome.exits))]
    named: list[int] = []
    for text in texts:
        found = _DIFFERS.search(text) or _PARAMETERS.search(text)
        if found:
            named.append(int(found.group(1)))
        for absent in _ABSENT.finditer(text):
            named += _numbers(absent.group(1))
    crashed = -signal.SIGSEGV in outcome.exits
    return Said(bool(named), _most(named), crashed and not named)


def recorder(outcome: Outcome) -> Said:
    """What ``torchfrtrace`` makes of the dumps of a case."""
    return torchfrtrace(outcome.folder / "dumps")


def torchfrtrace(folder: Path) -> Said:
    """What it makes of a folder of dumps; of incomplete ones as well, if asked to."""
    text, problem = analyse(folder)
    if "Missing dump files" in problem:
        text, problem = analyse(folder, "--allow-incomplete-ranks")
    report = _REPORT.search(f"{text}\n{problem}")
    if report is None:
        return Said(False, frozenset(), bool(problem))
    first = text[report.start() :]
    found = _MISSING.search(first), _CULPRITS.search(first)
    places = [match for match in found if match is not None]
    if not places:
        return Said(True, frozenset(), False)
    line = min(places, key=lambda match: match.start()).group(0)
    named = _CULPRIT.findall(line) or _numbers(line.partition(":")[2].strip(" {}"))
    return Said(True, frozenset(map(int, named)), False)


def analyse(folder: Path, *options: str) -> tuple[str, str]:
    """The analyser's output, and what it raised."""
    # A second of imports, and only the Flight Recorder needs it.
    from torch.distributed.flight_recorder.fr_trace import main

    output = io.StringIO()
    handler = logging.StreamHandler(output)
    logger = logging.getLogger("Flight Recorder")
    logger.handlers[:] = [handler]
    problem = ""
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        try:
            main([str(folder), *options])
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever it stumbles over
            problem = f"{type(error).__name__}: {error}"
    return output.getvalue(), problem


def _numbers(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", text)]


def _most(named: Iterable[int]) -> frozenset[int]:
    votes = Counter(named)
    return frozenset(rank for rank, n in votes.items() if n == max(votes.values()))
