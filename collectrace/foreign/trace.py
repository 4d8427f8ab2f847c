"""What a reader of a foreign format is given and gives back, whatever the format."""

from __future__ import annotations

from dataclasses import dataclass

from collectrace.chain import RankFile


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a trace comes from."""

    file: str
    """Its name."""
    rank: int
    world_size: int
    """At least so many ranks there were, by the files that lie there."""
    written: int | None = None
    """When the file was written, ns since 1970, as its file system says; None: it does not say."""


@dataclass(frozen=True, slots=True)
class Trace:
    """One rank's trace, as a rank file."""

    file: RankFile
    began: int
    """Wall clock of its first entry, ns since 1970; 0: it has none."""
    ended: int
    """Of its last sign of anything, the same way."""
    until: int
    """Until when its process may have stood so: when the dump was made, else when what was pending
    must have timed out."""
    is_whole: bool
    """It begins with the first call of the process."""
    version: str
    is_idle: bool = False
    """Nothing is pending: what its threads did then is a question."""
    notes: tuple[str, ...] = ()
