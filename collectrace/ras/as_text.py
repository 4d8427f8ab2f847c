"""Read the text form of a report: what the program ``ncclras`` prints.

Source: NVIDIA/nccl, ``src/ras/client_support.cc``: ``rasClientRunInit``, ``rasClientRunComms`` and
``rasClientBreakDownErrors`` at v2.24.3-1, v2.26.2-1, v2.28.7-1 and v2.30.7-1. Between them came the
counts per op, the words ``have not launched any operations`` and ``NOCOMM`` for ``UNKNOWN`` (2.26).

The text groups ranks and names only outliers: a quarter of the ranks and at most ten, with VERBOSE
fewer than half. So the report has the size of each level, but often not its ranks.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from collectrace.ras.report import (
    ANY,
    Communicator,
    Difference,
    Failed,
    InStatus,
    Launched,
    Level,
    Member,
    NotReadable,
    Place,
    Processes,
    Report,
)

_VERSION: Final = re.compile(r"NCCL version (\S{1,40}) compiled with CUDA")
_COLLECTED: Final = re.compile(r"Communicators\.\.\. \((\d+\.\d+)s\)")
_BEGINS: Final = re.compile(
    rb"^(NCCL version \S+ compiled with CUDA|Job summary\s*\n=+|Communicators\.\.\. \()",
    re.MULTILINE,
)

_OF_ALL: Final = re.compile(r"(\(total\)|per node|per process|\s)+")
"""The second line of a heading of the job's summary. As many numbers follow below it."""

_GROUP: Final = re.compile(
    r"\s*(?P<group>\d+)\s+(?P<comms>\d+)\s+\d+\s+\d+(?:-\d+)?\s+(?P<size>\d+)\s+\d+\s+[A-Z]+\s+(?P<errors>[A-Z,]+)"
)
"""A row of the table of communicators: groups of equal ones."""

_SECTIONS: Final = ("Errors", "Warnings")
_OF_THE_JOB: Final = ("INCOMPLETE", "DEAD", "TIMEOUT")
_OF_ONE: Final = re.compile(r"#(\d+)-\d+ \(([0-9a-f]{1,16})\) (?:INCOMPLETE|ERROR|MISMATCH)")

_PLACE: Final = (
    r" -- (?:GPU (?P<gpu>.{1,80}) managed by process (?P<pid>\d{1,10}) on node (?P<host>\S{1,100})"
    r"|\[process information not found\])"
)
_OPERATIONS: Final = r"(?:launched up to operation (?P<what>\d{1,20})|not launched any operations)"

_MOST: Final = 1_000_000
"""Limit of the numbers of ranks, processes and communicators."""


def is_one(head: bytes) -> bool:
    """Return whether a file begins like such a report, or like an excerpt from its summary on."""
    return _BEGINS.search(head) is not None


def read(data: bytes) -> Report:
    """Read a report, complete or cut short.

    Raises:
        NotReadable: it ends before the communicators.

    """
    reader = _Reader()
    for line in data.decode("utf-8", "replace").splitlines():
        reader.take(line)
    return reader.report()


