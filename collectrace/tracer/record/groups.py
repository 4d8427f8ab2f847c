"""Process groups as the tracer knows them: named once, with their members and backends."""

from __future__ import annotations

import itertools
import os
import threading
import weakref
from typing import Any, Final

import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from collectrace.records import Group, backend_for
from collectrace.tracer.record.streams import Channel, Stream


class Ordinals:
    """Numbers objects in the order in which they were first seen, without keeping them alive."""

    def __init__(self) -> None:
        # Not by id(): the next object may get a dead one's, on one rank and not on another.
        self._known: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._next = itertools.count()

    def of(self, thing: Any) -> int:
        """The number of an object, from 0."""
        found = self._known.get(thing)
        if found is None:
            found = self._known[thing] = next(self._next)
        return found


class GroupState:
    """One process group of this process, its streams and channels."""

    __slots__ = (
        "channels", "name", "owners", "ranks", "record", "self_rank", "streams",
        "templates",
    )  # fmt: skip

    def __init__(self, record: Group, self_rank: int) -> None:
        self.record = record
        self.name = record.group
        self.ranks = record.ranks
        self.self_rank = self_rank
        """This process's rank within the group."""
        self.streams: dict[str, Stream] = {}
        self.channels: dict[tuple[str, int, int, int], Channel] = {}
        self.templates: dict[Any, Any] = {}
        self.owners = Ordinals()
        """DDP modules and ZeRO optimizers in order of their first use on this group."""

    def global_rank(self, group_rank: int | None) -> int | None:
        """The global rank of a member; -1 (any source) and None stay what they are."""
        if group_rank is None or group_rank < 0:
            return group_rank
        return self.ranks[group_rank] if group_rank < len(self.ranks) else group_rank

    def stream(self, device: str) -> Stream:
        """The stream of one device type, begun if it is new."""
        found = self.streams.get(device)
        if found is None:
            backend = backend_for(self.record.backend, device)
            found = self.streams[device] = Stream(self.name, device, backend)
        return found

    def channel(self, device: str, source: int, destination: int, tag: int) -> Channel:
        """The channel of one direction and tag, begun if it is new."""
        key = (device, source, destination, tag)
        found = self.channels.get(key)
        if found is None:
            found = self.channels[key] = Channel(self.name, device, source, destination, tag)
        return found

    def owner(self, module: object) -> int:
        """The ordinal of a DDP module or ZeRO optimizer on this group, from 0."""
        return self.owners.of(module)


_DESTROYED: Final = object()
"""In place of a default group that is gone."""


class GroupBook:
    """The groups of one run of this process, by the ProcessGroup object."""

    def __init__(self) -> None:
        self.states: dict[Any, GroupState] = {}
        self.default: Any = None
        """The default group of the rank whose record this is; None: there is none yet."""
        self._beginner = threading.get_ident()
        self.asking: Group | None = None
        """What was asked for last, while it is in the making."""
        self.asked = 0
        """Groups asked for so far, by members and others alike."""
        self._uses: dict[str, int] = {}

    def is_other_rank(self, *, may_begin: bool = False) -> bool:
        """Whether the calling thread is another rank than the one whose record this is.

        ``may_begin``: whether it becomes one, if it is none so far.
        """
        if not ranks_are_threads():
            return False
        if self.default is None:
            return threading.get_ident() != self._beginner
        theirs = c10d._world.default_pg
        return theirs is not self.default and (may_begin or theirs is not None)

    def name_of(self, c10d_name: str) -> str:
        """A name that is unique in this process: ``name@n`` for a name's n-th use."""
        n = self._uses[c10d_name] = self._uses.get(c10d_name, 0) + 1
        return c10d_name if n == 1 else f"{c10d_name}@{n}"

    def adopt(self, pg: Any, record: Group) -> GroupState:
        """Know a group from now on."""
        state = self.states[pg] = GroupState(record, pg.rank())
        return state

    def forget(self, pg: Any) -> GroupState | None:
        """A group is destroyed: do not keep it alive.

        Nor by chance a little longer: where the last reference to a group of gloo ends on one of
        its own threads, it waits for that thread, and the process aborts.
        """
        if pg is self.default:
            self.default = _DESTROYED
        return self.states.pop(pg, None)

    def forget_all(self) -> None:
        """The record has ended: groups live and die as they would without it."""
        self.default = _DESTROYED
        self.states.clear()


def ranks_are_threads() -> bool:
    """Whether torch keeps its groups per thread, as its threaded test group has it do.

    One process has one record, that of the rank that begins first; the others' calls, groups
    and batches are left out of it.
    """
    return type(c10d._world) is not c10d._World


def c10d_name(pg: Any) -> str:
    """The name torch knows a group by; its class, for one that torch does not know."""
    name = c10d._world.pg_names.get(pg)
    if name is None:
        try:
            name = pg.group_name
        except Exception:  # torch raises; a group written in Python may raise anything
            name = None
    return str(name or type(pg).__name__)


def describe(pg: Any, name: str, **known: Any) -> Group:
    """A ``ready`` record of a group that exists."""
    return Group(
        phase="ready",
        group=name,
        description=str(getattr(pg, "group_desc", "") or ""),
        backend=backend_of(pg),
        ranks=members(pg),
        **known,
    )


def members(pg: Any) -> list[int]:
    """Global ranks in group order."""
    try:
        return list(dist.get_process_group_ranks(pg))
    except (RuntimeError, KeyError, ValueError):
        # Not registered with torch.distributed: its own numbers are all there is.
        return list(range(pg.size()))


def backend_of(pg: Any) -> str:
    """``cpu:gloo,cuda:nccl``, or the single backend's name."""
    config = c10d._world.pg_backend_config.get(pg)
    if config:
        return str(config)
    try:
        return str(pg._get_backend_name())
    except (RuntimeError, AttributeError):
        return type(pg).__name__


def backend_sequence(pg: Any) -> int | None:
    """How many collectives the backend has counted so far, where it does."""
    try:
        return int(pg._get_sequence_number_for_group())
    except RuntimeError:
        return None


def environment_int(name: str) -> int | None:
    """A number that a launcher left in the environment."""
    text = os.environ.get(name, "")
    return int(text) if text.isdigit() else None
