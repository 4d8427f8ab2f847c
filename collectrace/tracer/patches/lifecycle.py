"""Wrappers around what begins and ends: process groups, and the process itself."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from torch.distributed import distributed_c10d as c10d

from collectrace.records import Group
from collectrace.tracer.guard import Wrapper
from collectrace.tracer.record import groups, sites
from collectrace.tracer.record.scopes import local, now
from collectrace.tracer.session import Session


def init_process_group(session: Session) -> Wrapper:
    """The rendezvous: a rank that never gets past it leaves a provisional file."""

    def wrapper(wrapped: Any, _: Any, args: Any, kwargs: Any) -> Any:
        with _Creating(session) as creating:
            creating.guard(lambda: creating.default_asked(_arguments(wrapped, args, kwargs)))
            return wrapped(*args, **kwargs)

    return wrapper


def new_process_group(session: Session) -> Wrapper:
    """Every group's creation comes by here, ``init_process_group``'s own included."""

    def wrapper(wrapped: Any, _: Any, args: Any, kwargs: Any) -> Any:
        with _Creating(session) as creating:
            given = _arguments(wrapped, args, kwargs)
            record = creating.guard(lambda: creating.asked(given))
            result = wrapped(*args, **kwargs)
            if record is not None:
                creating.guard(lambda: creating.ready(record, given, result))
            return result

    return wrapper


def destroy_process_group(session: Session) -> Wrapper:
    """A group is gone; with the default one the run is over."""

    def wrapper(wrapped: Any, _: Any, args: Any, kwargs: Any) -> Any:
        recorder = session.recorder
        if recorder is None or session.is_other_rank():
            return wrapped(*args, **kwargs)
        pg = args[0] if args else kwargs.get("group")
        everything = pg is None or pg is c10d.GroupMember.WORLD
        try:
            session.write_progress()
        except Exception as problem:
            recorder.count_failure(problem, "writing what has completed")
        if everything:
            recorder.works.forget_all()
        result = wrapped(*args, **kwargs)
        if everything:
            session.over = True
        gone = list(recorder.book.states) if everything else [pg]
        for one in gone:
            state = recorder.book.forget(one)
            if state is not None:
                recorder.write(replace(state.record, t=0, phase="destroyed", site=sites.here()[0]))
        return result

    return wrapper


class _Creating:
    """A group in the making, as the heartbeat and the file tell it."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._state = local.state

    def __enter__(self) -> _Creating:
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
        """Do our part; its failure is ours alone."""
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
        """``init_process_group`` was called."""
        rank, world_size = _launch(given)
        recorder = self._session.begin(rank, world_size)
        if self._session.is_other_rank() or recorder.book.states or recorder.book.asked:
            return  # torch will refuse a second default group
        site, via = sites.here(3)
        recorder.book.asked = 1
        recorder.book.asking = record = Group(
            phase="asked",
            group=str(c10d._world.group_count),
            description="default_pg",
            backend=str(given.get("backend") or ""),
            ranks=list(range(world_size)) if world_size else [],
            ordinal=0,
            site=site,
            via=via,
        )
        recorder.write(record)

    def asked(self, given: dict[str, Any]) -> Group | None:
        """A group is about to be made; on this rank too if it is no member."""
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
        told = is_default and recorder.book.asked > 0
        site, via = sites.here(3)
        record = Group(
            phase="asked",
            group=recorder.book.name_of(str(given["group_name"])),
            description=str(given.get("group_desc") or ""),
            backend=str(given.get("backend") or ""),
            ranks=ranks,
            member=is_default or session.rank in ranks,
            ordinal=0 if is_default else recorder.book.asked,
            site=site,
            via=via,
        )
        if not told:
            recorder.book.asked += 1
            recorder.book.asking = record
            recorder.write(record)
        return record

    def ready(self, record: Group, given: dict[str, Any], result: Any) -> None:
        """The group exists."""
        recorder = self._session.recorder
        pg, store = result
        if recorder is None or not isinstance(pg, c10d.ProcessGroup):
            return
        if pg in recorder.book.states:
            return  # the same tag and ranks give the same group again
        record = Group(
            phase="ready", group=record.group, description=record.description,
            backend=groups.backend_of(pg), ranks=record.ranks, member=True,
            ordinal=record.ordinal, site=record.site, via=record.via,
        )  # fmt: skip
        recorder.book.adopt(pg, record)
        if not list(given["global_ranks_in_group"]):
            recorder.book.default = pg
            self._session.move_to_run(store, pg.rank(), pg.size())
        recorder.write(record)


def sys_exit(session: Session) -> Wrapper:
    """``sys.exit``, ``exit``, ``quit``: the status is nowhere to be found later."""

    def wrapper(wrapped: Any, _: Any, args: Any, kwargs: Any) -> Any:
        if session.live:
            session.exit_hooks.exit_code(args[0] if args else next(iter(kwargs.values()), None))
        return wrapped(*args, **kwargs)

    return wrapper


def _arguments(function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    bound = inspect.signature(function).bind_partial(*args, **kwargs)
    bound.apply_defaults()
    return bound.arguments


def _launch(given: dict[str, Any]) -> tuple[int | None, int | None]:
    """Rank and world size, from the arguments or from the launcher's environment."""
    rank, size = given.get("rank"), given.get("world_size")
    return (
        rank if isinstance(rank, int) and rank >= 0 else groups.environment_int("RANK"),
        size if isinstance(size, int) and size > 0 else groups.environment_int("WORLD_SIZE"),
    )
