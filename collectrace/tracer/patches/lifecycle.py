"""Wrappers of the functions that begin and end process groups, and that end the process."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from torch.distributed import distributed_c10d as c10d

from collectrace.records import DEFAULT_GROUP, Group
from collectrace.tracer.guard import Wrapper, contained
from collectrace.tracer.record import groups, sites
from collectrace.tracer.record.scopes import local, now
from collectrace.tracer.session import Session
from collectrace.tracer.user_objects import type_name
from collectrace.tracer.user_text import LONGEST_NAME, is_asking, safe_name, safe_text


def init_process_group(session: Session) -> Wrapper:
    """Wrap ``init_process_group``: begin a run, so that a rank that hangs in it has a file."""

    def wrapper(wrapped: Any, _: Any, args: Any, kwargs: Any) -> Any:
        with _GroupCreation(session) as creation:
            creation.guard(lambda: creation.default_asked(_arguments(wrapped, args, kwargs)))
            return wrapped(*args, **kwargs)

    return wrapper


def new_process_group(session: Session) -> Wrapper:
    """Wrap ``_new_process_group_helper``, which creates every group, also the default one."""

    def wrapper(wrapped: Any, _: Any, args: Any, kwargs: Any) -> Any:
        with _GroupCreation(session) as creation:
            given = _arguments(wrapped, args, kwargs)
            record = creation.guard(lambda: creation.asked(given))
            result = wrapped(*args, **kwargs)
            if record is not None:
                creation.guard(lambda: creation.ready(record, given, result))
            return result

    return wrapper


def destroy_process_group(session: Session) -> Wrapper:
    """Wrap ``destroy_process_group``: record the end of a group; the default one ends all."""

    def wrapper(wrapped: Any, _: Any, args: Any, kwargs: Any) -> Any:
        recorder = session.recorder
        if recorder is None or session.is_other_rank():
            return wrapped(*args, **kwargs)
        pg = args[0] if args else kwargs.get("group")
        is_default = pg is None or pg is c10d.GroupMember.WORLD
        with contained(recorder.count_beside, "writing what has completed"):
            session.write_progress()
        if is_default:
            recorder.works.forget_all()
        result = wrapped(*args, **kwargs)
        if is_default:
            session.over = True
        gone = list(recorder.book.states) if is_default else [pg]
        for one in gone:
            state = recorder.book.forget(one)
            if state is not None:
                made, site = state.record, sites.here()[0]
                recorder.write(replace(made, t=0, phase="destroyed", site=site, stack=None))
        return result

    return wrapper


def constructed(session: Session, pg: Any, args: Any, kwargs: dict[str, Any]) -> None:
    """Note that the program or torch has constructed a ProcessGroup.

    If the program constructs its groups itself (``_dist2.new_group``, torchft), begin a run.
    """
    if not session.live or local.state.scope.what == "group" or session.is_other_rank():
        return
    groups.by_hand[type_name(pg)].of(pg)
    given = dict(zip(("store", "rank", "size"), args, strict=False)) | kwargs
    if session.recorder is None and isinstance(given.get("store"), c10d.Store):
        session.begin_by_hand(given["store"], int(given["rank"]), int(given["size"]))


class _GroupCreation:
    """A context for the creation of a group: heartbeats report it, and it is recorded."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._state = local.state

    def __enter__(self) -> _GroupCreation:
        state = self._state
        self._scope, self._since = state.scope, state.since
        if state.scope.what != "group":
            inside, since = state.scope.inside_what("group"), now()
            state.scope, state.since = inside, since
        return self

    def __exit__(self, *_: object) -> None:
        self._state.scope, self._state.since = self._scope, self._since
        recorder = self._session.recorder
        if recorder is not None:
            recorder.book.asking = None

    def guard(self, act: Any) -> Any:
        """Call a function of the tracer and return its result; count its failure, return None."""
        if not self._session.live:
            return None
        try:
            return act()
        except Exception as problem:
            recorder = self._session.recorder
            if recorder is not None:
                recorder.count_failure(problem, "recording a process group")
            return None

    def default_asked(self, given: dict[str, Any]) -> None:
        """Begin a run for a call of ``init_process_group`` with these arguments."""
        rank, world_size = _launched_as(given)
        recorder = self._session.begin(rank, world_size)
        if self._session.is_other_rank() or recorder.book.states or recorder.book.asked:
            return  # torch will refuse a second default group
        site, via = sites.here(3)
        if recorder.sources is not None and site is not None:
            recorder.sources.ask([site])
        recorder.book.asked = 1
        recorder.book.asking = record = Group(
            phase="asked",
            group=str(c10d._world.group_count),
            description=DEFAULT_GROUP,
            backend=safe_name(given.get("backend")) or "",
            ranks=list(range(world_size)) if world_size else [],
            ordinal=0,
            device_id=_device_id(given),
            site=site,
            via=via,
        )
        recorder.write(record)

    def asked(self, given: dict[str, Any]) -> Group | None:
        """Record that a group is about to be created, and return the record.

        ``given``: the arguments of torch's helper. None: the group belongs to another rank, see
        ``groups.ranks_are_threads``.
        """
        ranks = list(given["global_ranks_in_group"])
        is_default = not ranks
        session = self._session
        recorder = session.recorder
        if is_default:
            recorder = session.begin(int(given["group_rank"]), int(given["group_size"]))
            ranks = list(range(int(given["group_size"])))
        if session.is_other_rank():
            return None
        if recorder is None:
            raise RuntimeError("a group without a default group")
        # init_process_group's wrapper has recorded the default group already.
        is_written = is_default and recorder.book.asked > 0
        place = sites.place_here(3)
        site, via = sites.resolve(place)
        record = Group(
            phase="asked",
            group=recorder.book.name_of(safe_text(given["group_name"], LONGEST_NAME)),
            description=safe_name(given.get("group_desc")) or "",
            backend=safe_name(given.get("backend")) or "",
            ranks=ranks,
            member=is_default or session.rank in ranks,
            ordinal=0 if is_default else recorder.book.asked,
            device_id=_device_id(given),
            site=site,
            via=via,
            stack=None if is_default else recorder.stacks.number(place),
        )
        if not is_written:
            recorder.book.asked += 1
            recorder.book.asking = record
            recorder.write(record)
        return record

    def ready(self, record: Group, given: dict[str, Any], result: Any) -> None:
        """Record that the group exists; ``result``: what torch's helper returned.

        That is the group and its store; on a rank that is not a member, no group.
        """
        recorder = self._session.recorder
        pg, store = result
        if recorder is None or not isinstance(pg, c10d.ProcessGroup):
            return
        if pg in recorder.book.states:
            return  # torch returns an existing group for the same tag and ranks
        record = replace(record, t=0, phase="ready", backend=groups.backend_of(pg), member=True)
        recorder.book.adopt(pg, record)
        if not list(given["global_ranks_in_group"]):
            recorder.book.use_default(pg)
            self._session.move_to_run(store, pg.rank(), pg.size())
        recorder.write(record)


def sys_exit(session: Session) -> Wrapper:
    """Wrap ``sys.exit``, ``exit``, ``quit``: note their status, which is not available later."""

    def wrapper(wrapped: Any, _: Any, args: Any, kwargs: Any) -> Any:
        if session.live and not is_asking():
            code = args[0] if args else next(iter(kwargs.values()), None)
            session.exit_hooks.note_sys_exit(code, sys._getframe(1))
        return wrapped(*args, **kwargs)

    return wrapper


def _arguments(function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    bound = inspect.signature(function).bind_partial(*args, **kwargs)
    bound.apply_defaults()
    return bound.arguments


def _device_id(given: dict[str, Any]) -> str | None:
    """Return the device that a group is bound to. Torch creates its communicator at once."""
    return safe_name(given.get("device_id"))


def _launched_as(given: dict[str, Any]) -> tuple[int | None, int | None]:
    """Return rank and world size, from the arguments or from the launcher's environment."""
    rank, size = given.get("rank"), given.get("world_size")
    return (
        rank if isinstance(rank, int) and rank >= 0 else groups.environment_int("RANK"),
        size if isinstance(size, int) and size > 0 else groups.environment_int("WORLD_SIZE"),
    )
