"""Process groups as the tracer knows them: their names in the record, members and backends.

Some of it is private to torch (``distributed_c10d._world``, torch 2.13).
"""

from __future__ import annotations

import itertools
import os
import threading
import weakref
from collections import defaultdict
from typing import Any, Final

import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from collectrace.records import Group, backend_for
from collectrace.tracer.guard import is_users
from collectrace.tracer.record.streams import Channel, Stream
from collectrace.tracer.record.template import Template
from collectrace.tracer.user_objects import ByObject, type_name
from collectrace.tracer.user_text import LONGEST_NAME, safe_attribute, safe_name, safe_text


class Ordinals:
    """Numbers objects in the order in which they were first seen, without keeping them alive."""

    __slots__ = ("_known", "_next", "several")

    def __init__(self) -> None:
        # Not by id(): a new object may get that of a dead one, on one rank and not on another.
        self._known = ByObject[int]()
        self._next = itertools.count()
        self.several = False
        """Whether more than one object has been seen."""

    def of(self, thing: Any) -> int:
        """The number of an object, from 0. It must be one that weak references can refer to."""
        found = self._known.get(thing)
        if found is None:
            self._known[thing] = found = next(self._next)
            self.several = found > 0
        return found


class GroupState:
    """One process group of this process, with its streams and channels.

    ``record`` is its ``ready`` record, ``self_rank`` this process's rank within the group.
    """

    __slots__ = (
        "channels", "name", "owners", "ranks", "record", "self_rank", "streams",
        "templates",
    )  # fmt: skip

    def __init__(self, record: Group, self_rank: int) -> None:
        self.record = record
        self.name = record.group
        self.ranks = record.ranks
        self.self_rank = self_rank
        self.streams: dict[str, Stream] = {}
        """By device type."""
        self.channels: dict[tuple[str, int, int, int], Channel] = {}
        """By device type, source, destination (global ranks) and tag."""
        self.templates: dict[Any, Template] = {}
        """By the key that ``Recorder.issue`` makes."""
        self.owners = Ordinals()
        """DDP modules and ZeRO optimizers in the order of their first use on this group."""

    def global_rank(self, group_rank: int | None) -> int | None:
        """The global rank of a member; -1 (any source) and None stay what they are."""
        if group_rank is None or group_rank < 0:
            return group_rank
        return self.ranks[group_rank] if group_rank < len(self.ranks) else group_rank

    def stream(self, device: str) -> Stream:
        """The stream of a device type, which begins with its first use."""
        found = self.streams.get(device)
        if found is None:
            backend = backend_for(self.record.backend, device)
            found = self.streams[device] = Stream(self.name, device, backend)
        return found

    def channel(self, device: str, source: int, destination: int, tag: int) -> Channel:
        """The channel between two global ranks, which begins with its first use."""
        key = (device, source, destination, tag)
        found = self.channels.get(key)
        if found is None:
            found = self.channels[key] = Channel(self.name, device, source, destination, tag)
        return found

    def owner(self, module: object) -> int:
        """The ordinal of a DDP module or ZeRO optimizer on this group, from 0."""
        return self.owners.of(module)


_DESTROYED: Final = object()
"""Stands for a default group that is gone."""


