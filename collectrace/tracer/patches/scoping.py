"""Wrappers that enter a scope: for public functions, functions of frameworks, and ``backward()``.

The functions here make wrappers for a session. Without a run, a wrapper only passes calls on.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any, Final

from torch.distributed import GroupMember, ReduceOp, Work

from collectrace import ops
from collectrace.ops import ANY_SOURCE
from collectrace.tracer import torch_api
from collectrace.tracer.guard import Wrapper, contained
from collectrace.tracer.record import scopes, sites
from collectrace.tracer.record.recorder import Recorder
from collectrace.tracer.record.scopes import Scope, local, now
from collectrace.tracer.record.template import Issued
from collectrace.tracer.session import Session

Make = Callable[[Session], Wrapper]

_getframe = sys._getframe  # a separate name saves a look-up in each call

_SUM: Final = ReduceOp.SUM
_NOBODY: Final = GroupMember.NON_GROUP_MEMBER
"""What ``new_group`` returns on a rank that is not in the group."""

_MEMBER: Final = ReduceOp.RedOpType
"""The class of ``ReduceOp.SUM`` and the other members."""


def api(name: str) -> Callable[[Session], Callable[[Any], Any]]:
    """Wrap a public function of torch.distributed: enter its scope, complete a synchronous call.

    This is on the hot path: the replacement is called without a guard, see ``Target.direct``.
    """
    position = ops.of(name).op_at

    def make(session: Session) -> Callable[[Any], Any]:
        def in_place_of(wrapped: Any) -> Any:
            def call(_: Any, /, *args: Any, **kwargs: Any) -> Any:
                recorder = session.recorder
                if recorder is None:
                    return wrapped(*args, **kwargs)
                state = local.state
                scope = state.scope
                if position is not None:
                    op = args[position] if len(args) > position else kwargs.get("op", _SUM)
                    # For the recorder, which need not query the operator's ReduceOp then.
                    state.reduce_op = op if type(op) is _MEMBER else None
                if scope.api is not None:
                    # Called by another public function, which is the one that counts.
                    return wrapped(*args, **kwargs)
                # The look-up of Scope.inside_api, inlined.
                inside = scope.children.get(name) or _inside(recorder, scope, name)
                caller = _getframe(1)
                # No call between here and the try: after one, a signal handler of the program may
                # raise, and the scope would never be left.
                outer_caller = state.caller
                state.scope, state.caller, state.issued = inside, caller, None
                try:
                    result = wrapped(*args, **kwargs)
                except BaseException as problem:
                    if state.call is not None:
                        recorder.raised(state.call, problem)
                    else:
                        recorder.left_by(problem, name)
                    raise
                finally:
                    state.scope, state.caller = scope, outer_caller
                    state.reduce_op = None
                synchronous = state.call
                if synchronous is not None:
                    state.call = state.given = None
                    # CallCounter.complete, inlined: a synchronous call is never an open one.
                    counter = synchronous[0].counter
                    if synchronous[1] > counter.done:
                        counter.done = synchronous[1]
                elif result is not None and state.issued is not None:
                    _track(recorder, result, state.issued, args)
                else:
                    _outside(recorder, name, caller, (state.issued, *args, *kwargs.values()))
                return result

            return session.code.public(
                call, position, session, wrapped, name, _SUM, _MEMBER, _inside, _track, _outside
            )

        return in_place_of

    return make


def _inside(recorder: Recorder, scope: Scope, name: str) -> Scope:
    """Return the scope inside a public function; this scope if the tracer fails."""
    try:
        return scope.inside_api(name)
    except Exception as problem:
        recorder.count_failure(problem, f"following {name}")
    return scope


def recv(session: Session) -> Callable[[Any], Any]:
    """Wrap ``recv``: as any public function, and note the sender of a receive from any source.

    ``recv`` returns the global rank of the sender (torch/distributed/distributed_c10d.py, torch
    2.6 to 2.15).
    """
    make = api("recv")(session)

    def in_place_of(wrapped: Any) -> Any:
        def telling(*args: Any, **kwargs: Any) -> Any:
            source = wrapped(*args, **kwargs)
            if (args[1] if len(args) > 1 else kwargs.get("src")) is not None:
                return source  # the program named the source
            # The call is still known: only the wrapper around this one completes it.
            call, recorder = local.state.call, session.recorder
            if call is not None and call[0].peer == ANY_SOURCE and recorder is not None:
                recorder.answered(call, source)
            return source

        torch_api.hide_from_dynamo(telling.__code__, callees=False)
        return make(telling)

    return in_place_of


def _track(recorder: Recorder, result: Any, call: Issued, args: Any) -> None:
    """Follow the Work of an asynchronous call, if the function has returned one."""
    try:
        if isinstance(result, Work):
            recorder.works.track(result, call, args[0] if args else None)
    except Exception as problem:
        recorder.count_failure(problem, "following a Work")


def _outside(
    recorder: Recorder, name: str, caller: FrameType | None, given: Iterable[Any] = (None, _NOBODY)
) -> None:
    """Note a call that torch ignored, with a warning: the rank is not in the group passed.

    ``given``: the call that it issued, or None, and its arguments.
    """
    try:
        issued, *arguments = given
        if issued is not None or not any(one is _NOBODY for one in arguments):
            return
        recorder.outside(name, caller)
    except Exception as problem:
        recorder.count_beside(problem, f"noting {name} outside of its group")


def role(name: str) -> Make:
    """Wrap a method that issues collectives in this role; its instance owns the scope."""
    return role_of(lambda *_, **__: name)


def role_of(choose: Callable[..., str]) -> Make:
    """Wrap a method like :func:`role`; ``choose`` returns the role for its arguments."""

    def make(session: Session) -> Wrapper:
        def wrapper(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
            if session.recorder is None:
                return wrapped(*args, **kwargs)
            scope = local.state.scope.inside_role(choose(*args, **kwargs), instance)
            return scopes.within(scope, wrapped, args, kwargs)

        return wrapper

    return make


def around(what: str) -> Make:
    """Wrap a function that can take long; ``what``: its name in heartbeats, see ``Scope.what``."""

    def make(session: Session) -> Wrapper:
        def wrapper(wrapped: Any, _: Any, args: Any, kwargs: Any) -> Any:
            scope = local.state.scope
            if session.recorder is None or scope.what == what:
                return wrapped(*args, **kwargs)
            return scopes.within(scope.inside_what(what), wrapped, args, kwargs, now())

        return wrapper

    return make


def backward(session: Session) -> Callable[[Any], Any]:
    """Wrap ``backward()``: note the line that calls it, and when its gradient buckets are complete.

    ``Tensor.backward`` calls ``torch.autograd.backward`` by that name (torch/_tensor.py, torch 2.6
    to 2.15). Backwards may be nested, and each level adds one frame of ours. Autograd nests 60
    levels before it uses another thread (MAX_DEPTH, torch/csrc/autograd/engine.h). Python's limit
    is 1,000 frames. So the replacement is a plain function that guards itself, see
    ``Target.plain``.
    """

    def in_place_of(wrapped: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            recorder = session.recorder
            state = local.state
            outer, outer_since = state.scope, state.since
            # A tensor subclass calls this twice.
            if recorder is None or outer.what == "backward":
                return wrapped(*args, **kwargs)
            inside, since = _backward_begins(recorder, outer, _getframe(1)), now()
            # One assignment, and no call before the try: see scopes.within.
            state.scope, state.since = inside, since
            try:
                result = wrapped(*args, **kwargs)
            except BaseException as problem:
                recorder.left_by(problem, "backward")
                raise
            finally:
                state.scope, state.since = outer, outer_since
                if inside is not outer:
                    _backward_ends(recorder)
            _backward_returned(recorder)
            return result

        return call

    return in_place_of


_FOLLOWING: Final = "following backward"


def _backward_begins(recorder: Recorder, scope: Scope, caller: FrameType) -> Scope:
    """Return the scope inside a backward that begins; this scope if the tracer fails."""
    with contained(recorder.count_failure, _FOLLOWING):
        place = sites.find(caller, local.state)
        inside = scope.inside_what("backward")
        scopes.backward.enter(place)
        return inside
    return scope


def _backward_returned(recorder: Recorder) -> None:
    # A separate function: in the wrapper, Dynamo would compile the context manager's frames.
    with contained(recorder.count_failure, _FOLLOWING):
        recorder.backward_over()


def _backward_ends(recorder: Recorder) -> None:
    with contained(recorder.count_failure, _FOLLOWING):
        scopes.backward.leave()
