"""The program of one rank: its calls over all groups, in the order of issue.

Ranks of a mesh run one program over groups with different names. So a step names the dimension
instead of the group. It has no sizes or roots, which differ between groups.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from collectrace.align.matching.dimensions import Dimension, Dimensions, Stage
from collectrace.align.reading.evidence import Key, RankLog, StreamKey
from collectrace.findings import GroupInfo
from collectrace.records import Call

END: Final = -1
"""The last step of a rank that finished. A rank that was blocked has none."""

Line = tuple[Dimension, str, tuple[object, ...]]
"""The dimension, the device, and for a message its ends relative to the rank, and its tag."""
Place = tuple[Line, str, str, tuple[str, ...]]
"""The line, the op, the role, and the user's frames."""
Kind = tuple[frozenset[Dimension], Stage]
"""The common facts of ranks with the same program: the dimensions of their groups, their stage."""


@dataclass(slots=True)
class Steps:
    """The steps of all ranks, interned."""

    ids: dict[Place, int] = field(default_factory=dict)
    places: list[Place] = field(default_factory=list)

    def id(self, place: Place) -> int:
        """Return the number of a step, the same on every rank."""
        found = self.ids.get(place)
        if found is None:
            found = self.ids[place] = len(self.places)
            self.places.append(place)
        return found


@dataclass(frozen=True, slots=True)
class Program:
    """One rank's steps in the order of issue, and the rows of its streams that they come from."""

    log: RankLog
    steps: Sequence[int]
    sources: Sequence[int]
    """Per step, an index into ``keys``."""
    rows: Sequence[int]
    """Per step, the number of its row (message)."""
    keys: Sequence[Key]
    lines: Mapping[Line, Key]
    """The rank's own stream or channel of a line."""
    groups: Collection[str]
    """The names of the rank's groups."""

    @property
    def rank(self) -> int:
        """The rank that made the calls."""
        return self.log.rank

    @property
    def ends_anew(self) -> bool:
        """Whether the rank never made its last step before."""
        return bool(self.steps) and self.steps[-1] not in self.steps[:-1]

    def call(self, at: int) -> Call | None:
        """Return the call of a step."""
        return self.log.call(self.keys[self.sources[at]], self.rows[at])

    def line(self, at: int) -> Line:
        """Return the line of a step."""
        key = self.keys[self.sources[at]]
        return next(line for line, own in self.lines.items() if own == key)

    def places(self, key: Key) -> list[int]:
        """Return the steps that a rank made in one of its streams or channels."""
        which = self.keys.index(key)
        return [n for n, source in enumerate(self.sources) if source == which]

    def is_held_up(self, key: Key, row: int) -> bool:
        """Return whether the rank neither finished nor issued anything after a row of a stream."""
        return END not in self.steps[-1:] and self.next_row(key, len(self.rows)) <= row + 1

    def next_row(self, key: Key, at: int) -> int:
        """Return the number of the next row of a stream from step ``at`` on."""
        which = self.keys.index(key) if key in self.keys else -1
        return 1 + sum(source == which for source in self.sources[:at])


def is_whole(log: RankLog) -> bool:
    """Return whether a log holds every call of its rank, and all of it was read."""
    lossless = not (log.rotated or log.damaged or log.dropped or log.disabled or log.provisional)
    if not log.scanned or not lossless:
        return False
    streams = (log.rows(key) for key in log.last_seq)
    if any(shift or len(rows) != rows.last() for rows, shift in streams):
        return False
    return all(len(log.rows(k)[0]) == n for k, n in log.last_channel_seq.items())


def read(
    log: RankLog,
    groups: Mapping[str, GroupInfo],
    dimensions: Dimensions,
    steps: Steps,
    *,
    finished: bool,
) -> Program | None:
    """Return the program of one rank; None if a group is not known well enough.

    Args:
        log: a rank's log for which :func:`is_whole` is true.
        groups: all groups, by their unique names.
        dimensions: of the run.
        steps: of all ranks; new ones are added.
        finished: the rank exited without an exception.

    """
    mine = dimensions.of_ranks.get(log.rank, {})
    merged: list[tuple[int, int, int, int]] = []
    lines: dict[Line, Key] = {}
    keys = list(log.counts)
    for which, key in enumerate(keys):
        if key.group not in mine:
            return None
        line = _line(key, log.rank, mine[key.group], groups[key.group])
        rows, _ = log.rows(key)
        known: dict[int, int] = {}
        for appearance in set(rows.appearance):
            seen = rows.vocabulary.appearances[appearance]
            known[appearance] = steps.id((line, seen.op, seen.role, seen.where))
        merged += (
            (offset, known[appearance], which, seq)
            for offset, appearance, seq in zip(rows.offset, rows.appearance, rows.seq, strict=True)
        )
        lines[line] = key
    merged.sort()
    program = array("i", (step for _, step, _, _ in merged))
    if finished:
        program.append(END)
    return Program(
        log, program, array("i", (source for _, _, source, _ in merged)),
        array("q", (row for _, _, _, row in merged)), keys, lines, mine.keys(),
    )  # fmt: skip


def kind(rank: int, dimensions: Dimensions, used: set[str]) -> Kind:
    """Return the kind of a rank: its used groups by dimension, and its stage."""
    mine = dimensions.of_ranks.get(rank, {})
    return frozenset(d for name, d in mine.items() if name in used), dimensions.stage(rank)


def _line(key: Key, rank: int, dimension: Dimension, info: GroupInfo) -> Line:
    if isinstance(key, StreamKey):
        return dimension, key.device, ()
    ends = [_apart(end, rank, info) for end in (key.source, key.destination)]
    return dimension, key.device, (*ends, key.tag)


def _apart(end: int, rank: int, info: GroupInfo) -> int | None:
    """Return the distance of a channel's end from a rank in the group; None: any rank."""
    if end not in info.ranks or rank not in info.ranks:
        return None
    return (info.ranks.index(end) - info.ranks.index(rank)) % len(info.ranks)
