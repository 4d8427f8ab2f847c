"""A RAS report as typed facts, the same whatever form it came in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

ANY: Final = ""
"""The op that means all collectives together, as NCCL before 2.26 counts them."""


class NotReadable(ValueError):
    """A report cannot be read; the message continues its name: ``is cut short``."""


@dataclass(frozen=True, slots=True)
class Place:
    """The place at which a rank runs."""

    host: str
    """Address by which NCCL knows the node."""
    pid: int
    """Process id in its own namespace."""
    gpu: str
    """Its CUDA device, or devices: ``5``, ``0 (NVML 4)``, ``0,1``."""


@dataclass(frozen=True, slots=True)
class Member:
    """A rank of a communicator, and where it runs; None where RAS does not know."""

    rank: int
    """In the communicator: of a group that is not the whole job, not the rank in the job."""
    place: Place | None = None


@dataclass(slots=True)
class Level:
    """Ranks of a communicator that have something in common."""

    count: int
    """How many."""
    members: list[Member] = field(default_factory=list)
    """The members in the order of their ranks. The text names them only if they are few."""


@dataclass(slots=True)
class Launched(Level):
    """Ranks that have launched equally many operations."""

    operations: int = 0
    """Since the communicator began. An operation that was launched may not have begun."""


@dataclass(slots=True)
class Difference:
    """An op that not all ranks of a communicator have launched equally often."""

    op: str
    """``AllReduce``, as NCCL names it; :data:`ANY` before 2.26."""
    levels: list[Launched]
    """Those that launched most come first."""

    @property
    def front(self) -> int:
        """Return the operations of the ranks that launched most."""
        return self.levels[0].operations


@dataclass(slots=True)
class InStatus(Level):
    """Ranks of one status."""

    status: str = ""
    """``INIT``, ``RUNNING``, ``FINALIZE``, ``ABORT``; ``NOCOMM``, before NCCL 2.26 ``UNKNOWN``: the
    process answers, but is not a member any more (or not yet)."""


@dataclass(slots=True)
class Failed(Level):
    """Ranks that report an error of NCCL."""

    error: str = ""
    """In NCCL's words: ``Remote process error``."""
    is_initialization: bool = False


@dataclass(slots=True)
class Communicator:
    """A communicator in the report: in JSON all of them, in text only those with a remark."""

    name: str
    """Its hash, as NCCL's own log prints it: 16 hexadecimal digits."""
    size: int | None
    """Ranks in all. None: the text did not say."""
    differences: list[Difference] = field(default_factory=list)
    statuses: list[InStatus] = field(default_factory=list)
    """The ranks of each status, if they differ; otherwise empty."""
    failures: list[Failed] = field(default_factory=list)
    silent: Level | None = None
    """Ranks that sent nothing, because their processes do not answer. None: there are none."""
    counts: Mapping[str, int] | None = None
    """Operations per op where no rank differs from another, by JSON."""

    @property
    def has_remark(self) -> bool:
        """Return whether there is something to report about it."""
        return bool(self.differences or self.statuses or self.failures or self.silent)


@dataclass(slots=True)
class Processes:
    """Processes of the job, and those of them that are known by name."""

    count: int = 0
    places: list[Place] = field(default_factory=list)


@dataclass(slots=True)
class Report:
    """The report of RAS on a job at one moment."""

    version: str
    """Of NCCL."""
    communicators: list[Communicator]
    """Largest first."""
    communicators_in_all: int
    marked: int = 0
    """Communicators that RAS marks as not in order."""
    processes: int | None = None
    nodes: int | None = None
    gpus: int | None = None
    """GPUs of the whole job; None: not known (JSON has no such summary)."""
    dead: Processes = field(default_factory=Processes)
    """Processes that could not be reached for a minute, and count as dead."""
    silent: Processes = field(default_factory=Processes)
    """Processes that did not answer in time, and do not count as dead (yet)."""
    timeouts: int = 0
    """Timeouts while the report was collected."""
    seconds: float | None = None
    """Seconds that it took to collect the report."""
    is_whole: bool = True
    """Whether it is complete."""

    @property
    def has_remark(self) -> bool:
        """Return whether RAS reports anything unusual."""
        return bool(
            self.dead.count
            or self.silent.count
            or any(communicator.has_remark for communicator in self.communicators)
        )