class GroupBook:
    """The groups of one run of this process."""

    def __init__(self) -> None:
        self.states: dict[Any, GroupState] = {}
        """By the ProcessGroup object."""
        self.default: Any = None
        """The default group of the rank whose record this is; None: there is none yet."""
        self.asking: Group | None = None
        """The ``asked`` record of a group whose creation is in progress."""
        self.asked = 0
        """Groups asked for so far, those that this rank is no member of counted."""
        self.strange: weakref.WeakSet[Any] = weakref.WeakSet()
        """Groups of which nobody knows which ranks they have."""
        self._uses: dict[str, int] = {}
        """How many groups have had a name so far."""
        self._beginner = threading.get_ident()
        """The thread that began the run."""

    def is_other_rank(self, *, may_begin: bool = False) -> bool:
        """Whether the calling thread belongs to another rank than the one whose record this is.

        That is possible only where ranks are threads. One without a default group belongs to no
        rank yet; ``may_begin``: it is about to get one, and counts as another rank.
        """
        if not ranks_are_threads():
            return False
        if self.default is None:
            return threading.get_ident() != self._beginner
        theirs = c10d._world.default_pg
        return theirs is not self.default and (may_begin or theirs is not None)

    def name_of(self, c10d_name: str) -> str:
        """The name in the record: torch's own, or ``name@n`` for its n-th use in this process."""
        n = self._uses[c10d_name] = self._uses.get(c10d_name, 0) + 1
        return c10d_name if n == 1 else f"{c10d_name}@{n}"

    def adopt(self, pg: Any, record: Group) -> GroupState:
        """Know this group from now on, by its ``ready`` record."""
        state = self.states[pg] = GroupState(record, pg.rank())
        return state

    def named(self, name: str) -> GroupState | None:
        """The group of this name in the record; None where it is destroyed."""
        return next((state for state in list(self.states.values()) if state.name == name), None)

    def forget(self, pg: Any) -> GroupState | None:
        """Know this group no longer, since it is destroyed; what was known of it.

        At once, so that no reference of ours to it is the last one: where the last reference to a
        group of gloo ends on one of its own threads, the destructor waits for that very thread,
        and the process aborts.
        """
        if pg is self.default:
            self.default = _DESTROYED
        return self.states.pop(pg, None)

    def forget_all(self) -> None:
        """Know no group any more, and keep none alive: the record has ended."""
        self.default = _DESTROYED
        self.states.clear()


def ranks_are_threads() -> bool:
    """Whether torch keeps its groups per thread, and the threads of this process are ranks.

    So it does under its threaded test group (torch/testing/_internal/distributed/
    multi_threaded_pg.py, which replaces ``distributed_c10d._world``; torch 2.13). One process has
    one record, that of the rank that begins first; the calls, groups and batches of the others
    are left out of it.
    """
    return type(c10d._world) is not c10d._World


def c10d_name(pg: Any) -> str:
    """The name by which torch knows a group; if it knows none, that of its class, numbered."""
    name = c10d._world.pg_names.get(pg)
    if name is None:
        name = safe_attribute(pg, "group_name")  # torch raises
    if told := safe_name(name):
        return told
    kind = type_name(pg)
    n = by_hand[kind].of(pg)
    return f"{kind}@{n + 1}" if n else kind


by_hand: Final[defaultdict[str, Ordinals]] = defaultdict(Ordinals)
"""By class, groups that the program constructed by itself, in the order in which it did, or in
which they were first used: it should be the same on all ranks."""


def ready_record(pg: Any, name: str, ranks: list[int], **known: Any) -> Group:
    """The ``ready`` record of a group that exists; ``known``: fields that torch does not tell."""
    return Group(
        phase="ready",
        group=name,
        description=safe_name(safe_attribute(pg, "group_desc")) or "",
        backend=backend_of(pg),
        ranks=ranks,
        **known,
    )


def members(pg: Any, world_size: int | None) -> list[int] | None:
    """Global ranks in group order; None: nobody knows them.

    So it is with a group that is not registered with torch.distributed, unless it has all the
    ranks of the job, or was told which it has.
    """
    try:
        return list(dist.get_process_group_ranks(pg))
    except (RuntimeError, KeyError, ValueError):
        pass
    size = int(pg.size())
    if world_size in (None, size):
        return list(range(size))
    try:
        told = list(pg._get_backend(pg._device_types[0]).options.global_ranks_in_group)
    except Exception:  # a group written in Python may raise anything
        told = []
    return told if len(told) == size else None


def backend_of(pg: Any) -> str:
    """The backends by device type, as in ``cpu:gloo,cuda:nccl``, or the name of the only one."""
    config = c10d._world.pg_backend_config.get(pg)
    if config:
        return str(config)
    try:
        return safe_text(pg._get_backend_name(), LONGEST_NAME)
    except Exception as problem:  # torch raises; a group written in Python may raise anything
        if is_users(problem):
            raise
        return type_name(pg)


def backend_sequence(pg: Any) -> int | None:
    """How many collectives the backend has counted on this group; None where it does not count."""
    try:
        return int(pg._get_sequence_number_for_group())
    except RuntimeError:
        return None


def environment_int(name: str) -> int | None:
    """A variable that a launcher has set to a number; None where it has not."""
    text = os.environ.get(name, "")
    return int(text) if text.isdigit() else None
