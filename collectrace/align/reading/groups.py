"""Identify the process groups that ranks mean by a name, and find disagreements about one.

torch names a group by a counter of the process, or by a hash of its members if only they make it.
So equal names mean equal groups only if every rank made the same groups in the same order. All
groups of a split have the same name, each with its own members.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from collectrace.align.reading.evidence import GroupConflict
from collectrace.align.reading.group_names import GroupNames
from collectrace.align.reading.rank_reader import RankReader
from collectrace.align.reading.vocabulary import MAX_SEQ
from collectrace.findings import GroupInfo
from collectrace.members import Members
from collectrace.records import DEFAULT_GROUP, Group
from collectrace.words import ranges

_HASHED: Final = re.compile(r"[0-9a-f]{40}(@\d+)?")
"""``new_group(..., use_local_synchronization=True)`` names a group by SHA-1."""


def is_local(name: str) -> bool:
    """Return whether a group's name shows that only its members made it."""
    return _HASHED.fullmatch(name) is not None


@dataclass(slots=True)
class RunGroups:
    """The groups of a run, and the names of them in each rank's file."""

    groups: dict[str, GroupInfo] = field(default_factory=dict)
    """By a name that is unique in the run."""
    names: dict[int, dict[str, str]] = field(default_factory=dict)
    """Per rank: the name of a group in its file, and the unique name."""
    shifts: dict[int, dict[str, int]] = field(default_factory=dict)
    """Per rank: the name of a group in its file, and the group's calls before tracing began."""
    conflicts: list[GroupConflict] = field(default_factory=list)
    undecided: set[int] = field(default_factory=set)
    """Ranks that may have requested a group in an unread part of their log."""
    without_members: set[int] = field(default_factory=set)
    """Ranks that used a group whose members no record tells."""
    notes: list[str] = field(default_factory=list)

    def of(self, rank: int) -> GroupNames:
        """Return the translation of the group names of one rank's file."""
        return GroupNames(self.names.get(rank, {}), self.shifts.get(rank, {}))


@dataclass(slots=True)
class _Request:
    """One rank's request for a group: what its records say of one name."""

    rank: int
    record: Group
    ready: bool = False
    start_seq: int | None = None

    @property
    def members(self) -> Members:
        ranks = self.record.ranks
        return (ranks if isinstance(ranks, Members) else Members(ranks)).unique


def identify(logs: Mapping[int, RankReader]) -> RunGroups:
    """Identify the groups of a run from the records in each rank's file."""
    found = RunGroups()
    requests = {rank: _requests(log) for rank, log in logs.items()}
    by_name: dict[str, dict[int, _Request]] = {}
    for rank, of_rank in requests.items():
        for name, request in of_rank.items():
            by_name.setdefault(name, {})[rank] = request
    conflicts = []
    lacking: dict[str, tuple[int, ...]] = {}
    for name, of_name in by_name.items():
        variants = _by_members(of_name.values())
        conflict = _disagreement(name, variants, logs)
        if conflict is None:
            absent = _absent(name, variants, logs)
            found.undecided |= {rank for rank in absent if not logs[rank].scanned}
            if absent:
                lacking[name] = absent
        if conflict is not None:
            conflicts.append(conflict)
        for members, those in variants.items():
            unique = name if len(variants) == 1 else f"{name} [{ranges(members)}]"
            _enter(found, unique, name, members, those)
    # A counter makes the names: later disagreements follow from the first.
    if lacking:
        name = min(lacking, key=lambda name: _first(by_name[name].values()))
        instead = _instead(lacking[name], name, lacking, by_name)
        conflicts.append(_absence(name, by_name[name].values(), lacking[name], instead))
    found.conflicts = sorted(conflicts, key=lambda conflict: conflict.seq)[:1]
    _unrecorded(found, logs, requests)
    return found


def _requests(log: RankReader) -> dict[str, _Request]:
    found: dict[str, _Request] = {}
    for group in log.records.groups:
        known = found.get(group.group)
        if known is None:
            known = found[group.group] = _Request(log.records.rank, group)
        elif group.ranks and not known.record.ranks:
            known.record = group
        known.ready |= group.phase != "asked"
        if group.start_seq is not None and 0 <= group.start_seq < MAX_SEQ:
            known.start_seq = group.start_seq
    return found


def _enter(
    found: RunGroups, unique: str, name: str, members: Members, requests: Sequence[_Request]
) -> None:
    record = next((r.record for r in requests if r.rank in members), requests[0].record)
    found.groups[unique] = GroupInfo(
        name=unique, description=record.description, backend=record.backend, ranks=members
    )
    starts = {r.rank: r.start_seq or 0 for r in requests if r.rank in members}
    earliest = min(starts.values(), default=0)
    for request in requests:
        found.names.setdefault(request.rank, {})[name] = unique
        late = starts.get(request.rank, earliest) - earliest
        if late:
            found.shifts.setdefault(request.rank, {})[name] = late


