"""Wrappers that only enter a scope: of public functions, of a framework's parts, of ``backward()``.

Each function here takes a session and makes a wrapper for it. Without a run to record, a wrapper
only passes calls on.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, Final

from torch.distributed import ReduceOp, Work

from collectrace import ops
from collectrace.ops import ANY_SOURCE
from collectrace.tracer.dynamo import hide_from_dynamo
from collectrace.tracer.guard import Wrapper, contained
from collectrace.tracer.record import scopes, sites
from collectrace.tracer.record.recorder import Recorder
from collectrace.tracer.record.scopes import Scope, local, now
from collectrace.tracer.record.template import Issued
from collectrace.tracer.session import Session

Make = Callable[[Session], Wrapper]

_getframe = sys._getframe  # by a name of its own: one look-up less for each call

_SUM: Final = ReduceOp.SUM
_MEMBER: Final = ReduceOp.RedOpType
"""Class of ``ReduceOp.SUM`` and its like."""


def api(name: str) -> Callable[[Session], Callable[[Any], Any]]:
    """A public function of torch.distributed: its scope, and the end of a synchronous call.

    This is on the hot path: what is made is called in the function's place, see ``Target.direct``.
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
                    # Told to the recorder, which need not ask the operator's ReduceOp then.
                    state.reduce_op = op if type(op) is _MEMBER else None
                if scope.api is not None:
                    # Called by another public function, which is the one that counts.
                    return wrapped(*args, **kwargs)
                # Scope.inside_api, its look-up written out.
                inside = scope.children.get(name) or _inside(recorder, scope, name)
                caller = _getframe(1)
                # From here to the try nothing is called: after a call a signal handler of the
                # program may raise, and the scope would never be left.
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
                    # CallCounter.complete, written out: a synchronous call is never an open one.
                    counter = synchronous[0].counter
                    if synchronous[1] > counter.done:
                        counter.done = synchronous[1]
                elif result is not None and state.issued is not None:
                    _track(recorder, result, state.issued, args)
                return result

            return session.code.public(
                call, position, session, wrapped, name, _SUM, _MEMBER, _inside, _track
            )

        return in_place_of

    return make


def _inside(recorder: Recorder, scope: Scope, name: str) -> Scope:
    """This scope with a public function entered; the same where the tracer fails."""
    try:
        return scope.inside_api(name)
    except Exception as problem:
        recorder.count_failure(problem, f"following {name}")
    return scope


def recv(session: Session) -> Callable[[Any], Any]:
    """``recv``: as any public function, and whose message it took where it named no source.

    It returns the global rank of the sender (torch/distributed/distributed_c10d.py, torch 2.6 to
    2.15).
    """
    make = api("recv")(session)

    def in_place_of(wrapped: Any) -> Any:
        def telling(*args: Any, **kwargs: Any) -> Any:
            source = wrapped(*args, **kwargs)
            if (args[1] if len(args) > 1 else kwargs.get("src")) is not None:
                return source  # it was named; nothing more is asked
            # It is there still: the wrapper around this one sees the end of the call.
            call, recorder = local.state.call, session.recorder
            if call is not None and call[0].peer == ANY_SOURCE and recorder is not None:
                recorder.answered(call, source)
            return source

        hide_from_dynamo(telling.__code__, callees=False)
        return make(telling)

    return in_place_of


def _track(recorder: Recorder, result: Any, call: Issued, args: Any) -> None:
    """Follow the Work of an asynchronous call, if that is what the function has returned."""
    try:
        if isinstance(result, Work):
            recorder.works.track(result, call, args[0] if args else None)
    except Exception as problem:
        recorder.count_failure(problem, "following a Work")


def role(name: str) -> Make:
    """A method that issues collectives in this role; its instance is the scope's owner."""
    return role_of(lambda *_, **__: name)


def role_of(choose: Callable[..., str]) -> Make:
    """Like :func:`role`; ``choose`` gives the role, from the method's arguments."""

    def make(session: Session) -> Wrapper:
        def wrapper(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
            if session.recorder is None:
                return wrapped(*args, **kwargs)
            scope = local.state.scope.inside_role(choose(*args, **kwargs), instance)
            return scopes.within(scope, wrapped, args, kwargs)

        return wrapper

    return make


def around(what: str) -> Make:
    """A function that can take long; ``what``: as the heartbeat calls it, see ``Scope.what``."""

    def make(session: Session) -> Wrapper:
        def wrapper(wrapped: Any, _: Any, args: Any, kwargs: Any) -> Any:
            scope = local.state.scope
            if session.recorder is None or scope.what == what:
                return wrapped(*args, **kwargs)
            return scopes.within(scope.inside_what(what), wrapped, args, kwargs, now())

        return wrapper

    return make


def backward(session: Session) -> Callable[[Any], Any]:
    """``backward()``: whose line it is, and when the gradient buckets it issued are complete.

    Of ``torch.autograd.backward``, which ``Tensor.backward`` calls by that name (torch/_tensor.py,
    torch 2.6 to 2.15). A backward may run another, many deep, and each level has one frame of
    ours: autograd goes 60 levels down before it takes another thread (MAX_DEPTH,
    torch/csrc/autograd/engine.h), and Python's limit is 1,000 frames. So what is made is called in
    the function's place, see ``Target.plain``, and guards itself.
    """

    def in_place_of(wrapped: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            recorder = session.recorder
            state = local.state
            outer, outer_since = state.scope, state.since
            # A tensor subclass comes by twice.
            if recorder is None or outer.what == "backward":
                return wrapped(*args, **kwargs)
            inside, since = _backward_begins(recorder, outer, _getframe(1)), now()
            # Both at once, and nothing called before the try: see scopes.within.
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
    """The scope of a backward that begins in this one; the same where the tracer fails."""
    with contained(recorder.count_failure, _FOLLOWING):
        place = sites.find(caller, local.state)
        inside = scope.inside_what("backward")
        scopes.backward.enter(place)
        return inside
    return scope


def _backward_returned(recorder: Recorder) -> None:
    # Not in the wrapper itself, where Dynamo would compile the frames of the context manager.
    with contained(recorder.count_failure, _FOLLOWING):
        recorder.backward_over()


def _backward_ends(recorder: Recorder) -> None:
    with contained(recorder.count_failure, _FOLLOWING):
        scopes.backward.leave()
