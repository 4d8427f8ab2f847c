"""The process groups of a run: their names in the record, members and backends.

Parts of this use private attributes of torch (``distributed_c10d._world``, torch 2.13).
"""

from __future__ import annotations

import itertools
import math
import os
import threading
import weakref
from collections import defaultdict
from typing import Any, Final

import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from collectrace.records import Group, backend_for
from collectrace.tracer.guard import is_users
from collectrace.tracer.record.scopes import now
from collectrace.tracer.record.streams import Channel, Stream
from collectrace.tracer.record.template import Template
from collectrace.tracer.user_objects import ByObject, type_name
from collectrace.tracer.user_text import LONGEST_NAME, safe_attribute, safe_name, safe_text


class Ordinals:
    """Numbers objects in the order in which they were first seen, without keeping them alive."""

    __slots__ = ("_known", "_next", "several")

    def __init__(self) -> None:
        # Not by id(): on some ranks only, a new object may get the id of a dead one.
        self._known = ByObject[int]()
        self._next = itertools.count()
        self.several = False
        """Whether more than one object has been seen."""

    def of(self, thing: Any) -> int:
        """Return the number of an object, from 0. The object must support weak references."""
        found = self._known.get(thing)
        if found is None:
            self._known[thing] = found = next(self._next)
            self.several = found > 0
        return found


class GroupState:
    """A process group of this process, with its streams and channels.

    ``record`` is its ``ready`` record. ``self_rank`` is this process's rank within the group.
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
        """By the key from ``Recorder.issue``."""
        self.owners = Ordinals()
        """DDP modules and ZeRO optimizers in the order of their first use on this group."""

    def global_rank(self, group_rank: int | None) -> int | None:
        """Return the global rank of a member; -1 (any source) and None are returned unchanged."""
        if group_rank is None or group_rank < 0:
            return group_rank
        return self.ranks[group_rank] if group_rank < len(self.ranks) else group_rank

    def stream(self, device: str) -> Stream:
        """Return the stream of a device type, which is created at its first use."""
        found = self.streams.get(device)
        if found is None:
            backend = backend_for(self.record.backend, device)
            found = self.streams[device] = Stream(self.name, device, backend)
        return found

    def channel(self, device: str, source: int, destination: int, tag: int) -> Channel:
        """Return the channel between two global ranks, which is created at its first use."""
        key = (device, source, destination, tag)
        found = self.channels.get(key)
        if found is None:
            found = self.channels[key] = Channel(self.name, device, source, destination, tag)
        return found


_DESTROYED: Final = object()
"""Replaces a default group that was destroyed."""


class GroupBook:
    """The groups of one run of this process."""

    def __init__(self) -> None:
        self.states: dict[Any, GroupState] = {}
        """By the ProcessGroup object."""
        self.default: Any = None
        """The default group of the recorded rank; None: there is none yet."""
        self.timeout = math.inf
        """Of the default group, seconds."""
        self.joined = 0
        """When this process joined the job, ns; 0: it has not."""
        self.asking: Group | None = None
        """The ``asked`` record of a group that is being created."""
        self.asked = 0
        """How many groups were requested so far, including those without this rank."""
        self.strange: weakref.WeakSet[Any] = weakref.WeakSet()
        """Groups with unknown members."""
        self._uses: dict[str, int] = {}
        """How many groups have had a name so far."""
        self._beginner = threading.get_ident()
        """The thread that began the run."""

    def is_other_rank(self, *, may_begin: bool = False) -> bool:
        """Return whether the calling thread belongs to another rank than the recorded one.

        That is possible only if ranks are threads. A thread without a default group belongs to no
        rank yet. With ``may_begin`` it is about to get one, and counts as another rank.
        """
        if not ranks_are_threads():
            return False
        if self.default is None:
            return threading.get_ident() != self._beginner
        theirs = c10d._world.default_pg
        return theirs is not self.default and (may_begin or theirs is not None)

    def name_of(self, c10d_name: str) -> str:
        """Return the recorded name: torch's, or ``name@n`` for its n-th use in this process."""
        n = self._uses[c10d_name] = self._uses.get(c10d_name, 0) + 1
        return c10d_name if n == 1 else f"{c10d_name}@{n}"

    def adopt(self, pg: Any, record: Group) -> GroupState:
        """Add a group with its ``ready`` record, and return its state."""
        state = self.states[pg] = GroupState(record, pg.rank())
        return state

    def use_default(self, pg: Any) -> None:
        """Take a group as the default group of the recorded rank."""
        self.default = pg
        self.timeout = timeout_of(pg)
        self.joined = now()

    def named(self, name: str) -> GroupState | None:
        """Return the group with this name in the record; None: it was destroyed."""
        return next((state for state in list(self.states.values()) if state.name == name), None)

    def forget(self, pg: Any) -> GroupState | None:
        """Remove a destroyed group, and return its state.

        This must happen at once, so that the tracer never holds the last reference. If the last one
        to a group of gloo ends on one of gloo's threads, the destructor waits for that same thread.
        Then the process aborts.
        """
        if pg is self.default:
            self.default = _DESTROYED
        return self.states.pop(pg, None)

    def forget_all(self) -> None:
        """Remove all groups and keep none alive, as the record has ended."""
        self.default = _DESTROYED
        self.states.clear()


