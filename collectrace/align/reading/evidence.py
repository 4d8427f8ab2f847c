"""The types that the readers return: one log per rank, under names that all ranks share."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from collectrace.align.reading.keys import ChannelKey, Digests, Key, StreamKey, key_of
from collectrace.align.reading.rank_log import RankLog, Refusal
from collectrace.align.reading.source_files import SourceFiles
from collectrace.findings import GroupInfo
from collectrace.records import Group

__all__ = [
    "LOOK_BACK", "ChannelKey", "Digests", "GroupConflict", "Key", "RankLog", "Refusal",
    "RunEvidence", "StreamKey", "is_placed", "key_of",
]  # fmt: skip

LOOK_BACK: Final = 400
"""Calls of a rank before a position that are searched for its usual pattern.

The number holds for each stream or channel. A loop with a longer iteration is not recognised, and
older calls are ignored: the log may have millions."""


def is_placed(log: RankLog, stream: StreamKey) -> bool:
    """Return whether a rank's position in a stream of its group is known.

    It is unknown if another tool's trace has lost all of the rank's calls there.
    """
    lost = log.imported is not None and log.imported.lost
    return not lost or stream in log.last_seq


@dataclass(frozen=True, slots=True)
class GroupConflict:
    """A disagreement of ranks about a process group."""

    name: str
    variants: tuple[tuple[tuple[int, ...], Group | None], ...]
    """(ranks, what they requested at this position); None: they requested nothing."""
    seq: int
    """The ordinal among the requested groups."""
    harmless: bool = False
    """The group was made anyway: so far nobody has waited for the ranks that did not request it."""
    own: bool = False
    """Each rank requested a group with only its own members, and so far not all have got it."""
    crossed: bool = False
    """All have got it, and the first call in one of these groups failed: it may have met a call of
    another."""
    instead: tuple[tuple[tuple[int, ...], Group], ...] = ()
    """(ranks, the group they requested instead), for ranks that did not request this one."""


@dataclass(frozen=True, slots=True)
class RunEvidence:
    """A run as the reader found it."""

    run: str
    world_size: int
    logs: Mapping[int, RankLog]
    missing: tuple[int, ...] = ()
    """Ranks that left no file that can be read."""
    unreadable: Mapping[int, str] = field(default_factory=dict)
    """Missing ranks that left a file, and why it cannot be read; empty: it holds no record."""
    groups: Mapping[str, GroupInfo] = field(default_factory=dict)
    """By a name that is unique in the run; the logs use it too."""
    conflicts: Sequence[GroupConflict] = ()
    source_files: SourceFiles = field(default_factory=SourceFiles)
    """The source texts that ranks ran."""
    cut: frozenset[int] = frozenset()
    """Ranks with a file that ends within a line and is no longer written to."""
    disputed: frozenset[int] = frozenset()
    """Ranks that left two files that contradict each other; one of them was read."""
    without_members: frozenset[int] = frozenset()
    """Ranks that used a group whose members no record tells."""
    damaged_lines: int = 0
    notes: tuple[str, ...] = ()
    other_runs: tuple[str, ...] = ()
    """Ids of the other runs in the folder, which were not read."""
    earlier: tuple[str, ...] = ()
    """Ids of the runs that were attempts of this job before it, the latest last."""
    is_live: bool = False
    """The ranks themselves were queried: missing ranks did not answer."""
    still_exists: Callable[[RankLog], bool | None] = lambda _: None
    """Whether a rank's process exists now: None unless this is its host."""
    read_whole: Callable[[Collection[int]], RunEvidence] | None = None
    """Reads the same run again, with the whole logs of these ranks."""