def _disagreement(
    name: str, variants: Mapping[Members, Sequence[_Request]], logs: Mapping[int, RankReader]
) -> GroupConflict | None:
    """Return a conflict if ranks requested one name with different members, except in a split.

    A split's groups are disjoint, and only members make each. Groups that only their members make
    all use one name in the store. That may work. If it did not, or the first call in such a group
    fails, the ranks disagree.
    """
    if len(variants) == 1:
        return None
    everybody = [rank for members in variants for rank in members]
    disjoint = len(everybody) == len(set(everybody))
    requests = [request for those in variants.values() for request in those]
    is_own = disjoint and all(
        a.rank in members for members, those in variants.items() for a in those
    )
    apart = is_local(name) or any(":split:" in a.record.description for a in requests)
    is_complete = {request.rank for request in requests} == {*everybody}
    if is_own and (apart or not is_complete):
        return None  # a rank that never requested its own group is the reason
    is_made = is_own and all(request.ready for request in requests)
    is_crossed = is_made and any(_is_crossed(name, members, logs) for members in variants)
    if is_made and not is_crossed:
        return None
    return GroupConflict(
        name=name,
        variants=_variants(requests),
        seq=_first(requests),
        own=is_own,
        crossed=is_crossed,
    )


def _is_crossed(name: str, members: Members, logs: Mapping[int, RankReader]) -> bool:
    """Return whether all members issued a call in a group, and the first of these calls failed."""
    records = [logs[rank].records for rank in members if rank in logs]
    have_come = all(any(key.group == name for key in one.rows) for one in records)
    failed = (done for one in records for done in one.failed)
    return have_come and any((done.group, done.seq) == (name, 1) for done in failed)


def _absent(
    name: str, variants: Mapping[Members, Sequence[_Request]], logs: Mapping[int, RankReader]
) -> tuple[int, ...]:
    """Return the ranks that should have requested a group and, as far as was read, did not.

    torch requires every rank to request a group, or its members only. A group that is ready on some
    rank lacked nobody, except ranks that were not members and exited without a request. A rank that
    made calls in the group has requested it. A rank with unreadable lines, or without the record of
    a request before another one, may have.
    """
    requests = [request for those in variants.values() for request in those]
    description = requests[0].record.description
    is_default = description == DEFAULT_GROUP
    is_ready = any(request.ready for request in requests)
    if is_ready and is_default:
        return ()
    members_only = is_local(name) or ":split:" in description
    wanted = set().union(*variants) if members_only else set(logs)
    silent = wanted & set(logs) - {request.rank for request in requests}
    return tuple(
        rank
        for rank in sorted(silent)
        if not logs[rank].records.disabled
        and not (logs[rank].damaged or logs[rank].segments.is_torn)
        and not (logs[rank].scanned and logs[rank].lacks_groups)
        and all(key.group != name for key in logs[rank].records.rows)
        and (is_default or not logs[rank].provisional)
        and (not is_ready or _left_whole(logs[rank]))
    )


def _instead(
    absent: Sequence[int],
    name: str,
    lacking: Mapping[str, Sequence[int]],
    by_name: Mapping[str, Mapping[int, _Request]],
) -> list[_Request]:
    """Return the first other incomplete group that each absent rank requested instead."""
    found = []
    for rank in absent:
        others = (by_name[other] for other in lacking if other != name)
        mine = (of_name[rank] for of_name in others if rank in of_name)
        first = min(mine, key=lambda request: request.record.ordinal, default=None)
        found += [first] if first is not None else []
    return found


def _first(requests: Iterable[_Request]) -> int:
    """Return the lowest ordinal of the requested groups in their processes."""
    return min(request.record.ordinal for request in requests)


def _absence(
    name: str,
    requests: Collection[_Request],
    absent: tuple[int, ...],
    instead: Sequence[_Request],
) -> GroupConflict:
    return GroupConflict(
        name=name,
        variants=(*_variants(requests), (absent, None)),
        seq=_first(requests),
        harmless=any(request.ready for request in requests),
        instead=_variants(instead),
    )


def _variants(requests: Iterable[_Request]) -> tuple[tuple[tuple[int, ...], Group], ...]:
    """Return who requested what; ranks with the same members together."""
    return tuple(
        (tuple(sorted(request.rank for request in those)), those[0].record)
        for those in _by_members(requests).values()
    )


def _by_members(requests: Iterable[_Request]) -> dict[Members, list[_Request]]:
    found: dict[Members, list[_Request]] = {}
    for request in requests:
        found.setdefault(request.members, []).append(request)
    return found


def _left_whole(log: RankReader) -> bool:
    """Return whether a log is complete, from the default group to the end of the process."""
    found = log.records
    whole = not (log.rotated or log.damaged or found.dropped)
    begun = any(group.description == DEFAULT_GROUP for group in found.groups)
    return whole and begun and found.exit is not None and found.exit.reason == "finished"


def _unrecorded(
    found: RunGroups,
    logs: Mapping[int, RankReader],
    requests: Mapping[int, Mapping[str, _Request]],
) -> None:
    """Enter groups that ranks use without a readable record of them."""
    users: dict[str, list[int]] = {}
    for rank, log in logs.items():
        for name in {key.group for key in log.records.rows} - requests[rank].keys():
            users.setdefault(name, []).append(rank)
    for name, ranks in sorted(users.items()):
        for rank in ranks:
            fitting = [
                unique
                for unique, info in found.groups.items()
                if rank in info.ranks and (unique == name or unique.startswith(f"{name} ["))
            ]
            if fitting:
                found.names.setdefault(rank, {})[name] = fitting[0]
        lost = [rank for rank in ranks if name not in found.names.get(rank, {})]
        if lost:
            found.without_members.update(lost)
            unique = name if name not in found.groups else f"{name} [{ranges(lost)}]"
            found.groups[unique] = GroupInfo(
                name=unique, description="", backend="", ranks=tuple(sorted(lost))
            )
            for rank in lost:
                found.names.setdefault(rank, {})[name] = unique
            found.notes.append(
                f"group {name!r} is used by rank {ranges(lost)} but no record tells its members"
            )
