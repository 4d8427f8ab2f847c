"""Switches tracing on and off: what is installed, in which order, and how it comes off again."""

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
"""Takes off what is installed, the latest first, whatever fails of it."""


def current() -> Session | None:
    """The session in progress; None: tracing is off."""
    return _session


def enable(config: Config, asked: Collection[str] = ()) -> None:
    """Switch tracing on; where it is on already, only say which options that ignores.

    ``asked``: the options that were given by who asks for it, and not by the environment.

    If there is a default group already, a run begins at once, with the groups that exist.
    """
    global _session
    if _session is not None:
        _say_ignored(_session.config, config.absolute(), asked)
        return
    if os.environ.get("LOCAL_RANK", "0") == "0":  # once on each machine
        for sentence in mistyped(os.environ):
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


def _say_ignored(current: Config, wanted: Config, asked: Collection[str]) -> None:
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
    """A step of the job begins; nothing where tracing is off."""
    if _session is not None:
        steps.step(_session)


def disable(problem: BaseException | None = None) -> None:
    """Switch tracing off: end the file, and take off all that was installed, latest first.

    ``problem``: the exception because of which, so that the file ends with it.
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
