"""Which process groups the ranks mean when they use a name, and where they disagree about one.

torch names a group by a counter of the process, or by a hash of its members where only they take
part in its making. So equal names mean equal groups only if every rank made the same groups in
the same order; and groups of a split all carry one name, each on members of its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from collectrace.align.reading.evidence import GroupConflict, RankLog
from collectrace.align.reading.vocabulary import MAX_SEQ
from collectrace.findings import GroupInfo
from collectrace.records import Group
from collectrace.words import ranges

DEFAULT: Final = "default_pg"
"""torch's description of the group that ``init_process_group`` makes."""

_HASHED: Final = re.compile(r"[0-9a-f]{40}(@\d+)?")
"""``new_group(..., use_local_synchronization=True)`` names a group by SHA-1."""

Members = tuple[int, ...]


@dataclass(slots=True)
class Census:
    """The groups of a run."""

    groups: dict[str, GroupInfo] = field(default_factory=dict)
    """By a name that is unique in the run."""
    names: dict[int, dict[str, str]] = field(default_factory=dict)
    """Per rank: what its file calls a group, and that name."""
    shifts: dict[int, dict[str, int]] = field(default_factory=dict)
    """Per rank: what its file calls a group, and how many calls it had seen before tracing."""
    conflicts: list[GroupConflict] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Asker:
    """What one rank says of one name."""

    rank: int
    record: Group
    ready: bool = False
    start_seq: int | None = None

    @property
    def members(self) -> Members:
        return tuple(dict.fromkeys(self.record.ranks))


def identify(logs: Mapping[int, RankLog]) -> Census:
    """Tell the groups of a run apart, by logs that still use the names of their files."""
    census = Census()
    books = {rank: _book(log) for rank, log in logs.items()}
    by_name: dict[str, dict[int, _Asker]] = {}
    for rank, book in books.items():
        for name, asker in book.items():
            by_name.setdefault(name, {})[rank] = asker
    conflicts = []
    for name, askers in by_name.items():
        variants: dict[Members, list[_Asker]] = {}
        for asker in askers.values():
            variants.setdefault(asker.members, []).append(asker)
        conflict = _disagreement(name, variants) or _absence(name, variants, logs)
        if conflict is not None:
            conflicts.append(conflict)
        for members, those in variants.items():
            unique = name if len(variants) == 1 else f"{name} [{ranges(members)}]"
            _enter(census, unique, name, members, those)
    # Names come from a counter: after the first disagreement the others follow from it.
    census.conflicts = sorted(conflicts, key=lambda conflict: conflict.seq)[:1]
    _unrecorded(census, logs, books)
    return census


def _book(log: RankLog) -> dict[str, _Asker]:
    book: dict[str, _Asker] = {}
    for group in log.groups:
        known = book.get(group.group)
        if known is None:
            known = book[group.group] = _Asker(log.rank, group)
        elif group.ranks and not known.record.ranks:
            known.record = group
        known.ready |= group.phase != "asked"
        if group.start_seq is not None and 0 <= group.start_seq < MAX_SEQ:
            known.start_seq = group.start_seq
    return book


def _enter(
    census: Census, unique: str, name: str, members: Members, askers: Sequence[_Asker]
) -> None:
    record = next((a.record for a in askers if a.rank in members), askers[0].record)
    census.groups[unique] = GroupInfo(
        name=unique, description=record.description, backend=record.backend, ranks=members
    )
    starts = {a.rank: a.start_seq or 0 for a in askers if a.rank in members}
    earliest = min(starts.values(), default=0)
    for asker in askers:
        census.names.setdefault(asker.rank, {})[name] = unique
        late = starts.get(asker.rank, earliest) - earliest
        if late:
            census.shifts.setdefault(asker.rank, {})[name] = late


def _disagreement(name: str, variants: Mapping[Members, Sequence[_Asker]]) -> GroupConflict | None:
    """One name asked for with different members, and not as parts of a split.

    A split's groups are disjoint, and only members take part in the making of each.
    """
    if len(variants) == 1:
        return None
    everybody = [rank for members in variants for rank in members]
    disjoint = len(everybody) == len(set(everybody))
    if disjoint and all(a.rank in members for members, those in variants.items() for a in those):
        return None
    return GroupConflict(
        name=name,
        variants=tuple(
            (tuple(sorted(a.rank for a in those)), those[0].record) for those in variants.values()
        ),
        seq=min(a.record.ordinal for those in variants.values() for a in those),
    )


def _absence(
    name: str, variants: Mapping[Members, Sequence[_Asker]], logs: Mapping[int, RankLog]
) -> GroupConflict | None:
    """A group that not all who should have asked for it did, so that it is ready nowhere.

    Or is ready, where no member was among them, and they left without having asked.
    """
    askers = [a for those in variants.values() for a in those]
    is_ready = any(a.ready for a in askers)
    first = askers[0].record
    is_default = first.description == DEFAULT
    members_only = _HASHED.fullmatch(name) or ":split:" in first.description
    wanted = set().union(*variants) if members_only else set(logs)
    silent = wanted & set(logs) - {a.rank for a in askers}
    for rank in sorted(silent):
        # Where a log was read in part, its own record may lie in what was not.
        logs[rank].scan()
    absent = tuple(
        rank
        for rank in sorted(silent)
        if not logs[rank].disabled
        and (is_default or not logs[rank].provisional)
        and all(group.group != name for group in logs[rank].groups)
    )
    if is_ready and is_default:
        return None
    if is_ready:
        absent = tuple(rank for rank in absent if _left_whole(logs[rank]))
    if not absent:
        return None
    present = [
        (tuple(sorted(a.rank for a in those)), those[0].record) for those in variants.values()
    ]
    return GroupConflict(
        name=name,
        variants=(*present, (absent, None)),
        seq=min(a.record.ordinal for a in askers),
        harmless=is_ready,
    )


def _left_whole(log: RankLog) -> bool:
    """Whether a log has all that the rank ever did, from its default group to its end."""
    whole = not (log.rotated or log.damaged or log.dropped)
    begun = any(group.description == DEFAULT for group in log.groups)
    return whole and begun and log.exit is not None and log.exit.reason == "finished"


def _unrecorded(
    census: Census, logs: Mapping[int, RankLog], books: Mapping[int, Mapping[str, _Asker]]
) -> None:
    """Groups that ranks use though no record tells of them: damaged, or written by another hand."""
    users: dict[str, list[int]] = {}
    for rank, log in logs.items():
        used = {key.group for key in log.last_seq} | {key.group for key in log.last_channel_seq}
        for name in used:
            if name not in books[rank]:
                users.setdefault(name, []).append(rank)
    for name, ranks in sorted(users.items()):
        for rank in ranks:
            fitting = [
                unique
                for unique, info in census.groups.items()
                if rank in info.ranks and (unique == name or unique.startswith(f"{name} ["))
            ]
            if fitting:
                census.names.setdefault(rank, {})[name] = fitting[0]
        lost = [rank for rank in ranks if name not in census.names.get(rank, {})]
        if lost:
            unique = name if name not in census.groups else f"{name} [{ranges(lost)}]"
            census.groups[unique] = GroupInfo(
                name=unique, description="", backend="", ranks=tuple(sorted(lost))
            )
            for rank in lost:
                census.names.setdefault(rank, {})[name] = unique
            census.notes.append(
                f"group {name!r} is used by rank {ranges(lost)} but no record tells its members"
            )
