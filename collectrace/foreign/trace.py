"""The input and the output of every reader of a foreign format."""

from __future__ import annotations

from dataclasses import dataclass

from collectrace.chain import RankFile


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of a trace."""

    file: str
    """Its name."""
    rank: int
    world_size: int
    """The least number of ranks, by the files that exist."""
    written: int | None = None
    """When the file was written, ns since 1970, as its file system says; None: it does not say."""


@dataclass(frozen=True, slots=True)
class Trace:
    """One rank's trace, as a rank file."""

    file: RankFile
    began: int
    """Wall clock of its first entry, ns since 1970; 0: it has none."""
    ended: int
    """Wall clock of its last sign of life, likewise."""
    until: int
    """How long its process may have stayed in that state: until the dump was made, or until the
    pending call must have timed out."""
    is_whole: bool
    """Whether it begins with the first call of the process."""
    is_idle: bool = False
    """Whether nothing is pending, so that it is not known what its threads did."""
    notes: tuple[str, ...] = ()
