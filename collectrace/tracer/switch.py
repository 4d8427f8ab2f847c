"""Enable and disable tracing: install all wrappers and hooks in order, and remove them again."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection
from contextlib import ExitStack
from typing import Final

import torch.distributed as dist

from collectrace import file_modes, records
from collectrace.config import Config, mistyped
from collectrace.tracer.life import children
from collectrace.tracer.patches import patching, python_groups, reduce_ops, steps
from collectrace.tracer.patches.targets import TARGETS
from collectrace.tracer.record import lines, scopes, sites
from collectrace.tracer.session import Session
from collectrace.tracer.tap import wire
from collectrace.tracer.user_objects import traceback_of

log = logging.getLogger("collectrace")

_session: Session | None = None
_undos: Final = ExitStack()
"""Removes everything that is installed, the latest first, even if some removals fail."""


def current() -> Session | None:
    """Return the session in progress; None: tracing is off."""
    return _session


def enable(config: Config, asked: Collection[str] = ()) -> None:
    """Enable tracing; if it is enabled already, only warn about the options that are ignored.

    ``asked``: the options that the caller has passed, without those of the environment.

    If there is a default group already, a run begins at once, with the groups that exist.
    """
    global _session
    if _session is not None:
        _warn_of_ignored(_session.config, config.absolute(), asked)
        return
    if os.environ.get("LOCAL_RANK", "0") == "0":  # once on each machine
        for sentence in [*mistyped(os.environ), *config.without_effect()]:
            log.warning("collectrace: %s", sentence)
    sites.have_libraries(config.library)
    lines.omit(config.omitted)
    file_modes.share(config.shared)
    session = Session(config)
    try:
        _install(session)
    except BaseException:
        session.live = False
        _undos.close()
        raise
    if dist.is_initialized():
        try:
            session.join_late()
        except Exception as problem:
            session.count_failure(problem, "joining a run under way")
    _session = session


def _warn_of_ignored(current: Config, wanted: Config, asked: Collection[str]) -> None:
    pairs = [(name, getattr(wanted, name), getattr(current, name)) for name in sorted(asked)]
    ignored = [f"{name}={theirs} (it is {ours})" for name, theirs, ours in pairs if theirs != ours]
    if ignored:
        log.warning(
            "collectrace: tracing is on already, and goes on as it began: %s is ignored",
            ", ".join(ignored),
        )


def _install(session: Session) -> None:
    session.unfamiliar.ops = wire.guessed()
    session.targets, undo = patching.install(TARGETS, session)
    _undos.callback(undo)
    _undos.callback(reduce_ops.install())
    _undos.callback(wire.install(session))
    _undos.callback(python_groups.install(session))
    _undos.callback(steps.install(session))
    _undos.callback(session.exit_hooks.install())
    _undos.callback(children.install(session.config))


def step() -> None:
    """Note that a step of the job begins, if tracing is on."""
    if _session is not None:
        steps.step(_session)


def disable(problem: BaseException | None = None) -> None:
    """Disable tracing: end the file, and remove everything that was installed, latest first.

    ``problem``: the exception that is the reason, which the end of the file then names.
    """
    global _session
    session, _session = _session, None
    if session is None:
        return
    try:
        if problem is not None:
            session.exit_hooks.note_exception(problem, traceback_of(problem))
            session.exit_hooks.at_end()
        session.finish(records.Exit(reason="disabled"))
    finally:
        session.live = False
        _undos.close()


def _after_fork() -> None:
    scopes.after_fork()
    if _session is not None:
        _session.after_fork()


os.register_at_fork(after_in_child=_after_fork)