def ranks_are_threads() -> bool:
    """Return whether torch keeps its groups per thread, so that threads are ranks.

    That is so with torch's threaded test group (torch/testing/_internal/distributed/
    multi_threaded_pg.py, which replaces ``distributed_c10d._world``; torch 2.13). A process has one
    record, of the rank that begins first. Calls, groups and batches of other ranks are not in it.
    """
    return type(c10d._world) is not c10d._World


def c10d_name(pg: Any) -> str:
    """Return torch's name of a group; if it has none, the name of its class, with a number."""
    name = c10d._world.pg_names.get(pg)
    if name is None:
        name = safe_attribute(pg, "group_name")  # torch raises
    if told := safe_name(name):
        return told
    kind = type_name(pg)
    n = by_hand[kind].of(pg)
    return f"{kind}@{n + 1}" if n else kind


by_hand: Final[defaultdict[str, Ordinals]] = defaultdict(Ordinals)
"""By class, groups that the program constructed itself, in the order of their construction or first
use, which should be the same on all ranks."""


def ready_record(pg: Any, name: str, ranks: list[int], **known: Any) -> Group:
    """Return the ``ready`` record of an existing group; ``known``: fields unknown to torch."""
    return Group(
        phase="ready",
        group=name,
        description=safe_name(safe_attribute(pg, "group_desc")) or "",
        backend=backend_of(pg),
        ranks=ranks,
        **known,
    )


def members(pg: Any, world_size: int | None) -> list[int] | None:
    """Return the global ranks in group order; None: they are unknown.

    They are unknown if the group is not registered with torch.distributed, unless it has all ranks
    of the job, or its options contain them.
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


def timeout_of(pg: Any) -> float:
    """Return the seconds after which the backend of a group gives up; infinity: not known."""
    try:
        options = pg._get_backend(pg._device_types[0]).options
        return float(options._timeout.total_seconds()) or math.inf
    except Exception:  # a backend without options; a group written in Python may raise anything
        return math.inf


def backend_of(pg: Any) -> str:
    """Return the backends by device type, as in ``cpu:gloo,cuda:nccl``, or the only one's name."""
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
    """Return how many collectives the backend has counted on this group; None: it does not."""
    try:
        return int(pg._get_sequence_number_for_group())
    except RuntimeError:
        return None


def environment_int(name: str) -> int | None:
    """Return the number in an environment variable; None: it is not set to a number."""
    text = os.environ.get(name, "")
    return int(text) if text.isdigit() else None