class _Reader:
    """Reads the lines one after the other."""

    def __init__(self) -> None:
        self._version = ""
        self._totals: dict[str, int] = {}
        self._columns: list[str] = []
        self._sizes: dict[int, int] = {}
        """Ranks of each communicator, by the group of equal ones."""
        self._in_all = self._marked = 0
        self._communicators: dict[tuple[int, str], Communicator] = {}
        self._of: Communicator | None = None
        self._about = ""
        self._level: list[Member] | None = None
        """Ranks of the current level, to which the next lines may add."""
        self._is_initialization = False
        self._of_job = {about: Processes() for about in _OF_THE_JOB}
        self._seconds: float | None = None
        self._section = ""

    def take(self, line: str) -> None:
        """Read one line of any kind."""
        bare = line.strip()
        if line.startswith("  ") and self._section:
            self._detail(bare)
        elif bare in _SECTIONS:
            self._section, self._of, self._about = bare, None, ""
        elif bare in _OF_THE_JOB and self._section:
            self._about, self._of, self._level = bare, None, None
        elif (one := _OF_ONE.match(bare)) is not None:
            group, name = int(one[1]), one[2].rjust(16, "0")
            new = Communicator(name, self._sizes.get(group))
            self._of = self._communicators.setdefault((group, name), new)
            self._about, self._level = "", None
        elif (collected := _COLLECTED.match(bare)) is not None:
            self._seconds = float(collected[1])
        elif (version := _VERSION.match(bare)) is not None:
            self._version = version[1]
        else:
            self._summary(line)

    def _summary(self, line: str) -> None:
        numbers = line.split()
        if (group := _GROUP.fullmatch(line)) is not None:
            self._sizes[int(group["group"])] = min(int(group["size"]), _MOST)
            communicators = min(int(group["comms"]), _MOST)
            self._in_all += communicators
            self._marked += communicators if group["errors"] != "OK" else 0
        elif "(total)" in line and _OF_ALL.fullmatch(line):
            self._columns = ["nodes", "", "", "processes", "gpus"]
            if line.count("(total)") == 3 and "per" in line:
                return
            self._columns = ["nodes", "processes", "gpus"]
        elif (
            self._columns and len(numbers) == len(self._columns) and line.replace(" ", "").isdigit()
        ):
            self._totals = dict(zip(self._columns, map(int, numbers), strict=True))
            self._columns = []

    def _detail(self, line: str) -> None:
        for pattern, take in _DETAILS:
            if (found := pattern.fullmatch(line)) is not None:
                take(self, found)
                return

    # What the lines below a heading say.

    def processes(self, found: re.Match[str]) -> None:
        """How many processes do not answer, or are dead, or how many timeouts there were."""
        if self._about in self._of_job:
            self._of_job[self._about].count = min(int(found["n"]), _MOST)

    def process(self, found: re.Match[str]) -> None:
        """One of them."""
        if self._about in self._of_job:
            place = Place(found["host"], int(found["pid"]), found["gpu"])
            self._of_job[self._about].places.append(place)

    def missing(self, found: re.Match[str]) -> None:
        """The number of ranks of a communicator that sent nothing."""
        if self._of is not None:
            self._of.silent = Level(*self._opened(found))

    def listed(self, found: re.Match[str]) -> None:
        """Ranks by their numbers alone, as NCCL before 2.26 lists them."""
        if self._level is not None:
            self._level += [Member(int(n)) for n in re.findall(r"\d{1,7}", found["ranks"])]

    def kind_of_error(self, found: re.Match[str]) -> None:
        """Errors of initialization, or later ones."""
        self._is_initialization = found["kind"] == "Initialization"

    def failed(self, found: re.Match[str]) -> None:
        """Ranks with one error, or a single rank."""
        if self._of is not None:
            failed = Failed(*self._opened(found), found["what"], self._is_initialization)
            self._of.failures.append(failed)

    def status(self, found: re.Match[str]) -> None:
        """Ranks of one status, or a single rank."""
        if self._of is not None:
            self._of.statuses.append(InStatus(*self._opened(found), found["what"]))

    def op(self, found: re.Match[str]) -> None:
        """The op of which the numbers come next."""
        if self._of is not None:
            op = ANY if found["what"] == "collective" else found["what"]
            self._of.differences.append(Difference(op, []))

    def launched(self, found: re.Match[str]) -> None:
        """Ranks that have launched equally many, or a single rank."""
        if self._of is not None and self._of.differences:
            level = Launched(*self._opened(found), int(found["what"] or 0))
            self._of.differences[-1].levels.append(level)

    def one_more(self, found: re.Match[str]) -> None:
        """A rank of the level before it."""
        if self._level is not None:
            self._level.append(_member(found))

    def _opened(self, found: re.Match[str]) -> tuple[int, list[Member]]:
        """How many ranks, and those of them that the line names; the next lines may add some."""
        if "n" in found.re.groupindex:
            count, self._level = min(int(found["n"]), _MOST), []
        else:
            count, self._level = 1, [_member(found)]
        return count, self._level

    def report(self) -> Report:
        """Return the report.

        Raises:
            NotReadable: it ends before the communicators.

        """
        if self._seconds is None:
            raise NotReadable("ends before the communicators")
        for one in self._communicators.values():
            one.differences = [each for each in one.differences if each.levels]
            for difference in one.differences:
                difference.levels.sort(key=lambda level: -level.operations)
        return Report(
            version=self._version,
            communicators=list(self._communicators.values()),
            communicators_in_all=self._in_all,
            marked=self._marked,
            processes=self._totals.get("processes"),
            nodes=self._totals.get("nodes"),
            gpus=self._totals.get("gpus"),
            dead=self._of_job["DEAD"],
            silent=self._of_job["INCOMPLETE"],
            timeouts=self._of_job["TIMEOUT"].count,
            seconds=self._seconds,
            is_whole=self._section == _SECTIONS[-1],
        )


def _member(found: re.Match[str]) -> Member:
    if found["gpu"] is None:
        return Member(int(found["rank"]))
    return Member(int(found["rank"]), Place(found["host"], int(found["pid"]), found["gpu"]))


_N: Final = r"(?P<n>\d{1,9})"
_RANK: Final = r"Rank (?P<rank>\d{1,9})"

_LINES: Final[tuple[tuple[str, Callable[[_Reader, re.Match[str]], None]], ...]] = (
    (rf"Missing communicator data from {_N} job process(?:es)?", _Reader.processes),
    (rf"{_N} job process(?:es are| is) considered dead .*", _Reader.processes),
    (rf"Encountered {_N} communication timeouts? .*", _Reader.processes),
    (
        r"Process (?P<pid>\d{1,10}) on node (?P<host>\S{1,100}) managing GPUs? (?P<gpu>.{1,200})",
        _Reader.process,
    ),
    (rf"Missing communicator data from {_N} ranks?", _Reader.missing),
    (r"The (?:missing|unknown) ranks?: (?P<ranks>[\d, ]+)", _Reader.listed),
    (r"(?P<kind>Initialization|Asynchronous) errors? on .*", _Reader.kind_of_error),
    (rf"{_N} ranks reported (?P<what>.{{1,80}})", _Reader.failed),
    (rf"{_RANK} reported (?P<what>.{{1,80}}?){_PLACE}", _Reader.failed),
    (rf"{_N} ranks have status (?P<what>[A-Z]{{1,20}})", _Reader.status),
    (rf"{_RANK} has status (?P<what>[A-Z]{{1,20}})(?:{_PLACE})?", _Reader.status),
    (r"Communicator ranks have different (?P<what>\w{1,40}) operation counts", _Reader.op),
    (rf"{_N} ranks have {_OPERATIONS}", _Reader.launched),
    (rf"{_RANK} has {_OPERATIONS}{_PLACE}", _Reader.launched),
    (rf"{_RANK}{_PLACE}", _Reader.one_more),
)
"""What the indented lines say, and who takes it. The first that fits does."""

_DETAILS: Final = tuple((re.compile(pattern), take) for pattern, take in _LINES)
