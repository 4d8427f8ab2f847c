"""Which process groups the ranks mean when they use a name, and where they disagree about one.

torch names a group by a counter of the process, or by a hash of its members where only they take
part in its making. So equal names mean equal groups only if every rank made the same groups in
the same order; and groups of a split all carry one name, each on members of its own.
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
from collectrace.records import Group
from collectrace.words import ranges

DEFAULT: Final = "default_pg"
"""torch's description of the group that ``init_process_group`` makes."""

_HASHED: Final = re.compile(r"[0-9a-f]{40}(@\d+)?")
"""``new_group(..., use_local_synchronization=True)`` names a group by SHA-1."""


def is_local(name: str) -> bool:
    """Whether only its members took part in the making of a group, by its name."""
    return _HASHED.fullmatch(name) is not None


Members = tuple[int, ...]


@dataclass(slots=True)
class RunGroups:
    """The groups of a run, and what each rank's file calls them."""

    groups: dict[str, GroupInfo] = field(default_factory=dict)
    """By a name that is unique in the run."""
    names: dict[int, dict[str, str]] = field(default_factory=dict)
    """Per rank: what its file calls a group, and that name."""
    shifts: dict[int, dict[str, int]] = field(default_factory=dict)
    """Per rank: what its file calls a group, and how many calls it had seen before tracing."""
    conflicts: list[GroupConflict] = field(default_factory=list)
    undecided: set[int] = field(default_factory=set)
    """Ranks that may have asked for a group in a part of their log that was not read."""
    notes: list[str] = field(default_factory=list)

    def of(self, rank: int) -> GroupNames:
        """What one rank's file calls its groups."""
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
        return tuple(dict.fromkeys(self.record.ranks))


def identify(logs: Mapping[int, RankReader]) -> RunGroups:
    """Tell the groups of a run apart, by what each rank's file says of them."""
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
    # Names come from a counter: after the first disagreement the others follow from it.
    if lacking:
        name = min(lacking, key=lambda name: _first(by_name[name].values()))
        instead = _instead(lacking[name], name, lacking, by_name)
        conflicts.append(_absence(name, by_name[name].values(), lacking[name], instead))
    found.conflicts = sorted(conflicts, key=lambda conflict: conflict.seq)[:1]
    _unrecorded(found, logs, requests)
    return found


def _requests(log: RankReader) -> dict[str, _Request]:
    """One rank's requests by the names of its file."""
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
    """One name asked for with different members, and not as parts of a split.

    A split's groups are disjoint, and only members take part in the making of each. Where members
    alone make others, all look for each other under one name in the store: that may go well, and
    where it did not, or the first call in such a group fails, they disagree.
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
        return None  # who has not come to its own is why, where one has not
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
    """Whether the first call in a group failed, to which all of its members had come."""
    records = [logs[rank].records for rank in members if rank in logs]
    have_come = all(any(key.group == name for key in one.rows) for one in records)
    failed = (done for one in records for done in one.failed)
    return have_come and any((done.group, done.seq) == (name, 1) for done in failed)


def _absent(
    name: str, variants: Mapping[Members, Sequence[_Request]], logs: Mapping[int, RankReader]
) -> tuple[int, ...]:
    """The ranks that should have asked for a group and, as far as was read, did not.

    torch has every rank ask for a group, or its members only. A group that is ready somewhere
    lacked nobody, except ranks that were no members and left without having asked. A rank that
    made calls in it has asked, and so may one whose log has lines that cannot be read.
    """
    requests = [request for those in variants.values() for request in those]
    description = requests[0].record.description
    is_default = description == DEFAULT
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
    """What ranks that did not ask for a group asked for: a group to which others did not come."""
    found = []
    for rank in absent:
        others = (by_name[other] for other in lacking if other != name)
        mine = (of_name[rank] for of_name in others if rank in of_name)
        first = min(mine, key=lambda request: request.record.ordinal, default=None)
        found += [first] if first is not None else []
    return found


def _first(requests: Iterable[_Request]) -> int:
    """Return which group of a process one was that is asked for, where it was the earliest."""
    return min(request.record.ordinal for request in requests)


def _absence(
    name: str,
    requests: Collection[_Request],
    absent: tuple[int, ...],
    instead: Sequence[_Request],
) -> GroupConflict:
    """A group that not all who should have asked for it did, and what those asked for instead."""
    return GroupConflict(
        name=name,
        variants=(*_variants(requests), (absent, None)),
        seq=_first(requests),
        harmless=any(request.ready for request in requests),
        instead=_variants(instead),
    )


def _variants(requests: Iterable[_Request]) -> tuple[tuple[tuple[int, ...], Group], ...]:
    """Who asked for what, those that passed the same members together."""
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
    """Whether a log has all that the rank ever did, from its default group to its end."""
    found = log.records
    whole = not (log.rotated or log.damaged or found.dropped)
    begun = any(group.description == DEFAULT for group in found.groups)
    return whole and begun and found.exit is not None and found.exit.reason == "finished"


def _unrecorded(
    found: RunGroups,
    logs: Mapping[int, RankReader],
    requests: Mapping[int, Mapping[str, _Request]],
) -> None:
    """Groups that ranks use though no record tells of them: damaged, or written by another hand."""
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
            unique = name if name not in found.groups else f"{name} [{ranges(lost)}]"
            found.groups[unique] = GroupInfo(
                name=unique, description="", backend="", ranks=tuple(sorted(lost))
            )
            for rank in lost:
                found.names.setdefault(rank, {})[name] = unique
            found.notes.append(
                f"group {name!r} is used by rank {ranges(lost)} but no record tells its members"
            )
